//! Compares memory cache, disk cache, purge table and purge log, with real files, with a model: random put, get, purge, expiry,
//! restart, damage and loss.
//!
//! Checked properties: a lookup returns exactly the bytes stored for the page. The validity of an entry follows from the purges since
//! its request was sent, hard before soft, also after restarts. With large limits, an entry that was stored and neither removed,
//! replaced nor damaged is found, also after clean and unclean stops. Losing the log invalidates all entries. `GALLEY_MODEL_CASES` sets
//! the number of cases.

#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "../blocking/mod.rs"]
mod blocking;
mod cache_model;
mod steps;
#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use galley_cache::budget::MemoryBudget;
use galley_cache::disk::{Disk, DiskClock, DiskLimits, ScanProgress, SiteName};
use galley_cache::log::{OpenedLog, PurgeLog};
use galley_cache::memory::Memory;
use galley_cache::purge_table::PurgeTable;
use galley_policy::time::Tick;
use proptest::prelude::*;

use self::cache_model::CacheModel;
use self::steps::steps;

const SITE: &str = "a.test";

/// Limits of memory and disk cache.
#[derive(Clone, Copy, Debug)]
enum CacheSize {
    /// Nothing is evicted.
    Large,
    /// Entries are evicted all the time.
    Small,
}

impl CacheSize {
    fn memory(self) -> Memory {
        match self {
            Self::Large => Memory::new(256 << 20, 16 << 20),
            Self::Small => Memory::new(600 << 10, 100 << 10),
        }
    }

    fn disk(self) -> DiskLimits {
        DiskLimits {
            bytes: match self {
                Self::Large => 256 << 20,
                Self::Small => 400 << 10,
            },
            site_bytes: None,
            object_bytes: 16 << 20,
            inactive: Duration::from_secs(10 * DAY),
            in_memory_bytes: 20_000,
        }
    }
}

/// The caches and the log of one process.
struct Process {
    memory: Memory,
    disk: Disk,
    opened: OpenedLog,
    table: PurgeTable,
}

impl Process {
    fn new(dir: &Path, size: CacheSize, now: DiskClock) -> Self {
        let opened = PurgeLog::open(&dir.join("log"), now.wall).unwrap();
        let table = PurgeTable::new();
        opened.replay(SITE, &table);
        let generation = opened.generation.bytes();
        let disk = Disk::open(&dir.join("disk"), size.disk(), generation, now).unwrap();
        Self {
            memory: size.memory(),
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

/// A memory budget without a limit.
fn unlimited_budget() -> MemoryBudget {
    MemoryBudget::new(u64::MAX)
}

/// The files of all entries, sorted.
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

fn config() -> ProptestConfig {
    let text = std::env::var("GALLEY_MODEL_CASES").ok();
    ProptestConfig::with_cases(text.map_or(32, |text| text.parse().unwrap()))
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_large_cache_behaves_like_the_model(steps in steps()) {
        CacheModel::run(CacheSize::Large, &steps);
    }

    #[test]
    fn a_small_cache_evicts_entries_but_never_returns_wrong_ones(steps in steps()) {
        CacheModel::run(CacheSize::Small, &steps);
    }
}

const DAY: u64 = 86_400;
