//! A file to which waiting purges are appended. After a crash it is readable up to the last complete record.
//!
//! The owner of the file defines the format of a record. A record after a partial one would not be found, so a partial record is
//! removed before the next append: after a failed write, and when the owner reports the end of the last complete record.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// See the module.
pub struct RecordFile {
    path: PathBuf,
    file: Option<File>,
    /// The size of the complete records.
    bytes: usize,
    /// Whether a partial record may follow them.
    is_torn: bool,
}

impl RecordFile {
    /// A file. Does not access the disk.
    pub const fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            bytes: 0,
            is_torn: false,
        }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file is empty, as far as this process has read and written it.
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Whether the file has space for this number of bytes.
    pub const fn has_room_for(&self, bytes: usize) -> bool {
        self.bytes + bytes <= MAX_BYTES
    }

    /// Reads the whole file; empty if there is no file.
    pub fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(bytes),
            opened => opened?,
        };
        let most = u64::try_from(MAX_BYTES * 2).unwrap_or(u64::MAX);
        file.take(most).read_to_end(&mut bytes)?;
        self.bytes = bytes.len();
        Ok(bytes)
    }

    /// Records the size of the complete records. The rest is removed before anything is appended.
    pub const fn keep_whole(&mut self, bytes: usize) {
        self.is_torn = self.is_torn || bytes < self.bytes;
        self.bytes = bytes;
    }

    /// Appends records and waits until they are on the disk.
    pub fn append(&mut self, records: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            closed => {
                make_folder(&self.path)?;
                let open = File::options().create(true).append(true).open(&self.path)?;
                closed.insert(open)
            }
        };
        if self.is_torn {
            file.set_len(u64::try_from(self.bytes).unwrap_or(u64::MAX))?;
            self.is_torn = false;
        }
        if let Err(error) = file.write_all(records).and_then(|()| file.sync_data()) {
            self.is_torn = true;
            return Err(error);
        }
        self.bytes += records.len();
        Ok(())
    }

    /// Replaces the contents of the file.
    pub fn replace(&mut self, records: &[u8]) -> io::Result<()> {
        make_folder(&self.path)?;
        let new = self.path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(records)?;
        file.sync_data()?;
        fs::rename(&new, &self.path)?;
        self.file = None;
        self.bytes = records.len();
        self.is_torn = false;
        Ok(())
    }

    /// Removes the file, if it exists.
    pub fn remove(&mut self) -> io::Result<()> {
        self.file = None;
        self.bytes = 0;
        self.is_torn = false;
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

fn make_folder(file: &Path) -> io::Result<()> {
    file.parent().map_or(Ok(()), fs::create_dir_all)
}

/// The maximum size in bytes. The owner must replace the contents by less.
const MAX_BYTES: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_record_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("below").join("records");
        let open = || RecordFile::new(path.clone());
        let mut file = open();
        assert_eq!((file.read().unwrap(), file.is_empty()), (vec![], true));
        file.append(b"one;").unwrap();
        file.append(b"two").unwrap();
        let mut after_crash = open();
        assert_eq!(after_crash.read().unwrap(), b"one;two");
        after_crash.keep_whole(4);
        after_crash.append(b"three;").unwrap();
        assert_eq!(open().read().unwrap(), b"one;three;");
        after_crash.replace(b"all;").unwrap();
        after_crash.append(b"four;").unwrap();
        assert_eq!(open().read().unwrap(), b"all;four;");
        after_crash.remove().unwrap();
        after_crash.remove().unwrap();
        assert!(after_crash.is_empty() && !path.exists());
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let full = RecordFile::new(PathBuf::from("/dev/full")).append(b"one;");
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
