//! The header fields of an entry, stored once, in a separate buffer, as the lines that are sent.
//!
//! The values of the map are slices of those lines. So a hit copies its head instead of formatting it, and the map costs
//! only its names. The copy also releases the buffer into which a client library read the response: one short value would
//! otherwise keep that whole buffer alive as long as the entry, outside of the memory budget.
//!
//! The fields of a 304 come first, so that its head is the beginning of the whole head. Fields about the message's length
//! or the connection have no lines.

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};
use galley_policy::conditional::OF_NOT_MODIFIED;
use galley_policy::fields::is_hop_by_hop;
use galley_policy::headers::mask_of;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// The lines of a stored head, `name: value` and CRLF each, without status line, empty line and framing fields.
#[derive(Clone, Debug, Default)]
pub struct FieldLines {
    /// All lines, then the values of fields that have no lines.
    buffer: Bytes,
    all: usize,
    of_not_modified: usize,
    is_dated: bool,
    mask: u64,
}

impl FieldLines {
    /// The lines of a 200.
    pub fn all(&self) -> &[u8] {
        self.buffer.get(..self.all).unwrap_or_default()
    }

    /// The lines that a 304 for this response contains (RFC 9110 section 15.4.5).
    pub fn of_not_modified(&self) -> &[u8] {
        self.buffer.get(..self.of_not_modified).unwrap_or_default()
    }

    /// Whether the lines contain `Date`. If so, the lines of a 304 contain it, too.
    pub fn is_dated(&self) -> bool {
        self.is_dated
    }

    /// The bits of all names. A name whose bit is not set has no line.
    pub fn mask(&self) -> u64 {
        self.mask
    }

    /// The fields for whose names `is_wanted` returns true. Their values are slices of the lines.
    pub(crate) fn fields(&self, is_wanted: impl Fn(&HeaderName) -> bool) -> HeaderMap {
        let kept = || self.iter().filter(|(name, _)| is_wanted(name));
        let mut fields = HeaderMap::with_capacity(kept().count());
        for (name, range) in kept() {
            // It was a valid value before.
            if let Ok(value) = HeaderValue::from_maybe_shared(self.buffer.slice(range)) {
                fields.append(name, value);
            }
        }
        fields
    }

    /// The names, and the positions of their values.
    fn iter(&self) -> impl Iterator<Item = (HeaderName, Range<usize>)> {
        let mut at = 0;
        let lines = self.all().split_inclusive(|byte| *byte == b'\n');
        lines.filter_map(move |line| {
            let start = at;
            at += line.len();
            let colon = line.iter().position(|byte| *byte == b':')?;
            let name = HeaderName::from_bytes(line.get(..colon)?).ok()?;
            let value = start + colon + 2..at.checked_sub(2)?;
            (value.start <= value.end).then_some((name, value))
        })
    }

    /// The size of the buffer in bytes, including the values of the map.
    pub(crate) fn bytes(&self) -> usize {
        self.buffer.len()
    }
}

/// The same fields, in the same order for each name, as a map that keeps only their own bytes alive; and their lines.
pub(crate) fn compact(fields: &HeaderMap) -> (HeaderMap, FieldLines) {
    let ordered = OrderedFields::of(fields);
    let lines = ordered.lines(fields);
    let mut compacted = HeaderMap::with_capacity(fields.keys_len());
    let mut at = 0;
    for (place, (name, value)) in ordered.iter().enumerate() {
        let is_line = place < ordered.sent.len();
        let start = at + if is_line { name.as_str().len() + 2 } else { 0 };
        let end = start + value.len();
        // A former value is a valid one.
        if let Ok(mut own) = HeaderValue::from_maybe_shared(lines.buffer.slice(start..end)) {
            own.set_sensitive(value.is_sensitive());
            compacted.append((*name).clone(), own);
        }
        at = end + if is_line { 2 } else { 0 };
    }
    (compacted, lines)
}

/// The lines alone.
pub(crate) fn lines(fields: &HeaderMap) -> FieldLines {
    OrderedFields::of(fields).lines(fields)
}

/// The memory that a head uses in addition to the structs, in bytes.
pub(crate) fn head_weight(fields: &HeaderMap, lines: &FieldLines) -> u64 {
    lines.bytes() as u64 + fields.capacity() as u64 * FIELD
}

/// The fields of a head in the order in which they are sent.
struct OrderedFields<'f> {
    sent: Vec<(&'f HeaderName, &'f HeaderValue)>,
    /// The framing fields.
    framing: Vec<(&'f HeaderName, &'f HeaderValue)>,
}

impl<'f> OrderedFields<'f> {
    fn of(fields: &'f HeaderMap) -> Self {
        let first = OF_NOT_MODIFIED
            .iter()
            .flat_map(|name| fields.get_all(name).iter().map(move |value| (name, value)));
        let others = fields
            .iter()
            .filter(|(name, _)| !OF_NOT_MODIFIED.contains(name));
        let (sent, framing) = first
            .chain(others)
            .partition(|(name, _)| !is_of_framing(name));
        Self { sent, framing }
    }

    fn iter(&self) -> impl Iterator<Item = &(&'f HeaderName, &'f HeaderValue)> {
        self.sent.iter().chain(&self.framing)
    }

    fn lines(&self, fields: &HeaderMap) -> FieldLines {
        let size = self
            .iter()
            .map(|(name, value)| LINE + name.as_str().len() + value.len());
        let mut buffer = BytesMut::with_capacity(size.sum());
        let mut lines = FieldLines {
            is_dated: fields.contains_key(header::DATE),
            mask: fields
                .keys()
                .fold(0, |all, name| all | mask_of(name.as_str())),
            ..FieldLines::default()
        };
        for (name, value) in &self.sent {
            buffer.put_slice(name.as_str().as_bytes());
            buffer.put_slice(b": ");
            buffer.put_slice(value.as_bytes());
            buffer.put_slice(b"\r\n");
            if OF_NOT_MODIFIED.contains(name) {
                lines.of_not_modified = buffer.len();
            }
        }
        lines.all = buffer.len();
        for (_, value) in &self.framing {
            buffer.put_slice(value.as_bytes());
        }
        // Without spare capacity, so that the weight equals the allocated memory.
        lines.buffer = Bytes::from(Vec::from(buffer).into_boxed_slice());
        lines
    }
}

/// Whether a field belongs to one connection (RFC 9110 section 7.6.1) or to the length of the body.
fn is_of_framing(name: &HeaderName) -> bool {
    *name == header::CONTENT_LENGTH || is_hop_by_hop(name.as_str(), std::iter::empty())
}

/// One field in a `HeaderMap`: a bucket and its slot in the map's index.
const FIELD: u64 = 112;

/// The length of colon, space and CRLF.
const LINE: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn map(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            })
            .collect()
    }

    #[test]
    fn compacted_fields_are_equal_and_keep_no_other_bytes() {
        let buffer = Bytes::from(vec![b'v'; 100_000]);
        let mut fields = HeaderMap::new();
        for (name, range) in [("a", 0..5), ("b", 5..6), ("a", 6..9), ("empty", 9..9)] {
            let value = HeaderValue::from_maybe_shared(buffer.slice(range)).unwrap();
            fields.append(name, value);
        }
        assert!(!buffer.is_unique());
        let (compacted, lines) = compact(&fields);
        assert_eq!(compacted, fields);
        let in_order: Vec<_> = compacted.get_all("a").iter().collect();
        assert_eq!(in_order, ["vvvvv", "vvv"]);
        assert_eq!(lines.all(), b"a: vvvvv\r\na: vvv\r\nb: v\r\nempty: \r\n");
        drop(fields);
        assert!(buffer.is_unique(), "nothing of the old buffer is held");
        let (none, lines) = compact(&HeaderMap::new());
        assert_eq!((none.len(), lines.bytes()), (0, 0));
    }

    #[test]
    fn lines_match_the_map_and_begin_with_those_of_a_304() {
        let fields = map(&[
            ("content-type", "text/html"),
            ("etag", "\"v\""),
            ("x-a", "1"),
            ("cache-control", "max-age=1"),
            ("date", "Sat, 21 Nov 2026 10:00:00 GMT"),
        ]);
        let (compacted, lines) = compact(&fields);
        let mut text = Vec::new();
        for (name, value) in &compacted {
            text.extend_from_slice(&[name.as_str().as_bytes(), b": ", value.as_bytes()].concat());
            text.extend_from_slice(b"\r\n");
        }
        assert_eq!(lines.all(), text);
        assert_eq!(lines.fields(|_| true), fields, "read again");
        let etag = lines.fields(|name| *name == header::ETAG);
        assert_eq!(
            (etag.len(), &etag[header::ETAG]),
            (1, &fields[header::ETAG])
        );
        assert_eq!(
            lines.of_not_modified(),
            b"cache-control: max-age=1\r\ndate: Sat, 21 Nov 2026 10:00:00 GMT\r\netag: \"v\"\r\n"
        );
        assert!(lines.is_dated() && !compact(&map(&[("x", "y")])).1.is_dated());
    }

    #[test]
    fn framing_fields_have_no_lines() {
        let framing = [
            "connection",
            "content-length",
            "keep-alive",
            "proxy-connection",
            "te",
            "trailer",
            "transfer-encoding",
            "upgrade",
        ];
        let fields = framing.iter().map(|name| (*name, "7"));
        let fields = map(&fields.chain([("x-b", "1")]).collect::<Vec<_>>());
        let (compacted, lines) = compact(&fields);
        assert_eq!(compacted, fields);
        assert_eq!(lines.all(), b"x-b: 1\r\n");
    }
}
