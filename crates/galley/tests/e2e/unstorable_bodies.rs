//! `Cache-Status` of responses whose body is not storable: it must not contain `stored`.

use std::sync::Barrier;
use std::thread;

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite, run_concurrently, with_host};

/// An error page with status 200, until the site is repaired. `/slow` sends it in two parts.
const ERROR_PAGE: &str = r"<?php
$path = $_SERVER['REQUEST_URI'];
$is_repaired = file_exists(__DIR__ . '/../notes/repaired');
if (file_exists(__DIR__ . '/../notes/hold')) {
    touch(__DIR__ . '/../notes/held');
    for ($i = 0; $i < 10000 && !file_exists(__DIR__ . '/../notes/go'); $i++) {
        usleep(2000);
        clearstatcache();
    }
}
echo '<!DOCTYPE html><html><head><title>Site</title></head><body>';
if ($path === '/slow') {
    while (ob_get_level() > 0) {
        ob_end_flush();
    }
    flush();
    usleep(100000);
}
echo $is_repaired ? '<h1>News</h1>' : '<h1>Error establishing a database connection</h1>';
echo '</body></html>';
";

fn site() -> TestSite {
    SiteBuilder::php()
        .file("index.php", ERROR_PAGE)
        .workers(4)
        .start()
}

#[test]
fn an_error_page_with_status_200_is_not_reported_as_stored() {
    let site = site();
    for _ in 0..3 {
        let response = site.get("/").expect_status(200);
        assert_eq!(
            response.cache_status(),
            "galley; fwd=uri-miss; detail=error-page"
        );
    }
    site.note("repaired", "");
    assert_eq!(
        site.get("/").cache_status(),
        "galley; fwd=uri-miss; stored",
        "the body was complete before the head was sent"
    );
    assert!(site.get("/").is_hit());
}

#[test]
fn waiters_for_an_error_page_get_detail_error_page_too() {
    let site = SiteBuilder::php()
        .file("index.php", ERROR_PAGE)
        .server("workers = 4")
        .start();
    site.note("hold", "");
    let all_sent = Barrier::new(20);
    let responses = run_concurrently(20, |_| {
        let mut connection = site.connect();
        connection.send(&with_host(Request::get("/"))).unwrap();
        if all_sent.wait().is_leader() {
            site.wait_for_note("held");
            site.note("go", "");
        }
        connection.receive("GET").unwrap()
    });
    for response in &responses {
        let status = response.cache_status();
        assert!(
            [
                "galley; fwd=uri-miss; detail=error-page",
                "galley; fwd=uri-miss; collapsed; detail=error-page"
            ]
            .contains(&status),
            "{status}"
        );
    }
}

/// The head of a streamed page is sent before its end shows whether it is storable. After a body was refused, heads of this URL do not
/// contain `stored` until one is stored.
#[test]
fn a_streamed_page_is_not_reported_as_stored_after_a_refused_body() {
    let site = site();
    site.get("/slow").assert_status(200);
    for _ in 0..2 {
        let response = site.get("/slow").expect_status(200);
        let status = response.cache_status();
        assert!(
            status.starts_with("galley; fwd=uri-miss") && !status.contains("stored"),
            "{status}"
        );
    }
    site.note("repaired", "");
    let repaired = site.get("/slow").expect_status(200);
    assert!(repaired.text().contains("News"));
    wait_for("the repaired page to be stored", TIMEOUT, || {
        site.get("/slow").is_hit()
    });
    assert!(
        site.why("/slow").contains("\"last_not_stored\":null"),
        "{}",
        site.why("/slow")
    );
}

/// A page that was not stored because of a purge is stored the next time.
#[test]
fn a_streamed_page_is_reported_as_stored_after_a_purge_during_its_fetch() {
    let site = site();
    for note in ["repaired", "hold"] {
        site.note(note, "");
    }
    thread::scope(|scope| {
        let first = scope.spawn(|| site.get("/slow").expect_status(200));
        site.wait_for_note("held");
        site.purge(&["--url", "/slow"]);
        site.note("go", "");
        assert!(first.join().unwrap().text().contains("News"));
    });
    wait_for("the purged page not to be stored", TIMEOUT, || {
        site.why("/slow").contains("\"last_not_stored\":{")
    });
    assert_eq!(
        site.get("/slow").cache_status(),
        "galley; fwd=uri-miss; stored"
    );
}
