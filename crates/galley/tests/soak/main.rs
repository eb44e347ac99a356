//! The soak test in its short version: 200,000 requests over 250 connections, a tenth of them uncached through FastCGI, without a
//! failure and with constant memory and descriptors. `make soak` runs the long version.

use std::path::Path;

use galley_testkit::stress::{RunLength, StressPart, StressSettings};

#[test]
fn a_long_load_causes_no_failures_and_no_leaks() {
    let settings = StressSettings {
        galley: Path::new(env!("CARGO_BIN_EXE_galley")).to_owned(),
        length: RunLength::Short,
        requests: None,
        connections: None,
        killed_for: None,
        progress: |_| {},
    };
    let report = StressPart::Soak.run(&settings).unwrap();
    assert_eq!(report.requests, 200_000);
    let problems = report.missed_goals(settings.length);
    assert!(problems.is_empty(), "{problems:?}\n{report:#?}");
}
