//! Responses for a file of twenty bytes.

use super::*;
use galley_rules::facts::{Line, Scheme};
use galley_rules::site::SiteRules;

const MODIFIED: u64 = 1_600_000_000;
const MODIFIED_TEXT: &str = "Sun, 13 Sep 2020 12:26:40 GMT";

fn asset() -> Asset {
    Asset {
        file: std::fs::File::open("/dev/null").unwrap(),
        length: 20,
        modified: SystemTime::UNIX_EPOCH + Duration::new(MODIFIED, 5),
        etag: "\"tag\"".to_owned(),
        content_type: "text/plain; charset=utf-8",
        coding: Coding::Identity,
        vary_encoding: false,
    }
}

fn ask(asset: &Asset, method: &str, target: &str, fields: &[(&str, &str)]) -> Answer {
    let line = Line {
        method,
        target: target.as_bytes(),
        scheme: Scheme::Http,
        host: "example.com",
        has_body: false,
        upgrade: false,
    };
    let mut facts = Facts::default();
    let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
    facts.gather(&line, fields, &SiteRules::default()).unwrap();
    answer(asset, &facts)
}

fn text<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.fields.get(name).map(|value| value.to_str().unwrap())
}

fn span(start: u64, end: u64) -> Part {
    Part::Span { start, end }
}

#[test]
fn whole_file() {
    let got = ask(&asset(), "GET", "/a.txt", &[]);
    assert_eq!((got.status.as_u16(), got.length), (200, 20));
    assert_eq!(got.parts, [span(0, 20)]);
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
        assert_eq!(text(&got, name), value, "{name}");
    }
    let head = ask(&asset(), "HEAD", "/a.txt", &[("range", "bytes=0-1")]);
    assert_eq!(
        (head.status.as_u16(), head.length, head.parts.len()),
        (200, 20, 0)
    );
    assert_eq!(head.fields, got.fields);
    let empty = Asset {
        length: 0,
        ..asset()
    };
    assert!(ask(&empty, "GET", "/a.txt", &[]).parts.is_empty());
}

#[test]
fn other_methods() {
    for method in [
        "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PURGE", "WHATEVER",
    ] {
        let got = ask(&asset(), method, "/a.txt", &[("if-none-match", "*")]);
        assert_eq!(
            (got.status.as_u16(), text(&got, "allow")),
            (405, Some("GET, HEAD")),
            "{method}"
        );
        assert!(got.parts.is_empty());
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
        let got = ask(&asset(), "GET", "/a.txt?ver=1", fields);
        assert_eq!(got.status.as_u16(), expected, "{fields:?}");
        if expected == 304 {
            assert_eq!(text(&got, "etag"), Some("\"tag\""));
            assert_eq!(text(&got, "cache-control"), Some(IMMUTABLE));
            assert!(got.parts.is_empty() && text(&got, "content-type").is_none());
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
        let got = ask(&asset(), "GET", "/a.txt", &[("range", range)]);
        assert_eq!(
            (got.status.as_u16(), got.length),
            (206, end - start),
            "{range}"
        );
        assert_eq!(got.parts, [span(start, end)]);
        let expected = format!("bytes {start}-{}/20", end - 1);
        assert_eq!(text(&got, "content-range"), Some(expected.as_str()));
        assert_eq!(text(&got, "etag"), Some("\"tag\""));
    }
    for range in ["bytes=20-", "bytes=99-100", "bytes=-0"] {
        let got = ask(&asset(), "GET", "/a.txt", &[("range", range)]);
        assert_eq!(
            (got.status.as_u16(), text(&got, "content-range")),
            (416, Some("bytes */20")),
            "{range}"
        );
        assert!(got.parts.is_empty());
    }
    for range in ["bytes=9-5", "lines=1-2", "bytes=", "bytes=a-b"] {
        assert_eq!(
            ask(&asset(), "GET", "/a.txt", &[("range", range)])
                .status
                .as_u16(),
            200,
            "{range}"
        );
    }
}

#[test]
fn several_ranges() {
    let got = ask(
        &asset(),
        "GET",
        "/a.txt",
        &[("range", "bytes=0-1,10-11,-1")],
    );
    assert_eq!(got.status.as_u16(), 206);
    assert!(text(&got, "content-range").is_none());
    let boundary = text(&got, "content-type")
        .unwrap()
        .strip_prefix("multipart/byteranges; boundary=")
        .unwrap();
    let content: String = ('a'..='t').collect();
    let mut body = String::new();
    for part in &got.parts {
        match part {
            Part::Bytes(bytes) => body.push_str(std::str::from_utf8(bytes).unwrap()),
            Part::Span { start, end } => {
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
    assert_eq!(got.length, u64::try_from(body.len()).unwrap());
    let many: Vec<String> = (0..17).map(|n| format!("{}-{}", n * 2, n * 2)).collect();
    let large = Asset {
        length: 1000,
        ..asset()
    };
    let range = format!("bytes={}", many.join(","));
    assert_eq!(
        ask(&large, "GET", "/a.txt", &[("range", &range)])
            .status
            .as_u16(),
        200
    );
}

#[test]
fn codings() {
    for (coding, expected) in [
        (Coding::Gzip, "gzip"),
        (Coding::Brotli, "br"),
        (Coding::Zstd, "zstd"),
    ] {
        let coded = Asset {
            coding,
            vary_encoding: true,
            ..asset()
        };
        let got = ask(&coded, "GET", "/a.txt", &[]);
        assert_eq!(text(&got, "content-encoding"), Some(expected));
        assert_eq!(text(&got, "vary"), Some("accept-encoding"));
        assert_eq!(
            text(&got, "content-type"),
            Some("text/plain; charset=utf-8")
        );
        let unchanged = ask(&coded, "GET", "/a.txt", &[("if-none-match", "\"tag\"")]);
        assert_eq!(
            (unchanged.status.as_u16(), text(&unchanged, "vary")),
            (304, Some("accept-encoding"))
        );
    }
}

#[test]
fn what_never_changes() {
    for target in [
        "/style.css?ver=6.1",
        "/style.css?a=1&ver=6.1",
        "/app.3f2a9c1b.js",
        "/main-3F2A9C1B.css",
        "/a.3f2a9c1b0d.min.js",
        "/x/chunk-0a1b2c3d4e5f.mjs",
    ] {
        let got = ask(&asset(), "GET", target, &[]);
        assert_eq!(text(&got, "cache-control"), Some(IMMUTABLE), "{target}");
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
            text(&ask(&asset(), "GET", target, &[]), "cache-control"),
            None,
            "{target}"
        );
    }
}

#[test]
fn times_that_dates_cannot_say() {
    let day = Duration::from_secs(86_400);
    for modified in [
        SystemTime::UNIX_EPOCH - day,
        SystemTime::UNIX_EPOCH + YEAR_10000,
    ] {
        let got = ask(
            &Asset {
                modified,
                ..asset()
            },
            "GET",
            "/a.txt",
            &[("if-modified-since", MODIFIED_TEXT)],
        );
        assert_eq!(
            (got.status.as_u16(), text(&got, "last-modified")),
            (200, None)
        );
    }
    let last = SystemTime::UNIX_EPOCH + YEAR_10000.saturating_sub(day);
    assert!(
        text(
            &ask(
                &Asset {
                    modified: last,
                    ..asset()
                },
                "GET",
                "/a.txt",
                &[]
            ),
            "last-modified"
        )
        .is_some()
    );
}
