//! The exchange without I/O: records split at any byte, invalid records, and reuse of the connection.

#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "responder_side/records.rs"]
mod records;

use bytes::{Buf, Bytes, BytesMut};
use galley_fastcgi::exchange::{FastCgiExchange, OUTPUT_BYTES};
use galley_fastcgi::record::{self, Header, RecordType};
use galley_fastcgi::{BadRecord, EndStatus, Error, FastCgiEvent, FastCgiRequest, ProtocolStatus};
use proptest::prelude::*;

use self::records::ParsedRecord;

const COMPLETE: EndStatus = EndStatus {
    app_status: 0,
    protocol_status: ProtocolStatus::RequestComplete,
};

/// A record as a responder writes it.
fn record(id: u16, code: u8, content: &[u8], padding: u8) -> Vec<u8> {
    let header = Header {
        code,
        id,
        content: u16::try_from(content.len()).unwrap(),
        padding,
    };
    let mut out = header.encode().to_vec();
    out.extend_from_slice(content);
    out.resize(out.len() + usize::from(padding), 0xAA);
    out
}

fn end() -> Vec<u8> {
    record(1, 3, &[0; 8], 0)
}

/// An exchange whose request without a body has been written.
fn sent() -> FastCgiExchange {
    let mut exchange = FastCgiExchange::new();
    exchange
        .begin(&FastCgiRequest {
            variables: &[],
            body_length: 0,
        })
        .unwrap();
    drain(&mut exchange);
    exchange
}

/// Writes all pending output.
fn drain(exchange: &mut FastCgiExchange) -> Vec<u8> {
    let mut written = Vec::new();
    while exchange.outgoing().has_remaining() {
        let bytes = exchange.outgoing().chunk().to_vec();
        exchange.outgoing().advance(bytes.len());
        exchange.frame();
        written.extend(bytes);
    }
    written
}

/// The events of an exchange: the content of both streams, the end, and the error.
#[derive(Debug, Default, PartialEq)]
struct ExchangeOutput {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    end: Option<EndStatus>,
    bad: Option<BadRecord>,
}

fn receive(exchange: &mut FastCgiExchange, pieces: &[&[u8]]) -> ExchangeOutput {
    let mut output = ExchangeOutput::default();
    for piece in pieces {
        exchange.input().extend_from_slice(piece);
        loop {
            match exchange.event() {
                Ok(None) => break,
                Ok(Some(FastCgiEvent::Stdout(bytes))) => output.stdout.extend_from_slice(&bytes),
                Ok(Some(FastCgiEvent::Stderr(bytes))) => output.stderr.extend_from_slice(&bytes),
                Ok(Some(FastCgiEvent::End(status))) => {
                    output.end = Some(status);
                    return output;
                }
                Err(Error::Record(bad)) => {
                    output.bad = Some(bad);
                    return output;
                }
                Err(other) => panic!("{other:?}"),
            }
        }
    }
    output
}

#[test]
fn a_response_may_be_split_at_any_byte() {
    let bytes = [
        record(1, 7, b"notice", 2),
        record(1, 6, b"A: b\r\n\r\n", 0),
        record(0, 10, b"\x0e\x01FCGI_MAX_CONNS1", 3),
        record(1, 6, b"body", 4),
        record(1, 7, b" again", 0),
        record(1, 6, b"", 0),
        record(0, 11, &[99, 0, 0, 0, 0, 0, 0, 0], 0),
        record(1, 3, &[0, 0, 0, 5, 0, 0, 0, 0], 7),
    ]
    .concat();
    for split in 0..=bytes.len() {
        let mut exchange = sent();
        let output = receive(&mut exchange, &[&bytes[..split], &bytes[split..]]);
        assert_eq!(output.stdout, b"A: b\r\n\r\nbody", "split at {split}");
        assert_eq!(output.stderr, b"notice again", "split at {split}");
        assert_eq!(
            output.end,
            Some(EndStatus {
                app_status: 5,
                ..COMPLETE
            }),
            "split at {split}"
        );
        // Padding that arrives after the end would be read as a header later.
        assert_eq!(
            exchange.is_reusable(),
            split <= bytes.len() - 8 || split == bytes.len(),
            "split at {split}"
        );
    }
}

/// The sum of content and padding length overflows 16 bits (CVE-2026-55203).
#[test]
fn records_of_maximum_length_and_padding_are_parsed() {
    let longest = record(1, 6, &vec![b'x'; 65_535], 255);
    let bytes = [longest.clone(), longest, end()].concat();
    for split in [1, 8, 65_535, 65_543, 65_544, 65_797, 65_798, 65_799] {
        let mut exchange = sent();
        let output = receive(&mut exchange, &[&bytes[..split], &bytes[split..]]);
        assert_eq!(output.stdout, vec![b'x'; 2 * 65_535], "split at {split}");
        assert_eq!(
            (output.end, output.bad),
            (Some(COMPLETE), None),
            "split at {split}"
        );
    }
}

#[test]
fn content_is_returned_before_its_record_is_complete() {
    let mut exchange = sent();
    let bytes = record(1, 6, b"0123456789", 0);
    exchange.input().extend_from_slice(&bytes[..11]);
    assert_eq!(
        exchange.event().unwrap(),
        Some(FastCgiEvent::Stdout(Bytes::from_static(b"012")))
    );
    assert_eq!(exchange.event().unwrap(), None);
}

#[test]
fn unexpected_records_are_rejected() {
    for (bytes, bad) in [
        (record(2, 6, b"other", 0), BadRecord::Id(2)),
        (record(256, 6, b"other", 0), BadRecord::Id(256)),
        (record(2, 3, &[0; 8], 0), BadRecord::Id(2)),
        (record(0, 6, b"x", 0), BadRecord::Type(6)),
        (record(0, 9, b"", 0), BadRecord::Type(9)),
        (record(1, 1, &[0; 8], 0), BadRecord::Type(1)),
        (record(1, 5, b"x", 0), BadRecord::Type(5)),
        (record(1, 11, &[0; 8], 0), BadRecord::Type(11)),
        (record(1, 200, b"", 0), BadRecord::Type(200)),
        (record(1, 3, &[0; 7], 0), BadRecord::EndLength(7)),
        (record(1, 3, &[0; 16], 0), BadRecord::EndLength(16)),
        (b"HTTP/1.1 200 OK\r\n".to_vec(), BadRecord::Version(b'H')),
    ] {
        let mut exchange = sent();
        let output = receive(&mut exchange, &[&bytes]);
        assert_eq!(output.bad, Some(bad));
        assert!(!exchange.is_reusable());
        assert!(matches!(exchange.event(), Err(Error::OutOfTurn)));
    }
}

#[test]
fn a_connection_is_reusable_only_after_a_clean_end() {
    let overloaded = record(1, 3, &[0, 0, 0, 0, 2, 0, 0, 0], 0);
    let extra = [end(), record(1, 6, b"Status: 200\r\n\r\nmore", 0)].concat();
    for (bytes, reusable) in [
        (end(), true),
        (overloaded, false),
        (extra, false),
        ([end(), vec![1]].concat(), false),
    ] {
        let mut exchange = sent();
        assert!(!exchange.is_reusable());
        assert!(receive(&mut exchange, &[&bytes]).end.is_some());
        assert_eq!(exchange.is_reusable(), reusable);
        assert_eq!(
            exchange
                .begin(&FastCgiRequest {
                    variables: &[],
                    body_length: 0
                })
                .is_ok(),
            reusable
        );
    }
}

#[test]
fn a_connection_is_not_reusable_if_the_response_ends_before_the_request() {
    let request = FastCgiRequest {
        variables: &[],
        body_length: 10,
    };
    // Body incomplete; complete but not written; written completely.
    for (given, written, reusable) in [(4, true, false), (10, false, false), (10, true, true)] {
        let mut exchange = FastCgiExchange::new();
        exchange.begin(&request).unwrap();
        drain(&mut exchange);
        exchange.push_body(Bytes::from(vec![b'x'; given])).unwrap();
        if written {
            drain(&mut exchange);
        }
        assert!(receive(&mut exchange, &[&end()]).end.is_some());
        assert_eq!(
            exchange.is_reusable(),
            reusable,
            "{given} given, written: {written}"
        );
        assert!(!exchange.outgoing().has_remaining() || reusable);
    }
}

#[test]
fn a_request_has_the_records_of_the_specification() {
    let name = b"SCRIPT_FILENAME".as_slice();
    let variables = [(name.into(), b"/srv/index.php".as_slice().into())];
    let mut exchange = FastCgiExchange::new();
    exchange
        .begin(&FastCgiRequest {
            variables: &variables,
            body_length: 5,
        })
        .unwrap();
    exchange.push_body(Bytes::from_static(b"hello")).unwrap();
    assert!(!exchange.wants_body());
    let mut expected = Vec::new();
    record::write_begin(&mut expected);
    galley_fastcgi::params::write(&mut expected, &variables).unwrap();
    record::write_stream(&mut expected, RecordType::Stdin, b"hello");
    record::write_stream_end(&mut expected, RecordType::Stdin);
    assert_eq!(exchange.outgoing().chunk(), expected);
}

#[test]
fn a_body_of_another_length_is_rejected() {
    let request = FastCgiRequest {
        variables: &[],
        body_length: 10,
    };
    let mut long = FastCgiExchange::new();
    long.begin(&request).unwrap();
    long.push_body(Bytes::from_static(b"1234")).unwrap();
    let error = long.push_body(Bytes::from_static(b"5678901")).unwrap_err();
    assert!(
        matches!(
            error,
            Error::BodyLength {
                declared: 10,
                given: 11
            }
        ),
        "{error:?}"
    );
    let mut short = FastCgiExchange::new();
    short.begin(&request).unwrap();
    short.push_body(Bytes::from_static(b"1234")).unwrap();
    let error = short.end_body().unwrap_err();
    assert!(
        matches!(
            error,
            Error::BodyLength {
                declared: 10,
                given: 4
            }
        ),
        "{error:?}"
    );
    assert!(!short.is_reusable() && !long.is_reusable());
    // Neither may end STDIN, because PHP would run the script with an incomplete form.
    assert!(!short.outgoing().has_remaining() && !long.outgoing().has_remaining());
}

#[test]
fn oversized_variables_are_rejected_before_the_request() {
    let mut exchange = FastCgiExchange::new();
    let value = vec![0; galley_fastcgi::params::MAX_BYTES];
    let variables = [(b"A".as_slice().into(), value.into())];
    let error = exchange
        .begin(&FastCgiRequest {
            variables: &variables,
            body_length: 0,
        })
        .unwrap_err();
    assert!(matches!(error, Error::Variables { .. }), "{error:?}");
    assert!(exchange.is_reusable() && !exchange.outgoing().has_remaining());
}

#[test]
fn pending_output_is_limited() {
    let mut exchange = FastCgiExchange::new();
    exchange
        .begin(&FastCgiRequest {
            variables: &[],
            body_length: 1 << 40,
        })
        .unwrap();
    let mut max_pending = 0;
    for _ in 0..200 {
        while exchange.wants_body() {
            exchange.push_body(Bytes::from_static(&[0; 9000])).unwrap();
        }
        max_pending = max_pending.max(exchange.outgoing().remaining());
        exchange.outgoing().advance(5000);
        exchange.frame();
    }
    assert!(
        (OUTPUT_BYTES..OUTPUT_BYTES + 33 * 1024).contains(&max_pending),
        "{max_pending} bytes pending"
    );
    // A chunk far larger than the limit is kept by reference and framed as output is written.
    let mut exchange = FastCgiExchange::new();
    exchange
        .begin(&FastCgiRequest {
            variables: &[],
            body_length: 1 << 23,
        })
        .unwrap();
    exchange.push_body(Bytes::from(vec![3; 1 << 23])).unwrap();
    assert!(exchange.outgoing().remaining() < OUTPUT_BYTES + 33 * 1024);
    let written = drain(&mut exchange);
    let mut rest = &written[..];
    let mut body = 0;
    while let Ok(ParsedRecord::Whole {
        header,
        content,
        length,
    }) = records::parse(rest)
    {
        if header.code == RecordType::Stdin.code() {
            body += content.len();
        }
        rest = &rest[length..];
    }
    assert!(rest.is_empty());
    assert_eq!(body, 1 << 23);
}

#[test]
fn the_read_buffer_is_limited() {
    let mut exchange = sent();
    let record = record(1, 6, &vec![b'x'; 60_000], 0);
    for _ in 0..50 {
        for piece in record.chunks(5000) {
            let input: &mut BytesMut = exchange.input();
            assert!(input.capacity() <= 64 * 1024 && input.capacity() - input.len() >= 8 * 1024);
            input.extend_from_slice(piece);
            while exchange.event().unwrap().is_some() {}
        }
    }
}

proptest! {
    #[test]
    fn parsing_arbitrary_bytes_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        receive(&mut sent(), &[&bytes]);
    }

    /// Mostly valid records, split anywhere, have the same result as unsplit.
    #[test]
    fn records_may_be_split_anywhere(
        records in proptest::collection::vec(
            (prop_oneof![8 => Just(1_u16), 1 => Just(0_u16), 1 => 0_u16..3], prop_oneof![8 => 6_u8..8, 1 => 10_u8..12, 1 => any::<u8>()],
             proptest::collection::vec(any::<u8>(), 0..40), 0_u8..10), 0..8),
        has_end: bool,
        cuts in proptest::collection::vec(0_usize..400, 0..10),
    ) {
        let mut bytes: Vec<u8> = records.iter().flat_map(|(id, code, content, padding)| record(*id, *code, content, *padding)).collect();
        if has_end { bytes.extend(end()) }
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for cut in cuts { pieces.push(&bytes[from..cut]); from = cut; }
        pieces.push(&bytes[from..]);
        prop_assert_eq!(receive(&mut sent(), &pieces), receive(&mut sent(), &[&bytes]));
    }
}
