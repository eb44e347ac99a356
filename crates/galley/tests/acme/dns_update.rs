//! Wildcard certificates with dns-01: the hook program of the manual, for DNS servers with dynamic updates, changes a real
//! DNS server that Pebble queries.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use galley_testkit::{Knot, wait_for};

use crate::dns_hook::{WILDCARD, site_with_hook};
use crate::handshake::get_https_page;
use crate::site::{AcmeSite, HOST, TIMEOUT, await_state};

fn site_with_knot() -> (AcmeSite, Knot) {
    let mut site = site_with_hook();
    let knot = Knot::start(&site.scratch.dir("knot").unwrap(), HOST).unwrap();
    site.pebble.dns = Some(knot.port());
    let key = site.scratch.join("tsig.key");
    fs::copy(knot.key_file(), &key).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let hook = manual_hook()
        .replace("/etc/galley/tsig.key", key.to_str().unwrap())
        .replace("ns1.example.com", &format!("127.0.0.1 {}", knot.port()));
    site.scratch.write("hook", hook).unwrap();
    (site, knot)
}

/// The program in `docs/how-to/automatic-certificates.md`.
fn manual_hook() -> String {
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/how-to/automatic-certificates.md"
    );
    let text = fs::read_to_string(page).unwrap();
    let (_, program) = text.split_once("```sh\n").unwrap();
    program.split_once("```").unwrap().0.to_owned()
}

#[test]
fn the_hook_of_the_manual_updates_a_dns_server() {
    let (site, knot) = site_with_knot();
    let pebble = site.start_pebble();
    let galley = site.start_galley();
    let issued = await_state(&galley, "a certificate", |state| state["issued"] == 1);
    assert_eq!(issued["names"], serde_json::json!([HOST, WILDCARD]));
    for host in [HOST, "shop.example.test"] {
        let page = get_https_page(&site, &pebble, host);
        assert_eq!(page.as_deref(), Ok("<html>plain</html>"), "{host}");
    }
    // Both records had the same name. They are removed, and the rest of the zone is unchanged.
    wait_for("the records to be removed", TIMEOUT, || {
        !knot.records().unwrap().contains("_acme-challenge")
    });
    assert!(knot.records().unwrap().contains("127.0.0.1"));
    assert!(knot.log().matches("DDNS, finished").count() >= 2);
}

#[test]
fn a_key_unknown_to_the_dns_server_is_reported_in_the_status() {
    let (site, knot) = site_with_knot();
    let _pebble = site.start_pebble();
    let valid_key = fs::read_to_string(knot.key_file()).unwrap();
    let file = site.scratch.join("tsig.key");
    fs::write(&file, valid_key.replace("\"galley\"", "\"other\"")).unwrap();
    let galley = site.start_galley();
    let failed = await_state(&galley, "a failure", |state| {
        state["failures"].as_u64() >= Some(1)
    });
    let trouble = failed["error"].as_str().unwrap();
    assert!(trouble.ends_with("NOTAUTH(BADKEY)"), "{trouble}");
    // The next order succeeds with the right key.
    fs::write(&file, valid_key).unwrap();
    await_state(&galley, "a certificate", |state| state["issued"] == 1);
}
