//! Failures of the certificate authority delay a certificate and have no other effect.

use crate::site::{AcmeSite, TIMEOUT, WWW_HOST, await_state, get};

#[test]
fn an_unreachable_directory_does_not_prevent_startup_and_is_retried() {
    let site = AcmeSite::new();
    // Writes Pebble's TLS certificate, which the configuration names.
    drop(site.start_pebble());
    let galley = site.start_galley();
    assert_eq!(get(&galley, "/index.html").status, 200);
    let state = await_state(&galley, "two failures", |state| {
        state["failures_in_a_row"].as_u64() >= Some(2)
    });
    let trouble = state["error"].as_str().unwrap();
    assert!(trouble.contains("127.0.0.1:"), "{trouble}");
    assert_eq!(state["not_after"], serde_json::Value::Null);
    galley.wait_for_log("the site is not served over TLS until then", TIMEOUT);
    let output = galley.cli(&["status"]).unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(
        table.contains("none yet") && table.contains("failed:"),
        "{table}"
    );

    let _pebble = site.start_pebble();
    let state = await_state(&galley, "a certificate", |state| state["issued"] == 1);
    assert_eq!(state["failures_in_a_row"], 0);
    assert_eq!(state["error"], serde_json::Value::Null);
}

#[test]
fn rejected_nonces_and_reused_authorizations_do_not_prevent_issuance() {
    let mut site = AcmeSite::new();
    site.pebble.env = vec![
        ("PEBBLE_WFE_NONCEREJECT", "35"),
        ("PEBBLE_AUTHZREUSE", "100"),
    ];
    site.pebble.validity_s = 6;
    let pebble = site.start_pebble();
    let galley = site.start_galley();
    // The second order finds valid authorizations.
    await_state(&galley, "two certificates", |state| {
        state["issued"].as_u64() >= Some(2)
    });
    let setting = "Configured to reject 35% of good nonces";
    assert!(pebble.log().contains(setting), "{}", pebble.log());
}

#[test]
fn an_unresolvable_name_is_reported_with_the_problem_from_the_authority() {
    let site = AcmeSite::new();
    let pebble = site.start_pebble();
    pebble.set_servfail(WWW_HOST, true).unwrap();
    let galley = site.start_galley();
    let state = await_state(&galley, "a failure", |state| {
        state["failures"].as_u64() >= Some(1)
    });
    let trouble = state["error"].as_str().unwrap();
    assert!(trouble.starts_with(&format!("{WWW_HOST}: ")), "{trouble}");
    assert_eq!(site.stored_chain(), "");

    pebble.set_servfail(WWW_HOST, false).unwrap();
    await_state(&galley, "a certificate", |state| state["issued"] == 1);
}
