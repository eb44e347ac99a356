//! A stored response in another content coding: a representation of its own.
//!
//! It has its own validator and its own head lines. The map of all its fields is parsed from those lines when a slow path
//! needs it. The few fields that conditional requests use are kept as a map, because hits need them.

use galley_policy::encoding::Coding;
use galley_policy::images::ImageFormat;
use http::header::{self, HeaderMap};

use crate::body::StoredBody;
use crate::fields::{self, FieldLines, head_weight};

/// A stored response in another coding.
#[derive(Clone, Debug)]
pub struct EncodedEntry {
    /// The coding.
    pub coding: Coding,
    /// The format, of a picture that is sent in place of another one.
    pub format: Option<ImageFormat>,
    /// Its `ETag`, `Last-Modified` and `Date`, as far as it has them.
    pub validators: HeaderMap,
    /// The coded body; its reservation is inside.
    pub body: StoredBody,
    /// Whether it was found beside the file, and not made here.
    pub is_given: bool,
    lines: FieldLines,
}

impl EncodedEntry {
    /// `body` in `coding`, with the fields for it; framing fields are omitted.
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

    /// The same for a sibling of a file.
    pub fn given(coding: Coding, fields: &HeaderMap, body: StoredBody) -> Self {
        Self {
            is_given: true,
            ..Self::new(coding, fields, body)
        }
    }

    /// The same of a picture in another format.
    pub fn picture(format: Option<ImageFormat>, fields: &HeaderMap, body: StoredBody) -> Self {
        Self {
            format,
            ..Self::given(Coding::Identity, fields, body)
        }
    }

    /// Its head as it leaves.
    pub fn lines(&self) -> &FieldLines {
        &self.lines
    }

    /// The fields of its head, which share its bytes.
    pub fn fields(&self) -> HeaderMap {
        self.lines.fields(|_| true)
    }

    fn weight(&self) -> u64 {
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

/// Counters of a body that is shared, and its reservation.
const SHARED_BODY: u64 = 88;
