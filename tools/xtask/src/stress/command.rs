//! The command lines, and the output.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use galley_testkit::stress::{PartReport, RunLength, StressPart, StressSettings};

use super::table;
use crate::error::CommandError;

/// Command-line arguments of `soak`.
#[derive(Debug, clap::Args)]
pub(crate) struct SoakArguments {
    #[command(flatten)]
    common: Common,
    /// Number of requests, instead of 5,000,000
    #[arg(long)]
    requests: Option<u64>,
    /// Number of connections, instead of 250
    #[arg(long)]
    connections: Option<usize>,
}

/// Command-line arguments of `stress`.
#[derive(Debug, clap::Args)]
pub(crate) struct StressArguments {
    #[command(flatten)]
    common: Common,
    /// Only these parts: crowd, slow, killed, crawl, clients, swarm
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Kill PHP for this number of seconds, instead of 600
    #[arg(long)]
    killed_for: Option<u64>,
}

#[derive(Debug, clap::Args)]
struct Common {
    /// The server binary
    #[arg(long, default_value = "target/release/galley")]
    galley: PathBuf,
    /// The short version, which `make test` runs
    #[arg(long)]
    short: bool,
    /// Print one line of JSON after the table
    #[arg(long)]
    json: bool,
}

/// Runs the soak test and prints the results.
pub(crate) fn soak(arguments: &SoakArguments) -> Result<(), CommandError> {
    let settings = StressSettings {
        requests: arguments.requests,
        connections: arguments.connections,
        ..settings(&arguments.common, |text| eprintln!("soak: {text}"))?
    };
    run(&arguments.common, &settings, &[StressPart::Soak])
}

/// Runs the stress test and prints the results.
pub(crate) fn stress(arguments: &StressArguments) -> Result<(), CommandError> {
    let settings = StressSettings {
        killed_for: arguments.killed_for.map(Duration::from_secs),
        ..settings(&arguments.common, |text| eprintln!("stress: {text}"))?
    };
    run(&arguments.common, &settings, &parts(&arguments.only)?)
}

fn settings(common: &Common, progress: fn(&str)) -> Result<StressSettings, CommandError> {
    Ok(StressSettings {
        galley: binary(&common.galley)?,
        length: if common.short {
            RunLength::Short
        } else {
            RunLength::Long
        },
        requests: None,
        connections: None,
        killed_for: None,
        progress,
    })
}

fn binary(path: &Path) -> Result<PathBuf, CommandError> {
    let found = fs::canonicalize(path);
    found.map_err(|_| format!("`{}` does not exist: run `make build`", path.display()).into())
}

fn parts(only: &[String]) -> Result<Vec<StressPart>, CommandError> {
    if only.is_empty() {
        return Ok(StressPart::STRESS.to_vec());
    }
    let find = |name: &String| {
        let found = StressPart::STRESS
            .into_iter()
            .find(|part| part.name() == name);
        found.ok_or_else(|| format!("unknown part `{name}`").into())
    };
    only.iter().map(find).collect()
}

/// Runs the parts and prints the results; a part that cannot run is reported as a violation.
fn run(
    common: &Common,
    settings: &StressSettings,
    parts: &[StressPart],
) -> Result<(), CommandError> {
    let mut reports = Vec::new();
    for part in parts {
        let report = part.run(settings).unwrap_or_else(|error| PartReport {
            title: part.name().to_owned(),
            violations: vec![format!("the part could not run: {error}")],
            ..PartReport::default()
        });
        reports.push((*part, report));
    }
    print!("{}", table::markdown(&reports, settings.length));
    if common.json {
        println!("{}", table::json(&reports, settings.length));
    }
    let missed = reports
        .iter()
        .map(|(_, report)| report.missed_goals(settings.length).len());
    match missed.sum() {
        0_usize => Ok(()),
        count => Err(format!("{count} limits were exceeded: see above").into()),
    }
}
