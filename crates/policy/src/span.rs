//! A range of a buffer, without a borrow of the buffer.

/// The range from `start` to `end`, exclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Span {
    /// The range of `buffer` from `start` to its end.
    pub(crate) fn since(start: usize, buffer: &[u8]) -> Self {
        Self {
            start,
            end: buffer.len(),
        }
    }

    /// The bytes of `buffer` in this range; empty if it is outside.
    pub(crate) fn of(self, buffer: &[u8]) -> &[u8] {
        buffer.get(self.start..self.end).unwrap_or_default()
    }
}
