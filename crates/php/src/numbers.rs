//! The figures of a running pool, readable by any thread: slots for requests, workers, their memory, and counters of
//! replacements and restarts. Written by the pool's task and, for the counters, by the readers of its log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use galley_sys::Lock;
use galley_sys::cgroup::GroupState;
use galley_sys::sandbox::SandboxLevel;

/// The figures of one pool. Sizes are in bytes.
#[derive(Debug)]
pub struct PoolNumbers {
    /// The level of protection by the sandbox.
    pub sandbox: SandboxLevel,
    /// Whether the kernel limits the pool's control group.
    limits: Lock<GroupState>,
    /// The current limit of concurrent requests.
    slots: Arc<AtomicUsize>,
    /// The number of running workers.
    pub workers: AtomicUsize,
    /// The highest memory use of most workers.
    pub worker_bytes: AtomicU64,
    /// The highest memory use of the largest worker.
    pub largest_bytes: AtomicU64,
    /// The current memory use of all workers, without the opcode cache.
    pub bytes: AtomicU64,
    /// The memory that all workers may use.
    pub share_bytes: AtomicU64,
    /// Workers that were replaced because of their size or their number of requests.
    pub replaced: AtomicU64,
    /// Workers that were killed because a request took too long.
    pub overdue: AtomicU64,
    /// How often the master, or a process of a program, ended unexpectedly and was restarted.
    pub restarts: AtomicU64,
}

impl PoolNumbers {
    /// Starts with a number of slots.
    pub(super) fn new(slots: usize, share_bytes: u64) -> Self {
        Self {
            sandbox: SandboxLevel::Off,
            limits: Lock::new(GroupState::Off),
            slots: Arc::new(AtomicUsize::new(slots)),
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

    /// Sets the level of protection by the sandbox.
    pub(super) fn confined(self, sandbox: SandboxLevel) -> Self {
        Self { sandbox, ..self }
    }

    /// Whether the kernel limits the pool's control group.
    pub fn limits(&self) -> GroupState {
        self.limits.lock().clone()
    }

    pub(super) fn set_limits(&self, state: GroupState) {
        *self.limits.lock() = state;
    }

    /// The current limit of concurrent requests, which changes while the pool runs.
    pub fn slots(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.slots)
    }

    /// Sets the number of slots; returns the previous one.
    pub(super) fn set_slots(&self, slots: usize) -> usize {
        self.slots.swap(slots, Ordering::Relaxed)
    }
}

/// Increments a counter.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
