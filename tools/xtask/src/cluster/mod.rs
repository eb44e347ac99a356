//! `xtask cluster`: three nodes, an engine with a replica and a real WordPress, each on a machine of its own, harmed round
//! after round.
//!
//! Then three nodes that nothing harms purge as fast as they can. What is done is in the kit's [`galley_testkit::cluster`]. Progress goes to stderr, the table to stdout; anything stale, torn,
//! failed or broken fails the run.

use std::{
    fmt::Write as _,
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use galley_testkit::cluster::{
    Finding, Outcome, PurgeRates, Scenario, Setting, purge_rates, run as run_rounds,
};

use crate::demo::CommandError;

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

/// Runs the rounds and prints the tables; a cluster that cannot be started is a complaint too.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    let known = Scenario::WITH_ADDRESS
        .iter()
        .chain(&Scenario::WITH_SENTINELS);
    let known: Vec<&str> = known.map(|scenario| scenario.name()).collect();
    if let Some(name) = (arguments.only.iter()).find(|name| !known.contains(&name.as_str())) {
        let known = known.join(", ");
        return Err(format!("no scenario `{name}` is known: {known}").into());
    }
    let began = Instant::now();
    println!("seed {}, {} rounds\n", arguments.seed, arguments.rounds);
    let mut unclean = 0;
    let with_sentinels = arguments.rounds / 4;
    for (finding, all, rounds) in [
        (
            Finding::Address,
            Scenario::WITH_ADDRESS.as_slice(),
            arguments.rounds - with_sentinels,
        ),
        (
            Finding::Sentinels,
            Scenario::WITH_SENTINELS.as_slice(),
            with_sentinels,
        ),
    ] {
        let scenarios = wanted(all, &arguments.only);
        if scenarios.is_empty() || rounds == 0 {
            continue;
        }
        let outcomes = run_all(arguments, finding, scenarios, rounds)?;
        let found_by = match finding {
            Finding::Address => "an address",
            Finding::Sentinels => "sentinels",
        };
        println!(
            "Nodes that find the engine by {found_by}:\n\n{}",
            markdown(&outcomes)
        );
        unclean += outcomes
            .iter()
            .filter(|(_, outcome)| outcome.tally.rounds > 0 && !outcome.tally.is_clean())
            .count();
    }
    if arguments.only.is_empty() {
        eprintln!("cluster: purging as fast as it goes");
        let setting = setting(arguments, Finding::Address, Vec::new(), 0)?;
        println!(
            "{}\n",
            rates(&purge_rates(&setting).map_err(|trouble| trouble.to_string())?)
        );
    }
    println!("{} s", began.elapsed().as_secs());
    match unclean {
        0 => Ok(()),
        count => Err(format!("{count} scenarios found something: see above").into()),
    }
}

fn run_all(
    arguments: &Arguments,
    finding: Finding,
    scenarios: Vec<Scenario>,
    rounds: usize,
) -> Result<Vec<(Scenario, Outcome)>, CommandError> {
    let setting = setting(arguments, finding, scenarios, rounds)?;
    let began = Instant::now();
    let outcomes = run_rounds(&setting, |round, scenario, outcome| {
        let tally = &outcome.tally;
        eprintln!(
            "cluster: {round} of {rounds}: {}: {} reads, {} stale, {} torn, {} failed, {} broken ({} s)",
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
    });
    outcomes.map_err(|trouble| trouble.to_string().into())
}

fn setting(
    arguments: &Arguments,
    finding: Finding,
    scenarios: Vec<Scenario>,
    rounds: usize,
) -> Result<Setting, CommandError> {
    let find = |path: &PathBuf| {
        fs::canonicalize(path).map_err(|_| format!("`{}` is not there", path.display()))
    };
    Ok(Setting {
        galley: find(&arguments.galley)?,
        plugin: find(&arguments.plugin)?,
        seed: arguments.seed,
        rounds,
        scenarios,
        finding,
    })
}

fn rates(rates: &PurgeRates) -> String {
    let mut times = rates.one_by_one.clone();
    times.sort_unstable();
    let quantile = |percent: usize| {
        let at = (times.len() * percent / 100).min(times.len().saturating_sub(1));
        times.get(at).copied().unwrap_or_default().as_secs_f64() * 1000.0
    };
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let each_second = rates.acknowledged as f64 / rates.time.as_secs_f64();
    format!(
        "{} purges one after the other: acknowledged after {:.2} ms at the median, {:.2} ms at the 99th percentile.\n\
         {} clients at the same time: {each_second:.0} purges a second final on all nodes, {} on one node only.",
        times.len(),
        quantile(50),
        quantile(99),
        rates.clients,
        rates.local
    )
}

/// Those of `all` that the command line names; all of them where it names none.
fn wanted(all: &[Scenario], only: &[String]) -> Vec<Scenario> {
    let is_wanted =
        |scenario: &&Scenario| only.is_empty() || only.iter().any(|name| scenario.name() == name);
    all.iter().filter(is_wanted).copied().collect()
}

fn markdown(outcomes: &[(Scenario, Outcome)]) -> String {
    let mut out = String::from(
        "| scenario | rounds | edits acknowledged | after ms, median (longest) | reads | of them hits | stale | torn | failed | broken |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    let mut all = Outcome::default();
    for (scenario, outcome) in outcomes {
        if outcome.tally.rounds == 0 {
            continue;
        }
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
