//! What the plugin shows in wp-admin, in Chromium: every part on a large screen and on a phone, in light and dark, with axe; and every
//! button, with what axe finds of its result.
//!
//! Only the plugin's own elements are checked: WordPress's are not checked. The network's page is in the end-to-end tests
//! (`wordpress::plugin::network_page`).

use std::fs;
use std::path::PathBuf;

use galley_testkit::{Chromium, Scratch, Tab};
use serde_json::{Value, json};

use super::browser::{log_in, open_editor_panel, picture};
use super::stack::{Stack, shared};

const SCREENS: [(u32, u32); 2] = [(360, 800), (1440, 1000)];

const PAGE: &str = "/wp-admin/options-general.php?page=galley";

/// A part of the plugin that people see.
struct View {
    name: &'static str,
    path: &'static str,
    /// Until when it is waited.
    until: &'static str,
    /// What opens its closed parts, on each screen.
    open: &'static str,
    /// Its elements.
    own: &'static [&'static str],
}

const VIEWS: &[View] = &[
    View {
        name: "page",
        path: PAGE,
        until: "document.querySelector('.galley-chart rect')",
        open: "document.querySelectorAll('.galley-settings details').forEach((one) => { one.open = true })",
        own: &[".galley-settings", "#wp-admin-bar-galley"],
    },
    View {
        name: "why",
        path: "/wp-admin/options-general.php?page=galley&galley_url=/wp-login.php",
        until: "document.querySelector('.galley-answer .galley-why')",
        open: "",
        own: &[".galley-settings"],
    },
    View {
        name: "widget",
        path: "/wp-admin/index.php",
        until: "document.querySelector('#galley_state li') && /Galley: /.test(document.querySelector('.galley-label').innerText)",
        open: "document.querySelector('#wp-admin-bar-galley').classList.add('hover')",
        own: &["#galley_state", "#wp-admin-bar-galley"],
    },
    View {
        name: "notice",
        path: "/wp-admin/plugins.php",
        until: "document.querySelector('.galley-notice')",
        open: "",
        own: &[".galley-notice", "tr[data-slug='galley']"],
    },
    View {
        name: "posts",
        path: "/wp-admin/edit.php",
        until: "document.querySelector('td.column-galley_cached .is-hit')",
        open: "document.querySelectorAll('#the-list tr').forEach((row) => row.classList.add('is-expanded'))",
        own: &["th.column-galley_cached", "td.column-galley_cached"],
    },
    View {
        name: "health",
        path: "/wp-admin/site-health.php",
        until: "['connection', 'purges', 'defeats', 'object_cache'].every((name) => \
                document.querySelector(`#health-check-accordion-block-galley_${name}`))",
        open: "(() => { const passed = document.querySelector('.site-health-view-passed'); \
               if (passed.getAttribute('aria-expanded') === 'false') { passed.click() } \
               document.querySelectorAll('[aria-controls^=\"health-check-accordion-block-galley\"][aria-expanded=\"false\"]') \
               .forEach((one) => one.click()) })()",
        own: &["[id^='health-check-accordion-block-galley']"],
    },
    View {
        name: "health-info",
        path: "/wp-admin/site-health.php?tab=debug",
        until: "document.querySelector('#health-check-accordion-block-galley')",
        open: "document.querySelectorAll('[aria-controls=\"health-check-accordion-block-galley\"][aria-expanded=\"false\"]') \
               .forEach((one) => one.click())",
        own: &["#health-check-accordion-block-galley"],
    },
];

/// Opens a page and waits for a part of it.
fn open(tab: &mut Tab<'_>, stack: &Stack, path: &str, until: &str) {
    tab.go(&stack.url(path)).unwrap();
    tab.wait(&format!("document.readyState === 'complete' && {until}"))
        .unwrap();
    tab.load_axe().unwrap();
}

/// Checks the open page on every screen.
fn check(tab: &mut Tab<'_>, view: &View) {
    let mut found = Vec::new();
    for (width, height) in SCREENS {
        tab.screen(width, height).unwrap();
        for colors in ["light", "dark"] {
            tab.prefer_colors(colors).unwrap();
            tab.say(view.open).unwrap();
            let case = format!("{}-{width}-{colors}", view.name);
            let broken = tab.violations(view.own).unwrap();
            found.extend(broken.iter().map(|one| format!("{case}: {one}")));
            if is_too_wide(tab, view) {
                found.push(format!("{case}: wider than the screen"));
            }
            tab.say(&format!(
                "document.querySelector({}).scrollIntoView(); window.scrollBy(0, -80)",
                json!(view.own[0])
            ))
            .unwrap();
            tab.picture(&picture(&format!("wp-admin-{case}"))).unwrap();
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Whether an element ends beyond the screen that is not within one that scrolls.
fn is_too_wide(tab: &mut Tab<'_>, view: &View) -> bool {
    let wide = format!(
        "{}.some((own) => [...document.querySelectorAll(own)].some((one) => one.checkVisibility() && \
         one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.screen-reader-text')))",
        json!(view.own)
    );
    tab.say(&wide).unwrap() == Value::Bool(true)
}

/// A site with something in every part: stored pages, purges, a cookie that works against the cache.
fn prepare(stack: &Stack) {
    for name in ["checked-first", "checked-second"] {
        stack.publish(name);
        stack.warm(&format!("/{name}/"));
    }
    stack.php(
        "update_option('galley_cookies', ['visited_before' => ['path' => '/checked-first/', 'time' => time(), 'by' => 'visits.php', 'at' => 'mu-plugins/visits.php:21']]); \
         Galley\\note_cause('menu'); do_action('galley_purge_url', home_url('/checked-second/'));",
    );
    stack.warm("/checked-first/");
}

#[test]
fn every_part_in_wp_admin_is_accessible_on_every_screen() {
    let stack = &*shared();
    prepare(stack);
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = browser.person().unwrap();
    log_in(&mut tab, stack);
    for view in VIEWS {
        open(&mut tab, stack, view.path, view.until);
        check(&mut tab, view);
    }
    // What is planted is found: nothing else shows that the checker looks at these elements.
    tab.say("document.querySelector('#health-check-accordion-block-galley').append(new Image())")
        .unwrap();
    let planted = tab
        .violations(&["#health-check-accordion-block-galley"])
        .unwrap();
    assert!(
        planted.iter().any(|one| one.starts_with("image-alt:")),
        "{planted:?}"
    );
    // The last: the notice is shown no more.
    open(
        &mut tab,
        stack,
        "/wp-admin/plugins.php",
        "document.querySelector('.galley-notice a')",
    );
    tab.click(".galley-notice a").unwrap();
    tab.wait("document.readyState === 'complete' && !document.querySelector('.galley-notice')")
        .unwrap();
    stack.php("delete_option('galley_cookies'); delete_user_meta(1, 'galley_dismissed');");
}

#[test]
fn the_panel_of_the_block_editor_is_accessible() {
    let stack = &*shared();
    let post = stack.publish("checked-in-the-editor");
    stack.warm("/checked-in-the-editor/");
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = browser.person().unwrap();
    log_in(&mut tab, stack);
    open(
        &mut tab,
        stack,
        &format!("/wp-admin/post.php?post={post}&action=edit"),
        "window.wp && wp.data && wp.data.select('core/editor').getCurrentPostId()",
    );
    tab.say("wp.data.dispatch('core/preferences').set('core/edit-post', 'welcomeGuide', false)")
        .unwrap();
    for (width, height) in SCREENS {
        tab.screen(width, height).unwrap();
        open_editor_panel(&mut tab);
        tab.wait(
            "/purges \\d+ stored page/.test(document.querySelector('.galley-effect').innerText)",
        )
        .unwrap();
        for colors in ["light", "dark"] {
            tab.prefer_colors(colors).unwrap();
            let broken = tab.violations(&[".galley-effect"]).unwrap();
            assert!(broken.is_empty(), "{width} {colors}: {}", broken.join("\n"));
            tab.picture(&picture(&format!("wp-admin-editor-{width}-{colors}")))
                .unwrap();
        }
    }
}

/// A button or link that is pressed, and what is seen then.
struct Press {
    selector: &'static str,
    /// The beginning of what is asked before; empty: nothing.
    question: &'static str,
    /// What comes of it.
    until: &'static str,
}

const PRESSES: &[Press] = &[
    Press {
        selector: "#galley-purge-url",
        question: "",
        until: "document.querySelector('.notice-success').innerText.includes('The page is purged')",
    },
    Press {
        selector: "#galley-preload",
        question: "Let PHP generate the pages",
        until: "document.querySelector('.galley-preloading') && document.querySelector('.notice-success').innerText.includes('Preloading has begun')",
    },
    Press {
        selector: "#galley-preload-off",
        question: "",
        until: "document.querySelector('#galley-preload') && document.querySelector('.notice-success').innerText.includes('Preloading is stopped')",
    },
    Press {
        selector: "#galley-development",
        question: "Switch the cache off for two hours?",
        until: "document.querySelector('.galley-state-line.is-amber') && document.querySelector('.notice-success').innerText.includes('Development mode is on')",
    },
    Press {
        selector: "#galley-development-off",
        question: "",
        until: "document.querySelector('#galley-development') && document.querySelector('.notice-success').innerText.includes('Development mode is off')",
    },
    Press {
        selector: "#galley-choose",
        question: "",
        until: "document.querySelector('.notice-success').innerText.includes('The settings are saved')",
    },
    Press {
        selector: "#galley-purge-all",
        question: "Purge all pages?",
        until: "document.querySelector('.notice-success').innerText.includes('All pages are purged')",
    },
    Press {
        selector: "#wp-admin-bar-galley-purge-all a",
        question: "Purge all pages?",
        until: "location.search.includes('galley=purged-all') && document.querySelector('.notice-success')",
    },
    Press {
        selector: "#galley-explain",
        question: "",
        until: "location.search.includes('galley_url=') && document.querySelector('.galley-answer a.button')",
    },
    Press {
        selector: ".galley-answer a.button",
        question: "",
        until: "document.querySelector('.notice-success').innerText.includes('The page is purged')",
    },
];

/// Presses it, first without the consent that it asks for.
fn press(tab: &mut Tab<'_>, one: &Press) {
    tab.say("document.querySelectorAll('.notice-success, .notice-error').forEach((old) => old.remove()); window.isOld = true")
        .unwrap();
    if !one.question.is_empty() {
        tab.say("window.confirm = (words) => { window.asked = words; return false }")
            .unwrap();
        tab.click(one.selector).unwrap();
        tab.wait(&format!("window.asked.startsWith({})", json!(one.question)))
            .unwrap();
        assert_eq!(tab.say("window.isOld").unwrap(), json!(true));
    }
    tab.say("window.confirm = () => true").unwrap();
    tab.click(one.selector).unwrap();
    tab.wait(&format!(
        "!window.isOld && document.readyState === 'complete' && {}",
        one.until
    ))
    .unwrap();
    tab.load_axe().unwrap();
}

const OF_THE_PAGE: &View = &View {
    name: "pressed",
    path: PAGE,
    until: "true",
    open: "",
    own: &[".galley-settings"],
};

#[test]
fn every_button_of_the_page_works_and_its_result_is_accessible() {
    let stack = &*shared();
    stack.publish("pressed");
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = browser.person().unwrap();
    log_in(&mut tab, stack);
    open(
        &mut tab,
        stack,
        PAGE,
        "document.querySelector('#galley-purge-url')",
    );
    for one in PRESSES {
        let fill = "for (const id of ['galley-purge-address', 'galley-url']) { document.querySelector('#' + id).value = '/pressed/' }";
        tab.say(fill).unwrap();
        let is_purge = one.until.contains("purged");
        if is_purge {
            stack.warm("/pressed/");
        }
        press(&mut tab, one);
        if is_purge {
            assert!(!stack.get("/pressed/").is_hit(), "{}", one.selector);
        }
        check(&mut tab, OF_THE_PAGE);
    }
    // On the page itself, for the page itself.
    stack.warm("/pressed/");
    open(
        &mut tab,
        stack,
        "/pressed/",
        "document.querySelector('#wp-admin-bar-galley .galley-state.is-hit')",
    );
    tab.say("document.querySelector('#wp-admin-bar-galley').classList.add('hover')")
        .unwrap();
    let broken = tab.violations(&["#wp-admin-bar-galley"]).unwrap();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    tab.click("#wp-admin-bar-galley-purge-page a").unwrap();
    tab.wait("document.querySelector('#wp-admin-bar-galley .galley-state.is-miss')")
        .unwrap();
    assert!(!stack.get("/pressed/").is_hit());
}

/// A file that is not there until this is dropped: other tests share the site.
struct Away {
    file: PathBuf,
    away: PathBuf,
}

impl Away {
    fn put(file: PathBuf) -> Self {
        let away = file.with_extension("away");
        fs::rename(&file, &away).unwrap();
        Self { file, away }
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        let _ = fs::rename(&self.away, &self.file);
    }
}

/// The page without a connection: what it says, and the form that makes one.
#[test]
fn without_a_connection_the_page_says_what_to_do() {
    let stack = &*shared();
    let file = stack
        .wordpress
        .root
        .join("wp-content/galley-connection.php");
    let away = Away::put(file);
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = browser.person().unwrap();
    log_in(&mut tab, stack);
    open(
        &mut tab,
        stack,
        PAGE,
        "document.querySelector('.galley-state-line.is-red') && document.querySelector('#galley-save')",
    );
    let view = View {
        name: "unconnected",
        ..*OF_THE_PAGE
    };
    check(&mut tab, &view);
    let save = |tab: &mut Tab<'_>, address: &str, said: &str| {
        let one = Press {
            selector: "#galley-save",
            question: "",
            until: "document.querySelector('.galley-settings .notice:not(.galley-notice)')",
        };
        tab.say(&format!(
            "document.querySelector('details.galley-end').open = true; document.querySelector('#galley-address').value = {}",
            json!(address)
        ))
        .unwrap();
        press(tab, &one);
        let shown = tab
            .say("document.querySelector('.galley-settings .notice:not(.galley-notice)').innerText")
            .unwrap();
        assert!(
            shown.as_str().is_some_and(|text| text.contains(said)),
            "{shown}"
        );
        check(tab, &view);
    };
    save(&mut tab, "ftp://nowhere", "Invalid address");
    save(&mut tab, "", "The connection is saved");
    drop(away);
    stack.php("delete_transient('galley_state');");
    open(
        &mut tab,
        stack,
        PAGE,
        "document.querySelector('.galley-chart rect')",
    );
}
