//! `xtask cluster`: three nodes, an engine with a replica and a real WordPress on simulated machines, with a fault in each
//! round.
//!
//! Then it measures purges on three nodes without faults. [`galley_testkit::cluster`] contains the tests. Progress goes to stderr,
//! the tables to stdout. A stale or torn response, a failure or a broken promise fails the run.

use std::{
    fmt::Write as _,
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use galley_testkit::cluster::{
    ClusterTestSettings, EngineDiscovery, PurgeRates, Scenario, ScenarioReport, purge_rates,
    run as run_rounds,
};

use crate::error::CommandError;

/// The command-line options.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The server binary
    #[arg(long, default_value = "target/release/galley")]
    galley: PathBuf,
    /// The plugin's directory
    #[arg(long, default_value = "wordpress-plugin/galley")]
    plugin: PathBuf,
    /// The number of rounds, distributed over the scenarios in turn
    #[arg(long, default_value_t = 200)]
    rounds: usize,
    /// Only these scenarios, for example partition,failover
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the rounds and prints the tables. A cluster that does not start is an error.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    let known = Scenario::WITH_ADDRESS
        .iter()
        .chain(&Scenario::WITH_SENTINELS);
    let known: Vec<&str> = known.map(|scenario| scenario.name()).collect();
    if let Some(name) = (arguments.only.iter()).find(|name| !known.contains(&name.as_str())) {
        let known = known.join(", ");
        return Err(format!("unknown scenario `{name}`; known: {known}").into());
    }
    let started = Instant::now();
    println!("seed {}, {} rounds\n", arguments.seed, arguments.rounds);
    let mut failed = 0;
    let with_sentinels = arguments.rounds / 4;
    for (discovery, all, rounds) in [
        (
            EngineDiscovery::Address,
            Scenario::WITH_ADDRESS.as_slice(),
            arguments.rounds - with_sentinels,
        ),
        (
            EngineDiscovery::Sentinels,
            Scenario::WITH_SENTINELS.as_slice(),
            with_sentinels,
        ),
    ] {
        let scenarios = selected(all, &arguments.only);
        if scenarios.is_empty() || rounds == 0 {
            continue;
        }
        let reports = run_all(arguments, discovery, scenarios, rounds)?;
        let found_by = match discovery {
            EngineDiscovery::Address => "an address",
            EngineDiscovery::Sentinels => "Sentinels",
        };
        println!(
            "Nodes that find the engine by {found_by}:\n\n{}",
            markdown(&reports)
        );
        failed += reports
            .iter()
            .filter(|(_, report)| report.counts.rounds > 0 && !report.counts.is_clean())
            .count();
    }
    if arguments.only.is_empty() {
        eprintln!("cluster: measuring purges");
        let settings = settings(arguments, EngineDiscovery::Address, Vec::new(), 0)?;
        println!(
            "{}\n",
            rate_summary(&purge_rates(&settings).map_err(|error| error.to_string())?)
        );
    }
    println!("{} s", started.elapsed().as_secs());
    match failed {
        0 => Ok(()),
        count => Err(format!("{count} scenarios failed: see above").into()),
    }
}

fn run_all(
    arguments: &Arguments,
    discovery: EngineDiscovery,
    scenarios: Vec<Scenario>,
    rounds: usize,
) -> Result<Vec<(Scenario, ScenarioReport)>, CommandError> {
    let settings = settings(arguments, discovery, scenarios, rounds)?;
    let started = Instant::now();
    let reports = run_rounds(&settings, |round, scenario, report| {
        let counts = &report.counts;
        eprintln!(
            "cluster: {round} of {rounds}: {}: {} reads, {} stale, {} torn, {} failed, {} broken ({} s)",
            scenario.name(),
            counts.pages,
            counts.stale,
            counts.torn,
            counts.failed,
            counts.broken,
            started.elapsed().as_secs(),
        );
        for finding in &counts.findings {
            eprintln!("  {finding}");
        }
    });
    reports.map_err(|error| error.to_string().into())
}

fn settings(
    arguments: &Arguments,
    discovery: EngineDiscovery,
    scenarios: Vec<Scenario>,
    rounds: usize,
) -> Result<ClusterTestSettings, CommandError> {
    let find = |path: &PathBuf| {
        fs::canonicalize(path).map_err(|_| format!("`{}` does not exist", path.display()))
    };
    Ok(ClusterTestSettings {
        galley: find(&arguments.galley)?,
        plugin: find(&arguments.plugin)?,
        seed: arguments.seed,
        rounds,
        scenarios,
        discovery,
    })
}

fn rate_summary(rates: &PurgeRates) -> String {
    let mut times = rates.latencies.clone();
    times.sort_unstable();
    let quantile = |percent: usize| {
        let at = (times.len() * percent / 100).min(times.len().saturating_sub(1));
        times.get(at).copied().unwrap_or_default().as_secs_f64() * 1000.0
    };
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let per_second = rates.acknowledged as f64 / rates.time.as_secs_f64();
    format!(
        "{} sequential purges: acknowledged after {:.2} ms (median), {:.2} ms (99th percentile).\n\
         {} concurrent clients: {per_second:.0} purges/s final on all nodes; {} purges were final on one node only.",
        times.len(),
        quantile(50),
        quantile(99),
        rates.clients,
        rates.local
    )
}

/// The scenarios that the command line selects; all if it selects none.
fn selected(all: &[Scenario], only: &[String]) -> Vec<Scenario> {
    let is_selected =
        |scenario: &&Scenario| only.is_empty() || only.iter().any(|name| scenario.name() == name);
    all.iter().filter(is_selected).copied().collect()
}

fn markdown(reports: &[(Scenario, ScenarioReport)]) -> String {
    let mut out = String::from(
        "| scenario | rounds | edits acknowledged | acknowledged after, ms: median (maximum) | reads | cache hits | stale | torn | failed | broken |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    let mut all = ScenarioReport::default();
    for (scenario, report) in reports {
        if report.counts.rounds == 0 {
            continue;
        }
        row(scenario.name(), report, &mut out);
        all.counts += report.counts.clone();
        all.acknowledged_after
            .extend(report.acknowledged_after.iter().copied());
    }
    row("all", &all, &mut out);
    for finding in &all.counts.findings {
        let _ = writeln!(out, "\n- FOUND: {}", finding.trim());
    }
    out
}

fn row(name: &str, report: &ScenarioReport, out: &mut String) {
    let counts = &report.counts;
    let mut times: Vec<Duration> = report.acknowledged_after.clone();
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let maximum = times.last().copied().unwrap_or_default();
    let _ = writeln!(
        out,
        "| {name} | {} | {} | {} ({}) | {} | {} | {} | {} | {} | {} |",
        counts.rounds,
        counts.purges,
        median.as_millis(),
        maximum.as_millis(),
        counts.pages,
        counts.hits,
        counts.stale,
        counts.torn,
        counts.failed,
        counts.broken
    );
}
