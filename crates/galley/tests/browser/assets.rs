//! Screenshots for the plugin directory, on a large screen and a phone. `UPDATE_GOLDEN=1` takes them again. No page may be wider than
//! its screen.

use std::path::{Path, PathBuf};

use galley_testkit::{Chromium, Scratch, Tab};
use serde_json::json;

use super::chromium::{log_in, screenshot_path};
use super::site::{PluginSite, shared};

/// The width of screenshots in the plugin directory.
const DESKTOP: (u32, u32) = (1440, 1000);
const PHONE: (u32, u32) = (360, 760);

/// A screenshot and its number in the plugin directory.
struct Screenshot {
    number: u32,
    screen: (u32, u32),
    path: &'static str,
    /// JavaScript condition that is true when the page is complete.
    until: &'static str,
    /// Selector of the element at the top of the screenshot.
    top: &'static str,
}

const SCREENSHOTS: &[Screenshot] = &[
    Screenshot {
        number: 1,
        screen: DESKTOP,
        path: "/wp-admin/options-general.php?page=galley",
        until: "document.querySelector('.galley-chart rect')",
        top: "h1",
    },
    Screenshot {
        number: 2,
        screen: DESKTOP,
        path: "/wp-admin/options-general.php?page=galley&galley_url=/",
        until: "document.querySelector('.galley-answer')",
        top: "#galley-why",
    },
    Screenshot {
        number: 3,
        screen: DESKTOP,
        path: "/wp-admin/options-general.php?page=galley",
        until: "document.querySelector('#galley-purge-all')",
        top: "#galley-purge-address",
    },
    Screenshot {
        number: 4,
        screen: DESKTOP,
        path: "/wp-admin/edit.php",
        until: "document.querySelector('td.column-galley_cached')",
        top: "h1",
    },
    Screenshot {
        number: 5,
        screen: PHONE,
        path: "/wp-admin/options-general.php?page=galley",
        until: "document.querySelector('.galley-chart rect')",
        top: "h1",
    },
];

fn asset_path(number: u32) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wordpress-plugin/assets");
    folder.join(format!("screenshot-{number}.png"))
}

fn take_screenshot(tab: &mut Tab<'_>, site: &PluginSite, shot: &Screenshot) {
    let (width, height) = shot.screen;
    tab.set_viewport(width, height).unwrap();
    tab.navigate(&site.url(shot.path)).unwrap();
    tab.wait(&format!(
        "document.readyState === 'complete' && {}",
        shot.until
    ))
    .unwrap();
    tab.evaluate(&format!(
        "document.querySelector('{}').scrollIntoView(); window.scrollBy(0, -80)",
        shot.top
    ))
    .unwrap();
    let overflowing = "[...document.querySelectorAll('.galley-settings *')].filter((one) => \
                 one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.galley-scroll') && \
                 !one.closest('.screen-reader-text')).map((one) => one.outerHTML.slice(0, 120))";
    assert_eq!(
        tab.evaluate(overflowing).unwrap(),
        json!([]),
        "{}",
        shot.number
    );
    tab.screenshot(&screenshot_path(&format!("screenshot-{}", shot.number)))
        .unwrap();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        tab.screenshot(&asset_path(shot.number)).unwrap();
    }
}

#[test]
fn plugin_directory_screenshots_exist_and_fit_their_screens() {
    let site = &*shared();
    for name in ["spring-tides", "harbour-lights", "a-walk-on-the-quay"] {
        site.publish(name);
        let path = format!("/{name}/");
        site.wait_until_stored(&path);
    }
    // Requests for the chart and the hit ratio.
    for path in ["/", "/harbour-lights/", "/a-walk-on-the-quay/"] {
        site.wait_until_stored(path);
        for _ in 0..60 {
            assert!(site.get(path).is_hit());
        }
    }
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = browser.new_tab().unwrap();
    log_in(&mut tab, site);
    for shot in SCREENSHOTS {
        take_screenshot(&mut tab, site, shot);
        assert!(
            asset_path(shot.number).is_file(),
            "missing screenshot, set UPDATE_GOLDEN=1 to take it"
        );
    }
}
