//! What can go wrong while a part is started, asked or ended. Made to be read in a failing test: each names the part and
//! carries the end of its log.

use std::{io, time::Duration};

/// Why a part could not be started, used or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestkitError {
    /// An operation on a file, socket or process failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation, with the path or address.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// A program that this machine should have is not there.
    #[error("`{program}` is not installed: run `scripts/setup`")]
    Missing {
        /// Name of the program or file.
        program: String,
    },
    /// A program ended although it should have stayed, or ended with a failure.
    #[error("{program} ended with {status}\n{log}")]
    Ended {
        /// Name of the part.
        program: String,
        /// Its exit status in words.
        status: String,
        /// The end of what it wrote.
        log: String,
    },
    /// Something did not happen in time.
    #[error("waited {timeout:?} for {what}\n{log}")]
    Late {
        /// The condition that did not come true.
        what: String,
        /// How long it was waited for.
        timeout: Duration,
        /// The end of what the part wrote; may be empty.
        log: String,
    },
    /// A directory cannot be entered by the user who needs it.
    #[error("{0}")]
    Unreachable(String),
    /// What came over the wire is not what the protocol allows.
    #[error("malformed answer: {0}")]
    Malformed(String),
    /// WordPress did not do what it was asked to do, or a site is not as a run needs it.
    #[error("{0}")]
    Refused(String),
}

impl TestkitError {
    /// True if a deadline passed, in a wait or on a socket.
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::Late { .. } => true,
            Self::Io { source, .. } => {
                matches!(
                    source.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                )
            }
            Self::Missing { .. }
            | Self::Ended { .. }
            | Self::Unreachable(_)
            | Self::Malformed(_)
            | Self::Refused(_) => false,
        }
    }
}

/// Adds what was being done to an I/O error.
pub(crate) trait Context<T> {
    /// Turns the error into [`TestkitError::Io`].
    fn context(self, what: impl std::fmt::Display) -> Result<T, TestkitError>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, what: impl std::fmt::Display) -> Result<T, TestkitError> {
        self.map_err(|source| TestkitError::Io {
            what: what.to_string(),
            source,
        })
    }
}

impl<T> Context<T> for Result<T, rustix::io::Errno> {
    fn context(self, what: impl std::fmt::Display) -> Result<T, TestkitError> {
        self.map_err(io::Error::from).context(what)
    }
}
