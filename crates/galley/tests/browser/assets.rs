//! The screenshots of the plugin directory, on a large screen and on a phone; `UPDATE_GOLDEN=1` takes them anew. No page may be wider
//! than its screen.

use std::path::{Path, PathBuf};

use galley_testkit::{Chromium, Scratch, Tab};
use serde_json::json;

use super::browser::{log_in, picture};
use super::stack::{Stack, shared};

/// As wide as the directory shows them, and a phone.
const DESKTOP: (u32, u32) = (1440, 1000);
const PHONE: (u32, u32) = (360, 760);

/// A screenshot: its number in the directory, and what must be there before it is taken.
struct Shot {
    number: u32,
    screen: (u32, u32),
    path: &'static str,
    until: &'static str,
    /// What is scrolled to.
    place: &'static str,
}

const SHOTS: &[Shot] = &[
    Shot {
        number: 1,
        screen: DESKTOP,
        path: "/wp-admin/options-general.php?page=galley",
        until: "document.querySelector('.galley-chart rect')",
        place: "h1",
    },
    Shot {
        number: 2,
        screen: DESKTOP,
        path: "/wp-admin/options-general.php?page=galley&galley_url=/",
        until: "document.querySelector('.galley-answer')",
        place: "#galley-why",
    },
    Shot {
        number: 3,
        screen: DESKTOP,
        path: "/wp-admin/options-general.php?page=galley",
        until: "document.querySelector('#galley-purge-all')",
        place: "#galley-purge-address",
    },
    Shot {
        number: 4,
        screen: DESKTOP,
        path: "/wp-admin/edit.php",
        until: "document.querySelector('td.column-galley_cached')",
        place: "h1",
    },
    Shot {
        number: 5,
        screen: PHONE,
        path: "/wp-admin/options-general.php?page=galley",
        until: "document.querySelector('.galley-chart rect')",
        place: "h1",
    },
];

fn file(number: u32) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wordpress-plugin/assets");
    folder.join(format!("screenshot-{number}.png"))
}

fn take(tab: &mut Tab<'_>, stack: &Stack, shot: &Shot) {
    let (width, height) = shot.screen;
    tab.screen(width, height).unwrap();
    tab.go(&stack.url(shot.path)).unwrap();
    tab.wait(&format!(
        "document.readyState === 'complete' && {}",
        shot.until
    ))
    .unwrap();
    tab.say(&format!(
        "document.querySelector('{}').scrollIntoView(); window.scrollBy(0, -80)",
        shot.place
    ))
    .unwrap();
    let wider = "[...document.querySelectorAll('.galley-settings *')].filter((one) => \
                 one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.galley-scroll') && \
                 !one.closest('.screen-reader-text')).map((one) => one.outerHTML.slice(0, 120))";
    assert_eq!(tab.say(wider).unwrap(), json!([]), "{}", shot.number);
    tab.picture(&picture(&format!("screenshot-{}", shot.number)))
        .unwrap();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        tab.picture(&file(shot.number)).unwrap();
    }
}

#[test]
fn screenshots_of_the_directory_are_of_this_plugin() {
    let stack = &*shared();
    for name in ["spring-tides", "harbour-lights", "a-walk-on-the-quay"] {
        stack.publish(name);
        let path = format!("/{name}/");
        stack.warm(&path);
    }
    // A day of a quiet site.
    for path in ["/", "/harbour-lights/", "/a-walk-on-the-quay/"] {
        stack.warm(path);
        for _ in 0..60 {
            assert!(stack.get(path).is_hit());
        }
    }
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = browser.person().unwrap();
    log_in(&mut tab, stack);
    for shot in SHOTS {
        take(&mut tab, stack, shot);
        assert!(file(shot.number).is_file(), "take it: UPDATE_GOLDEN=1");
    }
}
