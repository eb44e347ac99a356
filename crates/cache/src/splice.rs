//! Puts other bytes in place of some fragments of a body, without copying it.

use std::ops::Range;

use bytes::Bytes;

/// A body in pieces, and the positions of its fragments.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SplicedBody {
    /// The pieces in their order, none of which is empty. They share the bytes of the original body and of the replacements.
    pub pieces: Vec<Bytes>,
    /// The position of each fragment in the whole.
    pub ranges: Vec<Range<u32>>,
}

impl SplicedBody {
    fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.pieces.push(piece);
        }
    }
}

/// Replaces some of the fragments of a body. Each fragment, in the order of the body, has its range and, if it is replaced, its
/// new bytes. `None`: the ranges do not fit this body, or overlap.
pub fn splice<'b>(
    body: &Bytes,
    fragments: impl Iterator<Item = (&'b Range<u32>, Option<Bytes>)>,
) -> Option<SplicedBody> {
    let mut spliced = SplicedBody::default();
    // Where the bytes begin that the next piece shares, the end of the last fragment, and its end in the new body.
    let (mut shared, mut at, mut length) = (0, 0, 0_usize);
    for (range, replacement) in fragments {
        let from = usize::try_from(range.start).ok()?;
        let to = usize::try_from(range.end).ok()?;
        length += body.get(at..from)?.len();
        let start = u32::try_from(length).ok()?;
        let replaced_bytes = body.get(from..to)?.len();
        length += replacement.as_ref().map_or(replaced_bytes, Bytes::len);
        if let Some(new) = replacement {
            spliced.push(body.slice(shared..from));
            spliced.push(new);
            shared = to;
        }
        spliced.ranges.push(start..u32::try_from(length).ok()?);
        at = to;
    }
    spliced.push(body.slice(shared..));
    Some(spliced)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(spliced: &SplicedBody) -> String {
        String::from_utf8(spliced.pieces.concat()).unwrap()
    }

    fn whole_length(spliced: &SplicedBody) -> usize {
        spliced.pieces.iter().map(Bytes::len).sum()
    }

    #[test]
    fn fragments_after_a_longer_or_shorter_replacement_move() {
        let body = Bytes::from_static(b"0123456789");
        let ranges = [2..4, 4..4, 6..9];
        let spliced = |new: [Option<&'static str>; 3]| {
            let new = new.map(|text| text.map(|text| Bytes::from_static(text.as_bytes())));
            let spliced = splice(&body, ranges.iter().zip(new)).unwrap();
            (whole(&spliced), spliced.ranges)
        };
        assert_eq!(
            spliced([None, None, None]),
            ("0123456789".to_owned(), ranges.to_vec())
        );
        assert_eq!(
            spliced([Some("abcde"), Some("f"), Some("")]),
            ("01abcdef459".to_owned(), vec![2..7, 7..8, 10..10])
        );
    }

    #[test]
    fn ranges_of_another_body_are_rejected() {
        let table: [&[(u32, u32)]; 8] = [
            &[(9, 11)],
            &[(11, 11)],
            &[(u32::MAX, u32::MAX)],
            &[(4, 6), (2, 3)],
            &[(3, 2)],
            &[(0, u32::MAX)],
            // One within another, and one that begins within another.
            &[(2, 8), (3, 4)],
            &[(0, 2), (1, 3)],
        ];
        for row in table {
            for new in [None, Some(Bytes::from_static(b"new"))] {
                let ranges: Vec<Range<u32>> = row.iter().map(|&(start, end)| start..end).collect();
                let fragments = ranges.iter().map(|range| (range, new.clone()));
                let spliced = splice(&Bytes::from_static(b"0123456789"), fragments);
                assert_eq!(spliced, None, "{ranges:?}");
            }
        }
    }

    #[test]
    fn pieces_share_the_bytes_of_the_body_and_of_the_replacements() {
        let (body, new) = (Bytes::from(vec![b'a'; 100]), Bytes::from(vec![b'b'; 50]));
        let ranges = [0..0, 10..20, 20..30, 90..100];
        let replaced = [
            Some(new.clone()),
            None,
            Some(new.clone()),
            Some(Bytes::new()),
        ];
        let spliced = splice(&body, ranges.iter().zip(replaced)).unwrap();
        let expected = [
            new.clone(),
            body.slice(..20),
            new.clone(),
            body.slice(30..90),
        ];
        assert_eq!(spliced.pieces, expected);
        for (piece, expected) in spliced.pieces.iter().zip(&expected) {
            assert_eq!(piece.as_ptr(), expected.as_ptr());
        }
    }

    proptest! {
        /// Fragments are at the beginning or the end, adjacent or empty whenever the text around them is empty.
        #[test]
        fn a_spliced_body_equals_a_page_generated_with_the_new_fragments(
            parts in prop::collection::vec(("[a-c]{0,4}", "[0-9]{0,4}", prop::option::of("[x-z]{0,6}")), 0..6),
            tail in "[a-c]{0,3}",
        ) {
            let (mut held, mut expected) = (String::new(), String::new());
            let (mut ranges, mut moved) = (Vec::new(), Vec::new());
            let print = |text: &mut String, around: &str, part: &str| {
                text.push_str(around);
                let start = text.len();
                text.push_str(part);
                u32::try_from(start).unwrap()..u32::try_from(text.len()).unwrap()
            };
            for (around, old, new) in &parts {
                ranges.push(print(&mut held, around, old));
                moved.push(print(&mut expected, around, new.as_ref().unwrap_or(old)));
            }
            held.push_str(&tail);
            expected.push_str(&tail);
            let new = parts.iter().map(|(_, _, new)| new.clone().map(Bytes::from));
            let spliced = splice(&Bytes::from(held), ranges.iter().zip(new)).unwrap();
            prop_assert_eq!(whole(&spliced), expected);
            prop_assert_eq!(&spliced.ranges, &moved);
            prop_assert!(spliced.pieces.iter().all(|piece| !piece.is_empty()));
        }

        #[test]
        fn any_ranges_are_accepted(
            body in prop::collection::vec(any::<u8>(), 0..40),
            ranges in prop::collection::vec((0..50_u32, 0..50_u32, any::<bool>()), 0..8),
        ) {
            let (body, new) = (Bytes::from(body), Bytes::from_static(b"own"));
            let (ranges, replaced): (Vec<_>, Vec<_>) = ranges
                .into_iter()
                .map(|(start, end, is_replaced)| (start..end, is_replaced.then(|| new.clone())))
                .unzip();
            if let Some(spliced) = splice(&body, ranges.iter().zip(replaced)) {
                prop_assert_eq!(spliced.ranges.len(), ranges.len());
                prop_assert!(whole_length(&spliced) <= body.len() + ranges.len() * new.len());
            }
        }
    }
}
