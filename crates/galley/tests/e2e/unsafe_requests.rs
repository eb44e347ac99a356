//! What requests that change something do to stored pages: nothing more than they must, and a bounded number of times.

use std::collections::BTreeSet;

use galley_testkit::client::Request;
use galley_testkit::origin::Origin;
use galley_testkit::wait_for;

use crate::http2::ask::Client;
use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite, page_value};

const SESSION: &str = "wordpress_logged_in_0123=editor|1|x";

/// What the plugin says of each response that it has seen.
const PLUGIN: &str = "Galley-Plugin: 0.3.0";

fn run(site: &TestSite, page: &str) -> u64 {
    let response = site.get(page).expect_status(200);
    page_value(&response.text(), "run").parse().unwrap()
}

/// Stores a page; which run of PHP it is.
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
fn is_stale_once(site: &TestSite, page: &str, old: u64) {
    let response = site.get(page);
    let status = response.cache_status();
    assert!(status.contains("detail=revalidating"), "{page}: {status}");
    assert_eq!(
        page_value(&response.text(), "run"),
        old.to_string(),
        "{page}"
    );
    wait_for(&format!("a newer {page}"), TIMEOUT, || {
        run(site, page) != old
    });
}

#[test]
fn an_anonymous_post_does_not_purge_where_the_plugin_says_what_changed() {
    let site = SiteBuilder::php().start();
    site.head("/a", &[PLUGIN]);
    site.head("/comment", &[PLUGIN, "Location: /a#c1", "Status: 302"]);
    let first = fill(&site, "/a");
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        for _ in 0..8 {
            let response = site.send(Request::new(method, "/a").body("x"));
            assert!(!response.has("Galley-Plugin"), "{}", response.beginning());
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
    // What the plugin orders holds, and a session purges softly on top of that.
    site.send(post("/a").cookie(SESSION)).assert_status(200);
    is_stale_once(&site, "/a", first);
    fill(&site, "/a");
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
    is_stale_once(&site, "/a", first);
    let first = fill(&site, "/b");
    site.send(post("/comment")).assert_status(302);
    is_stale_once(&site, "/b", first);
    // Who has a session has changed something.
    fill(&site, "/c");
    site.send(post("/c").cookie(SESSION)).assert_status(200);
    assert!(!site.get("/c").is_hit());
}

#[test]
fn one_post_leaves_a_page_to_fall_back_on_when_php_goes_down() {
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
fn posts_without_end_refresh_a_page_a_few_times_and_once_more_at_last() {
    let site = SiteBuilder::php().workers(2).start();
    for cookie in [None, Some(SESSION)] {
        let page = if cookie.is_some() { "/s" } else { "/a" };
        let posts = || cookie.map_or(post(page), |cookie| post(page).cookie(cookie));
        let began = std::time::Instant::now();
        let mut runs = BTreeSet::from([fill(&site, page)]);
        let (mut misses, mut last) = (0, 0);
        for _ in 0..120 {
            let response = site.send(posts()).expect_status(200);
            last = page_value(&response.text(), "run").parse().unwrap();
            let read = site.get(page).expect_status(200);
            misses += usize::from(!read.is_hit());
            runs.insert(page_value(&read.text(), "run").parse().unwrap());
        }
        // Five at once, then one each five seconds, and one that was put off each five seconds.
        let most = 8 + 2 * usize::try_from(began.elapsed().as_secs() / 5).unwrap();
        assert!(runs.len() <= most, "{page}: {runs:?}");
        let waited = if cookie.is_some() { most } else { 0 };
        assert!(misses <= waited, "{page}: {misses} visitors waited");
        wait_for("the last change", TIMEOUT, || run(&site, page) > last);
    }
}

#[test]
fn one_client_purges_a_bounded_number_of_pages() {
    let site = SiteBuilder::php().workers(2).start();
    let pages: Vec<String> = (0..60).map(|number| format!("/p{number}")).collect();
    let began = std::time::Instant::now();
    for page in &pages {
        site.get(page).assert_status(200);
        assert!(site.get(page).is_hit(), "{page}");
        site.send(post(page)).assert_status(200);
    }
    let touched = |page: &&String| {
        let status = site.get(page).cache_status().to_owned();
        assert!(status.starts_with("galley; hit"), "{page}: {status}");
        status.contains("detail=revalidating")
    };
    let touched = pages.iter().filter(touched).count();
    let most = 21 + usize::try_from(began.elapsed().as_secs() / 2).unwrap();
    assert!((10..=most).contains(&touched), "{touched} of 60");
}

#[test]
fn unknown_methods_reach_nobody_unless_a_rule_names_them() {
    let rule = "[[site.rule]]\npath = \"/dav*\"\nmethods = [\"PROPFIND\", \"GET\"]\n";
    let site = SiteBuilder::php().server("h2c = true").more(rule).start();
    let http2 = Client::open(site.addr());
    let first = fill(&site, "/a");
    for method in ["FOO", "get", "Post", "PROPFIND", "MKCOL", "M-SEARCH"] {
        for (by, response) in [
            ("HTTP/1", site.send(Request::new(method, "/a"))),
            ("HTTP/2", http2.send(&Request::new(method, "/a"))),
        ] {
            assert_eq!(response.status, 501, "{by} {method}");
            let status = response.cache_status();
            assert_eq!(status, "galley; detail=unknown-method", "{by} {method}");
        }
    }
    for method in ["TRACE", "PURGE", "BAN"] {
        let told = site.send(Request::new(method, "/a").field("Via", "1.1 x"));
        told.assert_status(405);
        assert!(told.has("Allow"));
    }
    assert_eq!(site.runs("/a"), 1, "PHP was asked");
    assert!(site.get("/a").is_hit());
    assert_eq!(run(&site, "/a"), first);
    let named = site.send(Request::new("PROPFIND", "/dav/x"));
    assert!(named.expect_status(200).text().contains("method=PROPFIND"));
    site.send(Request::new("MKCOL", "/dav/x"))
        .assert_status(501);
    site.send(Request::new("propfind", "/dav/x"))
        .assert_status(501);
    // It changes nothing that is stored.
    fill(&site, "/dav/y");
    site.send(Request::new("PROPFIND", "/dav/y"))
        .assert_status(200);
    assert!(site.get("/dav/y").is_hit());
}

#[test]
fn without_a_preset_unknown_methods_go_to_http_and_invalidate() {
    let origin = Origin::start(|seen, writer| {
        let fields = [("Cache-Control", "max-age=600")];
        writer.answer(200, &fields, seen.method.as_bytes());
    })
    .unwrap();
    let site = SiteBuilder::origin(&origin, "none").start();
    let stored = || {
        site.get("/a").assert_status(200);
        assert!(site.get("/a").is_hit());
    };
    stored();
    assert_eq!(site.send(Request::new("FOO", "/a")).text(), "FOO");
    assert!(!site.get("/a").is_hit(), "section 4.4 of RFC 9111");
    stored();
    // Registered as safe.
    site.send(Request::new("PROPFIND", "/a")).assert_status(200);
    assert!(site.get("/a").is_hit());
    // Posts without end: five, then one each five seconds; the last one holds in the end.
    let began = std::time::Instant::now();
    let mut misses = 0;
    for _ in 0..100 {
        site.send(post("/a")).assert_status(200);
        misses += usize::from(!site.get("/a").is_hit());
    }
    let most = 8 + 2 * usize::try_from(began.elapsed().as_secs() / 5).unwrap();
    assert!((1..=most).contains(&misses), "{misses} misses of 100");
    wait_for("the last change", TIMEOUT, || !site.get("/a").is_hit());
}

#[test]
fn php_without_a_preset_gets_no_unknown_method() {
    let site = SiteBuilder::php().site("preset = \"none\"").start();
    site.send(Request::new("FOO", "/a")).assert_status(501);
    assert_eq!(site.runs("/a"), 0);
}
