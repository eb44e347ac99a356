//! Memory, disk, purge table and log together, with real files, against a model: random put, get, purge, expire, restart,
//! damage and loss.
//!
//! Held: what is found is content of the page that was asked for, as it was put and no byte else; its standing is what the
//! orders since its request was sent make of it, hard before soft, over restarts; what was stored, and neither removed,
//! replaced nor damaged, is found while limits are ample, over clean and unclean ends. A log that was lost takes all
//! entries with it. `GALLEY_MODEL_CASES` is how many cases are tried.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod model;
mod steps;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use galley_cache::budget::MemoryBudget;
use galley_cache::disk::{Disk, DiskClock, DiskLimits, DiskLookup, OnDisk, ScanProgress, SiteName};
use galley_cache::entry::Entry;
use galley_cache::log::{OpenedLog, PurgeLog};
use galley_cache::memory::Memory;
use galley_cache::purge_table::PurgeTable;
use galley_policy::time::Tick;
use proptest::prelude::*;

use self::model::World;
use self::steps::steps;

const SITE: &str = "a.test";

/// How much the stores may hold.
#[derive(Clone, Copy, Debug)]
enum Room {
    /// Nothing has to leave for anything.
    Ample,
    /// Entries leave for others all the time.
    Narrow,
}

impl Room {
    fn memory(self) -> Memory {
        match self {
            Self::Ample => Memory::new(256 << 20, 16 << 20),
            Self::Narrow => Memory::new(600 << 10, 100 << 10),
        }
    }

    fn disk(self) -> DiskLimits {
        DiskLimits {
            bytes: match self {
                Self::Ample => 256 << 20,
                Self::Narrow => 400 << 10,
            },
            site_bytes: None,
            object_bytes: 16 << 20,
            inactive: Duration::from_secs(10 * DAY),
            in_memory_bytes: 20_000,
        }
    }
}

/// One process.
struct Run {
    memory: Memory,
    disk: Disk,
    opened: OpenedLog,
    table: PurgeTable,
}

impl Run {
    fn new(dir: &Path, room: Room, now: DiskClock) -> Self {
        let opened = PurgeLog::open(&dir.join("log"), now.wall).unwrap();
        let table = PurgeTable::new();
        opened.replay(SITE, &table);
        let generation = opened.generation.bytes();
        let disk = Disk::open(&dir.join("disk"), room.disk(), generation, now).unwrap();
        Self {
            memory: room.memory(),
            disk,
            opened,
            table,
        }
    }

    fn site(&self, fingerprint: u64) -> SiteName {
        self.disk.site(SITE, fingerprint)
    }

    fn scan(&self) {
        while self.disk.scan_step() == ScanProgress::More {}
    }
}

fn at(second: u64) -> DiskClock {
    DiskClock {
        tick: Tick(second * 1000),
        wall: wall(second),
    }
}

fn wall(second: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_000_000_000 + second)
}

/// The entry and its whole body, however it came; `None` if there is none or its body could not be read to the end.
fn whole(found: DiskLookup) -> Option<(Arc<Entry>, Vec<u8>)> {
    match found {
        DiskLookup::Absent => None,
        DiskLookup::Found(OnDisk::Whole(entry)) => {
            let body = entry.body().unwrap().to_vec();
            Some((entry, body))
        }
        DiskLookup::Found(OnDisk::Pieces(entry, pieces)) => {
            let mut body = Vec::new();
            while (body.len() as u64) < pieces.length() {
                body.extend_from_slice(&pieces.read(&(body.len() as u64..pieces.length())).ok()?);
            }
            Some((entry, body))
        }
    }
}

/// Memory for what is read, without a limit.
fn plenty() -> MemoryBudget {
    MemoryBudget::new(u64::MAX)
}

/// All files of entries, in an order of their own.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.join("disk/entries")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
            } else {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

fn cases() -> ProptestConfig {
    let text = std::env::var("GALLEY_MODEL_CASES").ok();
    ProptestConfig::with_cases(text.map_or(32, |text| text.parse().unwrap()))
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn the_store_is_the_model(steps in steps()) {
        World::play(Room::Ample, &steps);
    }

    #[test]
    fn a_narrow_store_forgets_and_never_errs(steps in steps()) {
        World::play(Room::Narrow, &steps);
    }
}

const DAY: u64 = 86_400;
