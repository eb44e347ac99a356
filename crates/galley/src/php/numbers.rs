//! The figures of a running pool, readable by any thread: slots for requests, workers, their memory, and how often
//! something had to be repaired. Written by the pool's own task and, for the counters, by the readers of its log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Of one pool. Sizes in bytes.
#[derive(Debug, Default)]
pub struct PoolNumbers {
    /// Requests that the pool may work at now.
    slots: Arc<AtomicUsize>,
    /// Processes that live.
    pub workers: AtomicUsize,
    /// What most workers take at their highest.
    pub worker_bytes: AtomicU64,
    /// What the largest does.
    pub largest_bytes: AtomicU64,
    /// What all of them hold now, the opcode cache left out.
    pub bytes: AtomicU64,
    /// What all of them may hold.
    pub share_bytes: AtomicU64,
    /// Workers that were replaced because they had grown or done their number of requests.
    pub replaced: AtomicU64,
    /// Workers that were ended because a request took too long.
    pub overdue: AtomicU64,
    /// How often the master, or a process of a program, ended by itself and was started again.
    pub restarts: AtomicU64,
}

impl PoolNumbers {
    /// With a number of places.
    pub(super) fn new(places: usize, share_bytes: u64) -> Self {
        Self {
            slots: Arc::new(AtomicUsize::new(places)),
            share_bytes: AtomicU64::new(share_bytes),
            ..Self::default()
        }
    }

    /// Requests that the pool may work at now: changes while it runs.
    pub fn slots(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.slots)
    }

    /// Sets the places; returns the number before.
    pub(super) fn set_slots(&self, places: usize) -> usize {
        self.slots.swap(places, Ordering::Relaxed)
    }
}

/// One more.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
