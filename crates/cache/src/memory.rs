//! The shared store of entries in memory: sharded, weighted, resistant to scans (S3-FIFO family).
//!
//! Invariants: an entry never replaces one that was born later; the weight of stored entries is below the limit when one is
//! admitted, not afterwards; every entry has reserved its bytes from one [`MemoryBudget`], which fills use too. A part of
//! the limit is not available to stored entries, so that fills find room while the store is full. If several sites share
//! the store, one site never uses another's share (`crate::site_shares`).
//!
//! It does not know purges or lifetimes: a caller that finds an entry asks `PurgeTable::prove` and `galley_policy::decide`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};

use quick_cache::sync::Cache;
use quick_cache::{Lifecycle, OptionsBuilder, Weighter};

use crate::budget::MemoryBudget;
use crate::entry::Entry;
use crate::fill::Keep;
use crate::key::{AsHashed, Key, KeyRef};
use crate::site_shares::{Room, SiteShares, TYPICAL_ENTRY};
use crate::sync::Mutex;

pub use crate::site_shares::SiteQuota;

/// Why an entry was not taken in. The response is served all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PutRefused {
    /// Its body is above the largest object allowed.
    #[error("larger than the largest object allowed")]
    TooLarge,
    /// The memory limit is reached by residents, fills and bodies that readers hold.
    #[error("the memory limit is reached")]
    Full,
    /// The place holds an entry that was born later, or (with [`Memory::put_if_same`]) another than expected.
    #[error("a newer entry is already stored")]
    Superseded,
}

/// The result of a lookup that does not wait.
#[derive(Clone, Debug)]
pub enum MemoryLookup {
    /// The entry.
    Found(Arc<Entry>),
    /// Nothing under this key.
    Absent,
    /// A writer holds the place at this moment: take the slow path.
    Busy,
}

/// Occupation of the store at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUsage {
    /// Entries resident, markers included.
    pub entries: u64,
    /// Their weight in bytes.
    pub bytes: u64,
    /// Bytes reserved by residents, fills and bodies that readers still hold.
    pub reserved: u64,
    /// The limit for all of it, in bytes.
    pub limit: u64,
    /// Entries that had to leave for others since the start.
    pub evictions: u64,
    /// Entries that [`Memory::sweep`] removed since the start.
    pub swept: u64,
}

/// What a store may hold.
#[derive(Clone, Copy, Debug)]
pub struct MemoryLimits {
    /// All of its entries, in bytes.
    pub bytes: u64,
    /// The longest body of an entry.
    pub object_bytes: u64,
}

/// The store. Share it by `Arc`; all methods take `&self`.
pub struct Memory {
    cache: Cache<Key, Arc<Entry>, ByWeight, AsHashed, Evicted>,
    /// One writer per key at a time, so that comparing with the resident and taking its place is one step. Readers
    /// never take these.
    writers: [Mutex<()>; WRITERS],
    budget: MemoryBudget,
    /// What each site holds; `None`: its entries do not belong to sites.
    shares: Option<SiteShares>,
    max_object: u64,
    evictions: AtomicU64,
    swept: AtomicU64,
}

impl Memory {
    /// A store for `limit_bytes` in all, whose entries have bodies of at most `max_object` bytes (less where the limit
    /// is too small to hold such a body well).
    pub fn new(limit_bytes: u64, max_object: u64) -> Self {
        Self::drawing_on(MemoryBudget::new(limit_bytes), limit_bytes, max_object)
    }

    /// Two stores under one limit, of which the second has at most the bytes of `share`, and the first the rest. An entry of
    /// one is never evicted for an entry of the other. Sites share the first.
    pub fn divided(all: MemoryLimits, share: MemoryLimits) -> (Self, Self) {
        let share_bytes = share.bytes.min(all.bytes / 2);
        let budget = MemoryBudget::new(all.bytes);
        let rest = all.bytes - share_bytes;
        let first = Self::drawing_on(budget.clone(), rest, all.object_bytes);
        (first, Self::table(budget, share_bytes, share.object_bytes))
    }

    /// Names the sites that share this store; see [`SiteQuota`]. Entries stay.
    pub fn share_among(&self, sites: &[SiteQuota]) {
        if let Some(shares) = &self.shares {
            shares.name(sites);
        }
    }

    /// Bytes that the entries of a site weigh, by the last four bytes of its keys.
    pub fn site_bytes(&self, mark: u32) -> u64 {
        self.shares.as_ref().map_or(0, |shares| shares.bytes(mark))
    }

    fn drawing_on(budget: MemoryBudget, limit_bytes: u64, max_object: u64) -> Self {
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
            cache: Cache::with_options(options, ByWeight, AsHashed, Evicted),
            writers: std::array::from_fn(|_| Mutex::new(())),
            budget,
            shares: None,
            max_object,
            evictions: AtomicU64::new(0),
            swept: AtomicU64::new(0),
        }
    }

    /// The entry of a key; waits for a writer of the same shard, for microseconds. Allocates nothing.
    pub fn get(&self, key_bytes: &[u8]) -> Option<Arc<Entry>> {
        let entry = self.cache.get(&KeyRef::new(key_bytes))?;
        entry.hit();
        Some(entry)
    }

    /// The entry of a key, without ever waiting: for the fast path. Allocates nothing.
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

    /// The entry of a key, for inspection: it counts as no hit and does not protect the entry from eviction.
    pub fn peek(&self, key_bytes: &[u8]) -> Option<Arc<Entry>> {
        self.cache.peek(&KeyRef::new(key_bytes))
    }

    /// All entries, in no order that means anything. Holds a shard's lock for the moment of each step only, so it may be
    /// kept and gone on with later; entries that come or go meanwhile may be missed.
    pub fn entries(&self) -> impl Iterator<Item = Arc<Entry>> + Send + '_ {
        self.cache.iter().map(|(_, entry)| entry)
    }

    /// Stores an entry; others leave for it where needed. Refuses to replace an entry that was born later: its request
    /// was sent later, so it may have seen a change that this one has not.
    pub fn put(&self, entry: Arc<Entry>) -> Result<(), PutRefused> {
        let born = entry.born;
        self.put_where(entry, |resident| {
            resident.is_none_or(|resident| resident.born <= born)
        })
    }

    /// Stores `entry` only if `held` is still what its key finds: for a 304 that renewed it, or a denser coding of it.
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

    /// Removes `entry` if its key still finds it, and not one that took its place.
    pub fn remove_if_same(&self, entry: &Arc<Entry>) {
        self.take(entry);
    }

    /// Occupation now. Takes each shard's lock for a moment.
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

    /// The longest body that is taken in.
    pub fn max_object(&self) -> u64 {
        self.max_object
    }

    /// The limit that residents and fills share.
    pub fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    /// What a fill needs to know to keep a body for this store.
    pub fn keep(&self) -> Keep {
        Keep {
            budget: self.budget.clone(),
            max_bytes: self.max_object,
        }
    }

    /// Removes every entry that `is_purged` names. Holds no lock while `is_purged` runs, so it may pause to pace itself; entries
    /// that come or go meanwhile may be missed.
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
        self.make_room(&entry, resident.as_deref())?;
        drop(resident);
        entry.hold(&self.budget).map_err(|_| PutRefused::Full)?;
        let newcomer = Arc::clone(&entry);
        let mut left = Vec::new();
        self.add(&newcomer);
        self.cache
            .insert_with_lifecycle(entry.key.clone(), entry, &mut left);
        drop(writer);
        self.subtract(left.iter().cloned());
        let evicted = left.iter().filter(|gone| gone.key != newcomer.key).count();
        self.evictions.fetch_add(evicted as u64, Ordering::Relaxed);
        // The table may turn the newcomer itself away.
        if left.iter().any(|gone| Arc::ptr_eq(gone, &newcomer)) {
            return Err(PutRefused::Full);
        }
        if let Some(shares) = &self.shares {
            shares.enroll(&newcomer);
        }
        Ok(())
    }

    /// Removes entries of the site that is above its share, until there is room for `entry` in the place of `resident`.
    fn make_room(&self, entry: &Entry, resident: Option<&Entry>) -> Result<(), PutRefused> {
        let Some(shares) = &self.shares else {
            return Ok(());
        };
        let more = entry
            .weight()
            .saturating_sub(resident.map_or(0, Entry::weight));
        loop {
            match shares.room(&entry.key, more) {
                Room::Enough => return Ok(()),
                Room::None => return Err(PutRefused::Full),
                Room::Evict(other) => {
                    if self.take(&other) {
                        self.evictions.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        }
    }

    /// Removes `entry` if its key still finds it; whether it did.
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

    /// What the table admits at most: its hot part of one shard, with a little less than the 97 % it takes.
    fn largest_weight(&self) -> u64 {
        self.cache.shard_capacity() / 100 * 96
    }

    fn writer(&self, hash: u64) -> MutexGuard<'_, ()> {
        let stripe = usize::try_from(hash % WRITERS as u64).unwrap_or(0);
        self.writers[stripe]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writers of different keys rarely meet with so many.
const WRITERS: usize = 32;
/// A shard holds at least this many of the largest objects, else one of them would empty it.
const OBJECTS_PER_SHARD: u64 = 4;
/// More shards than this gain nothing on the machines WordPress runs on.
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

/// Gathers what leaves, so that it is dropped after the shard's lock.
#[derive(Clone)]
struct Evicted;

impl Lifecycle<Key, Arc<Entry>> for Evicted {
    type RequestState = Vec<Arc<Entry>>;

    fn on_evict(&self, left: &mut Vec<Arc<Entry>>, _: Key, entry: Arc<Entry>) {
        left.push(entry);
    }
}

#[cfg(test)]
mod tests;
