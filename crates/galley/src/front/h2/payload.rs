//! What the library sends as data: bytes, or a hit's body where it is stored.

use bytes::{Buf, Bytes};

use crate::serve::Hit;

/// See the module.
pub(super) enum Payload {
    Bytes(Bytes),
    /// The hit pays for its bytes until they have left.
    Hit {
        hit: Hit,
        at: usize,
    },
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<Hit> for Payload {
    fn from(hit: Hit) -> Self {
        Self::Hit { hit, at: 0 }
    }
}

impl Buf for Payload {
    fn remaining(&self) -> usize {
        self.chunk().len()
    }

    fn chunk(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Hit { hit, at } => hit.body().get(*at..).unwrap_or_default(),
        }
    }

    fn advance(&mut self, count: usize) {
        match self {
            Self::Bytes(bytes) => bytes.advance(count),
            Self::Hit { at, .. } => *at += count,
        }
    }
}

/// A hit that leaves in pieces.
pub(super) struct Whole(pub(super) Hit);

impl AsRef<[u8]> for Whole {
    fn as_ref(&self) -> &[u8] {
        self.0.body()
    }
}
