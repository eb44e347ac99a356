//! Bad weather in its short form: a WordPress with its database, PHP and the server in 256 MB, and what visitors of stored
//! pages see of a crowd, of slow people, of dying PHP and of a crawl. No time is judged. `make weather` runs the long form.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use galley_testkit::weather::{Form, Part, Row, Setting};

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
fn slow_people_harm_nobody_who_hits() {
    assert!(run(Part::Slow).requests > 400);
}

#[test]
fn dying_php_is_seen_by_nobody_who_has_a_copy() {
    assert!(run(Part::Killed).requests > 50);
}

#[test]
fn a_crawl_from_many_addresses_harms_nobody_who_hits() {
    assert!(run(Part::Swarm).requests > 400);
}

#[test]
fn a_crawl_harms_nobody_who_hits() {
    assert!(run(Part::Crawl).requests > 400);
}
