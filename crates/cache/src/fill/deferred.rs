//! Work that must be done after a fill's lock is released.

use std::task::Waker;

use bytes::Bytes;

/// Run by `FillShared::with` after the lock is released.
#[derive(Default)]
pub(super) struct DeferredActions {
    pub(super) wake: Vec<Waker>,
    pub(super) drop_wakers: Vec<Waker>,
    pub(super) drop_chunks: Vec<Chunk>,
}

impl DeferredActions {
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
pub(super) struct DeferredWakers(Vec<Waker>);

impl DeferredWakers {
    pub(super) fn take_from(&mut self, after: &mut DeferredActions) {
        self.0.append(&mut after.wake);
    }
}

impl Drop for DeferredWakers {
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
