//! Certificates are issued, kept, and found again.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::stage::{HOST, OTHER, Plan, TIMEOUT, await_state, get, mode, state};

#[test]
fn a_certificate_is_issued_by_http_and_kept_for_the_next_start() {
    let plan = Plan::new().acme("challenge = [\"http-01\"]\nemail = \"admin@example.test\"");
    let pebble = plan.pebble();
    let mut galley = plan.galley();
    let issued = await_state(&galley, "a certificate and its next order", |state| {
        let next = state["next_order_in_s"].as_u64();
        state["issued"] == 1 && next.is_some_and(|next| next > 3_000)
    });
    assert_eq!(issued["names"], serde_json::json!([HOST, OTHER]));
    assert_eq!(issued["trouble"], serde_json::Value::Null);
    let valid_for = issued["valid_for_s"].as_u64().unwrap();
    assert!((89 * 86_400..=90 * 86_400).contains(&valid_for), "{issued}");
    // Pebble's window is two days wide around a third of the lifetime before the end.
    let next = issued["next_order_in_s"].as_u64().unwrap();
    assert!(next <= 62 * 86_400, "{issued}");
    let chain = plan.await_chain("");
    assert_eq!(mode(&plan.file()), 0o600);
    assert_eq!(mode(&plan.folder().join("account.json")), 0o600);
    assert_eq!(mode(&plan.folder()), 0o700);
    assert_eq!(galley.stop().code(), Some(0));

    let orders = pebble.orders();
    assert_eq!(orders, 1, "{}", pebble.log());
    let galley = plan.galley();
    let found = state(&galley);
    assert!(found["valid_for_s"].is_u64(), "known at the start: {found}");
    // It has asked when to renew, so it has had the time to order.
    await_state(&galley, "a moment for the next order", |state| {
        state["next_order_in_s"]
            .as_u64()
            .is_some_and(|next| next > 86_400)
    });
    assert_eq!((pebble.orders(), plan.chain()), (orders, chain));
    assert_eq!(state(&galley)["issued"], 0);
}

#[test]
fn an_external_account_binding_is_used() {
    let mut plan = Plan::new();
    let key = plan
        .scratch
        .write(
            "eab.key",
            "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W\n",
        )
        .unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    plan.pebble.binding = Some((
        "kid-1",
        "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W",
    ));
    let plan = plan.acme(&format!(
        "account_id = \"kid-1\"\naccount_key_file = \"{}\"",
        key.display()
    ));
    let _pebble = plan.pebble();
    let galley = plan.galley();
    await_state(&galley, "a certificate", |state| state["issued"] == 1);
}

#[test]
fn only_challenges_under_way_are_answered() {
    let plan = Plan::new();
    // The directory has gone, so no challenge is under way.
    drop(plan.pebble());
    let galley = plan.galley();
    for target in [
        "/.well-known/acme-challenge/",
        "/.well-known/acme-challenge/abc",
    ] {
        assert_eq!(get(&galley, target).status, 404, "{target}");
    }
    plan.scratch
        .write("root/.well-known/acme-challenge/of-certbot", "a file")
        .unwrap();
    let file = get(&galley, "/.well-known/acme-challenge/of-certbot");
    assert_eq!((file.status, file.text().as_str()), (200, "a file"));
}

#[test]
fn what_cannot_be_read_is_set_aside_and_ordered_anew() {
    let plan = Plan::new();
    let pebble = plan.pebble();
    let mut galley = plan.galley();
    let chain = plan.await_chain("");
    galley.stop();
    let account = plan.folder().join("account.json");
    fs::write(plan.file(), &chain[..chain.len() / 2]).unwrap();
    fs::write(&account, "{\"account\": ").unwrap();

    let galley = plan.galley();
    plan.await_chain(&chain[..chain.len() / 2]);
    await_state(&galley, "a certificate", |state| state["issued"] == 1);
    galley.wait_for_log("cannot use a stored certificate", TIMEOUT);
    galley.wait_for_log("cannot read the account", TIMEOUT);
    for file in [plan.file(), account] {
        let aside = format!("{}.broken", file.display());
        assert!(fs::exists(&aside).unwrap(), "{aside}");
        assert_eq!(mode(&file), 0o600);
    }
    assert_eq!(pebble.orders(), 2, "{}", pebble.log());
}
