//! Each case of `http1.txt`, cut at every byte, in the reader that the server uses: where a read ends changes nothing.

use crate::case::{Fate, cases};
use crate::corpus::file;
use crate::reader::{End, read_pieces, read_whole};

/// Longer ones are of one letter for the most part.
const SHORT: usize = 1500;

#[test]
fn a_cut_at_any_byte_of_any_case_changes_nothing() {
    for case in cases(&file()) {
        let whole = read_whole(&case.bytes);
        for at in 0..=case.bytes.len().min(SHORT) {
            let (first, second) = case.bytes.split_at(at);
            let cut = read_pieces([first, second]);
            assert_eq!(cut, whole, "{} cut at {at}", case.name);
        }
        let by_byte = read_pieces(case.bytes.chunks(1));
        assert_eq!(by_byte, whole, "{} byte by byte", case.name);
    }
}

/// What must be refused for its form is refused by the reader, before anybody else can be wrong about it.
#[test]
fn what_is_refused_is_refused_by_the_reader() {
    for case in cases(&file()) {
        let is_of_form = |statuses: &Vec<String>| statuses.iter().any(|s| OF_FORM.contains(&&**s));
        let right = &case.right;
        let reading = read_whole(&case.bytes);
        match right.fate {
            Fate::Waits => assert_eq!(reading.end, End::Partial, "{}", case.name),
            Fate::Close if right.statuses.last().is_some_and(is_of_form) => {
                assert!(
                    matches!(reading.end, End::Refused(_) | End::Closed),
                    "{}: {reading:?}",
                    case.name
                );
                let is_smuggled = |target: &str| target.contains("/smuggled");
                let mut read = reading.requests.iter();
                assert!(
                    !read.any(|request| is_smuggled(&request.target)),
                    "{}",
                    case.name
                );
            }
            Fate::Close | Fate::Keep | Fate::Any => {}
        }
    }
}

/// Statuses that say that a request cannot be read.
const OF_FORM: &[&str] = &["400", "414", "417", "431", "501", "505"];
