//! Renewal: on time, early if the authority requests it, and with the old certificate in use during failures.

use crate::site::{AcmeSite, TIMEOUT, await_state, certificate_state};

#[test]
fn the_old_certificate_is_used_while_renewal_fails() {
    let mut site = AcmeSite::new();
    site.pebble.validity_s = 6;
    let mut pebble = site.start_pebble();
    let galley = site.start_galley();
    let first = site.await_new_chain("");
    pebble.kill();
    let stored = site.stored_chain();
    let failed = await_state(&galley, "failures", |state| {
        state["failures_in_a_row"].as_u64() >= Some(2)
    });
    assert!(
        failed["not_after"].is_u64(),
        "the old certificate is in use: {failed}"
    );
    assert_eq!(site.stored_chain(), stored);
    galley.wait_for_log("the old certificate remains in use", TIMEOUT);

    // A new Pebble knows neither the account nor the certificate.
    let _pebble = site.start_pebble();
    let renewed = await_state(&galley, "a renewed certificate", |state| {
        state["failures_in_a_row"] == 0
    });
    assert_ne!(site.await_new_chain(&stored), first);
    assert!(renewed["issued"].as_u64() >= Some(2), "{renewed}");
    galley.wait_for_log("the directory does not know the account", TIMEOUT);
}

#[test]
fn a_certificate_is_renewed_on_time() {
    let mut site = AcmeSite::new();
    site.pebble.validity_s = 6;
    let _pebble = site.start_pebble();
    let galley = site.start_galley();
    let first = site.await_new_chain("");
    site.await_new_chain(&first);
    // Pebble 2.10 sometimes rejects an order that replaces a certificate of its own as unknown; Galley then orders without `replaces`.
    let log = galley.log();
    let pebble_errors = log.matches("could not find order resulting").count();
    assert_eq!(
        certificate_state(&galley)["failures"],
        pebble_errors,
        "{log}"
    );
}

#[test]
fn the_authority_can_request_an_early_renewal() {
    let site = AcmeSite::new();
    let pebble = site.start_pebble();
    let mut galley = site.start_galley();
    let first = site.await_new_chain("");
    galley.stop();
    pebble
        .set_renewal(&first, "2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z")
        .unwrap();
    let galley = site.start_galley();
    site.await_new_chain(&first);
    await_state(&galley, "one more certificate", |state| {
        state["issued"] == 1
    });
    // One order per certificate: the new certificate is not ordered again.
    assert_eq!(pebble.orders(), 2, "{}", pebble.log());
}
