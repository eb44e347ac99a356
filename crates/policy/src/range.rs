//! `Range`: the requested bytes of a representation (RFC 9110 §14).
//!
//! Only the unit `bytes` is supported. Another unit, a malformed value, and more parts than a fair client needs mean the
//! whole representation, as if the field were absent. Overlapping and adjacent ranges are joined, so a response is never
//! larger than the representation, however often a part was requested (a known way to exhaust servers). Whether the field
//! applies at all (`If-Range`, method, status) is decided in [`crate::conditional`] and by the caller.

/// Bytes `start..end` of a representation; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ByteSpan {
    /// The first byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

impl ByteSpan {
    /// The number of bytes.
    pub const fn length(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// The union of both, if they overlap or are adjacent.
    pub fn union(self, other: Self) -> Option<Self> {
        (self.start <= other.end && other.start <= self.end).then(|| Self {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        })
    }
}

/// The content of a 206 with one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialContent {
    /// The range of its bytes.
    pub span: ByteSpan,
    /// The length of the whole representation, if it is stated; never below the end of the range.
    pub complete: Option<u64>,
}

/// Parses a `Content-Range` of bytes (RFC 9110 §14.4); `None` for an unsatisfied range, another unit and invalid values.
pub fn held(value: &[u8]) -> Option<PartialContent> {
    let (unit, rest) = value.trim_ascii().split_at_checked(b"bytes ".len())?;
    if !unit.eq_ignore_ascii_case(b"bytes ") {
        return None;
    }
    let (range, complete) = rest.split_at(memchr::memchr(b'/', rest)?);
    let (first, last) = range.split_at(memchr::memchr(b'-', range)?);
    let span = ByteSpan {
        start: number(first)?,
        end: number(last.get(1..)?)?.checked_add(1)?,
    };
    let complete = match complete.get(1..)? {
        b"*" => None,
        digits => Some(number(digits)?),
    };
    let is_sound = span.start < span.end && complete.is_none_or(|length| span.end <= length);
    is_sound.then_some(PartialContent { span, complete })
}

/// The response to a `Range`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// A 200 with the whole representation.
    Whole,
    /// A 416 with `Content-Range: bytes */length`.
    Unsatisfiable,
    /// A 206 with one part.
    One(ByteSpan),
    /// A 206 as `multipart/byteranges`: 2 to [`MAX_PARTS`] parts, ascending, none adjacent to another.
    Many(Vec<ByteSpan>),
}

/// Parses a `Range` field for a representation of `length` bytes.
pub fn parse(value: &[u8], length: u64) -> Ranges {
    let Some(specs) = after_unit(value.trim_ascii()) else {
        return Ranges::Whole;
    };
    let mut spans = Vec::new();
    let mut count = 0_usize;
    for spec in specs
        .split(|&byte| byte == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|spec| !spec.is_empty())
    {
        count = count.saturating_add(1);
        if count > MAX_SPECS {
            return Ranges::Whole;
        }
        match one(spec, length) {
            RangeSpec::Malformed => return Ranges::Whole,
            RangeSpec::Outside => {}
            RangeSpec::Inside(span) => spans.push(span),
        }
    }
    if count == 0 {
        return Ranges::Whole;
    }
    coalesce(&mut spans);
    match spans.as_slice() {
        [] => Ranges::Unsatisfiable,
        [span] => Ranges::One(*span),
        more if more.len() <= MAX_PARTS => Ranges::Many(spans),
        _ => Ranges::Whole,
    }
}

/// The maximum number of parts in one response, after joining.
pub const MAX_PARTS: usize = 16;

enum RangeSpec {
    Malformed,
    Outside,
    Inside(ByteSpan),
}

/// The text after `bytes=`, in any case (RFC 9110 §14.1: range units are case-insensitive).
fn after_unit(value: &[u8]) -> Option<&[u8]> {
    let (unit, specs) = value.split_at_checked(b"bytes=".len())?;
    unit.eq_ignore_ascii_case(b"bytes=").then_some(specs)
}

/// Parses one of `first-last`, `first-`, `-suffix`.
fn one(spec: &[u8], length: u64) -> RangeSpec {
    let Some(dash) = memchr::memchr(b'-', spec) else {
        return RangeSpec::Malformed;
    };
    let (first, last) = spec.split_at(dash);
    let last = last.get(1..).unwrap_or_default();
    let (start, end) = match (number(first), number(last)) {
        (Some(first), Some(last)) if first > last => return RangeSpec::Malformed,
        (Some(first), Some(last)) => (first, last.saturating_add(1).min(length)),
        (Some(first), None) if last.is_empty() => (first, length),
        (None, Some(suffix)) if first.is_empty() => (length.saturating_sub(suffix), length),
        _ => return RangeSpec::Malformed,
    };
    if start < end {
        RangeSpec::Inside(ByteSpan { start, end })
    } else {
        RangeSpec::Outside
    }
}

/// Parses digits; values that are too large give the largest number.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |sum: u64, digit| {
        sum.saturating_mul(10)
            .saturating_add(u64::from(digit.saturating_sub(b'0')))
    }))
}

/// Sorts ranges, and joins those that overlap or are adjacent.
fn coalesce(spans: &mut Vec<ByteSpan>) {
    spans.sort_unstable_by_key(|span| (span.start, span.end));
    spans.dedup_by(|next, kept| {
        let joins = next.start <= kept.end;
        if joins {
            kept.end = kept.end.max(next.end);
        }
        joins
    });
}

/// The maximum number of ranges; a head of the usual size could contain thousands.
const MAX_SPECS: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span(start: u64, end: u64) -> ByteSpan {
        ByteSpan { start, end }
    }

    #[test]
    fn content_ranges_are_parsed() {
        let held_of = |start, end, complete| {
            let span = ByteSpan { start, end };
            Some(PartialContent { span, complete })
        };
        let table = [
            ("bytes 0-3/10", held_of(0, 4, Some(10))),
            ("Bytes 4-9/10", held_of(4, 10, Some(10))),
            ("bytes 4-9/*", held_of(4, 10, None)),
            ("bytes 4-10/10", None),
            ("bytes 4-3/10", None),
            ("bytes */10", None),
            ("bytes=0-3/10", None),
            ("bytes 0-3", None),
            ("bytes -3/10", None),
            ("bytes 0-/10", None),
            ("bytes +0-3/10", None),
            ("bytes 0-18446744073709551615/*", None),
            ("lines 0-3/10", None),
            ("", None),
        ];
        for (text, wanted) in table {
            assert_eq!(held(text.as_bytes()), wanted, "{text}");
        }
    }

    #[test]
    fn adjacent_ranges_are_joined() {
        let span = |start, end| ByteSpan { start, end };
        let table = [
            (span(0, 4), span(4, 6), Some(span(0, 6))),
            (span(0, 4), span(2, 3), Some(span(0, 4))),
            (span(0, 4), span(3, 9), Some(span(0, 9))),
            (span(0, 4), span(5, 6), None),
        ];
        for (one, other, wanted) in table {
            assert_eq!(one.union(other), wanted, "{one:?} {other:?}");
            assert_eq!(other.union(one), wanted, "{other:?} {one:?}");
        }
    }

    #[test]
    fn ranges_of_a_hundred_bytes_are_parsed() {
        let table: &[(&str, Ranges)] = &[
            ("bytes=0-0", Ranges::One(span(0, 1))),
            ("bytes=0-99", Ranges::One(span(0, 100))),
            ("bytes=10-", Ranges::One(span(10, 100))),
            ("bytes=-10", Ranges::One(span(90, 100))),
            ("bytes=-1000", Ranges::One(span(0, 100))),
            ("bytes=90-1000", Ranges::One(span(90, 100))),
            ("Bytes=5-6", Ranges::One(span(5, 7))),
            (" bytes=5-6 ", Ranges::One(span(5, 7))),
            ("bytes=0-99999999999999999999999", Ranges::One(span(0, 100))),
            ("bytes=0-1, 4-5", Ranges::Many(vec![span(0, 2), span(4, 6)])),
            ("bytes=4-5,0-1", Ranges::Many(vec![span(0, 2), span(4, 6)])),
            (
                "bytes=,0-1,,4-5,",
                Ranges::Many(vec![span(0, 2), span(4, 6)]),
            ),
            ("bytes=0-1,2-3", Ranges::One(span(0, 4))),
            ("bytes=0-50,10-20,40-60", Ranges::One(span(0, 61))),
            ("bytes=0-,0-,0-,0-", Ranges::One(span(0, 100))),
            ("bytes=0-1,200-300", Ranges::One(span(0, 2))),
            ("bytes=100-", Ranges::Unsatisfiable),
            ("bytes=100-200,300-", Ranges::Unsatisfiable),
            ("bytes=-0", Ranges::Unsatisfiable),
            ("bytes=99999999999999999999999-", Ranges::Unsatisfiable),
            ("bytes=5-4", Ranges::Whole),
            ("bytes=0-1,5-4", Ranges::Whole),
            ("bytes=", Ranges::Whole),
            ("bytes=,", Ranges::Whole),
            ("bytes=-", Ranges::Whole),
            ("bytes=a-b", Ranges::Whole),
            ("bytes=1", Ranges::Whole),
            ("bytes=+1-2", Ranges::Whole),
            ("bytes=1-2-3", Ranges::Whole),
            ("bytes = 1-2", Ranges::Whole),
            ("bytes:1-2", Ranges::Whole),
            ("items=1-2", Ranges::Whole),
            ("", Ranges::Whole),
        ];
        for (text, wanted) in table {
            assert_eq!(parse(text.as_bytes(), 100), *wanted, "{text}");
        }
    }

    #[test]
    fn an_empty_representation_has_no_ranges() {
        assert_eq!(parse(b"bytes=0-", 0), Ranges::Unsatisfiable);
        assert_eq!(parse(b"bytes=-5", 0), Ranges::Unsatisfiable);
    }

    #[test]
    fn parts_are_limited_after_joining() {
        let apart = |count: usize| {
            let specs: Vec<String> = (0..count).map(|n| format!("{}-{}", n * 3, n * 3)).collect();
            format!("bytes={}", specs.join(","))
        };
        assert!(
            matches!(parse(apart(MAX_PARTS).as_bytes(), 1000), Ranges::Many(parts) if parts.len() == MAX_PARTS)
        );
        assert_eq!(parse(apart(MAX_PARTS + 1).as_bytes(), 1000), Ranges::Whole);
        let same = format!("bytes={}", vec!["0-9"; MAX_SPECS].join(","));
        assert_eq!(parse(same.as_bytes(), 1000), Ranges::One(span(0, 10)));
        assert_eq!(parse(format!("{same},0-9").as_bytes(), 1000), Ranges::Whole);
    }

    proptest! {
        #[test]
        fn any_content_range_is_accepted(value in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = held(&value);
        }

        #[test]
        fn spans_are_inside_ascending_and_not_adjacent(value in "bytes=([0-9]{0,4}-[0-9]{0,4},? ?){1,30}", length in 0..3000_u64) {
            let spans = match parse(value.as_bytes(), length) {
                Ranges::Whole | Ranges::Unsatisfiable => vec![],
                Ranges::One(span) => vec![span],
                Ranges::Many(spans) => spans,
            };
            for span in &spans {
                prop_assert!(span.start < span.end && span.end <= length);
            }
            for pair in spans.windows(2) {
                prop_assert!(pair[0].end < pair[1].start);
            }
        }

        #[test]
        fn never_panics(value in proptest::collection::vec(any::<u8>(), 0..60), length in any::<u64>()) {
            let _ = parse(&value, length);
        }
    }
}
