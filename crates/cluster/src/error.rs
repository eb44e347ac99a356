//! Why an engine cannot be used, and the password that it requires.

use std::path::{Path, PathBuf};

use redis::RedisError;

/// Why the engine cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// An error of the engine, the connection, or the reply.
    #[error("{0}")]
    Engine(#[from] RedisError),
    /// The password file cannot be read.
    #[error("cannot read the password file `{}`: {cause}", path.display())]
    Password {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        cause: std::io::Error,
    },
    /// The key file cannot be used.
    #[error("cannot use the key file `{}`: {why}", path.display())]
    Key {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// Data that was written is missing.
    #[error("it has lost data")]
    Lost,
    /// The next entries are larger than the limit.
    #[error("its next entries are larger than a node reads at a time")]
    TooLong,
    /// The engine is a replica.
    #[error("it is a replica: name the primary")]
    Replica,
    /// The sentinels do not confirm a primary.
    #[error("{0}")]
    Sentinels(String),
    /// The reply violates the protocol.
    #[error("its reply is invalid: {0}")]
    Reply(&'static str),
}

impl EngineError {
    /// Whether the engine has rejected a command because it has reached its `maxmemory`.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            // Redis 6.2 puts the position in the script before the code.
            Self::Engine(error) => {
                error.code() == Some("OOM") || error.to_string().contains("OOM command not allowed")
            }
            Self::Password { .. }
            | Self::Key { .. }
            | Self::Lost
            | Self::TooLong
            | Self::Replica
            | Self::Sentinels(_)
            | Self::Reply(_) => false,
        }
    }
}

/// The engine does not reply at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the engine of the cluster does not reply")]
pub struct EngineUnavailable;

/// The password in a file. Read for each connection, so that a new password needs no restart.
pub(crate) fn password(file: Option<&Path>) -> Result<Option<String>, EngineError> {
    let Some(path) = file else { return Ok(None) };
    let text = std::fs::read_to_string(path).map_err(|cause| EngineError::Password {
        path: path.to_owned(),
        cause,
    })?;
    Ok(Some(text.trim().to_owned()))
}
