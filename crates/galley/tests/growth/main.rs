//! The growth measurements in their short form: what must be right on any machine is judged, times are not.
//!
//! What is done is in the kit; `make growth` runs the long form of the same.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use galley_testkit::growth::{Form, Part, Promise, Setting};

fn run(part: Part) {
    let setting = Setting {
        galley: Path::new(env!("CARGO_BIN_EXE_galley")).to_owned(),
        form: Form::Short,
        progress: |_| {},
    };
    let figures = part.run(&setting).unwrap();
    assert!(!figures.is_empty());
    for figure in &figures {
        if figure.promise == Promise::LeftOut {
            eprintln!("left out: {}: {}", figure.what, figure.case);
        }
        assert!(figure.is_kept(setting.form), "{figure:?}");
    }
}

#[test]
fn entries_stay_hits_and_only_purged_ones_are_fetched_again() {
    run(Part::Entries);
}

#[test]
fn connections_that_take_turns_get_hits() {
    run(Part::Connections);
}

#[test]
fn hits_stay_hits_while_other_work_goes_on() {
    run(Part::Beside);
}

#[test]
fn hits_stay_hits_while_dashboards_are_open() {
    run(Part::Dashboards);
}

#[test]
fn hits_stay_hits_in_a_cluster() {
    run(Part::Cluster);
}

#[test]
fn a_page_of_wordpress_takes_little_memory() {
    run(Part::Pages);
}

#[test]
fn the_defaults_keep_within_256_mb() {
    run(Part::Limit);
}
