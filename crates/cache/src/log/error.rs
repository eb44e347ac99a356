//! Why a log could not be opened.

use std::io;

/// Why a log could not be opened. Damage is not an error: it gives a new generation.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error("another process uses this directory")]
    Locked,
    /// The directory cannot be made, opened or locked.
    #[error("the directory cannot be used: {0}")]
    Directory(io::Error),
    /// No thread, or no random numbers.
    #[error("cannot start a thread or get random numbers: {0}")]
    System(io::Error),
}
