//! Wildcards, by dynamic updates of a real DNS server that the authority asks.

use std::fs;

use galley_testkit::{Knot, wait_for};

use crate::handshake::page;
use crate::stage::{HOST, Plan, TIMEOUT, await_state};

const WILDCARD: &str = "*.example.test";

fn plan() -> (Plan, Knot) {
    let mut plan = Plan::new();
    let knot = Knot::start(&plan.scratch.dir("knot").unwrap(), HOST).unwrap();
    plan.pebble.dns = Some(knot.port());
    let key = plan.scratch.join("tsig.key");
    fs::copy(knot.key_file(), &key).unwrap();
    set_mode(&key);
    let lines = format!(
        "challenge = [\"dns-01\"]\ndns_server = \"127.0.0.1:{}\"\ndns_key_file = \"{}\"\ndns_wait = \"0s\"",
        knot.port(),
        key.display()
    );
    (plan.acme(&lines).hosts(&[WILDCARD, HOST]), knot)
}

fn set_mode(file: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn a_wildcard_and_its_domain_are_proved_by_updates() {
    let (plan, knot) = plan();
    let pebble = plan.pebble();
    let galley = plan.galley();
    let issued = await_state(&galley, "a certificate", |state| state["issued"] == 1);
    assert_eq!(issued["names"], serde_json::json!([WILDCARD, HOST]));
    for host in [HOST, "shop.example.test"] {
        let page = page(&plan, &pebble, host);
        assert_eq!(page.as_deref(), Ok("<html>plain</html>"), "{host}");
    }
    // Both records had the same name; nothing of them is left, and the zone is otherwise as it was.
    wait_for("the records to be removed", TIMEOUT, || {
        !knot.records().unwrap().contains("_acme-challenge")
    });
    assert!(knot.records().unwrap().contains("127.0.0.1"));
    assert!(knot.log().matches("DDNS, finished").count() >= 2);
}

#[test]
fn a_key_that_the_server_does_not_know_is_named_in_the_state() {
    let (plan, knot) = plan();
    let _pebble = plan.pebble();
    let right = fs::read_to_string(knot.key_file()).unwrap();
    let file = plan.scratch.join("tsig.key");
    fs::write(&file, right.replace("\"galley\"", "\"other\"")).unwrap();
    let galley = plan.galley();
    let failed = await_state(&galley, "a failure", |state| {
        state["failures"].as_u64() >= Some(1)
    });
    let trouble = failed["trouble"].as_str().unwrap();
    assert!(trouble.contains("does not know the key"), "{trouble}");
    assert!(!trouble.contains("Zm9y"), "{trouble}");
    // The file is read anew for each order.
    fs::write(&file, right).unwrap();
    await_state(&galley, "a certificate", |state| state["issued"] == 1);
}
