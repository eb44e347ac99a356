//! Renewal: in time, when the authority asks for it, and with the old certificate in use while it fails.

use crate::stage::{Plan, TIMEOUT, await_state, state};

#[test]
fn the_old_one_stays_while_the_authority_is_away_and_has_lost_everything() {
    let mut plan = Plan::new();
    plan.pebble.validity_s = 6;
    let mut pebble = plan.pebble();
    let galley = plan.galley();
    let first = plan.await_chain("");
    pebble.kill();
    let held = plan.chain();
    let failed = await_state(&galley, "failures", |state| {
        state["failures_in_a_row"].as_u64() >= Some(2)
    });
    assert!(
        failed["not_after"].is_u64(),
        "the old one is in use: {failed}"
    );
    assert_eq!(plan.chain(), held);
    galley.wait_for_log("the old certificate remains in use", TIMEOUT);

    // Another one in its place: it knows neither the account nor the certificate.
    let _pebble = plan.pebble();
    let renewed = await_state(&galley, "a renewed certificate", |state| {
        state["failures_in_a_row"] == 0
    });
    assert_ne!(plan.await_chain(&held), first);
    assert!(renewed["issued"].as_u64() >= Some(2), "{renewed}");
    galley.wait_for_log("the directory does not know the account", TIMEOUT);
}

#[test]
fn a_certificate_is_renewed_in_time() {
    let mut plan = Plan::new();
    plan.pebble.validity_s = 6;
    let _pebble = plan.pebble();
    let galley = plan.galley();
    let first = plan.await_chain("");
    plan.await_chain(&first);
    // Pebble 2.10 at times rejects the order of a certificate that it has issued as unknown; Galley then orders without naming it.
    let log = galley.log();
    let of_pebble = log.matches("could not find order resulting").count();
    assert_eq!(state(&galley)["failures"], of_pebble, "{log}");
}

#[test]
fn the_authority_may_ask_for_an_early_renewal() {
    let plan = Plan::new();
    let pebble = plan.pebble();
    let mut galley = plan.galley();
    let first = plan.await_chain("");
    galley.stop();
    pebble
        .set_renewal(&first, "2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z")
        .unwrap();
    let galley = plan.galley();
    plan.await_chain(&first);
    await_state(&galley, "one more certificate", |state| {
        state["issued"] == 1
    });
    // One order each: the new certificate is not ordered again.
    assert_eq!(pebble.orders(), 2, "{}", pebble.log());
}
