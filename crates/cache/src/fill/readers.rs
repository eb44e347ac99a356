//! The readers of a fill: their positions and wakers.
//!
//! Each reader has a numbered slot, which is reused after the reader has left, and at most one waker, registered while it waits.
//! Replaced and unused wakers are moved to [`DeferredActions`], because dropping a waker may drop a task, and with it a reader.

use std::task::{Context, Waker};

use super::deferred::DeferredActions;
use super::parts::FillError;

/// See the module.
#[derive(Default)]
pub(super) struct Readers {
    slots: Vec<Option<ReaderSlot>>,
    free: Vec<usize>,
    joined: u64,
}

struct ReaderSlot {
    /// The number of bytes that the reader has read.
    position: u64,
    /// Registered while the reader waits. Removed when it is woken.
    waker: Option<Waker>,
    /// The reader's index in the order of joining, from 0.
    joined: u64,
    excluded: Option<FillError>,
}

impl Readers {
    pub(super) fn add(&mut self) -> usize {
        let reader = ReaderSlot {
            position: 0,
            waker: None,
            joined: self.joined,
            excluded: None,
        };
        self.joined += 1;
        let slot = self.free.pop().unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot] = Some(reader);
        slot
    }

    pub(super) fn remove(&mut self, slot: usize, after: &mut DeferredActions) {
        if let Some(reader) = self.slots.get_mut(slot).and_then(Option::take) {
            after.drop_wakers.extend(reader.waker);
            self.free.push(slot);
        }
    }

    /// The number of occupied slots.
    pub(super) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn register(&mut self, slot: usize, cx: &Context<'_>, after: &mut DeferredActions) {
        let Some(reader) = self.slots.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        if reader
            .waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            return;
        }
        after
            .drop_wakers
            .extend(reader.waker.replace(cx.waker().clone()));
    }

    pub(super) fn wake(&mut self, after: &mut DeferredActions) {
        after.wake.extend(
            self.slots
                .iter_mut()
                .flatten()
                .filter_map(|reader| reader.waker.take()),
        );
    }

    pub(super) fn exclude_all_but_first(&mut self, failure: FillError) {
        for reader in self
            .slots
            .iter_mut()
            .flatten()
            .filter(|reader| reader.joined != 0)
        {
            reader.excluded = Some(failure);
        }
    }

    pub(super) fn excluded(&self, slot: usize) -> Option<FillError> {
        self.slots.get(slot)?.as_ref()?.excluded
    }

    pub(super) fn position(&self, slot: usize) -> u64 {
        self.slots
            .get(slot)
            .and_then(Option::as_ref)
            .map_or(0, |reader| reader.position)
    }

    pub(super) fn advance(&mut self, slot: usize, position: u64) {
        if let Some(reader) = self.slots.get_mut(slot).and_then(Option::as_mut) {
            reader.position = position;
        }
    }

    /// The position of the slowest reader that may read.
    pub(super) fn slowest(&self) -> Option<u64> {
        self.reading().map(|reader| reader.position).min()
    }

    pub(super) fn has_any(&self) -> bool {
        self.reading().next().is_some()
    }

    pub(super) fn had_any(&self) -> bool {
        self.joined > 0
    }

    fn reading(&self) -> impl Iterator<Item = &ReaderSlot> {
        self.slots
            .iter()
            .flatten()
            .filter(|reader| reader.excluded.is_none())
    }
}
