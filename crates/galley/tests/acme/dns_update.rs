//! Wildcard certificates with dns-01: dynamic updates of a real DNS server that Pebble queries.

use std::fs;

use galley_testkit::{Knot, wait_for};

use crate::handshake::get_https_page;
use crate::site::{AcmeSite, HOST, TIMEOUT, await_state};

const WILDCARD: &str = "*.example.test";

fn site_with_knot() -> (AcmeSite, Knot) {
    let mut site = AcmeSite::new();
    let knot = Knot::start(&site.scratch.dir("knot").unwrap(), HOST).unwrap();
    site.pebble.dns = Some(knot.port());
    let key = site.scratch.join("tsig.key");
    fs::copy(knot.key_file(), &key).unwrap();
    set_mode(&key);
    let lines = format!(
        "challenge = [\"dns-01\"]\ndns_server = \"127.0.0.1:{}\"\ndns_key_file = \"{}\"\ndns_wait = \"0s\"",
        knot.port(),
        key.display()
    );
    (site.acme(&lines).hosts(&[WILDCARD, HOST]), knot)
}

fn set_mode(file: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn a_wildcard_and_its_domain_are_validated_with_dns_updates() {
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
    let trouble = failed["trouble"].as_str().unwrap();
    assert!(trouble.contains("does not know the key"), "{trouble}");
    assert!(!trouble.contains("Zm9y"), "{trouble}");
    // The key file is read again for each order.
    fs::write(&file, valid_key).unwrap();
    await_state(&galley, "a certificate", |state| state["issued"] == 1);
}
