//! The plugin in Chromium: the block editor, the admin bar, the settings page and the dashboard widget.
//!
//! Screenshots are written to `tmp/screenshots` in the target directory.

use std::path::{Path, PathBuf};

use galley_testkit::{Chromium, Scratch, Tab};
use serde_json::json;

use super::site::{PluginSite, shared};

/// The document with the blocks of the post. From WordPress 7.1 on it is always in a frame of its own.
const CANVAS: &str =
    "(document.querySelector('iframe[name=editor-canvas]')?.contentDocument ?? document)";

pub fn screenshot_path(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("screenshots");
    folder.join(format!("{name}.png"))
}

/// Returns what axe finds in elements of the plugin. From WordPress 7.0 on, each entry of the admin bar has a role that list items may not
/// have: WordPress's own entries, too, so this is not the plugin's.
pub fn violations(tab: &mut Tab<'_>, selectors: &[&str]) -> Vec<String> {
    const ENTRY: &str = "<li role=\"group\" id=\"wp-admin-bar-";
    let is_wordpress = "!!document.querySelector('#wp-admin-bar-site-name[role=group]')";
    let is_wordpress = tab.evaluate(is_wordpress).unwrap() == json!(true);
    let is_of_wordpress = |line: &String| {
        is_wordpress
            && line.starts_with("aria-allowed-role:")
            && line.matches(ENTRY).count() == line.matches("Fix any of the following").count()
    };
    let mut found = tab.violations(selectors).unwrap();
    found.retain(|line| !is_of_wordpress(line));
    found
}

pub fn log_in(tab: &mut Tab<'_>, site: &PluginSite) {
    tab.navigate(&site.url("/wp-login.php")).unwrap();
    let form = format!(
        "document.querySelector('#user_login').value = {}; document.querySelector('#user_pass').value = {}; \
         document.querySelector('#loginform').submit()",
        json!(site.wordpress.user),
        json!(site.wordpress.password)
    );
    tab.evaluate(&form).unwrap();
    tab.wait("location.pathname.startsWith('/wp-admin/') && document.readyState === 'complete'")
        .unwrap();
}

#[test]
fn a_block_editor_save_is_visible_to_visitors_on_the_next_request() {
    let site = &*shared();
    let post = site.publish("edited-in-chromium");
    let path = "/edited-in-chromium/";
    site.wait_until_stored(path);
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = browser.new_tab().unwrap();
    log_in(&mut tab, site);

    tab.navigate(&site.url(&format!("/wp-admin/post.php?post={post}&action=edit")))
        .unwrap();
    tab.wait("window.wp && wp.data && wp.data.select('core/editor').getCurrentPostId()")
        .unwrap();
    tab.evaluate(
        "wp.data.dispatch('core/preferences').set('core/edit-post', 'welcomeGuide', false)",
    )
    .unwrap();
    let paragraph = format!("{CANVAS}.querySelector('[data-type=\"core/paragraph\"]')");
    tab.wait(&paragraph).unwrap();
    tab.evaluate("wp.data.dispatch('core/block-editor').selectBlock(wp.data.select('core/block-editor').getBlockOrder()[0])")
        .unwrap();
    tab.evaluate(&format!("{paragraph}.focus(); {paragraph}.click()"))
        .unwrap();
    tab.wait(&format!(
        "{CANVAS}.activeElement?.closest('[data-type=\"core/paragraph\"]')"
    ))
    .unwrap();
    tab.write("Written in Chromium. ").unwrap();
    tab.wait("wp.data.select('core/editor').isEditedPostDirty()")
        .unwrap();
    tab.screenshot(&screenshot_path("block-editor")).unwrap();
    site.wait_until_stored(path);
    tab.click(".editor-post-publish-button").unwrap();
    tab.wait("wp.data.select('core/editor').didPostSaveRequestSucceed() && !wp.data.select('core/editor').isEditedPostDirty()")
        .unwrap();

    let next = site.get(path);
    assert!(
        next.text().contains("Written in Chromium."),
        "{}",
        next.excerpt()
    );
    let labels = site.purge_labels();
    assert!(
        labels.contains(&json!("Edit of “edited-in-chromium”")),
        "{labels:?}"
    );
    drop(tab);
    let mut visitor = browser.new_tab().unwrap();
    visitor.navigate(&site.url(path)).unwrap();
    visitor
        .wait("document.body.innerText.includes('Written in Chromium.') && !document.querySelector('#wpadminbar')")
        .unwrap();
    visitor.screenshot(&screenshot_path("visitor")).unwrap();
}

#[test]
fn the_admin_bar_and_the_settings_page_work() {
    let site = &*shared();
    site.publish("seen-in-chromium");
    let path = "/seen-in-chromium/";
    site.wait_until_stored(path);
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = browser.new_tab().unwrap();
    log_in(&mut tab, site);

    tab.navigate(&site.url(path)).unwrap();
    tab.wait("document.querySelector('#wp-admin-bar-galley .galley-state.is-hit')")
        .unwrap();
    let label =
        tab.evaluate("document.querySelector('#wp-admin-bar-galley .galley-label').innerText");
    assert!(
        label
            .unwrap()
            .as_str()
            .is_some_and(|label| label.contains("cached"))
    );
    tab.evaluate("document.querySelector('#wp-admin-bar-galley').classList.add('hover')")
        .unwrap();
    tab.screenshot(&screenshot_path("admin-bar")).unwrap();
    tab.evaluate("window.oldDocument = true; document.querySelector('#wp-admin-bar-galley-purge-page a').click()")
        .unwrap();
    // The link redirects back to the page.
    tab.wait(&format!(
        "!window.oldDocument && location.pathname === {} && document.querySelector('#wp-admin-bar-galley .galley-state.is-miss')",
        json!(path)
    ))
    .unwrap();
    assert!(!site.get(path).is_hit());

    site.wait_until_stored(path);
    tab.navigate(&site.url("/wp-admin/options-general.php?page=galley"))
        .unwrap();
    tab.wait("document.querySelector('.galley-connection .is-fine') && document.querySelector('.galley-chart rect')")
        .unwrap();
    let height =
        tab.evaluate("document.querySelector('.galley-chart').getBoundingClientRect().height");
    assert!(
        height
            .unwrap()
            .as_f64()
            .is_some_and(|pixels| pixels > 100.0)
    );
    tab.screenshot(&screenshot_path("settings")).unwrap();
    assert!(site.get(path).is_hit());
    // Without confirmation nothing is purged.
    tab.evaluate(
        "window.confirmText = ''; window.confirm = (text) => { window.confirmText = text; return false; }",
    )
    .unwrap();
    tab.click("#galley-purge-all").unwrap();
    tab.wait("window.confirmText.startsWith('Purge all pages?')")
        .unwrap();
    assert!(site.get(path).is_hit());
    tab.evaluate("window.confirm = () => true").unwrap();
    tab.click("#galley-purge-all").unwrap();
    tab.wait("location.search.includes('galley=purged-all') && document.querySelector('.notice-success')")
        .unwrap();
    assert!(!site.get(path).is_hit());
    tab.screenshot(&screenshot_path("purged")).unwrap();
}

/// Opens the sidebar of the block editor and the panel in it. When the screen becomes small, WordPress closes the sidebar with a
/// delay, and it remembers the state for the next test.
pub fn open_editor_panel(tab: &mut Tab<'_>) {
    tab.wait(
        "(() => { const one = document.querySelector('.galley-effect button'); \
         if (!one) { wp.data.dispatch('core/edit-post').openGeneralSidebar('edit-post/document'); return false } \
         if (one.getAttribute('aria-expanded') === 'true') { return true } one.click(); return false })()",
    )
    .unwrap();
}

#[test]
fn the_block_editor_shows_what_an_update_purges() {
    let site = &*shared();
    let post = site.publish("told-in-the-editor");
    site.wait_until_stored("/told-in-the-editor/");
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = browser.new_tab().unwrap();
    log_in(&mut tab, site);
    tab.navigate(&site.url(&format!("/wp-admin/post.php?post={post}&action=edit")))
        .unwrap();
    tab.wait("window.wp && wp.data && wp.data.select('core/editor').getCurrentPostId()")
        .unwrap();
    tab.evaluate(
        "wp.data.dispatch('core/preferences').set('core/edit-post', 'welcomeGuide', false)",
    )
    .unwrap();
    open_editor_panel(&mut tab);
    tab.wait("/change of the text purges [1-9]\\d* stored page/.test(document.querySelector('.galley-effect').innerText)")
        .unwrap();
    tab.evaluate("document.querySelector('.galley-effect').scrollIntoView()")
        .unwrap();
    tab.screenshot(&screenshot_path("editor-panel")).unwrap();
}

#[test]
fn the_state_is_in_the_admin_bar_and_the_page_fits_a_phone() {
    let site = &*shared();
    site.wait_until_stored("/");
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = browser.new_tab().unwrap();
    log_in(&mut tab, site);
    tab.wait("/Galley: \\S+/.test(document.querySelector('#wp-admin-bar-galley .galley-label').innerText)")
        .unwrap();
    tab.wait("document.querySelector('#galley_state .galley-state-line')")
        .unwrap();
    tab.screenshot(&screenshot_path("dashboard")).unwrap();
    let page = site.url("/wp-admin/options-general.php?page=galley&galley_url=/");
    tab.navigate(&page).unwrap();
    tab.screenshot(&screenshot_path("plugin-page")).unwrap();
    let frame = format!(
        "document.body.innerHTML = '<iframe style=\"width:360px;height:3000px;border:0\"></iframe>'; \
         window.phone = document.querySelector('iframe'); window.phone.src = {}",
        json!(page)
    );
    tab.evaluate(&frame).unwrap();
    tab.wait("window.phone.contentDocument.querySelector('.galley-end') && window.phone.contentDocument.readyState === 'complete'")
        .unwrap();
    let wide = "Array.from(window.phone.contentDocument.querySelectorAll('.galley-settings *')).filter(e => e.getBoundingClientRect().right > 361 \
                && !e.closest('.galley-scroll') && !e.closest('.screen-reader-text')).map(e => e.outerHTML.slice(0, 120))";
    assert_eq!(tab.evaluate(wide).unwrap(), json!([]));
    tab.screenshot(&screenshot_path("plugin-page-phone"))
        .unwrap();
}
