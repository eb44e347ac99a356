//! Counters of a site's object cache. The thread of the object cache writes them, the admin thread reads them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use galley_sys::Lock;

use crate::touches::group;

/// The counters of a site, since it was configured.
#[derive(Debug, Default)]
pub struct Figures {
    counters: [AtomicU64; COUNTERS],
    costs: Lock<Costs>,
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

macro_rules! counters {
    ($($(#[$doc:meta])+ $count:ident $field:ident,)+) => {
        /// The values of [`Figures`] at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Reading {
            $($(#[$doc])+ pub $field: u64,)+
        }

        /// A counter of [`Figures`].
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum Count {
            $($count,)+
        }

        const COUNTERS: usize = [$(Count::$count),+].len();

        impl Figures {
            /// The current values.
            pub fn read(&self) -> Reading {
                let read = |count: Count| self.counters[count as usize].load(Ordering::Relaxed);
                Reading {
                    $($field: read(Count::$count),)+
                }
            }
        }
    };
}

counters! {
    /// Requests of WordPress that used the store.
    Requests requests,
    /// Messages that PHP waited for.
    RoundTrips round_trips,
    /// Keys that were asked for and found.
    Hits hits,
    /// Keys that were asked for and not found.
    Misses misses,
    /// Values that were sent before they were asked for.
    SentAhead sent_ahead,
    /// Queries that these requests sent to the database, without the one for the fence.
    Queries queries,
    /// Queries that the values which they got took when they were read from the database.
    SavedQueries saved_queries,
    /// Changes of values.
    Changes changes,
    /// Changes that met another change of the same key, so that nothing is stored.
    Conflicts conflicts,
    /// Times that PHP dropped everything: `wp_cache_flush()`.
    Flushes flushes,
    /// Times that everything was dropped because a process had changed the database without the store.
    Adopted adopted,
    /// Times that everything was dropped because a process died after it had begun to change the database.
    Abandoned abandoned,
    /// Values that made room for others.
    Evictions evictions,
    /// Values in the store.
    Entries entries,
    /// The memory of the values, in bytes.
    Bytes bytes,
}

impl Figures {
    pub(crate) fn add(&self, count: Count, number: u64) {
        self.counters[count as usize].fetch_add(number, Ordering::Relaxed);
    }

    /// Notes a missing or changed key for its group. The thread of the object cache never waits for a reader.
    pub(crate) fn note(&self, key: &[u8], change: impl FnOnce(&mut GroupCost)) {
        let Some(mut costs) = self.costs.try_lock() else {
            return;
        };
        let group = group(key);
        if let Some(known) = costs.groups.get_mut(group) {
            change(known);
        } else if costs.groups.len() < MAX_GROUPS {
            change(costs.groups.entry(group.into()).or_default());
        }
    }

    /// Notes the code that called `wp_cache_flush()`, as the drop-in names it.
    pub(crate) fn note_flush(&self, caller: &[u8]) {
        if let Some(mut costs) = self.costs.try_lock() {
            costs.flushed_by = shown(caller);
        }
    }

    /// The groups that cost most, the most expensive first, and the code that has emptied everything last.
    pub fn costs(&self, most: usize) -> (Vec<(String, GroupCost)>, String) {
        let costs = self.costs.lock();
        let groups = costs.groups.iter();
        let mut groups: Vec<_> = groups.map(|(name, cost)| (shown(name), *cost)).collect();
        groups.sort_by_key(|(_, cost)| std::cmp::Reverse(cost.misses + cost.changes));
        groups.truncate(most);
        (groups, costs.flushed_by.clone())
    }

    pub(crate) fn set_size(&self, entries: usize, bytes: usize) {
        let set = |count, size: usize| {
            self.counters[count as usize].store(size as u64, Ordering::Relaxed);
        };
        set(Count::Entries, entries);
        set(Count::Bytes, bytes);
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
