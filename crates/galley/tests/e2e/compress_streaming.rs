//! Compression while a response is streamed: pages that are not stored yet, and responses that bypass the cache.

use std::io::Read;
use std::sync::Arc;

use galley_testkit::client::{Connection, Request, Response};
use galley_testkit::origin::{Gate, Origin};
use galley_testkit::wait_for;

use crate::compress::{page, plain};
use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite, with_host};

const LOGGED_IN: &str = "wordpress_logged_in_x=1";
const ALL_CODINGS: &str = "compress = [\"br\", \"gzip\", \"zstd\"]";

/// Decodes the bytes of a chunked, compressed response that have been received so far.
fn decoded_so_far(raw: &[u8], coding: &str) -> Vec<u8> {
    let Some(at) = raw.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Vec::new();
    };
    let mut compressed = Vec::new();
    let mut rest = &raw[at + 4..];
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        let size = std::str::from_utf8(&rest[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        rest = &rest[end + 2..];
        compressed.extend_from_slice(&rest[..size.min(rest.len())]);
        rest = rest.get(size + 2..).unwrap_or_default();
    }
    let mut plain = Vec::new();
    // Decoding fails at the missing end; the output up to there is kept.
    let _ = match coding {
        "gzip" => flate2::read::GzDecoder::new(&compressed[..]).read_to_end(&mut plain),
        "br" => brotli::Decompressor::new(&compressed[..], 4096).read_to_end(&mut plain),
        _ => zstd::stream::read::Decoder::new(&compressed[..])
            .unwrap()
            .read_to_end(&mut plain),
    };
    plain
}

/// Reads until the decoded body contains `expected`.
fn read_until(connection: &mut Connection, coding: &str, expected: &str) -> Vec<u8> {
    let mut stream = connection.stream();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut raw = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let plain = decoded_so_far(&raw, coding);
        if String::from_utf8_lossy(&plain).contains(expected) {
            return raw;
        }
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "closed after {}", String::from_utf8_lossy(&raw));
        raw.extend_from_slice(&buffer[..count]);
    }
}

#[test]
fn flushed_output_is_sent_before_the_response_ends() {
    let site = SiteBuilder::php().site(ALL_CODINGS).start();
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
                let mut buffer = [0; 4096];
                let count = connection.stream().read(&mut buffer).unwrap();
                assert!(count > 0, "the response is truncated");
                raw.extend_from_slice(&buffer[..count]);
            }
            let text = String::from_utf8(decoded_so_far(&raw, coding)).unwrap();
            assert!(text.ends_with("</html>\n"), "{number} {cookie}: {text}");
        }
    }
}

#[test]
fn collapsed_requests_get_the_coding_that_each_client_accepts() {
    // With requests sent after the head of the response, and before it.
    for is_early in [false, true] {
        collapsed_requests_get_their_codings(is_early);
    }
}

fn collapsed_requests_get_their_codings(is_early: bool) {
    let [before_head, before_rest] = [Gate::new(), Gate::new()];
    let gates = [before_head.clone(), before_rest.clone()];
    let origin = Origin::start(move |_, writer| {
        let (body, fields) = (page(), [("Content-Type", "text/html"), ("ETag", "\"v1\"")]);
        let (first, rest) = body.split_at(body.len() / 2);
        gates[0].pass();
        writer.chunked(200, &fields);
        writer.chunk(first.as_bytes());
        gates[1].pass();
        writer.chunk(rest.as_bytes());
        writer.last_chunk();
    })
    .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .site(ALL_CODINGS)
        .start();
    let codings = [Some("gzip"), Some("br"), Some("zstd"), None];
    if !is_early {
        before_head.open();
    }
    let clients: Vec<_> = (0..40)
        .map(|number| {
            let coding = codings[number % 4];
            let request = Request::get("/a").field("Accept-Encoding", coding.unwrap_or("identity"));
            let mut connection = site.connect();
            connection.send(&with_host(request)).unwrap();
            (coding, connection)
        })
        .collect();
    wait_for("all connections", TIMEOUT, || {
        site.status_number("connections") >= 40
    });
    before_head.open();
    // Clients that have the first half are part of the fetch; later requests may get the uncompressed page.
    for (_, connection) in &clients {
        assert_eq!(connection.stream().peek(&mut [0]).unwrap(), 1);
    }
    before_rest.open();
    for (coding, mut connection) in clients {
        let response = connection.receive("GET").unwrap();
        assert_eq!(response.field("content-encoding"), coding);
        assert_eq!(response.field("vary"), Some("Accept-Encoding"));
        assert!(plain(&response) == page().as_bytes(), "{coding:?}");
        let etag = response.field("etag").unwrap().to_owned();
        match coding {
            // `W/` if the bytes were compressed while streaming, strong if they come from the cache.
            Some(coding) => assert!(etag.ends_with(&format!("\"v1-{coding}\"")), "{etag}"),
            None => assert_eq!(etag, "\"v1\""),
        }
    }
    assert_eq!(origin.requests().len(), 1);
}

/// An origin with private responses and an `ETag`, which is weak for `/weak`. The query selects the kind of response.
fn origin_with_etag() -> Origin {
    Origin::start(|request, writer| {
        let etag = if request.path() == "/weak" {
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
        if request.target.ends_with("no-transform") {
            fields[3].1 = "private, no-transform";
        }
        if request.target.ends_with("events") {
            fields[0].1 = "text/event-stream";
        }
        if request.field("if-none-match") == Some(etag) {
            writer.respond(304, &fields, b"");
        } else if request.target.ends_with("small") {
            writer.respond(200, &fields, b"<html>");
        } else {
            writer.respond(200, &fields, page().as_bytes());
        }
    })
    .unwrap()
}

fn send_logged_in(site: &TestSite, target: &str, fields: &[(&str, &str)]) -> Response {
    let mut request = Request::get(target).cookie(LOGGED_IN);
    for (name, value) in fields {
        request = request.field(name, value);
    }
    site.send(request)
}

#[test]
fn bypassed_responses_are_compressed_and_their_validators_restored() {
    let origin = origin_with_etag();
    let site = SiteBuilder::origin(&origin, "wordpress").start();
    let response = send_logged_in(&site, "/a", &[("Accept-Encoding", "gzip, br")]);
    assert_eq!(response.field("content-encoding"), Some("gzip"));
    assert_eq!(response.field("vary"), Some("Accept-Encoding"));
    assert_eq!(response.field("etag"), Some("W/\"v1;gzip\""));
    assert!(!response.has("content-md5"));
    // Present only if the whole body was compressed before the head was sent.
    if let Some(length) = response.field("content-length") {
        assert_eq!(length, response.body.len().to_string());
    }
    assert!(plain(&response) == page().as_bytes());
    let requests = origin.requests();
    assert_eq!(
        requests[0].field("accept-encoding"),
        Some("gzip, br"),
        "the field is forwarded unchanged"
    );

    let head =
        with_host(Request::head("/a").cookie(LOGGED_IN)).field("Accept-Encoding", "gzip, br");
    let head = site.send(head);
    assert!(!head.has("content-length"), "{}", head.excerpt());
    for name in ["content-encoding", "vary", "etag", "content-type"] {
        assert_eq!(head.field(name), response.field(name), "{name}");
    }
    for etag in ["W/\"v1;gzip\"", "\"v1\""] {
        let fields = [("Accept-Encoding", "gzip"), ("If-None-Match", etag)];
        let response = send_logged_in(&site, "/a", &fields);
        response.assert_status(304);
        assert_eq!(response.field("etag"), Some(etag));
    }
    let weak = send_logged_in(&site, "/weak", &[("Accept-Encoding", "br")]);
    assert_eq!(weak.field("content-encoding"), Some("br"));
    assert_eq!(weak.field("etag"), Some("W/\"v1\""));
    send_logged_in(&site, "/weak", &[("If-None-Match", "W/\"v1\"")]).assert_status(304);
    let identity = send_logged_in(&site, "/a", &[("Accept-Encoding", "identity")]);
    assert_eq!(identity.field("vary"), Some("Accept-Encoding"));
    assert_eq!(identity.field("etag"), Some("\"v1\""));
    assert!(identity.has("content-length") && !identity.has("content-encoding"));
}

#[test]
fn no_transform_events_small_bodies_and_ranges_are_not_compressed() {
    let origin = origin_with_etag();
    let site = SiteBuilder::origin(&origin, "wordpress").start();
    let gzip = ("Accept-Encoding", "gzip");
    for target in ["/a?no-transform", "/a?events", "/a?small"] {
        let response = send_logged_in(&site, target, &[gzip]);
        assert!(
            !response.has("content-encoding") && !response.has("vary"),
            "{target}"
        );
        assert_eq!(response.field("etag"), Some("\"v1\""), "{target}");
    }
    let part = send_logged_in(&site, "/a", &[gzip, ("Range", "bytes=0-5")]);
    assert!(!part.has("content-encoding") && part.field("etag") == Some("\"v1\""));
    let off = SiteBuilder::origin(&origin, "wordpress")
        .site("compress_passed = false")
        .start();
    let response = send_logged_in(&off, "/a", &[gzip]);
    assert!(!response.has("content-encoding") && !response.has("vary"));
    let shared = off.send(Request::get("/a").field(gzip.0, gzip.1));
    assert!(
        !shared.has("content-encoding"),
        "a private response bypasses the cache as well"
    );
}

#[test]
fn responses_to_post_and_error_pages_are_compressed() {
    let site = SiteBuilder::php().start();
    site.head("/e", &["Status: 500"]);
    let filler = "x".repeat(3000);
    let post = Request::post("/form", "text/plain", filler.clone().into_bytes());
    let response = site.send(post.field("Accept-Encoding", "gzip"));
    assert_eq!(response.field("content-encoding"), Some("gzip"));
    let text = String::from_utf8(plain(&response)).unwrap();
    assert!(text.contains(&filler) && text.ends_with("</html>\n"));
    assert!(response.body.len() < 1000);
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
fn http_1_0_clients_get_compressed_pages_without_chunked_encoding() {
    let site = SiteBuilder::php().start();
    for (target, keep) in [("/a", "Connection: keep-alive\r\n"), ("/b", "")] {
        let text = format!(
            "GET {target} HTTP/1.0\r\nHost: example.test\r\nAccept-Encoding: gzip\r\nCookie: {LOGGED_IN}\r\n{keep}\r\n"
        );
        let mut connection = site.connect();
        connection.write(text.as_bytes()).unwrap();
        let response = connection.receive("GET").unwrap();
        assert_eq!(response.field("content-encoding"), Some("gzip"));
        assert!(!response.has("transfer-encoding"));
        assert!(response.has("connection"));
        assert!(
            String::from_utf8(plain(&response))
                .unwrap()
                .ends_with("</html>\n")
        );
    }
}

#[test]
fn a_page_that_replaces_a_stale_one_is_compressed() {
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
    let response = site.send(request());
    assert!(
        response.cache_status().contains("fwd=stale"),
        "{}",
        response.cache_status()
    );
    assert_eq!(response.field("content-encoding"), Some("gzip"));
    assert!(response.has("content-length") && plain(&response) == page().as_bytes());
}

#[test]
fn disconnected_or_slow_clients_do_not_block_compressed_responses() {
    let body = Arc::new(crate::support::random_bytes(4 << 20));
    let sent = Arc::clone(&body);
    let origin = Origin::start(move |_, writer| {
        let fields = [("Content-Type", "text/plain"), ("Cache-Control", "private")];
        writer.chunked(200, &fields);
        for chunk in sent.chunks(60_000) {
            if !writer.chunk(chunk) {
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
        let mut disconnected = site.connect();
        let request = Request::get("/a")
            .field("Accept-Encoding", "gzip")
            .cookie(LOGGED_IN);
        disconnected.send(&with_host(request)).unwrap();
        let mut first_bytes = [0; 1000];
        disconnected.stream().read_exact(&mut first_bytes).unwrap();
    }
    let mut slow = site.connect();
    let request = Request::get("/a")
        .field("Accept-Encoding", "gzip")
        .cookie(LOGGED_IN);
    slow.send(&with_host(request)).unwrap();
    let mut first_bytes = [0; 1000];
    slow.stream().read_exact(&mut first_bytes).unwrap();
    let response = send_logged_in(&site, "/a", &[("Accept-Encoding", "gzip")]);
    assert!(plain(&response) == body[..]);
    drop(slow);
}
