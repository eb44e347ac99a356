//! The fault tests in their short form: the real binary with a disk, killed, filled up, damaged, shut out, misled by clocks
//! and upstreams, and every response compared with what the upstream generates.
//!
//! What is done is in the kit; `make faults` runs the long form of the same. A failure says the first things that were
//! wrong. What the machine does not allow is said on stderr.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use galley_testkit::faults::{Form, Part, Setting, Tally};

/// Fixed, so that what is drawn is the same each time.
const SEED: u64 = 20_260_101;

fn run(part: Part) -> Tally {
    let setting = Setting {
        galley: Path::new(env!("CARGO_BIN_EXE_galley")).to_owned(),
        seed: SEED,
        form: Form::Short,
    };
    let tally = part.run(&setting).unwrap();
    for what in &tally.left_out {
        eprintln!("left out of `{}`: {what}", part.name());
    }
    assert!(
        tally.is_clean(),
        "seed {SEED}: {} stale, {} torn, {} failed, {} broken\n{}",
        tally.stale,
        tally.torn,
        tally.failed,
        tally.broken,
        tally.complaints.join("\n")
    );
    tally
}

#[test]
fn nothing_old_or_torn_comes_back_from_kill_9() {
    let tally = run(Part::Kill);
    assert!(
        tally.rounds == 8 && tally.purges > 0 && tally.hits > 0,
        "{tally:?}"
    );
}

#[test]
fn a_purge_is_on_the_disk_before_its_answer_leaves() {
    run(Part::Sync);
}

#[test]
fn a_full_disk_turns_storing_off_and_nothing_else() {
    run(Part::Full);
}

#[test]
fn damaged_files_are_never_believed() {
    run(Part::Damage);
}

#[test]
fn a_closed_folder_turns_storing_off_and_nothing_else() {
    run(Part::Denied);
}

#[test]
fn no_clock_brings_back_what_was_purged() {
    run(Part::Clock);
}

#[test]
fn broken_upstreams_tear_nothing_and_old_copies_help() {
    run(Part::Upstream);
}

#[test]
fn a_full_disk_of_entries_answers_at_once() {
    run(Part::Start);
}
