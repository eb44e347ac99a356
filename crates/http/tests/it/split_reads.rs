//! The streams of the corpus have the expected result, wherever reads end.

use crate::corpus::cases;
use crate::reader::{read_pieces, read_whole};

#[test]
fn every_stream_has_the_expected_result() {
    let cases = cases();
    assert!(cases.len() >= 140, "{} cases", cases.len());
    for case in cases {
        let reading = read_whole(&case.stream);
        let actual = (reading.requests.len(), reading.end);
        assert_eq!(actual, (case.requests, case.end), "{}", case.name);
    }
}

#[test]
fn a_read_that_ends_at_any_byte_changes_nothing() {
    for case in cases() {
        let whole = read_whole(&case.stream);
        for at in 0..=case.stream.len() {
            let (first, second) = case.stream.split_at(at);
            let reading = read_pieces([first, second]);
            assert_eq!(reading, whole, "{} split at {at}", case.name);
        }
    }
}

#[test]
fn reading_byte_by_byte_changes_nothing() {
    for case in cases() {
        let reading = read_pieces(case.stream.chunks(1));
        assert_eq!(reading, read_whole(&case.stream), "{}", case.name);
    }
}

#[test]
fn oversized_heads_are_rejected_as_soon_as_they_exceed_the_limit() {
    for case in cases() {
        if !case.name.ends_with("never ends") {
            continue;
        }
        let limit = match case.name {
            "head that never ends" => 2048,
            _ => 512 + 32 + b"  HTTP/1.1\r\n".len(),
        };
        let below_limit = read_whole(&case.stream[..limit - 1]);
        assert_eq!(
            below_limit.end,
            crate::reader::StreamEnd::Partial,
            "{}",
            case.name
        );
        let at_limit = read_whole(&case.stream[..limit]);
        assert_eq!(at_limit.end, case.end, "{}", case.name);
    }
}
