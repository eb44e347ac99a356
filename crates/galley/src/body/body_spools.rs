//! Buffers for bodies with a slow sender or receiver: memory first, then unlinked files.
//!
//! All requests and responses share two limits, one on memory and one on disk. Bytes are reserved before they are stored
//! and released when the last holder drops them. If nothing is left, a request is rejected, and a response is sent at its
//! client's pace. Files have no name, so none is left behind, however the process ends. The runtime's helper threads write
//! and read them, never the thread that asks.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use galley_cache::budget::{MemoryBudget, Reservation};
use tokio::runtime;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::telemetry::errors::Seldom;

/// What bodies may take together.
#[derive(Clone, Debug)]
pub struct SpoolLimits {
    /// Bytes in memory.
    pub memory: u64,
    /// Bytes in files.
    pub disk: u64,
    /// Bytes in the file of one answer.
    pub response: u64,
    /// The folder of the files; `None`: there are none.
    pub folder: Option<PathBuf>,
}

/// Shared by everything that takes bodies in or gives them out.
#[derive(Debug)]
pub struct BodySpools {
    memory: MemoryBudget,
    disk: MemoryBudget,
    limits: SpoolLimits,
    requests: AtomicU64,
    responses: AtomicU64,
    refused: AtomicU64,
    held_up: AtomicU64,
    /// One message a minute of each kind.
    refusals: Seldom,
    holds: Seldom,
    troubles: Seldom,
}

/// What is buffered now, and what happened since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spooled {
    /// Bytes reserved in memory.
    pub memory: u64,
    /// Bytes that may be.
    pub memory_limit: u64,
    /// Bytes in files.
    pub disk: u64,
    /// Bytes that may be.
    pub disk_limit: u64,
    /// Request bodies that went to a file.
    pub requests: u64,
    /// Answers of which a part went to a file.
    pub answers: u64,
    /// Request bodies that were refused for want of room.
    pub refused: u64,
    /// Answers that the upstream could not finish before its client had taken them.
    pub held_up: u64,
}

/// There is no room, or the disk fails; the log says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no room for a body")]
pub struct SpoolFull;

impl BodySpools {
    /// Nothing is held yet.
    pub fn new(limits: SpoolLimits) -> Self {
        let disk = if limits.folder.is_some() {
            limits.disk
        } else {
            0
        };
        Self {
            memory: MemoryBudget::new(limits.memory),
            disk: MemoryBudget::new(disk),
            limits,
            requests: AtomicU64::new(0),
            responses: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            held_up: AtomicU64::new(0),
            refusals: Seldom::new(MESSAGE_EVERY_S),
            holds: Seldom::new(MESSAGE_EVERY_S),
            troubles: Seldom::new(MESSAGE_EVERY_S),
        }
    }

    /// What pays for bodies in memory.
    pub fn memory(&self) -> &MemoryBudget {
        &self.memory
    }

    /// Where files are, if there may be any.
    pub fn folder(&self) -> Option<&Path> {
        self.limits.folder.as_deref()
    }

    /// Whether a body of so many bytes has room in a file at this moment.
    pub fn has_room(&self, bytes: u64) -> bool {
        bytes <= self.disk.limit().saturating_sub(self.disk.used())
    }

    /// The longest that the file of one answer may become.
    pub fn response_limit(&self) -> u64 {
        self.limits.response
    }

    /// A new file, empty.
    pub async fn file(self: &Arc<Self>) -> Result<SpoolFile, SpoolFull> {
        let paid = self.disk.try_reserve(0).ok_or(SpoolFull)?;
        let Some(folder) = self.limits.folder.clone() else {
            return Err(SpoolFull);
        };
        if !self.has_room(1) {
            return Err(SpoolFull);
        }
        let made = spawn_blocking(move || tempfile::tempfile_in(folder)).await;
        let file = made
            .map_err(io::Error::other)
            .and_then(|made| made)
            .map_err(|cause| self.trouble(&cause))?;
        Ok(SpoolFile {
            file: Some(Arc::new(file)),
            length: 0,
            paid,
            spools: Arc::clone(self),
        })
    }

    /// Notes that a request's body goes to a file.
    pub fn count_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that an answer goes to a file.
    pub fn count_response(&self) {
        self.responses.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a request is refused for want of room.
    pub fn refuse(&self) {
        let refused = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        if self.refusals.admit() {
            tracing::warn!(
                refused,
                "rejecting request bodies: the spool is full; see `server.spool_size`"
            );
        }
    }

    /// Notes that an answer holds its upstream until its client has taken it.
    pub fn hold_up(&self) {
        let held_up = self.held_up.fetch_add(1, Ordering::Relaxed) + 1;
        if self.holds.admit() {
            tracing::warn!(
                held_up,
                "slow clients occupy the upstream: the spool for its responses is full; see `server.spool_response` and `server.spool_size`"
            );
        }
    }

    /// Counts.
    pub fn counted(&self) -> Spooled {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Spooled {
            memory: self.memory.used(),
            memory_limit: self.memory.limit(),
            disk: self.disk.used(),
            disk_limit: self.disk.limit(),
            requests: count(&self.requests),
            answers: count(&self.responses),
            refused: count(&self.refused),
            held_up: count(&self.held_up),
        }
    }

    fn trouble(&self, cause: &io::Error) -> SpoolFull {
        if self.troubles.admit() {
            tracing::error!(%cause, "cannot write to the spool folder; see `server.spool`");
        }
        SpoolFull
    }
}

/// A file without a name, paid for as it grows.
#[derive(Debug)]
pub struct SpoolFile {
    /// Always there until it is dropped.
    file: Option<Arc<File>>,
    length: u64,
    paid: Reservation,
    spools: Arc<BodySpools>,
}

impl SpoolFile {
    /// Bytes in it.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Writes behind its end. On an error nothing has been added. Not cancel-safe: dropped midway, the file is of no use.
    pub async fn append(&mut self, bytes: Bytes) -> Result<(), SpoolFull> {
        let Some(file) = self.file.clone() else {
            return Err(SpoolFull);
        };
        let (at, count) = (self.length, bytes.len() as u64);
        self.paid.try_grow(count).map_err(|_| SpoolFull)?;
        // The bytes come back: what a helper thread drops, only the thread that made it can use again.
        let written = spawn_blocking(move || (file.write_all_at(&bytes, at), bytes)).await;
        match written
            .map_err(io::Error::other)
            .and_then(|(written, _bytes)| written)
        {
            Ok(()) => {
                self.length += count;
                Ok(())
            }
            Err(cause) => {
                self.paid.shrink_to(self.length);
                Err(self.spools.trouble(&cause))
            }
        }
    }

    /// What reads it.
    pub fn share(&self) -> SpoolShared {
        SpoolShared(self.file.clone())
    }
}

/// A [`SpoolFile`] to be read; it must not outlive that, which pays for the bytes.
pub struct SpoolShared(Option<Arc<File>>);

impl SpoolShared {
    /// Reads `length` bytes from `at`; fails if there are fewer.
    pub fn read(&self, at: u64, length: usize) -> JoinHandle<io::Result<Vec<u8>>> {
        let file = self.0.clone();
        // Created here, where it is dropped: each of dozens of helper threads would keep its own buffers.
        let mut piece = vec![0; length];
        spawn_blocking(move || {
            file.ok_or(io::ErrorKind::NotFound)?
                .read_exact_at(&mut piece, at)?;
            Ok(piece)
        })
    }
}

impl Drop for SpoolFile {
    /// To forget a large file takes the disk some time, which no client's thread has.
    fn drop(&mut self) {
        if let (Some(file), Ok(here)) = (self.file.take(), runtime::Handle::try_current()) {
            here.spawn_blocking(move || drop(file));
        }
    }
}

/// Between two messages about the same condition.
const MESSAGE_EVERY_S: u32 = 60;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Spools with these limits on memory, disk and the file of one answer, in the system's folder for such files.
    pub(crate) fn spools(memory: u64, disk: u64, answer: u64) -> Arc<BodySpools> {
        Arc::new(BodySpools::new(SpoolLimits {
            memory,
            disk,
            response: answer,
            folder: Some(std::env::temp_dir()),
        }))
    }

    #[tokio::test]
    async fn the_limit_of_all_files_holds_and_comes_back() {
        let spools = spools(0, 10, 10);
        let mut first = spools.file().await.unwrap();
        let mut second = spools.file().await.unwrap();
        assert_eq!(first.append(Bytes::from_static(b"123456")).await, Ok(()));
        assert_eq!(
            second.append(Bytes::from_static(b"12345")).await,
            Err(SpoolFull)
        );
        assert_eq!(second.append(Bytes::from_static(b"1234")).await, Ok(()));
        assert!(spools.file().await.is_err(), "full");
        assert_eq!(first.share().read(1, 3).await.unwrap().unwrap(), b"234");
        assert!(
            first.share().read(4, 3).await.unwrap().is_err(),
            "beyond its end"
        );
        drop(first);
        assert_eq!(spools.counted().disk, 4);
        assert_eq!(second.append(Bytes::from_static(b"567890")).await, Ok(()));
        assert_eq!(
            second.share().read(0, 10).await.unwrap().unwrap(),
            b"1234567890"
        );
    }

    #[tokio::test]
    async fn a_folder_that_is_gone_is_no_room() {
        let gone = tempfile::tempdir().unwrap().path().to_path_buf();
        for folder in [Some(gone), None] {
            let spools = Arc::new(BodySpools::new(SpoolLimits {
                memory: 10,
                disk: 10,
                response: 10,
                folder,
            }));
            assert!(matches!(spools.file().await, Err(SpoolFull)));
            assert_eq!(spools.counted().disk, 0);
        }
    }
}
