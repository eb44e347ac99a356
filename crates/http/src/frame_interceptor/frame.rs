//! Frames as bytes (RFC 9113 sections 4 and 6): headers and constants.

/// The header of a frame (RFC 9113 section 4.1).
#[derive(Clone, Copy)]
pub(super) struct FrameHeader {
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl FrameHeader {
    pub(super) fn read(input: &[u8]) -> Option<Self> {
        let [a, b, c, kind, flags, stream @ ..] = *input.first_chunk::<FRAME_HEAD>()?;
        Some(Self {
            length: usize::try_from(u32::from_be_bytes([0, a, b, c])).ok()?,
            kind,
            flags,
            stream: u32::from_be_bytes(stream) & MAX_STREAM,
        })
    }

    /// Appends the frame header, without a payload.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        let [_, length @ ..] = u32::try_from(self.length).unwrap_or(0).to_be_bytes();
        out.extend_from_slice(&length);
        out.extend_from_slice(&[self.kind, self.flags]);
        out.extend_from_slice(&self.stream.to_be_bytes());
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a HEADERS frame that starts a response, and ends the stream if `is_end`. `encoded` has at most [`MAX_FRAME`] bytes.
pub fn write_head(out: &mut Vec<u8>, stream: u32, is_end: bool, encoded: &[u8]) {
    let flags = if is_end { END_STREAM } else { 0 };
    FrameHeader {
        length: encoded.len(),
        kind: HEADERS,
        flags: flags | END_HEADERS,
        stream,
    }
    .write(out);
    out.extend_from_slice(encoded);
}

/// Appends the frames of a body that is not empty, and ends the stream.
pub fn write_body(out: &mut Vec<u8>, stream: u32, body: &[u8]) {
    let mut rest = body;
    while !rest.is_empty() {
        let (part, behind) = rest.split_at(rest.len().min(MAX_FRAME));
        let flags = if behind.is_empty() { END_STREAM } else { 0 };
        FrameHeader {
            length: part.len(),
            kind: DATA,
            flags,
            stream,
        }
        .write(out);
        out.extend_from_slice(part);
        rest = behind;
    }
}

/// The connection preface: `PRI * HTTP/2.0` and the following bytes (RFC 9113 section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The size of a frame header, in bytes (RFC 9113 section 4.1).
pub const FRAME_HEAD: usize = 9;

/// The maximum frame size that is accepted here: the minimum that RFC 9113 section 4.2 requires.
pub const MAX_FRAME: usize = 16 * 1024;

pub(super) const DATA: u8 = 0;

pub(super) const HEADERS: u8 = 1;

pub(super) const PRIORITY: u8 = 2;

pub(super) const RST_STREAM: u8 = 3;

pub(super) const SETTINGS: u8 = 4;

pub(super) const WINDOW_UPDATE: u8 = 8;

pub(super) const CONTINUATION: u8 = 9;

pub(super) const ACK: u8 = 1;

pub(super) const END_STREAM: u8 = 1;

pub(super) const END_HEADERS: u8 = 4;

pub(super) const PADDED: u8 = 8;

pub(super) const HAS_PRIORITY: u8 = 0x20;

pub(super) const HEADER_TABLE_SIZE: u16 = 1;

pub(super) const INITIAL_WINDOW_SIZE: u16 = 4;

/// The maximum of stream ids and windows, which have 31 bits.
pub(super) const MAX_STREAM: u32 = u32::MAX >> 1;
