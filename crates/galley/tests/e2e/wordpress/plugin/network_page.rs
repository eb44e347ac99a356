//! The plugin's page in the administration of a network, in Chromium: on a large screen and on a phone, in light and dark, with axe, and
//! its button. The pages of a single site are in the tests of `crates/galley/tests/browser`.

use galley_testkit::{Chromium, Scratch, Tab};
use serde_json::json;

use super::super::network::NET;
use super::super::stack::Stack;
use super::network::turn;

const PAGE: &str = "http://net.test/wp-admin/network/settings.php?page=galley-network";

fn log_in(tab: &mut Tab<'_>, stack: &Stack) {
    tab.go("http://net.test/wp-login.php").unwrap();
    let form = format!(
        "document.querySelector('#user_login').value = {}; document.querySelector('#user_pass').value = {}; \
         document.querySelector('#loginform').submit()",
        json!(stack.wordpress.user),
        json!(stack.wordpress.password)
    );
    tab.say(&form).unwrap();
    tab.wait("location.pathname.includes('/wp-admin/') && document.readyState === 'complete'")
        .unwrap();
}

#[track_caller]
fn check(tab: &mut Tab<'_>) {
    for (width, height) in [(360, 800), (1440, 1000)] {
        tab.screen(width, height).unwrap();
        for colors in ["light", "dark"] {
            tab.prefer_colors(colors).unwrap();
            let broken = tab.violations(&[".galley-network"]).unwrap();
            assert!(broken.is_empty(), "{width} {colors}: {}", broken.join("\n"));
            let wide = "[...document.querySelectorAll('.galley-network *')].filter((one) => \
                        one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.outerHTML.slice(0, 120))";
            assert_eq!(tab.say(wide).unwrap(), json!([]), "{width}");
        }
    }
}

#[test]
fn the_page_of_the_network_is_accessible_and_purges_all_sites() {
    let (stack, _turn) = turn();
    let scratch = Scratch::new().unwrap();
    let profile = scratch.join("chromium");
    let mut chromium = Chromium::start_resolving(&profile, NET, stack.addr()).unwrap();
    let mut tab = chromium.person().unwrap();
    log_in(&mut tab, stack);
    tab.go(PAGE).unwrap();
    tab.wait("document.querySelector('.galley-network .galley-state-line')")
        .unwrap();
    tab.load_axe().unwrap();
    check(&mut tab);
    let pages = ["/note/", "/second/note/"];
    for page in pages {
        stack.get(page);
        assert!(stack.get(page).is_hit(), "{page}");
    }
    tab.say("window.confirm = (words) => { window.asked = words; return false }")
        .unwrap();
    tab.click("#galley-purge-network").unwrap();
    tab.wait("window.asked.startsWith('Purge all pages of all sites')")
        .unwrap();
    for page in pages {
        assert!(stack.get(page).is_hit(), "{page} without consent");
    }
    tab.say("window.confirm = () => true").unwrap();
    tab.click("#galley-purge-network").unwrap();
    tab.wait("location.search.includes('galley=purged-all') && document.querySelector('.galley-network .notice-success')")
        .unwrap();
    for page in pages {
        assert!(!stack.get(page).is_hit(), "{page}");
    }
    tab.load_axe().unwrap();
    check(&mut tab);
}
