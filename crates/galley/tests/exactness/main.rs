//! The exactness of purging in its short form: a real WordPress with our plugin behind the real server, edited, and every page
//! compared with a freshly generated one after each edit.
//!
//! What is done is in the kit; `make exactness` runs the long form of the same. A failure names the pages and what differs.

use std::fmt::Write as _;
use std::path::Path;

use galley_testkit::exactness::{self, Form, Outcome, Progress, Setting, With};

#[test]
fn every_edit_purges_what_it_changes_and_little_else() {
    let setting = Setting {
        galley: Path::new(env!("CARGO_BIN_EXE_galley")).to_owned(),
        plugin: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wordpress-plugin/galley"),
        // Beside our plugin a site that nobody purges: what is stale there shows that the comparison sees it.
        with: vec![With::Galley, With::None],
        only: Vec::new(),
        form: Form::Short,
        cost: false,
    };
    let outcome = exactness::run(&setting, &mut |progress| {
        if let Progress::Event(event, number, all) = progress {
            eprintln!("{number}/{all} {}", event.name);
        }
    })
    .unwrap();
    assert_eq!(outcome.events.len(), exactness::short_names().len());
    let (ours, nobody) = (outcome.total(0), outcome.total(1));
    assert!(nobody.changed > 0);
    assert_eq!((nobody.stale, nobody.purged), (nobody.changed, 0));
    assert_eq!(ours.stale, 0, "{}", findings(&outcome));
    assert!(
        ours.over * 100 < ours.purged * 5,
        "{} of {} pages purged without need\n{}",
        ours.over,
        ours.purged,
        findings(&outcome)
    );
}

fn findings(outcome: &Outcome) -> String {
    let mut out = String::new();
    for event in &outcome.events {
        for finding in event.tallies.first().iter().flat_map(|it| &it.findings) {
            let _ = writeln!(
                out,
                "{}: {:?} {}\n{}",
                event.name, finding.what, finding.page, finding.difference
            );
        }
    }
    out
}
