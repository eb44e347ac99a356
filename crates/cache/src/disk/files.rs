//! Every system call that changes the disk, in one place.
//!
//! This module makes no decisions. Tests can inject a fault, which the next calls of one kind return as if the kernel had
//! reported it. Without that, a test that may run as any user could not simulate a full or failing disk.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::Path;

/// The kinds of changes, for faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiskOperation {
    Create,
    Write,
    Rename,
    Remove,
}

#[derive(Debug, Default)]
pub(super) struct DiskFiles {
    /// Set by tests: the kind of call that fails, and the error number.
    #[cfg(test)]
    pub(super) fault: std::sync::Mutex<Option<(DiskOperation, i32)>>,
}

impl DiskFiles {
    /// Creates a file that only this user may read, because pages may be confidential drafts.
    pub(super) fn create(&self, path: &Path) -> io::Result<File> {
        self.fault(DiskOperation::Create)?;
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
    }

    pub(super) fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        if let Err(error) = self.fault(DiskOperation::Write) {
            // Like a disk that fills up midway.
            file.write_all_at(bytes.get(..bytes.len() / 2).unwrap_or_default(), offset)?;
            return Err(error);
        }
        file.write_all_at(bytes, offset)
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.fault(DiskOperation::Rename)?;
        std::fs::rename(from, to)
    }

    /// Removes a file. A missing file is no error.
    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        self.fault(DiskOperation::Remove)?;
        match std::fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    /// Creates a directory and its parents. An existing directory is no error.
    pub(super) fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.fault(DiskOperation::Create)?;
        DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    #[cfg(test)]
    fn fault(&self, change: DiskOperation) -> io::Result<()> {
        match *self.fault.lock().unwrap() {
            Some((wanted, number)) if wanted == change => Err(io::Error::from_raw_os_error(number)),
            _ => Ok(()),
        }
    }

    #[cfg(not(test))]
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "faults exist in tests only"
    )]
    fn fault(&self, _: DiskOperation) -> io::Result<()> {
        Ok(())
    }
}
