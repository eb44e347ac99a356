//! What a responder sends, in the order in which it comes.

use bytes::Bytes;

use crate::record::EndStatus;

/// What came from the responder, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FastCgiEvent {
    /// Some bytes of the CGI response, never empty, cut anywhere. The bytes share a read buffer of 64 KiB with their
    /// neighbours: who keeps a small piece for long should copy it.
    Stdout(Bytes),
    /// Some bytes for the log, never empty, cut anywhere.
    Stderr(Bytes),
    /// The exchange is over. Nothing follows.
    End(EndStatus),
}
