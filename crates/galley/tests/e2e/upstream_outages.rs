//! Responses while PHP or its database is down or its host name cannot be resolved, and the recovery afterwards. The error pages of
//! WordPress are tested in `wordpress::failures`.

use std::fs;

use galley_testkit::client::{Request, Response};
use galley_testkit::wait_for;

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite, run_concurrently};

const ERROR_PAGE: &str = "<!doctype html><html><body><h1>Wir sind gleich zurück</h1><p>{status} {request}</p></body></html>\n";

/// Checks the fields of an error page, and that it discloses no internals.
fn assert_error_page(response: &Response) {
    let field = |name: &str| response.field(name).unwrap_or_default().to_owned();
    assert_eq!(field("cache-control"), "no-store", "{}", response.excerpt());
    // The expected time in the queue, or the time until the upstream is tried again.
    let retry_after: Result<u32, _> = field("retry-after").parse();
    assert!(
        retry_after.is_ok_and(|seconds| seconds > 0),
        "{}",
        response.excerpt()
    );
    assert_eq!(field("content-type"), "text/html; charset=utf-8");
    assert_eq!(field("server"), "", "no product, no version");
    let text = response.text().to_lowercase();
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
fn the_custom_error_page_is_sent_while_php_is_down() {
    let builder = SiteBuilder::php();
    builder.scratch.write("own.html", ERROR_PAGE).unwrap();
    let mut site = builder.site("error_page = \"{dir}/own.html\"").start();
    // The file was read at startup.
    fs::remove_file(site.scratch.join("own.html")).unwrap();
    site.fpm.as_mut().unwrap().kill();
    for request in [
        Request::get("/new"),
        Request::post("/new", "text/plain", "x"),
        Request::get("/wp-login.php"),
    ] {
        let response = site.send(request).expect_status(502);
        assert_error_page(&response);
        assert!(response.text().contains("Wir sind gleich zurück"));
        assert!(response.text().contains("<p>502 "), "{}", response.text());
    }
    let text = site.get("/who").expect_status(502).text();
    let (_, rest) = text.split_once("<p>502 ").unwrap();
    let (id, _) = rest.split_once('<').unwrap();
    assert!(site.access_line("GET /who ").contains(id));
    let head = site.send(Request::new("HEAD", "/new")).expect_status(502);
    assert!(head.body.is_empty());
    // A client error does not get the custom page.
    let rejected = site.send(Request::new("TRACE", "/new")).expect_status(405);
    assert!(!rejected.text().contains("Wir sind"));
    site.fpm.as_mut().unwrap().restart().unwrap();
    // After repeated failures, Galley tries the upstream only at intervals.
    wait_for("PHP to be tried again", TIMEOUT, || {
        site.get("/new").status == 200
    });
}

#[test]
fn an_unresolvable_upstream_host_name_gives_502() {
    for line in [
        "upstream = [\"http://nobody.invalid:80\"]",
        "php = \"nobody.invalid:9000\"",
    ] {
        let site = SiteBuilder::upstream_line(line)
            .file("index.php", "<?php")
            .start();
        for _ in 0..2 {
            let response = site.get("/").expect_status(502);
            assert_error_page(&response);
            assert_eq!(response.cache_status(), "galley; detail=upstream-down");
            assert!(!response.text().contains("invalid"), "{}", response.text());
        }
        assert!(site.get("/").status == 502);
    }
}

/// A page that, while the database is down, behaves like a careless `db-error.php` drop-in: an error page with status 200.
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
fn a_database_error_page_with_status_200_is_not_stored() {
    let site = SiteBuilder::php().file("index.php", DROP_IN).start();
    site.get("/article").assert_status(200);
    assert!(
        site.get("/article").is_hit(),
        "a page that quotes the error is stored"
    );
    site.note("dead", "");
    for _ in 0..2 {
        let response = site.get("/unseen").expect_status(200);
        assert!(!response.is_hit());
    }
    site.purge(&["--all", "--soft"]);
    let before = site.get("/article");
    assert!(before.text().contains("What to do about"));
    // The background refresh has failed or will fail; the copy remains.
    for _ in 0..5 {
        let response = site.get("/article");
        assert!(response.text().contains("What to do about"));
        assert!(response.cache_status().contains("detail=revalidating"));
    }
    fs::remove_file(site.notes().join("dead")).unwrap();
    for page in ["/article", "/unseen"] {
        wait_for("the page to be generated again", TIMEOUT, || {
            site.get(page).cache_status() == "galley; hit"
        });
        assert!(site.get(page).text().contains("What to do about"));
    }
}

const PAGES: usize = 30;

fn page(number: usize) -> String {
    format!("/page-{number}")
}

fn assert_stale(site: &TestSite, number: usize) {
    let response = site.get(&page(number)).expect_status(200);
    assert!(
        response.cache_status().contains("detail=revalidating"),
        "{}",
        response.excerpt()
    );
    assert!(response.text().contains("run=1\n"));
}

#[test]
fn after_an_outage_php_generates_each_page_once() {
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
    run_concurrently(PAGES, |number| assert_stale(&site, number));
    site.fpm.as_mut().unwrap().restart().unwrap();
    // Three clients per page, which repeat their requests without a pause.
    run_concurrently(3 * PAGES, |number| {
        let number = number % PAGES;
        wait_for("the page to be refreshed", TIMEOUT * 2, || {
            let response = site.get(&page(number)).expect_status(200);
            response.cache_status() == "galley; hit"
        });
    });
    for number in 0..PAGES {
        assert_eq!(site.runs(&page(number)), 2, "page {number}");
    }
}
