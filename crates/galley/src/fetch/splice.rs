//! Replaces the bytes of some fragments in a page.

use std::ops::Range;
use std::time::SystemTime;

use galley_policy::time::write_date;
use http::header::{self, HeaderMap, HeaderValue};

use super::entry_parts::strong_etag;

/// A body, and the positions of its fragments.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SplicedBody {
    pub(super) body: Vec<u8>,
    pub(super) ranges: Vec<Range<u32>>,
}

/// Copies a body and replaces some of its fragments. Each fragment, in the order of the body, has its range and, if it is
/// replaced, its new bytes. `None`: the ranges do not fit this body.
pub(super) fn splice<'b>(
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

/// Updates the validators and the length: another body is another representation (RFC 9110 section 8.8).
pub(super) fn renew_validators(fields: &mut HeaderMap, body: &[u8], now: SystemTime) {
    fields.insert(header::ETAG, strong_etag(body));
    if fields.contains_key(header::LAST_MODIFIED) {
        let mut text = Vec::with_capacity(29);
        write_date(now, &mut text);
        if let Ok(value) = HeaderValue::from_bytes(&text) {
            fields.insert(header::LAST_MODIFIED, value);
        }
    }
    if fields.contains_key(header::CONTENT_LENGTH) {
        fields.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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

    #[test]
    fn validators_match_the_new_body() {
        let mut fields = HeaderMap::new();
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        renew_validators(&mut fields, b"new", now);
        assert_eq!(
            fields.len(),
            1,
            "only what is there is renewed, and an ETag"
        );
        let before = "Sat, 05 Nov 1994 08:49:37 GMT";
        fields.insert(header::LAST_MODIFIED, HeaderValue::from_static(before));
        fields.insert(header::CONTENT_LENGTH, HeaderValue::from_static("99"));
        fields.insert(header::ETAG, HeaderValue::from_static("W/\"old\""));
        renew_validators(&mut fields, b"new", now);
        assert_eq!(fields[header::ETAG], strong_etag(b"new"));
        assert_ne!(fields[header::ETAG], strong_etag(b"old"));
        assert_eq!(
            fields[header::LAST_MODIFIED],
            "Sun, 06 Nov 1994 08:49:37 GMT"
        );
        assert_eq!(fields[header::CONTENT_LENGTH], "3");
    }
}
