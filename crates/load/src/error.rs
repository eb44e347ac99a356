//! Why a load test cannot run. Failures of single requests are counted in the outcome instead.

use std::{io, net::SocketAddr};

/// An error that prevents a run, or ends it.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The target accepted no connection, or the handshake failed.
    #[error("cannot connect to {addr}: {source}")]
    Connect {
        /// The address of the target.
        addr: SocketAddr,
        /// The error of the operating system or of TLS.
        source: io::Error,
    },
    /// The certificate or the name of the target cannot be used.
    #[error("TLS: {0}")]
    Tls(String),
    /// A template has an unknown or incomplete placeholder.
    #[error("template: {0}")]
    Template(String),
    /// The pages cannot be requested.
    #[error("pages: {0}")]
    Pages(String),
    /// The rate is invalid, or too high for a client.
    #[error("a rate of {0} requests per second is not between 0 and 1,000,000")]
    Rate(f64),
    /// The run was aborted because too many requests got no response.
    #[error("the run was given up after {count} requests without a response, first: {first}")]
    TooManyBroken {
        /// The number of requests without a response.
        count: u64,
        /// The error of the first of these requests.
        first: String,
    },
    /// A run that is limited by the number of requests took too long.
    #[error("{missing} requests had no response when the time for the run was over")]
    Unfinished {
        /// The number of requests that were not sent, or have no response.
        missing: u64,
    },
    /// The caller's flag ended the run.
    #[error("stopped")]
    Stopped,
    /// The runtime cannot be created.
    #[error("runtime: {0}")]
    Runtime(#[from] io::Error),
}
