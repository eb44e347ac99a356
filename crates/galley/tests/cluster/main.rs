//! The short cluster test: three nodes, an engine with a replica and a real WordPress in network namespaces, with faults of the
//! engine, the nodes and the network.
//!
//! The test kit contains the test; `make cluster` runs it with more rounds. Without permission to create network namespaces, the
//! test prints on stderr that it was skipped.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use galley_testkit::cluster::{
    ClusterTestSettings, EngineDiscovery, Scenario, may_make_networks, run,
};

/// A fixed seed, so that every run uses the same random numbers.
const SEED: u64 = 20_260_101;

#[test]
fn no_read_is_older_than_an_acknowledged_purge() {
    check(
        EngineDiscovery::Address,
        &[
            Scenario::Partition,
            Scenario::EngineKilled,
            Scenario::NodeKilled,
            Scenario::FailOver,
        ],
    );
}

#[test]
fn no_read_is_older_than_an_acknowledged_purge_with_two_primaries() {
    check(
        EngineDiscovery::Sentinels,
        &[Scenario::SplitBrain, Scenario::FailOver],
    );
}

fn check(discovery: EngineDiscovery, scenarios: &[Scenario]) {
    if !may_make_networks() {
        eprintln!("skipped: this user may not create network namespaces");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let settings = ClusterTestSettings {
        galley: Path::new(env!("CARGO_BIN_EXE_galley")).to_owned(),
        plugin: root.join("../../wordpress-plugin/galley"),
        seed: SEED,
        rounds: scenarios.len(),
        scenarios: scenarios.to_vec(),
        discovery,
    };
    for (scenario, report) in run(&settings, |_, _, _| {}).unwrap() {
        let counts = &report.counts;
        assert!(
            counts.is_clean() && counts.purges > 0 && counts.hits > 0,
            "{}: {counts:#?}",
            scenario.name()
        );
    }
}
