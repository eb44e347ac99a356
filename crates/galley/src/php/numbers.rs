//! The figures of a running pool, readable by any thread: slots for requests, workers, their memory, and how often
//! something had to be repaired. Written by the pool's own task and, for the counters, by the readers of its log.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::sys::cgroup::GroupState;
use crate::sys::sandbox::SandboxLevel;

/// Of one pool. Sizes in bytes.
#[derive(Debug)]
pub struct PoolNumbers {
    /// How far the kernel confines it.
    pub sandbox: SandboxLevel,
    /// Whether the kernel limits it as a group.
    limits: Mutex<GroupState>,
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
            sandbox: SandboxLevel::Off,
            limits: Mutex::new(GroupState::Off),
            slots: Arc::new(AtomicUsize::new(places)),
            workers: AtomicUsize::default(),
            worker_bytes: AtomicU64::default(),
            largest_bytes: AtomicU64::default(),
            bytes: AtomicU64::default(),
            share_bytes: AtomicU64::new(share_bytes),
            replaced: AtomicU64::default(),
            overdue: AtomicU64::default(),
            restarts: AtomicU64::default(),
        }
    }

    /// The same of a pool that is confined so far.
    pub(super) fn confined(self, sandbox: SandboxLevel) -> Self {
        Self { sandbox, ..self }
    }

    /// Whether the kernel limits it as a group.
    pub fn limits(&self) -> GroupState {
        let limits = self.limits.lock();
        limits.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_limits(&self, state: GroupState) {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner) = state;
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
