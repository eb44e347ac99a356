//! Requests that the fast path has parsed, until the library returns their streams.

use std::collections::VecDeque;

use bytes::Bytes;
use h2::server::SendResponse;
use http::request::Parts;

use super::exchange::StreamHead;
use crate::exchange::{Parsed, ParsedRequest};

/// The requests, in the order of their streams.
#[derive(Default)]
pub(super) struct ParsedStreams {
    waiting: VecDeque<ParsedStream>,
    /// The memory of their heads, in bytes.
    bytes: usize,
}

struct ParsedStream {
    stream: u32,
    request: ParsedRequest,
    urgency: u8,
}

impl ParsedStreams {
    /// Whether one more request may be added. A request waits for the next poll of the library; requests that the library
    /// refuses are removed with the next accepted one.
    pub(super) fn has_capacity(&self) -> bool {
        self.waiting.len() < MAX_STREAMS && self.bytes < MAX_BYTES
    }

    /// Adds a request for the stream that is opened next.
    pub(super) fn push(&mut self, stream: u32, request: ParsedRequest, urgency: u8) {
        self.bytes += request.head.capacity();
        self.waiting.push_back(ParsedStream {
            stream,
            request,
            urgency,
        });
    }

    /// The head of a request that the library returns: the one from the fast path if there is one, otherwise the library's.
    pub(super) fn take(
        &mut self,
        parts: Parts,
        respond: &SendResponse<Bytes>,
    ) -> (StreamHead, Option<Box<Parsed>>) {
        let stream = respond.stream_id().as_u32();
        // The library returns requests in the order of their streams; earlier ones were refused or reset.
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

/// The maximum number of requests: twice as many as the library permits at once (`limits`).
const MAX_STREAMS: usize = 256;

/// The maximum memory of their heads, in bytes: heads of browsers for all of them, or a few of the largest.
const MAX_BYTES: usize = 256 * 1024;
