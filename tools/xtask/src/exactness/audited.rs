//! `xtask exactness audited`: plants pages that depend on files among many, and has the audit find them while visitors come.
//!
//! Fails if one pass misses a planted page or takes another one for out of date. The latencies are printed only, because other work on the
//! machine changes them.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

use galley_load::{Connections, Limit, LoadClient, LoadError, Pace, Target, Workload};
use galley_testkit::{
    TestkitError,
    exactness::{
        ExactnessSettings,
        audited::{self, AuditedReport, AuditedSettings, VisitorLatencies},
        fragments::LoadTarget,
    },
};
use serde_json::json;

use crate::{
    error::CommandError,
    fragments::load::{RepeatedRequest, ZipfRequests},
};

/// The options of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct AuditedArguments {
    /// Number of pages
    #[arg(long, default_value_t = 1000)]
    pages: usize,
    /// Number of pages that depend on files. The server keeps 100 findings
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u8).range(1..=100))]
    planted: u8,
}

/// Runs the audit and prints the tables.
pub(super) fn run(
    arguments: &AuditedArguments,
    settings: &ExactnessSettings,
) -> Result<(), CommandError> {
    let start = Instant::now();
    let report = audited::run(
        &AuditedSettings {
            galley: settings.galley.clone(),
            plugin: settings.plugin.clone(),
            pages: arguments.pages,
            planted: usize::from(arguments.planted),
        },
        &mut visit,
        &mut |text| eprintln!("{:>5} s  {text}", start.elapsed().as_secs()),
    )?;
    println!("| pages audited | planted | found | wrong | vary | still out of date |");
    println!("|--:|--:|--:|--:|--:|--:|");
    println!(
        "| {} | {} | {} | {} | {} | {} |\n",
        report.audited,
        arguments.planted,
        report.found,
        report.wrong.len(),
        report.varying.len(),
        report.still_stale.len()
    );
    print_visitors(&report);
    println!(
        "{}",
        json!({
            "audited": report.audited, "planted": arguments.planted, "found": report.found, "wrong": report.wrong,
            "varying": report.varying, "still_stale": report.still_stale,
        })
    );
    if report.wrong.is_empty() && report.still_stale.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the audit was wrong about {} and left {}",
        report.wrong.join(" "),
        report.still_stale.join(" ")
    )
    .into())
}

fn print_visitors(report: &AuditedReport) {
    println!(
        "| visitors | intervals | stored p99, ms | generated p50, ms | generated p99, ms | failed |"
    );
    println!("|---|--:|--:|--:|--:|--:|");
    for (name, all) in [
        ("without an audit", &report.before),
        ("during the pass", &report.during),
    ] {
        let median = |of: fn(&VisitorLatencies) -> Duration| {
            let mut times: Vec<Duration> = all.iter().map(of).collect();
            times.sort_unstable();
            let median = times.get(times.len() / 2).copied().unwrap_or_default();
            median.as_secs_f64() * 1000.0
        };
        println!(
            "| {name} | {} | {:.2} | {:.1} | {:.1} | {} |",
            all.len(),
            median(|one| one.hit_p99),
            median(|one| one.generated_p50),
            median(|one| one.generated_p99),
            all.iter().map(|one| one.failed).sum::<u64>()
        );
    }
    let (waits, asked) = report.gave_way;
    println!(
        "\nMedians of intervals of {} s. The pass waited for visitors at {waits} of {asked} looks.\n",
        TIME.as_secs()
    );
}

/// Requests stored pages, and one page with a cookie for which PHP generates it, at constant rates.
fn visit(target: LoadTarget<'_>) -> Result<VisitorLatencies, TestkitError> {
    let failed = |error: LoadError| TestkitError::Refused(error.to_string());
    let page = target.targets.first().cloned().unwrap_or_default();
    let generated = format!(
        "GET {page} HTTP/1.1\r\nHost: {}\r\nCookie: wordpress_logged_in_x=y\r\n\r\n",
        target.host
    );
    let workloads = vec![
        Workload {
            requests: Box::new(ZipfRequests::new(target)),
            connections: 16,
            pace: Pace::Constant(HITS_PER_SECOND),
        },
        Workload {
            requests: Box::new(RepeatedRequest(generated.into_bytes())),
            connections: 8,
            pace: Pace::Constant(GENERATED_PER_SECOND),
        },
    ];
    let addressed = Target {
        addr: target.addr,
        tls: None,
        connections: Connections::Kept,
        watch: None,
    };
    let stop = Arc::new(AtomicBool::new(false));
    let mut client = LoadClient::connect(addressed, workloads, stop).map_err(failed)?;
    let outcomes = client.run(Limit::Time(TIME)).map_err(failed)?;
    let [hits, generated] = outcomes.as_slice() else {
        return Err(TestkitError::Refused("an outcome is missing".to_owned()));
    };
    Ok(VisitorLatencies {
        hit_p99: hits.quantile(0.99),
        generated_p50: generated.quantile(0.5),
        generated_p99: generated.quantile(0.99),
        failed: [hits, generated]
            .map(|one| one.unexpected_status + one.broken + one.unsent)
            .iter()
            .sum(),
    })
}

const TIME: Duration = Duration::from_secs(8);
const HITS_PER_SECOND: f64 = 100.0;
const GENERATED_PER_SECOND: f64 = 2.0;
