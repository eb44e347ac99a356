//! A parsed request head: its request line and its field lines.

use std::fmt;

/// The supported versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0.
    H10,
    /// HTTP/1.1.
    H11,
    /// HTTP/2; see [`crate::h2`].
    H2,
    /// HTTP/3; see [`crate::h3`].
    H3,
}

/// A complete request head in the buffer.
///
/// Its field lines are in a [`super::HeadBuffer`].
#[derive(Clone, Copy)]
pub struct Head<'b, 'r> {
    /// A case-sensitive token of 1 to [`super::METHOD_BYTES`] bytes.
    pub method: &'b str,
    /// The target as sent: visible ASCII, not empty, not decoded. [`crate::framing::frame`] checks its form.
    pub target: &'b [u8],
    /// The version from the request line.
    pub version: Version,
    pub(crate) fields: &'r [FieldLine<'b>],
}

/// A field line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldLine<'b> {
    /// A token.
    pub(crate) name: &'b [u8],
    /// The value, trimmed.
    pub(crate) value: &'b [u8],
}

impl FieldLine<'_> {
    pub(crate) const NONE: Self = Self {
        name: b"",
        value: b"",
    };
}

impl<'b> Head<'b, '_> {
    /// The field lines in the order sent: the name as sent (a token), and the trimmed value (may be empty, may contain bytes
    /// above 0x7f).
    pub fn fields(&self) -> impl Iterator<Item = (&'b str, &'b [u8])> + Clone {
        // A token is ASCII.
        let text = |name| std::str::from_utf8(name).unwrap_or_default();
        self.lines().map(move |(name, value)| (text(name), value))
    }

    /// As [`Self::fields`], for callers that only compare names: saves checking that each name is text.
    pub fn lines(&self) -> impl Iterator<Item = (&'b [u8], &'b [u8])> + Clone {
        self.fields.iter().map(|field| (field.name, field.value))
    }

    /// The number of field lines.
    pub fn count(&self) -> usize {
        self.fields.len()
    }
}

impl fmt::Debug for Head<'_, '_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Head")
            .field("method", &self.method)
            .field("target", &self.target.escape_ascii().to_string())
            .field("version", &self.version)
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}

/// The parts of a request line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestLine<'b> {
    pub(crate) method: &'b str,
    pub(crate) target: &'b [u8],
    pub(crate) version: Version,
}

impl<'b> RequestLine<'b> {
    pub(super) fn with<'r>(self, fields: &'r [FieldLine<'b>]) -> Head<'b, 'r> {
        Head {
            method: self.method,
            target: self.target,
            version: self.version,
            fields,
        }
    }
}
