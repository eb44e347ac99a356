//! Copies that are renewed before they expire, and lifetimes that end apart from one another.

use std::collections::BTreeSet;

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::{Gate, Origin, ReceivedRequest, ResponseWriter};
use galley_testkit::wait_for;

use crate::support::{HOST, SiteBuilder, TIMEOUT, TestSite, json_number, output_text};

/// A life whose last tenth is a second; nothing covers its end.
const TEN: &str = "max-age=10, stale-while-revalidate=0, stale-if-error=0";

/// Asks until an answer is none of the first copy, fresh; gives that one. Every one before was a hit.
fn until_it_changes(site: &TestSite, first: &str) -> Response {
    let mut last = None;
    wait_for("the first copy to leave", TIMEOUT, || {
        let answer = site.get("/");
        let is_first = answer.cache_status() == "galley; hit" && answer.text() == first;
        last = Some(answer);
        !is_first
    });
    last.unwrap()
}

#[test]
fn what_is_asked_for_often_is_renewed_before_it_expires_and_nothing_else() {
    let origin = Origin::start(|seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
        let life = [("Cache-Control", TEN)];
        writer.answer(200, &life, seen.number.to_string().as_bytes());
    })
    .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress").start();
    site.get("/rare");
    site.send(Request::get("/").cookie("_ga=canary"));
    let renewed = until_it_changes(&site, "1");
    assert_eq!(renewed.cache_status(), "galley; hit", "nobody waited");
    assert_eq!(renewed.text(), "2");
    assert_eq!(origin.count("/"), 2, "one request for it");
    assert_eq!(origin.requests()[2].field("cookie"), None);
    // It is older than the other, and has a few hits in its last moments; to be explained is no hit.
    for _ in 0..3 {
        site.get("/rare");
    }
    let url = format!("http://{HOST}/rare");
    wait_for("its end", TIMEOUT, || explained(&site, &url, "age_s") >= 10);
    assert_eq!(origin.count("/rare"), 1);
}

#[test]
fn without_a_preset_it_is_asked_about_with_its_validator() {
    let origin = Origin::start(|seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
        let fields = [("Cache-Control", TEN), ("ETag", "\"a\"")];
        match seen.field("if-none-match") {
            Some("\"a\"") => writer.answer(
                304,
                &[("Cache-Control", "max-age=600"), ("X-New", "1")],
                b"",
            ),
            _ => writer.answer(200, &fields, b"page"),
        };
    })
    .unwrap();
    let site = SiteBuilder::origin(&origin, "none").start();
    site.get("/");
    wait_for("the news", TIMEOUT, || {
        let answer = site.get("/");
        let first = origin.requests().len() == 1;
        assert!(
            answer.cache_status() == "galley; hit" || first,
            "{}",
            answer.cache_status()
        );
        answer.has("x-new")
    });
    assert_eq!(origin.requests().len(), 2);
}

#[test]
fn a_busy_upstream_is_left_to_visitors() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(
        move |seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
            if seen.path() == "/busy" {
                held.pass();
            }
            let life = [("Cache-Control", TEN)];
            writer.answer(200, &life, seen.number.to_string().as_bytes());
        },
    )
    .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .site("in_flight = 2")
        .start();
    let mut busy = site.start_request("/busy");
    gate.wait_for_arrivals(1);
    let first = site.get("/").text();
    let next = until_it_changes(&site, &first);
    let status = next.cache_status();
    assert!(
        status.ends_with("; stored"),
        "it has expired, and a visitor asks: {status}"
    );
    gate.open();
    busy.receive("GET").unwrap();
}

#[test]
fn what_was_stored_together_does_not_expire_together() {
    let origin = Origin::constant(&[], "page").unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress").start();
    let lifetimes: BTreeSet<u64> = (0..20)
        .map(|page| {
            let path = format!("/{page}");
            wait_for("the page to be kept", TIMEOUT, || site.get(&path).is_hit());
            let url = format!("http://{HOST}{path}");
            explained(&site, &url, "lifetime_s")
        })
        .collect();
    assert!(lifetimes.len() > 2, "{lifetimes:?}");
    assert!(
        lifetimes.iter().all(|s| (54..=60).contains(s)),
        "{lifetimes:?}"
    );
}

/// A number of the stored entry, as `galley why` tells it.
fn explained(site: &TestSite, url: &str, name: &str) -> u64 {
    let output = site.galley.cli(&["why", "--json", url]).unwrap();
    assert!(output.status.success(), "{}", output_text(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    json_number(&text, name)
}
