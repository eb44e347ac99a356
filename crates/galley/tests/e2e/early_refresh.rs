//! Refreshes of popular entries before they expire, and the random variation of lifetimes.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::{Origin, ReceivedRequest, ResponseWriter};
use galley_testkit::wait_for;

use crate::support::{HOST, SiteBuilder, TIMEOUT, TestSite, json_number, output_text, with_host};

/// A lifetime whose last tenth is one second, without stale windows.
const TEN_SECONDS: &str = "max-age=10, stale-while-revalidate=0, stale-if-error=0";

/// Repeats the request until the response is not a hit of the first copy, and returns that response.
fn request_until_changed(site: &TestSite, first: &str) -> Response {
    let mut last = None;
    wait_for("the first copy to be replaced", TIMEOUT, || {
        let response = site.get("/");
        let is_first = response.cache_status() == "galley; hit" && response.text() == first;
        last = Some(response);
        !is_first
    });
    last.unwrap()
}

#[test]
fn only_popular_entries_are_refreshed_before_they_expire() {
    let origin = Origin::start(
        |request: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
            let lifetime = [("Cache-Control", TEN_SECONDS)];
            writer.respond(200, &lifetime, request.number.to_string().as_bytes());
        },
    )
    .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress").start();
    site.get("/rare");
    site.send(Request::get("/").cookie("_ga=canary"));
    let refreshed = request_until_changed(&site, "1");
    assert_eq!(
        refreshed.cache_status(),
        "galley; hit",
        "no request waited for the refresh"
    );
    assert_eq!(refreshed.text(), "2");
    assert_eq!(origin.count("/"), 2, "one upstream request for the refresh");
    assert_eq!(origin.requests()[2].field("cookie"), None);
    // This entry is older and gets a few hits shortly before it expires. `galley why` does not count as a hit.
    for _ in 0..3 {
        site.get("/rare");
    }
    let url = format!("http://{HOST}/rare");
    wait_for("the end of its lifetime", TIMEOUT, || {
        entry_number(&site, &url, "age_s") >= 10
    });
    assert_eq!(origin.count("/rare"), 1);
}

/// The state of the triggering request does not reach the upstream (CVE-2026-60005).
#[test]
fn a_background_refresh_has_nothing_of_the_request_that_caused_it() {
    let origin = Origin::start(|_, writer| {
        let lifetime = "max-age=1, stale-while-revalidate=600";
        writer.respond(200, &[("Cache-Control", lifetime)], b"page");
    })
    .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress").start();
    site.get("/page");
    let cause = Request::get("/page?utm_source=canary")
        .cookie("_ga=canary")
        .field("X-Canary", "canary")
        .field("User-Agent", "canary")
        .field("Referer", "http://canary.test/")
        .field("If-None-Match", "\"canary\"")
        .field("Range", "bytes=0-0")
        .field("X-Forwarded-For", "203.0.113.7")
        .field(
            "traceparent",
            "00-11111111111111111111111111111111-2222222222222222-01",
        );
    let stranger = Ipv4Addr::new(127, 0, 0, 9);
    wait_for("a refresh", TIMEOUT, || {
        let mut connection = site.connect_from(stranger);
        connection.exchange(&with_host(cause.clone())).unwrap();
        origin.requests().len() > 1
    });
    let text = format!("{:?}", origin.requests()[1]).to_ascii_lowercase();
    for foreign in ["canary", "127.0.0.9", "203.0.113.7", "1111111111", "range"] {
        assert!(!text.contains(foreign), "{foreign} in {text}");
    }
}

#[test]
fn without_a_preset_an_early_refresh_is_a_conditional_request() {
    let origin = Origin::start(
        |request: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
            let fields = [("Cache-Control", TEN_SECONDS), ("ETag", "\"a\"")];
            match request.field("if-none-match") {
                Some("\"a\"") => writer.respond(
                    304,
                    &[("Cache-Control", "max-age=600"), ("X-New", "1")],
                    b"",
                ),
                _ => writer.respond(200, &fields, b"page"),
            };
        },
    )
    .unwrap();
    let site = SiteBuilder::origin(&origin, "none").start();
    site.get("/");
    wait_for("the refreshed entry", TIMEOUT, || {
        let response = site.get("/");
        let first = origin.requests().len() == 1;
        assert!(
            response.cache_status() == "galley; hit" || first,
            "{}",
            response.cache_status()
        );
        response.has("x-new")
    });
    assert_eq!(origin.requests().len(), 2);
}

#[test]
fn a_busy_upstream_gets_no_early_refreshes() {
    let (origin, gate) = Origin::gated(|gate, request, writer| {
        if request.path() == "/busy" {
            gate.pass();
        }
        let lifetime = [("Cache-Control", TEN_SECONDS)];
        writer.respond(200, &lifetime, request.number.to_string().as_bytes());
    })
    .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .site("in_flight = 2")
        .start();
    let mut busy = site.start_request("/busy");
    gate.wait_for_arrivals(1);
    let first = site.get("/").text();
    let next = request_until_changed(&site, &first);
    let status = next.cache_status();
    assert!(
        status.ends_with("; stored"),
        "the entry expires and a client request fetches it: {status}"
    );
    gate.open();
    busy.receive("GET").unwrap();
}

#[test]
fn entries_stored_at_the_same_time_expire_at_different_times() {
    let origin = Origin::constant(&[], "page").unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress").start();
    let lifetimes: BTreeSet<u64> = (0..20)
        .map(|page| {
            let path = format!("/{page}");
            wait_for("the page to be stored", TIMEOUT, || {
                site.get(&path).is_hit()
            });
            let url = format!("http://{HOST}{path}");
            entry_number(&site, &url, "lifetime_s")
        })
        .collect();
    assert!(lifetimes.len() > 2, "{lifetimes:?}");
    assert!(
        lifetimes.iter().all(|s| (54..=60).contains(s)),
        "{lifetimes:?}"
    );
}

/// A number of the stored entry in the output of `galley why`.
fn entry_number(site: &TestSite, url: &str, name: &str) -> u64 {
    let output = site.galley.cli(&["why", "--json", url]).unwrap();
    assert!(output.status.success(), "{}", output_text(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    json_number(&text, name)
}
