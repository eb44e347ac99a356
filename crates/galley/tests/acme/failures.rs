//! What goes wrong at the authority: it costs time and nothing else.

use crate::stage::{OTHER, Plan, TIMEOUT, await_state, get};

#[test]
fn a_directory_that_is_away_hinders_no_start_and_is_asked_again() {
    let plan = Plan::new();
    // Its certificate is known before it is there.
    drop(plan.pebble());
    let galley = plan.galley();
    assert_eq!(get(&galley, "/index.html").status, 200);
    let state = await_state(&galley, "two failures", |state| {
        state["failures_in_a_row"].as_u64() >= Some(2)
    });
    let trouble = state["trouble"].as_str().unwrap();
    assert!(trouble.contains("127.0.0.1:"), "{trouble}");
    assert_eq!(state["not_after"], serde_json::Value::Null);
    galley.wait_for_log("the site is not served over TLS until then", TIMEOUT);
    let metrics = galley.cli(&["status"]).unwrap();
    let table = String::from_utf8(metrics.stdout).unwrap();
    assert!(
        table.contains("none yet") && table.contains("failed:"),
        "{table}"
    );

    let _pebble = plan.pebble();
    let state = await_state(&galley, "a certificate", |state| state["issued"] == 1);
    assert_eq!(state["failures_in_a_row"], 0);
    assert_eq!(state["trouble"], serde_json::Value::Null);
}

#[test]
fn refused_nonces_and_reused_proofs_end_in_a_certificate() {
    let mut plan = Plan::new();
    plan.pebble.env = vec![
        ("PEBBLE_WFE_NONCEREJECT", "35"),
        ("PEBBLE_AUTHZREUSE", "100"),
    ];
    plan.pebble.validity_s = 6;
    let pebble = plan.pebble();
    let galley = plan.galley();
    // The second finds the names proved already.
    await_state(&galley, "two certificates", |state| {
        state["issued"].as_u64() >= Some(2)
    });
    let told = "Configured to reject 35% of good nonces";
    assert!(pebble.log().contains(told), "{}", pebble.log());
}

#[test]
fn an_unknown_name_is_reported_with_the_problem_of_the_authority() {
    let plan = Plan::new();
    let pebble = plan.pebble();
    pebble.set_servfail(OTHER, true).unwrap();
    let galley = plan.galley();
    let state = await_state(&galley, "a failure", |state| {
        state["failures"].as_u64() >= Some(1)
    });
    let trouble = state["trouble"].as_str().unwrap();
    assert!(trouble.starts_with(&format!("{OTHER}: ")), "{trouble}");
    assert_eq!(plan.chain(), "");

    pebble.set_servfail(OTHER, false).unwrap();
    await_state(&galley, "a certificate", |state| state["issued"] == 1);
}
