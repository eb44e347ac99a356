//! The short suite of the exactness of purges: a real WordPress with our plugin runs behind the real server. After each edit,
//! the test compares every page with a newly generated one.
//!
//! The measurement is in [`galley_testkit::exactness`]; `make exactness` runs the long suite. A failure lists the pages and
//! their differences.

mod other_sites;

use std::fmt::Write as _;
use std::path::Path;

use galley_testkit::exactness::{
    self, ExactnessReport, ExactnessSettings, Progress, PurgeMethod, Suite,
};

#[test]
fn each_edit_purges_every_changed_page_and_few_others() {
    let settings = ExactnessSettings {
        galley: Path::new(env!("CARGO_BIN_EXE_galley")).to_owned(),
        plugin: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wordpress-plugin/galley"),
        // The stale pages of a site without purges show that the comparison detects them.
        methods: vec![PurgeMethod::Galley, PurgeMethod::None],
        only: Vec::new(),
        suite: Suite::Short,
        measure_cost: false,
    };
    let report = exactness::run(&settings, &mut |progress| {
        if let Progress::Event(event, number, total) = progress {
            eprintln!("{number}/{total} {}", event.name);
        }
    })
    .unwrap();
    assert_eq!(report.events.len(), exactness::short_names().len());
    let (with_plugin, without_purges) = (report.total(0), report.total(1));
    assert!(without_purges.changed > 0);
    assert_eq!(
        (without_purges.stale, without_purges.purged),
        (without_purges.changed, 0)
    );
    assert_eq!(with_plugin.stale, 0, "{}", findings(&report));
    assert!(
        with_plugin.overpurged * 100 < with_plugin.purged * 5,
        "{} of {} purged pages were unchanged\n{}",
        with_plugin.overpurged,
        with_plugin.purged,
        findings(&report)
    );
}

fn findings(report: &ExactnessReport) -> String {
    let mut out = String::new();
    for event in &report.events {
        for finding in event.counts.first().iter().flat_map(|it| &it.findings) {
            let _ = writeln!(
                out,
                "{}: {} {}\n{}",
                event.name,
                finding.kind.name(),
                finding.page,
                finding.difference
            );
        }
    }
    out
}
