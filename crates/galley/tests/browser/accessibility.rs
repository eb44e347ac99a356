//! Accessibility of the plugin in wp-admin, checked with axe in Chromium: every view on a large screen and a phone, in light and dark,
//! and the result of every button.
//!
//! Only the plugin's elements are checked, not those of WordPress. The end-to-end tests check the page of a multisite network
//! (`wordpress::plugin::multisite_page`).

use std::fs;
use std::path::PathBuf;

use galley_testkit::{Chromium, Scratch, Tab};
use serde_json::{Value, json};

use super::chromium::{log_in, open_editor_panel, screenshot_path, violations};
use super::site::{PluginSite, shared};

const SCREENS: [(u32, u32); 2] = [(360, 800), (1440, 1000)];

const PAGE: &str = "/wp-admin/options-general.php?page=galley";

/// A page or part of wp-admin with elements of the plugin.
struct View {
    name: &'static str,
    path: &'static str,
    /// JavaScript condition that is true when the view is complete.
    until: &'static str,
    /// JavaScript that opens collapsed elements.
    open: &'static str,
    /// Selectors of the plugin's elements.
    elements: &'static [&'static str],
}

const VIEWS: &[View] = &[
    View {
        name: "page",
        path: PAGE,
        until: "document.querySelector('.galley-chart rect')",
        open: "document.querySelectorAll('.galley-settings details').forEach((one) => { one.open = true })",
        elements: &[".galley-settings", "#wp-admin-bar-galley"],
    },
    View {
        name: "why",
        path: "/wp-admin/options-general.php?page=galley&galley_url=/wp-login.php",
        until: "document.querySelector('.galley-answer .galley-why')",
        open: "",
        elements: &[".galley-settings"],
    },
    View {
        name: "widget",
        path: "/wp-admin/index.php",
        until: "document.querySelector('#galley_state li') && /Galley: /.test(document.querySelector('.galley-label').innerText)",
        open: "document.querySelector('#wp-admin-bar-galley').classList.add('hover')",
        elements: &["#galley_state", "#wp-admin-bar-galley"],
    },
    View {
        name: "notice",
        path: "/wp-admin/plugins.php",
        until: "document.querySelector('.galley-notice')",
        open: "",
        elements: &[".galley-notice", "tr[data-slug='galley']"],
    },
    View {
        name: "posts",
        path: "/wp-admin/edit.php",
        until: "document.querySelector('td.column-galley_cached .is-hit')",
        open: "document.querySelectorAll('#the-list tr').forEach((row) => row.classList.add('is-expanded'))",
        elements: &["th.column-galley_cached", "td.column-galley_cached"],
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
        elements: &["[id^='health-check-accordion-block-galley']"],
    },
    View {
        name: "health-info",
        path: "/wp-admin/site-health.php?tab=debug",
        until: "document.querySelector('#health-check-accordion-block-galley')",
        open: "document.querySelectorAll('[aria-controls=\"health-check-accordion-block-galley\"][aria-expanded=\"false\"]') \
               .forEach((one) => one.click())",
        elements: &["#health-check-accordion-block-galley"],
    },
];

/// Opens a page and waits until a condition is true.
fn open(tab: &mut Tab<'_>, site: &PluginSite, path: &str, until: &str) {
    tab.navigate(&site.url(path)).unwrap();
    tab.wait(&format!("document.readyState === 'complete' && {until}"))
        .unwrap();
    tab.load_axe().unwrap();
}

/// Checks the open page at each size and in both color schemes.
fn assert_accessible(tab: &mut Tab<'_>, view: &View) {
    let mut found = Vec::new();
    for (width, height) in SCREENS {
        tab.set_viewport(width, height).unwrap();
        for colors in ["light", "dark"] {
            tab.prefer_colors(colors).unwrap();
            tab.evaluate(view.open).unwrap();
            let case = format!("{}-{width}-{colors}", view.name);
            let of_case = violations(tab, view.elements);
            found.extend(of_case.iter().map(|one| format!("{case}: {one}")));
            if overflows(tab, view) {
                found.push(format!("{case}: wider than the screen"));
            }
            tab.evaluate(&format!(
                "document.querySelector({}).scrollIntoView(); window.scrollBy(0, -80)",
                json!(view.elements[0])
            ))
            .unwrap();
            tab.screenshot(&screenshot_path(&format!("wp-admin-{case}")))
                .unwrap();
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Returns whether a visible element extends beyond the right edge of the screen.
fn overflows(tab: &mut Tab<'_>, view: &View) -> bool {
    let overflows = format!(
        "{}.some((own) => [...document.querySelectorAll(own)].some((one) => one.checkVisibility() && \
         one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.screen-reader-text')))",
        json!(view.elements)
    );
    tab.evaluate(&overflows).unwrap() == Value::Bool(true)
}

/// Fills every view: stored pages, purges, and a cookie that prevents caching.
fn fill_views(site: &PluginSite) {
    for name in ["checked-first", "checked-second"] {
        site.publish(name);
        site.wait_until_stored(&format!("/{name}/"));
    }
    site.php(
        "update_option('galley_cookies', ['visited_before' => ['path' => '/checked-first/', 'time' => time(), 'by' => 'visits.php', 'at' => 'mu-plugins/visits.php:21']]); \
         Galley\\note_cause('menu'); do_action('galley_purge_url', home_url('/checked-second/'));",
    );
    site.wait_until_stored("/checked-first/");
}

#[test]
fn all_plugin_views_in_wp_admin_are_accessible() {
    let site = &*shared();
    fill_views(site);
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = browser.new_tab().unwrap();
    log_in(&mut tab, site);
    for view in VIEWS {
        open(&mut tab, site, view.path, view.until);
        assert_accessible(&mut tab, view);
    }
    // An image without alternative text must be reported, otherwise axe did not check these elements.
    tab.evaluate(
        "document.querySelector('#health-check-accordion-block-galley').append(new Image())",
    )
    .unwrap();
    let found = violations(&mut tab, &["#health-check-accordion-block-galley"]);
    assert!(
        found
            .iter()
            .any(|violation| violation.starts_with("image-alt:")),
        "{found:?}"
    );
    // Last, because the notice is not shown again after it is dismissed.
    open(
        &mut tab,
        site,
        "/wp-admin/plugins.php",
        "document.querySelector('.galley-notice a')",
    );
    tab.click(".galley-notice a").unwrap();
    tab.wait("document.readyState === 'complete' && !document.querySelector('.galley-notice')")
        .unwrap();
    site.php("delete_option('galley_cookies'); delete_user_meta(1, 'galley_dismissed');");
}

#[test]
fn the_block_editor_panel_is_accessible() {
    let site = &*shared();
    let post = site.publish("checked-in-the-editor");
    site.wait_until_stored("/checked-in-the-editor/");
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = browser.new_tab().unwrap();
    log_in(&mut tab, site);
    open(
        &mut tab,
        site,
        &format!("/wp-admin/post.php?post={post}&action=edit"),
        "window.wp && wp.data && wp.data.select('core/editor').getCurrentPostId()",
    );
    tab.evaluate(
        "wp.data.dispatch('core/preferences').set('core/edit-post', 'welcomeGuide', false)",
    )
    .unwrap();
    for (width, height) in SCREENS {
        tab.set_viewport(width, height).unwrap();
        open_editor_panel(&mut tab);
        tab.wait(
            "/purges \\d+ stored page/.test(document.querySelector('.galley-effect').innerText)",
        )
        .unwrap();
        for colors in ["light", "dark"] {
            tab.prefer_colors(colors).unwrap();
            let found = violations(&mut tab, &[".galley-effect"]);
            assert!(found.is_empty(), "{width} {colors}: {}", found.join("\n"));
            tab.screenshot(&screenshot_path(&format!(
                "wp-admin-editor-{width}-{colors}"
            )))
            .unwrap();
        }
    }
}

/// A button or link, and the expected result of a click.
struct Button {
    selector: &'static str,
    /// Beginning of the confirmation text. Empty: no confirmation.
    confirmation: &'static str,
    /// JavaScript condition that is true after the click.
    until: &'static str,
}

const BUTTONS: &[Button] = &[
    Button {
        selector: "#galley-purge-url",
        confirmation: "",
        until: "document.querySelector('.notice-success').innerText.includes('The page is purged')",
    },
    Button {
        selector: "#galley-preload",
        confirmation: "Let PHP generate the pages",
        until: "document.querySelector('.galley-preloading') && document.querySelector('.notice-success').innerText.includes('Preloading has begun')",
    },
    Button {
        selector: "#galley-preload-off",
        confirmation: "",
        until: "document.querySelector('#galley-preload') && document.querySelector('.notice-success').innerText.includes('Preloading is stopped')",
    },
    Button {
        selector: "#galley-development",
        confirmation: "Switch the cache off for two hours?",
        until: "document.querySelector('.galley-state-line.is-amber') && document.querySelector('.notice-success').innerText.includes('Development mode is on')",
    },
    Button {
        selector: "#galley-development-off",
        confirmation: "",
        until: "document.querySelector('#galley-development') && document.querySelector('.notice-success').innerText.includes('Development mode is off')",
    },
    Button {
        selector: "#galley-choose",
        confirmation: "",
        until: "document.querySelector('.notice-success').innerText.includes('The settings are saved')",
    },
    Button {
        selector: "#galley-purge-all",
        confirmation: "Purge all pages?",
        until: "document.querySelector('.notice-success').innerText.includes('All pages are purged')",
    },
    Button {
        selector: "#wp-admin-bar-galley-purge-all a",
        confirmation: "Purge all pages?",
        until: "location.search.includes('galley=purged-all') && document.querySelector('.notice-success')",
    },
    Button {
        selector: "#galley-explain",
        confirmation: "",
        until: "location.search.includes('galley_url=') && document.querySelector('.galley-answer a.button')",
    },
    Button {
        selector: ".galley-answer a.button",
        confirmation: "",
        until: "document.querySelector('.notice-success').innerText.includes('The page is purged')",
    },
];

/// Clicks a button. If it asks for confirmation, first clicks without confirming, which must have no effect.
fn click(tab: &mut Tab<'_>, button: &Button) {
    tab.evaluate("document.querySelectorAll('.notice-success, .notice-error').forEach((old) => old.remove()); window.oldDocument = true")
        .unwrap();
    if !button.confirmation.is_empty() {
        tab.evaluate("window.confirm = (text) => { window.confirmText = text; return false }")
            .unwrap();
        tab.click(button.selector).unwrap();
        tab.wait(&format!(
            "window.confirmText.startsWith({})",
            json!(button.confirmation)
        ))
        .unwrap();
        assert_eq!(tab.evaluate("window.oldDocument").unwrap(), json!(true));
    }
    tab.evaluate("window.confirm = () => true").unwrap();
    tab.click(button.selector).unwrap();
    tab.wait(&format!(
        "!window.oldDocument && document.readyState === 'complete' && {}",
        button.until
    ))
    .unwrap();
    tab.load_axe().unwrap();
}

const SETTINGS_VIEW: &View = &View {
    name: "pressed",
    path: PAGE,
    until: "true",
    open: "",
    elements: &[".galley-settings"],
};

#[test]
fn every_button_of_the_settings_page_works_and_stays_accessible() {
    let site = &*shared();
    site.publish("pressed");
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = browser.new_tab().unwrap();
    log_in(&mut tab, site);
    open(
        &mut tab,
        site,
        PAGE,
        "document.querySelector('#galley-purge-url')",
    );
    for button in BUTTONS {
        let fill = "for (const id of ['galley-purge-address', 'galley-url']) { document.querySelector('#' + id).value = '/pressed/' }";
        tab.evaluate(fill).unwrap();
        let is_purge = button.until.contains("purged");
        if is_purge {
            site.wait_until_stored("/pressed/");
        }
        click(&mut tab, button);
        if is_purge {
            assert!(!site.get("/pressed/").is_hit(), "{}", button.selector);
        }
        assert_accessible(&mut tab, SETTINGS_VIEW);
    }
    // The admin bar of a page purges this page.
    site.wait_until_stored("/pressed/");
    open(
        &mut tab,
        site,
        "/pressed/",
        "document.querySelector('#wp-admin-bar-galley .galley-state.is-hit')",
    );
    tab.evaluate("document.querySelector('#wp-admin-bar-galley').classList.add('hover')")
        .unwrap();
    let found = violations(&mut tab, &["#wp-admin-bar-galley"]);
    assert!(found.is_empty(), "{}", found.join("\n"));
    tab.click("#wp-admin-bar-galley-purge-page a").unwrap();
    tab.wait("document.querySelector('#wp-admin-bar-galley .galley-state.is-miss')")
        .unwrap();
    assert!(!site.get("/pressed/").is_hit());
}

/// Hides a file and restores it when dropped, because other tests share the site.
struct HiddenFile {
    file: PathBuf,
    hidden: PathBuf,
}

impl HiddenFile {
    fn hide(file: PathBuf) -> Self {
        let hidden = file.with_extension("away");
        fs::rename(&file, &hidden).unwrap();
        Self { file, hidden }
    }
}

impl Drop for HiddenFile {
    fn drop(&mut self) {
        let _ = fs::rename(&self.hidden, &self.file);
    }
}

/// Checks the explanation and the connection form.
#[test]
fn the_settings_page_explains_a_missing_connection() {
    let site = &*shared();
    let file = site.wordpress.root.join("wp-content/galley-connection.php");
    let hidden = HiddenFile::hide(file);
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = browser.new_tab().unwrap();
    log_in(&mut tab, site);
    open(
        &mut tab,
        site,
        PAGE,
        "document.querySelector('.galley-state-line.is-red') && document.querySelector('#galley-save')",
    );
    let view = View {
        name: "unconnected",
        ..*SETTINGS_VIEW
    };
    assert_accessible(&mut tab, &view);
    let save = |tab: &mut Tab<'_>, address: &str, message: &str| {
        let button = Button {
            selector: "#galley-save",
            confirmation: "",
            until: "document.querySelector('.galley-settings .notice:not(.galley-notice)')",
        };
        tab.evaluate(&format!(
            "document.querySelector('details.galley-end').open = true; document.querySelector('#galley-address').value = {}",
            json!(address)
        ))
        .unwrap();
        click(tab, &button);
        let shown = tab
            .evaluate(
                "document.querySelector('.galley-settings .notice:not(.galley-notice)').innerText",
            )
            .unwrap();
        assert!(
            shown.as_str().is_some_and(|text| text.contains(message)),
            "{shown}"
        );
        assert_accessible(tab, &view);
    };
    save(&mut tab, "ftp://nowhere", "Invalid address");
    save(&mut tab, "", "The connection is saved");
    drop(hidden);
    site.php("delete_transient('galley_state');");
    open(
        &mut tab,
        site,
        PAGE,
        "document.querySelector('.galley-chart rect')",
    );
}
