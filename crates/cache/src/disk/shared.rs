//! The state that all clones of a disk cache share, and how it is opened and closed.

use std::fs::File;
use std::io::{self, BufWriter};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use galley_policy::time::Tick;
use galley_sys::Lock;
use rustix::fs::FlockOperation;

use super::files::DiskFiles;
use super::health::{Health, WriteBreaker};
use super::index::{self, Index, IndexLimits, UNIT};
use super::layout::MAX_BODY;
use super::moment::{self, BootClock, DiskClock};
use super::place::{CacheDirectory, OpenedDirectory, PreviousEntries};
use super::seal::{BUCKETS, DirectoryKey, FileName, SiteId, SiteName};
use super::snapshot;

/// The limits of the disk cache.
#[derive(Clone, Copy, Debug)]
pub struct DiskLimits {
    /// The maximum size of all files together in bytes, counted in blocks of 4096, including those being written.
    pub bytes: u64,
    /// The same for one site; `None`: only the limit for all applies.
    pub site_bytes: Option<u64>,
    /// The maximum size of a body in bytes. Never more than half of `bytes`.
    pub object_bytes: u64,
    /// Entries that were unused for this long are removed.
    pub inactive: Duration,
    /// The maximum size of a body that is read into memory, in bytes. Larger ones are read in pieces.
    pub in_memory_bytes: u64,
}

/// The usage of the disk cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskUsage {
    /// The number of counted entries.
    pub entries: u64,
    /// The size of their files in bytes, in blocks of 4096.
    pub bytes: u64,
    /// The bytes reserved by files that are being written.
    pub reserved: u64,
    /// The limit for both together.
    pub limit: u64,
    /// Entries evicted, or removed because they were unused for too long.
    pub evictions: u64,
    /// Damaged files removed.
    pub damaged: u64,
    /// Reads that failed because a system call failed.
    pub failures: u64,
    /// Directories counted since the start, out of [`DiskUsage::DIRECTORIES`].
    pub counted: usize,
    /// The memory that the index uses, in bytes.
    pub index_bytes: u64,
}

impl DiskUsage {
    /// The number of directories. Entries are stored when all of them are counted.
    pub const DIRECTORIES: usize = BUCKETS;
}

/// The disk cache. Share it by reference or clone; clones share the state.
#[derive(Clone)]
pub struct Disk {
    pub(super) shared: Arc<DiskShared>,
}

impl Disk {
    /// Opens the cache in `dir`, and creates it if it does not exist. `generation` is that of the purge log: entries of another
    /// generation are moved aside, all at once. If the disk has no space to record that, storing is off for a while, and
    /// [`Disk::is_keyed`] is false. Fails if the directory cannot be read, cannot be created, or is in use by another process
    /// (`WouldBlock`). Takes milliseconds; `scan_step` does the rest.
    pub fn open(
        dir: &Path,
        limits: DiskLimits,
        generation: [u8; 16],
        now: DiskClock,
    ) -> io::Result<Self> {
        Self::open_in(dir, limits, generation, now, BootClock::current(now))
    }

    pub(super) fn open_in(
        dir: &Path,
        limits: DiskLimits,
        generation: [u8; 16],
        now: DiskClock,
        boot: BootClock,
    ) -> io::Result<Self> {
        let OpenedDirectory {
            place,
            seal,
            lock,
            before,
            key_error,
        } = CacheDirectory::open(dir, generation)?;
        let breaker = WriteBreaker::default();
        if let Some(error) = &key_error {
            breaker.failed(error, now.tick);
        }
        let index_limits = IndexLimits {
            total: limits.bytes / UNIT,
            site: limits.site_bytes.unwrap_or(u64::MAX) / UNIT,
        };
        let second = moment::wall_seconds(now.wall);
        let index = match before {
            PreviousEntries::Nothing => Index::new(index_limits, BUCKETS),
            PreviousEntries::Entries(snapshot) => snapshot
                .and_then(|bytes| snapshot::read(&bytes, index_limits, generation, second, &seal))
                .unwrap_or_else(|| Index::new(index_limits, 0)),
        };
        let shared = DiskShared {
            limits: DiskLimits {
                object_bytes: limits.object_bytes.min(limits.bytes / 2).min(MAX_BODY),
                ..limits
            },
            generation: Lock::new(generation),
            boot,
            opened: now,
            latest: AtomicU64::new(now.tick.0),
            seal,
            place,
            lock,
            files: DiskFiles::default(),
            breaker,
            index: Lock::new(index),
            writers: std::array::from_fn(|_| Lock::new(())),
            temporaries: AtomicU64::new(0),
            sweep_hand: AtomicUsize::new(0),
            synced: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            is_keyed: AtomicBool::new(key_error.is_none()),
            counters: Counters::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Sets another generation of the purge log, for a log that was lost and started again. New entries are written under it,
    /// and only those are found; the others are removed when a lookup or the sweeper reads them. If it fails, the next start
    /// finds no entries.
    pub fn begin_generation(&self, generation: [u8; 16]) -> io::Result<()> {
        *self.shared.generation.lock() = generation;
        self.shared.place.write_key(generation)?;
        self.shared.is_keyed.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whether the next start finds the entries of the generation with which the cache was opened. If not,
    /// [`Disk::begin_generation`] must be called, with the same generation or another, until it succeeds.
    pub fn is_keyed(&self) -> bool {
        self.shared.is_keyed.load(Ordering::Relaxed)
    }

    /// The identity of a site: its name and the fingerprint of the rules that determine its keys and scopes. Compute it once,
    /// when a configuration is loaded.
    pub fn site(&self, name: &str, fingerprint: u64) -> SiteName {
        SiteName {
            id: self.shared.seal.site(name),
            fingerprint,
        }
    }

    /// Removes the entry of a key. Blocks.
    pub fn remove(&self, site: SiteName, key_bytes: &[u8]) {
        self.remove_hash(&self.shared.seal.name(site.id, key_bytes));
    }

    /// Removes an entry by its file's name. Blocks.
    pub fn remove_hash(&self, name: &FileName) {
        if self.shared.index().find(name) == index::IndexLookup::Absent {
            return;
        }
        let _writer = self.shared.writer(name);
        self.shared.unlink(name);
    }

    /// The current usage.
    pub fn usage(&self) -> DiskUsage {
        let counters = &self.shared.counters;
        let index = self.shared.index();
        DiskUsage {
            entries: index.rows(),
            bytes: index.resident() * UNIT,
            reserved: index.reserved() * UNIT,
            limit: self.shared.limits.bytes,
            evictions: counters.evictions.load(Ordering::Relaxed),
            damaged: counters.damaged.load(Ordering::Relaxed),
            failures: counters.failures.load(Ordering::Relaxed),
            counted: index.counted(),
            index_bytes: index.memory(),
        }
    }

    /// The size of a site's files in bytes, counted as in [`DiskUsage::bytes`], including those being written.
    pub fn site_bytes(&self, site: SiteId) -> u64 {
        self.shared.index().of_site(site) * UNIT
    }

    /// Whether entries are stored, and why not.
    pub fn health(&self) -> Health {
        if self.shared.closed.load(Ordering::Relaxed) {
            return Health::Closed;
        }
        match self.shared.breaker.state() {
            Some((reason, retry_at)) => Health::Off { reason, retry_at },
            None if self.shared.index().is_whole() => Health::Storing,
            None => Health::Scanning,
        }
    }

    /// Lets another process open the directory. Call it after [`Disk::close`]. This process finds no entries any more, because
    /// `born` of the other process's entries refers to other purge counters.
    pub fn release(&self) -> io::Result<()> {
        let shared = &self.shared;
        shared.index().close();
        Ok(rustix::fs::flock(&shared.lock, FlockOperation::Unlock)?)
    }

    /// Stops storing and writes the snapshot, so that the next start does not have to count the files. Reading continues.
    pub fn close(&self) -> io::Result<()> {
        let shared = &self.shared;
        // With the locks of all names held, no file is installed between setting the flag and reading the rows.
        let writers: Vec<_> = shared.writers.iter().map(Lock::lock).collect();
        let was_closed = shared.closed.swap(true, Ordering::Relaxed);
        drop(writers);
        if was_closed || !shared.index().is_whole() {
            return Ok(());
        }
        let path = shared.place.temporary(u64::MAX);
        let file = shared.files.create(&path)?;
        let mut out = BufWriter::new(file);
        let second = shared.second();
        let generation = shared.generation();
        let index = shared.index();
        snapshot::write(&mut out, &index, generation, second, &shared.seal)?;
        drop(index);
        shared.files.rename(&path, &shared.place.snapshot())
    }
}

/// The state that all clones, pieces and writers share.
pub(super) struct DiskShared {
    pub(super) limits: DiskLimits,
    /// Written by `begin_generation`.
    generation: Lock<[u8; 16]>,
    pub(super) boot: BootClock,
    /// The time at which the cache was opened.
    pub(super) opened: DiskClock,
    /// The latest tick of any caller.
    latest: AtomicU64,
    pub(super) seal: DirectoryKey,
    pub(super) place: CacheDirectory,
    /// The directory itself, locked.
    pub(super) lock: File,
    pub(super) files: DiskFiles,
    pub(super) breaker: WriteBreaker,
    /// Locked after a name's lock if both are needed, and held for a few lines.
    index: Lock<Index>,
    /// One change of a name at a time: installing, removing or counting its file. Held during the system calls.
    writers: [Lock<()>; WRITERS],
    /// The number of the next temporary file.
    pub(super) temporaries: AtomicU64,
    /// The next directory of the sweeper.
    pub(super) sweep_hand: AtomicUsize,
    /// Set after the directory was synced after the removal of the snapshot.
    pub(super) synced: AtomicBool,
    /// Whether the key file exists.
    is_keyed: AtomicBool,
    /// Set by `close`, under the locks of all names.
    pub(super) closed: AtomicBool,
    pub(super) counters: Counters,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) evictions: AtomicU64,
    damaged: AtomicU64,
    failures: AtomicU64,
}

impl DiskShared {
    pub(super) fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock()
    }

    pub(super) fn writer(&self, name: &FileName) -> MutexGuard<'_, ()> {
        let [.., last] = name.0;
        self.writers[usize::from(last) % WRITERS].lock()
    }

    pub(super) fn generation(&self) -> [u8; 16] {
        *self.generation.lock()
    }

    pub(super) fn at(&self, now: DiskClock) {
        self.latest.fetch_max(now.tick.0, Ordering::Relaxed);
    }

    /// The latest time that a caller passed.
    pub(super) fn now(&self) -> Tick {
        Tick(self.latest.load(Ordering::Relaxed))
    }

    pub(super) fn read_failed(&self, error: &io::Error) {
        self.counters.failures.fetch_add(1, Ordering::Relaxed);
        self.breaker.read_failed(error, self.now());
    }

    pub(super) fn forget_if_missing(&self, name: &FileName) {
        let _writer = self.writer(name);
        let there = std::fs::symlink_metadata(self.place.file(name));
        if there.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            self.index().remove(name);
        }
    }

    /// Removes a bad file, unless another file has replaced it since it was opened.
    pub(super) fn discard(&self, name: &FileName, file: &File) {
        let _writer = self.writer(name);
        let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let opened = file.metadata().map(identity).ok();
        let there = std::fs::symlink_metadata(self.place.file(name))
            .map(identity)
            .ok();
        if opened == there {
            self.counters.damaged.fetch_add(1, Ordering::Relaxed);
            self.unlink(name);
        }
    }
}

/// With this many locks, writers of different names rarely contend.
const WRITERS: usize = 64;
