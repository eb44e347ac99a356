//! Effects of unsafe requests on stored pages: purges, their limits per client and per page, and unknown methods.

use std::collections::BTreeSet;

use galley_testkit::client::Request;
use galley_testkit::origin::Origin;
use galley_testkit::wait_for;
use serde_json::json;

use crate::http2::client::Client;
use crate::http3::client::{fields as http3_fields, start as start_http3, streams};
use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite, page_value, with_host};

const SESSION: &str = "wordpress_logged_in_0123=editor|1|x";

/// The field that the WordPress plugin adds to responses.
const PLUGIN: &str = "Galley-Plugin: 0.3.0";

/// Requests a page and returns its run of PHP.
fn run(site: &TestSite, page: &str) -> u64 {
    let response = site.get(page).expect_status(200);
    page_value(&response.text(), "run").parse().unwrap()
}

/// Stores a page and returns its run of PHP.
fn fill(site: &TestSite, page: &str) -> u64 {
    wait_for(&format!("{page} to be stored"), TIMEOUT, || {
        site.get(page).is_hit()
    });
    run(site, page)
}

fn post(page: &str) -> Request {
    Request::form(page, &[("a", "b")])
}

#[track_caller]
fn assert_stale_once(site: &TestSite, page: &str, old: u64) {
    let response = site.get(page);
    let status = response.cache_status();
    assert!(status.contains("detail=revalidating"), "{page}: {status}");
    assert_eq!(
        page_value(&response.text(), "run"),
        old.to_string(),
        "{page}"
    );
    wait_for(&format!("a new response of {page}"), TIMEOUT, || {
        run(site, page) != old
    });
}

#[test]
fn an_anonymous_post_does_not_purge_if_the_plugin_is_active() {
    let site = SiteBuilder::php().start();
    site.head("/a", &[PLUGIN]);
    site.head("/comment", &[PLUGIN, "Location: /a#c1", "Status: 302"]);
    let first = fill(&site, "/a");
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        for _ in 0..8 {
            let response = site.send(Request::new(method, "/a").body("x"));
            assert!(!response.has("Galley-Plugin"), "{}", response.excerpt());
            response.assert_status(200);
            site.send(post("/comment")).assert_status(302);
            let page = site.get("/a");
            assert_eq!(page.cache_status().split(';').nth(1), Some(" hit"));
            assert!(!page.cache_status().contains("detail"), "{method}");
            assert_eq!(
                page_value(&page.text(), "run"),
                first.to_string(),
                "{method}"
            );
        }
    }
    for request in forged("/a") {
        site.send(request).assert_status(200);
        assert_eq!(run(&site, "/a"), first);
    }
    // Purges by the plugin are effective.
    site.head("/edit", &[PLUGIN, "Galley-Purge: id=x1,/a"]);
    site.send(post("/edit")).assert_status(200);
    assert!(!site.get("/a").is_hit());
}

#[test]
fn an_anonymous_post_purges_softly_without_the_plugin() {
    let site = SiteBuilder::php().start();
    site.head("/comment", &["Location: /b#c1", "Status: 302"]);
    let first = fill(&site, "/a");
    site.send(post("/a")).assert_status(200);
    assert_stale_once(&site, "/a", first);
    let first = fill(&site, "/b");
    site.send(post("/comment")).assert_status(302);
    assert_stale_once(&site, "/b", first);
}

/// Requests with what an editor, a commenter or a customer sends, which anybody can send.
fn forged(page: &str) -> Vec<Request> {
    vec![
        post(page).cookie(SESSION),
        post(page).cookie("comment_author_0123=x"),
        post(page).cookie("woocommerce_items_in_cart=1"),
        post(page).field("Authorization", "Basic eDp5"),
    ]
}

#[test]
fn a_session_that_wordpress_has_not_confirmed_purges_no_harder() {
    let site = SiteBuilder::php().start();
    for number in 0..4 {
        let page = format!("/p{number}");
        let first = fill(&site, &page);
        site.send(forged(&page).swap_remove(number))
            .assert_status(200);
        assert_stale_once(&site, &page, first);
    }
}

#[test]
fn a_stale_page_is_served_if_php_fails_after_a_post() {
    let mut site = SiteBuilder::php().start();
    let first = fill(&site, "/a");
    site.send(post("/a")).assert_status(200);
    site.fpm.as_mut().unwrap().kill();
    for _ in 0..20 {
        let page = site.get("/a").expect_status(200);
        assert_eq!(page_value(&page.text(), "run"), first.to_string());
    }
}

#[test]
fn repeated_posts_refresh_a_page_at_a_limited_rate_and_once_at_the_end() {
    let site = SiteBuilder::php().workers(2).start();
    for cookie in [None, Some(SESSION)] {
        let page = if cookie.is_some() { "/s" } else { "/a" };
        let unsafe_request = || cookie.map_or(post(page), |cookie| post(page).cookie(cookie));
        let start = std::time::Instant::now();
        let mut runs = BTreeSet::from([fill(&site, page)]);
        let (mut misses, mut last_run) = (0, 0);
        for _ in 0..120 {
            let response = site.send(unsafe_request()).expect_status(200);
            last_run = page_value(&response.text(), "run").parse().unwrap();
            let page_response = site.get(page).expect_status(200);
            misses += usize::from(!page_response.is_hit());
            runs.insert(page_value(&page_response.text(), "run").parse().unwrap());
        }
        // Five purges immediately, then one every five seconds, and one delayed purge every five seconds.
        let limit = 8 + 2 * usize::try_from(start.elapsed().as_secs() / 5).unwrap();
        assert!(runs.len() <= limit, "{page}: {runs:?}");
        assert_eq!(misses, 0, "{page}: visitors waited");
        wait_for("the last change", TIMEOUT, || run(&site, page) > last_run);
    }
}

#[test]
fn one_client_purges_a_bounded_number_of_pages() {
    let site = SiteBuilder::php().workers(2).start();
    let pages: Vec<String> = (0..60).map(|number| format!("/p{number}")).collect();
    let start = std::time::Instant::now();
    for page in &pages {
        site.get(page).assert_status(200);
        assert!(site.get(page).is_hit(), "{page}");
        site.send(post(page)).assert_status(200);
    }
    let is_revalidating = |page: &&String| {
        let status = site.get(page).cache_status().to_owned();
        assert!(status.starts_with("galley; hit"), "{page}: {status}");
        status.contains("detail=revalidating")
    };
    let revalidating = pages.iter().filter(is_revalidating).count();
    let limit = 21 + usize::try_from(start.elapsed().as_secs() / 2).unwrap();
    assert!((10..=limit).contains(&revalidating), "{revalidating} of 60");
}

#[test]
fn unknown_methods_get_501_unless_a_rule_permits_them() {
    let rule = "[[site.rule]]\npath = \"/dav*\"\nmethods = [\"PROPFIND\", \"GET\"]\n";
    let site = SiteBuilder::php().server("h2c = true").more(rule).start();
    let http2 = Client::open(site.addr());
    let first = fill(&site, "/a");
    for method in ["FOO", "get", "Post", "PROPFIND", "MKCOL", "M-SEARCH"] {
        for (protocol, response) in [
            ("HTTP/1", site.send(Request::new(method, "/a"))),
            ("HTTP/2", http2.send(&Request::new(method, "/a"))),
        ] {
            assert_eq!(response.status, 501, "{protocol} {method}");
            let status = response.cache_status();
            assert_eq!(
                status, "galley; detail=unknown-method",
                "{protocol} {method}"
            );
        }
    }
    for method in ["TRACE", "PURGE", "BAN"] {
        let response = site.send(Request::new(method, "/a").field("Via", "1.1 x"));
        response.assert_status(405);
        assert!(response.has("Allow"));
    }
    assert_eq!(site.runs("/a"), 1, "the request reached PHP");
    assert!(site.get("/a").is_hit());
    assert_eq!(run(&site, "/a"), first);
    let permitted = site.send(Request::new("PROPFIND", "/dav/x"));
    assert!(
        permitted
            .expect_status(200)
            .text()
            .contains("method=PROPFIND")
    );
    site.send(Request::new("MKCOL", "/dav/x"))
        .assert_status(501);
    site.send(Request::new("propfind", "/dav/x"))
        .assert_status(501);
    // PROPFIND is safe and purges nothing.
    fill(&site, "/dav/y");
    site.send(Request::new("PROPFIND", "/dav/y"))
        .assert_status(200);
    assert!(site.get("/dav/y").is_hit());
}

#[test]
fn a_query_is_passed_with_its_body_and_neither_stored_nor_a_purge() {
    let site = SiteBuilder::php().server("h2c = true").start();
    let http2 = Client::open(site.addr());
    let stored = fill(&site, "/a");
    let before = site.runs("/a");
    let query = |body: &str| Request::new("QUERY", "/a").body(body);
    for (body, response) in [
        ("one", site.send(query("one"))),
        ("one", site.send(query("one"))),
        ("two", http2.send(&query("two"))),
    ] {
        let response = response.expect_status(200);
        assert!(!response.is_hit(), "{}", response.cache_status());
        let page = response.text();
        assert_eq!(page_value(&page, "method"), "QUERY");
        assert_eq!(page_value(&page, "body"), body);
    }
    assert_eq!(site.runs("/a"), before + 3);
    assert!(site.get("/a").is_hit());
    assert_eq!(run(&site, "/a"), stored);
}

/// Sends a `QUERY` over HTTP/3 and returns the body of the response.
fn query_over_http3(site: &TestSite, body: &str) -> String {
    let mut fields = http3_fields("QUERY", "/a");
    fields.push(("content-type".to_owned(), "application/sql".to_owned()));
    let found = streams(site, &[json!({ "fields": fields, "body": body })]);
    assert_eq!(found[0]["status"], 200, "{found:?}");
    found[0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn a_query_shares_nothing_with_a_get_over_each_protocol() {
    for preset in ["wordpress", "none"] {
        let (origin, gate) = Origin::gated(|gate, request, writer| {
            let body = writer.body();
            if request.method == "GET" && request.path() == "/a" {
                gate.pass();
            }
            let kind = request.field("content-type").unwrap_or("-");
            let text = format!(
                "{} {kind} {}",
                request.method,
                String::from_utf8_lossy(&body)
            );
            let fields = [("Cache-Control", "max-age=600"), ("ETag", "\"one\"")];
            writer.respond(200, &fields, text.as_bytes());
        })
        .unwrap();
        let site = start_http3(SiteBuilder::origin(&origin, preset).server("h2c = true"));
        let http2 = Client::open(site.addr());
        let query = |body: &str| {
            Request::new("QUERY", "/a")
                .field("Content-Type", "application/sql")
                .field("If-None-Match", "\"one\"")
                .body(body)
        };
        // While a GET of the same address waits for its response, and after it is stored.
        let mut first = site.connect();
        first.send(&with_host(Request::get("/a"))).unwrap();
        gate.wait_for_arrivals(1);
        for round in 0..2 {
            for number in 0..2 {
                let body = format!("select {number}");
                let expected = format!("QUERY application/sql {body}");
                assert_eq!(site.send(query(&body)).expect_status(200).text(), expected);
                assert_eq!(
                    http2.send(&query(&body)).expect_status(200).text(),
                    expected
                );
                assert_eq!(query_over_http3(&site, &body), expected);
            }
            assert_eq!(origin.count("/a"), 7 + 6 * round, "{preset}");
            if round == 0 {
                gate.open();
                assert_eq!(first.receive("GET").unwrap().text(), "GET - ");
                wait_for("the page to be stored", TIMEOUT, || site.get("/a").is_hit());
            }
        }
        let stored = site.get("/a");
        assert!(stored.is_hit() && stored.text() == "GET - ", "{preset}");
    }
    // A file is no answer to a query.
    let files = SiteBuilder::files().file("a.html", "a file").start();
    files
        .send(Request::new("QUERY", "/a.html").body("x"))
        .assert_status(405);
}

#[test]
fn without_a_preset_unknown_methods_are_forwarded_and_invalidate() {
    let origin = Origin::start(|request, writer| {
        let fields = [("Cache-Control", "max-age=600")];
        writer.respond(200, &fields, request.method.as_bytes());
    })
    .unwrap();
    let site = SiteBuilder::origin(&origin, "none").start();
    let store = || {
        site.get("/a").assert_status(200);
        assert!(site.get("/a").is_hit());
    };
    store();
    assert_eq!(site.send(Request::new("FOO", "/a")).text(), "FOO");
    assert!(
        !site.get("/a").is_hit(),
        "not invalidated (RFC 9111 section 4.4)"
    );
    store();
    // PROPFIND is registered as a safe method.
    site.send(Request::new("PROPFIND", "/a")).assert_status(200);
    assert!(site.get("/a").is_hit());
    // Repeated posts: five purges, then one every five seconds. The last one becomes effective in the end.
    let start = std::time::Instant::now();
    let mut misses = 0;
    for _ in 0..100 {
        site.send(post("/a")).assert_status(200);
        misses += usize::from(!site.get("/a").is_hit());
    }
    let limit = 8 + 2 * usize::try_from(start.elapsed().as_secs() / 5).unwrap();
    assert!((1..=limit).contains(&misses), "{misses} misses of 100");
    wait_for("the last change", TIMEOUT, || !site.get("/a").is_hit());
}

#[test]
fn unknown_methods_are_not_sent_to_php_without_a_preset() {
    let site = SiteBuilder::php().site("preset = \"none\"").start();
    site.send(Request::new("FOO", "/a")).assert_status(501);
    assert_eq!(site.runs("/a"), 0);
}
