//! Protocols of cache plugins apart from the purge requests in `contract`: the capabilities that PHP sees, `X-LiteSpeed-*` response
//! fields, and the folder that Nginx Helper empties.

use std::fs;

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::Origin;
use galley_testkit::wait_for;

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite, page_value};

const CAPABILITIES_PAGE: &str = r#"<?php
$value = fn ($name) => $_SERVER[$name] ?? 'nothing';
header("X-LiteSpeed-Cache-Control: public,max-age=600");
echo "<html><body>\ncapability={$value('HTTP_SURROGATE_CAPABILITY')}\nlscache={$value('X-LSCACHE')}\n";
echo "edition={$value('LSWS_EDITION')}\nas_field={$value('HTTP_X_LSCACHE')}\n";
echo "vary_value={$value('HTTP_X_LSCACHE_VARY_VALUE')}\n";
echo 'eagerness=', getenv('WP_SPECULATIVE_LOADING_DEFAULT_EAGERNESS'), "\n</body></html>\n";
"#;

/// Nginx Helper sends purges for the host of the site URL without its port.
#[test]
fn a_purge_without_a_port_purges_pages_stored_for_the_listener_port() {
    let site = SiteBuilder::php().site("purge_get = true").start();
    let with_port = format!("example.test:{}", site.addr().port());
    let visit = || site.send(Request::get("/a/").host(&with_port));
    let purges = [
        Request::get("/purge/a/").field("User-Agent", "WordPress/6.8.3; http://example.test"),
        Request::new("PURGE", "/a/"),
        Request::new("PURGE", "http://example.test/a/"),
    ];
    for purge in purges {
        visit().assert_status(200);
        assert!(visit().is_hit());
        let response = site
            .send(purge.clone().host("example.test"))
            .expect_status(200);
        assert_eq!(response.field("Cache-Purge-Result"), Some("exact; count=1"));
        assert!(!visit().is_hit(), "{} {}", purge.method, purge.target);
    }
}

/// Adds the fields that a client could forge.
fn with_forged_fields(request: Request) -> Request {
    request
        .field("X-LSCACHE", "on,crawler")
        .field("X-LSCACHE-Vary-Value", "guest")
        .field("Surrogate-Capability", "abc=\"ESI/1.0\"")
}

#[test]
fn php_gets_the_capabilities_of_the_cache_as_variables() {
    for (option, lscache, edition) in [
        ("litespeed = true", "on", "Openlitespeed (Galley)"),
        ("litespeed = false", "nothing", "nothing"),
    ] {
        let site = SiteBuilder::php()
            .file("index.php", CAPABILITIES_PAGE)
            .site(option)
            .start();
        for request in [
            Request::get("/"),
            Request::get("/passes").cookie("wordpress_logged_in_x=1"),
            Request::form("/", &[("a", "b")]),
        ] {
            let text = site
                .send(with_forged_fields(request))
                .expect_status(200)
                .text();
            assert_eq!(
                page_value(&text, "capability"),
                "vhp=\"Surrogate/1.0 tags/1\""
            );
            // WordPress 7.1 lets browsers load pages in advance when the pointer rests on a link.
            assert_eq!(page_value(&text, "eagerness"), "moderate", "{option}");
            assert_eq!(page_value(&text, "lscache"), lscache, "{option}");
            assert_eq!(page_value(&text, "edition"), edition, "{option}");
            assert_eq!(page_value(&text, "as_field"), "nothing", "{option}");
            assert_eq!(page_value(&text, "vary_value"), "nothing", "{option}");
        }
    }
}

#[test]
fn an_http_upstream_gets_the_capabilities_as_header_fields() {
    let origin = Origin::constant(&[("Content-Type", "text/html")], "<html></html>").unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .site("litespeed = true")
        .start();
    site.send(with_forged_fields(Request::get("/")))
        .assert_status(200);
    site.send(with_forged_fields(Request::form("/", &[("a", "b")])))
        .assert_status(200);
    let requests = origin.requests();
    assert_eq!(requests.len(), 2);
    for request in requests {
        assert_eq!(request.field("x-lscache"), Some("on"));
        assert_eq!(request.field("x-lscache-vary-value"), None);
        let capability = request.field("surrogate-capability");
        assert_eq!(capability, Some("vhp=\"Surrogate/1.0 tags/1\""));
    }
}

fn with_cookie(site: &TestSite, page: &str, cookie: &str) -> Response {
    site.send(Request::get(page).cookie(cookie))
}

#[test]
fn litespeed_vary_cookies_create_separate_variants() {
    let site = SiteBuilder::php().site("litespeed = true").start();
    let lines = [
        "X-LiteSpeed-Cache-Control: public,max-age=600",
        "X-LiteSpeed-Vary: cookie=_lscache_vary",
    ];
    site.head("/a/", &lines);
    let first = with_cookie(&site, "/a/", "_lscache_vary=x").expect_status(200);
    assert_eq!(page_value(&first.text(), "HTTP_COOKIE"), "_lscache_vary=x");
    assert!(with_cookie(&site, "/a/", "_lscache_vary=x; other=1").is_hit());
    let second = with_cookie(&site, "/a/", "_lscache_vary=y");
    assert!(!second.is_hit(), "{}", second.cache_status());
    assert_eq!(page_value(&second.text(), "HTTP_COOKIE"), "_lscache_vary=y");
    assert!(!site.get("/a/").is_hit());
    assert_eq!(site.runs("/a/"), 3);
    // Without `litespeed = true` the cookie is ignored, and a page that varies by it is not stored.
    let plain = SiteBuilder::php().start();
    plain.head("/a/", &lines);
    for _ in 0..2 {
        assert!(!with_cookie(&plain, "/a/", "_lscache_vary=x").is_hit());
    }
}

#[test]
fn lsc_cookie_is_sent_with_every_response() {
    let lines = [
        "X-LiteSpeed-Cache-Control: public,max-age=600",
        "Set-Cookie: test=1; path=/",
        "lsc-cookie: test=1; path=/",
    ];
    let site = SiteBuilder::php().site("litespeed = true").start();
    site.head("/a/", &lines);
    site.head("/b/", &["lsc-cookie: own=2"]);
    site.head("/c/", &[&lines[..], &["Set-Cookie: session=3"]].concat());
    for (page, cookie) in [("/a/", "test=1; path=/"), ("/b/", "own=2")] {
        for is_hit in [false, true, true] {
            let response = site.get(page).expect_status(200);
            assert_eq!(
                response.is_hit(),
                is_hit,
                "{page}: {}",
                response.cache_status()
            );
            assert_eq!(response.all("set-cookie"), [cookie], "{page}");
            assert!(!response.has("lsc-cookie"));
        }
    }
    for _ in 0..2 {
        let response = site.get("/c/");
        assert!(!response.is_hit(), "a private cookie was stored");
        assert_eq!(
            response.all("set-cookie"),
            ["test=1; path=/", "session=3"],
            "{}",
            response.excerpt()
        );
    }
    let plain = SiteBuilder::php().start();
    plain.head("/a/", &lines);
    for _ in 0..2 {
        let response = plain.get("/a/");
        assert!(!response.is_hit(), "{}", response.cache_status());
    }
}

#[test]
fn files_removed_while_galley_is_stopped_cause_a_purge_at_startup() {
    let mut site = SiteBuilder::php()
        .disk()
        .site("purge_directory = \"{dir}/watched\"")
        .start();
    let watched = site.scratch.join("watched");
    site.get("/page");
    assert!(site.get("/page").is_hit());
    site.wait_for_disk(1);
    site.galley.stop();
    site.restart();
    assert!(site.get("/page").is_hit(), "nothing was removed");
    site.galley.stop();
    for entry in fs::read_dir(&watched).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    site.restart();
    wait_for("the purge", TIMEOUT, || site.status_number("purges") > 0);
    assert!(!site.get("/page").is_hit());
    // Removing the folder itself is a purge as well.
    assert!(site.get("/page").is_hit());
    // Galley may create its file again before the folder is removed.
    wait_for("the folder to be removed", TIMEOUT, || {
        fs::remove_dir_all(&watched).is_ok()
    });
    wait_for("Galley to create the folder", TIMEOUT, || {
        watched
            .read_dir()
            .is_ok_and(|mut files| files.next().is_some())
    });
    wait_for("another run", TIMEOUT, || {
        page_value(&site.get("/page").text(), "run") == "3"
    });
}
