//! `xtask growth`: what a hit costs while entries and connections grow, and while other work goes on.
//!
//! What is measured is in the kit's [`galley_testkit::growth`], which the tests run in a short form. Talk goes to stderr, the
//! table to stdout; a promise that was not kept fails the run.

use std::{fmt::Write as _, fs, path::PathBuf};

use galley_testkit::growth::{Figure, Form, Part, Promise, Setting};
use serde_json::json;

use crate::demo::CommandError;

/// What the command line says.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The server binary
    #[arg(long, default_value = "target/release/galley")]
    galley: PathBuf,
    /// Only these parts: entries, connections, beside, dashboards, cluster, limit, pages
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The form that `make test` runs
    #[arg(long)]
    short: bool,
    /// JSON instead of the table
    #[arg(long)]
    json: bool,
}

/// Measures and prints; a part that cannot be run at all is a complaint too.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    let galley = fs::canonicalize(&arguments.galley).map_err(|_| {
        let path = arguments.galley.display();
        format!("`{path}` is not there: run `make build`")
    })?;
    let setting = Setting {
        galley,
        form: if arguments.short {
            Form::Short
        } else {
            Form::Long
        },
        progress: |text| eprintln!("growth: {text}"),
    };
    let mut figures = Vec::new();
    for part in wanted(&arguments.only)? {
        let measured = part.run(&setting).map_err(|trouble| trouble.to_string())?;
        figures.extend(measured);
    }
    if arguments.json {
        println!("{:#}", json(&figures, setting.form));
    } else {
        print!("{}", markdown(&figures, setting.form));
    }
    match figures
        .iter()
        .filter(|one| !one.is_kept(setting.form))
        .count()
    {
        0 => Ok(()),
        broken => Err(format!("{broken} promises were not kept: see above").into()),
    }
}

fn wanted(only: &[String]) -> Result<Vec<Part>, CommandError> {
    if only.is_empty() {
        return Ok(Part::ALL.to_vec());
    }
    let find = |name: &String| {
        let found = Part::ALL.into_iter().find(|part| part.name() == name);
        found.ok_or_else(|| format!("no part `{name}` is known").into())
    };
    only.iter().map(find).collect()
}

fn markdown(figures: &[Figure], form: Form) -> String {
    let mut out = String::from("| what | case | measured | promised | |\n|---|---|--:|--:|---|\n");
    for figure in figures {
        let Figure {
            what,
            case,
            value,
            unit,
            promise,
        } = figure;
        let measured = match promise {
            Promise::LeftOut => "left out".to_owned(),
            _ => format!("{} {unit}", shown(*value)),
        };
        let promised = promised(*promise);
        let mark = match (promise, figure.is_kept(form)) {
            (Promise::None | Promise::LeftOut, _) => "",
            (_, true) => "kept",
            (_, false) => "NOT KEPT",
        };
        let _ = writeln!(
            out,
            "| {what} | {case} | {measured} | {promised} | {mark} |"
        );
    }
    out
}

fn promised(promise: Promise) -> String {
    match promise {
        Promise::None | Promise::LeftOut => String::new(),
        Promise::Exactly(value) => shown(value),
        Promise::AtMost(value) | Promise::TimeAtMost(value) => format!("at most {}", shown(value)),
    }
}

/// Whole numbers as such, others with two places.
fn shown(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

fn json(figures: &[Figure], form: Form) -> serde_json::Value {
    let rows = figures.iter().map(|figure| {
        json!({
            "what": figure.what,
            "case": figure.case,
            "value": figure.value,
            "unit": figure.unit,
            "promised": promised(figure.promise),
            "left_out": figure.promise == Promise::LeftOut,
            "kept": figure.is_kept(form),
        })
    });
    json!({ "figures": rows.collect::<Vec<_>>() })
}
