//! The cache directory: its layout, its key, and how it is emptied.
//!
//! ```text
//! key          magic with format version "GLYKEY1\n" 8 | generation 16 | key 16 | checksum 8
//! entries/     a/bc/<32 hexadecimal digits>: one entry each
//! tmp/         entries being written
//! index        snapshot of the index, only while no process uses the directory
//! old-*        directories that were moved aside, to be removed in the background
//! ```
//!
//! A key that is missing, damaged or of another generation means that all entries are purged: they are moved aside by one
//! rename, and a new key is written. One process uses a directory at a time, and holds a lock on the directory itself.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use super::seal::{DirectoryKey, FileName, random};

/// The directory of one cache.
#[derive(Debug)]
pub(super) struct CacheDirectory {
    root: PathBuf,
    key: [u8; 16],
}

/// The result of opening a directory.
pub(super) struct OpenedDirectory {
    pub(super) place: CacheDirectory,
    pub(super) seal: DirectoryKey,
    /// The lock is held while this file is open.
    pub(super) lock: File,
    pub(super) before: PreviousEntries,
    /// Why the key could not be written. Until it is written, stored entries are valid only in this process.
    pub(super) key_error: Option<io::Error>,
}

/// The entries from previous processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PreviousEntries {
    /// No entries of this generation.
    Nothing,
    /// Entries, and the snapshot's bytes if there was one. The snapshot file has been removed.
    Entries(Option<Vec<u8>>),
}

impl CacheDirectory {
    /// Locks `root`, and creates it if it does not exist.
    pub(super) fn open(root: &Path, generation: [u8; 16]) -> io::Result<OpenedDirectory> {
        DirBuilder::new().recursive(true).mode(0o700).create(root)?;
        let lock = File::open(root)?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        let mut place = Self {
            root: root.to_owned(),
            key: random(),
        };
        let kept = std::fs::read(place.key_file())
            .ok()
            .and_then(|bytes| parse_key(&bytes, generation));
        let mut key_error = None;
        let before = if let Some(key) = kept {
            place.key = key;
            PreviousEntries::Entries(place.take_snapshot())
        } else {
            place.move_aside(&place.entries())?;
            remove_if_exists(&place.snapshot())?;
            // Even if the disk is full, the cache can be used until the next start.
            key_error = place.write_key(generation).err();
            PreviousEntries::Nothing
        };
        // If these fail, the disk can still be read. The first entry to be stored reports the error.
        if is_occupied(&place.temporaries()) {
            let _ = place.move_aside(&place.temporaries());
        }
        let _ = DirBuilder::new().mode(0o700).create(place.temporaries());
        Ok(OpenedDirectory {
            seal: DirectoryKey::new(place.key),
            place,
            lock,
            before,
            key_error,
        })
    }

    /// Writes the key file: after the next start, files of this generation are valid.
    pub(super) fn write_key(&self, generation: [u8; 16]) -> io::Result<()> {
        let fresh = self.root.join("key.new");
        remove_if_exists(&fresh)?;
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&fresh)?;
        file.write_all(&key_bytes(generation, self.key))?;
        // Once in the life of a directory. Without it a power failure could invalidate the whole cache.
        file.sync_all()?;
        std::fs::rename(&fresh, self.key_file())
    }

    fn move_aside(&self, dir: &Path) -> io::Result<()> {
        let number = u128::from_le_bytes(random());
        let aside = self.root.join(format!("{OLD}{number:032x}"));
        match std::fs::rename(dir, aside) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    /// Reads and removes the snapshot. A snapshot that cannot be removed is not used, because it would be used again later.
    fn take_snapshot(&self) -> Option<Vec<u8>> {
        let bytes = std::fs::read(self.snapshot()).ok()?;
        std::fs::remove_file(self.snapshot()).ok()?;
        Some(bytes)
    }

    /// Removes up to `limit` files that were moved aside. Returns true if none are left.
    pub(super) fn clear_old(&self, limit: &mut usize) -> io::Result<bool> {
        for entry in std::fs::read_dir(&self.root)? {
            let entry = entry?;
            let is_old = entry
                .file_name()
                .as_encoded_bytes()
                .starts_with(OLD.as_bytes());
            if is_old && !clear(&entry.path(), limit, MAX_DEPTH)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn file(&self, name: &FileName) -> PathBuf {
        self.bucket(name.bucket()).join(name.to_string())
    }

    /// The directory of a bucket, which may not exist.
    pub(super) fn bucket(&self, bucket: usize) -> PathBuf {
        let mut path = self.entries();
        path.push(format!("{:x}", bucket >> 8));
        path.push(format!("{:02x}", bucket & 0xff));
        path
    }

    pub(super) fn temporary(&self, number: u64) -> PathBuf {
        self.temporaries().join(format!("{number:x}"))
    }

    pub(super) fn temporaries(&self) -> PathBuf {
        self.root.join("tmp")
    }

    pub(super) fn snapshot(&self) -> PathBuf {
        self.root.join("index")
    }

    fn entries(&self) -> PathBuf {
        self.root.join("entries")
    }

    fn key_file(&self) -> PathBuf {
        self.root.join("key")
    }
}

fn key_bytes(generation: [u8; 16], key: [u8; 16]) -> Vec<u8> {
    let mut bytes = [&KEY_MAGIC[..], &generation, &key].concat();
    let sum = DirectoryKey::new(key).sum_of(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

fn parse_key(bytes: &[u8], generation: [u8; 16]) -> Option<[u8; 16]> {
    let key: [u8; 16] = bytes.get(24..40)?.try_into().ok()?;
    (bytes == key_bytes(generation, key)).then_some(key)
}

/// Removes a directory with its contents, at most `limit` files. Returns true if it is removed.
fn clear(dir: &Path, limit: &mut usize, depth: usize) -> io::Result<bool> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if *limit == 0 {
            return Ok(false);
        }
        *limit -= 1;
        if !entry.file_type()?.is_dir() {
            std::fs::remove_file(entry.path())?;
        } else if depth == 0 || !clear(&entry.path(), limit, depth - 1)? {
            return Ok(false);
        }
    }
    std::fs::remove_dir(dir)?;
    Ok(true)
}

fn is_occupied(dir: &Path) -> bool {
    std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some())
}

fn remove_if_exists(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

const KEY_MAGIC: [u8; 8] = *b"GLYKEY1\n";
const OLD: &str = "old-";
/// The depth of the tree: two levels of directories, and the files.
const MAX_DEPTH: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_kept_for_its_generation() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("cache");
        let open = |generation: u8| CacheDirectory::open(&root, [generation; 16]).map(|o| o.before);
        assert_eq!(open(1).unwrap(), PreviousEntries::Nothing);
        assert_eq!(open(1).unwrap(), PreviousEntries::Entries(None));
        std::fs::write(root.join("index"), b"snapshot").unwrap();
        assert_eq!(
            open(1).unwrap(),
            PreviousEntries::Entries(Some(b"snapshot".to_vec()))
        );
        assert_eq!(
            open(1).unwrap(),
            PreviousEntries::Entries(None),
            "believed once"
        );
        assert_eq!(
            open(2).unwrap(),
            PreviousEntries::Nothing,
            "another generation"
        );
        for at in 0..48 {
            assert_eq!(open(2).unwrap(), PreviousEntries::Entries(None));
            let mut bytes = std::fs::read(root.join("key")).unwrap();
            bytes[at] ^= 1;
            std::fs::write(root.join("key"), bytes).unwrap();
            assert_eq!(
                open(2).unwrap(),
                PreviousEntries::Nothing,
                "byte {at} of the key"
            );
        }
    }

    #[test]
    fn one_process_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let held = CacheDirectory::open(dir.path(), [1; 16]).unwrap();
        let error = CacheDirectory::open(dir.path(), [1; 16])
            .map(|_| ())
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(held);
        assert!(CacheDirectory::open(dir.path(), [1; 16]).is_ok());
    }

    #[test]
    fn moved_aside_files_are_removed_in_steps() {
        let dir = tempfile::tempdir().unwrap();
        let place = CacheDirectory::open(dir.path(), [1; 16]).unwrap().place;
        for bucket in 0..20 {
            std::fs::create_dir_all(place.bucket(bucket)).unwrap();
            std::fs::write(place.bucket(bucket).join("file"), b"").unwrap();
        }
        std::fs::write(place.temporary(1), b"half").unwrap();
        let place = CacheDirectory::open(dir.path(), [2; 16]).unwrap().place;
        assert!(!place.entries().exists() && !place.temporary(1).exists());
        let mut steps = 0;
        while !place.clear_old(&mut 10).unwrap() {
            steps += 1;
            assert!(steps < 100);
        }
        assert!(steps >= 2, "{steps}");
        let left = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(left, 2, "key and tmp");
    }
}
