//! The purges of one site that not all targets have accepted yet, in a file beside the stored pages. After a restart they are
//! sent again.
//!
//! A purge is written before it is acknowledged. The file is removed when every target has accepted its contents. After a
//! crash, accepted purges may be sent twice, which is harmless.
//!
//! ```text
//! for each purge: length (u32, little-endian), the record of the purge log
//! ```

use std::fmt::Write as _;
use std::io;

use galley_cache::log::PurgeRecord;
use galley_cluster::RecordFile;
use galley_policy::purge::Purge;
use sha2::{Digest, Sha256};

use super::everything;
use crate::OutboxFolder;

/// The file of one site, if there is a disk cache.
pub(super) struct ForwardOutbox {
    folder: OutboxFolder,
    site: String,
    file: Option<RecordFile>,
}

impl ForwardOutbox {
    /// An outbox that has not read or written its file yet.
    pub(super) fn new(folder: OutboxFolder, site: &str) -> Self {
        let file = folder
            .lock()
            .as_ref()
            .map(|folder| RecordFile::new(folder.join(name(site))));
        Self {
            folder,
            site: site.to_owned(),
            file,
        }
    }

    /// Uses the file, and prevents another process from taking over during that time. `None`: another process has, or there is
    /// no disk cache.
    fn with_file<T>(&mut self, act: impl FnOnce(&mut RecordFile) -> T) -> Option<T> {
        let is_ours = self.folder.lock();
        is_ours.as_ref()?;
        self.file.as_mut().map(act)
    }

    /// Reads the purges of an earlier run. An incomplete record at the end was never acknowledged, and is removed. An unreadable
    /// file counts as a purge of everything.
    pub(super) fn read(&mut self) -> Vec<Purge> {
        let read = self.with_file(|file| {
            let bytes = file.read()?;
            let mut rest = bytes.as_slice();
            let purges: Vec<Purge> = std::iter::from_fn(|| read_record(&mut rest)).collect();
            file.keep_whole(bytes.len() - rest.len());
            io::Result::Ok(purges)
        });
        match read {
            None => Vec::new(),
            Some(Ok(purges)) => purges,
            Some(Err(error)) => {
                tracing::warn!(%error, site = self.site, "purges that waited for other caches cannot be read: everything is purged there");
                vec![everything()]
            }
        }
    }

    /// Writes purges, and waits until they are on the disk. A failure is logged; the purges are then lost when the process ends.
    pub(super) fn keep(&mut self, purges: &[Purge]) {
        let mut bytes = Vec::new();
        for purge in purges {
            self.write_record(purge, &mut bytes);
        }
        // Replaces the contents of the file if it is too large.
        let mut record = Vec::new();
        self.write_record(&everything(), &mut record);
        let written = self.with_file(|file| {
            if file.has_room_for(bytes.len()) {
                file.append(&bytes)
            } else {
                file.replace(&record)
            }
        });
        if let Some(Err(error)) = written {
            tracing::warn!(%error, site = self.site, "purges that wait for other caches cannot be written: a restart forgets them");
        }
    }

    /// Removes the contents, because all targets have accepted them.
    pub(super) fn clear(&mut self) {
        let removed = self.with_file(|file| {
            if file.is_empty() {
                Ok(())
            } else {
                file.remove()
            }
        });
        if let Some(Err(error)) = removed {
            // They are sent again after a restart, which is harmless.
            tracing::debug!(%error, site = self.site, "the purges that waited for other caches cannot be removed");
        }
    }

    fn write_record(&self, purge: &Purge, out: &mut Vec<u8>) {
        let record = PurgeRecord {
            site: self.site.clone(),
            purge: purge.clone(),
        };
        let record = record.bytes();
        // A record consists of a few strings of at most 64 KiB.
        let length = u32::try_from(record.len()).unwrap_or(u32::MAX);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&record);
    }
}

/// The file name for a site, a hash because site names may contain any characters.
fn name(site: &str) -> String {
    let hash = Sha256::digest(site.as_bytes());
    let mut name = format!("{FOLDER}/");
    for byte in hash.iter().take(16) {
        let _ = write!(name, "{byte:02x}");
    }
    name
}

/// The purge of the first complete record; `None`: there is none.
fn read_record(rest: &mut &[u8]) -> Option<Purge> {
    let (length, behind) = rest.split_first_chunk()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (record, behind) = behind.split_at_checked(length)?;
    let purge = PurgeRecord::read(record)?.purge;
    *rest = behind;
    Some(purge)
}

/// The folder below that of the disk cache.
const FOLDER: &str = "purge-forward";

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use galley_policy::purge::{Scope, Strength};
    use proptest::prelude::*;

    use super::*;

    fn tag(name: &str) -> Purge {
        Purge {
            scope: Scope::Tag(name.to_owned()),
            strength: Strength::Hard,
        }
    }

    fn file_of(dir: &Path) -> std::path::PathBuf {
        let mut files = fs::read_dir(dir.join(FOLDER)).unwrap();
        files.next().unwrap().unwrap().path()
    }

    #[test]
    fn purges_are_read_until_they_are_cleared_also_after_an_incomplete_record() {
        let dir = tempfile::tempdir().unwrap();
        let open = || ForwardOutbox::new(OutboxFolder::at(dir.path().to_owned()), "a.test");
        let mut outbox = open();
        assert_eq!(outbox.read(), []);
        outbox.keep(&[tag("one"), tag("two")]);
        outbox.keep(&[tag("three")]);
        let file = file_of(dir.path());
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
        let mut after_crash = open();
        assert_eq!(after_crash.read(), [tag("one"), tag("two")]);
        after_crash.keep(&[tag("four")]);
        assert_eq!(open().read(), [tag("one"), tag("two"), tag("four")]);
        after_crash.clear();
        assert_eq!(open().read(), []);
    }

    #[test]
    fn a_full_file_becomes_one_purge_of_everything() {
        let dir = tempfile::tempdir().unwrap();
        let folder = OutboxFolder::at(dir.path().to_owned());
        let mut outbox = ForwardOutbox::new(folder.clone(), "a.test");
        for _ in 0..500 {
            outbox.keep(&[tag(&"x".repeat(10_000))]);
        }
        assert_eq!(ForwardOutbox::new(folder, "a.test").read()[0], everything());
    }

    #[test]
    fn a_process_that_was_replaced_does_not_change_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let folder = OutboxFolder::at(dir.path().to_owned());
        let mut before = ForwardOutbox::new(folder.clone(), "a.test");
        before.keep(&[tag("one")]);
        *folder.lock() = None;
        before.keep(&[tag("two")]);
        before.clear();
        let mut after = ForwardOutbox::new(OutboxFolder::at(dir.path().to_owned()), "a.test");
        assert_eq!(after.read(), [tag("one")]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
            let mut rest = bytes.as_slice();
            while read_record(&mut rest).is_some() {}
        }
    }
}
