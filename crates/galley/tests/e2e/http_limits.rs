//! Heads and bodies that are too long, too slow, or framed so that two readers would disagree: refused, closed, and nothing
//! that follows is taken for a request.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use galley_testkit::client::{Connection, Request};
use galley_testkit::wait_for;

use crate::support::{
    AssertStatus, HOST, SHORT_TIMEOUT, SiteBuilder, TIMEOUT, TestSite, random_bytes, with_host,
};

fn answers_in(bytes: &[u8]) -> usize {
    bytes
        .windows(9)
        .filter(|window| *window == b"HTTP/1.1 ")
        .count()
}

fn status_of(bytes: &[u8]) -> u16 {
    let text = String::from_utf8_lossy(bytes.get(9..12).unwrap_or_default()).into_owned();
    text.parse().unwrap_or(0)
}

/// Sends `head` with a request for a file right behind it: one refusal comes, the connection ends, the file is not sent.
fn refused(site: &TestSite, head: &str, wanted: &[u16]) {
    let bytes = format!("{head}GET /canary.txt HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
    let answer = site.send_raw(bytes.as_bytes());
    let text = String::from_utf8_lossy(&answer).into_owned();
    assert!(wanted.contains(&status_of(&answer)), "{head:?}\n{text}");
    assert_eq!(answers_in(&answer), 1, "{head:?}\n{text}");
    assert!(!text.contains("the canary sings"), "{head:?}\n{text}");
    assert!(
        text.to_ascii_lowercase().contains("connection: close"),
        "{head:?}\n{text}"
    );
}

#[test]
fn odd_framing_is_refused_and_nothing_after_it_answered() {
    let site = SiteBuilder::php()
        .file("canary.txt", "the canary sings")
        .start();
    let with_host = |rest: &str| format!("POST /form HTTP/1.1\r\nHost: {HOST}\r\n{rest}");
    for (rest, wanted) in ODD_FRAMING {
        refused(&site, &with_host(rest), wanted);
    }
    for head in ODD_HEADS {
        refused(&site, head, &[400, 421, 505]);
    }
    assert_eq!(site.runs("/form"), 0, "PHP saw none of it");
    assert_eq!(
        site.get("/canary.txt").expect_status(200).text(),
        "the canary sings"
    );
}

const BAD: &[u16] = &[400];

/// What follows the host of a `POST`, and the statuses that may answer it.
const ODD_FRAMING: &[(&str, &[u16])] = &[
    (
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        BAD,
    ),
    (
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        BAD,
    ),
    ("Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", BAD),
    ("Content-Length: 5, 5\r\n\r\nhello", BAD),
    ("Content-Length: +5\r\n\r\nhello", BAD),
    ("Content-Length: 0x5\r\n\r\nhello", BAD),
    ("Content-Length: \r\n\r\n", BAD),
    ("Content-Length: 99999999999999999999\r\n\r\n", BAD),
    ("Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", BAD),
    ("Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", &[501]),
    ("Transfer-Encoding: identity\r\n\r\n", &[400, 501]),
    ("Transfer-Encoding: xchunked\r\n\r\n", &[400, 501]),
    ("Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", BAD),
    ("Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n", BAD),
    (" Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", BAD),
    ("X-Fold: a\r\n b\r\n\r\n", BAD),
    ("X: a\nY: b\r\n\r\n", BAD),
    ("X: a\rY: b\r\n\r\n", BAD),
    ("X\0: a\r\n\r\n", BAD),
    ("X: a\0b\r\n\r\n", BAD),
    (": nameless\r\n\r\n", BAD),
    ("No colon\r\n\r\n", BAD),
    ("Host: other.test\r\n\r\n", BAD),
    ("Transfer-Encoding: chunked\r\n\r\nxyz\r\n\r\n", BAD),
    (
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloX0\r\n\r\n",
        BAD,
    ),
    (
        "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
        BAD,
    ),
    (
        "Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
        BAD,
    ),
    (
        "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
        BAD,
    ),
    (
        "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        &[400, 413],
    ),
    (
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nbad trailer\r\n\r\n",
        BAD,
    ),
];

const ODD_HEADS: &[&str] = &[
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
fn a_body_is_never_the_next_request() {
    let site = SiteBuilder::php()
        .file("canary.txt", "the canary sings")
        .start();
    // Refusals that come before the body was read must not leave it to be parsed.
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
        let answer = site.send_raw(closing.as_bytes());
        let text = String::from_utf8_lossy(&answer);
        // PHP echoes the body; a served file begins the body of an answer.
        assert!(!text.contains("\r\n\r\nthe canary sings"), "{head}\n{text}");
    }
}

#[test]
fn limits_of_heads_and_bodies() {
    let site = SiteBuilder::php()
        .server("request_body = \"10KiB\"\nhead_size = \"8KiB\"")
        .file("a.txt", "a")
        .start();
    let long = "x".repeat(9000);
    let fields: String = (0..200).map(|n| format!("X-{n}: 1\r\n")).collect();
    for (head, wanted) in [
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
        let answer = site.send_raw(head.as_bytes());
        assert!(
            wanted.contains(&status_of(&answer)),
            "{}\n{}",
            &head[..60],
            String::from_utf8_lossy(&answer)
        );
        assert_eq!(answers_in(&answer), 1);
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
    // The largest head that is allowed.
    let room = 8 * 1024 - format!("GET /a.txt HTTP/1.1\r\nHost: {HOST}\r\nX: \r\n\r\n").len();
    site.send(
        Request::get("/a.txt")
            .host(HOST)
            .field("X", "x".repeat(room)),
    )
    .assert_status(200);
    site.send(
        Request::get("/a.txt")
            .host(HOST)
            .field("X", "x".repeat(room + 1)),
    )
    .assert_status(431);
}

#[test]
fn a_chunked_body_without_end_is_refused_at_the_limit() {
    let site = SiteBuilder::php()
        .server("request_body = \"64KiB\"")
        .start();
    let mut connection = site.connect();
    let head = format!("POST /f HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n");
    connection.write(head.as_bytes()).unwrap();
    let piece = [b"1000\r\n".as_slice(), &[b'x'; 4096], b"\r\n"].concat();
    for _ in 0..10_000 {
        if connection.write(&piece).is_err() {
            break;
        }
    }
    // The answer may be lost to a reset, since we went on sending; what counts is that the server took no more.
    if let Ok(answer) = connection.receive("POST") {
        assert_eq!(answer.status, 413);
    }
    assert_eq!(site.runs("/f"), 0);
    site.get("/").assert_status(200);
}

#[test]
fn chunk_lines_and_trailers_cannot_grow() {
    let site = SiteBuilder::php().server("body_timeout = \"2s\"").start();
    let head = format!("POST /f HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (start, piece) in [
        ("5;", "x"),
        ("0000000000000000", "0"),
        ("5\r\nhello\r\n0\r\n", "X-Trailer: y\r\n"),
    ] {
        let bytes = format!("{head}{start}{}", piece.repeat(200_000));
        let mut connection = site.connect();
        let began = Instant::now();
        let _ = connection.write(bytes.as_bytes());
        if let Ok(answer) = connection.receive("POST") {
            assert!(
                [400, 413, 431].contains(&answer.status),
                "{start:?}: {}",
                answer.beginning()
            );
        }
        assert!(began.elapsed() < TIMEOUT, "{start:?} was read on and on");
    }
    assert_eq!(site.runs("/f"), 0);
}

#[test]
fn a_head_that_drips_is_ended_at_its_deadline() {
    let site = SiteBuilder::files()
        .server("head_timeout = \"600ms\"")
        .file("a.txt", "a")
        .start();
    let mut connection = site.connect();
    let began = Instant::now();
    let mut drip = format!("GET /a.txt HTTP/1.1\r\nHost: {HOST}\r\nX-Drip: ").into_bytes();
    connection.write(&drip).unwrap();
    drip.clear();
    connection
        .stream()
        .set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    let mut piece = [0; 1024];
    let answer = loop {
        // A byte now and then: each keeps the connection busy, none prolongs the deadline.
        let _ = connection.stream().write_all(b"x");
        match connection.stream().read(&mut piece) {
            Ok(count) => break piece[..count].to_vec(),
            Err(_) => assert!(
                began.elapsed() < SHORT_TIMEOUT,
                "the head may go on for ever"
            ),
        }
    };
    assert_eq!(
        status_of(&answer),
        408,
        "{}",
        String::from_utf8_lossy(&answer)
    );
    assert!(
        began.elapsed() >= Duration::from_millis(500),
        "ended too early: {:?}",
        began.elapsed()
    );
    assert!(began.elapsed() < SHORT_TIMEOUT, "{:?}", began.elapsed());
}

#[test]
fn silence_is_ended_without_a_word() {
    let site = SiteBuilder::files()
        .server("idle_timeout = \"500ms\"\nhead_timeout = \"600ms\"")
        .file("a.txt", "a")
        .start();
    let mut silent = site.connect();
    let mut used = site.connect();
    used.exchange(&with_host(Request::get("/a.txt")))
        .unwrap()
        .assert_status(200);
    assert!(
        silent.is_closed_within(TIMEOUT),
        "nothing was asked, nothing is answered"
    );
    assert!(used.is_closed_within(TIMEOUT));
}

#[test]
fn a_body_that_stops_coming_is_ended() {
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
    assert_eq!(site.runs("/f"), 0, "half a body is nobody's request");
}

#[test]
fn a_client_that_reads_nothing_is_dropped() {
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
        let mut deaf: Vec<Connection> = (0..3).map(|_| site.connect()).collect();
        for connection in &mut deaf {
            connection.send(&with_host(Request::get(target))).unwrap();
        }
        // Others are served meanwhile.
        site.get("/a.txt").assert_status(200);
        wait_for("records of dropped clients", TIMEOUT, || {
            site.access()
                .lines()
                .filter(|line| line.contains(&format!("GET {target} ")))
                .count()
                >= 3
        });
        for connection in &mut deaf {
            let rest = connection.read_to_end().map_or(0, |rest| rest.len());
            assert!(
                rest < 29 * 1024 * 1024,
                "{target}: all of it came, {rest} bytes"
            );
        }
    }
    site.get("/a.txt").assert_status(200);
}

#[test]
fn a_slow_reader_that_makes_progress_gets_all() {
    let site = SiteBuilder::files()
        .server("write_timeout = \"600ms\"")
        .file("large.bin", random_bytes(8 * 1024 * 1024))
        .start();
    let wanted = random_bytes(8 * 1024 * 1024);
    let mut connection = site.connect();
    connection
        .send(&with_host(Request::get("/large.bin")))
        .unwrap();
    let began = Instant::now();
    let mut got = Vec::new();
    let mut piece = vec![0; 512 * 1024];
    while got.len() < wanted.len() {
        let count = connection.stream().read(&mut piece).unwrap();
        assert!(count > 0, "ended after {} bytes", got.len());
        got.extend_from_slice(&piece[..count]);
        // Slower than the limit as a whole, faster than it for each piece.
        if began.elapsed() < Duration::from_millis(1500) {
            std::thread::park_timeout(Duration::from_millis(60));
        }
    }
    let body = got
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .unwrap()
        + 4;
    while got.len() < body + wanted.len() {
        let count = connection.stream().read(&mut piece).unwrap();
        assert!(count > 0, "ended after {} bytes", got.len());
        got.extend_from_slice(&piece[..count]);
    }
    assert!(got[body..] == wanted[..], "the file came changed");
}
