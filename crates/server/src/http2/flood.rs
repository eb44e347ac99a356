//! Counts the frames of a connection that cause work without purpose, and detects floods.
//!
//! The detector reads the heads of frames (RFC 9113 section 4.1) from the bytes in both directions, independently of the library.
//! There are two allowances. One is spent by resets of either side: streams that are opened to be reset (CVE-2023-44487)
//! and those that a client makes the *server* reset by breaking a rule on them (CVE-2025-8671). The other is spent by
//! frames without use: pings, settings, window updates, priorities, little data, frames of unknown types, and heads and data on
//! streams that take none. Useful work refills the second: a new request, data of an open request or of a response. Both refill
//! with time. A connection that overdraws one is closed.

use galley_http::frame_interceptor::FRAME_HEAD;
use galley_http::token_bucket::{Rate, TokenBucket};
use smallvec::SmallVec;

use galley_telemetry::http2::Http2ConnectionCounts;

/// The detector of one connection; see the module.
#[derive(Debug)]
pub(super) struct FloodDetector {
    received: FrameScanner,
    sent: FrameScanner,
    requests: OpenRequests,
    resets: TokenBucket,
    idle: TokenBucket,
    flood: Option<FrameKind>,
    pub(super) counts: Http2ConnectionCounts,
}

/// The kind of frames of which there were too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    Resets,
    IdleFrames,
}

impl FrameKind {
    /// The text for the log.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Resets => "too many streams were reset",
            Self::IdleFrames => "too many frames without effect",
        }
    }
}

impl FloodDetector {
    /// A detector for a connection that begins at `now_ms`, before the client's connection preface.
    pub(super) fn new(now_ms: u64) -> Self {
        Self {
            received: FrameScanner {
                skip: PREFACE_BYTES,
                ..FrameScanner::default()
            },
            sent: FrameScanner::default(),
            requests: OpenRequests::default(),
            resets: TokenBucket::new(RESETS, now_ms),
            idle: TokenBucket::new(IDLE_FRAMES, now_ms),
            flood: None,
            counts: Http2ConnectionCounts::default(),
        }
    }

    /// The detected flood, if any.
    pub(super) fn flood(&self) -> Option<FrameKind> {
        self.flood
    }

    /// Whether an incomplete header block has been received.
    pub(super) fn is_mid_head(&self) -> bool {
        let FrameScanner { last, skip, .. } = &self.received;
        matches!(last.kind, HEADERS | CONTINUATION) && (last.flags & END_HEADERS == 0 || *skip > 0)
    }

    /// Counts the frames in received bytes.
    pub(super) fn receive(&mut self, mut bytes: &[u8], now_ms: u64) {
        while let Some(frame) = self.received.next(&mut bytes) {
            let is_ack = frame.flags & ACK != 0;
            let cost = match frame.kind {
                HEADERS => match self.requests.head(frame) {
                    HeadersUse::Request => {
                        self.counts.streams += 1;
                        self.idle.add(REQUEST_REFILL);
                        0
                    }
                    HeadersUse::Trailers => REQUEST_REFILL,
                    HeadersUse::None => USELESS_HEAD_COST,
                },
                DATA if self.requests.data(frame) => {
                    self.idle.add(1);
                    0
                }
                RST_STREAM => {
                    self.requests.end(frame.stream);
                    self.counts.resets_by_client += 1;
                    self.reset(now_ms);
                    0
                }
                SETTINGS if !is_ack => SETTINGS_COST,
                _ => 1,
            };
            if !self.idle.take(cost, now_ms) {
                self.flood.get_or_insert(FrameKind::IdleFrames);
            }
        }
    }

    /// Whether the output ends with a complete frame, and not within a header block.
    pub(super) fn is_between_frames(&self) -> bool {
        let FrameScanner {
            last, skip, have, ..
        } = &self.sent;
        let is_head = matches!(last.kind, HEADERS | CONTINUATION);
        *skip == 0 && *have == 0 && (!is_head || last.flags & END_HEADERS != 0)
    }

    /// Counts the frames in bytes to be sent. Returns the sum of the lengths of DATA frames that begin in them.
    pub(super) fn send(&mut self, mut bytes: &[u8], now_ms: u64) -> u32 {
        let mut data = 0_u32;
        while let Some(frame) = self.sent.next(&mut bytes) {
            match frame.kind {
                DATA => {
                    data = data.saturating_add(frame.length);
                    // The client responds with window updates for the stream and the connection. Tiny frames refill nothing.
                    if frame.length >= MIN_DATA {
                        self.idle.add(2);
                    }
                }
                RST_STREAM => {
                    self.requests.end(frame.stream);
                    self.counts.resets_by_galley += 1;
                    self.reset(now_ms);
                }
                _ => {}
            }
        }
        data
    }

    /// Counts streams whose responses the client requested and did not read: they hold memory for a long time.
    pub(super) fn starve(&mut self, streams: u32, now_ms: u64) {
        if !self
            .resets
            .take(streams.saturating_mul(STARVED_COST), now_ms)
        {
            self.flood.get_or_insert(FrameKind::Resets);
        }
    }

    fn reset(&mut self, now_ms: u64) {
        if !self.resets.take(1, now_ms) {
            self.flood.get_or_insert(FrameKind::Resets);
        }
    }
}

/// The relevant parts of a frame header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FrameInfo {
    length: u32,
    kind: u8,
    flags: u8,
    stream: u32,
}

impl FrameInfo {
    /// Whether a DATA frame has enough data to be useful. A padded one may contain little but padding.
    fn has_data(self) -> bool {
        let padding = if self.flags & PADDED == 0 {
            0
        } else {
            MAX_PADDING
        };
        self.length >= MIN_DATA + padding
    }

    fn ends_stream(self) -> bool {
        self.flags & END_STREAM != 0
    }
}

/// What the head in a HEADERS frame of the client is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeadersUse {
    /// It opens a stream.
    Request,
    /// It ends the request of an open stream.
    Trailers,
    /// Its stream takes none: the frame is decoded and rejected.
    None,
}

/// The streams whose requests are not complete.
#[derive(Debug, Default)]
struct OpenRequests {
    /// The highest stream of the client: those below it are never opened again (RFC 9113 section 5.1.1).
    highest: u32,
    /// At most [`MAX_OPEN`], the newest last.
    open: SmallVec<[u32; 4]>,
}

impl OpenRequests {
    fn head(&mut self, frame: FrameInfo) -> HeadersUse {
        if frame.stream > self.highest && frame.stream % 2 == 1 {
            self.highest = frame.stream;
            if !frame.ends_stream() {
                if self.open.len() >= MAX_OPEN {
                    self.open.remove(0);
                }
                self.open.push(frame.stream);
            }
            return HeadersUse::Request;
        }
        if frame.ends_stream() && self.end(frame.stream) {
            HeadersUse::Trailers
        } else {
            HeadersUse::None
        }
    }

    /// Whether a DATA frame carries a useful part of a request.
    fn data(&mut self, frame: FrameInfo) -> bool {
        let is_open = if frame.ends_stream() {
            self.end(frame.stream)
        } else {
            self.open.contains(&frame.stream)
        };
        is_open && frame.has_data()
    }

    /// Whether the request was open; it ends.
    fn end(&mut self, stream: u32) -> bool {
        let place = self.open.iter().position(|open| *open == stream);
        place.map(|place| self.open.remove(place)).is_some()
    }
}

/// Finds frame headers in bytes that arrive in pieces.
#[derive(Debug, Default)]
struct FrameScanner {
    head: [u8; FRAME_HEAD],
    have: usize,
    /// The number of bytes of the frame that have not arrived.
    skip: u32,
    last: FrameInfo,
}

impl FrameScanner {
    /// The next frame header; `bytes` is advanced behind it. `None`: all bytes are used.
    fn next(&mut self, bytes: &mut &[u8]) -> Option<FrameInfo> {
        let skipped = bytes
            .len()
            .min(usize::try_from(self.skip).unwrap_or(usize::MAX));
        self.skip -= u32::try_from(skipped).unwrap_or(self.skip);
        *bytes = bytes.get(skipped..).unwrap_or_default();
        while self.have < FRAME_HEAD {
            let (first, rest) = bytes.split_first()?;
            if let Some(slot) = self.head.get_mut(self.have) {
                *slot = *first;
            }
            self.have += 1;
            *bytes = rest;
        }
        let [a, b, c, kind, flags, stream @ ..] = self.head;
        self.have = 0;
        self.skip = u32::from_be_bytes([0, a, b, c]);
        self.last = FrameInfo {
            length: self.skip,
            kind,
            flags,
            // The highest bit is reserved (RFC 9113 section 4.1).
            stream: u32::from_be_bytes(stream) & (u32::MAX >> 1),
        };
        Some(self.last)
    }
}

/// A browser that leaves a page resets its requests in progress, at most all of its hundred streams. A player that seeks
/// resets one stream each time.
const RESETS: Rate = Rate {
    most: 200,
    per_s: 5,
};

/// A browser begins with a dozen. A client with small windows sends two for each DATA frame, which refills as many.
const IDLE_FRAMES: Rate = Rate {
    most: 1000,
    per_s: 20,
};

/// The minimum length of a useful DATA frame, in bytes.
const MIN_DATA: u32 = 256;

/// A request is accompanied by a priority and window updates.
const REQUEST_REFILL: u32 = 4;

/// A head costs its decoding, and has effects on the state that later heads need.
const USELESS_HEAD_COST: u32 = 20;

/// More than the streams that a client may have open: the library resets those beyond.
const MAX_OPEN: usize = 256;

/// Settings change all open streams.
const SETTINGS_COST: u32 = 20;

/// A paused player starves one stream, and does not start twenty within a minute.
const STARVED_COST: u32 = 10;

/// The length of the client's connection preface.
const PREFACE_BYTES: u32 = 24;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

/// The maximum length of the padding in a frame, including the length field (RFC 9113 section 6.1).
const MAX_PADDING: u32 = 256;

#[cfg(test)]
mod tests;
