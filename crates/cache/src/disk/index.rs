//! The entries on the disk, as far as limits and eviction need them: 24 bytes for each entry.
//!
//! Rows are in one sorted vector for each directory, so no memory is used for empty slots and the entries of a directory can be
//! counted together. Eviction samples: among some rows at a moving position it selects the one that has been unused for the
//! longest time. For an entry that was never read since it was written, the idle time is multiplied, so that a crawler
//! does not evict pages that people read. Space is reserved here before it is written; reserved and stored bytes together never
//! exceed a limit.
//!
//! The index does not access files. The caller protects it with one lock, held for a few lines.

use std::collections::HashMap;

use super::seal::{BUCKETS, FileName, SiteId};

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IndexEntry {
    pub(super) name: FileName,
    /// The size on disk in [`UNIT`]s. The highest bit is set if the entry was read since it was written.
    blocks: u32,
    /// The second of the last use.
    pub(super) used: u32,
}

impl IndexEntry {
    pub(super) fn new(name: FileName, blocks: u32, used: u32) -> Self {
        Self {
            name,
            blocks: blocks & !READ,
            used,
        }
    }

    pub(super) fn blocks(&self) -> u32 {
        self.blocks & !READ
    }

    /// The row in the format of a snapshot: name, size with the bit, second.
    pub(super) fn packed(&self) -> ([u8; 16], u32, u32) {
        (self.name.0, self.blocks, self.used)
    }

    pub(super) fn unpack(name: [u8; 16], blocks: u32, used: u32) -> Self {
        Self {
            name: FileName(name),
            blocks,
            used,
        }
    }

    /// The priority for eviction at `second`.
    fn staleness(&self, second: u32) -> u64 {
        let unused = u64::from(second.saturating_sub(self.used)) + 1;
        if self.blocks & READ == 0 {
            unused * NEVER_READ
        } else {
            unused
        }
    }
}

/// The result of a lookup in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IndexLookup {
    Resident(IndexEntry),
    /// The directory was counted and does not contain the entry.
    Absent,
    /// The directory was not counted yet.
    Unknown,
}

/// The limit that is reached: of all sites, or of one site, whose rows must be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReachedLimit {
    Total,
    Site(SiteId),
}

/// Limits in [`UNIT`]s.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexLimits {
    pub(super) total: u64,
    pub(super) site: u64,
}

/// A search for entries to evict, in several short sections under the lock.
#[derive(Debug, Default)]
pub(super) struct Sample {
    pub(super) best: Option<IndexEntry>,
    rows: usize,
    buckets: usize,
}

impl Sample {
    pub(super) fn is_enough(&self) -> bool {
        self.rows >= SAMPLED || self.buckets >= BUCKETS
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Index {
    buckets: Vec<Vec<IndexEntry>>,
    limits: IndexLimits,
    rows: u64,
    resident: u64,
    reserved: u64,
    /// The stored and reserved units of each site that has any.
    sites: HashMap<SiteId, u64>,
    /// The bucket at which the next search for evictions begins.
    next_bucket: usize,
    /// Directories below this one have been counted.
    counted: usize,
}

impl Index {
    /// An empty index; `counted` directories are known to be empty.
    pub(super) fn new(limits: IndexLimits, counted: usize) -> Self {
        Self {
            buckets: vec![Vec::new(); BUCKETS],
            limits,
            rows: 0,
            resident: 0,
            reserved: 0,
            sites: HashMap::new(),
            next_bucket: 0,
            counted,
        }
    }

    /// Removes all rows and sets the limits to 0. Reservations may still be released.
    pub(super) fn close(&mut self) {
        let nothing = IndexLimits { total: 0, site: 0 };
        *self = Self {
            reserved: self.reserved,
            ..Self::new(nothing, BUCKETS)
        };
    }

    pub(super) fn is_whole(&self) -> bool {
        self.counted >= BUCKETS
    }

    /// The next directory to be counted.
    pub(super) fn counted(&self) -> usize {
        self.counted
    }

    pub(super) fn count_next(&mut self) {
        self.counted += 1;
    }

    pub(super) fn find(&self, name: &FileName) -> IndexLookup {
        let bucket = &self.buckets[name.bucket()];
        match bucket.binary_search_by_key(name, |row| row.name) {
            Ok(at) => IndexLookup::Resident(bucket[at]),
            Err(_) if name.bucket() < self.counted => IndexLookup::Absent,
            Err(_) => IndexLookup::Unknown,
        }
    }

    /// Records a use and returns the row.
    pub(super) fn touch(&mut self, name: &FileName, second: u32) -> IndexLookup {
        let counted = self.counted;
        let bucket = &mut self.buckets[name.bucket()];
        match bucket.binary_search_by_key(name, |row| row.name) {
            Ok(at) => {
                let row = &mut bucket[at];
                row.used = row.used.max(second);
                row.blocks |= READ;
                IndexLookup::Resident(*row)
            }
            Err(_) if name.bucket() < counted => IndexLookup::Absent,
            Err(_) => IndexLookup::Unknown,
        }
    }

    /// Inserts a row. Replaces a row of the same name.
    pub(super) fn insert(&mut self, row: IndexEntry) {
        self.remove(&row.name);
        let bucket = &mut self.buckets[row.name.bucket()];
        let at = bucket.partition_point(|other| other.name < row.name);
        if bucket.len() == bucket.capacity() {
            // Small steps: doubling would leave a quarter of the memory unused.
            bucket.reserve_exact(bucket.len() / 16 + 2);
        }
        bucket.insert(at, row);
        self.rows += 1;
        self.resident += u64::from(row.blocks());
        *self.sites.entry(row.name.site()).or_default() += u64::from(row.blocks());
    }

    pub(super) fn remove(&mut self, name: &FileName) -> bool {
        let bucket = &mut self.buckets[name.bucket()];
        let Ok(at) = bucket.binary_search_by_key(name, |row| row.name) else {
            return false;
        };
        let row = bucket.remove(at);
        if bucket.len() * 2 < bucket.capacity() {
            bucket.shrink_to_fit();
        }
        self.rows -= 1;
        self.resident -= u64::from(row.blocks());
        self.subtract(name.site(), u64::from(row.blocks()));
        true
    }

    /// Reserves space, or returns the limit that prevents it.
    pub(super) fn try_reserve(&mut self, site: SiteId, blocks: u32) -> Result<(), ReachedLimit> {
        let blocks = u64::from(blocks);
        let of_site = self.sites.get(&site).copied().unwrap_or(0) + blocks;
        if of_site > self.limits.site {
            return Err(ReachedLimit::Site(site));
        }
        if self.resident + self.reserved + blocks > self.limits.total {
            return Err(ReachedLimit::Total);
        }
        self.reserved += blocks;
        self.sites.insert(site, of_site);
        Ok(())
    }

    pub(super) fn release_units(&mut self, site: SiteId, blocks: u32) {
        self.reserved -= u64::from(blocks);
        self.subtract(site, u64::from(blocks));
    }

    fn subtract(&mut self, site: SiteId, blocks: u64) {
        if let Some(sum) = self.sites.get_mut(&site) {
            *sum -= blocks;
            if *sum == 0 {
                self.sites.remove(&site);
            }
        }
    }

    /// Continues a search by a bounded number of directories. If one site is over its limit, only its rows are considered.
    pub(super) fn sample(&mut self, sample: &mut Sample, reached: ReachedLimit, second: u32) {
        for _ in 0..BUCKETS_AT_ONCE {
            if sample.is_enough() {
                return;
            }
            let wanted = |row: &&IndexEntry| match reached {
                ReachedLimit::Total => true,
                ReachedLimit::Site(site) => row.name.site() == site,
            };
            for row in self.buckets[self.next_bucket].iter().filter(wanted) {
                sample.rows += 1;
                let staler = sample
                    .best
                    .is_none_or(|best| row.staleness(second) > best.staleness(second));
                if staler {
                    sample.best = Some(*row);
                }
            }
            sample.buckets += 1;
            self.next_bucket = (self.next_bucket + 1) % BUCKETS;
        }
    }

    /// A copy of the rows of one directory.
    pub(super) fn bucket(&self, bucket: usize) -> Vec<IndexEntry> {
        self.buckets.get(bucket).cloned().unwrap_or_default()
    }

    /// All rows, ordered by directory and name.
    pub(super) fn all(&self) -> impl Iterator<Item = &IndexEntry> {
        self.buckets.iter().flatten()
    }

    /// Whether the limit is exceeded, as after it was lowered.
    pub(super) fn is_over(&self) -> bool {
        self.resident + self.reserved > self.limits.total
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    pub(super) fn resident(&self) -> u64 {
        self.resident
    }

    pub(super) fn reserved(&self) -> u64 {
        self.reserved
    }

    pub(super) fn of_site(&self, site: SiteId) -> u64 {
        self.sites.get(&site).copied().unwrap_or(0)
    }

    /// The memory that the index uses, in bytes.
    pub(super) fn memory(&self) -> u64 {
        let rows: usize = self.buckets.iter().map(Vec::capacity).sum();
        let per_bucket = size_of::<Vec<IndexEntry>>() + ALLOCATION;
        (rows * size_of::<IndexEntry>() + BUCKETS * per_bucket) as u64
    }
}

/// The unit of sizes in bytes: the block size of common file systems.
pub(super) const UNIT: u64 = 4096;
/// The highest bit of `blocks`.
const READ: u32 = 1 << 31;
/// The factor for the idle time of entries that were never read.
const NEVER_READ: u64 = 4;
/// Rows examined per eviction. Ten are known to come close to a true least-recently-used order.
const SAMPLED: usize = 16;
/// Directories examined during one hold of the lock: tens of microseconds with a million entries.
const BUCKETS_AT_ONCE: usize = 64;
/// The bytes that an allocator adds to each vector.
const ALLOCATION: usize = 16;

/// The size of a file in units. At least 1, so that empty files count, too.
pub(super) fn units(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT).max(1)).map_or(!READ, |units| units & !READ)
}

#[cfg(test)]
mod tests;
