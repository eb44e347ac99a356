//! Buffers for bodies with a slow sender or receiver: memory first, then unlinked files.
//!
//! All requests and responses share two limits, one on memory and one on disk. Bytes are reserved before they are stored
//! and released when the last reference is dropped. If nothing is left, a request is rejected, and a response is sent at its
//! client's pace. Files have no name, so none remains, however the process ends. The runtime's helper threads write and read
//! them, never the calling thread.

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

use galley_telemetry::errors::LogInterval;

/// The limits of all bodies together.
#[derive(Clone, Debug)]
pub struct SpoolLimits {
    /// The maximum number of bytes in memory.
    pub memory: u64,
    /// The maximum number of bytes in files.
    pub disk: u64,
    /// The maximum size of the file of one response, in bytes.
    pub response: u64,
    /// The folder of the files; `None`: no files are written.
    pub folder: Option<PathBuf>,
}

/// The memory and files of all bodies that are buffered.
#[derive(Debug)]
pub struct BodySpools {
    memory: MemoryBudget,
    disk: MemoryBudget,
    limits: SpoolLimits,
    requests: AtomicU64,
    responses: AtomicU64,
    refused: AtomicU64,
    held_up: AtomicU64,
    /// Limits for log messages: one message per minute of each kind.
    rejected_messages: LogInterval,
    held_up_messages: LogInterval,
    disk_errors: LogInterval,
}

/// Current usage, and counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spooled {
    /// Bytes reserved in memory.
    pub memory: u64,
    /// The limit of reserved bytes in memory.
    pub memory_limit: u64,
    /// Bytes in files.
    pub disk: u64,
    /// The limit of bytes in files.
    pub disk_limit: u64,
    /// Request bodies that were written to a file.
    pub requests: u64,
    /// Responses of which a part was written to a file.
    pub responses: u64,
    /// Request bodies that were rejected because the spool was full.
    pub refused: u64,
    /// Responses for which the upstream had to wait for the client.
    pub held_up: u64,
}

/// The memory or disk limit is reached, or the disk fails; the log contains the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no room for a body")]
pub struct SpoolFull;

impl BodySpools {
    /// Spools without any bodies.
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
            rejected_messages: LogInterval::new(MESSAGE_INTERVAL_S),
            held_up_messages: LogInterval::new(MESSAGE_INTERVAL_S),
            disk_errors: LogInterval::new(MESSAGE_INTERVAL_S),
        }
    }

    /// The memory budget for bodies.
    pub fn memory(&self) -> &MemoryBudget {
        &self.memory
    }

    /// The folder of the files, if files may be written.
    pub fn folder(&self) -> Option<&Path> {
        self.limits.folder.as_deref()
    }

    /// Whether a file of `bytes` bytes would currently fit within the disk limit.
    pub fn has_room(&self, bytes: u64) -> bool {
        bytes <= self.disk.limit().saturating_sub(self.disk.used())
    }

    /// The maximum size of the file of one response, in bytes.
    pub fn response_limit(&self) -> u64 {
        self.limits.response
    }

    /// A new, empty file.
    pub async fn file(self: &Arc<Self>) -> Result<SpoolFile, SpoolFull> {
        let reservation = self.disk.try_reserve(0).ok_or(SpoolFull)?;
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
            .map_err(|cause| self.disk_error(&cause))?;
        Ok(SpoolFile {
            file: Some(Arc::new(file)),
            length: 0,
            reservation,
            spools: Arc::clone(self),
        })
    }

    /// Counts a request body that is written to a file.
    pub fn count_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a response that is written to a file.
    pub fn count_response(&self) {
        self.responses.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a rejected request body, and logs a warning.
    pub fn refuse(&self) {
        let refused = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        if self.rejected_messages.admit() {
            tracing::warn!(
                refused,
                "rejecting request bodies: the spool is full; see `server.spool_size`"
            );
        }
    }

    /// Counts a response for which the upstream has to wait for the client, and logs a warning.
    pub fn hold_up(&self) {
        let held_up = self.held_up.fetch_add(1, Ordering::Relaxed) + 1;
        if self.held_up_messages.admit() {
            tracing::warn!(
                held_up,
                "slow clients occupy the upstream: the spool for its responses is full; see `server.spool_response` and `server.spool_size`"
            );
        }
    }

    /// The current usage and counts.
    pub fn counted(&self) -> Spooled {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Spooled {
            memory: self.memory.used(),
            memory_limit: self.memory.limit(),
            disk: self.disk.used(),
            disk_limit: self.disk.limit(),
            requests: count(&self.requests),
            responses: count(&self.responses),
            refused: count(&self.refused),
            held_up: count(&self.held_up),
        }
    }

    fn disk_error(&self, cause: &io::Error) -> SpoolFull {
        if self.disk_errors.admit() {
            tracing::error!(%cause, "cannot write to the spool folder; see `server.spool`");
        }
        SpoolFull
    }
}

/// A file without a name, with a reservation that grows with it.
#[derive(Debug)]
pub struct SpoolFile {
    /// Always `Some` until it is dropped.
    file: Option<Arc<File>>,
    length: u64,
    reservation: Reservation,
    spools: Arc<BodySpools>,
}

impl SpoolFile {
    /// The length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Writes at the end. After an error the file is unchanged. Not cancel-safe: if dropped midway, the file is unusable.
    pub async fn append(&mut self, bytes: Bytes) -> Result<(), SpoolFull> {
        let Some(file) = self.file.clone() else {
            return Err(SpoolFull);
        };
        let (at, count) = (self.length, bytes.len() as u64);
        self.reservation.try_grow(count).map_err(|_| SpoolFull)?;
        // The bytes are returned: memory that a helper thread frees can be reused only by the thread that allocated it.
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
                self.reservation.shrink_to(self.length);
                Err(self.spools.disk_error(&cause))
            }
        }
    }

    /// A handle for reading the file.
    pub fn share(&self) -> SpoolShared {
        SpoolShared(self.file.clone())
    }
}

/// A handle for reading a [`SpoolFile`]. It must not outlive the file, which has the reservation.
pub struct SpoolShared(Option<Arc<File>>);

impl SpoolShared {
    /// Reads `length` bytes from `at`. Fails if the file has fewer.
    pub fn read(&self, at: u64, length: usize) -> JoinHandle<io::Result<Vec<u8>>> {
        let file = self.0.clone();
        // Allocated here, where it is freed: otherwise each of dozens of helper threads would keep buffers.
        let mut piece = vec![0; length];
        spawn_blocking(move || {
            file.ok_or(io::ErrorKind::NotFound)?
                .read_exact_at(&mut piece, at)?;
            Ok(piece)
        })
    }
}

impl Drop for SpoolFile {
    /// Drops the file on a helper thread: deleting a large file takes the disk some time.
    fn drop(&mut self) {
        if let (Some(file), Ok(here)) = (self.file.take(), runtime::Handle::try_current()) {
            here.spawn_blocking(move || drop(file));
        }
    }
}

/// The time between two messages about the same condition, in seconds.
const MESSAGE_INTERVAL_S: u32 = 60;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::spools;

    #[tokio::test]
    async fn the_limit_of_all_files_is_kept_and_released() {
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
    async fn a_missing_folder_permits_no_files() {
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
