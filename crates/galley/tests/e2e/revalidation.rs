//! A purge that lands while a stored copy is being asked about wins over the answer, a 304 included.

use galley_testkit::client::Request;
use galley_testkit::origin::{Gate, Origin, ReceivedRequest, ResponseWriter};
use galley_testkit::wait_for;

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite};

/// The first response is stale at once and has a validator; conditional requests with it wait at the gate and get a 304;
/// requests without it get the new content.
fn origin(gate: &Gate, life: &'static str) -> Origin {
    let gate = gate.clone();
    Origin::start(
        move |seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
            let tag = ("ETag", "\"a\"");
            if seen.number == 0 {
                let fields = [
                    ("Cache-Control", life),
                    ("Age", "20"),
                    tag,
                    ("Cache-Tag", "t1"),
                ];
                writer.answer(200, &fields, b"old");
            } else if seen.field("if-none-match").is_some() {
                gate.pass();
                writer.answer(304, &[("Cache-Control", "max-age=600"), tag], b"");
            } else {
                let fields = [("Cache-Control", "max-age=600"), ("ETag", "\"b\"")];
                writer.answer(200, &fields, b"new");
            }
        },
    )
    .unwrap()
}

fn quiet(site: &TestSite) {
    wait_for("all exchanges to end", TIMEOUT, || {
        site.status_number("in_flight") == 0
    });
}

#[test]
fn a_304_does_not_bring_back_what_was_purged_meanwhile() {
    for order in [&["--url", "/"][..], &["--all"], &["--tag", "t1"]] {
        let gate = Gate::new();
        let origin = origin(&gate, "max-age=10");
        let site = SiteBuilder::origin(&origin, "none").start();
        assert_eq!(site.get("/").text(), "old");
        let mut asking = site.start_request("/");
        gate.wait_for_arrivals(1);
        site.purge(order);
        gate.open();
        let answer = asking.receive("GET").unwrap();
        assert_eq!(
            answer.text(),
            "new",
            "{order:?}: asked again without conditions"
        );
        assert_eq!(origin.requests().len(), 3, "{order:?}");
        let after = site.get("/");
        assert_eq!(after.text(), "new", "{order:?}: {}", after.cache_status());
    }
}

#[test]
fn a_304_in_the_background_does_not_bring_back_what_was_purged_meanwhile() {
    let gate = Gate::new();
    let origin = origin(&gate, "max-age=10, stale-while-revalidate=600");
    let site = SiteBuilder::origin(&origin, "none").start();
    assert_eq!(site.get("/").text(), "old");
    wait_for("the stale copy to be asked about", TIMEOUT, || {
        assert_eq!(site.get("/").text(), "old");
        gate.arrivals() > 0
    });
    site.send(Request::new("PURGE", "/")).assert_status(200);
    assert_eq!(site.get("/").text(), "new");
    gate.open();
    quiet(&site);
    assert_eq!(site.get("/").text(), "new");
    let without = |seen: &&ReceivedRequest| seen.field("if-none-match").is_none();
    assert!(origin.requests().iter().skip(1).filter(without).count() >= 1);
}

#[test]
fn a_renewal_that_raced_a_purge_is_not_kept() {
    for preset in ["wordpress", "none"] {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::start(
            move |seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
                if seen.number == 1 {
                    held.pass();
                }
                let life = [("Cache-Control", "max-age=5, stale-while-revalidate=600")];
                writer.answer(200, &life, seen.number.to_string().as_bytes());
            },
        )
        .unwrap();
        let site = SiteBuilder::origin(&origin, preset).start();
        site.get("/");
        wait_for("the renewal", TIMEOUT, || {
            assert_eq!(site.get("/").text(), "0", "{preset}");
            gate.arrivals() > 0
        });
        site.send(Request::new("PURGE", "/")).assert_status(200);
        assert_eq!(site.get("/").text(), "2", "{preset}: not what began before");
        gate.open();
        quiet(&site);
        assert_ne!(site.get("/").text(), "1", "{preset}");
    }
}

#[test]
fn a_refresh_that_a_purge_outdated_does_not_delay_the_next() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(
        move |seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
            if seen.number == 1 {
                held.pass();
            }
            writer.answer(200, &[], seen.number.to_string().as_bytes());
        },
    )
    .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress").start();
    site.get("/");
    let soft = || {
        site.send(Request::new("PURGE", "/").field("X-Purge-Soft", "1"))
            .assert_status(200);
    };
    soft();
    assert_eq!(site.get("/").text(), "0");
    gate.wait_for_arrivals(1);
    soft();
    wait_for("the second refresh", TIMEOUT, || {
        site.get("/").text() == "2"
    });
    gate.open();
    quiet(&site);
    assert_eq!(site.get("/").text(), "2", "what began before is not kept");
}
