//! Opens what survives a restart, in this order: the log, the purges of each site, the disk cache with the log's
//! generation.
//!
//! If a folder cannot be used, the server logs that and works in memory. If only the folder for pages cannot be used,
//! purges are still logged; otherwise they are acknowledged with a warning, because the pages of the run before would still
//! be there for the next one. If another process uses the folder, the server does not start: two servers that do not see
//! each other's purges would break the promise of both.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use galley_cache::disk::{Disk, DiskClock, DiskLimits};
use galley_cache::log::{self, Durability, LogContents, PurgeLog};
use galley_cache::memory::Memory;
use galley_cache::purge_table::PurgeTable;
use galley_cluster::ClusterPublisher;
use galley_policy::time::Tick;
use tokio::sync::Notify;

use super::disk_cache::{DiskCache, SiteDiskCache};
use super::forward::ForwardInboxes;
use super::purges::SitePurges;
use super::receipt::forgetful;
use super::relay::PurgeRelay;
use crate::clock::Clock;

/// Where, and how much.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder.
    pub path: PathBuf,
    /// Its limit.
    pub limits: DiskLimits,
}

/// Why the server must not start.
#[derive(Debug, thiserror::Error)]
pub enum StorageOpenError {
    /// Another process has the folder.
    #[error("another process uses it: each Galley needs a folder of its own")]
    Locked,
    /// No thread.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// The open log and disk. Clones share them.
#[derive(Clone)]
pub struct Durable {
    clock: Clock,
    open: Option<Arc<OpenedStorage>>,
    /// Why the folder, or the pages' part of it, cannot be used in this run.
    unusable: Option<Arc<str>>,
    /// The other nodes.
    cluster: Option<ClusterPublisher>,
    /// The other process, during an upgrade.
    relay: PurgeRelay,
    forward: ForwardInboxes,
    /// Wakes the tasks that count the pages of purges.
    purge_signal: Arc<Notify>,
}

struct OpenedStorage {
    past: Arc<log::OpenedLog>,
    stored: Option<StoredPages>,
}

/// The pages.
struct StoredPages {
    disk: Arc<DiskCache>,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// What the disk was last given.
    announced: Mutex<DiskGeneration>,
}

/// The log's generation as the disk knows it.
struct DiskGeneration {
    /// `None`: the next start knows none.
    generation: Option<[u8; 16]>,
    /// Not to be tried again before.
    again: Instant,
}

impl Durable {
    /// Nothing survives.
    pub fn nothing(clock: Clock) -> Self {
        Self {
            clock,
            open: None,
            unusable: None,
            cluster: None,
            relay: PurgeRelay::default(),
            forward: ForwardInboxes::default(),
            purge_signal: Arc::default(),
        }
    }

    /// The same, with other nodes that get each purge.
    #[must_use]
    pub fn with_cluster(mut self, cluster: Option<ClusterPublisher>) -> Self {
        self.cluster = cluster;
        self
    }

    /// Where purges are sent to while two processes answer.
    pub fn relay(&self) -> &PurgeRelay {
        &self.relay
    }

    /// Where purges for caches of other machines are put.
    pub fn forward(&self) -> &ForwardInboxes {
        &self.forward
    }

    /// The number that the counters of all sites begin with in this run.
    pub fn first_number(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.past.start)
    }

    /// Closes the folder, for another process: writes what is pending, for `patience` at most. From here on purges are in
    /// effect in memory, and pages are stored there alone. Blocks.
    pub fn release(&self, patience: Duration) {
        self.forward.release();
        self.close(patience);
        if let Some(open) = &self.open {
            open.past.log.close();
            if let Some(stored) = &open.stored
                && let Err(error) = stored.disk.disk.release()
            {
                tracing::warn!(%error, "the disk cache cannot be unlocked");
            }
        }
    }

    /// Opens the folder; takes a few milliseconds.
    pub fn open(
        settings: &Settings,
        memory: Arc<Memory>,
        clock: Clock,
    ) -> Result<Self, StorageOpenError> {
        let path = &settings.path;
        let past = match open_log(path, clock)? {
            Ok(past) => past,
            Err(why) => {
                return Ok(Self {
                    clock,
                    open: None,
                    unusable: Some(why),
                    cluster: None,
                    relay: PurgeRelay::default(),
                    forward: ForwardInboxes::default(),
                    purge_signal: Arc::default(),
                });
            }
        };
        let generation = past.generation.bytes();
        let (stored, unusable) = match open_disk(path, settings.limits, generation, clock)? {
            Ok(disk) => (
                Some(StoredPages::start(disk, generation, memory, clock)?),
                None,
            ),
            Err(why) => (None, Some(why)),
        };
        let past = Arc::new(past);
        Ok(Self {
            clock,
            open: Some(Arc::new(OpenedStorage { past, stored })),
            unusable,
            cluster: None,
            relay: PurgeRelay::default(),
            forward: ForwardInboxes::kept_in(path.clone()),
            purge_signal: Arc::default(),
        })
    }

    /// The purges of a site, those of earlier runs included. `site` is its own among all sites; once for each.
    pub fn site_purges(&self, site: String) -> SitePurges {
        let Some(open) = &self.open else {
            return SitePurges::in_memory(site, self.clock, self.unusable.clone())
                .sent_to(self.cluster.clone(), self.relay.clone())
                .forwarded_to(self.forward.clone())
                .counted_at(Arc::clone(&self.purge_signal));
        };
        let table = PurgeTable::new();
        open.past.replay(&site, &table);
        SitePurges::logged(site, table, Arc::clone(&open.past), self.clock)
            .sent_to(self.cluster.clone(), self.relay.clone())
            .forwarded_to(self.forward.clone())
            .counted_at(Arc::clone(&self.purge_signal))
    }

    /// Wakes the tasks that count the pages of purges.
    pub fn purge_signal(&self) -> Arc<Notify> {
        Arc::clone(&self.purge_signal)
    }

    /// A site's part of the disk. `fingerprint` identifies the rules that determine its keys: entries with another one count
    /// as purged.
    pub fn site_disk_cache(&self, site: &str, fingerprint: u64) -> Option<SiteDiskCache> {
        let shelf = self.shelf()?;
        Some(SiteDiskCache {
            site: shelf.disk.site(site, fingerprint),
            disk: Arc::clone(shelf),
        })
    }

    /// The tick of this moment.
    pub fn now(&self) -> Tick {
        self.clock.tick()
    }

    /// The disk.
    pub fn shelf(&self) -> Option<&Arc<DiskCache>> {
        self.stored().map(|stored| &stored.disk)
    }

    /// Why there is no disk although one is configured.
    pub fn unusable(&self) -> Option<&str> {
        self.unusable.as_deref()
    }

    /// Whether purges reach the disk; `None`: they live in memory, as they are to.
    pub fn durability(&self) -> Option<Durability> {
        match (&self.open, &self.unusable) {
            (Some(open), _) => Some(open.past.log.durability()),
            (None, Some(reason)) => Some(Durability::Lost(forgetful(reason))),
            (None, None) => None,
        }
    }

    fn stored(&self) -> Option<&StoredPages> {
        self.open.as_ref()?.stored.as_ref()
    }

    /// Tells the disk that the log was lost and started again: nothing that was written before may come back. If the disk
    /// cannot record that, it is tried again after a while.
    pub fn follow_generation(&self) {
        let Some(open) = &self.open else { return };
        let Some(stored) = &open.stored else { return };
        let now = open.past.log.generation().bytes();
        let mut told = stored
            .announced
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if told.generation == Some(now) || Instant::now() < told.again {
            return;
        }
        match stored.disk.disk.begin_generation(now) {
            Ok(()) => told.generation = Some(now),
            Err(error) => {
                told.again = Instant::now() + RETRY;
                tracing::warn!(%error, "the disk cache cannot follow the purge log");
            }
        }
    }

    /// Writes what is pending, for `patience` at most, and the snapshot that saves the next start from counting. Blocks.
    pub fn close(&self, patience: Duration) {
        let Some(stored) = self.stored() else { return };
        stored.disk.close_queue();
        let writer = stored
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let until = Instant::now() + patience;
        while let Some(writer) = &writer
            && !writer.is_finished()
            && Instant::now() < until
        {
            std::thread::sleep(STEP);
        }
        if let Err(error) = stored.disk.disk.close() {
            tracing::warn!(%error, "cannot close the disk cache; the next start scans it");
        }
    }
}

impl StoredPages {
    fn start(
        disk: Disk,
        generation: [u8; 16],
        memory: Arc<Memory>,
        clock: Clock,
    ) -> Result<Self, StorageOpenError> {
        let told = DiskGeneration {
            generation: disk.is_keyed().then_some(generation),
            again: Instant::now(),
        };
        let shelf = Arc::new(DiskCache::new(disk, memory, clock));
        let writing = Arc::clone(&shelf);
        let writer = std::thread::Builder::new()
            .name("disk-writer".to_owned())
            .spawn(move || writing.write())
            .map_err(StorageOpenError::Thread)?;
        Ok(Self {
            disk: shelf,
            writer: Mutex::new(Some(writer)),
            announced: Mutex::new(told),
        })
    }
}

/// The log, or why there is none in this run.
fn open_log(
    path: &Path,
    clock: Clock,
) -> Result<Result<log::OpenedLog, Arc<str>>, StorageOpenError> {
    match PurgeLog::open(&path.join(PURGES), clock.wall()) {
        Ok(opened) => {
            tell_found(&opened.found, path);
            if let Durability::Lost(loss) = opened.log.durability() {
                tracing::error!(
                    path = %path.display(),
                    reason = %loss.reason,
                    "cannot write purges to the disk"
                );
            }
            Ok(Ok(opened))
        }
        Err(log::OpenError::Locked) => Err(StorageOpenError::Locked),
        Err(error) => {
            tell_unusable(path, &error);
            Ok(Err(error.to_string().into()))
        }
    }
}

fn open_disk(
    path: &Path,
    limits: DiskLimits,
    generation: [u8; 16],
    clock: Clock,
) -> Result<Result<Disk, Arc<str>>, StorageOpenError> {
    let now = DiskClock {
        tick: clock.tick(),
        wall: clock.wall(),
    };
    match Disk::open(&path.join(PAGES), limits, generation, now) {
        Ok(disk) => Ok(Ok(disk)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(StorageOpenError::Locked),
        Err(error) => {
            tell_unusable(path, &error);
            Ok(Err(error.to_string().into()))
        }
    }
}

fn tell_unusable(path: &Path, error: &(dyn std::error::Error + 'static)) {
    tracing::error!(
        path = %path.display(),
        error,
        "cannot use `cache.disk`: pages are kept in memory only and do not survive a restart"
    );
}

fn tell_found(found: &LogContents, path: &Path) {
    let path = path.display();
    match found {
        LogContents::Nothing => tracing::info!(%path, "the disk cache starts empty"),
        LogContents::Whole => {}
        LogContents::Torn(bytes) => {
            tracing::info!(%path, bytes, "removed an incomplete record at the end of the purge log, which was never acknowledged");
        }
        LogContents::Unreadable(why) => {
            tracing::warn!(%path, why, "the purge log is damaged: every page on the disk counts as purged");
        }
    }
}

/// Where the log is, below the folder.
const PURGES: &str = "purges";

/// Where the pages are.
const PAGES: &str = "pages";

/// Between two attempts to record a generation: the same as for a lost log.
const RETRY: Duration = Duration::from_secs(1);

/// Between two looks at the writer while the server ends.
const STEP: Duration = Duration::from_millis(5);
