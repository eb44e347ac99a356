//! What messages carry: ages, dates, validators, ranges, framing, and the fields that end at each hop.

use std::io::Read as _;

use galley_testkit::client::{Connection, Request};
use galley_testkit::origin::Gate;
use galley_testkit::wait_for;

use crate::stage::{Stage, TIMEOUT};

const LONG: (&str, &str) = ("Cache-Control", "max-age=600");

#[test]
fn trap_12_each_reuse_has_its_age() {
    let stage = Stage::constant(&[LONG, ("Age", "30")]);
    assert_eq!(stage.fill("/").age(), Some(30));
    let hit = stage.get("/");
    assert!(hit.age() >= Some(30) && hit.all("age").len() == 1);
}

#[test]
fn trap_13_a_date_is_kept_or_added_once() {
    let old = "Sun, 06 Nov 1994 08:49:37 GMT";
    let stage = Stage::new(move |seen, writer| {
        let dated = [("Cache-Control", "max-age=2000000000"), ("Date", old)];
        let fields = if seen.path() == "/dated" {
            &dated[..]
        } else {
            &[LONG]
        };
        writer.answer(200, fields, b"x");
    });
    stage.get("/dated");
    assert_eq!(stage.get("/dated").all("date"), [old]);
    let first = stage.get("/").field("date").unwrap().to_owned();
    assert_eq!(stage.get("/").all("date"), [first]);
}

#[test]
fn trap_20_the_origin_is_asked_for_plain_bytes() {
    let stage = Stage::constant(&[LONG, ("Vary", "Accept-Encoding")]);
    stage.ask(&Request::get("/").field("Accept-Encoding", "br, gzip;q=0"));
    assert_eq!(stage.last().field("accept-encoding"), Some("identity"));
    assert!(stage.reuses(&Request::get("/").field("Accept-Encoding", "zstd")));
}

#[test]
fn trap_22_get_stores_and_head_reads() {
    let stage = Stage::constant(&[LONG]);
    let head = stage.ask(&Request::head("/"));
    assert!(head.body.is_empty() && !head.is_hit());
    stage.fill("/");
    let head = stage.ask(&Request::head("/"));
    assert!(head.is_hit() && head.body.is_empty());
    assert_eq!(head.field("content-length"), Some("1"));
    assert!(!stage.reuses(&Request::post("/", "text/plain", "x")));
}

#[test]
fn trap_25_a_304_updates_the_head_and_stays_here() {
    let stage = Stage::new(|seen, writer| {
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
        match seen.field("if-none-match") {
            Some(_) => writer.answer(304, &new, b""),
            None => writer.answer(200, &old, b"body"),
        };
    });
    stage.fill("/");
    let unconditional = stage.ask(&Request::get("/").field("If-None-Match", "\"other\""));
    assert_eq!(
        stage.last().field("if-none-match"),
        Some("\"a\""),
        "the stored validator alone"
    );
    assert_eq!(
        (unconditional.status, unconditional.text()),
        (200, "body".to_owned())
    );
    let hit = stage.fill("/");
    assert_eq!(
        (hit.field("foo"), hit.field("bar")),
        (Some("new"), Some("old"))
    );
    assert_eq!(
        (hit.field("content-length"), hit.field("content-encoding")),
        (Some("4"), None)
    );
    assert_eq!(stage.origin.requests().len(), 2);
}

#[test]
fn trap_26_a_head_tells_whether_a_copy_is_still_right() {
    let stage = Stage::new(|seen, writer| {
        let etag = if seen.path() == "/same" || seen.method == "GET" {
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
        let fields = if seen.method == "HEAD" {
            &young[..]
        } else {
            &stale
        };
        writer.answer(200, fields, b"body");
    });
    for (path, is_hit) in [("/same", true), ("/other", false)] {
        stage.fill(path);
        stage.ask(&Request::head(path));
        assert_eq!(stage.reuses(&Request::get(path)), is_hit, "{path}");
    }
}

#[test]
fn trap_27_tags_count_before_dates() {
    let modified = "Sun, 06 Nov 1994 08:49:37 GMT";
    let stage = Stage::new(move |_, writer| {
        writer.answer(
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
    stage.fill("/");
    let ask = |tag: &str, since: &str| {
        let request = Request::get("/").field("If-Modified-Since", since);
        stage.ask(&if tag.is_empty() {
            request
        } else {
            request.field("If-None-Match", tag)
        })
    };
    let later = "Sun, 06 Nov 2094 08:49:37 GMT";
    assert_eq!(ask("\"b\"", later).status, 200);
    let matched = ask("\"b\", \"a\"", "Sun, 06 Nov 1983 08:49:37 GMT");
    assert_eq!(matched.status, 304);
    for name in ["etag", "vary", "cache-control", "date"] {
        assert!(matched.has(name), "{name}");
    }
    assert_eq!(ask("", modified).status, 304);
    assert_eq!(ask("", "Sat, 05 Nov 1994 08:49:37 GMT").status, 200);
    let unmodified = Request::get("/").field("If-Match", "\"zzz\"");
    assert_eq!(
        stage.ask(&unmodified).status,
        200,
        "not for the cache to answer"
    );
}

#[test]
fn trap_28_the_stored_tag_names_the_stored_bytes() {
    let stage = Stage::constant(&[LONG, ("ETag", "\"a\""), ("Content-Encoding", "gzip")]);
    stage.fill("/");
    let hit = stage.get("/");
    assert_eq!(
        (hit.field("etag"), hit.field("content-encoding")),
        (Some("\"a\""), Some("gzip"))
    );
    let bare = Stage::constant(&[LONG]);
    bare.fill("/");
    assert!(
        !bare.get("/").has("etag"),
        "no tag that the origin does not know"
    );
}

#[test]
fn trap_29_ranges_are_cut_from_what_is_whole() {
    let stage = Stage::new(|seen, writer| {
        if seen.path() == "/parts" {
            writer.answer(206, &[LONG, ("Content-Range", "bytes 2-3/10")], b"23");
        } else {
            writer.answer(200, &[LONG, ("ETag", "\"a\"")], b"0123456789");
        }
    });
    stage.fill("/");
    let part = |range: &str| stage.ask(&Request::get("/").field("Range", range));
    let one = part("bytes=2-3");
    assert_eq!(
        (one.status, one.text(), one.field("content-range")),
        (206, "23".to_owned(), Some("bytes 2-3/10"))
    );
    let none = part("bytes=20-");
    assert_eq!(
        (none.status, none.field("content-range")),
        (416, Some("bytes */10"))
    );
    let many = part("bytes=0-0,5-6");
    assert_eq!(many.status, 206);
    assert!(
        many.field("content-type")
            .unwrap()
            .starts_with("multipart/byteranges")
    );
    assert!(
        many.text()
            .contains("Content-Range: bytes 5-6/10\r\n\r\n56\r\n")
    );
    assert_eq!(part("lines=1").status, 200);
    let stale = Request::get("/")
        .field("Range", "bytes=0-1")
        .field("If-Range", "\"b\"");
    assert_eq!(stage.ask(&stale).status, 200);
    assert_eq!(stage.origin.requests().len(), 1);
    let again = Request::get("/parts").field("Range", "bytes=2-3");
    assert_eq!(stage.status(&again), 206);
    wait_for("the part to be stored", TIMEOUT, || stage.reuses(&again));
    assert_eq!(stage.status(&again), 206);
    assert!(!stage.reuses(&Request::get("/parts")), "a part is no whole");
}

#[test]
fn trap_32_fields_of_one_connection_end_there() {
    let stage = Stage::constant(&[
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
        let answer = stage.ask(&request);
        assert!(answer.has("x-both") && !answer.has("x-once") && !answer.has("keep-alive"));
    }
    assert_eq!(
        (stage.last().field("x-mine"), stage.last().field("te")),
        (None, None)
    );
}

#[test]
fn trap_33_framing_is_made_anew_and_trailers_end_here() {
    let stage = Stage::new(|_, writer| {
        writer.chunked(200, &[LONG]);
        writer.chunk(b"ab");
        writer.write(b"0\r\nX-Trailer: 1\r\n\r\n");
    });
    assert_eq!(stage.fill("/").text(), "ab");
    let hit = stage.get("/");
    assert_eq!(
        (hit.field("content-length"), hit.has("x-trailer")),
        (Some("2"), false)
    );
    assert!(hit.is_hit() && !hit.has("transfer-encoding"));
}

#[test]
fn trap_34_each_hop_signs_and_no_request_goes_round() {
    let stage = Stage::constant(&[LONG]);
    let answer = stage.ask(&Request::get("/").field("Via", "1.1 edge"));
    assert_eq!(answer.field("via"), Some("1.1 galley"));
    let seen = stage.last();
    let via = seen
        .fields
        .iter()
        .filter(|(name, _)| name == "via")
        .map(|(_, value)| value.clone());
    assert_eq!(via.collect::<Vec<_>>(), [&b"1.1 edge"[..], b"1.1 galley"]);
    let identity = seen.field("cdn-loop").unwrap().to_owned();
    let asked = stage.origin.requests().len();
    let again = Request::get("/new").field("CDN-Loop", format!("other; v=1, {identity}"));
    assert_eq!(stage.status(&again), 508);
    assert_eq!(stage.origin.requests().len(), asked);
}

#[test]
fn what_post_teaches_answers_a_get() {
    let stage = Stage::new(|seen, writer| {
        let place = if seen.path() == "/own" {
            "/own"
        } else {
            "/else"
        };
        writer.answer(
            200,
            &[LONG, ("Content-Location", place)],
            seen.number.to_string().as_bytes(),
        );
    });
    stage.ask(&Request::post("/other", "text/plain", "x"));
    assert!(!stage.reuses(&Request::get("/other")));
    stage.ask(&Request::post("/own", "text/plain", "x"));
    let stored = Request::get("/own").field("Cache-Control", "only-if-cached");
    wait_for("the lesson", TIMEOUT, || stage.status(&stored) == 200);
    assert_eq!(stage.origin.requests().len(), 3);
}

#[test]
fn early_hints_reach_the_one_who_asked_before_the_answer() {
    let hints = "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n";
    let gate = Gate::new();
    let door = gate.clone();
    let stage = Stage::new(move |seen, writer| {
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n");
        writer.write(b"Link: </a.css>; rel=preload\r\nConnection: x-hop\r\nX-Hop: 1\r\n\r\n");
        if seen.path().contains("gated") {
            door.pass();
        }
        let control = if seen.path().contains("stored") {
            LONG
        } else {
            ("Cache-Control", "no-store")
        };
        writer.answer(200, &[control], b"x");
    });
    for target in ["/gated/stored", "/gated/passed"] {
        let mut connection = Connection::open(stage.addr()).unwrap();
        connection.send(&Request::get(target)).unwrap();
        let mut head = vec![0; hints.len()];
        connection.stream().read_exact(&mut head).unwrap();
        assert_eq!(String::from_utf8_lossy(&head), hints, "{target}");
        gate.open();
        let answer = connection.receive("GET").unwrap();
        assert_eq!((answer.status, answer.interim.len()), (200, 0), "{target}");
    }
    // With the answer in one piece, once each, and the connection serves on.
    let mut connection = Connection::open(stage.addr()).unwrap();
    for request in [Request::get("/a"), Request::post("/a", "text/plain", "x")] {
        for _ in 0..3 {
            let answer = connection.exchange(&request).unwrap();
            assert_eq!((answer.status, &answer.interim[..]), (200, &[103][..]));
        }
    }
    wait_for("a stored copy", TIMEOUT, || {
        stage.get("/gated/stored").is_hit()
    });
    assert!(stage.get("/gated/stored").interim.is_empty(), "not stored");
    let mut old = Connection::open(stage.addr()).unwrap();
    old.write(b"GET /old HTTP/1.0\r\nHost: a\r\n\r\n").unwrap();
    let answer = old.receive("GET").unwrap();
    assert_eq!((answer.status, answer.interim.len()), (200, 0));
}

/// An origin of ten digits that answers ranges, with this tag.
fn digits(tag: impl Fn(usize) -> &'static str + Send + Sync + 'static) -> Stage {
    Stage::new(move |seen, writer| {
        let range = seen.field("range").and_then(|range| {
            let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
            Some((first.parse::<usize>().ok()?, last.parse::<usize>().ok()?))
        });
        let first = range.map_or(0, |(first, _)| first);
        let tagged = [LONG, ("ETag", tag(first))];
        match range {
            Some((first, last)) => {
                let held = format!("bytes {first}-{last}/10");
                let fields = [tagged[0], tagged[1], ("Content-Range", held.as_str())];
                writer.answer(206, &fields, &b"0123456789"[first..=last]);
            }
            None => {
                writer.answer(200, &tagged, b"0123456789");
            }
        }
    })
}

fn part(range: &str) -> Request {
    Request::get("/").field("Range", format!("bytes={range}"))
}

/// Asks for a part and waits until it is stored.
fn take(stage: &Stage, range: &str) {
    stage.ask(&part(range));
    wait_for("the part to be stored", TIMEOUT, || {
        stage.reuses(&part(range))
    });
}

#[test]
fn parts_with_one_strong_tag_are_joined() {
    let stage = digits(|_| "\"a\"");
    take(&stage, "0-3");
    assert!(stage.reuses(&part("1-2")));
    assert!(!stage.reuses(&part("2-5")));
    take(&stage, "4-7");
    for (range, held, text) in [
        ("2-5", "bytes 2-5/10", "2345"),
        ("0-0", "bytes 0-0/10", "0"),
        ("1-7", "bytes 1-7/10", "1234567"),
    ] {
        let before = stage.origin.requests().len();
        let answer = stage.ask(&part(range));
        assert_eq!(stage.origin.requests().len(), before, "{range}");
        assert_eq!((answer.status, answer.text().as_str()), (206, text));
        assert_eq!(answer.all("content-range"), [held]);
    }
    take(&stage, "6-9");
    let before = stage.origin.requests().len();
    let whole = stage.get("/");
    assert_eq!(stage.origin.requests().len(), before, "all of it is known");
    assert_eq!((whole.status, whole.text().as_str()), (200, "0123456789"));
    assert!(!whole.has("content-range") && whole.is_hit());
    assert_eq!(stage.ask(&part("-2")).text(), "89");
}

#[test]
fn parts_of_different_or_weak_tags_stay_apart() {
    for tag in [
        |first| if first < 5 { "\"a\"" } else { "\"b\"" },
        |_| "W/\"a\"",
    ] {
        let stage = digits(tag);
        take(&stage, "0-4");
        take(&stage, "5-9");
        assert!(!stage.reuses(&part("3-6")));
        assert!(!stage.reuses(&Request::get("/")));
    }
}

#[test]
fn a_purge_between_two_parts_keeps_them_apart() {
    let stage = digits(|_| "\"a\"");
    take(&stage, "0-4");
    assert_eq!(stage.status(&Request::new("PURGE", "/")), 200);
    take(&stage, "5-9");
    assert!(!stage.reuses(&Request::get("/")));
}
