//! What `Cache-Status` says of responses whose body is refused: a claim to have stored one would send its reader to the wrong place.

use std::sync::Barrier;
use std::thread;

use galley_testkit::client::Request;

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite, run_concurrently, with_host};

/// A page that tells of an error under status 200, until somebody repairs the site. `/slow` sends it in two parts.
const NOTICE: &str = r"<?php
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
        .file("index.php", NOTICE)
        .workers(4)
        .start()
}

#[test]
fn an_error_page_is_never_said_to_be_stored() {
    let site = site();
    for _ in 0..3 {
        let answer = site.get("/").expect_status(200);
        assert_eq!(
            answer.cache_status(),
            "galley; fwd=uri-miss; detail=error-page"
        );
    }
    site.note("repaired", "");
    assert_eq!(
        site.get("/").cache_status(),
        "galley; fwd=uri-miss; stored",
        "complete when its head is sent, so its body is known to be good"
    );
    assert!(site.get("/").is_hit());
}

#[test]
fn waiters_for_an_error_page_are_told_so_too() {
    let site = SiteBuilder::php()
        .file("index.php", NOTICE)
        .server("workers = 4");
    let site = site.start();
    site.note("hold", "");
    let all_have_asked = Barrier::new(20);
    let answers = run_concurrently(20, |_| {
        let mut connection = site.connect();
        connection.send(&with_host(Request::get("/"))).unwrap();
        if all_have_asked.wait().is_leader() {
            site.wait_for_note("held");
            site.note("go", "");
        }
        connection.receive("GET").unwrap()
    });
    for answer in &answers {
        let status = answer.cache_status();
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

/// The head is sent before the end decides. Once a body of this address was refused, no head promises anything until one is
/// stored.
#[test]
fn a_streamed_page_promises_nothing_after_one_was_refused() {
    let site = site();
    site.get("/slow").assert_status(200);
    for _ in 0..2 {
        let answer = site.get("/slow").expect_status(200);
        let status = answer.cache_status();
        assert!(
            status.starts_with("galley; fwd=uri-miss") && !status.contains("stored"),
            "{status}"
        );
    }
    site.note("repaired", "");
    let repaired = site.get("/slow").expect_status(200);
    assert!(repaired.text().contains("News"));
    galley_testkit::wait_for("the repaired page to be stored", TIMEOUT, || {
        site.get("/slow").is_hit()
    });
    assert!(
        site.why("/slow").contains("\"not_stored_lately\":null"),
        "{}",
        site.why("/slow")
    );
}

/// What a purge kept from being stored is stored the next time.
#[test]
fn a_streamed_page_is_promised_to_be_stored_after_a_purge_during_its_fetch() {
    let site = site();
    for note in ["repaired", "hold"] {
        site.note(note, "");
    }
    thread::scope(|scope| {
        let early = scope.spawn(|| site.get("/slow").expect_status(200));
        site.wait_for_note("held");
        site.purge(&["--url", "/slow"]);
        site.note("go", "");
        assert!(early.join().unwrap().text().contains("News"));
    });
    galley_testkit::wait_for("the purged page to be refused", TIMEOUT, || {
        site.why("/slow").contains("\"not_stored_lately\":{")
    });
    assert_eq!(
        site.get("/slow").cache_status(),
        "galley; fwd=uri-miss; stored"
    );
}
