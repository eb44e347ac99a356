//! Counters of a site's object cache. The thread of the object cache writes them, the admin thread reads them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::touches::group;

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
    adopted: AtomicU64,
    abandoned: AtomicU64,
    evictions: AtomicU64,
    entries: AtomicU64,
    bytes: AtomicU64,
    costs: Mutex<Costs>,
}

#[derive(Debug, Default)]
struct Costs {
    /// At most [`MAX_GROUPS`].
    groups: HashMap<Box<[u8]>, GroupCost>,
    flushed_by: String,
}

/// What the values of a group cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupCost {
    /// Keys that were asked for and not found.
    pub misses: u64,
    /// Changes of values.
    pub changes: u64,
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
    /// Times that PHP dropped everything: `wp_cache_flush()`.
    pub flushes: u64,
    /// Times that everything was dropped because a process had changed the database without the store.
    pub adopted: u64,
    /// Times that everything was dropped because a process died after it had begun to change the database.
    pub abandoned: u64,
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
    Adopted,
    Abandoned,
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
            Count::Adopted => &self.adopted,
            Count::Abandoned => &self.abandoned,
            Count::Evictions => &self.evictions,
        };
        counter.fetch_add(number, Ordering::Relaxed);
    }

    /// Notes a missing or changed key for its group. The thread of the object cache never waits for a reader.
    pub(crate) fn note(&self, key: &[u8], cost: GroupCost) {
        let Ok(mut costs) = self.costs.try_lock() else {
            return;
        };
        let group = group(key);
        if let Some(known) = costs.groups.get_mut(group) {
            known.misses += cost.misses;
            known.changes += cost.changes;
        } else if costs.groups.len() < MAX_GROUPS {
            costs.groups.insert(group.into(), cost);
        }
    }

    /// Notes the code that called `wp_cache_flush()`, as the drop-in names it.
    pub(crate) fn note_flush(&self, caller: &[u8]) {
        if let Ok(mut costs) = self.costs.try_lock() {
            costs.flushed_by = shown(caller);
        }
    }

    /// The groups that cost most, the most expensive first, and the code that has emptied everything last.
    pub fn costs(&self, most: usize) -> (Vec<(String, GroupCost)>, String) {
        let costs = self.costs.lock().unwrap_or_else(PoisonError::into_inner);
        let groups = costs.groups.iter();
        let mut groups: Vec<_> = groups.map(|(name, cost)| (shown(name), *cost)).collect();
        groups.sort_by_key(|(_, cost)| std::cmp::Reverse(cost.misses + cost.changes));
        groups.truncate(most);
        (groups, costs.flushed_by.clone())
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
            adopted: read(&self.adopted),
            abandoned: read(&self.abandoned),
            evictions: read(&self.evictions),
            entries: read(&self.entries),
            bytes: read(&self.bytes),
        }
    }
}

/// Text of PHP for people: its site may not be trusted.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes.get(..MAX_TEXT).unwrap_or(bytes));
    text.replace(char::is_control, "?")
}

/// Groups whose cost is known. WordPress has about 30, a shop 60.
const MAX_GROUPS: usize = 128;

/// The longest text that is shown, in bytes.
const MAX_TEXT: usize = 200;
