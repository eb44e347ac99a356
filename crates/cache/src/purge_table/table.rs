//! The purges of one site, and whether an entry is valid after them.

use std::iter;
use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::sync::{PoisonError, TryLockError};

use galley_policy::decide::Validity;
use galley_policy::key::tag_id;
use galley_policy::purge::Purge;

use super::matching_purge::MatchingPurge;
use super::purge_scope::{self, MAX_STEPS, PurgeSubject};
use super::tables::{PurgeTableLimits, TableLookup, Tables};
use crate::entry::Entry;
use crate::fragments::PageFragment;
use crate::includes::IncludedResponses;
use crate::sync::{AtomicU64, RwLock};
use crate::validity::PurgeEffect;

/// Whether purges that are newer than a fill touch it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillPurgeState {
    /// No purge touches the fill. A request may join.
    No,
    /// A purge touches the fill. Requests that begin now must not use it.
    Yes,
    /// No purge touches the fill by host, URL or path, but newer purges exist and the tags are not known yet. Wait for the head
    /// and check again with its tags. (Any newer purge counts here: the head may have the tag `*`, which all of them touch.)
    OnlyTags,
}

/// The purges of one site.
///
/// Code outside this crate cannot publish in this table, because that would bypass the log. [`UnloggedPurgeTable`] is the table of a site
/// without a log.
///
/// ```
/// # use galley_cache::purge_table::UnloggedPurgeTable;
/// # use galley_policy::purge::{Purge, Scope, Strength};
/// # let purge = Purge { scope: Scope::Site, strength: Strength::Hard };
/// let table = UnloggedPurgeTable::new();
/// table.publish(&purge);
/// ```
///
/// ```compile_fail
/// # use galley_cache::purge_table::PurgeTable;
/// # use galley_policy::purge::{Purge, Scope, Strength};
/// # let purge = Purge { scope: Scope::Site, strength: Strength::Hard };
/// let table = PurgeTable::new();
/// table.publish(&purge);
/// ```
///
/// ```compile_fail
/// # use galley_cache::purge_table::PurgeTable;
/// # use galley_policy::purge::{Purge, Scope, Strength};
/// # let purge = Purge { scope: Scope::Site, strength: Strength::Hard };
/// let table = PurgeTable::new();
/// table.publish_with(&purge, |number| number);
/// ```
#[derive(Debug)]
pub struct PurgeTable {
    /// The number of the newest purge. Stored with release, as the last step of the critical section of
    /// [`PurgeTable::publish_with`].
    current: AtomicU64,
    /// Written only by [`PurgeTable::publish_with`], [`PurgeTable::replay`] and [`PurgeTable::lift`].
    tables: RwLock<Tables>,
}

impl PurgeTable {
    /// A table without purges; the counter is 0.
    pub fn new() -> Self {
        Self::with_limits(PurgeTableLimits::default())
    }

    /// A table whose ring contains the newest `ring` purges.
    #[cfg(test)]
    pub(crate) fn with_ring(ring: usize) -> Self {
        Self::with_limits(PurgeTableLimits {
            ring,
            ..PurgeTableLimits::default()
        })
    }

    fn with_limits(limits: PurgeTableLimits) -> Self {
        Self {
            current: AtomicU64::new(0),
            tables: RwLock::new(Tables::new(limits)),
        }
    }

    /// The number of the newest purge. A fill uses it as `born`, just before it sends the first byte upstream.
    pub fn current(&self) -> u64 {
        self.current.load(Ordering::Acquire)
    }

    /// Publishes a purge. After it has returned, no later call of [`PurgeTable::validity`] reports an older entry as valid that
    /// the purge touches. Calls `note` with the purge's number inside the critical section, so that a queue filled by `note`
    /// has the order of the numbers. `note` must be short and must not use this table.
    ///
    /// Not public: purges are published through the log ([`crate::log::PurgeLog::publish`]), or in an [`UnloggedPurgeTable`] table.
    pub(crate) fn publish_with<T>(&self, purge: &Purge, note: impl FnOnce(u64) -> T) -> T {
        let mark = purge_scope::PurgeScope::of(&purge.scope).compile();
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let number = tables.record(mark, purge.strength);
        let noted = note(number);
        self.current.store(number, Ordering::Release);
        noted
    }

    /// Publishes a purge, for tests of the table alone.
    #[cfg(test)]
    pub(crate) fn publish(&self, purge: &Purge) -> u64 {
        self.publish_with(purge, |number| number)
    }

    /// Records a purge of an earlier run with its original number. The purges of a site must be replayed in rising order,
    /// before the first request. A number that does not rise is replaced by the next one, which purges more, never less.
    pub(crate) fn replay(&self, number: u64, purge: &Purge) {
        let mark = purge_scope::PurgeScope::of(&purge.scope);
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let number = tables.record_at(number, mark, purge.strength);
        self.current.store(number, Ordering::Release);
    }

    /// Raises the counter to `number` if it is lower. Purges nothing: older entries stay as they are, and the numbers in
    /// between are never used. Must follow [`PurgeTable::replay`], because it compiles the patterns that are still needed.
    pub(crate) fn lift(&self, number: u64) {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let number = tables.lift(number);
        self.current.store(number, Ordering::Release);
    }

    /// Whether `entry` may be sent for a request whose head was read before this call. One comparison if no purge is newer than
    /// the entry's last check. Never waits.
    pub fn validity(&self, entry: &Entry) -> Validity {
        self.validity_by(entry, OnContention::None)
    }

    /// Like [`PurgeTable::validity`], but waits for a writer, so the result is never [`Validity::Unknown`]. For the slow path only.
    ///
    /// An entry that is purged on the fast path may be [`Validity::Outdated`] here.
    pub fn validity_waiting(&self, entry: &Entry) -> Validity {
        match self.validity_by(entry, OnContention::Wait) {
            Validity::Purged if self.purged_fragments(entry).is_some() => Validity::Outdated,
            validity => validity,
        }
    }

    /// The indexes of a page's purged fragments, if no purge touches the page itself and all of the purged fragments can be
    /// rendered alone. A page with a fragment that is switched off is never patched. Waits for a writer.
    pub fn purged_fragments(&self, entry: &Entry) -> Option<Vec<usize>> {
        let mut versions = entry.fragments().iter().map(|fragment| &fragment.version);
        if entry.fragments().is_empty() || versions.any(|version| version.is_switched_off()) {
            return None;
        }
        let touch = entry.scopes.touch();
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        let page = tables.lookup(entry.born, &touch);
        let is_purged = |fragment: &&PageFragment| {
            tables.effect_on_tags(fragment.born, fragment.tags()) != PurgeEffect::Untouched
        };
        let numbered = entry.fragments().iter().enumerate();
        let purged: Vec<_> = numbered
            .filter(|(_, fragment)| is_purged(fragment))
            .collect();
        drop(tables);
        let can_be_rendered = purged
            .iter()
            .all(|(_, fragment)| fragment.version.is_shared());
        let mut steps = MAX_STEPS;
        (page.settle(&touch, &mut steps) == PurgeEffect::Untouched
            && !purged.is_empty()
            && can_be_rendered)
            .then(|| purged.into_iter().map(|(number, _)| number).collect())
    }

    /// Whether a rendering may replace `fragment` of a page: no purge since it was rendered touches either. Waits for a writer.
    pub fn is_current(&self, rendered: &Entry, fragment: &PageFragment) -> bool {
        if self.validity_waiting(rendered) != Validity::Valid {
            return false;
        }
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        tables.effect_on_tags(rendered.born, fragment.tags()) == PurgeEffect::Untouched
    }

    /// The tags of a page, without those of its fragments, that were purged since it was generated; none if the table no longer
    /// knows all purges since then. Waits for a writer.
    pub fn purged_tags<'e>(&self, entry: &'e Entry) -> Vec<&'e str> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        if tables.effect_on_tags(entry.born, iter::empty()) != PurgeEffect::Untouched {
            return Vec::new();
        }
        let tags = entry.tags.iter().map(String::as_str);
        let is_purged = |tag: &&str| {
            let effect = tables.effect_on_tags(entry.born, iter::once(tag_id(tag)));
            effect != PurgeEffect::Untouched
        };
        tags.filter(is_purged).collect()
    }

    /// Whether purges newer than `born` touch a fill. Waits for a writer. Soft purges count: a request after a soft purge does
    /// not join a fetch from before it.
    pub fn newer_than(&self, born: u64, touch: PurgeSubject<'_>) -> FillPurgeState {
        if self.current() <= born {
            return FillPurgeState::No;
        }
        let looked = self
            .tables
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .lookup(born, &touch);
        let mut steps = MAX_STEPS;
        let is_untouched = looked.settle(&touch, &mut steps) == PurgeEffect::Untouched;
        match (is_untouched, touch.tags) {
            (false, _) => FillPurgeState::Yes,
            (true, None) => FillPurgeState::OnlyTags,
            (true, Some(_)) => FillPurgeState::No,
        }
    }

    /// Whether purges newer than `born` touch one of the responses that are included in a fill. Waits for a writer.
    pub fn newer_than_parts(&self, born: u64, inclusions: &IncludedResponses) -> bool {
        inclusions.parts.iter().any(|part| {
            self.newer_than(born.max(part.born), part.scopes.touch()) != FillPurgeState::No
        })
    }

    /// The newest purge above `born` that touches something, for `galley why`; `None` if there is none. Changes nothing. Waits
    /// for a writer. Tests patterns under the lock, so it is not for a hot path.
    pub fn newest_match(&self, born: u64, touch: &PurgeSubject<'_>) -> Option<MatchingPurge> {
        self.tables
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .newest_match(born, touch)
    }

    fn validity_by(&self, entry: &Entry, on_contention: OnContention) -> Validity {
        let now = self.current();
        let checked = entry.checked.load();
        if checked.number >= now {
            return checked.verdict.into();
        }
        self.check_at(entry, now, on_contention)
    }

    /// Compares `entry` with the purges since its last check. Records `now`, the counter that the caller loaded.
    fn check_at(&self, entry: &Entry, now: u64, on_contention: OnContention) -> Validity {
        let checked = entry.checked.load();
        let touch = entry.scopes.touch();
        let included = entry.assembly().map(|assembly| &*assembly.inclusions.parts);
        let (looked, looked_at_parts) = {
            let tables = match (self.tables.try_read(), on_contention) {
                (Ok(tables), _) => tables,
                (Err(TryLockError::Poisoned(poisoned)), _) => poisoned.into_inner(),
                (Err(TryLockError::WouldBlock), OnContention::None) => return Validity::Unknown,
                (Err(TryLockError::WouldBlock), OnContention::Wait) => {
                    self.tables.read().unwrap_or_else(PoisonError::into_inner)
                }
            };
            let fragments = entry.fragments().iter().map(|fragment| {
                let base = checked.number.max(fragment.born);
                tables.effect_on_tags(base, fragment.tags())
            });
            // A soft purge of a fragment counts as a hard one: replacing the bytes costs little, so the old ones need not be sent.
            let looked = match fragments.max() {
                None | Some(PurgeEffect::Untouched) => tables.lookup(checked.number, &touch),
                Some(PurgeEffect::Soft | PurgeEffect::Hard) => {
                    TableLookup::decided(PurgeEffect::Hard)
                }
            };
            let parts = included.unwrap_or_default().iter();
            let parts = parts.map(|part| {
                let base = checked.number.max(part.born);
                tables.lookup(base, &part.scopes.touch())
            });
            (looked, parts.collect::<Vec<_>>())
        };
        // Patterns are tested after the lock is released, so that they do not delay a purge.
        let mut steps = MAX_STEPS;
        let mut verdict = looked.settle(&touch, &mut steps).max(checked.verdict);
        for (part, looked) in included.unwrap_or_default().iter().zip(looked_at_parts) {
            verdict = verdict.max(looked.settle(&part.scopes.touch(), &mut steps));
        }
        entry.checked.note(now, verdict);
        verdict.into()
    }
}

impl Default for PurgeTable {
    fn default() -> Self {
        Self::new()
    }
}

/// The purges of a site without a log. They are lost when the process ends.
///
/// This is a separate type so that purges of a site with a log cannot bypass the log.
#[derive(Debug, Default)]
pub struct UnloggedPurgeTable(PurgeTable);

impl UnloggedPurgeTable {
    /// A table without purges.
    pub fn new() -> Self {
        Self::default()
    }

    /// Publishes a purge and returns its number. After it has returned, no older entry that the purge touches is valid.
    pub fn publish(&self, purge: &Purge) -> u64 {
        self.0.publish_with(purge, |number| number)
    }
}

impl Deref for UnloggedPurgeTable {
    type Target = PurgeTable;

    fn deref(&self) -> &PurgeTable {
        &self.0
    }
}

impl From<PurgeEffect> for Validity {
    fn from(verdict: PurgeEffect) -> Self {
        match verdict {
            PurgeEffect::Untouched => Self::Valid,
            PurgeEffect::Soft => Self::SoftPurged,
            PurgeEffect::Hard => Self::Purged,
        }
    }
}

/// The behavior when a writer holds the lock.
#[derive(Clone, Copy)]
enum OnContention {
    None,
    Wait,
}

#[cfg(test)]
mod tests;
