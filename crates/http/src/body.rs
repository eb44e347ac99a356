//! Reads a request body: removes the framing bytes, counts, and finds the end.
//!
//! Chunked coding by RFC 9112 section 7.1: CRLF only, sizes of at most 16 hex digits, extensions and trailers checked,
//! bounded and dropped (a trailer must never become a field: section 7.1.2). Data is borrowed from the input, never copied.
//!
//! Invariant: `consumed` never exceeds the body's last byte, so what remains is the next request.
//!
//! ```text
//! chunked-body   = *chunk last-chunk trailer-section CRLF
//! chunk          = chunk-size [ chunk-ext ] CRLF chunk-data CRLF
//! last-chunk     = 1*"0" [ chunk-ext ] CRLF
//! ```

use crate::framing::BodyKind;
use crate::head::BadRequest;
use crate::token::{is_token_byte, is_value_byte};

/// Bytes of chunk extensions in one message. No client sends any; endless ones are an attack.
pub const EXTENSION_BYTES: u16 = 256;
/// Bytes of the trailer section, its line ends included.
pub const TRAILER_BYTES: u16 = 4096;

/// The state of one request body. Give it the bytes after the head, in order.
#[derive(Clone, Debug)]
pub struct BodyReader {
    state: BodyState,
    /// Bytes of chunk data that may still come.
    room: u64,
    extension_room: u16,
    trailer_room: u16,
}

/// What one call took from its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyProgress<'b> {
    /// Bytes of the input that are done with, framing and data together.
    pub consumed: usize,
    /// Body bytes, the last ones of those consumed; may be empty.
    pub data: &'b [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyState {
    Length { left: u64 },
    Size { value: u64, digits: u8 },
    SizeSpace { value: u64 },
    ExtensionName { value: u64 },
    Extension { value: u64 },
    SizeLf { value: u64 },
    Data { left: u64 },
    DataCr,
    DataLf,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    EndLf,
    Done,
    Refused(BadRequest),
}

impl BodyReader {
    /// A reader for a body of at most `max` bytes of data. A Content-Length above it is refused by the first `decode`,
    /// also with empty input: ask so before `100 Continue` is sent.
    pub fn new(kind: BodyKind, max: u64) -> Self {
        let state = match kind {
            BodyKind::None | BodyKind::Length(0) => BodyState::Done,
            BodyKind::Length(length) if length > max => {
                BodyState::Refused(BadRequest::BodyTooLarge)
            }
            BodyKind::Length(left) => BodyState::Length { left },
            BodyKind::Chunked => NEXT_CHUNK,
        };
        Self {
            state,
            room: max,
            extension_room: EXTENSION_BYTES,
            trailer_room: TRAILER_BYTES,
        }
    }

    /// Whether the last byte of the body was consumed.
    pub fn is_done(&self) -> bool {
        self.state == BodyState::Done
    }

    /// Takes framing bytes up to the next run of data, and that run. Call again with the rest of the input until it is
    /// used up or [`is_done`](Self::is_done). It takes nothing only from empty input or after the end.
    ///
    /// Errors: `Chunk`, `ChunkExtension`, `Trailer`, `TrailersTooLarge`, `BodyTooLarge`; the same again on later calls.
    /// Data that came before the fault has been given out by then.
    pub fn decode<'b>(&mut self, input: &'b [u8]) -> Result<BodyProgress<'b>, BadRequest> {
        let mut rest = input;
        loop {
            let consumed = input.len() - rest.len();
            match (self.state, rest) {
                (BodyState::Refused(refusal), _) => return Err(refusal),
                (BodyState::Done, _) | (_, []) => {
                    return Ok(BodyProgress {
                        consumed,
                        data: &[],
                    });
                }
                (BodyState::Length { left } | BodyState::Data { left }, _) => {
                    let data = self.take(left, rest);
                    return Ok(BodyProgress {
                        consumed: consumed + data.len(),
                        data,
                    });
                }
                (_, [byte, after @ ..]) => {
                    rest = after;
                    self.state = self.step(*byte).unwrap_or_else(BodyState::Refused);
                }
            }
        }
    }

    fn take<'b>(&mut self, left: u64, input: &'b [u8]) -> &'b [u8] {
        let length = usize::try_from(left).map_or(input.len(), |left| left.min(input.len()));
        let data = input.get(..length).unwrap_or_default();
        let left = left.saturating_sub(data.len() as u64);
        self.state = match (self.state, left) {
            (BodyState::Length { .. }, 0) => BodyState::Done,
            (BodyState::Length { .. }, left) => BodyState::Length { left },
            (_, 0) => BodyState::DataCr,
            (_, left) => BodyState::Data { left },
        };
        data
    }

    /// One byte of chunk framing.
    fn step(&mut self, byte: u8) -> Result<BodyState, BadRequest> {
        match (self.state, byte) {
            (BodyState::Size { value, digits }, _) => self.size(value, digits, byte),
            (BodyState::SizeSpace { value }, _) => self.size_end(value, byte),
            (BodyState::ExtensionName { value } | BodyState::Extension { value }, _) => {
                self.extension(value, byte)
            }
            (BodyState::SizeLf { value }, b'\n') => self.chunk(value),
            (BodyState::DataCr, b'\r') => Ok(BodyState::DataLf),
            (BodyState::DataLf, b'\n') => Ok(NEXT_CHUNK),
            (BodyState::EndLf, b'\n') => Ok(BodyState::Done),
            (
                BodyState::TrailerStart
                | BodyState::TrailerName
                | BodyState::TrailerValue
                | BodyState::TrailerLf,
                _,
            ) => self.trailer(byte),
            _ => Err(BadRequest::Chunk),
        }
    }

    fn size(&mut self, value: u64, digits: u8, byte: u8) -> Result<BodyState, BadRequest> {
        let Some(digit) = char::from(byte).to_digit(16) else {
            return match digits {
                0 => Err(BadRequest::Chunk),
                _ => self.size_end(value, byte),
            };
        };
        // Sixteen digits fill 64 bits exactly, so the shift loses nothing.
        if digits >= SIZE_DIGITS {
            return Err(BadRequest::Chunk);
        }
        Ok(BodyState::Size {
            value: (value << 4) | u64::from(digit),
            digits: digits + 1,
        })
    }

    /// After the last digit. White space may stand there only before an extension (RFC 9112 section 7.1.1).
    fn size_end(&mut self, value: u64, byte: u8) -> Result<BodyState, BadRequest> {
        match (self.state, byte) {
            (BodyState::Size { .. }, b'\r') => Ok(BodyState::SizeLf { value }),
            (_, b' ' | b'\t') => {
                self.spend_extension()?;
                Ok(BodyState::SizeSpace { value })
            }
            (_, b';') => {
                self.spend_extension()?;
                Ok(BodyState::ExtensionName { value })
            }
            _ => Err(BadRequest::Chunk),
        }
    }

    /// An extension begins with a name; what follows is only kept free of control characters, since it is dropped.
    fn extension(&mut self, value: u64, byte: u8) -> Result<BodyState, BadRequest> {
        let named = matches!(self.state, BodyState::Extension { .. });
        let next = match byte {
            b'\r' if named => return Ok(BodyState::SizeLf { value }),
            b' ' | b'\t' if !named => BodyState::ExtensionName { value },
            _ if named && is_value_byte(byte) => BodyState::Extension { value },
            _ if is_token_byte(byte) => BodyState::Extension { value },
            _ => return Err(BadRequest::ChunkExtension),
        };
        self.spend_extension()?;
        Ok(next)
    }

    fn spend_extension(&mut self) -> Result<(), BadRequest> {
        let left = self.extension_room.checked_sub(1);
        self.extension_room = left.ok_or(BadRequest::ChunkExtension)?;
        Ok(())
    }

    /// The size line is whole.
    fn chunk(&mut self, value: u64) -> Result<BodyState, BadRequest> {
        if value == 0 {
            return Ok(BodyState::TrailerStart);
        }
        let room = self.room.checked_sub(value);
        self.room = room.ok_or(BadRequest::BodyTooLarge)?;
        Ok(BodyState::Data { left: value })
    }

    fn trailer(&mut self, byte: u8) -> Result<BodyState, BadRequest> {
        let next = match (self.state, byte) {
            (BodyState::TrailerStart, b'\r') => return Ok(BodyState::EndLf),
            (BodyState::TrailerName, b':') => BodyState::TrailerValue,
            (BodyState::TrailerStart | BodyState::TrailerName, _) if is_token_byte(byte) => {
                BodyState::TrailerName
            }
            (BodyState::TrailerValue, b'\r') => BodyState::TrailerLf,
            (BodyState::TrailerValue, _) if is_value_byte(byte) => BodyState::TrailerValue,
            (BodyState::TrailerLf, b'\n') => BodyState::TrailerStart,
            _ => return Err(BadRequest::Trailer),
        };
        let left = self.trailer_room.checked_sub(1);
        self.trailer_room = left.ok_or(BadRequest::TrailersTooLarge)?;
        Ok(next)
    }
}

const SIZE_DIGITS: u8 = 16;
const NEXT_CHUNK: BodyState = BodyState::Size {
    value: 0,
    digits: 0,
};
