//! Purges by the command, by request methods and by response fields: the selected pages are not served afterwards, all others are.

use galley_testkit::client::Request;
use galley_testkit::origin::Origin;
use galley_testkit::wait_for;
use serde_json::{Value, json};

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite, page_value, with_host};

fn tagged_site() -> TestSite {
    let site = SiteBuilder::php().workers(4).start();
    site.head("/a", &["Galley-Tags: p1, front"]);
    site.head("/b", &["Galley-Tags: p2, front"]);
    site.head("/blog/one", &["X-LiteSpeed-Tag: p3"]);
    site.head("/blog/two", &["Cache-Tag: p4"]);
    store_all(&site);
    site
}

const PAGES: [&str; 6] = ["/a", "/b", "/blog/one", "/blog/two", "/blogger", "/a?x=1"];

fn store_all(site: &TestSite) {
    for page in PAGES {
        site.get(page);
        assert!(site.get(page).is_hit(), "{page}");
    }
}

/// Pages that are still in the cache. Fetches nothing.
fn remaining(site: &TestSite) -> Vec<&'static str> {
    PAGES
        .into_iter()
        .filter(|page| {
            site.send(Request::get(page).field("Cache-Control", "only-if-cached"))
                .status
                == 200
        })
        .collect()
}

fn without(purged: &[&str]) -> Vec<&'static str> {
    PAGES
        .into_iter()
        .filter(|page| !purged.contains(page))
        .collect()
}

#[test]
fn the_purge_command_purges_the_selected_pages_only() {
    let site = tagged_site();
    for (arguments, purged) in [
        (&["--url", "http://example.test/a"][..], &["/a"][..]),
        (&["--url", "/a"], &["/a"]),
        (&["--url", "https://EXAMPLE.test:443/%61"], &["/a"]),
        (
            &["--url", "http://example.test/a?x=1&utm_source=q"],
            &["/a?x=1"],
        ),
        (&["--url", "http://example.test/nothing"], &[]),
        (&["--tag", "p1"], &["/a", "/a?x=1"]),
        (&["--tag", "front"], &["/a", "/b", "/a?x=1"]),
        (&["--tag", "p3", "--tag", "p4"], &["/blog/one", "/blog/two"]),
        (&["--tag", "p"], &[]),
        (&["--prefix", "/blog"], &["/blog/one", "/blog/two"]),
        (&["--prefix", "/blog/"], &["/blog/one", "/blog/two"]),
        (
            &["--pattern", "^/blog"],
            &["/blog/one", "/blog/two", "/blogger"],
        ),
        (&["--pattern", "o$"], &["/blog/two"]),
        (&["--all"], &PAGES),
        (&["--site", "example.test", "--all"], &PAGES),
    ] {
        site.purge(arguments);
        assert_eq!(remaining(&site), without(purged), "{arguments:?}");
        for page in PAGES {
            assert_eq!(
                site.get(page).is_hit(),
                !purged.contains(&page),
                "{arguments:?} {page}"
            );
        }
        store_all(&site);
    }
}

#[test]
fn invalid_purges_are_refused_and_change_nothing() {
    let site = tagged_site();
    for arguments in [
        &["purge"][..],
        &["purge", "--url", "not a url"],
        &["purge", "--pattern", "(unclosed"],
        &["purge", "--site", "nobody.test", "--all"],
        &["purge", "--url", "http://nobody.test/a"],
        &["purge", "--everything"],
    ] {
        let output = site.galley.cli(arguments).unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        assert!(
            !output.stderr.is_empty() && output.stdout.is_empty(),
            "{arguments:?}"
        );
    }
    assert_eq!(remaining(&site), PAGES);
}

#[test]
fn a_soft_purge_serves_the_stale_page_once_more() {
    let site = tagged_site();
    site.purge(&["--soft", "--url", "/a"]);
    let stale = site.get("/a");
    assert!(
        stale.cache_status().contains("detail=revalidating"),
        "{}",
        stale.cache_status()
    );
    assert_eq!(page_value(&stale.text(), "run"), "1");
    wait_for("the new page", TIMEOUT, || {
        page_value(&site.get("/a").text(), "run") != "1"
    });
    // A hard purge overrides a soft one, whether it is earlier or later.
    site.purge(&["--url", "/a"]);
    site.purge(&["--soft", "--url", "/a"]);
    assert_eq!(remaining(&site), without(&["/a"]));
}

#[test]
fn the_purge_method_works_from_allowed_addresses() {
    let site = tagged_site();
    let purge = |target: &str, fields: &[(&str, &str)]| {
        let request = fields
            .iter()
            .fold(Request::new("PURGE", target), |request, (name, value)| {
                request.field(name, value)
            });
        let response = site.send(request).expect_status(200);
        assert_eq!(response.cache_status(), "galley; detail=purge");
    };
    purge("/a", &[]);
    assert_eq!(remaining(&site), without(&["/a"]));
    store_all(&site);
    purge("/blog/.*", &[("X-Purge-Method", "regex")]);
    assert_eq!(remaining(&site), without(&["/blog/one", "/blog/two"]));
    store_all(&site);
    purge("/", &[("X-Purge-Method", "tags"), ("X-Cache-Tags", "p1")]);
    assert_eq!(remaining(&site), without(&["/a", "/a?x=1"]));
    store_all(&site);
    purge("/.*", &[]);
    assert_eq!(remaining(&site), Vec::<&str>::new());
    store_all(&site);
    site.send(Request::new("BAN", "/blog")).assert_status(200);
    assert!(!remaining(&site).contains(&"/blog/one"));
}

#[test]
fn the_purge_method_is_refused_for_other_addresses() {
    let site = SiteBuilder::php()
        .site("purge_allow = [\"10.0.0.0/8\"]")
        .start();
    site.get("/page");
    for method in ["PURGE", "BAN"] {
        for target in ["/page", "/.*"] {
            let plain = Request::new(method, target);
            let claiming = plain.clone().field("X-Forwarded-For", "10.0.0.1");
            for request in [plain, claiming] {
                let response = site.send(request);
                assert_eq!(
                    response.status,
                    405,
                    "{method} {target}: {}",
                    response.excerpt()
                );
                assert!(response.has("allow"));
            }
        }
    }
    assert!(site.get("/page").is_hit());
    assert_eq!(site.runs("/page"), 1, "the request reached PHP");
}

#[test]
fn a_purge_request_with_proxy_fields_is_refused() {
    let site = SiteBuilder::php().start();
    site.get("/page");
    for name in ["X-Forwarded-For", "Forwarded", "Via", "x-real-ip"] {
        let passed_on = Request::new("PURGE", "/page").field(name, "192.0.2.1");
        site.send(passed_on).assert_status(405);
        assert!(site.get("/page").is_hit(), "{name}");
    }
    site.send(Request::new("PURGE", "/page")).assert_status(200);
    assert!(!site.get("/page").is_hit());
}

#[test]
fn a_response_may_purge_its_own_site() {
    let site = tagged_site();
    site.head("/save", &["X-LiteSpeed-Purge: tag=p1", "Galley-Purge: p3"]);
    let response = site
        .send(Request::form("/save", &[("a", "b")]))
        .expect_status(200);
    assert!(
        !response.has("x-litespeed-purge") && !response.has("galley-purge"),
        "{}",
        response.excerpt()
    );
    assert_eq!(remaining(&site), without(&["/a", "/a?x=1", "/blog/one"]));
    store_all(&site);
    site.head("/everything", &["X-LiteSpeed-Purge: *"]);
    site.send(with_host(Request::form("/everything", &[("a", "b")])))
        .assert_status(200);
    assert_eq!(remaining(&site), Vec::<&str>::new());
}

/// The text of `/changed` counts its generations, `/same` has a nonce that does.
#[test]
fn the_status_counts_the_pages_that_purges_removed_without_need() {
    let origin = Origin::start(|request, writer| {
        let number = request.number;
        let (tags, text) = match request.path() {
            "/same" => ("tb.wp_log, p1", format!("{{\"nonce\":\"{number:010}\"}}")),
            _ => ("p1, p2", format!("<p>{number}</p>")),
        };
        let text = format!("<html><body>{text}</body></html>");
        let fields = [("content-type", "text/html"), ("galley-tags", tags)];
        writer.respond(200, &fields, text.as_bytes());
    });
    let origin = origin.unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress").start();
    let store = || ["/same", "/changed"].map(|page| site.get(page).status);
    let compared = |expected: Value| {
        wait_for("the comparison", TIMEOUT, || {
            let status: Value = serde_json::from_str(&site.status()).unwrap();
            status["sites"][0]["purges_compared"] == expected
        });
    };
    store();
    site.purge(&["--tag", "tb.wp_log"]);
    store();
    compared(json!([{ "tags": "tb.wp_log", "pages": 1, "unchanged": 1 }]));
    site.purge(&["--tag", "p2"]);
    store();
    compared(json!([
        { "tags": "tb.wp_log", "pages": 1, "unchanged": 1 },
        { "tags": "p", "pages": 1, "unchanged": 0 },
    ]));
    // No tag is to blame for a purge of everything.
    site.purge(&["--all"]);
    store();
    compared(json!([
        { "tags": "tb.wp_log", "pages": 1, "unchanged": 1 },
        { "tags": "p", "pages": 1, "unchanged": 0 },
    ]));
}
