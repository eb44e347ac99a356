//! Requests that the fast path has parsed, until the library hands out their streams.

use std::collections::VecDeque;

use bytes::Bytes;
use h2::server::SendResponse;
use http::request::Parts;

use super::exchange::StreamHead;
use crate::server::exchange::{Parsed, ParsedRequest};

/// In the order of their streams.
#[derive(Default)]
pub(super) struct ParsedStreams {
    waiting: VecDeque<ParsedStream>,
    /// Bytes of their heads.
    bytes: usize,
}

struct ParsedStream {
    stream: u32,
    request: ParsedRequest,
    urgency: u8,
}

impl ParsedStreams {
    /// Whether another one may wait. They wait for the library's next turn; those that it refuses wait for the request after them.
    pub(super) fn has_capacity(&self) -> bool {
        self.waiting.len() < MOST_STREAMS && self.bytes < MOST_BYTES
    }

    /// Keeps a request for the stream that is opened next.
    pub(super) fn push(&mut self, stream: u32, request: ParsedRequest, urgency: u8) {
        self.bytes += request.head.capacity();
        self.waiting.push_back(ParsedStream {
            stream,
            request,
            urgency,
        });
    }

    /// The head of a request that the library gives out: its own, or the one that the fast path has read.
    pub(super) fn take(
        &mut self,
        parts: Parts,
        respond: &SendResponse<Bytes>,
    ) -> (StreamHead, Option<Box<Parsed>>) {
        let stream = respond.stream_id().as_u32();
        // The library gives requests out in the order of their streams; those before were refused or reset.
        let mut next = None;
        while let Some(first) = self.waiting.front()
            && first.stream <= stream
            && let Some(first) = self.waiting.pop_front()
        {
            self.bytes -= first.request.head.capacity();
            next = Some(first);
        }
        let Some(parsed) = next.filter(|next| next.stream == stream) else {
            return (StreamHead::Read(parts), None);
        };
        let head = StreamHead::Parsed {
            head: parsed.request.head,
            urgency: parsed.urgency,
        };
        (head, Some(parsed.request.parsed))
    }
}

/// Twice as many as the library allows at once (`limits`).
const MOST_STREAMS: usize = 256;

/// Heads of browsers for all of them, or a few of the largest.
const MOST_BYTES: usize = 256 * 1024;
