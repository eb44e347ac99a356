//! The parsed `.htaccess` files of a root, checked for changes.
//!
//! There is one entry for each directory that exists, so that requests for directories that do not exist cannot fill the
//! cache; the number is limited as well. An entry is valid for a second; then the file's stamp decides, unless the file had just
//! been changed when it was read: another change may have the same time. Absence is a stamp, too. A file that exists but cannot be
//! read, or is larger than any real one, denies access to its directory.

use std::collections::HashMap;
use std::fs::Metadata;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use rustix::io::Errno;

use super::parse;
use super::rules::Rules;
use crate::recheck::{RECHECK, is_settled};
use crate::tree::{self, Tree};
use galley_sys::Lock;

/// The parsed files by the relative path of the directory.
#[derive(Default)]
pub(crate) struct HtaccessCache {
    entries: Lock<HashMap<Vec<u8>, CachedHtaccess>>,
}

struct CachedHtaccess {
    checked: Instant,
    stamp: HtaccessStamp,
    /// Whether each change after the file was read has another stamp.
    is_settled: bool,
    rules: Arc<Rules>,
}

/// The properties that show that a file is the one that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HtaccessStamp {
    Absent,
    Unreadable,
    Present {
        device: u64,
        inode: u64,
        size: u64,
        modified: (i64, i64),
        changed: (i64, i64),
    },
}

/// Reads the file with the stamp `seen`; returns the stamp of the file that was really read.
fn read(directory: BorrowedFd<'_>, seen: HtaccessStamp) -> (HtaccessStamp, Rules) {
    match seen {
        HtaccessStamp::Absent => return (seen, Rules::default()),
        HtaccessStamp::Unreadable => return (seen, Rules::closed()),
        HtaccessStamp::Present { .. } => {}
    }
    match tree::read_rule_file(directory, NAME, MAX_SIZE) {
        Ok(Some((metadata, text))) => (HtaccessStamp::of(&Ok(metadata)), parse::parse(&text)),
        // Not a regular file, or too large; valid as long as the stamp is the same.
        Ok(None) => (seen, Rules::closed()),
        Err(error) if is_absence(&error) => (HtaccessStamp::Absent, Rules::default()),
        // No permission, or a failing disk. The file's stamp is not valid for this: it shows mode changes, but not that a disk
        // works again.
        Err(_) => (HtaccessStamp::Unreadable, Rules::closed()),
    }
}

impl HtaccessCache {
    /// The rules that apply in the directory `relative`; `None` if it is not a directory.
    pub(crate) fn rules_of(
        &self,
        tree: &Tree,
        relative: &[u8],
        now: Instant,
    ) -> Option<Arc<Rules>> {
        if let Some(rules) = self.cached(relative, now) {
            return Some(rules);
        }
        let directory = match tree.open_directory(relative) {
            Ok(directory) => directory,
            Err(Errno::ACCESS) => return Some(Arc::new(Rules::closed())),
            Err(_) => {
                self.remove(relative);
                return None;
            }
        };
        let stamp = HtaccessStamp::of(&tree::metadata_in(directory.as_fd(), NAME));
        if let Some(rules) = self.unchanged(relative, stamp, now) {
            return Some(rules);
        }
        let began = SystemTime::now();
        let (stamp, rules) = read(directory.as_fd(), stamp);
        let rules = Arc::new(rules);
        let entry = CachedHtaccess {
            checked: now,
            stamp,
            is_settled: stamp.is_settled(began),
            rules: Arc::clone(&rules),
        };
        self.put(relative, entry);
        Some(rules)
    }

    /// The cached rules, if they were checked less than a second ago.
    pub(crate) fn cached(&self, relative: &[u8], now: Instant) -> Option<Arc<Rules>> {
        let entries = self.entries.lock();
        let entry = entries.get(relative)?;
        let is_recent = now.saturating_duration_since(entry.checked) < RECHECK;
        is_recent.then(|| Arc::clone(&entry.rules))
    }

    /// The cached rules, if they were read from a file with this stamp. Makes them valid for another second.
    fn unchanged(&self, relative: &[u8], stamp: HtaccessStamp, now: Instant) -> Option<Arc<Rules>> {
        let mut entries = self.entries.lock();
        let entry = entries.get_mut(relative)?;
        if entry.stamp != stamp || !entry.is_settled {
            return None;
        }
        entry.checked = now;
        Some(Arc::clone(&entry.rules))
    }

    fn put(&self, relative: &[u8], entry: CachedHtaccess) {
        let mut entries = self.entries.lock();
        if entries.len() >= MAX_ENTRIES && !entries.contains_key(relative) {
            // Removes all entries: simple, and the entries in use are read again within a few requests.
            entries.clear();
        }
        entries.insert(relative.to_vec(), entry);
    }

    fn remove(&self, relative: &[u8]) {
        let mut entries = self.entries.lock();
        entries.remove(relative);
    }

    /// The number of cached directories.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.lock().len()
    }
}

impl HtaccessStamp {
    fn of(looked: &io::Result<Metadata>) -> Self {
        match looked {
            Ok(metadata) => Self::Present {
                device: metadata.dev(),
                inode: metadata.ino(),
                size: metadata.size(),
                modified: (metadata.mtime(), metadata.mtime_nsec()),
                changed: (metadata.ctime(), metadata.ctime_nsec()),
            },
            Err(error) if is_absence(error) => Self::Absent,
            Err(_) => Self::Unreadable,
        }
    }

    fn is_settled(self, before: SystemTime) -> bool {
        match self {
            Self::Absent => true,
            Self::Unreadable => false,
            Self::Present { changed, .. } => is_settled(changed.0, changed.1, before),
        }
    }
}

fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

const NAME: &str = ".htaccess";

/// The maximum size of a file; no known plugin and no person writes a larger one.
const MAX_SIZE: u64 = 64 * 1024;

/// The maximum number of cached directories: more than a large site has.
pub(crate) const MAX_ENTRIES: usize = 4096;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_second_change_with_the_same_times_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::open(folder.path()).unwrap();
        let file = folder.path().join(NAME);
        // Most pairs have the same times: the kernel's clock for files stands still for milliseconds.
        for _ in 0..50 {
            let cache = HtaccessCache::default();
            let now = Instant::now();
            fs::write(&file, "Require all denied \n").unwrap();
            let first = cache.rules_of(&tree, b"", now).unwrap();
            fs::write(&file, "Require all granted\n").unwrap();
            let second = cache.rules_of(&tree, b"", now + RECHECK).unwrap();
            assert!(!Arc::ptr_eq(&first, &second));
        }
    }
}
