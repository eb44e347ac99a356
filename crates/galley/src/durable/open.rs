//! Opening what survives a restart, in this order: the log, the orders of each site, the disk under the log's generation.
//!
//! A folder that cannot be used does not keep the server from serving: it says so and goes on in memory. One that another
//! process uses does, because two servers that purge past each other would break what each has promised.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use galley_store::disk::{Disk, Limits, Moment};
use galley_store::epochs::Epochs;
use galley_store::log::{self, Durability, Found, Log};
use galley_store::memory::Memory;

use super::orders::Orders;
use super::shelf::{Shelf, Shelved};
use crate::clock::Clock;

/// Where, and how much.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder.
    pub path: PathBuf,
    /// What it may take.
    pub limits: Limits,
}

/// Why the server must not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the folder.
    #[error("another process uses it: each Galley needs a folder of its own")]
    Locked,
    /// No thread.
    #[error("the system gives no thread: {0}")]
    Thread(io::Error),
}

/// What is open. Clones are the same.
#[derive(Clone)]
pub struct Durable {
    clock: Clock,
    open: Option<Arc<Open>>,
}

struct Open {
    past: Arc<log::Opened>,
    shelf: Arc<Shelf>,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// The generation that the disk was told last.
    generation: Mutex<[u8; 16]>,
}

impl Durable {
    /// Nothing survives.
    pub fn nothing(clock: Clock) -> Self {
        Self { clock, open: None }
    }

    /// Opens the folder; takes a few milliseconds.
    pub fn open(settings: &Settings, memory: Arc<Memory>, clock: Clock) -> Result<Self, OpenError> {
        let path = &settings.path;
        let Some(past) = open_log(path, clock)? else {
            return Ok(Self::nothing(clock));
        };
        let generation = past.generation.bytes();
        let Some(disk) = open_disk(path, settings.limits, generation, clock)? else {
            return Ok(Self::nothing(clock));
        };
        let shelf = Arc::new(Shelf::new(disk, memory, clock));
        let writing = Arc::clone(&shelf);
        let writer = std::thread::Builder::new()
            .name("disk-writer".to_owned())
            .spawn(move || writing.write())
            .map_err(OpenError::Thread)?;
        Ok(Self {
            clock,
            open: Some(Arc::new(Open {
                past: Arc::new(past),
                shelf,
                writer: Mutex::new(Some(writer)),
                generation: Mutex::new(generation),
            })),
        })
    }

    /// The orders of a site, those of earlier runs included. `site` is its own among all sites; once for each.
    pub fn orders(&self, site: String) -> Orders {
        let Some(open) = &self.open else {
            return Orders::in_memory(site, self.clock);
        };
        let epochs = Epochs::new();
        open.past.replay(&site, &epochs);
        Orders::logged(site, epochs, Arc::clone(&open.past), self.clock)
    }

    /// A site's part of the disk. `fingerprint` tells the rules that shape its keys: what was written under others is dead.
    pub fn shelved(&self, site: &str, fingerprint: u64) -> Option<Shelved> {
        let shelf = self.shelf()?;
        Some(Shelved {
            site: shelf.disk.site(site, fingerprint),
            shelf: Arc::clone(shelf),
        })
    }

    /// The disk.
    pub fn shelf(&self) -> Option<&Arc<Shelf>> {
        self.open.as_ref().map(|open| &open.shelf)
    }

    /// Whether orders reach the disk; `None`: they live in memory.
    pub fn durability(&self) -> Option<Durability> {
        self.open.as_ref().map(|open| open.past.log.durability())
    }

    /// Tells the disk when the log was lost and begun anew: nothing that was written before may come back.
    pub fn follow_generation(&self) {
        let Some(open) = &self.open else { return };
        let now = open.past.log.generation().bytes();
        let mut told = open
            .generation
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if *told == now {
            return;
        }
        match open.shelf.disk.begin_generation(now) {
            Ok(()) => *told = now,
            Err(error) => tracing::warn!(%error, "the disk cache cannot follow the purge log"),
        }
    }

    /// Writes what is waiting, for `patience` at most, and what saves the next start its counting. Blocks.
    pub fn close(&self, patience: Duration) {
        let Some(open) = &self.open else { return };
        open.shelf.close_queue();
        let writer = open
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
        if let Err(error) = open.shelf.disk.close() {
            tracing::warn!(%error, "the disk cache could not be closed; the next start counts it");
        }
    }
}

fn open_log(path: &Path, clock: Clock) -> Result<Option<log::Opened>, OpenError> {
    match Log::open(&path.join(PURGES), clock.wall()) {
        Ok(opened) => {
            tell_found(&opened.found, path);
            if let Durability::Lost(loss) = opened.log.durability() {
                tracing::error!(
                    path = %path.display(),
                    reason = %loss.reason,
                    "purges cannot be written to the disk"
                );
            }
            Ok(Some(opened))
        }
        Err(log::OpenError::Locked) => Err(OpenError::Locked),
        Err(error) => {
            tell_unusable(path, &error);
            Ok(None)
        }
    }
}

fn open_disk(
    path: &Path,
    limits: Limits,
    generation: [u8; 16],
    clock: Clock,
) -> Result<Option<Disk>, OpenError> {
    let now = Moment {
        tick: clock.tick(),
        wall: clock.wall(),
    };
    match Disk::open(&path.join(PAGES), limits, generation, now) {
        Ok(disk) => Ok(Some(disk)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(OpenError::Locked),
        Err(error) => {
            tell_unusable(path, &error);
            Ok(None)
        }
    }
}

fn tell_unusable(path: &Path, error: &(dyn std::error::Error + 'static)) {
    tracing::error!(
        path = %path.display(),
        error,
        "`cache.disk` cannot be used: pages are kept in memory only, and a restart forgets them"
    );
}

fn tell_found(found: &Found, path: &Path) {
    let path = path.display();
    match found {
        Found::Nothing => tracing::info!(%path, "the disk cache begins empty"),
        Found::Whole => {}
        Found::Torn(bytes) => {
            tracing::info!(%path, bytes, "cut off the end of the purge log, which no purge was acknowledged for");
        }
        Found::Unreadable(why) => {
            tracing::warn!(%path, why, "the purge log is damaged, so everything on the disk counts as purged");
        }
    }
}

/// Where the log is, below the folder.
const PURGES: &str = "purges";

/// Where the pages are.
const PAGES: &str = "pages";

/// Between two looks at the writer while the server ends.
const STEP: Duration = Duration::from_millis(5);
