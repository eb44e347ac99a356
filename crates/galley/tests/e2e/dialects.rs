//! What is between Galley and the plugins beside purges, which the contract covers: what PHP learns of the cache, what it
//! may say of a page, and the folder that nginx-helper empties.

use std::fs;

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::Origin;
use galley_testkit::wait_for;

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite, page_value};

const TOLD: &str = r#"<?php
$told = fn ($name) => $_SERVER[$name] ?? 'nothing';
header("X-LiteSpeed-Cache-Control: public,max-age=600");
echo "<html><body>\ncapability={$told('HTTP_SURROGATE_CAPABILITY')}\nlscache={$told('X-LSCACHE')}\n";
echo "edition={$told('LSWS_EDITION')}\nas_field={$told('HTTP_X_LSCACHE')}\n";
echo "vary_value={$told('HTTP_X_LSCACHE_VARY_VALUE')}\n</body></html>\n";
"#;

/// Nginx Helper takes the host of the site's address and leaves the port out.
#[test]
fn a_purge_for_the_host_without_its_port_purges_what_visitors_of_that_port_get() {
    let site = SiteBuilder::php().site("purge_get = true").start();
    let with_port = format!("example.test:{}", site.addr().port());
    let visit = || site.send(Request::get("/a/").host(&with_port));
    let ways = [
        Request::get("/purge/a/").field("User-Agent", "WordPress/6.8.3; http://example.test"),
        Request::new("PURGE", "/a/"),
        Request::new("PURGE", "http://example.test/a/"),
    ];
    for way in ways {
        visit().assert_status(200);
        assert!(visit().is_hit());
        let told = site
            .send(way.clone().host("example.test"))
            .expect_status(200);
        assert_eq!(told.field("Cache-Purge-Result"), Some("exact; count=1"));
        assert!(!visit().is_hit(), "{} {}", way.method, way.target);
    }
}

/// What a visitor may try.
fn claiming(request: Request) -> Request {
    request
        .field("X-LSCACHE", "on,crawler")
        .field("X-LSCACHE-Vary-Value", "guest")
        .field("Surrogate-Capability", "abc=\"ESI/1.0\"")
}

#[test]
fn php_gets_the_capabilities_of_the_cache() {
    for (option, lscache, edition) in [
        ("litespeed = true", "on", "Openlitespeed (Galley)"),
        ("litespeed = false", "nothing", "nothing"),
    ] {
        let site = SiteBuilder::php()
            .file("index.php", TOLD)
            .site(option)
            .start();
        for request in [
            Request::get("/"),
            Request::get("/passes").cookie("wordpress_logged_in_x=1"),
            Request::form("/", &[("a", "b")]),
        ] {
            let text = site.send(claiming(request)).expect_status(200).text();
            assert_eq!(
                page_value(&text, "capability"),
                "vhp=\"Surrogate/1.0 tags/1\""
            );
            assert_eq!(page_value(&text, "lscache"), lscache, "{option}");
            assert_eq!(page_value(&text, "edition"), edition, "{option}");
            assert_eq!(page_value(&text, "as_field"), "nothing", "{option}");
            assert_eq!(page_value(&text, "vary_value"), "nothing", "{option}");
        }
    }
}

#[test]
fn an_http_upstream_gets_the_capabilities_in_a_field() {
    let origin = Origin::constant(&[("Content-Type", "text/html")], "<html></html>").unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .site("litespeed = true")
        .start();
    site.send(claiming(Request::get("/"))).assert_status(200);
    site.send(claiming(Request::form("/", &[("a", "b")])))
        .assert_status(200);
    let seen = origin.requests();
    assert_eq!(seen.len(), 2);
    for request in seen {
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
fn each_variant_of_litespeed_cache_is_a_copy_of_its_own() {
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
    // Where nobody asked for it the cookie means nothing, and a page that depends on it is not kept.
    let plain = SiteBuilder::php().start();
    plain.head("/a/", &lines);
    for _ in 0..2 {
        assert!(!with_cookie(&plain, "/a/", "_lscache_vary=x").is_hit());
    }
}

#[test]
fn a_cookie_for_everybody_comes_with_every_copy() {
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
            let answer = site.get(page).expect_status(200);
            assert_eq!(answer.is_hit(), is_hit, "{page}: {}", answer.cache_status());
            assert_eq!(answer.all("set-cookie"), [cookie], "{page}");
            assert!(!answer.has("lsc-cookie"));
        }
    }
    for _ in 0..2 {
        let answer = site.get("/c/");
        assert!(!answer.is_hit(), "a cookie of one visitor was kept");
        assert_eq!(
            answer.all("set-cookie"),
            ["test=1; path=/", "session=3"],
            "{}",
            answer.beginning()
        );
    }
    let plain = SiteBuilder::php().start();
    plain.head("/a/", &lines);
    for _ in 0..2 {
        let answer = plain.get("/a/");
        assert!(!answer.is_hit(), "{}", answer.cache_status());
    }
}

#[test]
fn what_was_removed_while_nobody_watched_is_purged_at_the_start() {
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
    // The folder itself may go, too.
    assert!(site.get("/page").is_hit());
    // Galley puts its file back as soon as that is gone, perhaps before the folder is.
    wait_for("the folder to go", TIMEOUT, || {
        fs::remove_dir_all(&watched).is_ok()
    });
    wait_for("the folder", TIMEOUT, || {
        watched
            .read_dir()
            .is_ok_and(|mut files| files.next().is_some())
    });
    wait_for("another run", TIMEOUT, || {
        page_value(&site.get("/page").text(), "run") == "3"
    });
}
