//! The latest purges of a site, for people who ask what was purged and by whom. Bounded, and not kept through a restart.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use galley_policy::purge::{Purge, Strength};
use galley_policy::time::Tick;

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
    /// Its scope, as the log shows it, shortened if it is long.
    pub scope: String,
    /// Hard or soft.
    pub strength: Strength,
    /// Its publisher.
    pub source: PurgeSource,
    /// When.
    pub at: Tick,
}

/// The latest purges, the oldest first.
#[derive(Debug, Default)]
pub(super) struct RecentPurges(Mutex<VecDeque<RecentPurge>>);

impl RecentPurges {
    pub(super) fn note(&self, purge: &Purge, source: PurgeSource, at: Tick) {
        let scope = purge.scope.to_string();
        let noted = RecentPurge {
            scope: scope.chars().take(MOST_SCOPE).collect(),
            strength: purge.strength,
            source,
            at,
        };
        let mut purges = self.lock();
        if purges.len() >= MOST_PURGES {
            purges.pop_front();
        }
        purges.push_back(noted);
    }

    /// The newest first.
    pub(super) fn newest(&self) -> Vec<RecentPurge> {
        self.lock().iter().rev().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<RecentPurge>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Purges of one site: an afternoon of editing.
const MOST_PURGES: usize = 200;

/// A pattern may be long.
const MOST_SCOPE: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;
    use galley_policy::purge::Scope;

    #[test]
    fn the_newest_stay_within_bounds() {
        let purges = RecentPurges::default();
        for number in 0..MOST_PURGES as u64 + 5 {
            let purge = Purge {
                scope: Scope::Tag("\u{e9}".repeat(1_000)),
                strength: Strength::Soft,
            };
            purges.note(&purge, PurgeSource::Admin, Tick(number));
        }
        let newest = purges.newest();
        assert_eq!(newest.len(), MOST_PURGES);
        assert_eq!(newest[0].at, Tick(MOST_PURGES as u64 + 4));
        assert_eq!(newest[0].scope.chars().count(), MOST_SCOPE);
    }
}
