//! What a client of HTTP/2 sends, sorted: heads of requests are read here, everything else is for the library behind.
//!
//! A library keeps a state for each stream, which costs several times what a stored page costs. A request whose answer lies
//! ready needs none: its stream is opened by one frame and closed by the frames of the answer. So a [`FrameInterceptor`] stands in
//! front of the library, reads heads ([`Intercepted::Head`]), and leaves each either to its owner, who answers it, or to the library
//! ([`FrameInterceptor::pass`]).
//!
//! Three states are shared by both, and kept right here:
//! - Header compression. The sieve has the client's table; what is passed on is written anew, in literals, so that the library's
//!   table stays empty. Answers of either side must leave the other's table alone: see [`crate::hpack`], and
//!   [`FrameInterceptor::may_answer`].
//! - Numbers of streams. The library never hears of a stream that was answered here, so late frames for it end here.
//! - The connection's window. The owner may send what the library was not told of ([`FrameInterceptor::take_window`]).
//!
//! Nothing here judges a request. What breaks the connection in a way that the library could not see, or would see
//! differently, is [`FrameError`].

mod pass;
mod windows;

use self::windows::Windows;
use crate::hpack::{self, Block, HpackDecoder};

/// Why the connection cannot go on: the code for its `GOAWAY` (RFC 9113 section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// `PROTOCOL_ERROR`.
    #[error("a frame breaks the protocol")]
    Protocol,
    /// `FLOW_CONTROL_ERROR`.
    #[error("a window is too large")]
    FlowControl,
    /// `STREAM_CLOSED`.
    #[error("a stream that is closed is used")]
    StreamClosed,
    /// `FRAME_SIZE_ERROR`.
    #[error("a frame has the wrong size")]
    FrameSize,
    /// `COMPRESSION_ERROR`.
    #[error("a header block cannot be read")]
    Compression,
    /// `ENHANCE_YOUR_CALM`.
    #[error("a head is far too large")]
    TooLarge,
}

/// What became of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intercepted {
    /// All that can be sorted is; what is left of them is the beginning of a frame.
    More,
    /// A head was read. It is passed on next ([`FrameInterceptor::pass`]), or else answered.
    Head(Opening),
}

/// The frame that opens a stream, beside its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The stream's number.
    pub stream: u32,
    /// Whether no body follows.
    pub is_end: bool,
    /// Whether the stream is a new one; else these are the trailers of one that the library has.
    pub is_new: bool,
    priority: Option<[u8; PRIORITY_BYTES]>,
}

/// See the module.
#[derive(Debug)]
pub struct FrameInterceptor {
    hpack: HpackDecoder,
    /// Bytes of the frame under way that are still to come.
    rest: usize,
    /// Whether they are for the library.
    passes: bool,
    /// A head whose last frame has not come.
    begun: Option<Begun>,
    /// Parts of it.
    fragments: Vec<u8>,
    /// The highest stream that the client has opened.
    last: u32,
    /// The highest that the library knows.
    passed: u32,
    windows: Windows,
    /// What a head may have, as [`Block::list_bytes`] counts.
    most: usize,
    /// What the client has said of its table for our heads.
    table: u32,
    is_table_smaller: bool,
}

#[derive(Clone, Copy, Debug)]
struct Begun {
    opening: Opening,
    continuations: u32,
}

#[derive(Clone, Copy)]
struct FrameHeader {
    length: usize,
    kind: u8,
    flags: u8,
    stream: u32,
}

impl FrameHeader {
    fn read(input: &[u8]) -> Option<Self> {
        let [a, b, c, kind, flags, stream @ ..] = *input.first_chunk::<FRAME_HEAD>()?;
        Some(Self {
            length: usize::try_from(u32::from_be_bytes([0, a, b, c])).ok()?,
            kind,
            flags,
            stream: u32::from_be_bytes(stream) & MOST_STREAM,
        })
    }

    fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

impl FrameInterceptor {
    /// For a connection whose greeting ([`PREFACE`]) has come. `most`: bytes of a head, as [`Block::list_bytes`] counts them; the library's limit must be the
    /// same, so that it answers those that are larger.
    pub fn new(most: usize) -> Self {
        Self {
            hpack: HpackDecoder::default(),
            rest: 0,
            passes: true,
            begun: None,
            fragments: Vec::new(),
            last: 0,
            passed: 0,
            windows: Windows::default(),
            most,
            table: hpack::TABLE_BYTES,
            is_table_smaller: false,
        }
    }

    /// Sorts bytes that came: takes them from the front of `input`, and puts those for the library into `through`, until a head
    /// is read, into `block`, or there are too few.
    pub fn next(
        &mut self,
        input: &mut &[u8],
        through: &mut Vec<u8>,
        block: &mut Block,
    ) -> Result<Intercepted, FrameError> {
        loop {
            self.take_rest(input, through);
            if self.rest > 0 {
                return Ok(Intercepted::More);
            }
            let Some(frame) = FrameHeader::read(input) else {
                return Ok(Intercepted::More);
            };
            if frame.length > MOST_FRAME {
                return Err(FrameError::FrameSize);
            }
            if self.begun.is_some() && frame.kind != CONTINUATION {
                return Err(FrameError::Protocol);
            }
            let is_whole = matches!(
                frame.kind,
                HEADERS | CONTINUATION | SETTINGS | WINDOW_UPDATE
            );
            if !is_whole {
                self.route(frame)?;
                continue;
            }
            let Some((bytes, behind)) = input.split_at_checked(FRAME_HEAD + frame.length) else {
                return Ok(Intercepted::More);
            };
            let payload = bytes.get(FRAME_HEAD..).unwrap_or_default();
            match frame.kind {
                SETTINGS => {
                    self.settings(frame, payload);
                    through.extend_from_slice(bytes);
                }
                WINDOW_UPDATE => self.window_update(frame, payload, through)?,
                _ => {
                    if let Some(opening) = self.head(frame, payload, block)? {
                        *input = behind;
                        return Ok(Intercepted::Head(opening));
                    }
                }
            }
            *input = behind;
        }
    }

    /// Moves on in the frame under way.
    fn take_rest(&mut self, input: &mut &[u8], through: &mut Vec<u8>) {
        let count = self.rest.min(input.len());
        let (bytes, behind) = input.split_at_checked(count).unwrap_or_default();
        if self.passes {
            through.extend_from_slice(bytes);
        }
        self.rest -= count;
        *input = behind;
    }

    /// Decides whose a frame is of which nothing need be known.
    fn route(&mut self, frame: FrameHeader) -> Result<(), FrameError> {
        let is_of_stream = matches!(frame.kind, DATA | RST_STREAM | PRIORITY);
        self.passes = !(is_of_stream && self.is_answered(frame.stream));
        if !self.passes {
            match frame.kind {
                // The client had ended it.
                DATA => return Err(FrameError::StreamClosed),
                RST_STREAM if frame.length != 4 => return Err(FrameError::FrameSize),
                _ => {}
            }
        }
        self.rest = FRAME_HEAD + frame.length;
        Ok(())
    }

    /// Whether a stream was answered without the library, which takes it for one that is still to come. Older ones it takes for
    /// closed, which they are.
    fn is_answered(&self, stream: u32) -> bool {
        self.passed < stream && stream <= self.last
    }

    /// RFC 9113 section 6.5. The library judges it.
    fn settings(&mut self, frame: FrameHeader, payload: &[u8]) {
        if frame.has(ACK) || frame.stream != 0 {
            return;
        }
        for setting in payload.chunks_exact(6) {
            let Ok([a, b, value @ ..]) = <[u8; 6]>::try_from(setting) else {
                continue;
            };
            let value = u32::from_be_bytes(value);
            match u16::from_be_bytes([a, b]) {
                HEADER_TABLE_SIZE => {
                    self.is_table_smaller |= value < self.table;
                    self.table = value;
                }
                INITIAL_WINDOW_SIZE => self.windows.set_initial(value),
                _ => {}
            }
        }
    }

    /// RFC 9113 section 6.9.
    fn window_update(
        &mut self,
        frame: FrameHeader,
        payload: &[u8],
        through: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        let increment = <[u8; 4]>::try_from(payload).map(u32::from_be_bytes);
        let increment = increment.map(|increment| increment & MOST_STREAM);
        match (frame.stream, increment) {
            (0, Ok(1..)) => {
                let increment = increment.unwrap_or_default();
                self.windows
                    .open(increment)
                    .ok_or(FrameError::FlowControl)?;
                self.windows.share(through);
            }
            (stream, Ok(0)) if self.is_answered(stream) => return Err(FrameError::Protocol),
            (stream, Ok(_)) if self.is_answered(stream) => {}
            (stream, Err(_)) if self.is_answered(stream) => return Err(FrameError::FrameSize),
            // The library's, or wrong, which it says better.
            _ => {
                write_frame_head(
                    through,
                    frame.length,
                    (WINDOW_UPDATE, frame.flags),
                    frame.stream,
                );
                through.extend_from_slice(payload);
            }
        }
        Ok(())
    }

    /// A frame of a head; what it opens once the head is whole.
    fn head(
        &mut self,
        frame: FrameHeader,
        payload: &[u8],
        block: &mut Block,
    ) -> Result<Option<Opening>, FrameError> {
        if frame.kind == CONTINUATION {
            let mut begun = self.begun.take().ok_or(FrameError::Protocol)?;
            if begun.opening.stream != frame.stream {
                return Err(FrameError::Protocol);
            }
            begun.continuations += 1;
            self.fragments.extend_from_slice(payload);
            let is_endless = begun.continuations > MOST_CONTINUATIONS
                || self.fragments.len() > self.most.saturating_mul(hpack::TOO_LARGE);
            if is_endless {
                return Err(FrameError::TooLarge);
            }
            if !frame.has(END_HEADERS) {
                self.begun = Some(begun);
                return Ok(None);
            }
            let fragments = std::mem::take(&mut self.fragments);
            return self.decode(begun.opening, &fragments, block).map(Some);
        }
        let (opening, fragment) = self.open(frame, payload)?;
        if frame.has(END_HEADERS) {
            return self.decode(opening, fragment, block).map(Some);
        }
        self.fragments.clear();
        self.fragments.extend_from_slice(fragment);
        self.begun = Some(Begun {
            opening,
            continuations: 0,
        });
        Ok(None)
    }

    /// RFC 9113 section 6.2: a `HEADERS` frame without its padding.
    fn open<'p>(
        &self,
        frame: FrameHeader,
        mut payload: &'p [u8],
    ) -> Result<(Opening, &'p [u8]), FrameError> {
        let is_new = frame.stream > self.last;
        if frame.stream.is_multiple_of(2) {
            return Err(FrameError::Protocol);
        }
        if !is_new && self.is_answered(frame.stream) {
            return Err(FrameError::StreamClosed);
        }
        let mut padding = 0;
        if frame.has(PADDED) {
            let (length, behind) = payload.split_first().ok_or(FrameError::FrameSize)?;
            padding = usize::from(*length);
            payload = behind;
        }
        let mut priority = None;
        if frame.has(HAS_PRIORITY) {
            let (bytes, behind) = payload.split_first_chunk().ok_or(FrameError::FrameSize)?;
            priority = Some(*bytes);
            payload = behind;
        }
        let length = payload
            .len()
            .checked_sub(padding)
            .ok_or(FrameError::Protocol)?;
        let opening = Opening {
            stream: frame.stream,
            is_end: frame.has(END_STREAM),
            is_new,
            priority,
        };
        Ok((opening, payload.get(..length).unwrap_or_default()))
    }

    fn decode(
        &mut self,
        opening: Opening,
        encoded: &[u8],
        block: &mut Block,
    ) -> Result<Opening, FrameError> {
        let decoded = self.hpack.decode(encoded, self.most, block);
        decoded.map_err(|broken| match broken {
            hpack::HpackError::Malformed => FrameError::Compression,
            hpack::HpackError::TooLarge => FrameError::TooLarge,
        })?;
        self.last = self.last.max(opening.stream);
        Ok(opening)
    }

    /// Whether a head may be answered without the library at all. A client that takes room away from the table of our heads
    /// has to be told so by whoever has used it (RFC 7541 section 4.2), and that is the library.
    /// A head beyond the limit, of which fields are missing in `block`, is the library's to refuse.
    pub fn may_answer(&self, opening: &Opening, block: &Block) -> bool {
        let is_whole = block.list_bytes() <= self.most;
        opening.is_new && opening.is_end && is_whole && !self.is_table_smaller
    }

    /// Takes so many bytes of body for an answer, if the stream and the connection have room for all of it.
    pub fn take_window(&mut self, bytes: usize) -> bool {
        self.windows.take(bytes)
    }

    /// Tells that the library has sent so many bytes of data. What it may send beside them is its again.
    pub fn library_sent(&mut self, bytes: u32, through: &mut Vec<u8>) {
        self.windows.library_sent(bytes);
        self.windows.share(through);
    }

    /// Tells that the library has no stream left.
    pub fn library_rests(&mut self) {
        self.windows.end_loan();
    }
}

/// Appends a frame that opens an answer on a stream, and ends it if there `is_end`. `encoded` has no more than [`MOST_FRAME`] bytes.
pub fn write_head(out: &mut Vec<u8>, stream: u32, is_end: bool, encoded: &[u8]) {
    let flags = if is_end { END_STREAM } else { 0 };
    write_frame_head(out, encoded.len(), (HEADERS, flags | END_HEADERS), stream);
    out.extend_from_slice(encoded);
}

/// Appends the frames of a body, which is not empty, and ends the stream.
pub fn write_body(out: &mut Vec<u8>, stream: u32, body: &[u8]) {
    let mut rest = body;
    while !rest.is_empty() {
        let (part, behind) = rest.split_at(rest.len().min(MOST_FRAME));
        let flags = if behind.is_empty() { END_STREAM } else { 0 };
        write_frame_head(out, part.len(), (DATA, flags), stream);
        out.extend_from_slice(part);
        rest = behind;
    }
}

fn write_frame_head(out: &mut Vec<u8>, length: usize, (kind, flags): (u8, u8), stream: u32) {
    let [_, length @ ..] = u32::try_from(length).unwrap_or(0).to_be_bytes();
    out.extend_from_slice(&length);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}

/// `PRI * HTTP/2.0` and what follows it (RFC 9113 section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes in front of each frame (RFC 9113 section 4.1).
pub const FRAME_HEAD: usize = 9;

/// The least that every side must take (RFC 9113 section 4.2), and the most that is taken here.
pub const MOST_FRAME: usize = 16 * 1024;

/// Frames behind the first of one head. Those of a head within its limit need three; the library takes as many as this.
const MOST_CONTINUATIONS: u32 = 5;

/// Stream numbers and windows have 31 bits.
const MOST_STREAM: u32 = u32::MAX >> 1;

const PRIORITY_BYTES: usize = 5;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const HAS_PRIORITY: u8 = 0x20;

const HEADER_TABLE_SIZE: u16 = 1;
const INITIAL_WINDOW_SIZE: u16 = 4;

#[cfg(test)]
mod tests;
