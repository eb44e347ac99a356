//! Counters of shared pages.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::status::PagesStatus;

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct PageCounters {
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) foreign: AtomicU64,
    pub(crate) timeouts: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) stored: AtomicU64,
    pub(crate) not_stored: AtomicU64,
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl PageCounters {
    /// The values of the counters. `is_paused`: whether no commands are sent to the engine.
    pub(crate) fn status(&self, is_paused: bool) -> PagesStatus {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PagesStatus {
            hits: load(&self.hits),
            misses: load(&self.misses),
            refused: load(&self.refused),
            foreign: load(&self.foreign),
            timeouts: load(&self.timeouts),
            errors: load(&self.errors),
            stored: load(&self.stored),
            not_stored: load(&self.not_stored),
            is_paused,
        }
    }
}
