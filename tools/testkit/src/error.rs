//! Errors of the test kit. Each message names the service and has the end of its log, to be readable in a failed test.

use std::{io, time::Duration};

/// Why a service could not be started, used or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestkitError {
    /// An operation on a file, socket or process failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation, with the path or address.
        what: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A required program is not installed.
    #[error("`{program}` is not installed: run `scripts/setup`")]
    Missing {
        /// Name of the program or file.
        program: String,
    },
    /// A program ended unexpectedly, or failed.
    #[error("{program} ended with {status}\n{log}")]
    Ended {
        /// Name of the program.
        program: String,
        /// The exit status as text.
        status: String,
        /// The end of its output.
        log: String,
    },
    /// A condition did not become true in time.
    #[error("waited {timeout:?} for {what}\n{log}")]
    Timeout {
        /// The condition.
        what: String,
        /// The time limit.
        timeout: Duration,
        /// The end of the service's output; may be empty.
        log: String,
    },
    /// A user that requires access to a directory does not have it, or no port is free.
    #[error("{0}")]
    Unreachable(String),
    /// A response violates the protocol.
    #[error("malformed response: {0}")]
    Malformed(String),
    /// WordPress refused a request, or a site is not in the required state.
    #[error("{0}")]
    Refused(String),
}

impl TestkitError {
    /// True if a deadline expired, in a wait or on a socket.
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::Timeout { .. } => true,
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

/// Adds the failed operation to an I/O error.
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
