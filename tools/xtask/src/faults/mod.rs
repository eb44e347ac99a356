//! `xtask faults`: the fault tests in their long form, each part after the other, and a table of what they counted.
//!
//! What is done is in the kit's [`galley_testkit::faults`], which the tests run in a short form. Talk goes to stderr, the
//! table to stdout; anything stale, torn, failed or broken fails the run.

mod table;

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use galley_testkit::faults::{Form, Part, Setting, Tally};

use crate::demo::CommandError;

/// What the command line says.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The server binary
    #[arg(long, default_value = "target/release/galley")]
    galley: PathBuf,
    /// Only these parts: kill, sync, full, damage, denied, clock, upstream, start
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Draws the same kills, damages and orders again
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The form that `make test` runs
    #[arg(long)]
    short: bool,
}

/// One part that was run.
struct Run {
    part: Part,
    took: Duration,
    tally: Tally,
}

/// Runs the parts and prints the table; a part that cannot be run at all is a complaint too.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    let setting = Setting {
        galley: fs::canonicalize(&arguments.galley).map_err(|_| {
            format!(
                "`{}` is not there: run `make build`",
                arguments.galley.display()
            )
        })?,
        seed: arguments.seed,
        form: if arguments.short {
            Form::Short
        } else {
            Form::Long
        },
    };
    let parts = wanted(&arguments.only)?;
    println!("seed {}\n", setting.seed);
    let mut runs = Vec::new();
    for part in parts {
        eprintln!("faults: {}", part.title());
        let began = Instant::now();
        let tally = part.run(&setting).unwrap_or_else(|trouble| Tally {
            broken: 1,
            complaints: vec![trouble.to_string()],
            ..Tally::default()
        });
        let took = began.elapsed();
        for complaint in &tally.complaints {
            eprintln!("  {complaint}");
        }
        eprintln!("  {} s", took.as_secs());
        runs.push(Run { part, took, tally });
    }
    print!("{}", table::markdown(&runs));
    let unclean = runs.iter().filter(|run| !run.tally.is_clean()).count();
    match unclean {
        0 => Ok(()),
        parts => Err(format!("{parts} parts found something: see above").into()),
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
