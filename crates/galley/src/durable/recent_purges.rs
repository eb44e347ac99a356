//! The latest purges of a site, for the history: what was purged and by whom. Bounded; ends with the process.
//!
//! How many pages a purge took is counted a moment later by a walk over all entries (`app::purge_counts`). Until then purged
//! entries are not swept, so [`RecentPurges::has_uncounted`] is true from before a purge is in force.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use galley_policy::purge::{Purge, Strength};
use galley_policy::time::Tick;
use tokio::sync::Notify;

/// The publisher of a purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurgeSource {
    /// `galley purge`, the dashboard or a program, over the admin interface.
    Admin,
    /// A request of a client that may purge (`PURGE` and its dialects).
    Request,
    /// A response of the upstream: the plugin, or a method that changes something.
    Upstream,
    /// Galley itself: a page named a stylesheet or script that is gone.
    Repair,
    /// The purge folder was emptied.
    Folder,
    /// Another node of the cluster, or a gap in its purges.
    Cluster,
    /// A process that was to take over and has ended: purges that it did not acknowledge are published again.
    Upgrade,
    /// Once more, after a cache behind this one was purged.
    Forward,
}

impl PurgeSource {
    /// One stable word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Request => "request",
            Self::Upstream => "upstream",
            Self::Repair => "repair",
            Self::Folder => "folder",
            Self::Cluster => "cluster",
            Self::Upgrade => "upgrade",
            Self::Forward => "forward",
        }
    }
}

/// A purge that was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentPurge {
    /// Its number in the purge table.
    pub number: u64,
    /// What it touches, as the log shows it, cut where it is long.
    pub scope: String,
    /// Hard or soft.
    pub strength: Strength,
    /// Its publisher.
    pub source: PurgeSource,
    /// When.
    pub at: Tick,
    /// How many stored pages it took; `None`: not counted.
    pub pages: Option<PurgedPages>,
}

/// How many stored pages a purge took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PurgedPages {
    /// Pages that were stored in memory, and that no earlier purge had taken.
    pub pages: u64,
    /// Whether there were no others.
    pub is_complete: bool,
}

/// A purge whose pages are to be counted.
#[derive(Clone, Debug)]
pub struct CountablePurge {
    /// Its number in the purge table.
    pub number: u64,
    /// What it purges.
    pub purge: Purge,
    /// Whether its pages are counted: then it only shows which pages a later one did not take.
    pub is_counted: bool,
    at: Tick,
}

/// The latest purges, the oldest first.
#[derive(Debug, Default)]
pub(super) struct RecentPurges {
    listed: Mutex<Listed>,
    /// Purges that are in force, or will be at once, and not counted.
    uncounted: AtomicUsize,
    /// Wakes the task that counts.
    signal: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Listed {
    purges: VecDeque<RecentPurge>,
    countable: VecDeque<CountablePurge>,
}

impl RecentPurges {
    /// Those whose publication wakes `signal`.
    pub(super) fn waking(signal: Arc<Notify>) -> Self {
        Self {
            signal,
            ..Self::default()
        }
    }

    /// Before a purge is in force. [`Self::note`] comes after.
    pub(super) fn expect(&self) {
        self.uncounted.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn note(&self, purge: &Purge, source: PurgeSource, at: Tick, number: u64) {
        let scope = purge.scope.to_string();
        let noted = RecentPurge {
            number,
            scope: scope.chars().take(MOST_SCOPE).collect(),
            strength: purge.strength,
            source,
            at,
            pages: None,
        };
        let countable = CountablePurge {
            number,
            purge: purge.clone(),
            is_counted: false,
            at,
        };
        {
            let mut listed = self.lock();
            if listed.purges.len() >= MOST_PURGES {
                listed.purges.pop_front();
            }
            listed.purges.push_back(noted);
            if listed.countable.len() >= MOST_COUNTABLE {
                let dropped = listed.countable.pop_front();
                self.forget(dropped.is_some_and(|one| !one.is_counted).into());
            }
            listed.countable.push_back(countable);
        }
        self.signal.notify_one();
    }

    /// The newest first.
    pub(super) fn newest(&self) -> Vec<RecentPurge> {
        self.lock().purges.iter().rev().cloned().collect()
    }

    /// Whether a purge is in force whose pages are not counted.
    pub(super) fn has_uncounted(&self) -> bool {
        self.uncounted.load(Ordering::SeqCst) > 0
    }

    /// The purges of the last seconds by their numbers; empty if all are counted.
    pub(super) fn countable(&self) -> Vec<CountablePurge> {
        let listed = self.lock();
        if listed.countable.iter().all(|one| one.is_counted) {
            return Vec::new();
        }
        let mut all: Vec<CountablePurge> = listed.countable.iter().cloned().collect();
        all.sort_by_key(|one| one.number);
        all
    }

    /// Notes what was counted, by number.
    pub(super) fn counted(&self, counts: &[(u64, PurgedPages)], now: Tick) {
        let mut listed = self.lock();
        let Listed { purges, countable } = &mut *listed;
        let mut new = 0;
        for (number, pages) in counts {
            if let Some(purge) = purges.iter_mut().find(|one| one.number == *number) {
                purge.pages = Some(*pages);
            }
            let mut waiting = countable.iter_mut();
            if let Some(one) = waiting.find(|one| one.number == *number && !one.is_counted) {
                one.is_counted = true;
                new += 1;
            }
        }
        countable.retain(|one| !one.is_counted || now.since(one.at) < KEPT);
        self.forget(new);
    }

    fn forget(&self, count: usize) {
        self.uncounted.fetch_sub(count, Ordering::SeqCst);
    }

    fn lock(&self) -> MutexGuard<'_, Listed> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Purges of one site: an afternoon of editing.
const MOST_PURGES: usize = 200;

/// Purges that one count compares each entry with. Of more at once the oldest are not counted.
const MOST_COUNTABLE: usize = 64;

/// How long entries of a counted purge may still be in memory: they are swept within seconds.
const KEPT: Duration = Duration::from_secs(30);

/// A pattern may be long.
const MOST_SCOPE: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;
    use galley_policy::purge::Scope;

    fn note(purges: &RecentPurges, number: u64) {
        let purge = Purge {
            scope: Scope::Tag("\u{e9}".repeat(1_000)),
            strength: Strength::Soft,
        };
        purges.expect();
        purges.note(&purge, PurgeSource::Admin, Tick(number), number);
    }

    #[test]
    fn the_newest_stay_within_bounds() {
        let purges = RecentPurges::default();
        for number in 0..MOST_PURGES as u64 + 5 {
            note(&purges, number);
        }
        let newest = purges.newest();
        assert_eq!(newest.len(), MOST_PURGES);
        assert_eq!(newest[0].at, Tick(MOST_PURGES as u64 + 4));
        assert_eq!(newest[0].scope.chars().count(), MOST_SCOPE);
        let countable = purges.countable();
        assert_eq!(countable.len(), MOST_COUNTABLE);
        let counts: Vec<_> = countable.iter().map(|one| (one.number, ONE)).collect();
        purges.counted(&counts, Tick(0));
        assert!(!purges.has_uncounted() && purges.countable().is_empty());
        // What was too much at once has no number.
        assert_eq!(purges.newest()[MOST_COUNTABLE].pages, None);
        assert_eq!(purges.newest()[0].pages, Some(ONE));
    }

    #[test]
    fn a_purge_is_uncounted_before_it_is_in_force() {
        let purges = RecentPurges::default();
        assert!(!purges.has_uncounted());
        purges.expect();
        assert!(purges.has_uncounted() && purges.countable().is_empty());
        note(&purges, 2);
        // Another thread's, which is noted later.
        let purge = Purge {
            scope: Scope::Site,
            strength: Strength::Hard,
        };
        purges.note(&purge, PurgeSource::Admin, Tick(0), 1);
        let numbers: Vec<u64> = purges.countable().iter().map(|one| one.number).collect();
        assert_eq!(numbers, [1, 2]);
        purges.counted(&[(1, ONE)], Tick(0));
        assert!(purges.has_uncounted());
        // Twice is once.
        purges.counted(&[(1, ONE), (2, ONE)], Tick(0));
        assert!(!purges.has_uncounted());
    }

    const ONE: PurgedPages = PurgedPages {
        pages: 1,
        is_complete: true,
    };
}
