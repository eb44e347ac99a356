//! Buffers that the hits of one core share.

use galley_policy::request_info::RequestInfo;

use super::batch::ReadyHit;
use crate::request::Keys;

/// Room that a core's hits use in turn.
#[derive(Default)]
pub(super) struct FastPathBuffers {
    pub(super) info: RequestInfo,
    pub(super) keys: Keys,
    pub(super) id: String,
    /// Taken while a batch is being sent.
    pub(super) batch: Vec<ReadyHit<'static>>,
}
