//! The page cache with the WordPress preset: cache keys, forwarded requests, and cacheability.

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, page_value};

const MISS: &str = "galley; fwd=uri-miss; stored";

#[test]
fn the_second_request_for_a_page_is_a_hit() {
    let site = SiteBuilder::php().start();
    let first = site.get("/page").expect_status(200);
    assert_eq!(first.cache_status(), MISS);
    let second = site.get("/page").expect_status(200);
    assert_eq!(second.cache_status(), "galley; hit");
    assert_eq!(first.body, second.body);
    assert_eq!(site.runs("/page"), 1);
    assert!(
        second.age().is_some_and(|age| age < 10),
        "{}",
        second.excerpt()
    );
    assert_eq!(second.field("content-type"), first.field("content-type"));
    assert_eq!(
        second.field("cache-control"),
        Some("no-cache"),
        "browsers revalidate every time"
    );
    wait_for("the page to age", TIMEOUT, || {
        site.get("/page").age().is_some_and(|age| age >= 1)
    });
    assert_eq!(
        site.get("/page").field("date"),
        first.field("date"),
        "`Date` is the time when PHP generated the page"
    );
}

#[test]
fn conditional_and_range_requests_are_served_from_the_cache() {
    let site = SiteBuilder::php().start();
    site.head(
        "/dated",
        &[
            "Last-Modified: Tue, 01 Oct 2024 10:00:00 GMT",
            "ETag: \"php\"",
        ],
    );
    for page in ["/page", "/dated"] {
        site.get(page);
        let etag = site.get(page).field("etag").unwrap().to_owned();
        let same = site
            .send(Request::get(page).field("If-None-Match", &etag))
            .expect_status(304);
        assert!(same.body.is_empty() && same.is_hit());
        assert_eq!(same.field("etag"), Some(etag.as_str()));
        site.send(Request::get(page).field("If-None-Match", format!("\"x\", W/{etag}")))
            .assert_status(304);
        site.send(Request::get(page).field("If-None-Match", "*"))
            .assert_status(304);
        site.send(Request::get(page).field("If-None-Match", "\"x\""))
            .assert_status(200);
    }
    site.send(Request::get("/dated").field("If-Modified-Since", "Tue, 01 Oct 2024 10:00:00 GMT"))
        .assert_status(304);
    site.send(Request::get("/dated").field("If-Modified-Since", "Tue, 01 Oct 2024 09:59:59 GMT"))
        .assert_status(200);
    // Conditions and ranges are not forwarded to PHP on a cacheable fetch, so the stored page is always complete.
    site.send(
        Request::get("/new")
            .field("If-None-Match", "\"x\"")
            .field("If-Modified-Since", "Tue, 01 Oct 2024 10:00:00 GMT")
            .field("Range", "bytes=0-1"),
    )
    .assert_status(200);
    let hit = site.get("/new").expect_status(200);
    assert!(
        hit.is_hit() && !hit.text().contains("HTTP_IF_") && !hit.text().contains("HTTP_RANGE"),
        "{}",
        hit.text()
    );
    let whole = hit.body;
    let part = site
        .send(Request::get("/new").field("Range", "bytes=2-5"))
        .expect_status(206);
    assert_eq!(part.body, whole[2..6]);
    site.send(Request::get("/new").field("Range", "bytes=99999-"))
        .assert_status(416);
}

#[test]
fn tracking_parameters_are_removed_from_cache_key_and_request() {
    let site = SiteBuilder::php().start();
    let first = site
        .get("/page?utm_source=canary1&b=2&fbclid=canary2&a=1")
        .expect_status(200);
    assert_eq!(first.cache_status(), MISS);
    let first = first.text();
    assert!(!first.contains("canary"), "{first}");
    assert_eq!(page_value(&first, "query"), "a=1&b=2");
    for target in [
        "/page?a=1&b=2",
        "/page?b=2&a=1",
        "/page?a=1&b=2&utm_source=canary3",
        "/page?utm%5Fsource=canary4&a=1&b=2",
        "/page?%75tm_source=canary5&a=1&%66bclid=x&b=2&gclid=canary6",
        "/page?&&a=1&&b=2&",
        "/%70age?a=1&b=2",
        "/x/../page?a=1&b=2",
        "/./page?a=%31&b=2",
    ] {
        let response = site.get(target).expect_status(200);
        assert!(response.is_hit(), "{target}: {}", response.cache_status());
        assert_eq!(response.text(), first, "{target}");
    }
    for target in [
        "/page?a=1&b=3",
        "/page?a=1",
        "/page",
        "/Page?a=1&b=2",
        "/page/?a=1&b=2",
        "/page?a=1&b=2&utm=1",
        "/page?A=1&b=2",
    ] {
        assert!(
            !site.get(target).is_hit(),
            "{target} has a separate cache key"
        );
    }
    assert_eq!(
        site.get("/clean?utm_source=canary")
            .expect_status(200)
            .text()
            .matches("canary")
            .count(),
        0
    );
    assert!(site.get("/clean").is_hit());
}

#[test]
fn request_fields_outside_the_cache_key_are_not_forwarded_to_php() {
    let site = SiteBuilder::php().start();
    let request = Request::get("/page")
        .cookie("_ga=canary; wordpress_test_cookie=canary; PHPSESSID=canary; theme=canary")
        .field("User-Agent", "canary")
        .field("Accept-Language", "canary")
        .field("Referer", "http://canary.test/")
        .field("X-Forwarded-Host", "canary.test")
        .field("X-Forwarded-Proto", "https")
        .field("X-Forwarded-Scheme", "canary")
        .field("X-Host", "canary.test")
        .field("X-Original-URL", "/canary")
        .field("X-Rewrite-URL", "/canary")
        .field("X-HTTP-Method-Override", "DELETE")
        .field("X-Canary", "canary")
        .field("Accept", "text/html;canary=1")
        .field("Accept-Encoding", "canary")
        .field("Cache-Control", "no-cache")
        .field("Pragma", "no-cache");
    let first = site.send(request).expect_status(200);
    assert_eq!(first.cache_status(), MISS);
    assert!(
        !first.text().contains("canary")
            && !first.text().contains("DELETE")
            && !first.text().contains("HTTP_COOKIE"),
        "{}",
        first.text()
    );
    let second = site.get("/page");
    assert!(second.is_hit());
    assert_eq!(second.body, first.body);
}

#[test]
fn private_responses_are_never_shared() {
    let site = SiteBuilder::php().start();
    let table: &[(&str, &[&str])] = &[
        ("/cookie", &["Set-Cookie: session={run}; Path=/"]),
        ("/private", &["Cache-Control: private, max-age=600"]),
        ("/nostore", &["Cache-Control: no-store"]),
        ("/nocache", &["Cache-Control: no-cache, must-revalidate"]),
        ("/quoted", &["Cache-Control: max-age=600, private=\"x-y\""]),
        ("/caps", &["CACHE-CONTROL: PRIVATE"]),
        (
            "/twice",
            &["Cache-Control: max-age=600", "Cache-Control: no-store"],
        ),
        ("/vary", &["Vary: *", "Cache-Control: max-age=600"]),
        (
            "/varyother",
            &[
                "Vary: Accept-Encoding, X-Tenant",
                "Cache-Control: max-age=600",
            ],
        ),
        (
            "/galley",
            &[
                "Galley-Cache-Control: no-store",
                "Cache-Control: max-age=600",
            ],
        ),
        (
            "/cdn",
            &["CDN-Cache-Control: private", "Cache-Control: max-age=600"],
        ),
        ("/zero", &["Cache-Control: max-age=0"]),
        ("/smaxage", &["Cache-Control: s-maxage=0, max-age=600"]),
        ("/expired", &["Expires: Wed, 11 Jan 1984 05:00:00 GMT"]),
        (
            "/cookiemax",
            &["Set-Cookie: id={run}", "Cache-Control: public, max-age=600"],
        ),
    ];
    for (page, head) in table {
        site.head(page, head);
        let mut runs = Vec::new();
        for round in 0..4 {
            let response = site
                .send(Request::get(page).cookie(&format!("visitor={round}")))
                .expect_status(200);
            assert!(!response.is_hit(), "{page}: {}", response.cache_status());
            let text = response.text();
            let run = page_value(&text, "run").to_owned();
            if let Some(cookie) = response.field("set-cookie") {
                assert!(
                    cookie.contains(&format!("={run}")),
                    "{page}: the cookie of another visitor: {cookie} with run {run}"
                );
            }
            // If the response to the reduced request cannot be shared, Galley sends the complete request to PHP.
            assert_eq!(
                page_value(&text, "HTTP_COOKIE"),
                format!("visitor={round}"),
                "{page}"
            );
            if round > 0 {
                assert_eq!(
                    response.cache_status(),
                    "galley; fwd=bypass; detail=remembered",
                    "{page}"
                );
            }
            runs.push(run);
        }
        runs.dedup();
        assert_eq!(
            runs.len(),
            4,
            "{page}: two visitors got the same response: {runs:?}"
        );
    }
}

#[test]
fn requests_with_a_session_bypass_the_cache_and_store_nothing() {
    let site = SiteBuilder::php().start();
    site.get("/page");
    for (field, value, detail) in [
        ("Cookie", "wordpress_logged_in_abc=1", "cookie"),
        (
            "Cookie",
            "a=b; wordpress_0123456789abcdef0123456789abcdef=x",
            "cookie",
        ),
        ("Cookie", "comment_author_abc=me", "cookie"),
        ("Cookie", "wp-postpass_abc=x", "cookie"),
        ("Cookie", "woocommerce_items_in_cart=1", "cookie"),
        ("Authorization", "Basic eDp5", "authorization"),
        ("Origin", "http://elsewhere.test", "origin"),
    ] {
        for page in ["/page", "/unseen"] {
            let response = site
                .send(Request::get(page).field(field, value))
                .expect_status(200);
            assert_eq!(
                response.cache_status(),
                format!("galley; fwd=bypass; detail={detail}"),
                "{page} {value}"
            );
            let text = response.text();
            let name = format!("HTTP_{}", field.to_uppercase());
            assert_eq!(
                page_value(&text, &name),
                value,
                "{page}: {field} is forwarded unchanged"
            );
        }
    }
    // Several `Cookie` fields form one list of cookies.
    let split = site.send(
        Request::get("/page")
            .cookie("a=b")
            .cookie("wordpress_logged_in_abc=1"),
    );
    assert_eq!(split.cache_status(), "galley; fwd=bypass; detail=cookie");
    assert_eq!(
        site.get("/unseen").cache_status(),
        MISS,
        "no response to a session was stored"
    );
    assert!(site.get("/page").is_hit());
    for (target, detail) in [
        ("/wp-admin/", "path"),
        ("/wp-login.php", "path"),
        ("/page?preview=true", "query"),
        ("/site2/wp-admin/x", "path"),
        ("/WP-LOGIN.php", "path"),
        ("/%77p-admin/", "path"),
        ("/x/../wp-admin/", "path"),
        ("//wp-admin/", "path"),
    ] {
        for _ in 0..2 {
            let response = site.get(target);
            if response.status != 403 && response.status != 404 {
                assert_eq!(
                    response.cache_status(),
                    format!("galley; fwd=bypass; detail={detail}"),
                    "{target}"
                );
            }
        }
    }
}

#[test]
fn only_cacheable_status_codes_are_stored() {
    let site = SiteBuilder::php().start();
    for status in [500, 501, 503, 403, 401, 429, 302, 303, 307, 204, 206, 418] {
        let page = format!("/s{status}");
        let mut head = vec!["Cache-Control: max-age=600".to_owned()];
        if (300..400).contains(&status) {
            head.push("Location: /elsewhere".to_owned());
        }
        head.push(format!("Status: {status}"));
        site.head(&page, &head.iter().map(String::as_str).collect::<Vec<_>>());
        for _ in 0..2 {
            let response = site.get(&page).expect_status(status);
            assert!(!response.is_hit(), "{status}: {}", response.cache_status());
        }
        assert!(site.runs(&page) >= 2, "{status}");
    }
    for (status, location) in [(301, true), (308, true), (404, false), (410, false)] {
        let page = format!("/s{status}");
        let line = format!("Status: {status}");
        let head = if location {
            vec!["Location: /elsewhere", &line]
        } else {
            vec![line.as_str()]
        };
        site.head(&page, &head);
        assert_eq!(
            site.get(&page).expect_status(status).cache_status(),
            MISS,
            "{status}"
        );
        let hit = site.get(&page).expect_status(status);
        assert!(hit.is_hit(), "{status}");
        assert_eq!(
            hit.field("location"),
            location.then_some("/elsewhere"),
            "{status}"
        );
    }
}

#[test]
fn empty_and_incomplete_pages_are_not_stored() {
    let site = SiteBuilder::php()
        .file("empty.php", "<?php")
        .file("index.php", "<?php if ($_SERVER['REQUEST_URI'] == '/empty') exit; if ($_SERVER['REQUEST_URI'] == '/short') { echo 'Error establishing a database connection'; exit; } echo '<html></html>';")
        .start();
    for page in ["/empty", "/short"] {
        site.get(page);
        assert!(!site.get(page).is_hit(), "{page}");
    }
    site.get("/fine");
    assert!(site.get("/fine").is_hit());
}

#[test]
fn redirects_restore_removed_tracking_parameters() {
    let site = SiteBuilder::php().start();
    site.head(
        "/old",
        &["Location: http://example.test/new?x=1#part", "Status: 301"],
    );
    let first = site
        .get("/old?utm_source=news&utm_medium=mail")
        .expect_status(301);
    assert_eq!(
        first.field("location"),
        Some("http://example.test/new?x=1&utm_source=news&utm_medium=mail#part")
    );
    let hit = site.get("/old").expect_status(301);
    assert!(hit.is_hit());
    assert_eq!(
        hit.field("location"),
        Some("http://example.test/new?x=1#part")
    );
    let other = site.get("/old?fbclid=zzz").expect_status(301);
    assert!(other.is_hit());
    assert_eq!(
        other.field("location"),
        Some("http://example.test/new?x=1&fbclid=zzz#part")
    );
    // A stored redirect from `/loop?utm_source=x` to `/loop` would be a loop, because both have the same cache key.
    site.head("/loop", &["Location: /loop", "Status: 301"]);
    for _ in 0..2 {
        let response = site.get("/loop?utm_source=x");
        assert!(!response.is_hit(), "{}", response.excerpt());
    }
}

#[test]
fn unsafe_methods_are_never_stored_and_purge_their_target() {
    const SESSION: &str = "wordpress_logged_in_0123=editor|1|x";
    let site = SiteBuilder::php().start();
    // The purges are soft: no cookie proves a session.
    let is_purged = |page: &str| {
        site.get(page)
            .cache_status()
            .contains("detail=revalidating")
    };
    let store = |page: &str| {
        wait_for("a stored page", TIMEOUT, || {
            site.get(page).is_hit() && !is_purged(page)
        });
    };
    site.get("/page");
    site.get("/other");
    for round in 0..2 {
        let response = site
            .send(Request::form("/page", &[("a", "b")]).cookie(SESSION))
            .expect_status(200);
        assert_eq!(
            response.cache_status(),
            "galley; fwd=method; detail=method",
            "{round}"
        );
        assert!(response.text().contains("body=a=b\n"));
    }
    assert!(is_purged("/page"), "a successful POST purges its target");
    store("/page");
    assert!(!is_purged("/other"));
    // A failed POST purges nothing.
    site.head("/fails", &[]);
    site.get("/fails");
    site.head("/fails", &["Status: 403"]);
    site.send(Request::form("/fails", &[("a", "b")]).cookie(SESSION))
        .assert_status(403);
    assert!(!is_purged("/fails"));
    // The target of the redirect is purged as well.
    site.head("/comment", &["Location: /other#c1", "Status: 302"]);
    site.send(Request::form("/comment", &[("a", "b")]).cookie(SESSION))
        .assert_status(302);
    assert!(is_purged("/other"));
    for method in ["PUT", "DELETE", "PATCH"] {
        store("/page");
        site.send(Request::new(method, "/page").body("x").cookie(SESSION))
            .assert_status(200);
        assert!(is_purged("/page"), "{method}");
    }
}
