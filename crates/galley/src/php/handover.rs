//! A PHP-FPM that is handed from one Galley process to the next, with its workers and its opcode cache.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What another process needs to go on with a PHP-FPM.
#[derive(Debug)]
pub struct MasterHandles {
    /// Process id of the master.
    pub master: u32,
    /// The same as a descriptor, which stays its own.
    pub process: OwnedFd,
    /// The process that ends it when no Galley is left.
    pub watcher: OwnedFd,
    /// What that process waits for the end of.
    pub pipe: OwnedFd,
    /// What the master says.
    pub output: OwnedFd,
}

/// A PHP-FPM that runs, for another process.
#[derive(Debug)]
pub struct ManagedOffer {
    /// What holds its socket and its configuration, and nothing else.
    pub folder: PathBuf,
    /// The processes.
    pub handles: MasterHandles,
    /// Whose it is.
    pub ownership: Ownership,
}

/// The handles of the current master; `None` if there is none, or none that could be handed over.
#[derive(Debug, Default)]
pub(super) struct CurrentMaster(Mutex<Option<MasterHandles>>);

impl CurrentMaster {
    pub(super) fn set(&self, handles: Option<MasterHandles>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = handles;
    }

    /// Copies of the descriptors.
    pub(super) fn copy(&self) -> Option<MasterHandles> {
        let handles = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let MasterHandles {
            master,
            process,
            watcher,
            pipe,
            output,
        } = handles.as_ref()?;
        Some(MasterHandles {
            master: *master,
            process: process.try_clone().ok()?,
            watcher: watcher.try_clone().ok()?,
            pipe: pipe.try_clone().ok()?,
            output: output.try_clone().ok()?,
        })
    }
}

/// Copies a descriptor.
pub(super) fn copy(descriptor: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    descriptor.try_clone_to_owned()
}

/// Whether this process is to end a PHP-FPM and remove its files. Clones are the same.
#[derive(Clone, Debug)]
pub struct Ownership(Arc<AtomicBool>);

impl Ownership {
    /// It is.
    pub(super) fn ours() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    /// It is another process's still.
    pub fn not_yet() -> Self {
        Self(Arc::new(AtomicBool::new(false)))
    }

    /// The other process leaves it to this one.
    pub fn take(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// This process leaves it to another one.
    pub(super) fn leave(&self) {
        self.0.store(false, Ordering::Release);
    }

    /// Whether it is.
    pub fn is_ours(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// How a PHP-FPM, or another program, stops being this process's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ManagedEnd {
    /// It ends.
    Stop,
    /// Another process takes it over.
    Leave,
}

/// The folder of a pool; removed with this, unless it is another process's.
#[derive(Debug)]
pub(super) struct PoolFolder {
    path: PathBuf,
    pub(super) ownership: Ownership,
}

impl PoolFolder {
    pub(super) fn new(path: PathBuf, ownership: Ownership) -> Self {
        Self { path, ownership }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PoolFolder {
    fn drop(&mut self) {
        if self.ownership.is_ours() {
            // A folder that cannot be removed is as harmless as an empty one: it has a random name.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
