//! The file operations of the log, and its directory.
//!
//! They are a trait, so that tests can simulate a power failure between any two of them. Names are single components in one
//! directory, which is kept open: if that directory is renamed, or another one is mounted over it, the log still uses the
//! same one.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::Path;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};

use super::error::OpenError;

/// A directory.
pub(super) trait LogDirectory: Send {
    /// Reads a whole file of at most `limit` bytes.
    fn read(&self, name: &str, limit: usize) -> io::Result<Vec<u8>>;
    /// Creates an empty file. Replaces an existing file of that name.
    fn create(&self, name: &str) -> io::Result<Box<dyn LogFile>>;
    /// Renames a file over another one. Not durable before [`LogDirectory::sync`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a name. A missing file is no error. Not durable before [`LogDirectory::sync`].
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Truncates an existing file, durably.
    fn empty(&self, name: &str) -> io::Result<()>;
    /// Makes changes of names durable.
    fn sync(&self) -> io::Result<()>;
}

/// A file open for writing.
pub(super) trait LogFile: Send {
    /// Writes all of `bytes`. After an error some of them may have been written.
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes the written bytes durable, including the length.
    fn sync(&mut self) -> io::Result<()>;
}

/// A real directory, locked against other processes. The lock ends with this value, or with the process.
#[derive(Debug)]
pub(super) struct Directory(File);

impl Directory {
    /// Creates `path` if it does not exist, accessible only for its owner, and locks it without waiting. The lock is on the
    /// directory itself, because a lock file would need space on a disk that may be full.
    pub(super) fn lock(path: &Path) -> Result<Self, OpenError> {
        let mut builder = std::fs::DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(OpenError::Directory)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::empty());
        let directory = opened.map_err(|errno| OpenError::Directory(errno.into()))?;
        match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self(directory.into())),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(OpenError::Locked),
            Err(errno) => Err(OpenError::Directory(errno.into())),
        }
    }

    fn open(&self, name: &str, flags: OFlags) -> io::Result<File> {
        // No symbolic links: the log must not be written elsewhere.
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd: OwnedFd = rustix::fs::openat(&self.0, name, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(fd.into())
    }
}

impl LogDirectory for Directory {
    fn read(&self, name: &str, limit: usize) -> io::Result<Vec<u8>> {
        let file = self.open(name, OFlags::RDONLY)?;
        let mut bytes = Vec::new();
        let most = u64::try_from(limit).unwrap_or(u64::MAX);
        file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() > limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn LogFile>> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        Ok(Box::new(self.open(name, flags)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, from, &self.0, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.0, name, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn empty(&self, name: &str) -> io::Result<()> {
        self.open(name, OFlags::WRONLY | OFlags::TRUNC)?.sync_all()
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

impl LogFile for File {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}
