//! Freshness of stored pages, stale responses, and limits of size and memory.

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, json_number, page_value, with_host};

#[test]
fn freshness_lifetime_comes_from_response_fields_or_site_ttl() {
    let site = SiteBuilder::php().more("[site.ttl]\n\"200\" = \"1s\"\n\"404\" = \"1h\"\n\"403\" = \"1h\"\nstale_while_revalidate = \"0s\"\nstale_if_error = \"0s\"\n").start();
    site.head("/gone", &["Status: 404"]);
    site.head("/closed", &["Status: 403"]);
    site.head("/long", &["Cache-Control: max-age=600"]);
    site.head(
        "/longer",
        &[
            "Galley-Cache-Control: max-age=600",
            "Cache-Control: no-store",
        ],
    );
    site.head("/accel", &["X-Accel-Expires: 600"]);
    site.head("/aged", &["Cache-Control: max-age=600", "Age: 599"]);
    for page in [
        "/short", "/gone", "/closed", "/long", "/longer", "/accel", "/aged",
    ] {
        let first = site.get(page);
        let second = site.get(page);
        assert!(
            second.is_hit(),
            "{page}: {} then {}",
            first.cache_status(),
            second.cache_status()
        );
    }
    wait_for("the short page to be stale", TIMEOUT, || {
        site.runs("/short") > 1 || !site.get("/short").is_hit()
    });
    wait_for("the aged page to be stale", TIMEOUT, || {
        site.runs("/aged") > 1 || !site.get("/aged").is_hit()
    });
    for page in ["/gone", "/closed", "/long", "/longer", "/accel"] {
        assert!(site.get(page).is_hit(), "{page}");
        assert_eq!(site.runs(page), 1, "{page}");
    }
}

#[test]
fn stale_while_revalidate_sends_stale_pages_during_one_refresh() {
    let site = SiteBuilder::php()
        .workers(4)
        .more("[site.ttl]\ndefault = \"1s\"\nstale_while_revalidate = \"1h\"\n")
        .start();
    let first = site.get("/page");
    site.hold("/page");
    wait_for("the refresh to start", TIMEOUT, || {
        let response = site.get("/page");
        assert!(
            response.is_hit(),
            "no client waits: {}",
            response.cache_status()
        );
        site.notes().join("held_page").exists()
    });
    for _ in 0..20 {
        let response = site.get("/page");
        assert_eq!(response.body, first.body);
        assert!(
            response.cache_status().starts_with("galley; hit; ttl=")
                && response.cache_status().ends_with("; detail=revalidating"),
            "{}",
            response.cache_status()
        );
    }
    assert_eq!(site.runs("/page"), 2, "one refresh for all visitors");
    site.release("/page");
    wait_for("the new page", TIMEOUT, || {
        page_value(&site.get("/page").text(), "run") == "2"
    });
    // The refresh has no cookies of a visitor.
    let text = site.send(Request::get("/page").cookie("_ga=canary")).text();
    assert!(!text.contains("canary"), "{text}");
}

#[test]
fn stale_if_error_sends_stale_pages_while_php_is_down() {
    let mut site = SiteBuilder::php()
        .site("connect_timeout = \"500ms\"")
        .more("[site.ttl]\ndefault = \"1s\"\nstale_while_revalidate = \"0s\"\nstale_if_error = \"1h\"\n")
        .start();
    let first = site.get("/page");
    site.head("/failing", &[]);
    let failing = site.get("/failing");
    site.head("/failing", &["Status: 500"]);
    // PHP runs and responds with errors.
    wait_for("the failing page to be stale", TIMEOUT, || {
        site.get("/failing")
            .cache_status()
            .contains("upstream-error")
    });
    assert_eq!(site.get("/failing").expect_status(200).body, failing.body);
    site.fpm.as_mut().unwrap().kill();
    for _ in 0..3 {
        let response = site.get("/page").expect_status(200);
        assert_eq!(response.body, first.body);
    }
    wait_for(
        "`Cache-Status` to report the upstream error",
        TIMEOUT,
        || {
            let response = site.get("/page").expect_status(200);
            let status = response.cache_status().to_owned();
            status.starts_with("galley; hit; ttl=-") && status.ends_with("; detail=upstream-error")
        },
    );
    // 503 if the circuit breaker is open already.
    let response = site.get("/never-seen");
    assert!(
        [502, 503].contains(&response.status),
        "{}",
        response.excerpt()
    );
    site.fpm.as_mut().unwrap().restart().unwrap();
    wait_for("the new page", TIMEOUT, || {
        let response = site.get("/page").expect_status(200);
        page_value(&response.text(), "run") == "2"
    });
    site.get("/never-seen").assert_status(200);
}

#[test]
fn only_if_cached_gets_504_on_a_miss() {
    let site = SiteBuilder::php().start();
    let send = || site.send(Request::get("/page").field("Cache-Control", "only-if-cached"));
    send().assert_status(504);
    assert_eq!(site.runs("/page"), 0);
    site.get("/page");
    // The first response may end shortly before the page is stored. A hit shows that it is.
    assert!(site.get("/page").is_hit());
    assert!(send().is_hit());
}

#[test]
fn pages_above_max_object_are_sent_and_not_stored() {
    let script = "<?php header('Cache-Control: max-age=600'); for ($i = 0; $i < 300; $i++) { echo str_repeat('x', 10000); } file_put_contents(__DIR__ . '/../notes/runs', 'x', FILE_APPEND);";
    let site = SiteBuilder::php()
        .file("index.php", script)
        .cache("memory = \"64MiB\"\nmax_object = \"1MiB\"")
        .start();
    for round in 0..3 {
        let response = site.get("/large").expect_status(200);
        assert_eq!(response.body.len(), 3_000_000, "{round}");
        assert!(!response.is_hit(), "{round}");
    }
}

#[test]
fn many_pages_stay_within_the_memory_limit() {
    // 16 MiB is the minimum; 300 pages of 200 KB are four times as much.
    let script = "<?php header('Cache-Control: max-age=600'); echo '<html>', $_SERVER['REQUEST_URI'], str_repeat('x', 200000), '</html>';";
    let site = SiteBuilder::php()
        .file("index.php", script)
        .cache("memory = \"16MiB\"")
        .start();
    let mut connection = site.connect();
    for number in 0..300 {
        let response = connection
            .exchange(&with_host(Request::get(&format!("/p{number}"))))
            .unwrap()
            .expect_status(200);
        assert!(response.text().contains(&format!("<html>/p{number}x")));
        // The unoptimized program takes half of it; the largest peak measured on a busy machine was 84 MB.
        let peak = site.peak_memory();
        assert!(peak < 96 * 1024 * 1024, "{peak} at page {number}");
    }
    let status = site.status();
    let memory = status.split("\"memory\":").nth(1).unwrap();
    assert!(json_number(memory, "bytes") <= 16 * 1024 * 1024, "{status}");
    assert!(site.status_number("evictions") > 100);
    site.get("/p299").assert_status(200);
}
