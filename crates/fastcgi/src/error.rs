//! Why an exchange failed. The crate has one enum; the server maps it to a fault and decides on a retry, based on
//! [`crate::FastCgiConnection::has_received`].

use std::io;

use crate::record::BadRecord;

/// Why a request could not be sent or its response not be received. The connection is not reusable after any of these errors.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kept connection was closed, or had unexpected bytes, before the request was started: nothing was sent, so the request
    /// may be sent on another connection, whatever its method.
    #[error("the idle FastCGI connection was closed before the request")]
    Stale,
    /// The upstream closed the connection before `END_REQUEST`: the response is incomplete.
    #[error("the FastCGI connection was closed before the response was complete")]
    Closed,
    /// The upstream violated the protocol.
    #[error("bad FastCGI record: {0}")]
    Record(#[from] BadRecord),
    /// Reading from the upstream failed.
    #[error("cannot read from the FastCGI connection")]
    Read(#[source] io::Error),
    /// Writing to the upstream failed, and it had not sent a complete response.
    #[error("cannot write to the FastCGI connection")]
    Write(#[source] io::Error),
    /// The source of the request body failed.
    #[error("cannot read the request body")]
    Body(#[source] io::Error),
    /// The source returned more or fewer bytes than the request declared. `given` counts up to the first violation.
    #[error("the request body has {given} bytes instead of the declared {declared}")]
    BodyLength {
        /// The length in [`crate::FastCgiRequest::body_length`].
        declared: u64,
        /// The number of bytes that the source returned.
        given: u64,
    },
    /// The variables of the request exceed [`crate::params::MAX_BYTES`] when encoded.
    #[error("the FastCGI variables of the request are too large: {bytes} bytes")]
    Variables {
        /// The encoded length of all pairs.
        bytes: usize,
    },
    /// A call in the wrong state: `send` during an exchange or on a connection that is not reusable, `event` without an
    /// exchange.
    #[error("the FastCGI connection is in the wrong state for this call")]
    OutOfTurn,
}
