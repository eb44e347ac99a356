//! Every system call that changes the disk, in one place.
//!
//! Nothing is decided here. Tests can inject a fault, which the next calls of one kind return as if the kernel had reported
//! it. A test that runs as any user has no other way to get a full or failing disk.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::Path;

/// The kinds of change, for faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiskOperation {
    Create,
    Write,
    Rename,
    Remove,
}

#[derive(Debug, Default)]
pub(super) struct DiskFiles {
    /// Set by tests: which calls fail, and with which number.
    #[cfg(test)]
    pub(super) fault: std::sync::Mutex<Option<(DiskOperation, i32)>>,
}

impl DiskFiles {
    /// A new file that only this user may read: pages may be confidential drafts.
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
            // As a disk does that fills up midway.
            file.write_all_at(bytes.get(..bytes.len() / 2).unwrap_or_default(), offset)?;
            return Err(error);
        }
        file.write_all_at(bytes, offset)
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.fault(DiskOperation::Rename)?;
        std::fs::rename(from, to)
    }

    /// A missing file counts as removed.
    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        self.fault(DiskOperation::Remove)?;
        match std::fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    /// With those above it; there already is fine.
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
