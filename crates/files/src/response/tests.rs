//! Responses for a file of twenty bytes.

use super::*;
use galley_policy::request_info::{RequestLineInfo, Scheme};
use galley_policy::site::Policy;

const MODIFIED_TEXT: &str = "Sun, 13 Sep 2020 12:26:40 GMT";

/// The head of a file, and the file's size in bytes.
#[derive(Clone)]
struct Whole(HeaderMap, u64);

fn whole() -> Whole {
    let fields = [
        (header::ETAG, "\"tag\""),
        (header::LAST_MODIFIED, MODIFIED_TEXT),
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::ACCEPT_RANGES, "bytes"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    let fields = fields.map(|(name, value)| (name, HeaderValue::from_static(value)));
    Whole(fields.into_iter().collect(), 20)
}

fn respond(whole: &Whole, method: &str, target: &str, fields: &[(&str, &str)]) -> FileResponse {
    let line = RequestLineInfo {
        method,
        target: target.as_bytes(),
        scheme: Scheme::Http,
        host: "example.com",
        has_body: false,
        upgrade: false,
        country: None,
    };
    let mut info = RequestInfo::default();
    let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
    info.parse(&line, fields, &Policy::default()).unwrap();
    super::respond(&whole.0, whole.1, &info)
}

fn text<'a>(response: &'a FileResponse, name: &str) -> Option<&'a str> {
    response
        .fields
        .get(name)
        .map(|value| value.to_str().unwrap())
}

fn span(start: u64, end: u64) -> BodyPiece {
    BodyPiece::Span { start, end }
}

#[test]
fn whole_file() {
    let response = respond(&whole(), "GET", "/a.txt", &[]);
    assert_eq!((response.status.as_u16(), response.length), (200, 20));
    assert_eq!(response.parts, [span(0, 20)]);
    for (name, value) in [
        ("etag", Some("\"tag\"")),
        ("last-modified", Some(MODIFIED_TEXT)),
        ("content-type", Some("text/plain; charset=utf-8")),
        ("accept-ranges", Some("bytes")),
        ("x-content-type-options", Some("nosniff")),
        ("vary", None),
        ("content-encoding", None),
        ("cache-control", None),
        ("content-length", None),
    ] {
        assert_eq!(text(&response, name), value, "{name}");
    }
    let head = respond(&whole(), "HEAD", "/a.txt", &[("range", "bytes=0-1")]);
    assert_eq!(
        (head.status.as_u16(), head.length, head.parts.len()),
        (200, 20, 0)
    );
    assert_eq!(head.fields, response.fields);
    let empty = Whole(whole().0, 0);
    assert!(respond(&empty, "GET", "/a.txt", &[]).parts.is_empty());
}

#[test]
fn other_methods() {
    for method in [
        "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PURGE", "WHATEVER",
    ] {
        let response = respond(&whole(), method, "/a.txt", &[("if-none-match", "*")]);
        assert_eq!(
            (response.status.as_u16(), text(&response, "allow")),
            (405, Some("GET, HEAD")),
            "{method}"
        );
        assert!(response.parts.is_empty());
    }
}

#[test]
fn conditions() {
    for (fields, expected) in [
        (&[("if-none-match", "\"tag\"")][..], 304),
        (&[("if-none-match", "W/\"tag\", \"x\"")], 304),
        (&[("if-none-match", "*")], 304),
        (&[("if-none-match", "\"x\"")], 200),
        (
            &[
                ("if-none-match", "\"x\""),
                ("if-modified-since", MODIFIED_TEXT),
            ],
            200,
        ),
        (&[("if-modified-since", MODIFIED_TEXT)], 304),
        (
            &[("if-modified-since", "Sun, 13 Sep 2020 12:26:39 GMT")],
            200,
        ),
        (&[("if-modified-since", "nonsense")], 200),
        (&[("if-match", "\"tag\"")], 200),
        (&[("if-match", "\"x\"")], 412),
        (&[("if-match", "W/\"tag\"")], 412),
        (
            &[("if-unmodified-since", "Sun, 13 Sep 2020 12:26:39 GMT")],
            412,
        ),
        (&[("if-unmodified-since", MODIFIED_TEXT)], 200),
        (&[("if-none-match", "\"tag\""), ("range", "bytes=0-1")], 304),
        (&[("range", "bytes=0-1"), ("if-range", "\"tag\"")], 206),
        (&[("range", "bytes=0-1"), ("if-range", "\"x\"")], 200),
        (&[("range", "bytes=0-1"), ("if-range", "W/\"tag\"")], 200),
        (&[("range", "bytes=0-1"), ("if-range", MODIFIED_TEXT)], 206),
    ] {
        let response = respond(&whole(), "GET", "/a.txt?ver=1", fields);
        assert_eq!(response.status.as_u16(), expected, "{fields:?}");
        if expected == 304 {
            assert_eq!(text(&response, "etag"), Some("\"tag\""));
            assert_eq!(text(&response, "cache-control"), IMMUTABLE.to_str().ok());
            assert!(response.parts.is_empty() && text(&response, "content-type").is_none());
        }
    }
}

#[test]
fn single_ranges() {
    for (range, start, end) in [
        ("bytes=0-0", 0, 1),
        ("bytes=5-9", 5, 10),
        ("bytes=15-", 15, 20),
        ("bytes=-3", 17, 20),
        ("bytes=10-99", 10, 20),
        ("bytes=-99", 0, 20),
        ("bytes=0-4,3-8", 0, 9),
    ] {
        let response = respond(&whole(), "GET", "/a.txt", &[("range", range)]);
        assert_eq!(
            (response.status.as_u16(), response.length),
            (206, end - start),
            "{range}"
        );
        assert_eq!(response.parts, [span(start, end)]);
        let expected = format!("bytes {start}-{}/20", end - 1);
        assert_eq!(text(&response, "content-range"), Some(expected.as_str()));
        assert_eq!(text(&response, "etag"), Some("\"tag\""));
    }
    for range in ["bytes=20-", "bytes=99-100", "bytes=-0"] {
        let response = respond(&whole(), "GET", "/a.txt", &[("range", range)]);
        assert_eq!(
            (response.status.as_u16(), text(&response, "content-range")),
            (416, Some("bytes */20")),
            "{range}"
        );
        assert!(response.parts.is_empty());
    }
    for range in ["bytes=9-5", "lines=1-2", "bytes=", "bytes=a-b"] {
        assert_eq!(
            respond(&whole(), "GET", "/a.txt", &[("range", range)])
                .status
                .as_u16(),
            200,
            "{range}"
        );
    }
}

#[test]
fn several_ranges() {
    let response = respond(
        &whole(),
        "GET",
        "/a.txt",
        &[("range", "bytes=0-1,10-11,-1")],
    );
    assert_eq!(response.status.as_u16(), 206);
    assert!(text(&response, "content-range").is_none());
    let boundary = text(&response, "content-type")
        .unwrap()
        .strip_prefix("multipart/byteranges; boundary=")
        .unwrap();
    let content: String = ('a'..='t').collect();
    let mut body = String::new();
    for part in &response.parts {
        match part {
            BodyPiece::Bytes(bytes) => body.push_str(std::str::from_utf8(bytes).unwrap()),
            BodyPiece::Span { start, end } => {
                let range = usize::try_from(*start).unwrap()..usize::try_from(*end).unwrap();
                body.push_str(&content[range]);
            }
        }
    }
    let part = |range: &str, bytes: &str| {
        format!(
            "\r\n--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Range: bytes {range}/20\r\n\r\n{bytes}"
        )
    };
    let expected = [
        part("0-1", "ab"),
        part("10-11", "kl"),
        part("19-19", "t"),
        format!("\r\n--{boundary}--\r\n"),
    ]
    .concat();
    assert_eq!(body, expected);
    assert_eq!(response.length, u64::try_from(body.len()).unwrap());
    let many: Vec<String> = (0..17).map(|n| format!("{}-{}", n * 2, n * 2)).collect();
    let large = Whole(whole().0, 1000);
    let range = format!("bytes={}", many.join(","));
    assert_eq!(
        respond(&large, "GET", "/a.txt", &[("range", &range)])
            .status
            .as_u16(),
        200
    );
}

#[test]
fn codings() {
    for expected in ["gzip", "br", "zstd"] {
        let mut coded = whole();
        for (name, value) in [
            (header::VARY, "accept-encoding"),
            (header::CONTENT_ENCODING, expected),
        ] {
            coded.0.insert(name, HeaderValue::from_static(value));
        }
        let response = respond(&coded, "GET", "/a.txt", &[]);
        assert_eq!(text(&response, "content-encoding"), Some(expected));
        assert_eq!(text(&response, "vary"), Some("accept-encoding"));
        assert_eq!(
            text(&response, "content-type"),
            Some("text/plain; charset=utf-8")
        );
        let unchanged = respond(&coded, "GET", "/a.txt", &[("if-none-match", "\"tag\"")]);
        assert_eq!(
            (unchanged.status.as_u16(), text(&unchanged, "vary")),
            (304, Some("accept-encoding"))
        );
    }
}

#[test]
fn versioned_files_are_immutable() {
    for target in [
        "/style.css?ver=6.1",
        "/style.css?a=1&ver=6.1",
        "/app.3f2a9c1b.js",
        "/main-3F2A9C1B.css",
        "/a.3f2a9c1b0d.min.js",
        "/x/chunk-0a1b2c3d4e5f.mjs",
    ] {
        let response = respond(&whole(), "GET", target, &[]);
        assert_eq!(
            text(&response, "cache-control"),
            IMMUTABLE.to_str().ok(),
            "{target}"
        );
    }
    for target in [
        "/style.css",
        "/style.css?ver=",
        "/style.css?over=1",
        "/style.css?x=ver=1",
        "/photo-20240101.jpg",
        "/3f2a9c1b.js",
        "/app.3f2a9c1.js",
        "/app.3f2a9c1g.js",
        "/a-defacade.css",
        "/app-3f2a9c1b",
        "/3f2a9c1b-x.1/a.css",
    ] {
        assert_eq!(
            text(&respond(&whole(), "GET", target, &[]), "cache-control"),
            None,
            "{target}"
        );
    }
}

#[test]
fn without_a_date_no_date_is_compared() {
    let mut undated = whole();
    undated.0.remove(header::LAST_MODIFIED);
    let response = respond(
        &undated,
        "GET",
        "/a.txt",
        &[("if-modified-since", MODIFIED_TEXT)],
    );
    assert_eq!(
        (response.status.as_u16(), text(&response, "last-modified")),
        (200, None)
    );
}
