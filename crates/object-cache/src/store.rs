//! The values of one database: leases, lifetimes, eviction.
//!
//! The counter rises with each change. A value is stored only if nobody else has changed its key since the counter at which its sender read
//! the database or the cache (the lease). A `set` that comes too late removes the value of the other: which of both the database has is
//! unknown, and a missing value is read again. A group is flushed by remembering the counter, in constant time.
//!
//! The store never exceeds its limit, never evicts WordPress's update data while that fits in a quarter of it, and never blocks.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use crate::touches::{Touch, Touches, group};

/// The values of one database.
#[derive(Debug)]
pub struct ObjectStore {
    slots: Vec<ValueSlot>,
    index: HashMap<Arc<[u8]>, usize, RandomState>,
    touches: Touches,
    /// The counter at the last flush of a group.
    groups: HashMap<Box<[u8]>, u64>,
    counter: u64,
    bytes: usize,
    protected: usize,
    limit: usize,
    evictions: u64,
    random: u64,
    /// The latest time that a caller named, in milliseconds.
    now: u64,
}

#[derive(Debug)]
struct ValueSlot {
    key: Arc<[u8]>,
    value: Arc<[u8]>,
    touch: Touch,
    /// Milliseconds; `u64::MAX`: never.
    expires: u64,
    used: u64,
}

/// A change of a value.
#[derive(Clone, Copy, Debug)]
pub struct ValueChange<'a> {
    /// What to do.
    pub kind: ChangeKind,
    /// The counter at which the sender read what the value was made from.
    pub lease: u64,
    /// Seconds until the value ends; 0: never.
    pub ttl: u32,
    /// The key, or the group of [`ChangeKind::FlushGroup`].
    pub key: &'a [u8],
    /// The value, or the difference of [`ChangeKind::Increment`] in 8 bytes.
    pub value: &'a [u8],
}

/// What a change does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// Stores a value.
    Set,
    /// Stores a value if there is none.
    Add,
    /// Removes a value.
    Delete,
    /// Adds to a number, which does not fall below 0.
    Increment,
    /// Removes all values of a group.
    FlushGroup,
    /// Removes all values.
    Flush,
}

/// The outcome of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// It was not made: there is no value, there is one already, it is too large, or the lease is over.
    Refused,
    /// It was made.
    Done,
    /// The number after [`ChangeKind::Increment`].
    Number(i64),
    /// Somebody else changed the key since the lease: there is no value now.
    Conflict,
}

impl ObjectStore {
    /// An empty store. `limit` is in bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            slots: Vec::new(),
            index: HashMap::default(),
            touches: Touches::default(),
            groups: HashMap::new(),
            counter: 1,
            bytes: 0,
            protected: 0,
            limit,
            evictions: 0,
            random: 0x9e37_79b9_7f4a_7c15,
            now: 0,
        }
    }

    /// The counter: the lease of whoever reads now.
    pub fn counter(&self) -> u64 {
        self.counter
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The memory of all values, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Values that made room for others since the last call.
    pub fn take_evictions(&mut self) -> u64 {
        std::mem::take(&mut self.evictions)
    }

    /// Sets another limit, and makes room for it.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        self.make_room(0);
    }

    /// Finds a value. `now` is in milliseconds.
    pub fn find(&mut self, key: &[u8], now: u64) -> Option<Arc<[u8]>> {
        let at = self.alive(key, now)?;
        let slot = &mut self.slots[at];
        slot.used = now;
        Some(Arc::clone(&slot.value))
    }

    /// The keys that have values.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.slots.iter().map(|slot| &*slot.key)
    }

    /// The shared bytes of a key that has a value.
    pub fn shared_key(&self, key: &[u8]) -> Option<Arc<[u8]>> {
        self.index
            .get_key_value(key)
            .map(|(key, _)| Arc::clone(key))
    }

    /// Makes a change for the process `writer`.
    pub fn change(&mut self, change: &ValueChange<'_>, writer: u64, now: u64) -> ChangeOutcome {
        match change.kind {
            ChangeKind::Set => self.set(change, writer, now),
            ChangeKind::Add => match self.alive(change.key, now) {
                Some(_) => ChangeOutcome::Refused,
                None if !self.permits(change, writer) => ChangeOutcome::Refused,
                None => self.put(change, change.value, writer, now),
            },
            ChangeKind::Delete => {
                let existed = self.alive(change.key, now);
                self.forget(change.key, writer);
                existed.map_or(ChangeOutcome::Refused, |_| ChangeOutcome::Done)
            }
            ChangeKind::Increment => self.increment(change, writer, now),
            ChangeKind::FlushGroup => {
                self.flush_group(change.key);
                ChangeOutcome::Done
            }
            ChangeKind::Flush => {
                self.flush();
                ChangeOutcome::Done
            }
        }
    }

    /// Removes everything. Every lease until now is over.
    pub fn flush(&mut self) {
        self.counter += 1;
        self.slots = Vec::new();
        self.index = HashMap::default();
        self.groups.clear();
        self.bytes = 0;
        self.protected = 0;
        self.touches.raise(self.counter);
    }

    fn flush_group(&mut self, group: &[u8]) {
        // No key names a longer group.
        if group.len() > usize::from(u8::MAX) {
            return;
        }
        if self.groups.len() >= MAX_GROUPS && !self.groups.contains_key(group) {
            return self.flush();
        }
        self.counter += 1;
        self.groups.insert(group.into(), self.counter);
    }

    fn set(&mut self, change: &ValueChange<'_>, writer: u64, now: u64) -> ChangeOutcome {
        self.now = self.now.max(now);
        if !self.permits(change, writer) {
            let is_equal = self.alive(change.key, now);
            let is_equal = is_equal.filter(|at| *self.slots[*at].value == *change.value);
            let Some(at) = is_equal else {
                self.forget(change.key, writer);
                return ChangeOutcome::Conflict;
            };
            // Both sent the same. The change still counts as one: a third process may have read before it.
            self.counter += 1;
            self.slots[at].touch = self.slots[at].touch.next(self.counter, writer);
            return ChangeOutcome::Done;
        }
        self.put(change, change.value, writer, now)
    }

    fn increment(&mut self, change: &ValueChange<'_>, writer: u64, now: u64) -> ChangeOutcome {
        let Some(at) = self.alive(change.key, now) else {
            return ChangeOutcome::Refused;
        };
        let Ok(difference) = <[u8; 8]>::try_from(change.value) else {
            return ChangeOutcome::Refused;
        };
        let value = &self.slots[at].value;
        let Some(number) = value.strip_prefix(&[NUMBER]).and_then(number) else {
            return ChangeOutcome::Refused;
        };
        let number = number.saturating_add(i64::from_le_bytes(difference)).max(0);
        self.counter += 1;
        let text = [&[NUMBER], number.to_string().as_bytes()].concat();
        let slot = &mut self.slots[at];
        let former = slot.value.len();
        self.bytes = self.bytes + text.len() - former;
        if is_protected(&slot.key) {
            self.protected = self.protected + text.len() - former;
        }
        slot.value = text.into();
        slot.touch = slot.touch.next(self.counter, writer);
        slot.used = now;
        ChangeOutcome::Number(number)
    }

    /// Stores a value whose lease was checked.
    fn put(
        &mut self,
        change: &ValueChange<'_>,
        value: &[u8],
        writer: u64,
        now: u64,
    ) -> ChangeOutcome {
        let touch = self.touch(change.key);
        self.remove(change.key);
        self.counter += 1;
        let touch = touch.next(self.counter, writer);
        let size = size(change.key, value);
        if change.key.len() > MAX_KEY || size > self.limit / LARGEST_SHARE || !self.make_room(size)
        {
            self.note(change.key, touch);
            return ChangeOutcome::Refused;
        }
        let ttl = u64::from(change.ttl) * 1000;
        self.insert(ValueSlot {
            key: change.key.into(),
            value: value.into(),
            touch,
            expires: if ttl == 0 { u64::MAX } else { now + ttl },
            used: now,
        });
        ChangeOutcome::Done
    }

    fn insert(&mut self, slot: ValueSlot) {
        let size = size(&slot.key, &slot.value);
        self.bytes += size;
        if is_protected(&slot.key) {
            self.protected += size;
        }
        self.index.insert(Arc::clone(&slot.key), self.slots.len());
        self.slots.push(slot);
    }

    /// An empty store that goes on at a counter: earlier leases are over.
    pub(crate) fn resume(limit: usize, counter: u64) -> Self {
        let mut store = Self::new(limit);
        store.counter = counter.max(1);
        store.touches.raise(store.counter);
        store
    }

    /// The values: key, value, the milliseconds until it ends, and those since its last use.
    pub(crate) fn values(&self, now: u64) -> impl Iterator<Item = (&[u8], &[u8], u64, u64)> {
        let is_alive = move |slot: &&ValueSlot| {
            slot.expires > now && slot.touch.at > self.group_flush(&slot.key)
        };
        self.slots.iter().filter(is_alive).map(move |slot| {
            let idle = now.saturating_sub(slot.used);
            (&*slot.key, &*slot.value, slot.expires - now, idle)
        })
    }

    /// Stores a value of another process's store, if there is room.
    pub(crate) fn restore(&mut self, key: &[u8], value: &[u8], expires: u64, used: u64) {
        let is_new = key.len() <= MAX_KEY && !self.index.contains_key(key);
        if is_new && self.bytes + size(key, value) <= self.limit {
            self.insert(ValueSlot {
                key: key.into(),
                value: value.into(),
                touch: self.touches.find(0),
                expires,
                used,
            });
        }
    }

    /// Removes a value, and ends the leases of all other processes on its key.
    fn forget(&mut self, key: &[u8], writer: u64) {
        let touch = self.touch(key);
        self.remove(key);
        self.counter += 1;
        self.note(key, touch.next(self.counter, writer));
    }

    fn note(&mut self, key: &[u8], touch: Touch) {
        let hash = self.index.hasher().hash_one(key);
        self.touches.note(hash, touch);
    }

    fn permits(&self, change: &ValueChange<'_>, writer: u64) -> bool {
        change.lease <= self.counter && self.touch(change.key).permits(change.lease, writer)
    }

    /// The last change of a key, a flush of its group included.
    fn touch(&self, key: &[u8]) -> Touch {
        let hash = self.index.hasher().hash_one(key);
        let mut touch = self.touches.find(hash);
        if let Some(at) = self.index.get(key)
            && self.slots[*at].touch.at > touch.at
        {
            touch = self.slots[*at].touch;
        }
        let flushed = self.group_flush(key);
        touch.foreign = touch.foreign.max(flushed);
        if flushed > touch.at {
            touch.at = flushed;
            touch.writer = 0;
        }
        touch
    }

    fn group_flush(&self, key: &[u8]) -> u64 {
        if self.groups.is_empty() {
            return 0;
        }
        self.groups.get(group(key)).copied().unwrap_or_default()
    }

    /// The place of a value that is neither over nor flushed; removes it if it is.
    fn alive(&mut self, key: &[u8], now: u64) -> Option<usize> {
        self.now = self.now.max(now);
        let at = *self.index.get(key)?;
        let slot = &self.slots[at];
        if slot.expires > now && slot.touch.at > self.group_flush(key) {
            return Some(at);
        }
        self.drop_slot(at);
        None
    }

    fn remove(&mut self, key: &[u8]) {
        if let Some(at) = self.index.get(key) {
            self.drop_slot(*at);
        }
    }

    /// Removes a value, and remembers when its key was changed.
    fn drop_slot(&mut self, at: usize) {
        let slot = self.slots.swap_remove(at);
        self.index.remove(&slot.key);
        if let Some(moved) = self.slots.get(at) {
            self.index.insert(Arc::clone(&moved.key), at);
        }
        let size = size(&slot.key, &slot.value);
        self.bytes -= size;
        if is_protected(&slot.key) {
            self.protected -= size;
        }
        self.note(&slot.key, slot.touch);
    }

    /// Evicts so many bytes. Returns whether that was possible.
    pub fn shrink(&mut self, by: usize) -> bool {
        self.evict_to(self.bytes.saturating_sub(by))
    }

    /// Evicts until `size` more bytes fit. Returns whether they do.
    fn make_room(&mut self, size: usize) -> bool {
        size <= self.limit && self.evict_to(self.limit - size)
    }

    fn evict_to(&mut self, most: usize) -> bool {
        while self.bytes > most {
            let Some(at) = self.least_useful() else {
                return false;
            };
            self.drop_slot(at);
            self.evictions += 1;
        }
        true
    }

    /// The value of some at random that has the highest product of size and time since its last use.
    fn least_useful(&mut self) -> Option<usize> {
        let keeps_protected = self.protected <= self.limit / PROTECTED_SHARE;
        let now = self.now;
        let may_go = |slot: &ValueSlot| !(keeps_protected && is_protected(&slot.key));
        let weight = |slot: &ValueSlot| {
            let age = now.saturating_sub(slot.used).saturating_add(1);
            age.saturating_mul(size(&slot.key, &slot.value) as u64)
        };
        let mut best: Option<(u64, usize)> = None;
        for _ in 0..SAMPLES {
            let at = self.pick()?;
            let slot = &self.slots[at];
            if may_go(slot) && best.is_none_or(|(heaviest, _)| weight(slot) > heaviest) {
                best = Some((weight(slot), at));
            }
        }
        best.map(|(_, at)| at)
            .or_else(|| self.slots.iter().position(may_go))
    }

    /// A place at random (xorshift).
    fn pick(&mut self) -> Option<usize> {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let count = u64::try_from(self.slots.len()).ok()?;
        usize::try_from(self.random.checked_rem(count)?).ok()
    }
}

/// Whether WordPress stops to update itself without this value.
fn is_protected(key: &[u8]) -> bool {
    key.strip_prefix(PROTECTED).is_some()
}

fn size(key: &[u8], value: &[u8]) -> usize {
    key.len() + value.len() + OVERHEAD
}

fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The codec byte of a number in decimal digits.
const NUMBER: u8 = b'i';

/// The group `site-transient` and the beginning of the names.
const PROTECTED: &[u8] = b"\x0esite-transientupdate_";

/// The longest key, in bytes.
pub(crate) const MAX_KEY: usize = 512;

/// A value may take an eighth of the memory.
const LARGEST_SHARE: usize = 8;

/// Update data may take a quarter of the memory; more is data like any other.
const PROTECTED_SHARE: usize = 4;

/// A slot, its place in the index, and two allocations.
const OVERHEAD: usize = 160;

/// Flushed groups whose counters are kept; one more flushes everything.
const MAX_GROUPS: usize = 1024;

const SAMPLES: usize = 16;

#[cfg(test)]
mod tests;
