//! Reloads and upgrades while clients use HTTP/3: no request fails.

use std::fs;

use galley_testkit::wait_for;
use serde_json::{Value, json};

use super::client::{fields, run, start};
use crate::reload::{config, reload};
use crate::serving::{Serving, is_alive};
use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite};

/// A site with a stored page, and one that each request generates.
fn site() -> TestSite {
    let site = start(SiteBuilder::php().disk());
    let storable = ["Content-Type: text/html", "Cache-Control: max-age=3600"];
    site.head("/stored/", &storable);
    site.head("/generated/", &["Cache-Control: no-store"]);
    site.get("/stored/").assert_status(200);
    site
}

#[test]
fn reloads_and_upgrades_fail_no_request() {
    reload_and_upgrade(5, 3);
}

#[test]
#[ignore = "takes minutes: the short form runs each time"]
fn five_hundred_reloads_and_fifty_upgrades_fail_no_request_over_http3() {
    reload_and_upgrade(500, 50);
}

fn reload_and_upgrade(reloads: u64, upgrades: u64) {
    let site = site();
    let until = site.scratch.join("over");
    let requests = ["/stored/", "/stored/", "/generated/"].map(|path| fields("GET", path));
    let load = json!({ "load": requests, "until": until.to_str() });
    let mut client = run(&site, load);
    let requests = || site.status_number("requests");
    // The client ends at the first failure.
    let mut wait_for_more = || {
        let before = requests();
        let mut has_ended = false;
        wait_for("more requests", TIMEOUT, || {
            has_ended = client.has_ended();
            has_ended || requests() > before + 20
        });
        !has_ended
    };
    let before = config(&site);
    for number in 0..reloads {
        if !wait_for_more() {
            break;
        }
        let timeout = format!("head_timeout = \"{}m\"", 20 + number % 2);
        reload(&site, &before.replace("head_timeout = \"10m\"", &timeout));
    }
    let serving = Serving::new(&site);
    for _ in 0..upgrades {
        if !wait_for_more() {
            break;
        }
        let old = serving.pid.get();
        serving.upgrade();
        wait_for("the old process to exit", TIMEOUT, || !is_alive(old));
    }
    wait_for_more();
    fs::write(&until, "").unwrap();
    let found = client.result();
    assert_eq!(found["failures"], json!([]), "{found}");
    let number = |name: &str| found[name].as_u64().unwrap();
    // Each of the lasting connections ends with each reload and upgrade.
    let connections = number("connections");
    assert!(connections > 3 * (reloads + upgrades), "{found}");
    assert!(number("responses") >= connections, "{found}");
    let again: Value = found["again"].clone();
    assert!(number("again") <= connections, "{again} of {found}");
}
