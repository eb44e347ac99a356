//! What one database answers.

use std::sync::Arc;

use crate::figures::{Count, Figures, GroupCost};
use crate::learner::{Learner, RequestClass};
use crate::store::{ChangeKind, ChangeOutcome, ObjectStore, ValueChange};
use crate::wire::{self, Found};

#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) namespace: [u8; 16],
    /// Differs from that of each former store of the same database, whose leases say nothing about this one.
    pub(crate) id: u64,
    pub(crate) known: Option<(Vec<u8>, Vec<u8>)>,
    pub(crate) store: ObjectStore,
    pub(crate) learner: Learner,
}

/// Where a process is.
#[derive(Clone, Debug)]
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
    pub(crate) fn find(
        &mut self,
        keys: &[&[u8]],
        may_read: bool,
        now: u64,
    ) -> Vec<Option<Arc<[u8]>>> {
        let mut find = |key: &&[u8]| self.store.find(key, now).filter(|_| may_read);
        keys.iter().map(&mut find).collect()
    }

    /// The first answer, with the values that the request will read.
    pub(crate) fn started(
        &mut self,
        store_id: u64,
        place: &SessionPlace,
        may_read: bool,
        figures: &Figures,
        now: u64,
    ) -> Vec<u8> {
        let keys = self.learner.foresee(place.url, place.pattern);
        let names: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
        let values = self.find(&names, may_read, now);
        let found = within(&values, MAX_AHEAD);
        let sent = found.iter().filter(|one| matches!(one, Found::Value(_)));
        figures.add(Count::SentAhead, sent.count() as u64);
        let items: Vec<_> = names.into_iter().zip(found).collect();
        wire::started(store_id, self.store.counter(), &items)
    }

    pub(crate) fn get(
        &mut self,
        keys: &[&[u8]],
        may_read: bool,
        figures: &Figures,
        now: u64,
    ) -> Vec<u8> {
        let values = self.find(keys, may_read, now);
        let hits = values.iter().flatten().count();
        for (key, _) in keys
            .iter()
            .zip(&values)
            .filter(|(_, value)| value.is_none())
        {
            figures.note(
                key,
                GroupCost {
                    misses: 1,
                    changes: 0,
                },
            );
        }
        figures.add(Count::RoundTrips, 1);
        figures.add(Count::Hits, hits as u64);
        figures.add(Count::Misses, (values.len() - hits) as u64);
        wire::values(self.store.counter(), &within(&values, MAX_ANSWER))
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
            figures.add(
                Count::Conflicts,
                u64::from(outcome == ChangeOutcome::Conflict),
            );
            if change.kind == ChangeKind::Flush {
                figures.add(Count::Flushes, 1);
                figures.note_flush(change.key);
            } else if change.kind != ChangeKind::FlushGroup {
                figures.note(
                    change.key,
                    GroupCost {
                        misses: 0,
                        changes: 1,
                    },
                );
            }
            outcomes.push(outcome);
        }
        figures.add(Count::Evictions, self.store.take_evictions());
        outcomes
    }
}

/// The values that fit into so many bytes, in their order; at least one.
fn within(values: &[Option<Arc<[u8]>>], most: usize) -> Vec<Found<'_>> {
    let mut left = most;
    let mut has_any = false;
    let found = values.iter().map(|value| match value {
        None => Found::Absent,
        Some(value) if value.len() <= left || !has_any => {
            has_any = true;
            left = left.saturating_sub(value.len());
            Found::Value(value)
        }
        Some(_) => Found::Later,
    });
    found.collect()
}

/// The values that are sent before PHP asks for them, in bytes.
const MAX_AHEAD: usize = 256 << 10;

/// The values of one answer, in bytes. PHP asks for the rest.
const MAX_ANSWER: usize = 8 << 20;
