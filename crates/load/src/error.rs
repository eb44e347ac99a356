//! Why a load test cannot run. Failures of single requests are counted in the outcome instead.

use std::{io, net::SocketAddr};

/// A run that could not be made or finished.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
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
    /// Pages that cannot be requested.
    #[error("pages: {0}")]
    Pages(String),
    /// A rate that no client can keep.
    #[error("a rate of {0} requests per second is not between 0 and 1,000,000")]
    Rate(f64),
    /// So many requests got no response that the rest was not sent.
    #[error("the run was given up after {count} requests without a response, first: {first}")]
    TooManyBroken {
        /// Requests without a response.
        count: u64,
        /// What the first of them met.
        first: String,
    },
    /// A run that ends with the number of requests took too long.
    #[error("{missing} requests had no response when the time for the run was over")]
    Unfinished {
        /// Requests not sent, or without a response.
        missing: u64,
    },
    /// The caller's flag asked the run to end.
    #[error("stopped")]
    Stopped,
    /// The runtime cannot be built.
    #[error("runtime: {0}")]
    Runtime(#[from] io::Error),
}
