//! Sorts the frames of a connection; see [`crate::frame_interceptor`].

use super::frame::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, FRAME_HEAD, FrameHeader, HAS_PRIORITY,
    HEADER_TABLE_SIZE, HEADERS, INITIAL_WINDOW_SIZE, MAX_FRAME, MAX_STREAM, PADDED, PRIORITY,
    RST_STREAM, SETTINGS, WINDOW_UPDATE,
};
use super::windows::SendWindows;
use crate::hpack::{self, Block, HpackDecoder};

/// Why the connection must end: the error code of its `GOAWAY` (RFC 9113 section 7).
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
    #[error("a head exceeds the limit by far")]
    TooLarge,
}

/// The result of reading bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterceptorOutput {
    /// All complete frames were sorted. The rest of the input is the start of a frame.
    More,
    /// A head was read. The caller passes it on ([`FrameInterceptor::pass`]) or sends the response.
    Head(Opening),
}

/// The properties of the frame that opens a stream, without its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The stream id.
    pub stream: u32,
    /// Whether no body follows.
    pub is_end: bool,
    /// Whether the stream is new; otherwise these are the trailers of a stream that the library has.
    pub is_new: bool,
    priority: Option<[u8; PRIORITY_BYTES]>,
}

/// The frame interceptor of one connection. See the module.
#[derive(Debug)]
pub struct FrameInterceptor {
    hpack: HpackDecoder,
    /// Remaining bytes of the current frame.
    rest: usize,
    /// Whether the current frame is passed to the library.
    is_for_library: bool,
    /// A head whose last frame has not been received.
    partial_head: Option<PartialHead>,
    /// The header block fragments received so far.
    fragments: Vec<u8>,
    /// The highest stream that the client has opened.
    last_opened: u32,
    /// The highest stream that was passed to the library.
    last_passed: u32,
    windows: SendWindows,
    /// The maximum size of a head in bytes, as [`Block::list_bytes`] counts.
    most: usize,
    /// The table size for response heads that the client has set, in bytes.
    table_size: u32,
    is_table_smaller: bool,
}

#[derive(Clone, Copy, Debug)]
struct PartialHead {
    opening: Opening,
    continuations: u32,
}

impl FrameInterceptor {
    /// An interceptor for a connection whose preface ([`super::PREFACE`]) was received. `most`: the maximum size of a head in
    /// bytes, as [`Block::list_bytes`] counts. The library must have the same limit, so that it rejects larger heads.
    pub fn new(most: usize) -> Self {
        Self {
            hpack: HpackDecoder::default(),
            rest: 0,
            is_for_library: true,
            partial_head: None,
            fragments: Vec::new(),
            last_opened: 0,
            last_passed: 0,
            windows: SendWindows::default(),
            most,
            table_size: hpack::TABLE_BYTES,
            is_table_smaller: false,
        }
    }

    /// Sorts received bytes: removes them from the front of `input` and appends those for the library to `through`, until a head
    /// has been read into `block` or the rest of the input is incomplete.
    pub fn next(
        &mut self,
        input: &mut &[u8],
        through: &mut Vec<u8>,
        block: &mut Block,
    ) -> Result<InterceptorOutput, FrameError> {
        loop {
            self.consume_rest(input, through);
            if self.rest > 0 {
                return Ok(InterceptorOutput::More);
            }
            let Some(frame) = FrameHeader::read(input) else {
                return Ok(InterceptorOutput::More);
            };
            if frame.length > MAX_FRAME {
                return Err(FrameError::FrameSize);
            }
            if self.partial_head.is_some() && frame.kind != CONTINUATION {
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
                return Ok(InterceptorOutput::More);
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
                        return Ok(InterceptorOutput::Head(opening));
                    }
                }
            }
            *input = behind;
        }
    }

    /// Forwards or drops the rest of the current frame, as far as it was received.
    fn consume_rest(&mut self, input: &mut &[u8], through: &mut Vec<u8>) {
        let count = self.rest.min(input.len());
        let (bytes, behind) = input.split_at_checked(count).unwrap_or_default();
        if self.is_for_library {
            through.extend_from_slice(bytes);
        }
        self.rest -= count;
        *input = behind;
    }

    /// Decides who handles a frame whose payload is not needed here.
    fn route(&mut self, frame: FrameHeader) -> Result<(), FrameError> {
        let is_of_stream = matches!(frame.kind, DATA | RST_STREAM | PRIORITY);
        self.is_for_library = !(is_of_stream && self.has_response(frame.stream));
        if !self.is_for_library {
            match frame.kind {
                // The client had ended the stream.
                DATA => return Err(FrameError::StreamClosed),
                RST_STREAM if frame.length != 4 => return Err(FrameError::FrameSize),
                _ => {}
            }
        }
        self.rest = FRAME_HEAD + frame.length;
        Ok(())
    }

    /// Whether a stream was answered without the library, which regards it as idle. The library regards older ones as closed,
    /// which is correct.
    fn has_response(&self, stream: u32) -> bool {
        self.last_passed < stream && stream <= self.last_opened
    }

    /// Reads the settings that are needed here (RFC 9113 section 6.5). The library evaluates them all.
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
                    self.is_table_smaller |= value < self.table_size;
                    self.table_size = value;
                }
                INITIAL_WINDOW_SIZE => self.windows.set_initial(value),
                _ => {}
            }
        }
    }

    /// Handles a `WINDOW_UPDATE` (RFC 9113 section 6.9).
    fn window_update(
        &mut self,
        frame: FrameHeader,
        payload: &[u8],
        through: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        let increment = <[u8; 4]>::try_from(payload).map(u32::from_be_bytes);
        let increment = increment.map(|increment| increment & MAX_STREAM);
        match (frame.stream, increment) {
            (0, Ok(1..)) => {
                let increment = increment.unwrap_or_default();
                self.windows
                    .open(increment)
                    .ok_or(FrameError::FlowControl)?;
                self.windows.share(through);
            }
            (stream, Ok(0)) if self.has_response(stream) => return Err(FrameError::Protocol),
            (stream, Ok(_)) if self.has_response(stream) => {}
            (stream, Err(_)) if self.has_response(stream) => return Err(FrameError::FrameSize),
            // For a stream of the library, or invalid: the library reports the error more precisely.
            _ => {
                frame.write(through);
                through.extend_from_slice(payload);
            }
        }
        Ok(())
    }

    /// Handles a frame of a head. The stream is opened when the head is complete.
    fn head(
        &mut self,
        frame: FrameHeader,
        payload: &[u8],
        block: &mut Block,
    ) -> Result<Option<Opening>, FrameError> {
        if frame.kind == CONTINUATION {
            return self.continuation(frame, payload, block);
        }
        let (opening, fragment) = self.open(frame, payload)?;
        if frame.has(END_HEADERS) {
            return self.decode(opening, fragment, block).map(Some);
        }
        self.fragments.clear();
        self.fragments.extend_from_slice(fragment);
        self.partial_head = Some(PartialHead {
            opening,
            continuations: 0,
        });
        Ok(None)
    }

    /// Handles a CONTINUATION (RFC 9113 section 6.10).
    fn continuation(
        &mut self,
        frame: FrameHeader,
        payload: &[u8],
        block: &mut Block,
    ) -> Result<Option<Opening>, FrameError> {
        let mut partial_head = self.partial_head.take().ok_or(FrameError::Protocol)?;
        if partial_head.opening.stream != frame.stream {
            return Err(FrameError::Protocol);
        }
        partial_head.continuations += 1;
        self.fragments.extend_from_slice(payload);
        let is_endless = partial_head.continuations > MAX_CONTINUATIONS
            || self.fragments.len() > self.most.saturating_mul(hpack::TOO_LARGE);
        if is_endless {
            return Err(FrameError::TooLarge);
        }
        if !frame.has(END_HEADERS) {
            self.partial_head = Some(partial_head);
            return Ok(None);
        }
        let fragments = std::mem::take(&mut self.fragments);
        self.decode(partial_head.opening, &fragments, block)
            .map(Some)
    }

    /// Reads a `HEADERS` frame without its padding (RFC 9113 section 6.2).
    fn open<'p>(
        &self,
        frame: FrameHeader,
        mut payload: &'p [u8],
    ) -> Result<(Opening, &'p [u8]), FrameError> {
        let is_new = frame.stream > self.last_opened;
        if frame.stream.is_multiple_of(2) {
            return Err(FrameError::Protocol);
        }
        if !is_new && self.has_response(frame.stream) {
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
        self.last_opened = self.last_opened.max(opening.stream);
        Ok(opening)
    }

    /// Whether a head may be answered without the library. If a client shrinks the table for response heads, the encoder that has
    /// used the table must acknowledge it (RFC 7541 section 4.2), and this is the library's encoder. The library also rejects
    /// heads beyond the limit, whose fields are incomplete in `block`.
    pub fn may_respond(&self, opening: &Opening, block: &Block) -> bool {
        let is_whole = block.list_bytes() <= self.most;
        opening.is_new && opening.is_end && is_whole && !self.is_table_smaller
    }

    /// The maximum number of body bytes that [`FrameInterceptor::take_window`] accepts now.
    pub fn window(&self) -> usize {
        self.windows.available()
    }

    /// Reserves window for the body of a response, if the stream and the connection have enough for all of it.
    pub fn take_window(&mut self, bytes: usize) -> bool {
        self.windows.take(bytes)
    }

    /// Passes a head to the library. Its fields are in `block`.
    pub fn pass(&mut self, opening: &Opening, block: &Block, through: &mut Vec<u8>) {
        let mut encoded = opening.priority.map(Vec::from).unwrap_or_default();
        for (name, value) in block.fields() {
            hpack::write_field(&mut encoded, name, value);
        }
        if block.list_bytes() > self.most {
            // Replaces the fields that were not kept: the library has the same limit, and rejects a head that exceeds it.
            hpack::write_field(&mut encoded, b"x", &vec![b'x'; self.most]);
        }
        self.pass_encoded(opening, &encoded, through);
    }

    /// Announces a request without a body to the library. The caller has the head; the library only needs the stream and decodes
    /// as little as possible. The stub's method is one that no server supports.
    pub fn pass_stub(&mut self, opening: &Opening, through: &mut Vec<u8>) {
        let mut encoded = Vec::with_capacity(STUB_BYTES);
        // The dependency may violate the protocol, which the library checks.
        encoded.extend_from_slice(opening.priority.as_ref().map_or(&[], |priority| priority));
        for (name, value) in [
            (":method", "PARSED"),
            (":scheme", "http"),
            (":path", "/"),
            (":authority", "a"),
        ] {
            hpack::write_field(&mut encoded, name.as_bytes(), value.as_bytes());
        }
        self.pass_encoded(opening, &encoded, through);
    }

    /// Writes a head as a `HEADERS` frame and the necessary `CONTINUATION` frames. `encoded` begins with the priority.
    fn pass_encoded(&mut self, opening: &Opening, encoded: &[u8], through: &mut Vec<u8>) {
        self.last_passed = self.last_passed.max(opening.stream);
        self.windows.library_starts();
        self.windows.share(through);
        let flags = if opening.is_end { END_STREAM } else { 0 };
        let mut flags = flags | opening.priority.map_or(0, |_| HAS_PRIORITY);
        let mut kind = HEADERS;
        let mut rest = encoded;
        // A block without fields needs a frame, too.
        loop {
            let (part, behind) = rest.split_at(rest.len().min(MAX_FRAME));
            if behind.is_empty() {
                flags |= END_HEADERS;
            }
            FrameHeader {
                length: part.len(),
                kind,
                flags,
                stream: opening.stream,
            }
            .write(through);
            through.extend_from_slice(part);
            if behind.is_empty() {
                return;
            }
            (kind, flags, rest) = (CONTINUATION, 0, behind);
        }
    }

    /// Reports how many bytes of data the library has sent. The rest of the window becomes available here again.
    pub fn library_sent(&mut self, bytes: u32, through: &mut Vec<u8>) {
        self.windows.library_sent(bytes);
        self.windows.share(through);
    }

    /// Reports that the library has no streams.
    pub fn library_rests(&mut self) {
        self.windows.library_ends();
    }
}

/// The maximum number of frames after the first of a head. A head within the limit needs three; the library accepts this many.
const MAX_CONTINUATIONS: u32 = 5;

const PRIORITY_BYTES: usize = 5;

/// The capacity for a stub's header block, which is shorter.
const STUB_BYTES: usize = 64;
