//! The disk cache through its public interface: its guarantees under any use and any damage to its files.

#![expect(clippy::unwrap_used, reason = "tests")]

mod concurrency;
mod corruption;
mod large_cache;
mod lifecycle;
#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use galley_cache::budget::MemoryBudget;
use galley_cache::disk::{Disk, DiskClock, DiskLimits, DiskLookup, OnDisk, ScanProgress, SiteName};
use galley_cache::entry::{Entry, EntryKind, EntryParts, Scopes};
use galley_cache::key::Key;
use galley_policy::key::{host_id, tag_id, url_id};
use galley_policy::storable::Lifetime;
use galley_policy::time::Tick;

use self::support::{content, read_body};

const GENERATION: [u8; 16] = [1; 16];

const LIMITS: DiskLimits = DiskLimits {
    bytes: 64 << 20,
    site_bytes: None,
    object_bytes: 16 << 20,
    inactive: Duration::from_secs(7 * 86_400),
    in_memory_bytes: 256 << 10,
};

fn at(tick_ms: u64) -> DiskClock {
    DiskClock {
        tick: Tick(tick_ms),
        wall: UNIX_EPOCH + Duration::from_secs(1_000_000_000) + Duration::from_millis(tick_ms),
    }
}

fn page(path: &str, born: u64, body: impl Into<Bytes>) -> Entry {
    let mut fields = http::HeaderMap::new();
    fields.append("content-type", http::HeaderValue::from_static("text/html"));
    fields.append("etag", http::HeaderValue::from_static("\"abc\""));
    Entry::new(EntryParts {
        key: Key::new(path.as_bytes()),
        kind: EntryKind::Page,
        status: http::StatusCode::OK,
        fields,
        body: body.into().into(),
        stored_at: Tick(0),
        lifetime: Lifetime {
            fresh: Duration::from_secs(600),
            stale_while_revalidate: Duration::from_secs(60),
            stale_if_error: Duration::from_secs(3600),
            initial_age: Duration::from_secs(1),
        },
        scopes: Scopes {
            host: host_id("a.test"),
            url: url_id("a.test", path.as_bytes(), None),
            path_query: path.as_bytes().into(),
            tags: [tag_id("post-1")].into(),
        },
        tags: vec!["post-1".into()],
        born,
    })
}

fn open_with(dir: &Path, limits: DiskLimits, now: DiskClock) -> (Disk, SiteName) {
    let disk = Disk::open(dir, limits, GENERATION, now).unwrap();
    let site = disk.site("a.test", 7);
    (disk, site)
}

fn open(dir: &Path) -> (Disk, SiteName) {
    open_with(dir, LIMITS, at(0))
}

fn scan(disk: &Disk) {
    while disk.scan_step() == ScanProgress::More {}
}

fn read(disk: &Disk, site: SiteName, path: &str, now: DiskClock) -> Option<(u64, Vec<u8>)> {
    let lookup = disk.get(site, path.as_bytes(), now, &MemoryBudget::new(u64::MAX));
    read_body(lookup).map(|(entry, body)| (entry.born, body))
}

/// The files of all entries.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.join("entries")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
            } else {
                found.push(entry.path());
            }
        }
    }
    found
}
