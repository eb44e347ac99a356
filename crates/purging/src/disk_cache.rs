//! Pages on the disk. They are looked up if memory has no entry, and written when a fill ends.
//!
//! A found entry is compared with the purges before it is used, and is stored in memory if its body fits. One lookup per
//! page at a time reads the disk; concurrent lookups find its result in memory. One thread writes, from a queue on which no
//! caller waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use galley_cache::disk::{
    Disk, DiskClock, DiskLookup, DiskUsage, HeaderView, Health, ScanProgress, SiteId, SiteName,
    SweepResult,
};
use galley_cache::entry::Entry;
use galley_cache::key::Key;
use galley_cache::memory::Memory;
use galley_cache::purge_table::{PurgeTable, Validity};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::queue::{WriteJob, WriteQueue};
use galley_codec::unpack::unpack;
use galley_sys::clock::Clock;

/// The disk cache of all sites.
pub struct DiskCache {
    pub(super) disk: Disk,
    pub(super) clock: Clock,
    memory: Arc<Memory>,
    queue: WriteQueue,
    /// One lookup per page at a time reads the disk. Striped by key.
    lookup_locks: [Mutex<()>; LOOKUP_LOCKS],
    /// The permits of helper threads that read.
    readers: Arc<Semaphore>,
    /// The permits of helper threads that write a page while it is received.
    pub(super) recorders: Arc<Semaphore>,
    /// The tick until which the disk is not read, because it was too slow.
    paused_until: AtomicU64,
    counts: DiskCacheCounters,
}

/// Counters of lookups and writes since the start.
#[derive(Debug, Default)]
struct DiskCacheCounters {
    found: AtomicU64,
    late: AtomicU64,
    written: AtomicU64,
    refused: AtomicU64,
    swept: AtomicU64,
    /// Pages that were not written because the queue was full. They are in memory, and must be written later.
    owed: AtomicU64,
}

/// The values of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskCacheTotals {
    /// Lookups that found a page.
    pub found: u64,
    /// Lookups that ended because the disk was too slow.
    pub late: u64,
    /// Pages written.
    pub written: u64,
    /// Pages that were not written: no space, a failing disk, or a full queue.
    pub refused: u64,
    /// Jobs in the queue.
    pub waiting: u64,
    /// Purged and expired pages that were removed.
    pub swept: u64,
}

impl DiskCache {
    pub(super) fn new(disk: Disk, memory: Arc<Memory>, clock: Clock) -> Self {
        Self {
            disk,
            clock,
            memory,
            queue: WriteQueue::default(),
            lookup_locks: std::array::from_fn(|_| Mutex::new(())),
            readers: Arc::new(Semaphore::new(READERS)),
            recorders: Arc::new(Semaphore::new(RECORDERS)),
            paused_until: AtomicU64::new(0),
            counts: DiskCacheCounters::default(),
        }
    }

    /// Does the queued jobs until the queue is closed: the body of a thread.
    pub(super) fn write(&self) {
        while let Some(job) = self.queue.next() {
            match job {
                WriteJob::Put(site, entry) => {
                    let unpacked = entry
                        .is_packed()
                        .then(|| unpack(&entry, self.memory.budget()));
                    // Without memory for the plain body, the disk rejects the entry.
                    let plain = unpacked.and_then(Result::ok);
                    let outcome = self
                        .disk
                        .put(site, plain.as_ref().unwrap_or(&entry), self.now());
                    self.count_written(outcome.is_ok());
                    if let Err(error) = outcome {
                        tracing::debug!(%error, "a page was not written to the disk");
                    }
                }
                WriteJob::RemoveOlder { site, key, born } => {
                    self.disk.remove_older(site, key.bytes(), born);
                }
            }
        }
    }

    /// Rejects further writes.
    pub(super) fn close_queue(&self) {
        self.queue.close();
    }

    /// Counts some of the files on the disk after a start. Blocks.
    pub fn scan_step(&self) -> ScanProgress {
        self.disk.scan_step()
    }

    /// Checks some of the entries on the disk and removes those for which `is_purged` returns true. Blocks.
    pub fn sweep_step(&self, is_purged: impl FnMut(&HeaderView) -> bool) -> SweepResult {
        let swept = self.disk.sweep_step(self.now(), is_purged);
        self.counts
            .swept
            .fetch_add(swept.removed, Ordering::Relaxed);
        swept
    }

    /// Queues pages that are in memory but not on the disk: those for which the queue was full, and those that were stored
    /// while the files were being counted. `owner`: the site of an entry, unless the entry is obsolete. Returns false if there
    /// are more.
    pub fn catch_up<'s>(&self, mut owner: impl FnMut(&Entry) -> Option<&'s SiteDiskCache>) -> bool {
        let owed = self.counts.owed.swap(0, Ordering::Relaxed);
        if owed == 0 {
            return true;
        }
        let mut free = MAX_QUEUED_AGAIN.saturating_sub(self.queue.len());
        for entry in self.memory.entries() {
            let Some(site_cache) = owner(&entry) else {
                continue;
            };
            if self.disk.may_hold(site_cache.site, entry.key.bytes()) {
                continue;
            }
            if free == 0 {
                self.counts.owed.fetch_add(1, Ordering::Relaxed);
                return false;
            }
            free -= 1;
            site_cache.keep(&entry);
        }
        true
    }

    /// Records that pages may be missing on the disk.
    pub fn owe(&self) {
        self.counts.owed.fetch_add(1, Ordering::Relaxed);
    }

    /// The current usage.
    pub fn usage(&self) -> DiskUsage {
        self.disk.usage()
    }

    /// Whether pages are written, and why not.
    pub fn health(&self) -> Health {
        self.disk.health()
    }

    /// The totals since the start.
    pub fn counted(&self) -> DiskCacheTotals {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        DiskCacheTotals {
            found: load(&self.counts.found),
            late: load(&self.counts.late),
            written: load(&self.counts.written),
            refused: load(&self.counts.refused),
            waiting: u64::try_from(self.queue.len()).unwrap_or(u64::MAX),
            swept: load(&self.counts.swept),
        }
    }

    pub(super) fn count_written(&self, is_written: bool) {
        let count = if is_written {
            &self.counts.written
        } else {
            &self.counts.refused
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn now(&self) -> DiskClock {
        DiskClock {
            tick: self.clock.tick(),
            wall: self.clock.wall(),
        }
    }

    fn is_paused(&self) -> bool {
        self.clock.tick().0 < self.paused_until.load(Ordering::Relaxed)
    }

    /// Pauses reading, so that visitors do not wait one after the other for a disk that does not respond.
    fn pause_reads(&self) {
        let until = self.clock.tick().plus(READ_PAUSE);
        self.paused_until.store(until.0, Ordering::Relaxed);
    }

    fn lookup_lock(&self, key: &Key) -> &Mutex<()> {
        let stripe = usize::try_from(key.hash() % LOOKUP_LOCKS as u64).unwrap_or(0);
        &self.lookup_locks[stripe]
    }
}

/// A site's part of the disk cache. Cheap to clone.
#[derive(Clone)]
pub struct SiteDiskCache {
    pub(super) disk: Arc<DiskCache>,
    pub(super) site: SiteName,
}

impl SiteDiskCache {
    /// The page of a key, stored in memory if its body fits. A purged page is removed from the disk, and returned only to
    /// explain why the page is generated. `None` also if the disk is too slow: then the page is generated as if it were not
    /// stored.
    pub async fn find(&self, key: &[u8], table: &PurgeTable) -> Option<Arc<Entry>> {
        let cache = &self.disk;
        if !cache.disk.may_hold(self.site, key) || cache.is_paused() {
            return None;
        }
        let Ok(found) = timeout(READ_TIMEOUT, self.read(Key::new(key), table)).await else {
            cache.counts.late.fetch_add(1, Ordering::Relaxed);
            cache.pause_reads();
            return None;
        };
        found
    }

    async fn read(&self, key: Key, table: &PurgeTable) -> Option<Arc<Entry>> {
        let cache = &self.disk;
        let _lookup = cache.lookup_lock(&key).lock().await;
        if let Some(entry) = cache.memory.get(key.bytes()) {
            return Some(entry);
        }
        let reader = Arc::clone(&cache.readers).acquire_owned().await.ok()?;
        let (reading, site, wanted) = (Arc::clone(cache), self.site, key.clone());
        let reading_result = spawn_blocking(move || {
            // Released when the read ends, even if the lookup was abandoned.
            let _reader = reader;
            let budget = reading.memory.budget();
            let now = reading.now();
            match reading.disk.get(site, wanted.bytes(), now, budget) {
                DiskLookup::Found(found) => Some(found.into_entry()),
                DiskLookup::Absent => None,
            }
        });
        let entry = reading_result.await.ok().flatten()?;
        if table.validity_waiting(&entry) == Validity::Purged {
            cache.queue.forget(self.site, key, entry.born);
            return Some(entry);
        }
        cache.counts.found.fetch_add(1, Ordering::Relaxed);
        // If memory has no space for the entry, it serves only this request.
        let _ = cache.memory.put(Arc::clone(&entry));
        Some(entry)
    }

    /// Whether the disk may contain a page for a key. Does not read the disk.
    pub fn may_hold(&self, key: &[u8]) -> bool {
        self.disk.disk.may_hold(self.site, key)
    }

    /// The page of a key, for inspection. Blocks on the disk.
    pub fn peek(&self, key: &[u8]) -> Option<Arc<Entry>> {
        let cache = &self.disk;
        match cache
            .disk
            .get(self.site, key, cache.now(), cache.memory.budget())
        {
            DiskLookup::Found(found) => Some(found.into_entry()),
            DiskLookup::Absent => None,
        }
    }

    /// Queues an entry for writing, whether or not memory has stored it. Never waits.
    pub fn keep(&self, entry: &Arc<Entry>) {
        if !self.disk.queue.put(self.site, entry) {
            self.disk.count_written(false);
            self.disk.owe();
        }
    }

    /// Removes the entry of a key unless its `born` is greater than `born`: a newer response may not be stored.
    pub fn forget(&self, key: &Key, born: u64) {
        if self.disk.disk.may_hold(self.site, key.bytes()) {
            self.disk.queue.forget(self.site, key.clone(), born);
        }
    }

    /// The size of the site's files in bytes.
    pub fn bytes(&self) -> u64 {
        self.disk.disk.site_bytes(self.site.id)
    }

    /// The id of the site, as in the sweeper's entries.
    pub fn id(&self) -> SiteId {
        self.site.id
    }

    /// The fingerprint of the rules under which valid files were written.
    pub fn fingerprint(&self) -> u64 {
        self.site.fingerprint
    }
}

/// The maximum number of pages that are queued again at a time: half of the queue.
const MAX_QUEUED_AGAIN: usize = 128;

/// With this many locks, concurrent lookups of different pages rarely contend.
const LOOKUP_LOCKS: usize = 64;

/// The maximum number of concurrent reads: enough to keep a disk busy, few enough to limit the threads that a hanging disk blocks.
const READERS: usize = 16;

/// The maximum number of large pages that are written while they are received. Together with the readers, it must leave some of
/// a fetch thread's helpers ([`HELPERS`](galley_sys::HELPERS)) free: a page that is being recorded may itself wait for a helper
/// if its client is slow.
const RECORDERS: usize = 16;

const _: () = assert!(READERS + RECORDERS < galley_sys::HELPERS);

/// How long the disk is not read after it was too slow.
const READ_PAUSE: Duration = Duration::from_secs(5);

/// The maximum wait of a visitor for the disk, after which PHP generates the page: less than that takes.
const READ_TIMEOUT: Duration = Duration::from_millis(500);
