//! Conditional requests: whether a client's copy is still valid, and whether a range may be combined with it.
//!
//! RFC 9110 §13, in its order of precedence: `If-Match` before `If-Unmodified-Since`, then `If-None-Match` before
//! `If-Modified-Since`. To be called only if the response without conditions would be 200. [`evaluate`] is for responses of
//! which Galley is the origin (files); [`evaluate_stored`] for stored responses, for which a cache ignores the first two
//! (§13.1.1, §13.1.4): they prevent lost updates, which only the origin can detect. The conditions with which Galley
//! revalidates stored responses are separate and never mixed with these.

use std::time::SystemTime;

use http::header::{self, HeaderName};

use crate::request_info::{Method, RequestInfo};
use crate::time::parse_date;

/// The effect of the conditions on the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionalResult {
    /// The response is the same as without conditions.
    Proceed,
    /// The response is a 304, with the validators and caching fields of the 200.
    NotModified,
    /// The response is a 412.
    Failed,
}

/// The validators of the selected representation. The tag is that of its content coding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Validators<'a> {
    /// The whole value of `ETag`, including quotes and `W/`.
    pub etag: Option<&'a [u8]>,
    /// `Last-Modified`; fractions of a second are ignored.
    pub last_modified: Option<SystemTime>,
}

/// The fields of a 200 that a 304 in its place also has (RFC 9110 §15.4.5).
pub static OF_NOT_MODIFIED: [HeaderName; 7] = [
    header::CACHE_CONTROL,
    header::CONTENT_LOCATION,
    header::DATE,
    header::ETAG,
    header::EXPIRES,
    header::LAST_MODIFIED,
    header::VARY,
];

/// Evaluates all preconditions, as an origin does.
pub fn evaluate(info: &RequestInfo, v: &Validators<'_>) -> ConditionalResult {
    let is_met = match (
        info.if_match(),
        info.if_unmodified_since().and_then(parse_date),
        v.last_modified,
    ) {
        (Some(list), _, _) => matches_any(list, v.etag, Comparison::Strong),
        (None, Some(limit), Some(modified)) => seconds(modified) <= seconds(limit),
        (None, None, _) | (None, _, None) => true,
    };
    if !is_met {
        return ConditionalResult::Failed;
    }
    evaluate_stored(info, v)
}

/// Evaluates `If-None-Match`, or if it is absent `If-Modified-Since`.
pub fn evaluate_stored(info: &RequestInfo, v: &Validators<'_>) -> ConditionalResult {
    let is_read = matches!(info.method(), Method::Get | Method::Head);
    if let Some(list) = info.if_none_match() {
        return match (matches_any(list, v.etag, Comparison::Weak), is_read) {
            (false, _) => ConditionalResult::Proceed,
            (true, true) => ConditionalResult::NotModified,
            (true, false) => ConditionalResult::Failed,
        };
    }
    match (
        info.if_modified_since().and_then(parse_date),
        v.last_modified,
    ) {
        (Some(since), Some(modified)) if is_read && seconds(modified) <= seconds(since) => {
            ConditionalResult::NotModified
        }
        _ => ConditionalResult::Proceed,
    }
}

/// Whether `Range` applies in the presence of `If-Range` (RFC 9110 §13.1.5): the field must have the same strong tag, or exactly
/// the date of `Last-Modified`. True without the field.
pub fn range_applies(if_range: Option<&[u8]>, v: &Validators<'_>) -> bool {
    let Some(value) = if_range.map(<[u8]>::trim_ascii) else {
        return true;
    };
    if let Some((tag, after)) = split_tag(value) {
        return after.is_empty()
            && v.etag
                .is_some_and(|ours| is_same(tag, ours, Comparison::Strong));
    }
    match (parse_date(value), v.last_modified) {
        (Some(date), Some(modified)) => seconds(date) == seconds(modified),
        _ => false,
    }
}

/// The comparison of entity tags (RFC 9110 §8.8.3.2).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    /// Neither tag may be weak.
    Strong,
    /// `W/` is ignored.
    Weak,
}

/// Whether a list of tags, or `*`, matches. Invalid tags are skipped. `*` matches, because a representation exists.
fn matches_any(list: &[u8], ours: Option<&[u8]>, comparison: Comparison) -> bool {
    let mut rest = list.trim_ascii();
    if rest == b"*" {
        return true;
    }
    let Some(ours) = ours else { return false };
    while !rest.is_empty() {
        if let Some((tag, after)) = split_tag(rest) {
            if is_same(tag, ours, comparison) {
                return true;
            }
            rest = after;
        }
        let comma =
            memchr::memchr(b',', rest).map_or(rest.len(), |position| position.saturating_add(1));
        rest = rest.get(comma..).unwrap_or_default().trim_ascii_start();
    }
    false
}

/// Splits an entity tag from the start; commas inside are part of it.
pub(crate) fn split_tag(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let opaque = text.strip_prefix(b"W/").unwrap_or(text);
    let inside = opaque.strip_prefix(b"\"")?;
    let end = memchr::memchr(b'"', inside)?;
    let after = inside.get(end.saturating_add(1)..)?;
    text.split_at_checked(text.len().saturating_sub(after.len()))
}

fn is_same(theirs: &[u8], ours: &[u8], comparison: Comparison) -> bool {
    let (their_opaque, our_opaque) = (theirs.strip_prefix(b"W/"), ours.strip_prefix(b"W/"));
    if comparison == Comparison::Strong && (their_opaque.is_some() || our_opaque.is_some()) {
        return false;
    }
    their_opaque.unwrap_or(theirs) == our_opaque.unwrap_or(ours)
}

/// The whole seconds of a time. HTTP dates have no fractions; a file's time must not appear newer than the date sent for it.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn lists_of_tags_are_compared() {
        // list, our tag, strong, weak
        let table: &[(&str, Option<&str>, bool, bool)] = &[
            ("\"a\"", Some("\"a\""), true, true),
            ("\"a\"", Some("\"b\""), false, false),
            ("W/\"a\"", Some("\"a\""), false, true),
            ("\"a\"", Some("W/\"a\""), false, true),
            ("W/\"a\"", Some("W/\"a\""), false, true),
            ("\"x\", \"a\"", Some("\"a\""), true, true),
            ("\"x\",W/\"y\" , \"a\"", Some("\"a\""), true, true),
            ("\"x,\\\", \"a\"", Some("\"a\""), true, true),
            ("\"x, \"a\"", Some("\"a\""), false, false),
            ("junk, \"a\"", Some("\"a\""), true, true),
            (",, \"a\"", Some("\"a\""), true, true),
            ("a", Some("\"a\""), false, false),
            ("\"a", Some("\"a\""), false, false),
            ("w/\"a\"", Some("\"a\""), false, false),
            ("\"a\"\"b\"", Some("\"b\""), false, false),
            ("*", Some("\"a\""), true, true),
            ("*", None, true, true),
            ("\"*\"", Some("\"a\""), false, false),
            ("\"a\"", None, false, false),
            ("", Some("\"a\""), false, false),
            ("\"\"", Some("\"\""), true, true),
        ];
        for (list, ours, strong, weak) in table {
            let found =
                |comparison| matches_any(list.as_bytes(), ours.map(str::as_bytes), comparison);
            assert_eq!(found(Comparison::Strong), *strong, "{list} strong");
            assert_eq!(found(Comparison::Weak), *weak, "{list} weak");
        }
    }

    #[test]
    fn if_range_needs_the_same_strong_tag_or_date() {
        let modified = UNIX_EPOCH + Duration::from_secs(784_111_777) + Duration::from_millis(300);
        let strong = Validators {
            etag: Some(b"\"a\""),
            last_modified: Some(modified),
        };
        let weak = Validators {
            etag: Some(b"W/\"a\""),
            last_modified: None,
        };
        let table: &[(Option<&str>, bool, bool)] = &[
            (None, true, true),
            (Some("\"a\""), true, false),
            (Some(" \"a\" "), true, false),
            (Some("W/\"a\""), false, false),
            (Some("\"b\""), false, false),
            (Some("\"a\", \"b\""), false, false),
            (Some("Sun, 06 Nov 1994 08:49:37 GMT"), true, false),
            (Some("Sun, 06 Nov 1994 08:49:38 GMT"), false, false),
            (Some("*"), false, false),
            (Some(""), false, false),
        ];
        for (value, with_strong, with_weak) in table {
            let value = value.map(str::as_bytes);
            assert_eq!(range_applies(value, &strong), *with_strong, "{value:?}");
            assert_eq!(range_applies(value, &weak), *with_weak, "{value:?}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(list in proptest::collection::vec(any::<u8>(), 0..60), ours in proptest::collection::vec(any::<u8>(), 0..10)) {
            let _ = matches_any(&list, Some(&ours), Comparison::Weak);
            let _ = range_applies(Some(&list), &Validators { etag: Some(&ours), last_modified: None });
        }

        #[test]
        fn a_listed_tag_is_found(before in "(\"[a-z,]{0,5}\", ?){0,4}", tag in "\"[!-+a-z]{0,6}\"") {
            let tag = tag.replace('"', "");
            let tag = format!("\"{tag}\"");
            let list = format!("{before}{tag}");
            prop_assert!(matches_any(list.as_bytes(), Some(tag.as_bytes()), Comparison::Strong));
        }
    }
}
