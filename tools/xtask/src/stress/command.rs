//! The command lines, and the report.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use galley_testkit::stress::{Form, Part, Row, Setting};

use super::table;
use crate::demo::CommandError;

/// What the command line says of the soak.
#[derive(Debug, clap::Args)]
pub(crate) struct SoakArguments {
    #[command(flatten)]
    common: Common,
    /// So many requests, instead of 5,000,000
    #[arg(long)]
    requests: Option<u64>,
    /// Over so many connections, instead of 250
    #[arg(long)]
    connections: Option<usize>,
}

/// What the command line says of the stress test.
#[derive(Debug, clap::Args)]
pub(crate) struct StressArguments {
    #[command(flatten)]
    common: Common,
    /// Only these parts: crowd, slow, killed, crawl, swarm
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Kill PHP for so many seconds, instead of 600
    #[arg(long)]
    killed_for: Option<u64>,
}

#[derive(Debug, clap::Args)]
struct Common {
    /// The server binary
    #[arg(long, default_value = "target/release/galley")]
    galley: PathBuf,
    /// The form that `make test` runs
    #[arg(long)]
    short: bool,
    /// One line of JSON behind the table
    #[arg(long)]
    json: bool,
}

/// Runs the soak and prints.
pub(crate) fn soak(arguments: &SoakArguments) -> Result<(), CommandError> {
    let setting = Setting {
        requests: arguments.requests,
        connections: arguments.connections,
        ..setting(&arguments.common, |text| eprintln!("soak: {text}"))?
    };
    report(&arguments.common, &setting, &[Part::Soak])
}

/// Runs the stress test and prints.
pub(crate) fn stress(arguments: &StressArguments) -> Result<(), CommandError> {
    let setting = Setting {
        killed_for: arguments.killed_for.map(Duration::from_secs),
        ..setting(&arguments.common, |text| eprintln!("stress: {text}"))?
    };
    report(&arguments.common, &setting, &wanted(&arguments.only)?)
}

fn setting(common: &Common, progress: fn(&str)) -> Result<Setting, CommandError> {
    Ok(Setting {
        galley: binary(&common.galley)?,
        form: if common.short {
            Form::Short
        } else {
            Form::Long
        },
        requests: None,
        connections: None,
        killed_for: None,
        progress,
    })
}

fn binary(path: &Path) -> Result<PathBuf, CommandError> {
    let found = fs::canonicalize(path);
    found.map_err(|_| format!("`{}` is not there: run `make build`", path.display()).into())
}

fn wanted(only: &[String]) -> Result<Vec<Part>, CommandError> {
    if only.is_empty() {
        return Ok(Part::STRESS.to_vec());
    }
    let find = |name: &String| {
        let found = Part::STRESS.into_iter().find(|part| part.name() == name);
        found.ok_or_else(|| format!("no part `{name}` is known").into())
    };
    only.iter().map(find).collect()
}

/// Runs the parts; one that cannot be run at all is a broken promise of its own.
fn report(common: &Common, setting: &Setting, parts: &[Part]) -> Result<(), CommandError> {
    let mut rows = Vec::new();
    for part in parts {
        let row = part.run(setting).unwrap_or_else(|trouble| Row {
            title: part.name().to_owned(),
            broken: vec![format!("it could not be run: {trouble}")],
            ..Row::default()
        });
        rows.push((*part, row));
    }
    print!("{}", table::markdown(&rows, setting.form));
    if common.json {
        println!("{}", table::json(&rows, setting.form));
    }
    let all = rows.iter().map(|(_, row)| row.complaints(setting.form));
    match all.map(|complaints| complaints.len()).sum() {
        0_usize => Ok(()),
        broken => Err(format!("{broken} promises were not kept: see above").into()),
    }
}
