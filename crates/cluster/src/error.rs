//! Why an engine cannot be used, and the password that it requires.

use std::path::{Path, PathBuf};

use redis::RedisError;

/// Why the engine cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The engine, the connection, or the reply.
    #[error("{0}")]
    Engine(#[from] RedisError),
    /// The password file.
    #[error("cannot read the password file `{}`: {cause}", path.display())]
    Password {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// The key file.
    #[error("cannot use the key file `{}`: {why}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Data that was written is missing.
    #[error("it has lost data")]
    Lost,
    /// It is a replica.
    #[error("it is a replica: name the primary")]
    Replica,
    /// What the sentinels say.
    #[error("{0}")]
    Sentinels(String),
    /// It sent something else than the protocol has.
    #[error("its reply is invalid: {0}")]
    Reply(&'static str),
}

/// The engine does not reply now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the engine of the cluster does not reply")]
pub struct EngineAway;

/// The password of a file. Read for each connection, so that a new one needs no restart.
pub(crate) fn password(file: Option<&Path>) -> Result<Option<String>, EngineError> {
    let Some(path) = file else { return Ok(None) };
    let text = std::fs::read_to_string(path).map_err(|cause| EngineError::Password {
        path: path.to_owned(),
        cause,
    })?;
    Ok(Some(text.trim().to_owned()))
}
