//! Random plugins and random edits in their short form, and the measurement on any plugins.

use std::fs;
use std::path::{Path, PathBuf};

use galley_testkit::Scratch;
use galley_testkit::exactness::generated::{self, GeneratedReport, GeneratedSettings};
use galley_testkit::exactness::installed::{self, InstalledSettings};
use galley_testkit::exactness::{Progress, PurgeMethod};

#[test]
fn no_random_edit_leaves_a_page_stale() {
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
    let changed: usize = report.kinds.values().map(|counts| counts.changed).sum();
    assert!(changed >= 10, "only {changed} changed parts");
    assert!(report.cases.is_empty(), "{}", stale_cases(&report));
}

fn stale_cases(report: &GeneratedReport) -> String {
    let lines = report.cases.iter().map(|case| {
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

#[test]
fn any_plugins_and_themes_are_measured_with_scripts_as_edits() {
    let scratch = Scratch::new().unwrap();
    for (name, text) in [
        ("plugins/tide/tide.php", TIDE),
        (
            "plugins/harbour/style.css",
            "/*\nTheme Name: Harbour\nTemplate: twentytwentyone\n*/\n",
        ),
        (
            "events/setup.php",
            "<?php wp_insert_post( array( 'post_type' => 'page', 'post_title' => 'Tide', 'post_status' => 'publish' ) );\n",
        ),
        (
            "events/a-title.php",
            "<?php\n// Event: a title\n// Via: rest\n$page = get_page_by_path( 'tide' );\nwp_update_post( array( 'ID' => $page->ID, 'post_title' => 'High tide' ) );\n",
        ),
        (
            "events/b-nothing.php",
            "<?php\n// Via: cron\nupdate_post_meta( 1, '_edit_lock', '5:1' );\n",
        ),
    ] {
        let path = scratch.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let settings = InstalledSettings {
        galley: galley(),
        plugin: plugin(),
        methods: vec![PurgeMethod::Galley, PurgeMethod::None],
        plugins: scratch.join("plugins"),
        events: scratch.join("events"),
        pages: 15,
    };
    let installed = installed::run(&settings, &mut |progress| {
        if let Progress::Step(step) = progress {
            eprintln!("{step}");
        }
    })
    .unwrap();
    let report = &installed.report;
    assert_eq!(installed.active, ["Tide 1.2", "theme Harbour "]);
    assert!(installed.varying.is_empty(), "{:?}", installed.varying);
    assert_eq!(report.pages, 15);
    let names: Vec<_> = report
        .events
        .iter()
        .map(|event| (event.description.as_ref(), event.interface))
        .collect();
    assert_eq!(names, [("a title", "rest"), ("b-nothing", "cron")]);
    let [title, nothing] = [0, 1].map(|event| &report.events[event].counts);
    assert!(title[0].changed > 0 && title[0].stale == 0, "{title:?}");
    assert_eq!(title[1].stale, title[1].changed, "{title:?}");
    assert_eq!(
        (nothing[0].changed, nothing[0].stale),
        (0, 0),
        "{nothing:?}"
    );
}

fn galley() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_galley")).to_owned()
}

fn plugin() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wordpress-plugin/galley")
}

const TIDE: &str = "<?php
/*
Plugin Name: Tide
Version: 1.2
*/
add_action( 'wp_footer', function () {
	echo '<p>' . esc_html( get_the_title( get_page_by_path( 'tide' ) ) ) . '</p>';
} );
";
