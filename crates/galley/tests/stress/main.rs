//! The stress test in its short version: a WordPress with its database, PHP and the server in 256 MB, and the responses that visitors of
//! stored pages get during many misses, slow clients, kills of PHP and crawls. It judges no times. `make stress` runs the long version.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use galley_testkit::stress::{PartReport, RunLength, StressPart, StressSettings};

/// Runs one test at a time: any process that starts while a test is in its control group belongs to that group.
static CONTROL_GROUP: Mutex<()> = Mutex::new(());

fn run(part: StressPart) -> PartReport {
    let _exclusive = CONTROL_GROUP.lock().unwrap_or_else(PoisonError::into_inner);
    let settings = StressSettings {
        galley: Path::new(env!("CARGO_BIN_EXE_galley")).to_owned(),
        length: RunLength::Short,
        requests: None,
        connections: None,
        killed_for: None,
        progress: |_| {},
    };
    let report = part.run(&settings).unwrap();
    let problems = report.missed_goals(settings.length);
    assert!(problems.is_empty(), "{problems:?}\n{report:#?}");
    report
}

#[test]
fn many_misses_do_not_slow_hits() {
    assert!(run(StressPart::ManyMisses).requests > 400);
}

#[test]
fn slow_clients_do_not_slow_hits() {
    assert!(run(StressPart::SlowClients).requests > 400);
}

#[test]
fn killed_php_is_invisible_while_a_stored_page_exists() {
    assert!(run(StressPart::KilledPhp).requests > 50);
}

#[test]
fn a_crawl_from_many_addresses_does_not_slow_hits() {
    assert!(run(StressPart::DistributedCrawl).requests > 400);
}

#[test]
fn a_crawl_from_seventy_thousand_addresses_refuses_no_visitor() {
    assert!(run(StressPart::Swarm).requests > 100);
}

#[test]
fn a_crawl_does_not_slow_hits() {
    assert!(run(StressPart::Crawl).requests > 400);
}
