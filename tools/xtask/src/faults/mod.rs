//! `xtask faults`: runs the long fault tests one after another and prints a table of the results.
//!
//! [`galley_testkit::faults`] contains the tests; `cargo test` runs them with few rounds. Progress goes to stderr, the
//! table to stdout. A stale or torn response, a failure or a broken promise fails the run.

mod table;

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use galley_testkit::faults::{FaultReport, FaultSettings, FaultTest, TestLength};

use crate::error::CommandError;

/// The command-line options.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The server binary
    #[arg(long, default_value = "target/release/galley")]
    galley: PathBuf,
    /// Only these tests: kill, sync, full, damage, denied, clock, upstream, start
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Seed of all random numbers; equal seeds give equal kills, damages and purges
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs the short tests, as `make test` does
    #[arg(long)]
    short: bool,
}

/// A completed test.
struct TestRun {
    test: FaultTest,
    time: Duration,
    report: FaultReport,
}

/// Runs the tests and prints the table. A test that cannot run counts as a failure.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    let settings = FaultSettings {
        galley: fs::canonicalize(&arguments.galley).map_err(|_| {
            format!(
                "`{}` does not exist: run `make build`",
                arguments.galley.display()
            )
        })?,
        seed: arguments.seed,
        length: if arguments.short {
            TestLength::Short
        } else {
            TestLength::Long
        },
    };
    let tests = selected(&arguments.only)?;
    println!("seed {}\n", settings.seed);
    let mut runs = Vec::new();
    for test in tests {
        eprintln!("faults: {}", test.title());
        let started = Instant::now();
        let report = test.run(&settings).unwrap_or_else(|error| FaultReport {
            broken: 1,
            findings: vec![error.to_string()],
            ..FaultReport::default()
        });
        let time = started.elapsed();
        for finding in &report.findings {
            eprintln!("  {finding}");
        }
        eprintln!("  {} s", time.as_secs());
        runs.push(TestRun { test, time, report });
    }
    print!("{}", table::markdown(&runs));
    let failed = runs.iter().filter(|run| !run.report.is_clean()).count();
    match failed {
        0 => Ok(()),
        count => Err(format!("{count} tests failed: see above").into()),
    }
}

fn selected(only: &[String]) -> Result<Vec<FaultTest>, CommandError> {
    if only.is_empty() {
        return Ok(FaultTest::ALL.to_vec());
    }
    let find = |name: &String| {
        let test = FaultTest::ALL.into_iter().find(|test| test.name() == name);
        test.ok_or_else(|| format!("unknown test `{name}`").into())
    };
    only.iter().map(find).collect()
}
