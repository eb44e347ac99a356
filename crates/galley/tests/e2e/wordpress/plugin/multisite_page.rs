//! The plugin's page in the network admin area, in Chromium: accessibility on a large screen and a phone, in light and dark, and its
//! purge button. `crates/galley/tests/browser` tests the pages of a single site.

use galley_testkit::{Chromium, Scratch, Tab};
use serde_json::json;

use super::super::multisite::NET;
use super::super::stack::WordPressStack;
use super::multisite::shared_stack;

const PAGE: &str = "http://net.test/wp-admin/network/settings.php?page=galley-network";

fn log_in(tab: &mut Tab<'_>, stack: &WordPressStack) {
    tab.navigate("http://net.test/wp-login.php").unwrap();
    let form = format!(
        "document.querySelector('#user_login').value = {}; document.querySelector('#user_pass').value = {}; \
         document.querySelector('#loginform').submit()",
        json!(stack.wordpress.user),
        json!(stack.wordpress.password)
    );
    tab.evaluate(&form).unwrap();
    tab.wait("location.pathname.includes('/wp-admin/') && document.readyState === 'complete'")
        .unwrap();
}

/// Checks accessibility and layout at both sizes and in both color schemes.
#[track_caller]
fn assert_accessible(tab: &mut Tab<'_>) {
    for (width, height) in [(360, 800), (1440, 1000)] {
        tab.set_viewport(width, height).unwrap();
        for colors in ["light", "dark"] {
            tab.prefer_colors(colors).unwrap();
            let violations = tab.violations(&[".galley-network"]).unwrap();
            assert!(
                violations.is_empty(),
                "{width} {colors}: {}",
                violations.join("\n")
            );
            let overflowing = "[...document.querySelectorAll('.galley-network *')].filter((one) => \
                        one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.outerHTML.slice(0, 120))";
            assert_eq!(tab.evaluate(overflowing).unwrap(), json!([]), "{width}");
        }
    }
}

#[test]
fn the_network_settings_page_is_accessible_and_purges_all_sites() {
    let (stack, _lock) = shared_stack();
    let scratch = Scratch::new().unwrap();
    let profile = scratch.join("chromium");
    let mut chromium = Chromium::start_resolving(&profile, NET, stack.addr()).unwrap();
    let mut tab = chromium.new_tab().unwrap();
    log_in(&mut tab, stack);
    tab.navigate(PAGE).unwrap();
    tab.wait("document.querySelector('.galley-network .galley-state-line')")
        .unwrap();
    tab.load_axe().unwrap();
    assert_accessible(&mut tab);
    let pages = ["/note/", "/second/note/"];
    for page in pages {
        stack.get(page);
        assert!(stack.get(page).is_hit(), "{page}");
    }
    tab.evaluate("window.confirm = (text) => { window.confirmText = text; return false }")
        .unwrap();
    tab.click("#galley-purge-network").unwrap();
    tab.wait("window.confirmText.startsWith('Purge all pages of all sites')")
        .unwrap();
    for page in pages {
        assert!(
            stack.get(page).is_hit(),
            "{page} was purged without confirmation"
        );
    }
    tab.evaluate("window.confirm = () => true").unwrap();
    tab.click("#galley-purge-network").unwrap();
    tab.wait("location.search.includes('galley=purged-all') && document.querySelector('.galley-network .notice-success')")
        .unwrap();
    for page in pages {
        assert!(!stack.get(page).is_hit(), "{page}");
    }
    tab.load_axe().unwrap();
    assert_accessible(&mut tab);
}
