//! Limits of HTTP/1 requests: size, timeouts, and ambiguous framing. Galley refuses the request, closes the connection, and does not
//! parse the following bytes as a request.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use galley_testkit::client::{Connection, Request};
use galley_testkit::wait_for;

use crate::support::{
    AssertStatus, HOST, SHORT_TIMEOUT, SiteBuilder, TIMEOUT, TestSite, random_bytes, with_host,
};

fn count_responses(bytes: &[u8]) -> usize {
    bytes
        .windows(9)
        .filter(|window| *window == b"HTTP/1.1 ")
        .count()
}

fn status_of(bytes: &[u8]) -> u16 {
    let text = String::from_utf8_lossy(bytes.get(9..12).unwrap_or_default()).into_owned();
    text.parse().unwrap_or(0)
}

/// Sends `head` and then a request for a file. Asserts that Galley refuses the first, closes the connection and does not send the file.
fn assert_refused(site: &TestSite, head: &str, expected: &[u16]) {
    let bytes = format!("{head}GET /canary.txt HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
    let response = site.send_raw(bytes.as_bytes());
    let text = String::from_utf8_lossy(&response).into_owned();
    assert!(expected.contains(&status_of(&response)), "{head:?}\n{text}");
    assert_eq!(count_responses(&response), 1, "{head:?}\n{text}");
    assert!(!text.contains("the canary sings"), "{head:?}\n{text}");
    assert!(
        text.to_ascii_lowercase().contains("connection: close"),
        "{head:?}\n{text}"
    );
}

#[test]
fn ambiguous_framing_is_refused_and_the_connection_closed() {
    let site = SiteBuilder::php()
        .file("canary.txt", "the canary sings")
        .start();
    let with_host = |rest: &str| format!("POST /form HTTP/1.1\r\nHost: {HOST}\r\n{rest}");
    for (rest, expected) in INVALID_FRAMING {
        assert_refused(&site, &with_host(rest), expected);
    }
    for head in INVALID_HEADS {
        assert_refused(&site, head, &[400, 421, 505]);
    }
    assert_eq!(site.runs("/form"), 0, "no request reached PHP");
    assert_eq!(
        site.get("/canary.txt").expect_status(200).text(),
        "the canary sings"
    );
}

const BAD_REQUEST: &[u16] = &[400];

/// The rest of a `POST` request after its `Host` field, and the expected statuses.
const INVALID_FRAMING: &[(&str, &[u16])] = &[
    (
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        BAD_REQUEST,
    ),
    (
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        BAD_REQUEST,
    ),
    (
        "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        BAD_REQUEST,
    ),
    ("Content-Length: 5, 5\r\n\r\nhello", BAD_REQUEST),
    ("Content-Length: +5\r\n\r\nhello", BAD_REQUEST),
    ("Content-Length: 0x5\r\n\r\nhello", BAD_REQUEST),
    ("Content-Length: \r\n\r\n", BAD_REQUEST),
    ("Content-Length: 99999999999999999999\r\n\r\n", BAD_REQUEST),
    (
        "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        BAD_REQUEST,
    ),
    ("Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", &[501]),
    ("Transfer-Encoding: identity\r\n\r\n", &[400, 501]),
    ("Transfer-Encoding: xchunked\r\n\r\n", &[400, 501]),
    ("Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", BAD_REQUEST),
    ("Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n", BAD_REQUEST),
    (" Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", BAD_REQUEST),
    ("X-Fold: a\r\n b\r\n\r\n", BAD_REQUEST),
    ("X: a\nY: b\r\n\r\n", BAD_REQUEST),
    ("X: a\rY: b\r\n\r\n", BAD_REQUEST),
    ("X\0: a\r\n\r\n", BAD_REQUEST),
    ("X: a\0b\r\n\r\n", BAD_REQUEST),
    (": nameless\r\n\r\n", BAD_REQUEST),
    ("No colon\r\n\r\n", BAD_REQUEST),
    ("Host: other.test\r\n\r\n", BAD_REQUEST),
    ("Transfer-Encoding: chunked\r\n\r\nxyz\r\n\r\n", BAD_REQUEST),
    (
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloX0\r\n\r\n",
        BAD_REQUEST,
    ),
    (
        "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
        BAD_REQUEST,
    ),
    (
        "Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
        BAD_REQUEST,
    ),
    (
        "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
        BAD_REQUEST,
    ),
    (
        "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        &[400, 413],
    ),
    (
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nbad trailer\r\n\r\n",
        BAD_REQUEST,
    ),
];

const INVALID_HEADS: &[&str] = &[
    "GET / HTTP/1.1\r\n\r\n",
    "GET / HTTP/1.1\nHost: example.test\n\n",
    "GET  / HTTP/1.1\r\nHost: example.test\r\n\r\n",
    "GET /\r\n\r\n",
    "GET / HTTP/1.2x\r\nHost: example.test\r\n\r\n",
    "GET /a b HTTP/1.1\r\nHost: example.test\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: user@example.test\r\n\r\n",
    "POST / HTTP/1.0\r\nHost: example.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: example.test\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}\u{1}\u{fc}\u{3}\u{3}",
];

#[test]
fn the_body_of_a_refused_request_is_not_parsed_as_a_request() {
    let site = SiteBuilder::php()
        .file("canary.txt", "the canary sings")
        .start();
    // Galley refuses these requests before it has read the body.
    let inner = format!("GET /canary.txt HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
    let length = inner.len();
    for head in [
        format!("POST / HTTP/1.1\r\nHost: nobody.test\r\nContent-Length: {length}\r\n\r\n"),
        format!("POST /%00 HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {length}\r\n\r\n"),
        format!("PURGE / HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {length}\r\n\r\n"),
        format!("GET /.git/config HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {length}\r\n\r\n"),
        format!("TRACE / HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {length}\r\n\r\n"),
        format!("GET /x HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {length}\r\n\r\n"),
    ] {
        let closing =
            format!("{head}{inner}GET /last HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
        let response = site.send_raw(closing.as_bytes());
        let text = String::from_utf8_lossy(&response);
        // PHP prints the request body inside a page. The file itself would be at the start of a response body.
        assert!(!text.contains("\r\n\r\nthe canary sings"), "{head}\n{text}");
    }
}

#[test]
fn heads_and_bodies_above_their_limits_are_refused() {
    let site = SiteBuilder::php()
        .server("request_body = \"10KiB\"\nhead_size = \"8KiB\"")
        .file("a.txt", "a")
        .start();
    let long = "x".repeat(9000);
    let fields: String = (0..200).map(|n| format!("X-{n}: 1\r\n")).collect();
    for (head, expected) in [
        (
            format!("GET / HTTP/1.1\r\nHost: {HOST}\r\nX: {long}\r\n\r\n"),
            &[431][..],
        ),
        (
            format!("GET / HTTP/1.1\r\nHost: {HOST}\r\nX: {long}"),
            &[431],
        ),
        (
            format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n{fields}\r\n"),
            &[431],
        ),
        (
            format!("GET /{long} HTTP/1.1\r\nHost: {HOST}\r\n\r\n"),
            &[414, 431],
        ),
        (format!("GET /{long}"), &[414, 431]),
        (
            format!("{long} / HTTP/1.1\r\nHost: {HOST}\r\n\r\n"),
            &[400, 414, 431, 501],
        ),
        (
            format!("POST /f HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 10241\r\n\r\n"),
            &[413],
        ),
    ] {
        let response = site.send_raw(head.as_bytes());
        assert!(
            expected.contains(&status_of(&response)),
            "{}\n{}",
            &head[..60],
            String::from_utf8_lossy(&response)
        );
        assert_eq!(count_responses(&response), 1);
    }
    let chunk = [b'y'; 1024];
    let chunks: Vec<&[u8]> = (0..11).map(|_| chunk.as_slice()).collect();
    site.send(Request::new("POST", "/f").chunked(&chunks))
        .assert_status(413);
    assert_eq!(site.runs("/f"), 0);
    site.send(Request::new("POST", "/f").chunked(&chunks[..10]))
        .assert_status(200);
    site.send(Request::post("/f", "text/plain", vec![b'z'; 10240]))
        .assert_status(200);
    // The largest head within the limit.
    let available = 8 * 1024 - format!("GET /a.txt HTTP/1.1\r\nHost: {HOST}\r\nX: \r\n\r\n").len();
    site.send(
        Request::get("/a.txt")
            .host(HOST)
            .field("X", "x".repeat(available)),
    )
    .assert_status(200);
    site.send(
        Request::get("/a.txt")
            .host(HOST)
            .field("X", "x".repeat(available + 1)),
    )
    .assert_status(431);
}

#[test]
fn an_endless_chunked_body_is_refused_at_the_limit() {
    let site = SiteBuilder::php()
        .server("request_body = \"64KiB\"")
        .start();
    let mut connection = site.connect();
    let head = format!("POST /f HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n");
    connection.write(head.as_bytes()).unwrap();
    let buffer = [b"1000\r\n".as_slice(), &[b'x'; 4096], b"\r\n"].concat();
    for _ in 0..10_000 {
        if connection.write(&buffer).is_err() {
            break;
        }
    }
    // The response may be lost in a connection reset, since the client keeps sending. The server must only
    // have stopped reading.
    if let Ok(response) = connection.receive("POST") {
        assert_eq!(response.status, 413);
    }
    assert_eq!(site.runs("/f"), 0);
    site.get("/").assert_status(200);
}

#[test]
fn chunk_headers_and_trailers_are_limited_in_size() {
    let site = SiteBuilder::php().server("body_timeout = \"2s\"").start();
    let head = format!("POST /f HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (start, buffer) in [
        ("5;", "x"),
        ("0000000000000000", "0"),
        ("5\r\nhello\r\n0\r\n", "X-Trailer: y\r\n"),
    ] {
        let bytes = format!("{head}{start}{}", buffer.repeat(200_000));
        let mut connection = site.connect();
        let began = Instant::now();
        let _ = connection.write(bytes.as_bytes());
        if let Ok(response) = connection.receive("POST") {
            assert!(
                [400, 413, 431].contains(&response.status),
                "{start:?}: {}",
                response.excerpt()
            );
        }
        assert!(
            began.elapsed() < TIMEOUT,
            "{start:?} was read without a limit"
        );
    }
    assert_eq!(site.runs("/f"), 0);
}

#[test]
fn a_head_sent_byte_by_byte_gets_408_at_head_timeout() {
    let site = SiteBuilder::files()
        .server("head_timeout = \"600ms\"")
        .file("a.txt", "a")
        .start();
    let mut connection = site.connect();
    let began = Instant::now();
    let head = format!("GET /a.txt HTTP/1.1\r\nHost: {HOST}\r\nX-Slow: ");
    connection.write(head.as_bytes()).unwrap();
    connection
        .stream()
        .set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    let mut buffer = [0; 1024];
    let response = loop {
        // Further bytes do not extend the deadline.
        let _ = connection.stream().write_all(b"x");
        match connection.stream().read(&mut buffer) {
            Ok(count) => break buffer[..count].to_vec(),
            Err(_) => assert!(began.elapsed() < SHORT_TIMEOUT, "the head has no deadline"),
        }
    };
    assert_eq!(
        status_of(&response),
        408,
        "{}",
        String::from_utf8_lossy(&response)
    );
    assert!(
        began.elapsed() >= Duration::from_millis(500),
        "ended too early: {:?}",
        began.elapsed()
    );
    assert!(began.elapsed() < SHORT_TIMEOUT, "{:?}", began.elapsed());
}

#[test]
fn an_idle_connection_is_closed_without_a_response() {
    let site = SiteBuilder::files()
        .server("idle_timeout = \"500ms\"\nhead_timeout = \"600ms\"")
        .file("a.txt", "a")
        .start();
    let mut unused = site.connect();
    let mut used = site.connect();
    used.exchange(&with_host(Request::get("/a.txt")))
        .unwrap()
        .assert_status(200);
    assert!(unused.is_closed_within(TIMEOUT), "no request, no response");
    assert!(used.is_closed_within(TIMEOUT));
}

#[test]
fn an_incomplete_body_gets_408_at_body_timeout() {
    let site = SiteBuilder::php()
        .server("body_timeout = \"500ms\"")
        .start();
    for head in [
        "Content-Length: 10\r\n\r\nhello",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
    ] {
        let mut connection = site.connect();
        connection
            .write(format!("POST /f HTTP/1.1\r\nHost: {HOST}\r\n{head}").as_bytes())
            .unwrap();
        connection.receive("POST").unwrap().assert_status(408);
        assert!(connection.is_closed_within(TIMEOUT));
    }
    assert_eq!(site.runs("/f"), 0, "an incomplete request is not forwarded");
}

#[test]
fn a_client_that_reads_nothing_is_disconnected() {
    let site = SiteBuilder::php()
        .server("write_timeout = \"700ms\"")
        .file("large.bin", random_bytes(30 * 1024 * 1024))
        .file("a.txt", "a")
        .start();
    site.scratch
        .write(
            "root/large.php",
            "<?php for ($i = 0; $i < 300; $i++) { echo str_repeat('x', 100000); }",
        )
        .unwrap();
    for target in ["/large.bin", "/large.php"] {
        let mut stalled: Vec<Connection> = (0..3).map(|_| site.connect()).collect();
        for connection in &mut stalled {
            connection.send(&with_host(Request::get(target))).unwrap();
        }
        // Other clients are still served.
        site.get("/a.txt").assert_status(200);
        wait_for("log records of the disconnected clients", TIMEOUT, || {
            site.access()
                .lines()
                .filter(|line| line.contains(&format!("GET {target} ")))
                .count()
                >= 3
        });
        for connection in &mut stalled {
            let rest = connection.read_to_end().map_or(0, |rest| rest.len());
            assert!(
                rest < 29 * 1024 * 1024,
                "{target}: the whole response was sent, {rest} bytes"
            );
        }
    }
    site.get("/a.txt").assert_status(200);
}

#[test]
fn a_slow_client_that_makes_progress_gets_the_complete_file() {
    let site = SiteBuilder::files()
        .server("write_timeout = \"600ms\"")
        .file("large.bin", random_bytes(8 * 1024 * 1024))
        .start();
    let expected = random_bytes(8 * 1024 * 1024);
    let mut connection = site.connect();
    connection
        .send(&with_host(Request::get("/large.bin")))
        .unwrap();
    let began = Instant::now();
    let mut received = Vec::new();
    let mut buffer = vec![0; 512 * 1024];
    while received.len() < expected.len() {
        let count = connection.stream().read(&mut buffer).unwrap();
        assert!(count > 0, "ended after {} bytes", received.len());
        received.extend_from_slice(&buffer[..count]);
        // Each read is faster than the timeout, the whole transfer is slower.
        if began.elapsed() < Duration::from_millis(1500) {
            std::thread::park_timeout(Duration::from_millis(60));
        }
    }
    let body = received
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .unwrap()
        + 4;
    while received.len() < body + expected.len() {
        let count = connection.stream().read(&mut buffer).unwrap();
        assert!(count > 0, "ended after {} bytes", received.len());
        received.extend_from_slice(&buffer[..count]);
    }
    assert!(received[body..] == expected[..], "the file differs");
}
