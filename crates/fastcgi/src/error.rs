//! Why an exchange failed. One enum for the crate; the server maps it to a fault and decides on a retry, for which
//! [`Error::is_before_request`] and [`crate::FastCgiConnection::has_received`] give the facts.

use std::io;

use crate::record::BadRecord;

/// Why a request could not be sent or its response not be received. After any of these the connection is not reusable.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kept connection was closed, or unexpected bytes were on it, before the request was begun: nothing was sent, so any
    /// method may be tried on another connection.
    #[error("the idle FastCGI connection was closed before the request")]
    Stale,
    /// The upstream closed the connection before `END_REQUEST`: the response is incomplete.
    #[error("the FastCGI connection was closed before the response was complete")]
    Closed,
    /// The upstream broke the protocol.
    #[error("bad FastCGI record: {0}")]
    Record(#[from] BadRecord),
    /// Reading from the upstream failed.
    #[error("cannot read from the FastCGI connection")]
    Read(#[source] io::Error),
    /// Writing to the upstream failed and no complete response was there to be read.
    #[error("cannot write to the FastCGI connection")]
    Write(#[source] io::Error),
    /// The source of the request body failed.
    #[error("cannot read the request body")]
    Body(#[source] io::Error),
    /// The source gave more or fewer bytes than the request declared. `given` counts up to the first violation.
    #[error("the request body has {given} bytes instead of the declared {declared}")]
    BodyLength {
        /// What [`crate::FastCgiRequest::body_length`] said.
        declared: u64,
        /// What the source gave.
        given: u64,
    },
    /// The variables of the request exceed [`crate::params::MAX_BYTES`] when encoded.
    #[error("the FastCGI variables of the request are too large: {bytes} bytes")]
    Variables {
        /// Encoded length of all pairs.
        bytes: usize,
    },
    /// A call that does not fit the state: `send` in the middle of an exchange or on a connection that is not reusable,
    /// `event` without an exchange.
    #[error("the FastCGI connection is in the wrong state for this call")]
    OutOfTurn,
}

impl Error {
    /// Nothing of the request had left when this happened.
    pub fn is_before_request(&self) -> bool {
        match self {
            Error::Stale | Error::Variables { .. } => true,
            Error::Closed
            | Error::Record(_)
            | Error::Read(_)
            | Error::Write(_)
            | Error::Body(_)
            | Error::BodyLength { .. }
            | Error::OutOfTurn => false,
        }
    }
}
