//! What has to be done after a fill's lock is released.

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

/// Wakers that are to be woken later: when this is dropped.
#[derive(Default)]
pub(super) struct HeldWakers(Vec<Waker>);

impl HeldWakers {
    pub(super) fn take_from(&mut self, after: &mut After) {
        self.0.append(&mut after.wake);
    }
}

impl Drop for HeldWakers {
    fn drop(&mut self) {
        for waker in self.0.drain(..) {
            waker.wake();
        }
    }
}

pub(super) struct Chunk {
    /// Offset of the byte after its last.
    pub(super) end: u64,
    pub(super) bytes: Bytes,
}
