//! The stress test in its short form: a WordPress with its database, PHP and the server in 256 MB, and what visitors of stored
//! pages see during many misses, slow clients, PHP that is killed, and crawls. No time is judged. `make stress` runs the long form.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use galley_testkit::stress::{Form, Part, Row, Setting};

/// What is started while a test is in its control group belongs to that, so they take turns.
static TURN: Mutex<()> = Mutex::new(());

fn run(part: Part) -> Row {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let setting = Setting {
        galley: Path::new(env!("CARGO_BIN_EXE_galley")).to_owned(),
        form: Form::Short,
        requests: None,
        connections: None,
        killed_for: None,
        progress: |_| {},
    };
    let row = part.run(&setting).unwrap();
    let complaints = row.complaints(setting.form);
    assert!(complaints.is_empty(), "{complaints:?}\n{row:#?}");
    row
}

#[test]
fn many_misses_do_not_slow_hits() {
    assert!(run(Part::Crowd).requests > 400);
}

#[test]
fn slow_clients_do_not_slow_hits() {
    assert!(run(Part::Slow).requests > 400);
}

#[test]
fn killed_php_is_invisible_while_a_copy_exists() {
    assert!(run(Part::Killed).requests > 50);
}

#[test]
fn a_crawl_from_many_addresses_does_not_slow_hits() {
    assert!(run(Part::Swarm).requests > 400);
}

#[test]
fn a_crawl_does_not_slow_hits() {
    assert!(run(Part::Crawl).requests > 400);
}
