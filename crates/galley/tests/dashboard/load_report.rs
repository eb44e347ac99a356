//! The HTML report of `galley load` in Chromium: the result first, nothing wider than a phone, two runs side by side.

use std::fs;
use std::process::Command;

use galley_testkit::{Chromium, Scratch};
use serde_json::{Value, json};

use crate::browser::{NO_VIOLATIONS, screenshot_path};
use crate::support::TestServer;

/// Runs `galley load` against the server and returns its standard output.
fn load(server: &TestServer, more: &[&str]) -> String {
    let address = server.galley.addr().to_string();
    let config = server.galley.config().display().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_galley"))
        .args([
            "load",
            "http://a.test/a-rather-long-address-of-a-page/",
            "--connect-to",
        ])
        .args([
            &address,
            "--config",
            &config,
            "--ramp",
            "20:60",
            "--duration",
            "3s",
        ])
        .args(more)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.stdout.is_empty(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_load_report_begins_with_its_result_and_fits_a_phone() {
    let server = TestServer::start();
    let scratch = Scratch::new().unwrap();
    let (json, html) = (scratch.join("before.json"), scratch.join("report.html"));
    fs::write(&json, load(&server, &["--json"])).unwrap();
    let paths = [&json, &html].map(|path| path.display().to_string());
    let text = load(&server, &["--compare", &paths[0], "--html", &paths[1]]);
    assert!(
        text.contains(" requests a second") && text.contains("change: "),
        "{text}"
    );
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = browser.new_tab().unwrap();
    tab.navigate(&format!("file://{}", paths[1])).unwrap();
    tab.load_axe().unwrap();
    let first = "document.querySelector('h1').nextElementSibling.innerText";
    let first = tab.evaluate(first).unwrap().to_string();
    assert!(
        first.contains("Before:") && first.contains(" requests a second"),
        "{first}"
    );
    for (width, height) in [(390, 844), (1440, 1000)] {
        tab.set_viewport(width, height).unwrap();
        for colors in ["light", "dark"] {
            tab.prefer_colors(colors).unwrap();
            let case = format!("load-{width}-{colors}");
            assert_eq!(tab.violations(&["html"]).unwrap(), NO_VIOLATIONS, "{case}");
            let wide = "document.documentElement.scrollWidth > innerWidth || \
                        [...document.querySelectorAll('svg')].some((one) => { const inner = one.getBBox(); return inner.x < 0 || inner.x + inner.width > 640 })";
            assert_eq!(tab.evaluate(wide).unwrap(), Value::Bool(false), "{case}");
            let tops = "[...document.querySelectorAll('section')].map((one) => Math.round(one.getBoundingClientRect().top))";
            let tops = tab.evaluate(tops).unwrap();
            assert_eq!(tops[0] == tops[1], width == 1440, "{case}: {tops}");
            tab.screenshot(&screenshot_path(&case)).unwrap();
        }
    }
    assert_eq!(
        tab.evaluate("document.querySelectorAll('main').length")
            .unwrap(),
        json!(1)
    );
}
