//! The parts of a response, in the order of their arrival.

use bytes::Bytes;

use crate::record::EndStatus;

/// The parts of the response, in the order of their arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FastCgiEvent {
    /// Some bytes of the CGI response, never empty, cut anywhere. The bytes share a read buffer of 64 KiB with their
    /// neighbours: copy a small piece to keep it for long.
    Stdout(Bytes),
    /// Some bytes for the log, never empty, cut anywhere.
    Stderr(Bytes),
    /// The exchange is over. Nothing follows.
    End(EndStatus),
}
