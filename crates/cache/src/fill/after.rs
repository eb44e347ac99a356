//! Work that must be done after a fill's lock is released.

use std::task::Waker;

use bytes::Bytes;

/// Run by `FillShared::with` after the lock is released.
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

/// Wakers whose wakeup is delayed until this is dropped.
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
    /// The offset of the byte after the chunk.
    pub(super) end: u64,
    pub(super) bytes: Bytes,
}
