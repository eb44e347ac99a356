//! The parts of a response, in the order in which they are received.

use bytes::Bytes;

use crate::record::EndStatus;

/// A part of the response. The parts are in the order in which they are received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FastCgiEvent {
    /// Some bytes of the CGI response, never empty, split anywhere. They share a read buffer of 64 KiB with other pieces: copy a
    /// small piece to keep it for long.
    Stdout(Bytes),
    /// Some bytes for the log, never empty, split anywhere.
    Stderr(Bytes),
    /// The end of the exchange. No event follows.
    End(EndStatus),
}
