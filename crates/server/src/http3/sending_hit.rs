//! A hit whose response is being sent by the endpoint.

use std::time::Instant;

use galley_http::hpack::Block;

use crate::Core;
use crate::stream_hit::StreamHit;

/// A hit that is being sent.
pub(super) struct SendingHit {
    pub(super) hit: StreamHit,
    /// The head of the request, until the access record is written.
    pub(super) block: Option<Block>,
    pub(super) began: Instant,
}

impl SendingHit {
    /// The memory of the head of the request, in bytes.
    pub(super) fn head_bytes(&self) -> usize {
        self.block.as_ref().map_or(0, Block::capacity)
    }

    /// Writes the access record, once.
    pub(super) fn record(&mut self, core: &Core, vanished: bool) {
        if let Some(block) = self.block.take() {
            self.hit.record(core, &block, self.began, vanished);
            core.spare.return_block(block);
        }
    }
}
