//! `xtask growth`: measures the cost of a hit while entries and connections grow, and during other work.
//!
//! The measurements are in [`galley_testkit::growth`]; `make test` runs their short version. Progress goes to stderr, the table
//! to stdout. The command fails if a goal is missed.

use std::{fmt::Write as _, fs, path::PathBuf};

use galley_testkit::growth::{Goal, GrowthPart, GrowthSettings, Measurement, RunLength};
use serde_json::json;

use crate::error::CommandError;

/// Command-line arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The server binary
    #[arg(long, default_value = "target/release/galley")]
    galley: PathBuf,
    /// Only these parts: entries, connections, beside, dashboards, cluster, limit, pages
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The short version, which `make test` runs
    #[arg(long)]
    short: bool,
    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
}

/// Runs the parts and prints the measurements.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    let galley = fs::canonicalize(&arguments.galley).map_err(|_| {
        let path = arguments.galley.display();
        format!("`{path}` does not exist: run `make build`")
    })?;
    let settings = GrowthSettings {
        galley,
        length: if arguments.short {
            RunLength::Short
        } else {
            RunLength::Long
        },
        progress: |text| eprintln!("growth: {text}"),
    };
    let mut measurements = Vec::new();
    for part in parts(&arguments.only)? {
        let measured = part.run(&settings).map_err(|error| error.to_string())?;
        measurements.extend(measured);
    }
    if arguments.json {
        println!("{:#}", json(&measurements, settings.length));
    } else {
        print!("{}", markdown(&measurements, settings.length));
    }
    match measurements
        .iter()
        .filter(|measurement| !measurement.meets_goal(settings.length))
        .count()
    {
        0 => Ok(()),
        missed => Err(format!("{missed} goals were missed: see above").into()),
    }
}

fn parts(only: &[String]) -> Result<Vec<GrowthPart>, CommandError> {
    if only.is_empty() {
        return Ok(GrowthPart::ALL.to_vec());
    }
    let find = |name: &String| {
        let found = GrowthPart::ALL.into_iter().find(|part| part.name() == name);
        found.ok_or_else(|| format!("unknown part `{name}`").into())
    };
    only.iter().map(find).collect()
}

fn markdown(measurements: &[Measurement], length: RunLength) -> String {
    let mut out = String::from("| what | case | measured | promised | |\n|---|---|--:|--:|---|\n");
    for measurement in measurements {
        let Measurement {
            what,
            case,
            value,
            unit,
            goal,
        } = measurement;
        let measured = match goal {
            Goal::Skipped => "left out".to_owned(),
            _ => format!("{} {unit}", number(*value)),
        };
        let promised = limit(*goal);
        let mark = match (goal, measurement.meets_goal(length)) {
            (Goal::None | Goal::Skipped, _) => "",
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

fn limit(goal: Goal) -> String {
    match goal {
        Goal::None | Goal::Skipped => String::new(),
        Goal::Exactly(value) => number(value),
        Goal::AtMost(value) | Goal::TimeAtMost(value) => format!("at most {}", number(value)),
    }
}

/// Formats whole numbers without decimal places, others with two.
fn number(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

fn json(measurements: &[Measurement], length: RunLength) -> serde_json::Value {
    let figures = measurements.iter().map(|measurement| {
        json!({
            "what": measurement.what,
            "case": measurement.case,
            "value": measurement.value,
            "unit": measurement.unit,
            "promised": limit(measurement.goal),
            "left_out": measurement.goal == Goal::Skipped,
            "kept": measurement.meets_goal(length),
        })
    });
    json!({ "figures": figures.collect::<Vec<_>>() })
}
