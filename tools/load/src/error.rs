//! Why a load test cannot run. What goes wrong with single requests is counted in the outcome instead.

use std::{io, net::SocketAddr};

/// A run that could not be made or finished.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The target took no connection, or the handshake failed.
    #[error("cannot connect to {addr}: {source}")]
    Connect {
        /// Of the target.
        addr: SocketAddr,
        /// What the operating system or TLS says.
        source: io::Error,
    },
    /// The certificate or the name of the target cannot be used.
    #[error("TLS: {0}")]
    Tls(String),
    /// A template with an unknown or unfinished placeholder.
    #[error("template: {0}")]
    Template(String),
    /// The caller's flag asked the run to end.
    #[error("stopped")]
    Stopped,
    /// The runtime cannot be built.
    #[error("runtime: {0}")]
    Runtime(#[from] io::Error),
}
