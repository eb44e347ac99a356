//! The latest purges of a site, for the history: their scopes and publishers. Bounded; lost when the process ends.
//!
//! The number of pages that a purge invalidated is counted shortly afterwards, by iterating over all entries (`app::purge_counts`).
//! Until then purged entries are not swept, so [`RecentPurges::has_uncounted`] is true from before a purge is in effect.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use galley_policy::outcome::words;
use galley_policy::purge::{Purge, PurgeLabel, Scope, Strength};
use galley_policy::time::Tick;
use galley_sys::Lock;
use tokio::sync::Notify;

words! {
    /// The publisher of a purge.
    PurgeSource {
        /// `galley purge`, the dashboard or a program, through the admin interface.
        Admin = "admin",
        /// A request of a client that may purge (`PURGE` and its dialects).
        Request = "request",
        /// A response of the upstream.
        Upstream = "upstream",
        /// A successful request with an unsafe method.
        Unsafe = "unsafe",
        /// Galley: a page referred to a stylesheet or script that no longer exists.
        Repair = "repair",
        /// Galley: an audit found the page out of date.
        Audit = "audit",
        /// The purge folder was emptied.
        Folder = "folder",
        /// Another node of the cluster, or a gap in the stream of purges.
        Cluster = "cluster",
        /// A new process that ended during an upgrade: the purges that it did not acknowledge are published again.
        Upgrade = "upgrade",
        /// Published again after a cache behind this one was purged.
        Forward = "forward",
    }
}

impl PurgeSource {
    /// Whether the site's owner or programs choose such purges, and with them their number. Visitors cause the others, which have
    /// limits of their own and must not purge whole sites, or they were counted where they came from.
    pub(super) const fn is_chosen_by_site(self) -> bool {
        match self {
            Self::Admin | Self::Request | Self::Upstream | Self::Folder | Self::Forward => true,
            Self::Unsafe | Self::Repair | Self::Audit | Self::Cluster | Self::Upgrade => false,
        }
    }
}

/// Who published a purge, and what it was for.
#[derive(Clone, Copy, Debug)]
pub(super) struct PurgeOrigin<'a> {
    pub(super) source: PurgeSource,
    pub(super) label: Option<&'a PurgeLabel>,
}

impl From<PurgeSource> for PurgeOrigin<'_> {
    fn from(source: PurgeSource) -> Self {
        Self {
            source,
            label: None,
        }
    }
}

/// A purge in the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentPurge {
    /// The number in the purge table.
    pub number: u64,
    /// The scope as in the log, truncated if it is long.
    pub scope: String,
    /// Hard or soft.
    pub strength: Strength,
    /// The publisher.
    pub source: PurgeSource,
    /// What it was for, if its publisher said so.
    pub label: Option<PurgeLabel>,
    /// The time of publication.
    pub at: Tick,
    /// The number of stored pages that it invalidated; `None`: not counted.
    pub pages: Option<PurgedPages>,
}

/// The number of stored pages that a purge invalidated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PurgedPages {
    /// Pages in memory that no earlier purge had invalidated.
    pub pages: u64,
    /// Whether the count is exact. If not, it is a minimum.
    pub is_complete: bool,
}

/// A purge whose pages are to be counted.
#[derive(Clone, Debug)]
pub struct CountablePurge {
    /// The number in the purge table.
    pub number: u64,
    /// The purge.
    pub purge: Purge,
    /// Whether its pages are counted. If so, it is only needed to exclude its pages from the counts of later purges.
    pub is_counted: bool,
    at: Tick,
}

/// The latest purges, the oldest first.
#[derive(Debug, Default)]
pub(super) struct RecentPurges {
    history: Lock<PurgeHistory>,
    /// The number of purges that are in effect, or will be soon, and whose pages are not counted.
    uncounted: AtomicUsize,
    /// Wakes the counting task.
    signal: Arc<Notify>,
}

#[derive(Debug, Default)]
struct PurgeHistory {
    purges: VecDeque<RecentPurge>,
    countable: VecDeque<CountablePurge>,
}

impl PurgeHistory {
    /// If a purge of the whole site follows another one at once, as when a site exceeds its budget, gives its number to
    /// that one. Then no other row is lost.
    fn repeats(&mut self, noted: &RecentPurge, countable: &CountablePurge) -> bool {
        let (Some(last), Some(waiting)) = (self.purges.back_mut(), self.countable.back_mut())
        else {
            return false;
        };
        let is_same = countable.purge.scope == Scope::Site
            && waiting.purge == countable.purge
            && !waiting.is_counted
            && (last.number, last.source) == (waiting.number, noted.source)
            && noted.number > last.number
            && noted.at.since(last.at) < REPEATED_WITHIN;
        if is_same {
            (last.number, waiting.number) = (noted.number, noted.number);
        }
        is_same
    }
}

impl RecentPurges {
    /// Purges whose publication wakes `signal`.
    pub(super) fn waking(signal: Arc<Notify>) -> Self {
        Self {
            signal,
            ..Self::default()
        }
    }

    /// Called before a purge is in effect. [`Self::note`] must follow.
    pub(super) fn expect(&self) {
        self.uncounted.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn note(&self, purge: &Purge, origin: PurgeOrigin<'_>, at: Tick, number: u64) {
        let scope = purge.scope.to_string();
        let noted = RecentPurge {
            number,
            scope: scope.chars().take(MAX_SCOPE).collect(),
            strength: purge.strength,
            source: origin.source,
            label: origin.label.cloned(),
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
            let mut history = self.history.lock();
            if history.repeats(&noted, &countable) {
                self.forget(1);
                // A count in progress looks for the former number.
                drop(history);
                self.signal.notify_one();
                return;
            }
            if history.purges.len() >= MAX_PURGES {
                history.purges.pop_front();
            }
            history.purges.push_back(noted);
            if history.countable.len() >= MAX_COUNTABLE {
                let dropped = history.countable.pop_front();
                self.forget(dropped.is_some_and(|one| !one.is_counted).into());
            }
            history.countable.push_back(countable);
        }
        self.signal.notify_one();
    }

    /// The purges, the newest first.
    pub(super) fn newest(&self) -> Vec<RecentPurge> {
        self.history.lock().purges.iter().rev().cloned().collect()
    }

    /// Whether the pages of a purge in effect are not counted yet.
    pub(super) fn has_uncounted(&self) -> bool {
        self.uncounted.load(Ordering::SeqCst) > 0
    }

    /// The purges of the last seconds in the order of their numbers; empty if all are counted.
    pub(super) fn countable(&self) -> Vec<CountablePurge> {
        let history = self.history.lock();
        if history.countable.iter().all(|one| one.is_counted) {
            return Vec::new();
        }
        let mut countable: Vec<CountablePurge> = history.countable.iter().cloned().collect();
        countable.sort_by_key(|one| one.number);
        countable
    }

    /// Records counts by the purges' numbers.
    pub(super) fn counted(&self, counts: &[(u64, PurgedPages)], now: Tick) {
        let mut history = self.history.lock();
        let PurgeHistory { purges, countable } = &mut *history;
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
        countable.retain(|one| !one.is_counted || now.since(one.at) < COUNTED_LIFETIME);
        self.forget(new);
    }

    fn forget(&self, count: usize) {
        self.uncounted.fetch_sub(count, Ordering::SeqCst);
    }
}

/// The maximum number of purges of one site: an afternoon of editing.
const MAX_PURGES: usize = 200;

/// The maximum number of purges with which one count compares each entry. If there are more, the oldest are not counted.
const MAX_COUNTABLE: usize = 64;

/// The time in which purges of the whole site are one row.
const REPEATED_WITHIN: Duration = Duration::from_secs(1);

/// How long entries of a counted purge may still be in memory: they are swept within seconds.
const COUNTED_LIFETIME: Duration = Duration::from_secs(30);

/// The maximum length of a scope, because a pattern may be long.
const MAX_SCOPE: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    fn note(purges: &RecentPurges, number: u64) {
        let purge = Purge {
            scope: Scope::Tag("\u{e9}".repeat(1_000)),
            strength: Strength::Soft,
        };
        purges.expect();
        let label = PurgeLabel::new("Edit of a");
        let origin = PurgeOrigin {
            source: PurgeSource::Admin,
            label: label.as_ref(),
        };
        purges.note(&purge, origin, Tick(number), number);
    }

    #[test]
    fn the_newest_stay_within_bounds() {
        let purges = RecentPurges::default();
        for number in 0..MAX_PURGES as u64 + 5 {
            note(&purges, number);
        }
        let newest = purges.newest();
        assert_eq!(newest.len(), MAX_PURGES);
        assert_eq!(newest[0].at, Tick(MAX_PURGES as u64 + 4));
        assert_eq!(newest[0].label, PurgeLabel::new("Edit of a"));
        assert_eq!(newest[0].scope.chars().count(), MAX_SCOPE);
        let countable = purges.countable();
        assert_eq!(countable.len(), MAX_COUNTABLE);
        let counts: Vec<_> = countable.iter().map(|one| (one.number, ONE)).collect();
        purges.counted(&counts, Tick(0));
        assert!(!purges.has_uncounted() && purges.countable().is_empty());
        // Purges above the maximum have no count.
        assert_eq!(purges.newest()[MAX_COUNTABLE].pages, None);
        assert_eq!(purges.newest()[0].pages, Some(ONE));
    }

    #[test]
    fn a_purge_counts_as_uncounted_before_it_is_in_effect() {
        let purges = RecentPurges::default();
        assert!(!purges.has_uncounted());
        purges.expect();
        assert!(purges.has_uncounted() && purges.countable().is_empty());
        note(&purges, 2);
        // A purge of another thread, which is noted later.
        let purge = Purge {
            scope: Scope::Site,
            strength: Strength::Hard,
        };
        purges.note(&purge, PurgeSource::Admin.into(), Tick(0), 1);
        let numbers: Vec<u64> = purges.countable().iter().map(|one| one.number).collect();
        assert_eq!(numbers, [1, 2]);
        purges.counted(&[(1, ONE)], Tick(0));
        assert!(purges.has_uncounted());
        // Counting a purge twice has no effect.
        purges.counted(&[(1, ONE), (2, ONE)], Tick(0));
        assert!(!purges.has_uncounted());
    }

    #[test]
    fn whole_site_purges_in_quick_succession_are_one_row() {
        let purges = RecentPurges::default();
        note(&purges, 1);
        let site = Purge {
            scope: Scope::Site,
            strength: Strength::Hard,
        };
        for number in 2..10_000 {
            purges.expect();
            purges.note(
                &site,
                PurgeSource::Request.into(),
                Tick(number / 100),
                number,
            );
        }
        let numbers = purges.newest().into_iter().map(|one| one.number);
        assert_eq!(numbers.collect::<Vec<_>>(), [9_999, 1]);
        purges.counted(&[(1, ONE), (9_999, ONE)], Tick(100));
        assert!(!purges.has_uncounted());
    }

    const ONE: PurgedPages = PurgedPages {
        pages: 1,
        is_complete: true,
    };
}
