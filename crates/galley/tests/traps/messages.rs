//! Fields and bodies of messages: ages, dates, validators, ranges, framing, hop-by-hop fields, early hints.

use std::io::Read as _;

use galley_testkit::client::{Connection, Request};
use galley_testkit::origin::Gate;
use galley_testkit::wait_for;

use crate::site::{TIMEOUT, TestSite};

const LONG: (&str, &str) = ("Cache-Control", "max-age=600");

#[test]
fn trap_12_every_hit_has_one_current_age() {
    let site = TestSite::constant(&[LONG, ("Age", "30")]);
    assert_eq!(site.fill("/").age(), Some(30));
    let hit = site.get("/");
    assert!(hit.age() >= Some(30) && hit.all("age").len() == 1);
}

#[test]
fn trap_13_an_existing_date_is_kept_and_a_missing_one_added_once() {
    let old = "Sun, 06 Nov 1994 08:49:37 GMT";
    let site = TestSite::new(move |request, writer| {
        let dated = [("Cache-Control", "max-age=2000000000"), ("Date", old)];
        let fields = if request.path() == "/dated" {
            &dated[..]
        } else {
            &[LONG]
        };
        writer.respond(200, fields, b"x");
    });
    site.get("/dated");
    assert_eq!(site.get("/dated").all("date"), [old]);
    let first = site.get("/").field("date").unwrap().to_owned();
    assert_eq!(site.get("/").all("date"), [first]);
}

#[test]
fn trap_20_the_origin_receives_accept_encoding_identity() {
    let site = TestSite::constant(&[LONG, ("Vary", "Accept-Encoding")]);
    site.send(&Request::get("/").field("Accept-Encoding", "br, gzip;q=0"));
    assert_eq!(
        site.last_request().field("accept-encoding"),
        Some("identity")
    );
    assert!(site.reuses(&Request::get("/").field("Accept-Encoding", "zstd")));
}

#[test]
fn trap_22_a_stored_get_response_serves_head_requests() {
    let site = TestSite::constant(&[LONG]);
    let head = site.send(&Request::head("/"));
    assert!(head.body.is_empty() && !head.is_hit());
    site.fill("/");
    let head = site.send(&Request::head("/"));
    assert!(head.is_hit() && head.body.is_empty());
    assert_eq!(head.field("content-length"), Some("1"));
    assert!(!site.reuses(&Request::post("/", "text/plain", "x")));
}

#[test]
fn trap_25_a_304_updates_the_stored_fields_and_is_not_forwarded() {
    let site = TestSite::new(|request, writer| {
        let old = [
            ("Cache-Control", "max-age=10"),
            ("Age", "20"),
            ("ETag", "\"a\""),
            ("Foo", "old"),
            ("Bar", "old"),
        ];
        let new = [
            LONG,
            ("ETag", "\"a\""),
            ("Foo", "new"),
            ("Content-Length", "999"),
            ("Content-Encoding", "gzip"),
        ];
        match request.field("if-none-match") {
            Some(_) => writer.respond(304, &new, b""),
            None => writer.respond(200, &old, b"body"),
        };
    });
    site.fill("/");
    let unconditional = site.send(&Request::get("/").field("If-None-Match", "\"other\""));
    assert_eq!(
        site.last_request().field("if-none-match"),
        Some("\"a\""),
        "the stored validator alone"
    );
    assert_eq!(
        (unconditional.status, unconditional.text()),
        (200, "body".to_owned())
    );
    let hit = site.fill("/");
    assert_eq!(
        (hit.field("foo"), hit.field("bar")),
        (Some("new"), Some("old"))
    );
    assert_eq!(
        (hit.field("content-length"), hit.field("content-encoding")),
        (Some("4"), None)
    );
    assert_eq!(site.origin.requests().len(), 2);
}

#[test]
fn trap_26_a_head_response_refreshes_or_invalidates_the_stored_response() {
    let site = TestSite::new(|request, writer| {
        let etag = if request.path() == "/same" || request.method == "GET" {
            "\"a\""
        } else {
            "\"b\""
        };
        let young = [LONG, ("ETag", etag)];
        let stale = [
            ("Cache-Control", "max-age=10"),
            ("Age", "20"),
            ("ETag", etag),
        ];
        let fields = if request.method == "HEAD" {
            &young[..]
        } else {
            &stale
        };
        writer.respond(200, fields, b"body");
    });
    for (path, is_hit) in [("/same", true), ("/other", false)] {
        site.fill(path);
        site.send(&Request::head(path));
        assert_eq!(site.reuses(&Request::get(path)), is_hit, "{path}");
    }
}

#[test]
fn trap_27_if_none_match_takes_precedence_over_if_modified_since() {
    let modified = "Sun, 06 Nov 1994 08:49:37 GMT";
    let site = TestSite::new(move |_, writer| {
        writer.respond(
            200,
            &[
                LONG,
                ("ETag", "W/\"a\""),
                ("Last-Modified", modified),
                ("Vary", "Foo"),
            ],
            b"x",
        );
    });
    site.fill("/");
    let get_conditional = |tag: &str, since: &str| {
        let request = Request::get("/").field("If-Modified-Since", since);
        site.send(&if tag.is_empty() {
            request
        } else {
            request.field("If-None-Match", tag)
        })
    };
    let later = "Sun, 06 Nov 2094 08:49:37 GMT";
    assert_eq!(get_conditional("\"b\"", later).status, 200);
    let matched = get_conditional("\"b\", \"a\"", "Sun, 06 Nov 1983 08:49:37 GMT");
    assert_eq!(matched.status, 304);
    for name in ["etag", "vary", "cache-control", "date"] {
        assert!(matched.has(name), "{name}");
    }
    assert_eq!(get_conditional("", modified).status, 304);
    assert_eq!(
        get_conditional("", "Sat, 05 Nov 1994 08:49:37 GMT").status,
        200
    );
    let unmodified = Request::get("/").field("If-Match", "\"zzz\"");
    assert_eq!(
        site.send(&unmodified).status,
        200,
        "the cache does not evaluate If-Match"
    );
}

#[test]
fn trap_28_a_hit_has_the_etag_of_the_stored_bytes() {
    let site = TestSite::constant(&[LONG, ("ETag", "\"a\""), ("Content-Encoding", "gzip")]);
    site.fill("/");
    let hit = site.get("/");
    assert_eq!(
        (hit.field("etag"), hit.field("content-encoding")),
        (Some("\"a\""), Some("gzip"))
    );
    let without_etag = TestSite::constant(&[LONG]);
    without_etag.fill("/");
    assert!(
        !without_etag.get("/").has("etag"),
        "Galley does not invent an ETag that the origin does not know"
    );
}

#[test]
fn trap_29_ranges_are_served_from_a_complete_response() {
    let site = TestSite::new(|request, writer| {
        if request.path() == "/parts" {
            writer.respond(206, &[LONG, ("Content-Range", "bytes 2-3/10")], b"23");
        } else {
            writer.respond(200, &[LONG, ("ETag", "\"a\"")], b"0123456789");
        }
    });
    site.fill("/");
    let get_range = |range: &str| site.send(&Request::get("/").field("Range", range));
    let one = get_range("bytes=2-3");
    assert_eq!(
        (one.status, one.text(), one.field("content-range")),
        (206, "23".to_owned(), Some("bytes 2-3/10"))
    );
    let none = get_range("bytes=20-");
    assert_eq!(
        (none.status, none.field("content-range")),
        (416, Some("bytes */10"))
    );
    let multiple = get_range("bytes=0-0,5-6");
    assert_eq!(multiple.status, 206);
    assert!(
        multiple
            .field("content-type")
            .unwrap()
            .starts_with("multipart/byteranges")
    );
    assert!(
        multiple
            .text()
            .contains("Content-Range: bytes 5-6/10\r\n\r\n56\r\n")
    );
    assert_eq!(get_range("lines=1").status, 200);
    let stale = Request::get("/")
        .field("Range", "bytes=0-1")
        .field("If-Range", "\"b\"");
    assert_eq!(site.send(&stale).status, 200);
    assert_eq!(site.origin.requests().len(), 1);
    let again = Request::get("/parts").field("Range", "bytes=2-3");
    assert_eq!(site.status(&again), 206);
    wait_for("the range to be stored", TIMEOUT, || site.reuses(&again));
    assert_eq!(site.status(&again), 206);
    assert!(
        !site.reuses(&Request::get("/parts")),
        "a part does not serve a request for the whole"
    );
}

#[test]
fn trap_32_hop_by_hop_fields_are_not_forwarded() {
    let site = TestSite::constant(&[
        LONG,
        ("Connection", "close, X-Once"),
        ("X-Once", "1"),
        ("X-Both", "2"),
        ("Keep-Alive", "x"),
    ]);
    let request = Request::get("/")
        .field("Connection", "x-mine, cookie")
        .field("X-Mine", "1")
        .field("TE", "trailers");
    for _ in 0..2 {
        let response = site.send(&request);
        assert!(response.has("x-both") && !response.has("x-once") && !response.has("keep-alive"));
    }
    assert_eq!(
        (
            site.last_request().field("x-mine"),
            site.last_request().field("te")
        ),
        (None, None)
    );
}

#[test]
fn trap_33_framing_is_regenerated_and_trailers_are_dropped() {
    let site = TestSite::new(|_, writer| {
        writer.chunked(200, &[LONG]);
        writer.chunk(b"ab");
        writer.write(b"0\r\nX-Trailer: 1\r\n\r\n");
    });
    assert_eq!(site.fill("/").text(), "ab");
    let hit = site.get("/");
    assert_eq!(
        (hit.field("content-length"), hit.has("x-trailer")),
        (Some("2"), false)
    );
    assert!(hit.is_hit() && !hit.has("transfer-encoding"));
}

#[test]
fn trap_34_via_is_appended_and_loops_are_rejected() {
    let site = TestSite::constant(&[LONG]);
    let response = site.send(&Request::get("/").field("Via", "1.1 edge"));
    assert_eq!(response.field("via"), Some("1.1 galley"));
    let forwarded = site.last_request();
    let via = forwarded
        .fields
        .iter()
        .filter(|(name, _)| name == "via")
        .map(|(_, value)| value.clone());
    assert_eq!(via.collect::<Vec<_>>(), [&b"1.1 edge"[..], b"1.1 galley"]);
    let identity = forwarded.field("cdn-loop").unwrap().to_owned();
    let request_count = site.origin.requests().len();
    let again = Request::get("/new").field("CDN-Loop", format!("other; v=1, {identity}"));
    assert_eq!(site.status(&again), 508);
    assert_eq!(site.origin.requests().len(), request_count);
}

#[test]
fn a_post_response_with_content_location_is_stored_for_get() {
    let site = TestSite::new(|request, writer| {
        let location = if request.path() == "/own" {
            "/own"
        } else {
            "/else"
        };
        writer.respond(
            200,
            &[LONG, ("Content-Location", location)],
            request.number.to_string().as_bytes(),
        );
    });
    site.send(&Request::post("/other", "text/plain", "x"));
    assert!(!site.reuses(&Request::get("/other")));
    site.send(&Request::post("/own", "text/plain", "x"));
    let stored = Request::get("/own").field("Cache-Control", "only-if-cached");
    wait_for("the response to be stored", TIMEOUT, || {
        site.status(&stored) == 200
    });
    assert_eq!(site.origin.requests().len(), 3);
}

#[test]
fn early_hints_are_forwarded_before_the_final_response() {
    let hints = "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n";
    let gate = Gate::new();
    let origin_gate = gate.clone();
    let site = TestSite::new(move |request, writer| {
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n");
        writer.write(b"Link: </a.css>; rel=preload\r\nConnection: x-hop\r\nX-Hop: 1\r\n\r\n");
        if request.path().contains("gated") {
            origin_gate.pass();
        }
        let control = if request.path().contains("stored") {
            LONG
        } else {
            ("Cache-Control", "no-store")
        };
        writer.respond(200, &[control], b"x");
    });
    for target in ["/gated/stored", "/gated/passed"] {
        let mut connection = Connection::open(site.addr()).unwrap();
        connection.send(&Request::get(target)).unwrap();
        let mut head = vec![0; hints.len()];
        connection.stream().read_exact(&mut head).unwrap();
        assert_eq!(String::from_utf8_lossy(&head), hints, "{target}");
        gate.open();
        let response = connection.receive("GET").unwrap();
        assert_eq!(
            (response.status, response.interim.len()),
            (200, 0),
            "{target}"
        );
    }
    // Without a gate, hints and response arrive together, each once, and the connection stays open.
    let mut connection = Connection::open(site.addr()).unwrap();
    for request in [Request::get("/a"), Request::post("/a", "text/plain", "x")] {
        for _ in 0..3 {
            let response = connection.exchange(&request).unwrap();
            assert_eq!((response.status, &response.interim[..]), (200, &[103][..]));
        }
    }
    wait_for("a stored response", TIMEOUT, || {
        site.get("/gated/stored").is_hit()
    });
    assert!(site.get("/gated/stored").interim.is_empty(), "not stored");
    let mut old = Connection::open(site.addr()).unwrap();
    old.write(b"GET /old HTTP/1.0\r\nHost: a\r\n\r\n").unwrap();
    let response = old.receive("GET").unwrap();
    assert_eq!((response.status, response.interim.len()), (200, 0));
}

/// Starts with an origin that serves ranges of ten digits. `tag` returns the ETag for the first position of a range.
fn origin_of_ranges(tag: impl Fn(usize) -> &'static str + Send + Sync + 'static) -> TestSite {
    TestSite::new(move |request, writer| {
        let range = request.field("range").and_then(|range| {
            let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
            Some((first.parse::<usize>().ok()?, last.parse::<usize>().ok()?))
        });
        let first = range.map_or(0, |(first, _)| first);
        let tagged = [LONG, ("ETag", tag(first))];
        match range {
            Some((first, last)) => {
                let content_range = format!("bytes {first}-{last}/10");
                let fields = [
                    tagged[0],
                    tagged[1],
                    ("Content-Range", content_range.as_str()),
                ];
                writer.respond(206, &fields, &b"0123456789"[first..=last]);
            }
            None => {
                writer.respond(200, &tagged, b"0123456789");
            }
        }
    })
}

fn range_request(range: &str) -> Request {
    Request::get("/").field("Range", format!("bytes={range}"))
}

/// Requests a range and waits until it is stored.
fn fill_range(site: &TestSite, range: &str) {
    site.send(&range_request(range));
    wait_for("the range to be stored", TIMEOUT, || {
        site.reuses(&range_request(range))
    });
}

#[test]
fn ranges_with_the_same_strong_etag_are_combined() {
    let site = origin_of_ranges(|_| "\"a\"");
    fill_range(&site, "0-3");
    assert!(site.reuses(&range_request("1-2")));
    assert!(!site.reuses(&range_request("2-5")));
    fill_range(&site, "4-7");
    for (range, content_range, text) in [
        ("2-5", "bytes 2-5/10", "2345"),
        ("0-0", "bytes 0-0/10", "0"),
        ("1-7", "bytes 1-7/10", "1234567"),
    ] {
        let before = site.origin.requests().len();
        let response = site.send(&range_request(range));
        assert_eq!(site.origin.requests().len(), before, "{range}");
        assert_eq!((response.status, response.text().as_str()), (206, text));
        assert_eq!(response.all("content-range"), [content_range]);
    }
    fill_range(&site, "6-9");
    let before = site.origin.requests().len();
    let whole = site.get("/");
    assert_eq!(
        site.origin.requests().len(),
        before,
        "all ranges are stored"
    );
    assert_eq!((whole.status, whole.text().as_str()), (200, "0123456789"));
    assert!(!whole.has("content-range") && whole.is_hit());
    assert_eq!(site.send(&range_request("-2")).text(), "89");
}

#[test]
fn ranges_with_different_or_weak_etags_are_not_combined() {
    for tag in [
        |first| if first < 5 { "\"a\"" } else { "\"b\"" },
        |_| "W/\"a\"",
    ] {
        let site = origin_of_ranges(tag);
        fill_range(&site, "0-4");
        fill_range(&site, "5-9");
        assert!(!site.reuses(&range_request("3-6")));
        assert!(!site.reuses(&Request::get("/")));
    }
}

#[test]
fn ranges_from_before_and_after_a_purge_are_not_combined() {
    let site = origin_of_ranges(|_| "\"a\"");
    fill_range(&site, "0-4");
    assert_eq!(site.status(&Request::new("PURGE", "/")), 200);
    fill_range(&site, "5-9");
    assert!(!site.reuses(&Request::get("/")));
}
