//! Work besides requests, in small steps that a background thread calls and paces: counting the entries after a start,
//! removing those that are purged or long unused, removing what was moved aside, and evicting when space is needed.
//!
//! A file is counted under the lock of its name, the same lock under which it is removed or replaced. So the index has no
//! row for a file that is gone.

use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use super::index::{IndexEntry, IndexLookup, Sample, Short, units};
use super::layout::FIXED;
use super::moment::{DiskClock, wall_seconds};
use super::read::Miss;
use super::seal::{BUCKETS, FileName, SiteId};
use super::shared::{Disk, DiskShared};
use super::write::NotStored;
use crate::body::StoredBody;
use crate::entry::Entry;

/// How far the counting after a start is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanProgress {
    /// Call again after a pause.
    More,
    /// Everything is counted, and nothing that was moved aside remains.
    Done,
}

/// What one step of the sweeper did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// Entries looked at.
    pub looked: u64,
    /// Entries removed.
    pub removed: u64,
    /// The step was the last one of its round through all directories.
    pub ends_round: bool,
}

/// What the sweeper shows of an entry.
#[derive(Debug)]
pub struct HeaderView {
    /// Whose it is.
    pub site: SiteId,
    /// The rules it was stored under.
    pub fingerprint: u64,
    /// Its file's name, for `Disk::remove_hash`.
    pub name: FileName,
    /// The entry without its body: to be compared with purges, and for its age.
    pub entry: Arc<Entry>,
    /// Length of its body.
    pub body_length: u64,
}

impl Disk {
    /// Counts the files of some directories, then removes some of what was moved aside. A step takes about a millisecond if
    /// the directories are in memory. Resumable; to be called until it is done.
    pub fn scan_step(&self) -> ScanProgress {
        let mut files = 0;
        for _ in 0..DIRECTORIES_AT_ONCE {
            let bucket = self.shared.index().counted();
            if bucket >= BUCKETS {
                return self.clear_step();
            }
            files += self.shared.count(bucket);
            self.shared.index().count_next();
            if files >= FILES_AT_ONCE {
                break;
            }
        }
        ScanProgress::More
    }

    fn clear_step(&self) -> ScanProgress {
        match self.shared.place.clear_old(&mut FILES_AT_ONCE.clone()) {
            Ok(false) => ScanProgress::More,
            Ok(true) => ScanProgress::Done,
            Err(error) => {
                // A file that cannot be removed only costs space.
                self.shared.failed(&error);
                ScanProgress::Done
            }
        }
    }

    /// Looks at the entries of the next directory and removes those that `is_purged` names, those unused for longer than
    /// allowed, and some more where limits were lowered. Holds no lock while `is_purged` runs.
    pub fn sweep_step(
        &self,
        now: DiskClock,
        mut is_purged: impl FnMut(&HeaderView) -> bool,
    ) -> Swept {
        let shared = &self.shared;
        shared.at(now);
        let bucket = shared.sweep_hand.fetch_add(1, Ordering::Relaxed) % BUCKETS;
        let mut swept = Swept {
            looked: 0,
            removed: shared.shrink(),
            ends_round: bucket == BUCKETS - 1,
        };
        let rows = shared.index().bucket(bucket);
        for row in rows {
            swept.looked += 1;
            let unused = shared.second().saturating_sub(row.used);
            if u64::from(unused) > shared.limits.inactive.as_secs() {
                swept.removed += u64::from(shared.evict(&row).is_ok());
                continue;
            }
            match shared.open(&row.name, FIXED + 2048) {
                Ok(opened) => {
                    let view = HeaderView {
                        site: row.name.site(),
                        fingerprint: opened.fingerprint(),
                        name: row.name,
                        body_length: opened.body_length(),
                        entry: shared.entry(opened.stored, StoredBody::default(), now),
                    };
                    if is_purged(&view) {
                        swept.removed += u64::from(shared.remove_born(&row.name, view.entry.born));
                    }
                }
                Err(miss) => {
                    swept.removed += u64::from(!matches!(miss, Miss::Failed(_)));
                    shared.settle(&row.name, miss);
                }
            }
        }
        swept
    }
}

impl DiskShared {
    /// Takes the files of one directory into the index; how many there were.
    fn count(&self, bucket: usize) -> usize {
        let Ok(entries) = std::fs::read_dir(self.place.bucket(bucket)) else {
            return 0;
        };
        let mut files = 0;
        for entry in entries.flatten() {
            files += 1;
            let name = entry.file_name();
            let named = name.to_str().and_then(FileName::parse);
            let Some(name) = named.filter(|name| name.bucket() == bucket) else {
                // No file of Galley has another name here.
                let _ = self.files.remove(&entry.path());
                continue;
            };
            let _writer = self.writer(&name);
            let Some(metadata) = entry.metadata().ok().filter(std::fs::Metadata::is_file) else {
                continue;
            };
            // Without a record of its uses, the last time that the file system knows of.
            let used = metadata.atime().max(metadata.mtime());
            let used = u32::try_from(used).unwrap_or(0).min(self.second());
            let mut index = self.index();
            if index.find(&name) == IndexLookup::Unknown {
                index.insert(IndexEntry::new(name, units(metadata.len()), used));
            }
        }
        files
    }

    /// Reserves units for a site; entries that have been unused longest leave for it.
    pub(super) fn reserve(&self, site: SiteId, units: u32) -> Result<(), NotStored> {
        for _ in 0..EVICTIONS_AT_ONCE {
            let short = match self.index().try_reserve(site, units) {
                Ok(()) => return Ok(()),
                Err(short) => short,
            };
            let victim = self.victim(short).ok_or(NotStored::NoRoom)?;
            self.evict(&victim)?;
        }
        Err(NotStored::NoRoom)
    }

    /// Removes some entries where more is there than allowed; how many.
    fn shrink(&self) -> u64 {
        let mut removed = 0;
        while removed < SHRINK_AT_ONCE && self.index().is_over() {
            match self.victim(Short::Total) {
                Some(victim) if self.evict(&victim).is_ok() => removed += 1,
                _ => break,
            }
        }
        removed
    }

    fn victim(&self, short: Short) -> Option<IndexEntry> {
        let second = self.second();
        let mut sample = Sample::default();
        while !sample.is_enough() {
            self.index().sample(&mut sample, short, second);
        }
        sample.best
    }

    /// Removes an entry if it is still the chosen one: not used, replaced or removed since.
    fn evict(&self, row: &IndexEntry) -> Result<(), NotStored> {
        let _writer = self.writer(&row.name);
        if self.index().find(&row.name) != IndexLookup::Resident(*row) {
            return Ok(());
        }
        self.files
            .remove(&self.place.file(&row.name))
            .map_err(|error| self.failed(&error))?;
        self.index().remove(&row.name);
        self.counters.evictions.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Removes the entry that was looked at, and not one that took its place.
    fn remove_born(&self, name: &FileName, born: u64) -> bool {
        let _writer = self.writer(name);
        self.born(name) == Some(born) && self.unlink(name)
    }

    /// Removes a file and its row; the caller holds the lock of the name.
    pub(super) fn unlink(&self, name: &FileName) -> bool {
        match self.files.remove(&self.place.file(name)) {
            Ok(()) => {
                self.index().remove(name);
                true
            }
            Err(error) => {
                self.failed(&error);
                false
            }
        }
    }

    /// Now in the scale of last uses: the wall clock of the start, carried on by the monotonic one.
    pub(super) fn second(&self) -> u32 {
        let since = self.now().since(self.opened.tick).as_secs();
        let start = wall_seconds(self.opened.wall.max(SystemTime::UNIX_EPOCH));
        start.saturating_add(u32::try_from(since).unwrap_or(u32::MAX))
    }
}

/// Directories read in one step of the scan.
const DIRECTORIES_AT_ONCE: usize = 64;
/// Files after which a step of the scan ends.
const FILES_AT_ONCE: usize = 256;
/// What one entry may push out: as many as the largest object is larger than a small page.
const EVICTIONS_AT_ONCE: usize = 100_000;
/// What one step of the sweeper removes above a lowered limit.
const SHRINK_AT_ONCE: u64 = 64;
