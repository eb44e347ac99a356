//! RFC 9110: the sections that determine how a message is parsed.

use galley_http::body::{BodyProgress, BodyReader};
use galley_http::framing::{BodyKind, Framing, frame};
use galley_http::head::{BadRequest, HeadBuffer, HeadLimits, ParsedHead, parse};

fn framed<T>(stream: &str, select: impl FnOnce(Framing<'_>) -> T) -> Result<T, BadRequest> {
    match parse(
        stream.as_bytes(),
        &HeadLimits::default(),
        &mut HeadBuffer::new(),
    )? {
        ParsedHead::Whole { head, .. } => frame(&head).map(select),
        ParsedHead::Partial => panic!("incomplete: {stream:?}"),
    }
}

#[test]
fn section_10_1_1_expect() {
    let table = [
        (
            "1.1",
            "Expect: 100-continue\r\nContent-Length: 1\r\n",
            Ok(true),
        ),
        (
            "1.1",
            "expect: 100-CONTINUE\r\nTransfer-Encoding: chunked\r\n",
            Ok(true),
        ),
        (
            "1.1",
            "Expect: 100-continue\r\nContent-Length: 0\r\n",
            Ok(false),
        ),
        ("1.1", "Expect: 100-continue\r\n", Ok(false)),
        ("1.1", "Content-Length: 1\r\n", Ok(false)),
        (
            "1.0",
            "Expect: 100-continue\r\nContent-Length: 1\r\n",
            Ok(false),
        ),
        (
            "1.1",
            "Expect: 100-continue, x\r\nContent-Length: 1\r\n",
            Err(BadRequest::Expectation),
        ),
        (
            "1.1",
            "Expect: 101-continue\r\n",
            Err(BadRequest::Expectation),
        ),
        ("1.1", "Expect:\r\n", Err(BadRequest::Expectation)),
        ("1.0", "Expect: x\r\n", Err(BadRequest::Expectation)),
    ];
    for (version, fields, expected) in table {
        let stream = format!("POST / HTTP/{version}\r\nHost: a\r\n{fields}\r\n");
        let found = framed(&stream, |framing| framing.expect_continue);
        assert_eq!(found, expected, "{version} {fields:?}");
    }
    assert_eq!(BadRequest::Expectation.status(), 417);
}

#[test]
fn section_7_8_upgrade() {
    let table = [
        (
            "1.1",
            "Connection: keep-alive, UPGRADE\r\nUpgrade: websocket\r\n",
            true,
        ),
        ("1.1", "Upgrade: websocket\r\n", false),
        ("1.1", "Connection: upgrade\r\n", false),
        ("1.1", "Connection: upgrade\r\nUpgrade:\r\n", false),
        (
            "1.0",
            "Connection: upgrade\r\nUpgrade: websocket\r\n",
            false,
        ),
    ];
    for (version, fields, expected) in table {
        let stream = format!("GET / HTTP/{version}\r\nHost: a\r\n{fields}\r\n");
        let found = framed(&stream, |framing| framing.upgrade);
        assert_eq!(found, Ok(expected), "{version} {fields:?}");
    }
}

#[test]
fn section_15_5_14_a_body_too_large_is_rejected_before_it_arrives() {
    let mut length = BodyReader::new(BodyKind::Length(11), 10);
    assert!(!length.is_done());
    assert_eq!(length.decode(b""), Err(BadRequest::BodyTooLarge));
    assert_eq!(length.decode(b"x"), Err(BadRequest::BodyTooLarge));

    let mut chunks = BodyReader::new(BodyKind::Chunked, 10);
    let decoded = chunks.decode(b"8\r\n12345678\r\n3\r\n").unwrap();
    assert_eq!(decoded.data, b"12345678");
    assert_eq!(chunks.decode(b"\r\n3\r\n"), Err(BadRequest::BodyTooLarge));

    let mut huge = BodyReader::new(BodyKind::Chunked, u64::MAX);
    let decoded = huge.decode(b"ffffffffffffffff\r\nabc").unwrap();
    assert_eq!(decoded.data, b"abc");
}

#[test]
fn an_absent_body_is_done_immediately_and_consumes_nothing() {
    for kind in [BodyKind::None, BodyKind::Length(0)] {
        assert!(kind.is_empty());
        let mut reader = BodyReader::new(kind, 0);
        assert!(reader.is_done());
        let nothing = BodyProgress {
            consumed: 0,
            data: &[],
        };
        assert_eq!(reader.decode(b"GET"), Ok(nothing));
    }
    assert!(!BodyKind::Chunked.is_empty() && !BodyKind::Length(1).is_empty());
}

#[test]
fn a_body_of_exactly_the_limit_is_accepted() {
    let mut reader = BodyReader::new(BodyKind::Length(3), 3);
    let decoded = reader.decode(b"abcGET").unwrap();
    assert_eq!((decoded.consumed, decoded.data), (3, &b"abc"[..]));
    assert!(reader.is_done());
}

#[test]
fn chunk_extensions_are_limited_for_the_whole_message() {
    let body = |bytes: usize| {
        format!(
            "1;{}\r\na\r\n0;{}\r\n\r\n",
            "x".repeat(128),
            "y".repeat(bytes)
        )
    };
    for (bytes, expected) in [(126, None), (127, Some(BadRequest::ChunkExtension))] {
        let body = body(bytes);
        let mut reader = BodyReader::new(BodyKind::Chunked, 10);
        let first = reader.decode(body.as_bytes()).unwrap();
        assert_eq!(first.data, b"a");
        let rest = &body.as_bytes()[first.consumed..];
        assert_eq!(reader.decode(rest).err(), expected, "{bytes}");
        assert_eq!(reader.is_done(), expected.is_none());
    }
}

#[test]
fn trailers_are_limited() {
    // `A:`, the value and CRLF; the last line feed is not counted before the section ends.
    for (value, expected) in [(4000, None), (4200, Some(BadRequest::TrailersTooLarge))] {
        let body = format!("0\r\nA:{}\r\n\r\n", "x".repeat(value));
        let mut reader = BodyReader::new(BodyKind::Chunked, 10);
        assert_eq!(reader.decode(body.as_bytes()).err(), expected, "{value}");
    }
}
