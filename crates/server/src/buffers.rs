//! Buffers that the hits of one core share.

use galley_policy::request_info::RequestInfo;

use super::batch::ReadyHit;
use galley_request::Keys;

/// Buffers that the hits of a core use one after the other.
#[derive(Default)]
pub(super) struct FastPathBuffers {
    pub(super) info: RequestInfo,
    pub(super) keys: Keys,
    pub(super) id: String,
    /// Taken while a batch is being sent.
    pub(super) batch: Vec<ReadyHit<'static>>,
}
