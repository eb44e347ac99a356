//! Feeds each case of `http1.txt` to the server's parser in pieces: where a read ends makes no difference.

use crate::case::{ConnectionState, parse_cases};
use crate::http1::read_file;
use crate::reader::{StreamEnd, read_pieces, read_whole};

/// Longest prefix to split. Longer streams mostly repeat one letter.
const SPLIT_LIMIT: usize = 1500;

#[test]
fn a_read_that_ends_at_any_byte_changes_nothing() {
    for case in parse_cases(&read_file()) {
        let whole = read_whole(&case.bytes);
        for at in 0..=case.bytes.len().min(SPLIT_LIMIT) {
            let (first, second) = case.bytes.split_at(at);
            let split = read_pieces([first, second]);
            assert_eq!(split, whole, "{} split at {at}", case.name);
        }
        let by_byte = read_pieces(case.bytes.chunks(1));
        assert_eq!(by_byte, whole, "{} byte by byte", case.name);
    }
}

/// The parser itself rejects malformed requests, before other code can misinterpret them.
#[test]
fn the_parser_rejects_malformed_requests() {
    for case in parse_cases(&read_file()) {
        let is_malformed =
            |statuses: &Vec<String>| statuses.iter().any(|s| MALFORMED.contains(&&**s));
        let expected = &case.expected;
        let reading = read_whole(&case.bytes);
        match expected.connection {
            ConnectionState::Waiting => {
                assert_eq!(reading.end, StreamEnd::Partial, "{}", case.name);
            }
            ConnectionState::Closed if expected.statuses.last().is_some_and(is_malformed) => {
                assert!(
                    matches!(reading.end, StreamEnd::Rejected(_) | StreamEnd::Closed),
                    "{}: {reading:?}",
                    case.name
                );
                let is_smuggled = |target: &str| target.contains("/smuggled");
                let mut requests = reading.requests.iter();
                assert!(
                    !requests.any(|request| is_smuggled(&request.target)),
                    "{}",
                    case.name
                );
            }
            ConnectionState::Closed | ConnectionState::Open | ConnectionState::Any => {}
        }
    }
}

/// Statuses for requests that cannot be parsed.
const MALFORMED: &[&str] = &["400", "414", "417", "431", "501", "505"];
