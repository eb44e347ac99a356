//! The head of a request, from its last byte to its task.

use galley_http::hpack::Block;
use galley_http::owned_head::OwnedHead;

use crate::exchange::Parsed;

/// The head of a request.
pub(super) enum Http3Head {
    /// Not examined yet.
    Read(Block),
    /// Parsed by the fast path.
    Parsed(OwnedHead, Box<Parsed>),
    /// Larger than the limit.
    TooLarge,
}

impl Http3Head {
    /// The memory of the head, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Read(block) => block.capacity() as u64,
            Self::Parsed(head, _) => head.capacity() as u64,
            Self::TooLarge => 0,
        }
    }
}
