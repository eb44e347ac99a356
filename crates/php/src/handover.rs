//! Hands a running PHP-FPM over from one Galley process to the next, with its workers and its opcode cache.

use galley_sys::Lock;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The processes and pipes that another process needs in order to continue with a PHP-FPM.
#[derive(Debug)]
pub struct MasterHandles {
    /// The process id of the master.
    pub master: u32,
    /// A process descriptor of the master, which is valid even if the id is reused.
    pub process: OwnedFd,
    /// The watcher, which ends the master when no Galley process is left.
    pub watcher: OwnedFd,
    /// The pipe that the watcher waits on: its end means the end of Galley.
    pub pipe: OwnedFd,
    /// The pipe with the log output of the master.
    pub output: OwnedFd,
}

/// A running PHP-FPM that is offered to another process.
#[derive(Debug)]
pub struct ManagedOffer {
    /// The folder with its socket and its configuration.
    pub folder: PathBuf,
    /// The processes and pipes.
    pub handles: MasterHandles,
    /// Which Galley process owns the PHP-FPM.
    pub ownership: Ownership,
}

/// The handles of the current master; `None` if there is no master, or if it cannot be handed over.
#[derive(Debug, Default)]
pub(super) struct CurrentMaster(Lock<Option<MasterHandles>>);

impl CurrentMaster {
    pub(super) fn set(&self, handles: Option<MasterHandles>) {
        *self.0.lock() = handles;
    }

    /// Duplicates the handles.
    pub(super) fn copy(&self) -> Option<MasterHandles> {
        let handles = self.0.lock();
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

/// Duplicates a descriptor.
pub(super) fn copy(descriptor: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    descriptor.try_clone_to_owned()
}

/// Whether this process must end a PHP-FPM and remove its files. Clones share the state.
#[derive(Clone, Debug)]
pub struct Ownership(Arc<AtomicBool>);

impl Ownership {
    /// This process owns it.
    pub(super) fn ours() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    /// Another process still owns it.
    pub fn not_yet() -> Self {
        Self(Arc::new(AtomicBool::new(false)))
    }

    /// Takes ownership, after the other process has given it up.
    pub fn take(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Gives up ownership in favor of another process.
    pub(super) fn leave(&self) {
        self.0.store(false, Ordering::Release);
    }

    /// Whether this process owns it.
    pub fn is_ours(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// How this process ends its supervision of a PHP-FPM or another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ManagedEnd {
    /// Stops the program.
    Stop,
    /// Leaves the running program to another process.
    Leave,
}

/// The folder of a pool. Removed when this is dropped, unless another process owns it.
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
            // A folder that cannot be removed is harmless: it has a random name.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
