//! A stored response in another content coding, which is a separate representation.
//!
//! It has a separate validator and separate header lines. The map of all its fields is parsed from those lines when a slow path
//! needs it. The few fields that conditional requests use are stored as a map, because hits need them.

use galley_policy::encoding::Coding;
use galley_policy::images::ImageFormat;
use http::header::{self, HeaderMap};

use crate::body::StoredBody;
use crate::fields::{self, FieldLines, head_weight};

/// A stored response in another coding.
#[derive(Clone, Debug)]
pub struct EncodedEntry {
    /// The content coding.
    pub coding: Coding,
    /// The format of an image that is sent in place of another one.
    pub format: Option<ImageFormat>,
    /// `ETag`, `Last-Modified` and `Date`, as far as the response has them.
    pub validators: HeaderMap,
    /// The encoded body, with its reservation.
    pub body: StoredBody,
    /// Whether the body was read from a sibling of the file, instead of being encoded by Galley.
    pub is_given: bool,
    lines: FieldLines,
}

/// The steps of compressing an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum CompressionStep {
    /// Not checked yet.
    Untried = 0,
    /// Offered for compression, or not worth compressing.
    Tried = 1,
    /// Compressed at the fast level.
    Quick = 2,
    /// Compressed at the dense level, or offered for that.
    Dense = 3,
    /// Offered for dropping the plain body.
    Packed = 4,
}

impl EncodedEntry {
    /// `body` in `coding`, with matching fields. Framing fields are omitted.
    pub fn new(coding: Coding, fields: &HeaderMap, body: StoredBody) -> Self {
        let lines = fields::lines(fields);
        let validators = [header::ETAG, header::LAST_MODIFIED, header::DATE];
        let validators = lines.fields(|name| validators.contains(name));
        Self {
            coding,
            format: None,
            validators,
            body,
            is_given: false,
            lines,
        }
    }

    /// The body of a file's sibling.
    pub fn given(coding: Coding, fields: &HeaderMap, body: StoredBody) -> Self {
        Self {
            is_given: true,
            ..Self::new(coding, fields, body)
        }
    }

    /// The body of an image in another format.
    pub fn picture(format: Option<ImageFormat>, fields: &HeaderMap, body: StoredBody) -> Self {
        Self {
            format,
            ..Self::given(Coding::Identity, fields, body)
        }
    }

    /// The header lines as they are sent.
    pub fn lines(&self) -> &FieldLines {
        &self.lines
    }

    /// The header fields. They share the bytes of the lines.
    pub fn fields(&self) -> HeaderMap {
        self.lines.fields(|_| true)
    }

    /// The memory that the form uses, in bytes.
    pub fn weight(&self) -> u64 {
        let counted = size_of::<Self>() + self.body.bytes().len();
        counted as u64 + head_weight(&self.validators, &self.lines) + SHARED_BODY
    }
}

pub(crate) fn weight_of(coded: &[EncodedEntry]) -> u64 {
    coded.iter().map(EncodedEntry::weight).sum()
}

pub(crate) fn reserved_of(coded: &[EncodedEntry]) -> u64 {
    coded.iter().map(|one| one.body.reserved_bytes()).sum()
}

/// Counters of a shared body, and its reservation.
const SHARED_BODY: u64 = 88;
