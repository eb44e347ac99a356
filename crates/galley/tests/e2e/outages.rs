//! What visitors see while PHP, its database or its name is away, and how it comes back. WordPress's own error pages are in
//! `wordpress::failures`.

use std::fs;

use galley_testkit::client::{Request, Response};
use galley_testkit::wait_for;

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite, run_concurrently};

const OWN: &str = "<!doctype html><html><body><h1>Wir sind gleich zurück</h1><p>{status} {request}</p></body></html>\n";

/// What each page for an outage must and must not have.
fn is_dignified(answer: &Response) {
    let own = |name: &str| answer.field(name).unwrap_or_default().to_owned();
    assert_eq!(own("cache-control"), "no-store", "{}", answer.beginning());
    // As long as the queue, or the pause of who does not answer, will take.
    let wait: Result<u32, _> = own("retry-after").parse();
    assert!(wait.is_ok_and(|wait| wait > 0), "{}", answer.beginning());
    assert_eq!(own("content-type"), "text/html; charset=utf-8");
    assert_eq!(own("server"), "", "no product, no version");
    let text = answer.text().to_lowercase();
    for word in [
        "galley",
        "php",
        "fastcgi",
        "sock",
        "127.0.0.1",
        env!("CARGO_PKG_VERSION"),
    ] {
        assert!(!text.contains(word), "`{word}` in {text}");
    }
}

#[test]
fn the_sites_own_page_is_shown_where_nobody_can_answer() {
    let plan = SiteBuilder::php();
    plan.scratch.write("own.html", OWN).unwrap();
    let mut site = plan.site("error_page = \"{dir}/own.html\"").start();
    // It was read at start.
    fs::remove_file(site.scratch.join("own.html")).unwrap();
    site.fpm.as_mut().unwrap().kill();
    for request in [
        Request::get("/new"),
        Request::post("/new", "text/plain", "x"),
        Request::get("/wp-login.php"),
    ] {
        let answer = site.send(request).expect_status(502);
        is_dignified(&answer);
        assert!(answer.text().contains("Wir sind gleich zurück"));
        assert!(answer.text().contains("<p>502 "), "{}", answer.text());
    }
    let text = site.get("/who").expect_status(502).text();
    let (_, rest) = text.split_once("<p>502 ").unwrap();
    let (id, _) = rest.split_once('<').unwrap();
    assert!(site.access_line("GET /who ").contains(id));
    let head = site.send(Request::new("HEAD", "/new")).expect_status(502);
    assert!(head.body.is_empty());
    // What is the request's own fault is not an outage.
    let refused = site.send(Request::new("TRACE", "/new")).expect_status(405);
    assert!(!refused.text().contains("Wir sind"));
    site.fpm.as_mut().unwrap().restart().unwrap();
    // Who failed so often is tried now and then.
    wait_for("PHP to be asked again", TIMEOUT, || {
        site.get("/new").status == 200
    });
}

#[test]
fn an_upstream_whose_name_cannot_be_resolved_is_reported() {
    for line in [
        "upstream = [\"http://nobody.invalid:80\"]",
        "php = \"nobody.invalid:9000\"",
    ] {
        let site = SiteBuilder::upstream_line(line)
            .file("index.php", "<?php")
            .start();
        for _ in 0..2 {
            let answer = site.get("/").expect_status(502);
            is_dignified(&answer);
            assert_eq!(answer.cache_status(), "galley; detail=upstream-down");
            assert!(!answer.text().contains("invalid"), "{}", answer.text());
        }
        assert!(site.get("/").status == 502);
    }
}

/// A page that turns into what a careless drop-in sends while the database is away: a status of success.
const DROP_IN: &str = r#"<?php
if (file_exists(__DIR__ . '/../notes/dead')) {
    echo '<!DOCTYPE html><html><head><style>', str_repeat('p { color: red } ', 100), '</style></head><body>',
        '<h1>Error establishing a database connection</h1><p>We are working on it.</p></body></html>';
    exit;
}
header('Link: <http://example.test/wp-json/>; rel="https://api.w.org/"');
echo '<!DOCTYPE html><html><head><title>Post</title></head><body>',
    '<h1>What to do about: Error establishing a database connection</h1></body></html>';
"#;

#[test]
fn a_drop_in_with_a_status_of_success_is_no_page() {
    let site = SiteBuilder::php().file("index.php", DROP_IN).start();
    site.get("/article").assert_status(200);
    assert!(site.get("/article").is_hit(), "who quotes it is stored");
    site.note("dead", "");
    for _ in 0..2 {
        let answer = site.get("/unseen").expect_status(200);
        assert!(!answer.is_hit());
    }
    site.purge(&["--all", "--soft"]);
    let before = site.get("/article");
    assert!(before.text().contains("What to do about"));
    // The refresh has come back by now, or comes; the copy stays.
    for _ in 0..5 {
        let answer = site.get("/article");
        assert!(answer.text().contains("What to do about"));
        assert!(answer.cache_status().contains("detail=revalidating"));
    }
    fs::remove_file(site.notes().join("dead")).unwrap();
    for page in ["/article", "/unseen"] {
        wait_for("it to be composed again", TIMEOUT, || {
            site.get(page).cache_status() == "galley; hit"
        });
        assert!(site.get(page).text().contains("What to do about"));
    }
}

const PAGES: usize = 30;

fn page(number: usize) -> String {
    format!("/page-{number}")
}

fn is_stale(site: &TestSite, number: usize) {
    let answer = site.get(&page(number)).expect_status(200);
    assert!(
        answer.cache_status().contains("detail=revalidating"),
        "{}",
        answer.beginning()
    );
    assert!(answer.text().contains("run=1\n"));
}

#[test]
fn php_that_recovers_generates_each_page_once() {
    let mut site = SiteBuilder::php()
        .workers(2)
        .site("in_flight = 2")
        .more("[site.ttl]\ndefault = \"1h\"\nstale_while_revalidate = \"1d\"")
        .start();
    for number in 0..PAGES {
        site.get(&page(number)).assert_status(200);
    }
    site.fpm.as_mut().unwrap().kill();
    site.purge(&["--all", "--soft"]);
    run_concurrently(PAGES, |number| is_stale(&site, number));
    site.fpm.as_mut().unwrap().restart().unwrap();
    // Everybody at once, and as often as they like: three times as many as there are pages.
    run_concurrently(3 * PAGES, |number| {
        let number = number % PAGES;
        wait_for("the page to be refreshed", TIMEOUT * 2, || {
            let answer = site.get(&page(number)).expect_status(200);
            answer.cache_status() == "galley; hit"
        });
    });
    for number in 0..PAGES {
        assert_eq!(site.runs(&page(number)), 2, "page {number}");
    }
}
