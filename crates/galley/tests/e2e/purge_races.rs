//! Purges during a fetch: a response from before the purge is not served to later requests and not stored.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;

use galley_testkit::client::{Request, Response};
use galley_testkit::wait_for;

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite, page_value, with_host};

/// Requests `/page` and calls `during_fetch` while PHP is held before the head or in the middle of the body. `during_fetch` has to
/// release PHP. Returns the response.
fn while_fetched(
    site: &TestSite,
    before_head: bool,
    during_fetch: impl FnOnce(&ScopedJoinHandle<'_, Response>),
) -> Response {
    if before_head {
        site.hold("/page");
    } else {
        site.pause("/page");
    }
    std::thread::scope(|scope| {
        let first_fetch = scope.spawn(|| site.get("/page"));
        if before_head {
            site.wait_until_held("/page");
        } else {
            site.wait_until_paused("/page");
        }
        during_fetch(&first_fetch);
        first_fetch.join().unwrap().expect_status(200)
    })
}

#[test]
fn a_page_generated_during_a_purge_is_not_served_after_it() {
    for arguments in [
        &["--url", "/page"][..],
        &["--all"],
        &["--prefix", "/"],
        &["--pattern", "page"],
        &["--tag", "t1"],
    ] {
        for before_head in [true, false] {
            let site = SiteBuilder::php().workers(4).start();
            site.head("/page", &["Galley-Tags: t1, t2"]);
            let first_response = while_fetched(&site, before_head, |_| {
                site.purge(arguments);
                site.release("/page");
                site.resume("/page");
            });
            assert_eq!(page_value(&first_response.text(), "run"), "1");
            let after = site.get("/page").expect_status(200);
            assert!(
                !after.is_hit(),
                "{arguments:?} before_head={before_head}: {}",
                after.cache_status()
            );
            assert_eq!(
                page_value(&after.text(), "run"),
                "2",
                "{arguments:?} before_head={before_head}"
            );
            assert!(
                site.get("/page").is_hit(),
                "{arguments:?}: the new page is not stored"
            );
        }
    }
}

#[test]
fn a_request_after_a_purge_does_not_join_an_earlier_fetch() {
    for arguments in [&["--url", "/page"][..], &["--all"], &["--tag", "t1"]] {
        for before_head in [true, false] {
            if before_head && arguments.contains(&"--tag") {
                // The tags of the page are known after its head, so the second request waits for the head.
                continue;
            }
            let site = SiteBuilder::php().workers(4).start();
            site.head("/page", &["Galley-Tags: t1"]);
            let first_response = while_fetched(&site, before_head, |first_fetch| {
                site.purge(arguments);
                if before_head {
                    site.unhold("/page");
                } else {
                    site.unpause("/page");
                }
                let second_response = site.get("/page").expect_status(200);
                assert_eq!(
                    page_value(&second_response.text(), "run"),
                    "2",
                    "{arguments:?} before_head={before_head}"
                );
                assert!(!first_fetch.is_finished());
                site.release("/page");
                site.resume("/page");
            });
            assert_eq!(page_value(&first_response.text(), "run"), "1");
            // The first response, which ended later, has not replaced the second in the cache.
            let after = site.get("/page");
            assert_eq!(
                page_value(&after.text(), "run"),
                "2",
                "{arguments:?} before_head={before_head}: {}",
                after.cache_status()
            );
        }
    }
}

#[test]
fn a_request_after_a_tag_purge_waits_for_the_head_of_the_fetch() {
    let site = SiteBuilder::php().workers(4).start();
    site.head("/page", &["Galley-Tags: t1"]);
    site.hold("/page");
    std::thread::scope(|scope| {
        let first_fetch = scope.spawn(|| site.get("/page"));
        site.wait_until_held("/page");
        site.purge(&["--tag", "t1"]);
        let second_fetch = scope.spawn(|| site.get("/page"));
        site.release("/page");
        assert_eq!(page_value(&first_fetch.join().unwrap().text(), "run"), "1");
        assert_eq!(page_value(&second_fetch.join().unwrap().text(), "run"), "2");
    });
    assert_eq!(page_value(&site.get("/page").text(), "run"), "2");
}

#[test]
fn a_background_refresh_before_a_purge_is_not_stored() {
    let site = SiteBuilder::php()
        .workers(4)
        .more("[site.ttl]\ndefault = \"1s\"\nstale_while_revalidate = \"1h\"\n")
        .start();
    site.get("/page");
    site.hold("/page");
    wait_for("the refresh", TIMEOUT, || {
        site.get("/page");
        site.notes().join("held_page").exists()
    });
    site.purge(&["--url", "/page"]);
    site.unhold("/page");
    let after = site.get("/page");
    assert!(!after.is_hit());
    assert_eq!(page_value(&after.text(), "run"), "3");
    site.release("/page");
    wait_for("the old refresh to end", TIMEOUT, || {
        site.status_number("in_flight") == 0
    });
    assert_ne!(
        page_value(&site.get("/page").text(), "run"),
        "2",
        "the refresh from before the purge was stored"
    );
}

#[test]
fn a_purged_page_is_never_served_under_load() {
    let site = SiteBuilder::php().workers(4).start();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (site, stop) = (&site, &stop);
        for _ in 0..4 {
            scope.spawn(move || {
                let mut connection = site.connect();
                while !stop.load(Ordering::SeqCst) {
                    connection
                        .exchange(&with_host(Request::get("/page")))
                        .unwrap();
                }
            });
        }
        for round in 0..60 {
            let before = site.runs("/page");
            site.send(Request::new("PURGE", "/page")).assert_status(200);
            let run: usize = page_value(&site.get("/page").text(), "run")
                .parse()
                .unwrap();
            // Runs that began before the purge was acknowledged must not be served. Run `before` is one of them.
            assert!(
                run > before,
                "round {round}: run {run} was served after a purge during run {before}"
            );
        }
        stop.store(true, Ordering::SeqCst);
    });
}
