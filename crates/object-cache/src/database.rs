//! What one database answers.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::figures::{Count, Figures};
use crate::filter::KeyFilter;
use crate::learner::{Learner, RequestClass};
use crate::store::{ChangeKind, ChangeOutcome, ObjectStore, ValueChange};
use crate::wire::{self, ObjectValue};

#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) namespace: [u8; 16],
    /// Differs from that of each former store of the same database, whose leases say nothing about this one.
    pub(crate) id: u64,
    pub(crate) known: Option<(Vec<u8>, Vec<u8>)>,
    pub(crate) store: ObjectStore,
    pub(crate) filter: KeyFilter,
    pub(crate) learner: Learner,
}

/// Where a process is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SessionPlace {
    pub(crate) site: String,
    pub(crate) namespace: [u8; 16],
    /// [`Database::id`].
    pub(crate) database: u64,
    pub(crate) url: RequestClass,
    pub(crate) pattern: RequestClass,
}

impl Database {
    /// The values of keys; none if the node may not read.
    fn find<'a, K: AsRef<[u8]> + 'a>(
        &mut self,
        keys: impl Iterator<Item = &'a K>,
        may_read: bool,
        now: u64,
    ) -> Vec<Option<Arc<[u8]>>> {
        let mut find = |key: &K| self.store.find(key.as_ref(), now).filter(|_| may_read);
        keys.map(&mut find).collect()
    }

    /// The first answer, with the values that the request will read.
    pub(crate) fn started(
        &mut self,
        place: &SessionPlace,
        may_read: bool,
        figures: &Figures,
        now: u64,
    ) -> Vec<u8> {
        if self.filter.is_old(self.store.len()) {
            self.filter = KeyFilter::of(self.store.len(), self.store.keys());
        }
        let nothing = KeyFilter::empty();
        let counter = self.store.counter();
        if !may_read {
            return wire::started(counter, nothing.bits(), &[]);
        }
        let keys = self.learner.foresee(place.url, place.pattern);
        let values = self.find(keys.iter(), may_read, now);
        let left = MAX_AHEAD.saturating_sub(self.filter.bits().len());
        let items = sent_ahead(&keys, &values, left, figures);
        wire::started(counter, self.filter.bits(), &items)
    }

    /// Values that were asked for, those of keys that follow them, and some that requests of the pattern read now and then.
    pub(crate) fn get(
        &mut self,
        keys: &[&[u8]],
        place: Option<&SessionPlace>,
        may_read: bool,
        figures: &Figures,
        now: u64,
    ) -> Vec<u8> {
        let values = self.find(keys.iter(), may_read, now);
        let missing = keys.iter().zip(&values).filter(|(_, one)| one.is_none());
        let mut misses = 0;
        for (key, _) in missing {
            misses += 1;
            figures.note(key, |cost| cost.misses += 1);
        }
        figures.add(Count::RoundTrips, 1);
        figures.add(Count::Hits, values.len() as u64 - misses);
        figures.add(Count::Misses, misses);
        let mut next = self.learner.follow(keys);
        if let Some(place) = place {
            next.extend(self.learner.possible(place.url, place.pattern));
        }
        let next_values = self.find(next.iter(), may_read, now);
        let mut next: Vec<_> = next.into_iter().zip(next_values).collect();
        next.retain(|(_, value)| value.is_some());
        // The small ones would not fit behind some large ones, and each takes as many round trips.
        next.sort_by_key(|(_, value)| value.as_ref().is_some_and(|value| value.len() > SMALL));
        let (next, next_values): (Vec<_>, Vec<_>) = next.into_iter().unzip();
        let mut items = sent_ahead(&next, &next_values, MAX_NEXT, figures);
        items.retain(|(_, found)| matches!(found, ObjectValue::Value(_)));
        let found = within(&values, MAX_ANSWER);
        wire::values(self.store.counter(), &found, &items)
    }

    /// Empties the store.
    pub(crate) fn flush(&mut self) {
        self.store.flush();
        self.filter = KeyFilter::empty();
    }

    /// Makes a change that stores nothing.
    pub(crate) fn remove(&mut self, change: &ValueChange<'_>, writer: u64) {
        self.store.change(change, writer, 0);
        if change.kind == ChangeKind::Flush {
            self.filter = KeyFilter::empty();
        }
    }

    pub(crate) fn change(
        &mut self,
        changes: &[ValueChange<'_>],
        writer: u64,
        figures: &Figures,
        now: u64,
    ) -> Vec<ChangeOutcome> {
        let mut outcomes = Vec::with_capacity(changes.len());
        for change in changes {
            let outcome = self.store.change(change, writer, now);
            figures.add(Count::Changes, 1);
            let is_conflict = outcome == ChangeOutcome::Conflict;
            figures.add(Count::Conflicts, u64::from(is_conflict));
            if outcome == ChangeOutcome::Done {
                self.filter.add(change.key);
            }
            if change.kind == ChangeKind::Flush {
                self.filter = KeyFilter::empty();
                figures.add(Count::Flushes, 1);
                figures.note_flush(change.key);
            } else if change.kind != ChangeKind::FlushGroup {
                figures.note(change.key, |cost| cost.changes += 1);
            }
            outcomes.push(outcome);
        }
        figures.add(Count::Evictions, self.store.take_evictions());
        outcomes
    }
}

/// Values that nobody has asked for yet, with their keys.
fn sent_ahead<'a>(
    keys: &'a [Arc<[u8]>],
    values: &'a [Option<Arc<[u8]>>],
    most: usize,
    figures: &Figures,
) -> Vec<(&'a [u8], ObjectValue<'a>)> {
    let found = within(values, most);
    let sent = found
        .iter()
        .filter(|one| matches!(one, ObjectValue::Value(_)));
    figures.add(Count::SentAhead, sent.count() as u64);
    keys.iter().map(|key| &**key).zip(found).collect()
}

/// The values that fit into so many bytes, in their order; at least one.
fn within(values: &[Option<Arc<[u8]>>], most: usize) -> Vec<ObjectValue<'_>> {
    let mut left = most;
    let mut has_any = false;
    let found = values.iter().map(|value| match value {
        None => ObjectValue::Absent,
        Some(value) if value.len() <= left || !has_any => {
            has_any = true;
            left = left.saturating_sub(value.len());
            ObjectValue::Value(value)
        }
        Some(_) => ObjectValue::Later,
    });
    found.collect()
}

/// The values that are sent before PHP asks for them, in bytes.
const MAX_AHEAD: usize = 256 << 10;

/// The values that are sent together with others, in bytes.
const MAX_NEXT: usize = 96 << 10;

/// Values of so many bytes are sent before larger ones.
const SMALL: usize = 512;

/// The values of one answer, in bytes. PHP asks for the rest.
const MAX_ANSWER: usize = 8 << 20;
