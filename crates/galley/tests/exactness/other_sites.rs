//! Random plugins and random edits in their short form.

use std::path::{Path, PathBuf};

use galley_testkit::exactness::PurgeMethod;
use galley_testkit::exactness::generated::{self, GeneratedReport, GeneratedSettings};

#[test]
fn no_random_edit_leaves_a_page_stale_of_a_kind_that_must_not_be() {
    let settings = GeneratedSettings {
        galley: galley(),
        plugin: plugin(),
        // The stale pages of a site without purges show that the comparison detects them.
        methods: vec![PurgeMethod::Galley, PurgeMethod::None],
        seed: 1,
        edits: 60,
        only_plugin: None,
        only_edit: None,
    };
    let report = generated::run(&settings, &mut |text| eprintln!("{text}")).unwrap();
    let (with_plugin, without_purges) = (report.totals[0], report.totals[1]);
    assert_eq!((with_plugin.edits, report.plugins), (60, 4));
    assert!(
        report.edits_without_effect <= 30,
        "{}",
        report.edits_without_effect
    );
    assert!(report.drifts <= 2, "{}", report.drifts);
    assert!(without_purges.changed_hits > 0 && without_purges.purged == 0);
    // The plugin lets a page that reads tables of its own expire after a minute, which may be between two steps of an edit.
    assert!(
        without_purges.stale * 10 >= without_purges.changed_hits * 9,
        "{without_purges:?}"
    );
    let held = report.kinds.iter().filter(|(kind, _)| kind.is_held());
    let held: usize = held.map(|(_, counts)| counts.changed).sum();
    assert!(
        held >= 10,
        "only {held} changed parts of kinds that must hold"
    );
    assert!(report.held_cases().is_empty(), "{}", held_cases(&report));
}

fn held_cases(report: &GeneratedReport) -> String {
    let cases = report.held_cases();
    let lines = cases.iter().map(|case| {
        format!(
            "plugin {} ({}), edit {} ({}): {} in {}, repeated alone: {:?}\n{}\n",
            case.plugin,
            case.plugin_shape,
            case.edit,
            case.edit_shape,
            case.kind.read,
            case.page,
            case.occurs_alone,
            case.difference
        )
    });
    lines.collect()
}

fn galley() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_galley")).to_owned()
}

fn plugin() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wordpress-plugin/galley")
}
