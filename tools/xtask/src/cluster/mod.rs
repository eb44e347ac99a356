//! `xtask cluster`: three nodes, an engine with a replica and a real WordPress, each on a machine of its own, harmed round
//! after round.
//!
//! What is done is in the kit's [`galley_testkit::cluster`]. Progress goes to stderr, the table to stdout; anything stale, torn,
//! failed or broken fails the run.

use std::{
    fmt::Write as _,
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use galley_testkit::cluster::{Outcome, Scenario, Setting, run as run_rounds};

use crate::demo::Complaint;

/// What the command line says.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The server binary
    #[arg(long, default_value = "target/release/galley")]
    galley: PathBuf,
    /// The plugin's folder
    #[arg(long, default_value = "wordpress-plugin/galley")]
    plugin: PathBuf,
    /// How many rounds; the scenarios take turns
    #[arg(long, default_value_t = 200)]
    rounds: usize,
    /// Only these scenarios, for example partition,failover
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Draws the same moments again
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the rounds and prints the table; a cluster that cannot be started is a complaint too.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Complaint> {
    let find = |path: &PathBuf| {
        fs::canonicalize(path).map_err(|_| format!("`{}` is not there", path.display()))
    };
    let setting = Setting {
        galley: find(&arguments.galley)?,
        plugin: find(&arguments.plugin)?,
        seed: arguments.seed,
        rounds: arguments.rounds,
        scenarios: wanted(&arguments.only)?,
    };
    let began = Instant::now();
    let outcomes = run_rounds(&setting, |round, scenario, outcome| {
        let tally = &outcome.tally;
        eprintln!(
            "cluster: {round} of {}: {}: {} reads, {} stale, {} torn, {} failed, {} broken ({} s)",
            arguments.rounds,
            scenario.name(),
            tally.pages,
            tally.stale,
            tally.torn,
            tally.failed,
            tally.broken,
            began.elapsed().as_secs(),
        );
        for complaint in &tally.complaints {
            eprintln!("  {complaint}");
        }
    })
    .map_err(|trouble| trouble.to_string())?;
    println!(
        "seed {}, {} rounds, {} s\n",
        arguments.seed,
        arguments.rounds,
        began.elapsed().as_secs()
    );
    print!("{}", markdown(&outcomes));
    let ran = outcomes
        .iter()
        .filter(|(_, outcome)| outcome.tally.rounds > 0);
    match ran.filter(|(_, outcome)| !outcome.tally.is_clean()).count() {
        0 => Ok(()),
        count => Err(format!("{count} scenarios found something: see above").into()),
    }
}

fn wanted(only: &[String]) -> Result<Vec<Scenario>, Complaint> {
    if only.is_empty() {
        return Ok(Scenario::ALL.to_vec());
    }
    let find = |name: &String| {
        let found = Scenario::ALL.into_iter().find(|one| one.name() == name);
        found.ok_or_else(|| {
            let all: Vec<&str> = Scenario::ALL.map(Scenario::name).to_vec();
            format!("no scenario `{name}` is known: {}", all.join(", ")).into()
        })
    };
    only.iter().map(find).collect()
}

fn markdown(outcomes: &[(Scenario, Outcome)]) -> String {
    let mut out = String::from(
        "| scenario | rounds | edits acknowledged | after ms, median (longest) | reads | of them hits | stale | torn | failed | broken |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    let mut all = Outcome::default();
    for (scenario, outcome) in outcomes {
        row(scenario.name(), outcome, &mut out);
        all.tally += outcome.tally.clone();
        all.acknowledged_after
            .extend(outcome.acknowledged_after.iter().copied());
    }
    row("all", &all, &mut out);
    for complaint in &all.tally.complaints {
        let _ = writeln!(out, "\n- FOUND: {}", complaint.trim());
    }
    out
}

fn row(name: &str, outcome: &Outcome, out: &mut String) {
    let tally = &outcome.tally;
    let mut times: Vec<Duration> = outcome.acknowledged_after.clone();
    times.sort_unstable();
    let middle = times.get(times.len() / 2).copied().unwrap_or_default();
    let longest = times.last().copied().unwrap_or_default();
    let _ = writeln!(
        out,
        "| {name} | {} | {} | {} ({}) | {} | {} | {} | {} | {} | {} |",
        tally.rounds,
        tally.purges,
        middle.as_millis(),
        longest.as_millis(),
        tally.pages,
        tally.hits,
        tally.stale,
        tally.torn,
        tally.failed,
        tally.broken
    );
}
