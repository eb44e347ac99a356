//! The location of an entry's uncompressed body: in memory, on the disk, or only within its codings.

use std::sync::Arc;

use crate::body::{BodyDigest, RestoredBody, StoredBody};
use crate::disk::BodyPieces;

/// The location of an entry's plain body.
#[derive(Clone, Debug)]
pub(crate) enum PlainBody {
    /// In memory.
    Held(StoredBody),
    /// Only in other codings.
    Packed {
        length: u64,
        digest: BodyDigest,
        restored: Arc<RestoredBody>,
    },
    /// On the disk.
    Pieces(Arc<BodyPieces>),
}

impl PlainBody {
    /// The bytes, if they are in memory.
    pub(crate) fn held(&self) -> Option<&StoredBody> {
        match self {
            Self::Held(body) => Some(body),
            Self::Packed { .. } | Self::Pieces(_) => None,
        }
    }

    /// The form without the bytes, for an entry whose codings can restore them.
    pub(crate) fn packed(&self) -> Self {
        match self {
            Self::Held(body) => Self::Packed {
                length: body.bytes().len() as u64,
                digest: BodyDigest::of(body.bytes()),
                restored: Arc::default(),
            },
            Self::Packed { .. } | Self::Pieces(_) => self.clone(),
        }
    }

    /// Whether the body is packed and `plain` is its bytes.
    pub(crate) fn is_packed_form_of(&self, plain: &[u8]) -> bool {
        match self {
            Self::Packed { length, digest, .. } => {
                *length == plain.len() as u64 && *digest == BodyDigest::of(plain)
            }
            Self::Held(_) | Self::Pieces(_) => false,
        }
    }

    /// The length of the body, wherever it is stored.
    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::Held(body) => body.bytes().len() as u64,
            Self::Packed { length, .. } => *length,
            Self::Pieces(pieces) => pieces.length(),
        }
    }
}
