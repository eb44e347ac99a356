//! A range of a buffer, while the buffer itself cannot be borrowed.

/// From `start` up to, not including, `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Span {
    /// The bytes of `buffer` from `start` on.
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
