//! The short fault tests: the real binary with a disk cache, while it is killed, its disk is full, damaged or inaccessible, the
//! clock changes, or the upstream breaks. Every response is compared with the upstream's content.
//!
//! The test kit contains the tests; `make faults` runs them with more rounds. A failure prints the first findings. Tests that the
//! machine does not allow are skipped with a note on stderr.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use galley_testkit::faults::{FaultReport, FaultSettings, FaultTest, TestLength};

/// A fixed seed, so that every run uses the same random numbers.
const SEED: u64 = 20_260_101;

fn run(test: FaultTest) -> FaultReport {
    let settings = FaultSettings {
        galley: Path::new(env!("CARGO_BIN_EXE_galley")).to_owned(),
        seed: SEED,
        length: TestLength::Short,
    };
    let report = test.run(&settings).unwrap();
    for skipped in &report.skipped {
        eprintln!("skipped in `{}`: {skipped}", test.name());
    }
    assert!(
        report.is_clean(),
        "seed {SEED}: {} stale, {} torn, {} failed, {} broken\n{}",
        report.stale,
        report.torn,
        report.failed,
        report.broken,
        report.findings.join("\n")
    );
    report
}

#[test]
fn kill_9_causes_no_stale_or_torn_response() {
    let report = run(FaultTest::Kill);
    assert!(
        report.rounds == 8 && report.purges > 0 && report.hits > 0,
        "{report:?}"
    );
}

#[test]
fn a_purge_is_on_disk_before_it_is_acknowledged() {
    run(FaultTest::Sync);
}

#[test]
fn a_full_disk_only_turns_storing_off() {
    run(FaultTest::Full);
}

#[test]
fn damaged_cache_files_cause_no_wrong_response() {
    run(FaultTest::Damage);
}

#[test]
fn an_inaccessible_cache_directory_only_turns_storing_off() {
    run(FaultTest::Denied);
}

#[test]
fn clock_changes_do_not_revive_purged_pages() {
    run(FaultTest::Clock);
}

#[test]
fn broken_upstreams_cause_no_torn_response_and_stale_copies_are_served() {
    run(FaultTest::Upstream);
}

#[test]
fn the_first_hit_follows_soon_after_a_start_with_many_entries() {
    run(FaultTest::Start);
}
