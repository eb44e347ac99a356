//! The limits of a request head.

/// The maximum length of a method, in bytes. The longest registered one, `UPDATEREDIRECTREF`, has 17.
pub const METHOD_BYTES: usize = 32;

/// The maximum number of field lines in a [`super::Head`]; a higher [`HeadLimits::fields`] counts as this.
pub const MAX_FIELDS: usize = 100;

/// The limits of a request head. A head is rejected as soon as it exceeds one, not when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// The size of the whole head in bytes, including empty lines before and after it. Beyond it: 431.
    pub head_bytes: usize,
    /// The number of field lines, at most [`MAX_FIELDS`]. Beyond it: 431.
    pub fields: usize,
    /// The size of the request target in bytes. Beyond it: 414.
    pub target_bytes: usize,
}

impl Default for HeadLimits {
    /// A head of 32 KiB (large cookies of shops fit), 100 fields, a target of 8 KiB (RFC 9112 section 3 requires 8000 bytes).
    fn default() -> Self {
        Self {
            head_bytes: 32 * 1024,
            fields: MAX_FIELDS,
            target_bytes: 8 * 1024,
        }
    }
}
