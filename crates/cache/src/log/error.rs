//! Why a log could not be opened.

use std::io;

/// Why a log could not be opened. Damage is not an error: it results in a new generation.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses the directory.
    #[error("another process uses this directory")]
    Locked,
    /// The directory cannot be created, opened or locked.
    #[error("the directory cannot be used: {0}")]
    Directory(io::Error),
    /// A thread cannot be started, or random numbers are not available.
    #[error("cannot start a thread or get random numbers: {0}")]
    System(io::Error),
}
