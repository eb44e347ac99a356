//! `xtask bench`: measures what a request costs at Galley and at other servers, on one machine, in one run.
//!
//! All contenders serve the same WordPress from the same core and receive the same requests from the same client on another
//! core, alternately, in several rounds. The files in `bench/` define the contenders, the scenarios and the targets. If a
//! contender fails, the run continues without that measurement and lists the failure at the end.

mod ab;
mod certificate;
mod chart;
mod check;
mod contender;
mod context;
mod cpu;
mod dictionary;
mod figure;
pub(crate) mod floor;
pub(crate) mod hold;
mod idle;
mod machine;
mod measure;
mod outcome;
mod pin;
mod placeholders;
mod plan;
mod prefault;
mod processes;
mod progress;
mod readme;
mod report;
mod requests;
mod rounds;
mod settings;
mod site;
mod stampede;
mod table;
mod verdict;

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

pub(crate) use self::{
    ab::{AbCommand, AbOutcome, run as run_ab},
    certificate::Certificate,
    chart::{Bar, BarRole, bar_chart},
    check::decompress,
    cpu::{CpuTimes, CpuUsage},
    figure::rounded,
    idle::wait_until_idle,
    machine::Machine,
    pin::{Cores, on_core},
    placeholders::Placeholders,
    plan::UsageError,
    processes::{ProcessTree, ThreadTimes},
    table::version_number,
};
use self::{
    plan::{BenchPlan, Selection},
    report::BenchReport,
};
use crate::error::CommandError;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The galley program
    #[arg(long, value_name = "PATH", default_value = "target/release/galley")]
    galley: PathBuf,
    /// One short round with the more important contenders, in about five minutes
    #[arg(long)]
    quick: bool,
    /// The folder with scenarios.toml and contenders.toml
    #[arg(long, value_name = "FOLDER", default_value = "bench")]
    scenarios: PathBuf,
    /// Only these contenders, by name; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Only these scenarios, by name; may be given several times
    #[arg(long, value_name = "NAME")]
    scenario: Vec<String>,
    /// Number of rounds [default: as in scenarios.toml]
    #[arg(long, value_name = "COUNT")]
    rounds: Option<u32>,
    /// Folder for the tables, charts and JSON files
    #[arg(long, value_name = "FOLDER", default_value = "bench/out")]
    out: PathBuf,
    /// Show an earlier run from its JSON file, without measuring
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Also write the table of the README, its charts and bench/results.md
    #[arg(long)]
    readme: bool,
    /// List scenarios and contenders, and exit
    #[arg(long)]
    list: bool,
}

/// Runs the selected scenarios and writes the results. A signal stops the run early.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    // Most of it needs a browser, so it is no scenario of the files.
    if let [name] = &arguments.scenario[..]
        && dictionary::NAMES.contains(&name.as_str())
    {
        let galley = existing_program(&arguments.galley)?;
        return dictionary::run(&galley, name, arguments.quick);
    }
    let selection = Selection {
        quick: arguments.quick,
        contenders: &arguments.only,
        scenarios: &arguments.scenario,
    };
    let mut plan = BenchPlan::load(&arguments.scenarios, selection)?;
    if let Some(rounds) = arguments.rounds {
        plan.length.rounds = rounds.max(1);
    }
    if arguments.list {
        print_scenarios(&plan);
        return Ok(());
    }
    let report = if let Some(path) = &arguments.from {
        BenchReport::read(path)?
    } else {
        let galley = existing_program(&arguments.galley)?;
        rounds::run_plan(galley, &arguments.scenarios, &plan)?
    };
    write_results(arguments, &plan, &report)
}

fn print_scenarios(plan: &BenchPlan) {
    for scenario in &plan.scenarios {
        println!("{}: {}", scenario.name, scenario.title);
        println!("    {}", scenario.contenders.join(" "));
    }
    let [all, parts @ ..] = dictionary::NAMES;
    println!("{all}: Compression dictionaries in Chromium (alone; prints tables only)");
    println!("    its parts: {}", parts.join(" "));
}

/// Prints the tables, writes all result files, and prints their names.
fn write_results(
    arguments: &Arguments,
    plan: &BenchPlan,
    report: &BenchReport,
) -> Result<(), CommandError> {
    let out = &arguments.out;
    fs::create_dir_all(out)?;
    let file = |suffix: &str| out.join(format!("{}{suffix}", report.file_name()));
    let (json, markdown) = (file(".json"), file(".md"));
    if arguments.from.is_none() {
        fs::write(&json, serde_json::to_vec_pretty(report)?)
            .map_err(|error| format!("cannot write `{}`: {error}", json.display()))?;
    }
    let table = table::markdown(plan, report);
    fs::write(&markdown, &table)?;
    let charts = file("-charts");
    fs::create_dir_all(&charts)?;
    for scenario in &report.scenarios {
        if let Some(svg) = chart::svg(scenario, report, &plan.subject) {
            fs::write(charts.join(format!("{}.svg", scenario.name)), svg)?;
        }
    }
    print!("{table}");
    println!(
        "\nwritten: {}, {}, {}",
        json.display(),
        markdown.display(),
        charts.display()
    );
    if arguments.readme {
        let root = arguments.scenarios.parent().unwrap_or(Path::new("."));
        readme::write(root, plan, report)?;
        println!("written: README.md, docs/images, bench/results.md");
    }
    match report.failures.len() {
        // The earlier run has already reported its failures.
        _ if arguments.from.is_some() => Ok(()),
        0 => Ok(()),
        count => Err(format!("{count} failures during the run: see above").into()),
    }
}

/// Raises the limit of descriptors, for ten thousand connections of the client and of the servers, which inherit the limit.
pub(crate) fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    );
}

/// The absolute path of a program that must exist.
pub(crate) fn existing_program(path: &Path) -> Result<PathBuf, CommandError> {
    fs::canonicalize(path).map_err(|_| {
        UsageError::new(format!(
            "`{}` does not exist: run `make build`",
            path.display()
        ))
        .into()
    })
}
