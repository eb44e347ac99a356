//! The corpus is read as it says, and in the same way however it is cut.

use crate::corpus::cases;
use crate::reader::{read_pieces, read_whole};

#[test]
fn the_corpus_is_read_as_it_says() {
    let cases = cases();
    assert!(cases.len() >= 140, "{} cases", cases.len());
    for case in cases {
        let reading = read_whole(&case.stream);
        let found = (reading.requests.len(), reading.end);
        assert_eq!(found, (case.requests, case.end), "{}", case.name);
    }
}

#[test]
fn a_cut_at_any_byte_changes_nothing() {
    for case in cases() {
        let whole = read_whole(&case.stream);
        for at in 0..=case.stream.len() {
            let (first, second) = case.stream.split_at(at);
            let reading = read_pieces([first, second]);
            assert_eq!(reading, whole, "{} cut at {at}", case.name);
        }
    }
}

#[test]
fn byte_by_byte_changes_nothing() {
    for case in cases() {
        let reading = read_pieces(case.stream.chunks(1));
        assert_eq!(reading, read_whole(&case.stream), "{}", case.name);
    }
}

#[test]
fn a_refusal_of_size_comes_when_the_limit_is_passed() {
    for case in cases() {
        if !case.name.ends_with("never ends") {
            continue;
        }
        let limit = match case.name {
            "head that never ends" => 2048,
            _ => 512 + 32 + b"  HTTP/1.1\r\n".len(),
        };
        let before = read_whole(&case.stream[..limit - 1]);
        assert_eq!(before.end, crate::reader::End::Partial, "{}", case.name);
        let at = read_whole(&case.stream[..limit]);
        assert_eq!(at.end, case.end, "{}", case.name);
    }
}
