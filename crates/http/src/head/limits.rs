//! The limits of a request head.

/// Most bytes of a method. The longest registered one, `UPDATEREDIRECTREF`, has 17.
pub const METHOD_BYTES: usize = 32;

/// Most field lines a [`super::Head`] has room for; [`HeadLimits::fields`] above it counts as this.
pub const MAX_FIELDS: usize = 100;

/// What a request head may measure. Each limit is refused when it is passed, not when the head ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes of the whole head, empty lines before it and after it included: 431.
    pub head_bytes: usize,
    /// Field lines, at most [`MAX_FIELDS`]: 431.
    pub fields: usize,
    /// Bytes of the request target: 414.
    pub target_bytes: usize,
}

impl Default for HeadLimits {
    /// 32 KiB of head (large cookies of shops fit), 100 fields, 8 KiB of target (RFC 9112 section 3 requires 8000 bytes).
    fn default() -> Self {
        Self {
            head_bytes: 32 * 1024,
            fields: MAX_FIELDS,
            target_bytes: 8 * 1024,
        }
    }
}
