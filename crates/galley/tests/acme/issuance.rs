//! Certificates are issued, stored, and found again after a restart.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::site::{
    AcmeSite, HOST, TIMEOUT, WWW_HOST, await_state, certificate_state, file_mode, get,
};

#[test]
fn an_http_01_certificate_is_stored_and_reused_after_a_restart() {
    let site = AcmeSite::new().acme("challenge = [\"http-01\"]\nemail = \"admin@example.test\"");
    let pebble = site.start_pebble();
    let mut galley = site.start_galley();
    let issued = await_state(&galley, "a certificate and its next order", |state| {
        let next = state["next_order_in_s"].as_u64();
        state["issued"] == 1 && next.is_some_and(|next| next > 3_000)
    });
    assert_eq!(issued["names"], serde_json::json!([HOST, WWW_HOST]));
    assert_eq!(issued["error"], serde_json::Value::Null);
    let valid_for = issued["valid_for_s"].as_u64().unwrap();
    assert!((89 * 86_400..=90 * 86_400).contains(&valid_for), "{issued}");
    // Pebble's renewal window is two days wide, centered on the point where a third of the lifetime remains.
    let next = issued["next_order_in_s"].as_u64().unwrap();
    assert!(next <= 62 * 86_400, "{issued}");
    let chain = site.await_new_chain("");
    assert_eq!(file_mode(&site.certificate_file()), 0o600);
    assert_eq!(
        file_mode(&site.directory_folder().join("account.json")),
        0o600
    );
    assert_eq!(file_mode(&site.directory_folder()), 0o700);
    assert_eq!(galley.stop().code(), Some(0));

    let orders = pebble.orders();
    assert_eq!(orders, 1, "{}", pebble.log());
    let galley = site.start_galley();
    let found = certificate_state(&galley);
    assert!(found["valid_for_s"].is_u64(), "known at startup: {found}");
    // Galley has fetched the renewal window, so it would have ordered by now.
    await_state(&galley, "the time of the next order", |state| {
        state["next_order_in_s"]
            .as_u64()
            .is_some_and(|next| next > 86_400)
    });
    assert_eq!((pebble.orders(), site.stored_chain()), (orders, chain));
    assert_eq!(certificate_state(&galley)["issued"], 0);
}

#[test]
fn an_external_account_binding_is_sent() {
    let mut site = AcmeSite::new();
    let key = site
        .scratch
        .write(
            "eab.key",
            "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W\n",
        )
        .unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    site.pebble.binding = Some((
        "kid-1",
        "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W",
    ));
    let site = site.acme(&format!(
        "account_id = \"kid-1\"\naccount_key_file = \"{}\"",
        key.display()
    ));
    let _pebble = site.start_pebble();
    let galley = site.start_galley();
    await_state(&galley, "a certificate", |state| state["issued"] == 1);
}

#[test]
fn only_pending_challenges_get_a_response() {
    let site = AcmeSite::new();
    // Pebble has stopped, so no challenge is pending.
    drop(site.start_pebble());
    let galley = site.start_galley();
    for target in [
        "/.well-known/acme-challenge/",
        "/.well-known/acme-challenge/abc",
    ] {
        assert_eq!(get(&galley, target).status, 404, "{target}");
    }
    site.scratch
        .write("root/.well-known/acme-challenge/of-certbot", "a file")
        .unwrap();
    let file = get(&galley, "/.well-known/acme-challenge/of-certbot");
    assert_eq!((file.status, file.text().as_str()), (200, "a file"));
}

#[test]
fn unreadable_stored_files_are_set_aside_and_ordered_again() {
    let site = AcmeSite::new();
    let pebble = site.start_pebble();
    let mut galley = site.start_galley();
    let chain = site.await_new_chain("");
    galley.stop();
    let account = site.directory_folder().join("account.json");
    fs::write(site.certificate_file(), &chain[..chain.len() / 2]).unwrap();
    fs::write(&account, "{\"account\": ").unwrap();

    let galley = site.start_galley();
    site.await_new_chain(&chain[..chain.len() / 2]);
    await_state(&galley, "a certificate", |state| state["issued"] == 1);
    galley.wait_for_log("cannot use a stored certificate", TIMEOUT);
    galley.wait_for_log("cannot read the account", TIMEOUT);
    for file in [site.certificate_file(), account] {
        let set_aside = format!("{}.broken", file.display());
        assert!(fs::exists(&set_aside).unwrap(), "{set_aside}");
        assert_eq!(file_mode(&file), 0o600);
    }
    assert_eq!(pebble.orders(), 2, "{}", pebble.log());
}
