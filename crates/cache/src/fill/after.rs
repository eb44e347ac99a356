//! What is left to do when a fill's lock is released.

use std::task::Waker;

use bytes::Bytes;

/// Done by `Shared::with` when the lock is free.
#[derive(Default)]
pub(super) struct After {
    pub(super) wake: Vec<Waker>,
    pub(super) drop_wakers: Vec<Waker>,
    pub(super) drop_chunks: Vec<Chunk>,
}

impl After {
    pub(super) fn run(self) {
        drop(self.drop_chunks);
        drop(self.drop_wakers);
        for waker in self.wake {
            waker.wake();
        }
    }
}

pub(super) struct Chunk {
    /// Offset of the byte after its last.
    pub(super) end: u64,
    pub(super) bytes: Bytes,
}
