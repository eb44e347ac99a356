//! Opens the data that survives a restart, in this order: the log, the purges of each site, the disk cache with the log's
//! generation.
//!
//! If a folder cannot be used, the server logs that and works in memory. If only the folder for pages cannot be used,
//! purges are still logged; otherwise they are acknowledged with a warning, because the pages of the previous run would still
//! exist in the next one. If another process uses the folder, the server does not start: two servers that do not see
//! each other's purges would break the guarantee of both.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
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
use super::receipt::loss_without_log;
use super::relay::PurgeRelay;
use galley_sys::Lock;
use galley_sys::clock::Clock;

/// The folder and its limits.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder.
    pub path: PathBuf,
    /// The limits of the disk cache.
    pub limits: DiskLimits,
}

/// Why the server must not start.
#[derive(Debug, thiserror::Error)]
pub enum StorageOpenError {
    /// Another process uses the folder.
    #[error("another process uses it: each Galley needs a folder of its own")]
    Locked,
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// The open log and disk cache. Clones share them.
#[derive(Clone)]
pub struct Durable {
    clock: Clock,
    open: Option<Arc<OpenedStorage>>,
    /// Why the folder, or its part for pages, cannot be used in this run.
    unusable: Option<Arc<str>>,
    /// The other nodes of the cluster.
    cluster: Option<ClusterPublisher>,
    /// The other process of this node during an upgrade.
    relay: PurgeRelay,
    forward: ForwardInboxes,
    /// Wakes the task that counts the pages of purges.
    purge_signal: Arc<Notify>,
}

struct OpenedStorage {
    past: Arc<log::OpenedLog>,
    stored: Option<StoredPages>,
}

/// The disk cache and its writer thread.
struct StoredPages {
    disk: Arc<DiskCache>,
    writer: Lock<Option<JoinHandle<()>>>,
    /// The generation that was last recorded on the disk.
    recorded_generation: Lock<DiskGeneration>,
}

/// The log's generation as recorded on the disk.
struct DiskGeneration {
    /// `None`: not recorded, so the next start finds no pages.
    generation: Option<[u8; 16]>,
    /// The time before which recording is not tried again.
    retry_at: Instant,
}

impl Durable {
    /// Without a folder: nothing survives a restart.
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

    /// The same with other nodes, to which each purge is sent.
    #[must_use]
    pub fn with_cluster(mut self, cluster: Option<ClusterPublisher>) -> Self {
        self.cluster = cluster;
        self
    }

    /// The channel for purges while two processes serve requests.
    pub fn relay(&self) -> &PurgeRelay {
        &self.relay
    }

    /// The inboxes of purges for caches on other machines.
    pub fn forward(&self) -> &ForwardInboxes {
        &self.forward
    }

    /// The first number of all sites' purge counters in this run.
    pub fn first_number(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.past.start)
    }

    /// Closes the folder, for another process: writes pending pages, at most for `timeout`. Later purges and pages exist only
    /// in memory. Blocks.
    pub fn release(&self, timeout: Duration) {
        self.forward.release();
        self.close(timeout);
        if let Some(open) = &self.open {
            open.past.log.close();
            if let Some(stored) = &open.stored
                && let Err(error) = stored.disk.disk.release()
            {
                tracing::warn!(%error, "the disk cache cannot be unlocked");
            }
        }
    }

    /// Opens the folder. Takes a few milliseconds.
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

    /// The purges of a site, including those of earlier runs. `site` must be unique among the sites. Call it once for each site.
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

    /// Wakes the task that counts the pages of purges.
    pub fn purge_signal(&self) -> Arc<Notify> {
        Arc::clone(&self.purge_signal)
    }

    /// A site's part of the disk cache. `fingerprint` identifies the rules that determine its keys: entries with another
    /// fingerprint count as purged.
    pub fn site_disk_cache(&self, site: &str, fingerprint: u64) -> Option<SiteDiskCache> {
        let disk_cache = self.disk_cache()?;
        Some(SiteDiskCache {
            site: disk_cache.disk.site(site, fingerprint),
            disk: Arc::clone(disk_cache),
        })
    }

    /// The current tick.
    pub fn now(&self) -> Tick {
        self.clock.tick()
    }

    /// The disk cache, if any.
    pub fn disk_cache(&self) -> Option<&Arc<DiskCache>> {
        self.stored().map(|stored| &stored.disk)
    }

    /// Why the configured folder cannot be used.
    pub fn unusable(&self) -> Option<&str> {
        self.unusable.as_deref()
    }

    /// Whether purges are written to the disk; `None`: no folder is configured.
    pub fn durability(&self) -> Option<Durability> {
        match (&self.open, &self.unusable) {
            (Some(open), _) => Some(open.past.log.durability()),
            (None, Some(reason)) => Some(Durability::Lost(loss_without_log(reason))),
            (None, None) => None,
        }
    }

    fn stored(&self) -> Option<&StoredPages> {
        self.open.as_ref()?.stored.as_ref()
    }

    /// Records on the disk that the log was lost and created again, so that no earlier page is found after a restart. If that
    /// fails, it is tried again after a pause.
    pub fn follow_generation(&self) {
        let Some(open) = &self.open else { return };
        let Some(stored) = &open.stored else { return };
        let now = open.past.log.generation().bytes();
        let mut recorded = stored.recorded_generation.lock();
        if recorded.generation == Some(now) || Instant::now() < recorded.retry_at {
            return;
        }
        match stored.disk.disk.begin_generation(now) {
            Ok(()) => recorded.generation = Some(now),
            Err(error) => {
                recorded.retry_at = Instant::now() + RETRY;
                tracing::warn!(%error, "the disk cache cannot follow the purge log");
            }
        }
    }

    /// Writes pending pages, at most for `timeout`, and the snapshot, so that the next start does not have to count the files.
    /// Blocks.
    pub fn close(&self, timeout: Duration) {
        let Some(stored) = self.stored() else { return };
        stored.disk.close_queue();
        let writer = stored.writer.lock().take();
        let until = Instant::now() + timeout;
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
        let recorded = DiskGeneration {
            generation: disk.is_keyed().then_some(generation),
            retry_at: Instant::now(),
        };
        let disk_cache = Arc::new(DiskCache::new(disk, memory, clock));
        let writing = Arc::clone(&disk_cache);
        let writer = std::thread::Builder::new()
            .name("disk-writer".to_owned())
            .spawn(move || writing.write())
            .map_err(StorageOpenError::Thread)?;
        Ok(Self {
            disk: disk_cache,
            writer: Lock::new(Some(writer)),
            recorded_generation: Lock::new(recorded),
        })
    }
}

/// Opens the log, or returns why there is none in this run.
fn open_log(
    path: &Path,
    clock: Clock,
) -> Result<Result<log::OpenedLog, Arc<str>>, StorageOpenError> {
    match PurgeLog::open(&path.join(PURGES), clock.wall()) {
        Ok(opened) => {
            log_found(&opened.found, path);
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
            log_unusable(path, &error);
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
            log_unusable(path, &error);
            Ok(Err(error.to_string().into()))
        }
    }
}

fn log_unusable(path: &Path, error: &(dyn std::error::Error + 'static)) {
    tracing::error!(
        path = %path.display(),
        error,
        "cannot use `cache.disk`: pages are kept in memory only and do not survive a restart"
    );
}

fn log_found(found: &LogContents, path: &Path) {
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

/// The subfolder of the log.
const PURGES: &str = "purges";

/// The subfolder of the pages.
const PAGES: &str = "pages";

/// The pause between two attempts to record a generation: the same as for a lost log.
const RETRY: Duration = Duration::from_secs(1);

/// The interval of checking the writer thread at the end.
const STEP: Duration = Duration::from_millis(5);
