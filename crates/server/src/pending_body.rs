//! The part of a body that a socket has not accepted yet.

use std::io::IoSlice;

use bytes::{Buf, Bytes};

/// Pieces of bodies that have not been written.
#[derive(Default)]
pub(super) struct PendingBody(smallvec::SmallVec<[Bytes; 4]>);

impl FromIterator<Bytes> for PendingBody {
    fn from_iter<T: IntoIterator<Item = Bytes>>(pieces: T) -> Self {
        // Reversed, so that the next piece can be popped.
        let mut all: smallvec::SmallVec<[Bytes; 4]> =
            pieces.into_iter().filter(|p| !p.is_empty()).collect();
        all.reverse();
        Self(all)
    }
}

impl PendingBody {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn slices<'a>(&'a self, head: &'a [u8], out: &mut [IoSlice<'a>; SLICES]) -> usize {
        let pieces = std::iter::once(head)
            .filter(|h| !h.is_empty())
            .chain(self.0.iter().rev().map(Bytes::as_ref));
        let mut used = 0;
        for (slot, piece) in out.iter_mut().zip(pieces) {
            *slot = IoSlice::new(piece);
            used += 1;
        }
        used
    }

    pub(super) fn advance(&mut self, mut written: usize) {
        while let Some(piece) = self.0.last_mut() {
            if written < piece.len() {
                piece.advance(written);
                return;
            }
            written -= piece.len();
            self.0.pop();
        }
    }
}

/// Slices of one vectored write.
pub(super) const SLICES: usize = 8;
