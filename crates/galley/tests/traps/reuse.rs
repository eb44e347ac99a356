//! Which stored responses are reused, and which must not be.

use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::Duration;

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use crate::site::{TIMEOUT, TestSite};

const LONG: &[(&str, &str)] = &[("Cache-Control", "max-age=600")];

#[test]
fn trap_01_responses_to_authorized_requests_are_not_shared() {
    let site = TestSite::constant(LONG);
    let secret = Request::get("/a").field("Authorization", "Basic x");
    let first = site.send(&secret).text();
    assert_eq!(site.last_request().field("authorization"), Some("Basic x"));
    let anonymous = site.get("/a");
    assert!(!anonymous.is_hit() && anonymous.text() != first);
    assert!(site.reuses(&Request::get("/a")));
    assert!(
        !site.reuses(&secret),
        "the stored response was generated without credentials"
    );
    let public = TestSite::constant(&[("Cache-Control", "max-age=600, public")]);
    public.send(&secret);
    assert!(public.reuses(&Request::get("/a")) && public.reuses(&secret));
}

#[test]
fn trap_05_only_if_cached_never_reaches_the_origin() {
    let site = TestSite::constant(LONG);
    let only = Request::get("/a").field("Cache-Control", "only-if-cached");
    assert_eq!(site.status(&only), 504);
    assert!(site.origin.requests().is_empty());
    site.get("/a");
    assert!(site.reuses(&only));
    site.send(&Request::get("/b").field("Cache-Control", "no-store"));
    assert!(!site.reuses(&Request::get("/b")));
}

#[test]
fn trap_07_must_revalidate_is_never_served_stale() {
    let lines = "[site.ttl]\nstale_if_error = \"1h\"";
    let site = TestSite::with(lines, |request, writer| {
        let control = match request.path() {
            "/must" => "max-age=10, must-revalidate",
            "/proxy" => "max-age=10, proxy-revalidate",
            "/ask" => "max-age=10, no-cache",
            "/shared" => "max-age=10, s-maxage=10",
            _ => "max-age=10",
        };
        match request.field("if-none-match") {
            Some(_) => writer.reset(),
            None => {
                writer.respond(
                    200,
                    &[("Cache-Control", control), ("Age", "20"), ("ETag", "\"a\"")],
                    b"x",
                );
            }
        }
    });
    let table = [
        ("/must", 504),
        ("/proxy", 504),
        ("/ask", 504),
        ("/shared", 504),
        ("/lax", 200),
    ];
    for (path, status) in table {
        assert_eq!(site.get(path).status, 200);
        wait_for("a revalidation of the stored response", TIMEOUT, || {
            let actual = site.get(path).status;
            site.last_request().field("if-none-match") == Some("\"a\"") && actual == status
        });
    }
}

#[test]
fn trap_18_a_truncated_response_is_not_stored() {
    let site = TestSite::new(|request, writer| {
        if request.number == 0 {
            writer.write(
                b"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 10\r\n\r\nhalf",
            );
            writer.close();
        } else {
            writer.respond(200, LONG, b"whole");
        }
    });
    let broken = Request::get("/").send(site.addr());
    assert!(broken.map_or(true, |response| response.status == 502));
    assert_eq!(site.get("/").text(), "whole");
    assert!(site.reuses(&Request::get("/")));
}

#[test]
fn trap_19_vary_selects_stored_variants() {
    let site = TestSite::new(|request, writer| {
        let vary = if request.path() == "/star" {
            "Foo, *"
        } else {
            "Foo"
        };
        let fields = [("Cache-Control", "max-age=600"), ("Vary", vary)];
        writer.respond(200, &fields, request.number.to_string().as_bytes());
    });
    let with = |value: &str| Request::get("/").field("Foo", value);
    let without_field = site.get("/").text();
    let one = site.send(&with("1")).text();
    let empty = site.send(&with("")).text();
    assert!(without_field != one && one != empty && without_field != empty);
    assert_eq!(site.send(&with("1")).text(), one);
    assert_eq!(site.get("/").text(), without_field);
    assert_eq!(site.send(&with("")).text(), empty);
    let joined = site.send(&with("a").field("Foo", "b")).text();
    assert_eq!(site.send(&with(" a ,b")).text(), joined);
    assert!(!site.reuses(&Request::get("/star")) && !site.reuses(&Request::get("/star")));
    for value in 0..40 {
        site.send(&with(&format!("v{value}")));
    }
    assert!(!site.reuses(&with("1")), "the oldest variants are evicted");
    assert!(site.reuses(&with("v39")));
}

#[test]
fn trap_24_unsafe_methods_invalidate_target_and_location() {
    let site = TestSite::new(|request, writer| {
        let fields = [
            ("Cache-Control", "max-age=600"),
            ("Location", "moved"),
            ("Content-Location", "http://other.example/d/far"),
        ];
        match (request.method.as_str(), request.path()) {
            ("GET", _) => writer.respond(200, LONG, b"x"),
            (_, "/d/bad") => writer.respond(500, &fields, b""),
            _ => writer.respond(200, &fields, b""),
        };
    });
    let pages = ["/d/own", "/d/moved", "/d/far", "/d/bad"];
    let fill = || pages.iter().for_each(|page| drop(site.get(page)));
    for method in ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH"] {
        fill();
        site.send(&Request::new(method, "/d/own").body("x"));
        let hits: Vec<bool> = pages
            .iter()
            .map(|page| site.reuses(&Request::get(page)))
            .collect();
        assert_eq!(hits, [false, false, true, true], "{method}");
        site.send(&Request::new(method, "/d/bad").body("x"));
        assert!(site.reuses(&Request::get("/d/bad")), "{method} failed");
    }
}

#[test]
fn trap_30_stale_while_revalidate_sends_one_unconditional_background_request() {
    let site = TestSite::new(|request, writer| {
        let fields: &[(&str, &str)] = if request.number == 0 {
            &[
                ("Cache-Control", "max-age=10, stale-while-revalidate=60"),
                ("Age", "20"),
            ]
        } else {
            LONG
        };
        writer.respond(200, fields, request.number.to_string().as_bytes());
    });
    site.fill("/");
    let stale = site.send(&Request::get("/").field("If-None-Match", "\"x\""));
    assert_eq!(stale.text(), "0");
    wait_for("the refresh", TIMEOUT, || site.origin.requests().len() == 2);
    assert_eq!(site.last_request().field("if-none-match"), None);
    wait_for("the refreshed response", TIMEOUT, || {
        site.get("/").text() == "1"
    });
    assert_eq!(site.origin.requests().len(), 2);
}

#[test]
fn no_vary_search_shares_a_response_between_urls() {
    let site = TestSite::new(|request, writer| {
        let search = match request.path() {
            "/utm" => "params=(\"utm\")",
            "/id" => "params, except=(\"id\"), key-order",
            "/vary" => "params",
            _ => "params=broken",
        };
        let fields = [
            ("No-Vary-Search", search),
            ("Vary", if request.path() == "/vary" { "Foo" } else { "" }),
            LONG[0],
        ];
        writer.respond(200, &fields, request.number.to_string().as_bytes());
    });
    let table = [
        ("/utm?a=1&utm=x", "/utm?utm=y&a=1", true),
        ("/utm?a=2&utm=x", "/utm?a=2", true),
        ("/utm?utm=x", "/utm", true),
        ("/utm?a=3&utm=x", "/utm?a=4", false),
        ("/utm?a=5&b", "/utm?b&a=5", false),
        ("/id?id=1", "/id?foo&id=1&bar", true),
        ("/id?id=2", "/id?id=3", false),
        ("/id?id=4", "/idx?id=4", false),
        ("/broken?a", "/broken?b", false),
    ];
    for (stored, requested, is_reused) in table {
        site.fill(stored);
        assert_eq!(
            site.reuses(&Request::get(requested)),
            is_reused,
            "{stored} {requested}"
        );
    }
    for number in 100..117 {
        site.fill(&format!("/utm?a={number}&utm=x"));
    }
    assert!(site.reuses(&Request::get("/utm?a=116")));
    assert!(site.reuses(&Request::get("/utm?a=101")));
    let oldest = Request::get("/utm?a=100");
    assert!(
        !site.reuses(&oldest),
        "evicted because the number of spellings is limited"
    );
    let with = |target: &str, value: &str| Request::get(target).field("Foo", value);
    site.send(&with("/vary?1", "a"));
    wait_for("the variant to be stored", TIMEOUT, || {
        site.reuses(&with("/vary?1", "a"))
    });
    assert!(site.reuses(&with("/vary?2", "a")));
    assert!(!site.reuses(&with("/vary?2", "b")));
}

#[test]
fn a_purge_of_one_url_removes_a_response_shared_by_no_vary_search() {
    let site = TestSite::new(|request, writer| {
        let fields = [("No-Vary-Search", "params"), LONG[0]];
        writer.respond(200, &fields, request.number.to_string().as_bytes());
    });
    for purged in ["/a?1", "/a?2"] {
        let old = site.fill("/a?1").text();
        assert_eq!(site.get("/a?2").text(), old);
        assert_eq!(site.get("/a?3").text(), old);
        assert_eq!(site.status(&Request::new("PURGE", purged)), 200);
        assert_ne!(site.get(purged).text(), old, "{purged}");
        site.status(&Request::new("PURGE", "/a?1"));
        site.status(&Request::new("PURGE", "/a?2"));
        site.status(&Request::new("PURGE", "/a?3"));
    }
    let old = site.fill("/a?1").text();
    site.send(&Request::post("/a?2", "text/plain", "x"));
    assert_eq!(site.get("/a?1").text(), old);
    assert_ne!(
        site.get("/a?2").text(),
        old,
        "the POST invalidates this URL"
    );
}

#[test]
fn trap_38_a_fetch_started_before_a_purge_is_not_stored() {
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let site = Arc::new(TestSite::new(move |request, writer| {
        if request.number == 0 {
            released
                .lock()
                .unwrap()
                .recv_timeout(Duration::from_secs(20))
                .unwrap();
        }
        writer.respond(200, LONG, request.number.to_string().as_bytes());
    }));
    let background = Arc::clone(&site);
    let first = std::thread::spawn(move || background.get("/").text());
    wait_for("the first request", TIMEOUT, || {
        !site.origin.requests().is_empty()
    });
    assert_eq!(site.status(&Request::new("PURGE", "/")), 200);
    assert_eq!(
        site.get("/").text(),
        "1",
        "it does not join the fetch from before the purge"
    );
    release.send(()).unwrap();
    assert_eq!(first.join().unwrap(), "0");
    assert_eq!(site.get("/").text(), "1");
}

#[test]
fn trap_39_waiting_requests_do_not_share_a_private_response() {
    let site = Arc::new(TestSite::constant(&[("Cache-Control", "private")]));
    let barrier = Arc::new(Barrier::new(8));
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let (site, barrier) = (Arc::clone(&site), Arc::clone(&barrier));
            std::thread::spawn(move || {
                barrier.wait();
                site.get("/").text()
            })
        })
        .collect();
    let mut bodies: Vec<String> = clients
        .into_iter()
        .map(|client| client.join().unwrap())
        .collect();
    bodies.sort();
    bodies.dedup();
    assert_eq!(
        bodies.len(),
        8,
        "each client gets a separate response: {bodies:?}"
    );
    assert_eq!(site.origin.requests().len(), 8, "each request is sent once");
}

#[test]
fn cache_group_invalidation_removes_all_members_of_the_group() {
    let site = TestSite::new(|request, writer| {
        let group = if request.path() == "/c" {
            "\"y\""
        } else {
            "\"x\", \"z\""
        };
        let fields = match request.method.as_str() {
            "POST" => ("Cache-Group-Invalidation", "\"x\""),
            _ => ("Cache-Groups", group),
        };
        writer.respond(200, &[fields, LONG[0]], b"x");
    });
    for path in ["/a", "/b", "/c"] {
        site.fill(path);
    }
    site.send(&Request::post("/form", "text/plain", "x"));
    let reused = ["/a", "/b", "/c"].map(|path| site.reuses(&Request::get(path)));
    assert_eq!(reused, [false, false, true]);
}
