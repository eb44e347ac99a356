//! PHP stops while wp-admin has a PHP of its own: `galley status`, the plugin's page and the admin bar say the same.

use std::time::{Duration, Instant};

use galley_testkit::{Chromium, Scratch, Tab, wait_for};

use super::chromium::{log_in, screenshot_path, violations};
use super::site::{PluginSite, TIMEOUT, output_text, shared};

const PAGE: &str = "/wp-admin/options-general.php?page=galley";

/// Opens the plugin's page and returns its state: the classes and the text of the line.
fn state_line(tab: &mut Tab<'_>, site: &PluginSite) -> String {
    tab.navigate(&site.url(PAGE)).unwrap();
    tab.wait("document.readyState === 'complete' && document.querySelector('.galley-state-line')")
        .unwrap();
    let line = "(() => { const line = document.querySelector('.galley-state-line'); return `${line.className} ${line.innerText}` })()";
    tab.evaluate(line).unwrap().as_str().unwrap().to_owned()
}

#[test]
fn the_plugin_page_shows_the_verdict_when_php_stops() {
    let mut site = shared();
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = browser.new_tab().unwrap();
    log_in(&mut tab, &site);
    let is_fine = |site: &PluginSite| site.galley.cli(&["status"]).unwrap().status.success();
    wait_for("a status without problems", TIMEOUT, || is_fine(&site));
    let line = state_line(&mut tab, &site);
    assert!(!line.contains("is-red"), "{line}");

    site.fpm.kill();
    let stopped = Instant::now();
    wait_for("a failing status", TIMEOUT, || !is_fine(&site));
    let noticed = stopped.elapsed();
    assert!(
        noticed < Duration::from_secs(5),
        "noticed after {noticed:?}"
    );
    let output = site.galley.cli(&["status"]).unwrap();
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let address = site.fpm.address();
    assert!(
        text.contains(&format!("No response from {address}")) && text.contains(" (for "),
        "{text}"
    );
    let line = state_line(&mut tab, &site);
    assert!(
        line.contains("is-red") && line.contains("PHP does not answer"),
        "{line}"
    );
    assert!(
        line.contains(&address) && line.contains("os error"),
        "{line}"
    );
    // The bar asks at most every 20 seconds.
    site.php("delete_transient('galley_state');");
    for (width, height) in [(390, 844), (1440, 1000)] {
        tab.set_viewport(width, height).unwrap();
        for colors in ["light", "dark"] {
            tab.prefer_colors(colors).unwrap();
            state_line(&mut tab, &site);
            tab.load_axe().unwrap();
            tab.wait(
                "document.querySelector('#wp-admin-bar-galley .galley-state.is-pass')?.checkVisibility()",
            )
            .unwrap();
            let mark = tab.evaluate("document.querySelector('.galley-state').textContent");
            assert_eq!(mark.unwrap(), "✗");
            let own = [".galley-state-line", "#wp-admin-bar-galley"];
            let found = violations(&mut tab, &own);
            assert!(found.is_empty(), "{width} {colors}: {found:?}");
            let case = format!("wp-admin-php-stopped-{width}-{colors}");
            tab.screenshot(&screenshot_path(&case)).unwrap();
        }
    }
    site.fpm.restart().unwrap();
    // Until PHP answers, so that other tests find the site as it was.
    wait_for("an answer of PHP", TIMEOUT, || {
        site.get("/?after-the-outage").status == 200
    });
    site.php("delete_transient('galley_state');");
}
