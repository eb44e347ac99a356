//! Answers that are coded while they arrive: the first visitor's page, and what passes.

use std::io::Read;

use galley_testkit::client::{Connection, Request, Response};
use galley_testkit::origin::{Gate, Origin};
use galley_testkit::wait_for;
use std::sync::Arc;

use crate::compress::{page, plain};
use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite, with_host};

const LOGGED_IN: &str = "wordpress_logged_in_x=1";
const ALL: &str = "compress = [\"br\", \"gzip\", \"zstd\"]";

/// What of a chunked, coded answer can be decoded of the bytes so far.
fn decoded_so_far(raw: &[u8], coding: &str) -> Vec<u8> {
    let Some(at) = raw.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Vec::new();
    };
    let mut coded = Vec::new();
    let mut rest = &raw[at + 4..];
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        let size = std::str::from_utf8(&rest[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        rest = &rest[end + 2..];
        coded.extend_from_slice(&rest[..size.min(rest.len())]);
        rest = rest.get(size + 2..).unwrap_or_default();
    }
    let mut plain = Vec::new();
    // The end is missing on purpose: what was decoded until there counts.
    let _ = match coding {
        "gzip" => flate2::read::GzDecoder::new(&coded[..]).read_to_end(&mut plain),
        "br" => brotli::Decompressor::new(&coded[..], 4096).read_to_end(&mut plain),
        _ => zstd::stream::read::Decoder::new(&coded[..])
            .unwrap()
            .read_to_end(&mut plain),
    };
    plain
}

/// Reads until so much of the text can be decoded; fails when it does not come.
fn read_until(connection: &mut Connection, coding: &str, wanted: &str) -> Vec<u8> {
    let mut stream = connection.stream();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut raw = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let plain = decoded_so_far(&raw, coding);
        if String::from_utf8_lossy(&plain).contains(wanted) {
            return raw;
        }
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "closed after {}", String::from_utf8_lossy(&raw));
        raw.extend_from_slice(&piece[..count]);
    }
}

#[test]
fn what_php_flushes_is_seen_before_it_goes_on() {
    let site = SiteBuilder::php().site(ALL).start();
    for (number, coding) in ["gzip", "br", "zstd"].into_iter().enumerate() {
        for cookie in ["", LOGGED_IN] {
            let target = format!("/{coding}{}", cookie.len());
            site.pause(&target);
            let mut connection = site.connect();
            let request = Request::get(&target)
                .field("Accept-Encoding", coding)
                .cookie(cookie);
            connection.send(&with_host(request)).unwrap();
            site.wait_until_paused(&target);
            let mut raw = read_until(&mut connection, coding, "run=1\n");
            site.resume(&target);
            while !raw.ends_with(b"0\r\n\r\n") {
                let mut piece = [0; 4096];
                let count = connection.stream().read(&mut piece).unwrap();
                assert!(count > 0, "the answer ends before its end");
                raw.extend_from_slice(&piece[..count]);
            }
            let text = String::from_utf8(decoded_so_far(&raw, coding)).unwrap();
            assert!(text.ends_with("</html>\n"), "{number} {cookie}: {text}");
        }
    }
}

#[test]
fn waiters_share_one_fetch_and_each_gets_its_coding() {
    // Clients that come after its head, and clients that have waited for it.
    for is_early in [false, true] {
        waiters_share_one_fetch(is_early);
    }
}

fn waiters_share_one_fetch(is_early: bool) {
    let [before, amid] = [Gate::new(), Gate::new()];
    let held = [before.clone(), amid.clone()];
    let origin = Origin::start(move |_, writer| {
        let (body, fields) = (page(), [("Content-Type", "text/html"), ("ETag", "\"v1\"")]);
        let (first, rest) = body.split_at(body.len() / 2);
        held[0].pass();
        writer.chunked(200, &fields);
        writer.chunk(first.as_bytes());
        held[1].pass();
        writer.chunk(rest.as_bytes());
        writer.last_chunk();
    })
    .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress").site(ALL).start();
    let codings = [Some("gzip"), Some("br"), Some("zstd"), None];
    if !is_early {
        before.open();
    }
    let crowd: Vec<_> = (0..40)
        .map(|number| {
            let coding = codings[number % 4];
            let request = Request::get("/a").field("Accept-Encoding", coding.unwrap_or("identity"));
            let mut connection = site.connect();
            connection.send(&with_host(request)).unwrap();
            (coding, connection)
        })
        .collect();
    wait_for("the crowd", TIMEOUT, || {
        site.status_number("connections") >= 40
    });
    before.open();
    // Clients with the first half read along; later visitors may find the plain page alone.
    for (_, connection) in &crowd {
        assert_eq!(connection.stream().peek(&mut [0]).unwrap(), 1);
    }
    amid.open();
    for (coding, mut connection) in crowd {
        let answer = connection.receive("GET").unwrap();
        assert_eq!(answer.field("content-encoding"), coding);
        assert_eq!(answer.field("vary"), Some("Accept-Encoding"));
        assert!(plain(&answer) == page().as_bytes(), "{coding:?}");
        let etag = answer.field("etag").unwrap().to_owned();
        match coding {
            // Bytes that were coded on the way, or those that are stored.
            Some(coding) => assert!(etag.ends_with(&format!("\"v1-{coding}\"")), "{etag}"),
            None => assert_eq!(etag, "\"v1\""),
        }
    }
    assert_eq!(origin.requests().len(), 1);
}

/// Tells the length or not, by the query; `W/` where the path says so.
fn tagged() -> Origin {
    Origin::start(|seen, writer| {
        let etag = if seen.path() == "/weak" {
            "W/\"v1\""
        } else {
            "\"v1\""
        };
        let mut fields = vec![
            ("Content-Type", "text/html"),
            ("ETag", etag),
            ("Content-MD5", "x"),
            ("Cache-Control", "private"),
        ];
        if seen.target.ends_with("no-transform") {
            fields[3].1 = "private, no-transform";
        }
        if seen.target.ends_with("events") {
            fields[0].1 = "text/event-stream";
        }
        if seen.field("if-none-match") == Some(etag) {
            writer.answer(304, &fields, b"");
        } else if seen.target.ends_with("small") {
            writer.answer(200, &fields, b"<html>");
        } else {
            writer.answer(200, &fields, page().as_bytes());
        }
    })
    .unwrap()
}

fn pass(site: &TestSite, target: &str, fields: &[(&str, &str)]) -> Response {
    let mut request = Request::get(target).cookie(LOGGED_IN);
    for (name, value) in fields {
        request = request.field(name, value);
    }
    site.send(request)
}

#[test]
fn what_passes_is_coded_and_its_validator_finds_its_way_back() {
    let origin = tagged();
    let site = SiteBuilder::origin(&origin, "wordpress").start();
    let answer = pass(&site, "/a", &[("Accept-Encoding", "gzip, br")]);
    assert_eq!(answer.field("content-encoding"), Some("gzip"));
    assert_eq!(answer.field("vary"), Some("Accept-Encoding"));
    assert_eq!(answer.field("etag"), Some("W/\"v1;gzip\""));
    assert!(!answer.has("content-md5"));
    // Known only where all of it was coded before its head left; never the plain page's.
    if let Some(length) = answer.field("content-length") {
        assert_eq!(length, answer.body.len().to_string());
    }
    assert!(plain(&answer) == page().as_bytes());
    let seen = origin.requests();
    assert_eq!(
        seen[0].field("accept-encoding"),
        Some("gzip, br"),
        "the client's own"
    );

    let head =
        with_host(Request::head("/a").cookie(LOGGED_IN)).field("Accept-Encoding", "gzip, br");
    let head = site.send(head);
    assert!(!head.has("content-length"), "{}", head.beginning());
    for name in ["content-encoding", "vary", "etag", "content-type"] {
        assert_eq!(head.field(name), answer.field(name), "{name}");
    }
    for etag in ["W/\"v1;gzip\"", "\"v1\""] {
        let known = [("Accept-Encoding", "gzip"), ("If-None-Match", etag)];
        let known = pass(&site, "/a", &known);
        known.assert_status(304);
        assert_eq!(known.field("etag"), Some(etag));
    }
    let weak = pass(&site, "/weak", &[("Accept-Encoding", "br")]);
    assert_eq!(weak.field("content-encoding"), Some("br"));
    assert_eq!(weak.field("etag"), Some("W/\"v1\""));
    pass(&site, "/weak", &[("If-None-Match", "W/\"v1\"")]).assert_status(304);
    let other = pass(&site, "/a", &[("Accept-Encoding", "identity")]);
    assert_eq!(other.field("vary"), Some("Accept-Encoding"));
    assert_eq!(other.field("etag"), Some("\"v1\""));
    assert!(other.has("content-length") && !other.has("content-encoding"));
}

#[test]
fn what_passes_is_left_alone_where_that_is_right() {
    let origin = tagged();
    let site = SiteBuilder::origin(&origin, "wordpress").start();
    let gzip = ("Accept-Encoding", "gzip");
    for target in ["/a?no-transform", "/a?events", "/a?small"] {
        let answer = pass(&site, target, &[gzip]);
        assert!(
            !answer.has("content-encoding") && !answer.has("vary"),
            "{target}"
        );
        assert_eq!(answer.field("etag"), Some("\"v1\""), "{target}");
    }
    let part = pass(&site, "/a", &[gzip, ("Range", "bytes=0-5")]);
    assert!(!part.has("content-encoding") && part.field("etag") == Some("\"v1\""));
    let off = SiteBuilder::origin(&origin, "wordpress")
        .site("compress_passed = false")
        .start();
    let answer = pass(&off, "/a", &[gzip]);
    assert!(!answer.has("content-encoding") && !answer.has("vary"));
    let shared = off.send(Request::get("/a").field(gzip.0, gzip.1));
    assert!(
        !shared.has("content-encoding"),
        "it is private, so it passed too"
    );
}

#[test]
fn answers_to_forms_and_error_pages_are_coded() {
    let site = SiteBuilder::php().start();
    site.head("/e", &["Status: 500"]);
    let filler = "x".repeat(3000);
    let post = Request::post("/form", "text/plain", filler.clone().into_bytes());
    let answer = site.send(post.field("Accept-Encoding", "gzip"));
    assert_eq!(answer.field("content-encoding"), Some("gzip"));
    let text = String::from_utf8(plain(&answer)).unwrap();
    assert!(text.contains(&filler) && text.ends_with("</html>\n"));
    assert!(answer.body.len() < 1000);
    let error = site.send(Request::get("/e").field("Accept-Encoding", "br"));
    error.assert_status(500);
    assert_eq!(error.field("content-encoding"), Some("br"));
    assert!(
        String::from_utf8(plain(&error))
            .unwrap()
            .ends_with("</html>\n")
    );
}

#[test]
fn http_1_0_gets_a_coded_page_whole_or_until_the_end() {
    let site = SiteBuilder::php().start();
    for (target, keep) in [("/a", "Connection: keep-alive\r\n"), ("/b", "")] {
        let text = format!(
            "GET {target} HTTP/1.0\r\nHost: example.test\r\nAccept-Encoding: gzip\r\nCookie: {LOGGED_IN}\r\n{keep}\r\n"
        );
        let mut connection = site.connect();
        connection.write(text.as_bytes()).unwrap();
        let answer = connection.receive("GET").unwrap();
        assert_eq!(answer.field("content-encoding"), Some("gzip"));
        assert!(!answer.has("transfer-encoding"));
        assert!(answer.has("connection"));
        assert!(
            String::from_utf8(plain(&answer))
                .unwrap()
                .ends_with("</html>\n")
        );
    }
}

#[test]
fn a_page_that_replaces_a_stale_one_comes_coded_and_whole() {
    let origin = Origin::start(|_, writer| {
        writer.chunked(
            200,
            &[
                ("Content-Type", "text/html"),
                ("Cache-Control", "max-age=1"),
            ],
        );
        writer.chunk(page().as_bytes());
        writer.last_chunk();
    })
    .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .more("[site.ttl]\nstale_while_revalidate = \"0s\"\nstale_if_error = \"1h\"")
        .start();
    let request = || Request::get("/a").field("Accept-Encoding", "gzip");
    site.send(request()).assert_status(200);
    site.wait_until_stale("/a");
    let answer = site.send(request());
    assert!(
        answer.cache_status().contains("fwd=stale"),
        "{}",
        answer.cache_status()
    );
    assert_eq!(answer.field("content-encoding"), Some("gzip"));
    assert!(answer.has("content-length") && plain(&answer) == page().as_bytes());
}

#[test]
fn clients_that_leave_or_read_slowly_hold_nobody_up() {
    let body = Arc::new(crate::support::random_bytes(4 << 20));
    let sent = Arc::clone(&body);
    let origin = Origin::start(move |_, writer| {
        let fields = [("Content-Type", "text/plain"), ("Cache-Control", "private")];
        writer.chunked(200, &fields);
        for piece in sent.chunks(60_000) {
            if !writer.chunk(piece) {
                return;
            }
        }
        writer.last_chunk();
    })
    .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .site("in_flight = 2")
        .start();
    for _ in 0..4 {
        let mut gone = site.connect();
        let request = Request::get("/a")
            .field("Accept-Encoding", "gzip")
            .cookie(LOGGED_IN);
        gone.send(&with_host(request)).unwrap();
        let mut some = [0; 1000];
        gone.stream().read_exact(&mut some).unwrap();
    }
    let mut slow = site.connect();
    let request = Request::get("/a")
        .field("Accept-Encoding", "gzip")
        .cookie(LOGGED_IN);
    slow.send(&with_host(request)).unwrap();
    let mut some = [0; 1000];
    slow.stream().read_exact(&mut some).unwrap();
    let answer = pass(&site, "/a", &[("Accept-Encoding", "gzip")]);
    assert!(plain(&answer) == body[..]);
    drop(slow);
}
