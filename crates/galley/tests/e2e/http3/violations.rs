//! Clients that break the protocol: the codes of RFC 9114 and RFC 9204.

use serde_json::{Value, json};

use super::client::{fields, get, run, start, streams};
use crate::support::{SiteBuilder, TestSite};

const FRAME_UNEXPECTED: u64 = 0x105;
const FRAME_ERROR: u64 = 0x106;
const EXCESSIVE_LOAD: u64 = 0x107;
const STREAM_CREATION: u64 = 0x103;
const MESSAGE_ERROR: u64 = 0x10e;
const REQUEST_INCOMPLETE: u64 = 0x10d;
const DECOMPRESSION_FAILED: u64 = 0x200;

/// PHP gets a request only when its body is complete, so that frames behind a head are read.
fn site() -> TestSite {
    start(SiteBuilder::php().file("page.html", "a page"))
}

/// A request with a field more, or another one in place of those with its name.
fn changed(name: &str, value: &str) -> Vec<(String, String)> {
    let mut list = fields("POST", "/form");
    list.retain(|(known, _)| known != name);
    list.push((name.to_owned(), value.to_owned()));
    list.sort_by_key(|(name, _)| !name.starts_with(':'));
    list
}

#[test]
fn malformed_requests_end_their_stream() {
    let twice = [fields("POST", "/form"), fields("POST", "/")].concat();
    let mut late = fields("GET", "/page.html");
    late.insert(0, ("x".to_owned(), "y".to_owned()));
    let without = |name: &str| {
        let mut list = fields("GET", "/page.html");
        list.retain(|(known, _)| known != name);
        list
    };
    let longer = json!({ "frames": [[1, changed("content-length", "2")], [0, "616263"]] });
    let shorter = json!({ "frames": [[1, changed("content-length", "2")], [0, "61"]] });
    let trailers = json!({ "frames": [[1, fields("POST", "/form")], [1, fields("GET", "/")]] });
    let malformed: Vec<Value> = [
        twice,
        late,
        without(":method"),
        without(":scheme"),
        without(":path"),
        changed(":path", ""),
        changed(":authority", ""),
        changed(":protocol", "websocket"),
        changed(":status", "200"),
        changed(":unknown", "1"),
    ]
    .into_iter()
    .map(|list| json!({ "frames": [[1, list]] }))
    .chain([longer, shorter, trailers, json!({}), get("/page.html")])
    .collect();
    let site = site();
    let found = streams(&site, &malformed);
    let (last, others) = found.split_last().unwrap();
    assert_eq!(
        (&last["status"], &last["text"]),
        (&json!(200), &json!("a page"))
    );
    for (number, one) in others.iter().enumerate() {
        let code = match number {
            13 => REQUEST_INCOMPLETE,
            _ => MESSAGE_ERROR,
        };
        // A client error is a response that RFC 9114 section 4.1.2 permits.
        let is_refused = one["reset"] == code || matches!(one["status"].as_u64(), Some(400..=499));
        assert!(is_refused, "request {number}: {one}");
    }
    assert_eq!(site.runs("/form"), 0);
}

#[test]
fn heads_that_http_1_cannot_express_are_rejected() {
    let rejected: Vec<Value> = [
        ("X", "1"),
        ("a b", "1"),
        ("x", "1\r\ny: 2"),
        ("x", " 1"),
        ("connection", "close"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "websocket"),
        ("te", "gzip"),
        ("host", "other.test"),
        (":path", "http://other.test/"),
        (":scheme", "ftp"),
        (":method", "G T"),
    ]
    .into_iter()
    .map(|(name, value)| json!({ "frames": [[1, changed(name, value)]] }))
    .collect();
    let site = site();
    for (number, one) in streams(&site, &rejected).iter().enumerate() {
        let is_refused = one["reset"] == MESSAGE_ERROR
            || matches!(one["status"].as_u64(), Some(400 | 421 | 501));
        assert!(is_refused, "request {number}: {one}");
    }
}

#[test]
fn too_large_heads_get_a_431() {
    let value = "v".repeat(20_000);
    let mut large = fields("GET", "/page.html");
    large.extend((0..5).map(|at| (format!("x-{at}"), value.clone())));
    let mut many = fields("GET", "/page.html");
    many.extend((0..3_000).map(|_| ("x".to_owned(), String::new())));
    let site = site();
    let found = streams(
        &site,
        &[
            json!({ "frames": [[1, large]] }),
            json!({ "frames": [[1, many]] }),
            get("/page.html"),
        ],
    );
    for one in &found[..2] {
        assert_eq!(one["status"], 431, "{one}");
    }
    assert_eq!(found[2]["status"], 200);
}

#[test]
fn forbidden_frames_and_streams_end_the_connection() {
    let request = || fields("POST", "/form");
    let after_head = |kind: u64| json!({ "frames": [[1, request()], [kind, ""]] });
    let uni = |bytes: &str| json!({ "uni": true, "raw": bytes, "open": true });
    let grease = json!({ "frames": [[0x21, "00"], [1, request()], [0x40, ""]] });
    let cases = [
        (after_head(4), FRAME_UNEXPECTED),
        (after_head(7), FRAME_UNEXPECTED),
        (after_head(5), FRAME_UNEXPECTED),
        (after_head(6), FRAME_UNEXPECTED),
        (after_head(0xf_0700), FRAME_UNEXPECTED),
        (json!({ "frames": [[0, "61"]] }), FRAME_UNEXPECTED),
        (
            json!({ "frames": [[1, request()]], "raw": "0005" }),
            FRAME_ERROR,
        ),
        (json!({ "frames": [[1, "0280"]] }), DECOMPRESSION_FAILED),
        (json!({ "frames": [[1, "000080"]] }), DECOMPRESSION_FAILED),
        (uni("00"), STREAM_CREATION),
        (uni("02"), STREAM_CREATION),
        (uni("0100"), STREAM_CREATION),
        (
            json!({ "frames": [[1, request()]], "raw": "00".repeat(6_000) }),
            EXCESSIVE_LOAD,
        ),
    ];
    let site = site();
    for (stream, code) in cases {
        let plan = json!({ "streams": [&grease, &stream], "wait": "close" });
        let found = run(&site, plan).result();
        assert_eq!(found["closed"], code, "{stream}: {found}");
    }
    // Streams of unknown types are stopped, and others continue.
    let found = streams(&site, &[uni("21"), grease, uni("402161")]);
    assert_eq!(found[1]["status"], 200);
}
