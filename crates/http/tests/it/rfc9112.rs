//! RFC 9112, section by section: how one head is parsed.

use galley_http::framing::{BodyKind, Framing, Host, frame};
use galley_http::head::{BadRequest, Head, HeadBuffer, HeadLimits, ParsedHead, Version, parse};

/// Parses a head and returns the part of its framing that `select` selects.
fn framed<T>(stream: &str, select: impl FnOnce(Framing<'_>) -> T) -> Result<T, BadRequest> {
    match parse(
        stream.as_bytes(),
        &HeadLimits::default(),
        &mut HeadBuffer::new(),
    )? {
        ParsedHead::Whole { head, length } => {
            assert_eq!(length, stream.len(), "{stream:?}");
            frame(&head).map(select)
        }
        ParsedHead::Partial => panic!("incomplete: {stream:?}"),
    }
}

fn get(fields: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

#[test]
fn section_2_3_versions() {
    let table = [
        ("1.0", Ok(Version::H10)),
        ("1.1", Ok(Version::H11)),
        ("1.2", Err(BadRequest::Version)),
        ("0.9", Err(BadRequest::Version)),
        ("2.0", Err(BadRequest::Version)),
        ("3.0", Err(BadRequest::Version)),
        ("2", Err(BadRequest::RequestLine)),
        ("1,1", Err(BadRequest::RequestLine)),
        ("1.x", Err(BadRequest::RequestLine)),
        ("01.1", Err(BadRequest::RequestLine)),
        ("1.01", Err(BadRequest::RequestLine)),
    ];
    for (version, expected) in table {
        let stream = format!("GET / HTTP/{version}\r\nHost: a\r\n\r\n");
        assert_eq!(
            framed(&stream, |framing| framing.version),
            expected,
            "{version}"
        );
    }
    assert_eq!(BadRequest::Version.status(), 505);
}

#[test]
fn section_3_the_request_line() {
    let stream = b"pUt /a%2f?b=c&d HTTP/1.1\r\nHost: a\r\nX-a:  b c\t\r\nX-A:\r\n\r\nrest";
    let mut buffer = HeadBuffer::new();
    let Ok(ParsedHead::Whole { head, length }) = parse(stream, &HeadLimits::default(), &mut buffer)
    else {
        panic!("not whole");
    };
    assert_eq!(head.method, "pUt");
    assert_eq!(head.target, b"/a%2f?b=c&d");
    assert_eq!(length, stream.len() - 4);
    assert_eq!(head.count(), 3);
    let fields: Vec<_> = head.fields().collect();
    let expected = [("Host", &b"a"[..]), ("X-a", b"b c"), ("X-A", b"")];
    assert_eq!(fields, expected);
    assert!(!format!("{head:?}").is_empty());
}

#[test]
fn section_3_1_methods_have_at_most_32_bytes() {
    for (length, expected) in [(1, Ok(())), (32, Ok(())), (33, Err(BadRequest::Method))] {
        let stream = format!("{} / HTTP/1.1\r\nHost: a\r\n\r\n", "M".repeat(length));
        assert_eq!(framed(&stream, |_| ()), expected, "{length}");
    }
    assert_eq!(BadRequest::Method.status(), 501);
}

#[test]
fn section_3_targets_have_a_maximum_length() {
    let limits = HeadLimits {
        target_bytes: 8,
        ..HeadLimits::default()
    };
    for (target, expected) in [
        ("/2345678", None),
        ("/23456789", Some(BadRequest::TargetTooLong)),
    ] {
        let stream = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(
            parse(stream.as_bytes(), &limits, &mut HeadBuffer::new()).err(),
            expected,
            "{target}"
        );
    }
    assert_eq!(BadRequest::TargetTooLong.status(), 414);
}

#[test]
fn section_3_2_host() {
    let table = [
        ("GET / HTTP/1.1\r\nHost: a:1\r\n", Ok(Host::Field("a:1"))),
        ("GET / HTTP/1.1\r\nhOST:a\r\n", Ok(Host::Field("a"))),
        ("GET / HTTP/1.0\r\nHost: a\r\n", Ok(Host::Field("a"))),
        ("GET / HTTP/1.0\r\n", Ok(Host::Missing)),
        (
            "GET http://b/ HTTP/1.1\r\nHost: a\r\n",
            Ok(Host::Target("b")),
        ),
        ("GET http://b HTTP/1.0\r\n", Ok(Host::Target("b"))),
        ("OPTIONS * HTTP/1.1\r\nHost: a\r\n", Ok(Host::Field("a"))),
        ("CONNECT b:1 HTTP/1.1\r\nHost: a\r\n", Ok(Host::Field("a"))),
        ("GET / HTTP/1.1\r\n", Err(BadRequest::Host)),
        ("GET http://b/ HTTP/1.1\r\n", Err(BadRequest::Host)),
        (
            "GET http://b/ HTTP/1.1\r\nHost: a b\r\n",
            Err(BadRequest::Host),
        ),
        ("GET / HTTP/1.1\r\nHost:\r\n", Err(BadRequest::Host)),
        ("GET / HTTP/1.0\r\nHost:\r\n", Err(BadRequest::Host)),
        (
            "GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n",
            Err(BadRequest::Host),
        ),
    ];
    for (head, expected) in table {
        let stream = format!("{head}\r\n");
        let found = framed(&stream, |framing| framing.host == expected.unwrap());
        assert_eq!(found, expected.map(|_| true), "{head:?}");
    }
}

#[test]
fn section_5_1_field_lines() {
    let limit = |fields: usize| HeadLimits {
        fields,
        ..HeadLimits::default()
    };
    let stream = get(&"A: b\r\n".repeat(99));
    assert!(matches!(
        parse(stream.as_bytes(), &limit(100), &mut HeadBuffer::new()),
        Ok(ParsedHead::Whole { .. })
    ));
    // The field table has 100 entries, whatever the limit.
    for (fields, allowed) in [(100, 100), (100, 1000), (2, 2), (0, 0)] {
        let stream = get(&"A: b\r\n".repeat(fields));
        let found = parse(stream.as_bytes(), &limit(allowed), &mut HeadBuffer::new()).err();
        assert_eq!(
            found,
            Some(BadRequest::TooManyFields),
            "{fields} of {allowed}"
        );
    }
    assert_eq!(BadRequest::TooManyFields.status(), 431);
}

#[test]
fn section_5_heads_have_a_maximum_length() {
    let stream = get("A: b\r\n");
    for (head_bytes, expected) in [
        (stream.len(), None),
        (stream.len() - 1, Some(BadRequest::HeadTooLarge)),
        (0, Some(BadRequest::HeadTooLarge)),
    ] {
        let limits = HeadLimits {
            head_bytes,
            ..HeadLimits::default()
        };
        assert_eq!(
            parse(stream.as_bytes(), &limits, &mut HeadBuffer::new()).err(),
            expected
        );
    }
}

#[test]
fn section_6_3_body_length() {
    let table = [
        ("", Ok(BodyKind::None)),
        ("Content-Length: 0\r\n", Ok(BodyKind::Length(0))),
        ("Content-Length: 005\r\n", Ok(BodyKind::Length(5))),
        (
            "Content-Length: 9223372036854775807\r\n",
            Ok(BodyKind::Length(i64::MAX as u64)),
        ),
        (
            "Content-Length: 9223372036854775808\r\n",
            Err(BadRequest::ContentLength),
        ),
        (
            "Content-Length: 18446744073709551616\r\n",
            Err(BadRequest::ContentLength),
        ),
        (
            "Content-Length: 5\u{a0}\r\n",
            Err(BadRequest::ContentLength),
        ),
        (
            "Content-Length: \u{664}\r\n",
            Err(BadRequest::ContentLength),
        ),
        ("Transfer-Encoding: chunked\r\n", Ok(BodyKind::Chunked)),
        ("Transfer-Encoding: \tCHUNKED \r\n", Ok(BodyKind::Chunked)),
        (
            "Transfer-Encoding: chunked\u{a0}\r\n",
            Err(BadRequest::TransferEncoding),
        ),
        (
            "Transfer-Encoding: chunked foo\r\n",
            Err(BadRequest::TransferEncoding),
        ),
        (
            "Transfer-Encoding: chunked ;a\r\n",
            Err(BadRequest::TransferEncoding),
        ),
        (
            "Transfer-Encoding: chunked, gzip\r\n",
            Err(BadRequest::TransferEncoding),
        ),
        (
            "Transfer-Encoding: gzip;a=b\r\n",
            Err(BadRequest::UnknownCoding),
        ),
        (
            "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
            Err(BadRequest::UnknownCoding),
        ),
        (
            "Transfer-Encoding: x\r\nContent-Length: 1\r\n",
            Err(BadRequest::AmbiguousLength),
        ),
        ("Transfer_Encoding: chunked\r\n", Ok(BodyKind::None)),
    ];
    for (fields, expected) in table {
        let found = framed(&get(fields), |framing| framing.body);
        assert_eq!(found, expected, "{fields:?}");
    }
    assert_eq!(BadRequest::UnknownCoding.status(), 501);
    assert_eq!(BadRequest::AmbiguousLength.status(), 400);
}

#[test]
fn section_9_3_persistence() {
    let table = [
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Connection: foo , Close\r\n", false),
        ("1.1", "Connection: closed\r\n", true),
        (
            "1.1",
            "Connection: close\r\nConnection: keep-alive\r\n",
            false,
        ),
        ("1.1", "Connection: keep-alive, close\r\n", false),
        ("1.1", "Proxy-Connection: close\r\n", true),
        ("1.0", "", false),
        ("1.0", "Connection: Keep-Alive\r\n", true),
        ("1.0", "Connection: keep-alive, close\r\n", false),
        ("1.0", "Keep-Alive: timeout=5\r\n", false),
        ("1.0", "Proxy-Connection: keep-alive\r\n", false),
    ];
    for (version, fields, expected) in table {
        let stream = format!("GET / HTTP/{version}\r\nHost: a\r\n{fields}\r\n");
        let found = framed(&stream, |framing| framing.keep_alive);
        assert_eq!(found, Ok(expected), "{version} {fields:?}");
    }
}

#[test]
fn parsed_heads_do_not_allocate() {
    assert!(!std::mem::needs_drop::<Head<'_, '_>>());
    assert!(!std::mem::needs_drop::<Framing<'_>>());
    assert!(!std::mem::needs_drop::<
        Result<ParsedHead<'_, '_>, BadRequest>,
    >());
    assert!(!std::mem::needs_drop::<galley_http::body::BodyReader>());
}

#[test]
fn error_messages_for_clients_are_plain_text() {
    let all = [
        BadRequest::BareLineFeed,
        BadRequest::TooManyFields,
        BadRequest::BodyTooLarge,
    ];
    for error in all {
        let text = error.to_string();
        assert!(
            text.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b' ')
        );
    }
    assert_eq!(BadRequest::BodyTooLarge.status(), 413);
    assert_eq!(BadRequest::HeadTooLarge.status(), 431);
}
