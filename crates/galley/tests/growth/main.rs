//! The growth measurements in their short version, which judges counts and sizes but not times. `make growth` runs the long version.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use galley_testkit::growth::{Goal, GrowthPart, GrowthSettings, RunLength};

fn run(part: GrowthPart) {
    let settings = GrowthSettings {
        galley: Path::new(env!("CARGO_BIN_EXE_galley")).to_owned(),
        length: RunLength::Short,
        progress: |_| {},
    };
    let measurements = part.run(&settings).unwrap();
    assert!(!measurements.is_empty());
    for measurement in &measurements {
        if measurement.goal == Goal::Skipped {
            eprintln!("skipped: {}: {}", measurement.what, measurement.case);
        }
        assert!(measurement.meets_goal(settings.length), "{measurement:?}");
    }
}

#[test]
fn a_purge_refetches_only_the_purged_entries() {
    run(GrowthPart::Entries);
}

#[test]
fn requests_over_many_connections_are_hits() {
    run(GrowthPart::Connections);
}

#[test]
fn hits_stay_hits_during_other_work() {
    run(GrowthPart::ConcurrentWork);
}

#[test]
fn hits_stay_hits_while_dashboards_are_open() {
    run(GrowthPart::Dashboards);
}

#[test]
fn hits_stay_hits_in_a_cluster() {
    run(GrowthPart::Cluster);
}

#[test]
fn a_wordpress_page_takes_little_memory() {
    run(GrowthPart::Pages);
}

#[test]
fn the_default_settings_fit_into_256_mb() {
    run(GrowthPart::MemoryLimit);
}
