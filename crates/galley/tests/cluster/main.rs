//! The cluster test in its short form: three nodes, an engine with a replica and a real WordPress, each on a network of its own,
//! while the engine and the nodes are harmed.
//!
//! What is done is in the kit; `make cluster` runs the long form of the same. Who may not make networks reads on stderr
//! that the test was left out.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use galley_testkit::cluster::{Finding, Scenario, Setting, may_make_networks, run};

/// Fixed, so that what is drawn is the same each time.
const SEED: u64 = 20_260_101;

#[test]
fn no_read_is_older_than_an_acknowledged_purge() {
    check(
        Finding::Address,
        &[
            Scenario::Partition,
            Scenario::EngineKilled,
            Scenario::NodeKilled,
            Scenario::FailOver,
        ],
    );
}

#[test]
fn nor_with_two_primaries_at_a_time() {
    check(
        Finding::Sentinels,
        &[Scenario::SplitBrain, Scenario::FailOver],
    );
}

fn check(finding: Finding, scenarios: &[Scenario]) {
    if !may_make_networks() {
        eprintln!("left out: this user may not make network namespaces");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let setting = Setting {
        galley: Path::new(env!("CARGO_BIN_EXE_galley")).to_owned(),
        plugin: root.join("../../wordpress-plugin/galley"),
        seed: SEED,
        rounds: scenarios.len(),
        scenarios: scenarios.to_vec(),
        finding,
    };
    for (scenario, outcome) in run(&setting, |_, _, _| {}).unwrap() {
        let tally = &outcome.tally;
        assert!(
            tally.is_clean() && tally.purges > 0 && tally.hits > 0,
            "{}: {tally:#?}",
            scenario.name()
        );
    }
}
