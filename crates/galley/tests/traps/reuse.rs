//! What is answered from the store, and what must not be.

use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::Duration;

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use crate::stage::{Stage, TIMEOUT};

const LONG: &[(&str, &str)] = &[("Cache-Control", "max-age=600")];

#[test]
fn trap_01_credentials_do_not_leak() {
    let stage = Stage::constant(LONG);
    let secret = Request::get("/a").field("Authorization", "Basic x");
    let first = stage.ask(&secret).text();
    assert_eq!(stage.last().field("authorization"), Some("Basic x"));
    let anonymous = stage.get("/a");
    assert!(!anonymous.is_hit() && anonymous.text() != first);
    assert!(stage.reuses(&Request::get("/a")));
    assert!(!stage.reuses(&secret), "made without credentials");
    let public = Stage::constant(&[("Cache-Control", "max-age=600, public")]);
    public.ask(&secret);
    assert!(public.reuses(&Request::get("/a")) && public.reuses(&secret));
}

#[test]
fn trap_05_only_if_cached_is_answered_without_the_origin() {
    let stage = Stage::constant(LONG);
    let only = Request::get("/a").field("Cache-Control", "only-if-cached");
    assert_eq!(stage.status(&only), 504);
    assert!(stage.origin.requests().is_empty());
    stage.get("/a");
    assert!(stage.reuses(&only));
    stage.ask(&Request::get("/b").field("Cache-Control", "no-store"));
    assert!(!stage.reuses(&Request::get("/b")));
}

#[test]
fn trap_07_must_revalidate_is_never_served_stale() {
    let lines = "[site.ttl]\nstale_if_error = \"1h\"";
    let stage = Stage::with(lines, |seen, writer| {
        let control = match seen.path() {
            "/must" => "max-age=10, must-revalidate",
            "/proxy" => "max-age=10, proxy-revalidate",
            "/ask" => "max-age=10, no-cache",
            "/shared" => "max-age=10, s-maxage=10",
            _ => "max-age=10",
        };
        match seen.field("if-none-match") {
            Some(_) => writer.reset(),
            None => {
                writer.answer(
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
        assert_eq!(stage.get(path).status, 200);
        wait_for("a stored copy to be asked about", TIMEOUT, || {
            let found = stage.get(path).status;
            stage.last().field("if-none-match") == Some("\"a\"") && found == status
        });
    }
}

#[test]
fn trap_18_what_broke_off_is_not_stored() {
    let stage = Stage::new(|seen, writer| {
        if seen.number == 0 {
            writer.write(
                b"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 10\r\n\r\nhalf",
            );
            writer.close();
        } else {
            writer.answer(200, LONG, b"whole");
        }
    });
    let broken = Request::get("/").send(stage.addr());
    assert!(broken.map_or(true, |answer| answer.status == 502));
    assert_eq!(stage.get("/").text(), "whole");
    assert!(stage.reuses(&Request::get("/")));
}

#[test]
fn trap_19_variants_are_told_apart() {
    let stage = Stage::new(|seen, writer| {
        let vary = if seen.path() == "/star" {
            "Foo, *"
        } else {
            "Foo"
        };
        let fields = [("Cache-Control", "max-age=600"), ("Vary", vary)];
        writer.answer(200, &fields, seen.number.to_string().as_bytes());
    });
    let with = |value: &str| Request::get("/").field("Foo", value);
    let plain = stage.get("/").text();
    let one = stage.ask(&with("1")).text();
    let empty = stage.ask(&with("")).text();
    assert!(plain != one && one != empty && plain != empty);
    assert_eq!(stage.ask(&with("1")).text(), one);
    assert_eq!(stage.get("/").text(), plain);
    assert_eq!(stage.ask(&with("")).text(), empty);
    let joined = stage.ask(&with("a").field("Foo", "b")).text();
    assert_eq!(stage.ask(&with(" a ,b")).text(), joined);
    assert!(!stage.reuses(&Request::get("/star")) && !stage.reuses(&Request::get("/star")));
    for value in 0..40 {
        stage.ask(&with(&format!("v{value}")));
    }
    assert!(!stage.reuses(&with("1")), "the oldest variants leave");
    assert!(stage.reuses(&with("v39")));
}

#[test]
fn trap_24_unsafe_methods_invalidate_what_they_name() {
    let stage = Stage::new(|seen, writer| {
        let fields = [
            ("Cache-Control", "max-age=600"),
            ("Location", "moved"),
            ("Content-Location", "http://other.example/d/far"),
        ];
        match (seen.method.as_str(), seen.path()) {
            ("GET", _) => writer.answer(200, LONG, b"x"),
            (_, "/d/bad") => writer.answer(500, &fields, b""),
            _ => writer.answer(200, &fields, b""),
        };
    });
    let pages = ["/d/own", "/d/moved", "/d/far", "/d/bad"];
    let fill = || pages.iter().for_each(|page| drop(stage.get(page)));
    for method in ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH"] {
        fill();
        stage.ask(&Request::new(method, "/d/own").body("x"));
        let hits: Vec<bool> = pages
            .iter()
            .map(|page| stage.reuses(&Request::get(page)))
            .collect();
        assert_eq!(hits, [false, false, true, true], "{method}");
        stage.ask(&Request::new(method, "/d/bad").body("x"));
        assert!(stage.reuses(&Request::get("/d/bad")), "{method} failed");
    }
}

#[test]
fn trap_30_stale_while_revalidate_asks_once_and_for_nobody() {
    let stage = Stage::new(|seen, writer| {
        let fields: &[(&str, &str)] = if seen.number == 0 {
            &[
                ("Cache-Control", "max-age=10, stale-while-revalidate=60"),
                ("Age", "20"),
            ]
        } else {
            LONG
        };
        writer.answer(200, fields, seen.number.to_string().as_bytes());
    });
    stage.fill("/");
    let stale = stage.ask(&Request::get("/").field("If-None-Match", "\"x\""));
    assert_eq!(stale.text(), "0");
    wait_for("the refresh", TIMEOUT, || {
        stage.origin.requests().len() == 2
    });
    assert_eq!(stage.last().field("if-none-match"), None);
    wait_for("the new copy", TIMEOUT, || stage.get("/").text() == "1");
    assert_eq!(stage.origin.requests().len(), 2);
}

#[test]
fn addresses_that_differ_in_what_does_not_matter_share_a_copy() {
    let stage = Stage::new(|seen, writer| {
        let search = match seen.path() {
            "/utm" => "params=(\"utm\")",
            "/id" => "params, except=(\"id\"), key-order",
            "/vary" => "params",
            _ => "params=broken",
        };
        let fields = [
            ("No-Vary-Search", search),
            ("Vary", if seen.path() == "/vary" { "Foo" } else { "" }),
            LONG[0],
        ];
        writer.answer(200, &fields, seen.number.to_string().as_bytes());
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
    for (stored, asked, wanted) in table {
        stage.fill(stored);
        assert_eq!(
            stage.reuses(&Request::get(asked)),
            wanted,
            "{stored} {asked}"
        );
    }
    for number in 100..117 {
        stage.fill(&format!("/utm?a={number}&utm=x"));
    }
    assert!(stage.reuses(&Request::get("/utm?a=116")));
    assert!(stage.reuses(&Request::get("/utm?a=101")));
    let oldest = Request::get("/utm?a=100");
    assert!(!stage.reuses(&oldest), "beyond the bound it is forgotten");
    let with = |target: &str, value: &str| Request::get(target).field("Foo", value);
    stage.ask(&with("/vary?1", "a"));
    wait_for("the variant to be stored", TIMEOUT, || {
        stage.reuses(&with("/vary?1", "a"))
    });
    assert!(stage.reuses(&with("/vary?2", "a")));
    assert!(!stage.reuses(&with("/vary?2", "b")));
}

#[test]
fn a_purge_of_either_address_reaches_what_they_share() {
    let stage = Stage::new(|seen, writer| {
        let fields = [("No-Vary-Search", "params"), LONG[0]];
        writer.answer(200, &fields, seen.number.to_string().as_bytes());
    });
    for purged in ["/a?1", "/a?2"] {
        let old = stage.fill("/a?1").text();
        assert_eq!(stage.get("/a?2").text(), old);
        assert_eq!(stage.get("/a?3").text(), old);
        assert_eq!(stage.status(&Request::new("PURGE", purged)), 200);
        assert_ne!(stage.get(purged).text(), old, "{purged}");
        stage.status(&Request::new("PURGE", "/a?1"));
        stage.status(&Request::new("PURGE", "/a?2"));
        stage.status(&Request::new("PURGE", "/a?3"));
    }
    let old = stage.fill("/a?1").text();
    stage.ask(&Request::post("/a?2", "text/plain", "x"));
    assert_eq!(stage.get("/a?1").text(), old);
    assert_ne!(stage.get("/a?2").text(), old, "a form has changed it");
}

#[test]
fn trap_38_a_fill_that_was_begun_before_a_purge_is_not_kept() {
    let (go, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let stage = Arc::new(Stage::new(move |seen, writer| {
        if seen.number == 0 {
            wait.lock()
                .unwrap()
                .recv_timeout(Duration::from_secs(20))
                .unwrap();
        }
        writer.answer(200, LONG, seen.number.to_string().as_bytes());
    }));
    let early = Arc::clone(&stage);
    let first = std::thread::spawn(move || early.get("/").text());
    wait_for("the first request", TIMEOUT, || {
        !stage.origin.requests().is_empty()
    });
    assert_eq!(stage.status(&Request::new("PURGE", "/")), 200);
    assert_eq!(
        stage.get("/").text(),
        "1",
        "it does not join what the purge has doomed"
    );
    go.send(()).unwrap();
    assert_eq!(first.join().unwrap(), "0");
    assert_eq!(stage.get("/").text(), "1");
}

#[test]
fn trap_39_those_who_waited_do_not_share_what_is_not_shared() {
    let stage = Arc::new(Stage::constant(&[("Cache-Control", "private")]));
    let together = Arc::new(Barrier::new(8));
    let asks: Vec<_> = (0..8)
        .map(|_| {
            let (stage, together) = (Arc::clone(&stage), Arc::clone(&together));
            std::thread::spawn(move || {
                together.wait();
                stage.get("/").text()
            })
        })
        .collect();
    let mut bodies: Vec<String> = asks.into_iter().map(|ask| ask.join().unwrap()).collect();
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), 8, "each has an answer of its own: {bodies:?}");
    assert_eq!(stage.origin.requests().len(), 8, "and nobody asked twice");
}

#[test]
fn a_group_is_invalidated_as_a_whole() {
    let stage = Stage::new(|seen, writer| {
        let group = if seen.path() == "/c" {
            "\"y\""
        } else {
            "\"x\", \"z\""
        };
        let fields = match seen.method.as_str() {
            "POST" => ("Cache-Group-Invalidation", "\"x\""),
            _ => ("Cache-Groups", group),
        };
        writer.answer(200, &[fields, LONG[0]], b"x");
    });
    for path in ["/a", "/b", "/c"] {
        stage.fill(path);
    }
    stage.ask(&Request::post("/form", "text/plain", "x"));
    let reused = ["/a", "/b", "/c"].map(|path| stage.reuses(&Request::get(path)));
    assert_eq!(reused, [false, false, true]);
}
