//! A purge during the revalidation of a stored response wins over the upstream's response, also over a 304.

use galley_testkit::client::Request;
use galley_testkit::origin::{Gate, Origin, ReceivedRequest, ResponseWriter};
use galley_testkit::wait_for;

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite};

/// The first response is stale at once and has a validator. Conditional requests wait at the gate and get a 304. Other requests
/// get the new content.
fn origin(gate: &Gate, cache_control: &'static str) -> Origin {
    let gate = gate.clone();
    Origin::start(
        move |request: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
            let tag = ("ETag", "\"a\"");
            if request.number == 0 {
                let fields = [
                    ("Cache-Control", cache_control),
                    ("Age", "20"),
                    tag,
                    ("Cache-Tag", "t1"),
                ];
                writer.respond(200, &fields, b"old");
            } else if request.field("if-none-match").is_some() {
                gate.pass();
                writer.respond(304, &[("Cache-Control", "max-age=600"), tag], b"");
            } else {
                let fields = [("Cache-Control", "max-age=600"), ("ETag", "\"b\"")];
                writer.respond(200, &fields, b"new");
            }
        },
    )
    .unwrap()
}

fn wait_until_idle(site: &TestSite) {
    wait_for("all fetches to end", TIMEOUT, || {
        site.status_number("in_flight") == 0
    });
}

#[test]
fn a_304_does_not_restore_a_page_purged_during_the_revalidation() {
    for arguments in [&["--url", "/"][..], &["--all"], &["--tag", "t1"]] {
        let gate = Gate::new();
        let origin = origin(&gate, "max-age=10");
        let site = SiteBuilder::origin(&origin, "none").start();
        assert_eq!(site.get("/").text(), "old");
        let mut connection = site.start_request("/");
        gate.wait_for_arrivals(1);
        site.purge(arguments);
        gate.open();
        let response = connection.receive("GET").unwrap();
        assert_eq!(
            response.text(),
            "new",
            "{arguments:?}: expected an unconditional request"
        );
        assert_eq!(origin.requests().len(), 3, "{arguments:?}");
        let after = site.get("/");
        assert_eq!(
            after.text(),
            "new",
            "{arguments:?}: {}",
            after.cache_status()
        );
    }
}

#[test]
fn a_304_in_the_background_does_not_restore_a_purged_page() {
    let gate = Gate::new();
    let origin = origin(&gate, "max-age=10, stale-while-revalidate=600");
    let site = SiteBuilder::origin(&origin, "none").start();
    assert_eq!(site.get("/").text(), "old");
    wait_for("the revalidation", TIMEOUT, || {
        assert_eq!(site.get("/").text(), "old");
        gate.arrivals() > 0
    });
    site.send(Request::new("PURGE", "/")).assert_status(200);
    assert_eq!(site.get("/").text(), "new");
    gate.open();
    wait_until_idle(&site);
    assert_eq!(site.get("/").text(), "new");
    let is_unconditional = |request: &&ReceivedRequest| request.field("if-none-match").is_none();
    assert!(
        origin
            .requests()
            .iter()
            .skip(1)
            .filter(is_unconditional)
            .count()
            >= 1
    );
}

#[test]
fn a_background_refresh_that_began_before_a_purge_is_not_stored() {
    for preset in ["wordpress", "none"] {
        let (origin, gate) = Origin::gated(|gate, request, writer| {
            if request.number == 1 {
                gate.pass();
            }
            let cache_control = [("Cache-Control", "max-age=5, stale-while-revalidate=600")];
            writer.respond(200, &cache_control, request.number.to_string().as_bytes());
        })
        .unwrap();
        let site = SiteBuilder::origin(&origin, preset).start();
        site.get("/");
        wait_for("the refresh", TIMEOUT, || {
            assert_eq!(site.get("/").text(), "0", "{preset}");
            gate.arrivals() > 0
        });
        site.send(Request::new("PURGE", "/")).assert_status(200);
        assert_eq!(
            site.get("/").text(),
            "2",
            "{preset}: the refresh began before the purge"
        );
        gate.open();
        wait_until_idle(&site);
        assert_ne!(site.get("/").text(), "1", "{preset}");
    }
}

#[test]
fn a_refresh_that_a_soft_purge_outdates_does_not_delay_the_next() {
    let (origin, gate) = Origin::gated(|gate, request, writer| {
        if request.number == 1 {
            gate.pass();
        }
        writer.respond(200, &[], request.number.to_string().as_bytes());
    })
    .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress").start();
    site.get("/");
    let purge_softly = || {
        site.send(Request::new("PURGE", "/").field("X-Purge-Soft", "1"))
            .assert_status(200);
    };
    purge_softly();
    assert_eq!(site.get("/").text(), "0");
    gate.wait_for_arrivals(1);
    purge_softly();
    wait_for("the second refresh", TIMEOUT, || {
        site.get("/").text() == "2"
    });
    gate.open();
    wait_until_idle(&site);
    assert_eq!(site.get("/").text(), "2", "the first refresh was stored");
}
