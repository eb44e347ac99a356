//! Every written response head is exactly one head, whatever fields the upstream sends.

use galley_http::response_writer::{
    ConnectionField, Length, write_chunk_head, write_head, write_stored,
};
use http::StatusCode;
use proptest::collection::vec;
use proptest::prelude::*;

fn written_head(
    status: u16,
    fields: &[(&str, &[u8])],
    length: Length,
    connection: ConnectionField,
) -> String {
    let mut out = b"before".to_vec();
    write_head(&mut out, status, fields.iter().copied(), length, connection);
    String::from_utf8(out.split_off(6)).unwrap()
}

/// Status, length and connection of a response, with the expected head.
const HEADS: [(u16, Length, ConnectionField, &str); 13] = [
    (
        200,
        Length::Known(0),
        ConnectionField::KeepAlive,
        "200 OK\r\nA: b\r\nContent-Length: 0\r\n\r\n",
    ),
    (
        200,
        Length::Known(u64::MAX),
        ConnectionField::Close,
        "200 OK\r\nA: b\r\nContent-Length: 18446744073709551615\r\nConnection: close\r\n\r\n",
    ),
    (
        200,
        Length::Known(9),
        ConnectionField::KeepAlive10,
        "200 OK\r\nA: b\r\nContent-Length: 9\r\nConnection: keep-alive\r\n\r\n",
    ),
    (
        404,
        Length::Chunked,
        ConnectionField::KeepAlive,
        "404 Not Found\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n",
    ),
    (
        200,
        Length::UntilClose,
        ConnectionField::KeepAlive,
        "200 OK\r\nA: b\r\nConnection: close\r\n\r\n",
    ),
    (
        200,
        Length::UntilClose,
        ConnectionField::KeepAlive10,
        "200 OK\r\nA: b\r\nConnection: close\r\n\r\n",
    ),
    (
        204,
        Length::Known(5),
        ConnectionField::KeepAlive,
        "204 No Content\r\nA: b\r\n\r\n",
    ),
    (
        304,
        Length::Chunked,
        ConnectionField::KeepAlive,
        "304 Not Modified\r\nA: b\r\n\r\n",
    ),
    (
        103,
        Length::Known(5),
        ConnectionField::KeepAlive,
        "103 Early Hints\r\nA: b\r\n\r\n",
    ),
    (
        101,
        Length::None,
        ConnectionField::Upgrade,
        "101 Switching Protocols\r\nA: b\r\nUpgrade: c\r\nConnection: upgrade\r\n\r\n",
    ),
    (
        299,
        Length::None,
        ConnectionField::KeepAlive,
        "299 \r\nA: b\r\n\r\n",
    ),
    (
        0,
        Length::None,
        ConnectionField::KeepAlive,
        "500 Internal Server Error\r\nA: b\r\n\r\n",
    ),
    (
        1000,
        Length::None,
        ConnectionField::KeepAlive,
        "500 Internal Server Error\r\nA: b\r\n\r\n",
    ),
];

#[test]
fn heads_depend_on_status_length_and_connection() {
    for (status, length, connection, expected) in HEADS {
        let actual = written_head(
            status,
            &[("A", b"b"), ("Upgrade", b"c")],
            length,
            connection,
        );
        assert_eq!(
            actual,
            format!("HTTP/1.1 {expected}"),
            "{status} {length:?} {connection:?}"
        );
    }
}

#[test]
fn framing_fields_of_the_upstream_are_dropped() {
    let names = [
        "Connection",
        "KEEP-ALIVE",
        "Proxy-Connection",
        "TE",
        "Trailer",
        "Transfer-encoding",
        "Upgrade",
        "content-length",
    ];
    for name in names {
        let actual = written_head(
            200,
            &[(name, b"x")],
            Length::Known(1),
            ConnectionField::KeepAlive,
        );
        assert_eq!(
            actual, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n",
            "{name}"
        );
    }
}

#[test]
fn fields_that_would_split_the_response_are_dropped() {
    let bad: [(&str, &[u8]); 10] = [
        ("A", b"b\r\nSet-Cookie: c"),
        ("A", b"b\r\n\r\n<html>"),
        ("A", b"b\nc"),
        ("A", b"b\rc"),
        ("A", b"b\0"),
        ("A", b"\x7f"),
        ("A\r\nB", b"c"),
        ("A:B", b"c"),
        ("A ", b"c"),
        ("", b"c"),
    ];
    for field in bad {
        let actual = written_head(
            200,
            &[field, ("Z", b"\tok")],
            Length::None,
            ConnectionField::KeepAlive,
        );
        assert_eq!(actual, "HTTP/1.1 200 OK\r\nZ: \tok\r\n\r\n", "{field:?}");
    }
}

#[test]
fn chunk_heads_are_hexadecimal_and_an_empty_chunk_is_not_written() {
    for (length, expected) in [(1, "1\r\n"), (10, "a\r\n"), (4096, "1000\r\n"), (0, "")] {
        let mut out = Vec::new();
        write_chunk_head(&mut out, length);
        assert_eq!(out, expected.as_bytes());
    }
    let mut out = Vec::new();
    write_chunk_head(&mut out, usize::MAX);
    assert_eq!(out, format!("{:x}\r\n", usize::MAX).as_bytes());
}

fn length() -> impl Strategy<Value = Length> {
    prop_oneof![
        any::<u64>().prop_map(Length::Known),
        Just(Length::Chunked),
        Just(Length::UntilClose),
        Just(Length::None),
    ]
}

proptest! {
    #[test]
    fn heads_from_stored_lines_are_the_same(
        status in prop::sample::select(vec![StatusCode::OK, StatusCode::NOT_MODIFIED, StatusCode::NOT_FOUND]),
        fields in vec(("x-[a-z]{1,8}", "[ -~]{0,20}"), 0..8),
        length in length(),
        close in any::<bool>(),
    ) {
        let connection = if close { ConnectionField::Close } else { ConnectionField::KeepAlive };
        let mut lines = Vec::new();
        for (name, value) in &fields {
            lines.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        let (mut from_fields, mut stored) = (Vec::new(), Vec::new());
        let pairs = fields.iter().map(|(name, value)| (&name[..], value.as_bytes()));
        write_head(&mut from_fields, status.as_u16(), pairs, length, connection);
        write_stored(&mut stored, status, [&lines[..]].into_iter(), length, connection);
        prop_assert_eq!(stored, from_fields);
    }

    #[test]
    fn arbitrary_fields_result_in_exactly_one_head(
        status in any::<u16>(),
        fields in vec(("[A-Za-z:\r\n \0-]{0,12}", vec(any::<u8>(), 0..20)), 0..8),
        length in length(),
    ) {
        let mut out = Vec::new();
        let pairs = fields.iter().map(|(name, value)| (&name[..], &value[..]));
        write_head(&mut out, status, pairs, length, ConnectionField::KeepAlive);
        let mut lines = [httparse::EMPTY_HEADER; 16];
        let mut response = httparse::Response::new(&mut lines);
        // The end of the head is the end of all written bytes.
        prop_assert_eq!(response.parse(&out), Ok(httparse::Status::Complete(out.len())));
        for line in response.headers.iter() {
            let is_framing = matches!(line.name, "Content-Length" | "Transfer-Encoding" | "Connection");
            let is_given = fields.iter().any(|(name, _)| name == line.name);
            prop_assert!(is_framing || is_given, "unexpected field {}", line.name);
        }
        let framing = response.headers.iter().filter(|line| {
            line.name.eq_ignore_ascii_case("content-length") || line.name.eq_ignore_ascii_case("transfer-encoding")
        });
        prop_assert!(framing.count() <= 1);
    }
}
