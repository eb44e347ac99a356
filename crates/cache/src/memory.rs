//! The shared store of entries in memory: sharded, weighted, resistant to scans (S3-FIFO family).
//!
//! Invariants: an entry never replaces one with a greater `born`; the weight of the stored entries is below the limit when an
//! entry is admitted, not afterwards; every entry has reserved its bytes from one [`MemoryBudget`], which fills use too. A
//! part of the limit is not available to stored entries, so that fills can reserve memory while the store is full. If several
//! sites share the store, no site uses the share of another one (`crate::site_shares`).
//!
//! The store does not consider purges or lifetimes: a caller that finds an entry calls `PurgeTable::validity` and
//! `galley_policy::decide`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use quick_cache::sync::Cache;
use quick_cache::{Lifecycle, OptionsBuilder, Weighter};

use crate::budget::MemoryBudget;
use crate::entry::Entry;
use crate::fill::BodyRetention;
use crate::key::{IdentityHash, Key, KeyRef};
use crate::site_shares::{EvictionStep, SiteShares, TYPICAL_ENTRY};
use crate::sync::Lock;

pub use crate::site_shares::SiteQuota;

/// Why an entry was not stored. The response is sent all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PutRefused {
    /// The body is larger than the largest allowed object.
    #[error("larger than the largest object allowed")]
    TooLarge,
    /// Entries, fills and bodies that readers still use have reached the memory limit.
    #[error("the memory limit is reached")]
    Full,
    /// The key has an entry with a greater `born` or, with [`Memory::put_if_same`], another entry than expected.
    #[error("a newer entry is already stored")]
    Superseded,
}

/// The result of a lookup that does not wait.
#[derive(Clone, Debug)]
pub enum MemoryLookup {
    /// The entry.
    Found(Arc<Entry>),
    /// The key has no entry.
    Absent,
    /// A writer holds the shard's lock. Use the slow path.
    Busy,
}

/// The memory that the store uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUsage {
    /// The number of stored entries, including markers.
    pub entries: u64,
    /// The weight of the stored entries in bytes.
    pub bytes: u64,
    /// Bytes reserved by stored entries, fills and bodies that readers still use.
    pub reserved: u64,
    /// The limit for `reserved`, in bytes.
    pub limit: u64,
    /// Entries evicted since the start.
    pub evictions: u64,
    /// Entries removed by [`Memory::sweep`] since the start.
    pub swept: u64,
}

/// The limits of a store.
#[derive(Clone, Copy, Debug)]
pub struct MemoryLimits {
    /// The maximum size of all entries, in bytes.
    pub bytes: u64,
    /// The maximum size of an entry's body, in bytes.
    pub object_bytes: u64,
}

/// The store. Share it with `Arc`; all methods take `&self`.
pub struct Memory {
    cache: Cache<Key, Arc<Entry>, ByWeight, IdentityHash, Evicted>,
    /// One writer per key at a time, so that comparing with the stored entry and replacing it is one step. Readers never take these
    /// locks.
    writers: [Lock<()>; WRITERS],
    budget: MemoryBudget,
    /// The share of each site; `None`: the entries do not belong to sites.
    shares: Option<SiteShares>,
    max_object: u64,
    evictions: AtomicU64,
    swept: AtomicU64,
}

impl Memory {
    /// A store with a limit of `limit_bytes` in total, for bodies of at most `max_object` bytes (less if the limit is too small for
    /// such bodies).
    pub fn new(limit_bytes: u64, max_object: u64) -> Self {
        Self::with_budget(MemoryBudget::new(limit_bytes), limit_bytes, max_object)
    }

    /// Two stores under one limit. The second has at most `share` bytes, the first has the rest. An entry of one store is never
    /// evicted for an entry of the other. Sites share the first one.
    pub fn divided(all: MemoryLimits, share: MemoryLimits) -> (Self, Self) {
        let share_bytes = share.bytes.min(all.bytes / 2);
        let budget = MemoryBudget::new(all.bytes);
        let rest = all.bytes - share_bytes;
        let first = Self::with_budget(budget.clone(), rest, all.object_bytes);
        (first, Self::table(budget, share_bytes, share.object_bytes))
    }

    /// Sets the sites that share this store; see [`SiteQuota`]. Stored entries stay.
    pub fn share_among(&self, sites: &[SiteQuota]) {
        if let Some(shares) = &self.shares {
            shares.name(sites);
        }
    }

    /// The weight of a site's entries in bytes. The mark is the last four bytes of the site's keys.
    pub fn site_bytes(&self, mark: u32) -> u64 {
        self.shares.as_ref().map_or(0, |shares| shares.bytes(mark))
    }

    fn with_budget(budget: MemoryBudget, limit_bytes: u64, max_object: u64) -> Self {
        let headroom = max_object.clamp(limit_bytes / 8, limit_bytes / 4);
        let capacity = limit_bytes - headroom;
        let table = Self::table(budget, capacity, max_object);
        Self {
            shares: Some(SiteShares::new(capacity, table.cache.num_shards())),
            ..table
        }
    }

    fn table(budget: MemoryBudget, capacity: u64, max_object: u64) -> Self {
        let max_object = max_object.min(capacity / 2);
        let options = OptionsBuilder::new()
            .weight_capacity(capacity)
            .shards(shards(capacity, max_object))
            .estimated_items_capacity(
                usize::try_from(capacity / TYPICAL_ENTRY).unwrap_or(usize::MAX),
            )
            .build()
            .expect("capacity and estimate are both set above");
        Self {
            cache: Cache::with_options(options, ByWeight, IdentityHash, Evicted),
            writers: std::array::from_fn(|_| Lock::new(())),
            budget,
            shares: None,
            max_object,
            evictions: AtomicU64::new(0),
            swept: AtomicU64::new(0),
        }
    }

    /// The entry of a key. Waits microseconds for a writer of the same shard. Allocates nothing.
    pub fn get(&self, key_bytes: &[u8]) -> Option<Arc<Entry>> {
        let entry = self.cache.get(&KeyRef::new(key_bytes))?;
        entry.hit();
        Some(entry)
    }

    /// The entry of a key, for the fast path: never waits, allocates nothing.
    pub fn try_get(&self, key_bytes: &[u8]) -> MemoryLookup {
        match self.cache.try_get(&KeyRef::new(key_bytes)) {
            Ok(Some(entry)) => {
                entry.hit();
                MemoryLookup::Found(entry)
            }
            Ok(None) => MemoryLookup::Absent,
            Err(_) => MemoryLookup::Busy,
        }
    }

    /// The entry of a key, for inspection: does not count as a hit and does not protect the entry from eviction.
    pub fn peek(&self, key_bytes: &[u8]) -> Option<Arc<Entry>> {
        self.cache.peek(&KeyRef::new(key_bytes))
    }

    /// All entries, in arbitrary order. Locks a shard only during each step, so the iterator may be kept and continued later.
    /// Entries that are stored or removed in between may be missed.
    pub fn entries(&self) -> impl Iterator<Item = Arc<Entry>> + Send + '_ {
        self.cache.iter().map(|(_, entry)| entry)
    }

    /// Stores an entry and evicts others if needed. Does not replace an entry with a greater `born`: its request was sent
    /// later, so that response may reflect a change that this one does not.
    pub fn put(&self, entry: Arc<Entry>) -> Result<(), PutRefused> {
        let born = entry.born;
        self.put_where(entry, |resident| {
            resident.is_none_or(|resident| resident.born <= born)
        })
    }

    /// Stores `entry` only if its key still has the entry `held`: for a renewal by a 304, or a denser coding.
    pub fn put_if_same(&self, held: &Arc<Entry>, entry: Arc<Entry>) -> Result<(), PutRefused> {
        self.put_where(entry, |resident| {
            resident.is_some_and(|resident| Arc::ptr_eq(resident, held))
        })
    }

    /// Removes the entry of a key.
    pub fn remove(&self, key_bytes: &[u8]) {
        let removed = self.cache.remove_if(&KeyRef::new(key_bytes), |_| true);
        self.subtract(removed.map(|(_, entry)| entry));
    }

    /// Removes `entry`, unless another entry has replaced it.
    pub fn remove_if_same(&self, entry: &Arc<Entry>) {
        self.take(entry);
    }

    /// The current usage. Takes each shard's lock briefly.
    pub fn usage(&self) -> MemoryUsage {
        MemoryUsage {
            entries: self.cache.len() as u64,
            bytes: self.cache.weight(),
            reserved: self.budget.used(),
            limit: self.budget.limit(),
            evictions: self.evictions.load(Ordering::Relaxed),
            swept: self.swept.load(Ordering::Relaxed),
        }
    }

    /// The maximum size of a body, in bytes.
    pub fn max_object(&self) -> u64 {
        self.max_object
    }

    /// The limit that entries and fills share.
    pub fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    /// The limits that a fill must observe to keep a body for this store.
    pub fn keep(&self) -> BodyRetention {
        BodyRetention {
            budget: self.budget.clone(),
            max_bytes: self.max_object,
        }
    }

    /// Removes every entry for which `is_purged` returns true. Holds no lock while `is_purged` runs, so it may pause to limit
    /// its load. Entries that are stored or removed in between may be missed.
    pub fn sweep(&self, mut is_purged: impl FnMut(&Entry) -> bool) {
        for entry in self.entries() {
            if is_purged(&entry) {
                self.swept.fetch_add(1, Ordering::Relaxed);
                self.remove_if_same(&entry);
            }
        }
    }

    fn put_where(
        &self,
        entry: Arc<Entry>,
        may: impl FnOnce(Option<&Arc<Entry>>) -> bool,
    ) -> Result<(), PutRefused> {
        let is_elsewhere = entry.pieces().is_some();
        if is_elsewhere
            || entry.length() > self.max_object
            || entry.weight() > self.largest_weight()
        {
            return Err(PutRefused::TooLarge);
        }
        let writer = self.writer(entry.key.hash());
        let resident = self.cache.peek(&KeyRef::from(&entry.key));
        if !may(resident.as_ref()) {
            return Err(PutRefused::Superseded);
        }
        if resident
            .as_ref()
            .is_some_and(|resident| Arc::ptr_eq(resident, &entry))
        {
            return Ok(());
        }
        self.evict_for(&entry, resident.as_deref())?;
        drop(resident);
        entry.reserve(&self.budget).map_err(|_| PutRefused::Full)?;
        let newcomer = Arc::clone(&entry);
        let mut removed = Vec::new();
        self.add(&newcomer);
        self.cache
            .insert_with_lifecycle(entry.key.clone(), entry, &mut removed);
        drop(writer);
        self.subtract(removed.iter().cloned());
        let evicted = removed
            .iter()
            .filter(|gone| gone.key != newcomer.key)
            .count();
        self.evictions.fetch_add(evicted as u64, Ordering::Relaxed);
        // The table may reject the new entry itself.
        if removed.iter().any(|gone| Arc::ptr_eq(gone, &newcomer)) {
            return Err(PutRefused::Full);
        }
        if let Some(shares) = &self.shares {
            shares.enroll(&newcomer);
        }
        Ok(())
    }

    /// Evicts entries of a site that exceeds its limit or share, until `entry` can be stored in place of `resident`.
    fn evict_for(&self, entry: &Entry, resident: Option<&Entry>) -> Result<(), PutRefused> {
        let Some(shares) = &self.shares else {
            return Ok(());
        };
        let more = entry
            .weight()
            .saturating_sub(resident.map_or(0, Entry::weight));
        loop {
            match shares.next_step(&entry.key, more) {
                EvictionStep::Store => return Ok(()),
                EvictionStep::Reject => return Err(PutRefused::Full),
                EvictionStep::Evict(other) => {
                    if self.take(&other) {
                        self.evictions.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        }
    }

    /// Removes `entry`, unless another entry has replaced it. Returns whether it was removed.
    fn take(&self, entry: &Arc<Entry>) -> bool {
        let removed = self.cache.remove_if(&KeyRef::from(&entry.key), |resident| {
            Arc::ptr_eq(resident, entry)
        });
        let is_removed = removed.is_some();
        self.subtract(removed.map(|(_, entry)| entry));
        is_removed
    }

    fn add(&self, entry: &Entry) {
        if let Some(shares) = &self.shares {
            shares.add(entry);
        }
    }

    fn subtract(&self, gone: impl IntoIterator<Item = Arc<Entry>>) {
        let Some(shares) = &self.shares else {
            return;
        };
        for entry in gone {
            shares.subtract(&entry);
        }
    }

    /// The largest weight that the table admits: the hot part of one shard, slightly less than the 97 % that the table uses.
    pub fn largest_weight(&self) -> u64 {
        self.cache.shard_capacity() / 100 * 96
    }

    fn writer(&self, hash: u64) -> MutexGuard<'_, ()> {
        let stripe = usize::try_from(hash % WRITERS as u64).unwrap_or(0);
        self.writers[stripe].lock()
    }
}

/// With this many locks, writers of different keys rarely contend.
const WRITERS: usize = 32;
/// The minimum number of the largest objects per shard. With fewer, one object would empty a shard.
const OBJECTS_PER_SHARD: u64 = 4;
/// More shards gain nothing on the machines that WordPress runs on.
const MAX_SHARDS: u64 = 64;

fn shards(capacity: u64, max_object: u64) -> usize {
    let fitting = (capacity / OBJECTS_PER_SHARD / max_object.max(1)).clamp(1, MAX_SHARDS);
    // Rounded down to a power of two: the table would round up, and large objects would no longer fit.
    1 << fitting.ilog2()
}

#[derive(Clone)]
struct ByWeight;

impl Weighter<Key, Arc<Entry>> for ByWeight {
    fn weight(&self, _: &Key, entry: &Arc<Entry>) -> u64 {
        entry.weight()
    }
}

/// Collects evicted entries, so that they are dropped after the shard's lock is released.
#[derive(Clone)]
struct Evicted;

impl Lifecycle<Key, Arc<Entry>> for Evicted {
    type RequestState = Vec<Arc<Entry>>;

    fn on_evict(&self, removed: &mut Vec<Arc<Entry>>, _: Key, entry: Arc<Entry>) {
        removed.push(entry);
    }
}

#[cfg(test)]
mod tests;
