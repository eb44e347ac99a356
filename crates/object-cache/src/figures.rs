//! Counters of a site's object cache. The thread of the object cache writes them, the admin thread reads them.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of a site, since it was configured.
#[derive(Debug, Default)]
pub struct Figures {
    requests: AtomicU64,
    round_trips: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    sent_ahead: AtomicU64,
    changes: AtomicU64,
    conflicts: AtomicU64,
    flushes: AtomicU64,
    evictions: AtomicU64,
    entries: AtomicU64,
    bytes: AtomicU64,
}

/// The values of [`Figures`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Requests of WordPress that used the store.
    pub requests: u64,
    /// Messages that PHP waited for.
    pub round_trips: u64,
    /// Keys that were asked for and found.
    pub hits: u64,
    /// Keys that were asked for and not found.
    pub misses: u64,
    /// Values that were sent before they were asked for.
    pub sent_ahead: u64,
    /// Changes of values.
    pub changes: u64,
    /// Changes that met another change of the same key, so that nothing is stored.
    pub conflicts: u64,
    /// Times that everything was dropped.
    pub flushes: u64,
    /// Values that made room for others.
    pub evictions: u64,
    /// Values in the store.
    pub entries: u64,
    /// The memory of the values, in bytes.
    pub bytes: u64,
}

/// A counter of [`Figures`] that only rises.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    Requests,
    RoundTrips,
    Hits,
    Misses,
    SentAhead,
    Changes,
    Conflicts,
    Flushes,
    Evictions,
}

impl Figures {
    pub(crate) fn add(&self, count: Count, number: u64) {
        let counter = match count {
            Count::Requests => &self.requests,
            Count::RoundTrips => &self.round_trips,
            Count::Hits => &self.hits,
            Count::Misses => &self.misses,
            Count::SentAhead => &self.sent_ahead,
            Count::Changes => &self.changes,
            Count::Conflicts => &self.conflicts,
            Count::Flushes => &self.flushes,
            Count::Evictions => &self.evictions,
        };
        counter.fetch_add(number, Ordering::Relaxed);
    }

    pub(crate) fn set_size(&self, entries: usize, bytes: usize) {
        self.entries.store(entries as u64, Ordering::Relaxed);
        self.bytes.store(bytes as u64, Ordering::Relaxed);
    }

    /// The current values.
    pub fn read(&self) -> Reading {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Reading {
            requests: read(&self.requests),
            round_trips: read(&self.round_trips),
            hits: read(&self.hits),
            misses: read(&self.misses),
            sent_ahead: read(&self.sent_ahead),
            changes: read(&self.changes),
            conflicts: read(&self.conflicts),
            flushes: read(&self.flushes),
            evictions: read(&self.evictions),
            entries: read(&self.entries),
            bytes: read(&self.bytes),
        }
    }
}
