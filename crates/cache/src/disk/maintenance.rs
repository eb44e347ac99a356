//! Background work in small steps that a background thread calls and paces: counting the entries after a start, removing purged or
//! long unused entries, removing directories that were moved aside, and evicting when space is needed.
//!
//! A file is counted under the lock of its name, which is also held when it is removed or replaced. So the index never has a row
//! for a removed file.

use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use super::index::{IndexEntry, IndexLookup, ReachedLimit, Sample, units};
use super::layout::FIXED;
use super::moment::{DiskClock, wall_seconds};
use super::read::Miss;
use super::seal::{BUCKETS, FileName, SiteId};
use super::shared::{Disk, DiskShared};
use super::write::NotStored;
use crate::body::StoredBody;
use crate::entry::Entry;

/// The progress of counting after a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanProgress {
    /// Call again after a pause.
    More,
    /// Everything is counted, and everything that was moved aside is removed.
    Done,
}

/// The result of one step of the sweeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepResult {
    /// Entries examined.
    pub looked: u64,
    /// Entries removed.
    pub removed: u64,
    /// Whether the step was the last one of a round through all directories.
    pub ends_round: bool,
}

/// An entry as the sweeper shows it.
#[derive(Debug)]
pub struct HeaderView {
    /// The site of the entry.
    pub site: SiteId,
    /// The fingerprint of the rules under which it was stored.
    pub fingerprint: u64,
    /// The entry without its body, for comparison with purges and for its age.
    pub entry: Arc<Entry>,
}

impl Disk {
    /// Counts the files of some directories, then removes some files that were moved aside. A step takes about a millisecond if
    /// the directories are in memory. Resumable. Call it until it is done.
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
                // A file that cannot be removed only uses space.
                self.shared.failed(&error);
                ScanProgress::Done
            }
        }
    }

    /// Examines the entries of the next directory. Removes those for which `is_purged` returns true, those unused for longer
    /// than allowed, and some more if a limit was lowered. Holds no lock while `is_purged` runs.
    pub fn sweep_step(
        &self,
        now: DiskClock,
        mut is_purged: impl FnMut(&HeaderView) -> bool,
    ) -> SweepResult {
        let shared = &self.shared;
        shared.at(now);
        let bucket = shared.sweep_hand.fetch_add(1, Ordering::Relaxed) % BUCKETS;
        let mut swept = SweepResult {
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
    /// Adds the files of one directory to the index. Returns their number.
    fn count(&self, bucket: usize) -> usize {
        let Ok(entries) = std::fs::read_dir(self.place.bucket(bucket)) else {
            return 0;
        };
        let mut files = 0;
        for entry in entries.flatten() {
            files += 1;
            let name = entry.file_name();
            let parsed = name.to_str().and_then(FileName::parse);
            let Some(name) = parsed.filter(|name| name.bucket() == bucket) else {
                // Files of Galley have no other names here.
                let _ = self.files.remove(&entry.path());
                continue;
            };
            let _writer = self.writer(&name);
            let Some(metadata) = entry.metadata().ok().filter(std::fs::Metadata::is_file) else {
                continue;
            };
            // The last use is not recorded, so the latest time in the file system is used.
            let used = metadata.atime().max(metadata.mtime());
            let used = u32::try_from(used).unwrap_or(0).min(self.second());
            let mut index = self.index();
            if index.find(&name) == IndexLookup::Unknown {
                index.insert(IndexEntry::new(name, units(metadata.len()), used));
            }
        }
        files
    }

    /// Reserves units for a site. Evicts the entries that have been unused for the longest time if needed.
    pub(super) fn reserve(&self, site: SiteId, units: u32) -> Result<(), NotStored> {
        for _ in 0..EVICTIONS_AT_ONCE {
            let reached = match self.index().try_reserve(site, units) {
                Ok(()) => return Ok(()),
                Err(reached) => reached,
            };
            let victim = self.victim(reached).ok_or(NotStored::NoRoom)?;
            self.evict(&victim)?;
        }
        Err(NotStored::NoRoom)
    }

    /// Evicts some entries if the limit is exceeded. Returns their number.
    fn shrink(&self) -> u64 {
        let mut removed = 0;
        while removed < SHRINK_AT_ONCE && self.index().is_over() {
            match self.victim(ReachedLimit::Total) {
                Some(victim) if self.evict(&victim).is_ok() => removed += 1,
                _ => break,
            }
        }
        removed
    }

    fn victim(&self, reached: ReachedLimit) -> Option<IndexEntry> {
        let second = self.second();
        let mut sample = Sample::default();
        while !sample.is_enough() {
            self.index().sample(&mut sample, reached, second);
        }
        sample.best
    }

    /// Removes a selected entry, unless it was used, replaced or removed since.
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

    /// Removes the examined entry, unless another one has replaced it.
    fn remove_born(&self, name: &FileName, born: u64) -> bool {
        let _writer = self.writer(name);
        self.born(name) == Some(born) && self.unlink(name)
    }

    /// Removes a file and its row. The caller holds the lock of the name.
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

    /// The current time in the unit of last uses: the wall clock of the start plus the elapsed monotonic time.
    pub(super) fn second(&self) -> u32 {
        let since = self.now().since(self.opened.tick).as_secs();
        let start = wall_seconds(self.opened.wall.max(SystemTime::UNIX_EPOCH));
        start.saturating_add(u32::try_from(since).unwrap_or(u32::MAX))
    }
}

/// The maximum number of directories in one step of the scan.
const DIRECTORIES_AT_ONCE: usize = 64;
/// The number of files after which a step of the scan ends.
const FILES_AT_ONCE: usize = 256;
/// The maximum number of evictions for one entry: the ratio of the largest object to a small page.
const EVICTIONS_AT_ONCE: usize = 100_000;
/// The maximum number of entries that one step of the sweeper evicts for a lowered limit.
const SHRINK_AT_ONCE: u64 = 64;
