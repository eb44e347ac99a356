//! The part of its life in which a connection is, and its clocks, which [`super::deadlines`] checks.

use crate::timer::Deadline;

/// The part of its life in which a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Http3Stage {
    Handshake,
    Open,
    /// `GOAWAY` was sent. `Some`: requests on this stream and above are rejected.
    Closing(Option<u64>),
    /// No stream is served any more.
    Ended,
}

/// The clocks of one connection.
#[derive(Default)]
pub(super) struct Http3Clocks {
    /// The number of complete heads.
    pub(super) requests: u64,
    /// When the handshake must be complete, when a connection without a request ends, or when one that is closing ends.
    pub(super) until: Option<Deadline>,
    /// What `until` belongs to.
    pub(super) of: Option<(Http3Stage, u64)>,
    /// A period in which the client has to receive output.
    pub(super) receiving: Option<Http3ReceivePeriod>,
    /// When a client that waits for a response is asked whether it still exists.
    pub(super) ping_at: Option<Deadline>,
    /// When requests are rejected after `GOAWAY`.
    pub(super) reject_at: Option<Deadline>,
}

pub(super) struct Http3ReceivePeriod {
    pub(super) until: Deadline,
    /// The bytes that QUIC had accepted when the period began, and the acknowledgments that it had received.
    pub(super) accepted: u64,
    pub(super) acknowledged: u64,
    /// The number of earlier periods in which only acknowledgments came.
    pub(super) without_room: u32,
}
