//! Replaces the bytes of some fragments in a body.

use std::ops::Range;

/// A body, and the positions of its fragments.
#[derive(Debug, PartialEq, Eq)]
pub struct SplicedBody {
    /// The bytes.
    pub body: Vec<u8>,
    /// The position of each fragment.
    pub ranges: Vec<Range<u32>>,
}

/// Copies a body and replaces some of its fragments. Each fragment, in the order of the body, has its range and, if it is
/// replaced, its new bytes. `None`: the ranges do not fit this body.
pub fn splice<'b>(
    body: &[u8],
    fragments: impl Iterator<Item = (&'b Range<u32>, Option<&'b [u8]>)>,
) -> Option<SplicedBody> {
    let mut new = Vec::with_capacity(body.len());
    let mut ranges = Vec::new();
    let mut copied = 0;
    for (range, replacement) in fragments {
        let from = usize::try_from(range.start).ok()?;
        let to = usize::try_from(range.end).ok()?;
        new.extend_from_slice(body.get(copied..from)?);
        let start = u32::try_from(new.len()).ok()?;
        let held = body.get(from..to)?;
        new.extend_from_slice(replacement.unwrap_or(held));
        ranges.push(start..u32::try_from(new.len()).ok()?);
        copied = to;
    }
    new.extend_from_slice(body.get(copied..)?);
    Some(SplicedBody { body: new, ranges })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fragments_after_a_longer_or_shorter_replacement_move() {
        let ranges = [2..4, 4..4, 6..9];
        let spliced = |new: [Option<&'static str>; 3]| {
            let new = new.map(|text| text.map(str::as_bytes));
            let spliced = splice(b"0123456789", ranges.iter().zip(new)).unwrap();
            (String::from_utf8(spliced.body).unwrap(), spliced.ranges)
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
        let table: [&[(u32, u32)]; 4] =
            [&[(9, 11)], &[(4, 6), (2, 3)], &[(3, 2)], &[(0, u32::MAX)]];
        for row in table {
            let ranges: Vec<Range<u32>> = row.iter().map(|&(start, end)| start..end).collect();
            let fragments = ranges.iter().map(|range| (range, None));
            assert_eq!(splice(b"0123456789", fragments), None, "{ranges:?}");
        }
    }

    proptest! {
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
            let new = parts.iter().map(|(_, _, new)| new.as_deref().map(str::as_bytes));
            let spliced = splice(held.as_bytes(), ranges.iter().zip(new)).unwrap();
            prop_assert_eq!(spliced, SplicedBody { body: expected.into_bytes(), ranges: moved });
        }
    }
}
