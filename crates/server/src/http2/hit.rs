//! A hit over HTTP/2: answered by the connection's task, without the library.
//!
//! [`crate::stream_hit`] finds it. The body is copied behind the head, and the stream is closed before the library has seen it (see
//! [`galley_http::frame_interceptor`]). If the client's windows are too small for the whole body, or the body would delay others, the library
//! takes over the stream, and the slow path continues with the parsed request and its lookup result.

use std::time::Instant;

use galley_http::frame_interceptor::Opening;
use galley_http::hpack::{self, Block};
use http::StatusCode;

use crate::Core;
use crate::stream_hit::{HeadCoding, StreamHit};

/// The coding of heads over HTTP/2.
pub(super) struct Hpack;

impl HeadCoding for Hpack {
    fn begin(out: &mut Vec<u8>, status: StatusCode) -> Self {
        hpack::write_status(out, status);
        Self
    }

    fn field(&self, out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
        hpack::write_field(out, name, value);
    }

    fn lines(&self, out: &mut Vec<u8>, lines: &[u8]) {
        hpack::write_lines(out, lines);
    }

    fn end(self, _: &mut Vec<u8>) {}
}

/// A hit that is being sent; its record is written afterwards.
pub(super) struct SentHit {
    pub(super) block: Block,
    stream: u32,
    found: StreamHit,
    began: Instant,
}

impl SentHit {
    /// The hit as the response on the stream that `opening` has opened.
    pub(super) fn on(found: StreamHit, opening: &Opening, block: Block, began: Instant) -> Self {
        Self {
            block,
            stream: opening.stream,
            found,
            began,
        }
    }

    /// The stream, its header block in `encoded`, and its body.
    pub(super) fn parts<'s>(&'s self, encoded: &'s [u8]) -> (u32, &'s [u8], &'s [u8]) {
        let (head, body) = self.found.parts(encoded);
        (self.stream, head, body)
    }

    /// The urgency of the request.
    pub(super) fn urgency(&self) -> u8 {
        self.found.urgency
    }

    /// Writes the access record, and returns the buffers to the pool.
    pub(super) fn close(self, core: &Core, vanished: bool) {
        self.found.record(core, &self.block, self.began, vanished);
        core.spare.return_block(self.block);
    }
}

/// The maximum size of a body that is sent at once, because all later output waits for it. Larger bodies alternate with others.
pub(super) const MAX_BODY: usize = 64 * 1024;
