//! Reads a request body: removes the framing bytes, enforces the limits, and finds the end.
//!
//! Chunked coding by RFC 9112 section 7.1: CRLF only, sizes of at most 16 hex digits, extensions and trailers checked,
//! bounded and dropped (a trailer must never become a field: section 7.1.2). Data is borrowed from the input, never copied.
//!
//! Invariant: `consumed` never exceeds the body's last byte, so the rest of the input is the next request.
//!
//! ```text
//! chunked-body   = *chunk last-chunk trailer-section CRLF
//! chunk          = chunk-size [ chunk-ext ] CRLF chunk-data CRLF
//! last-chunk     = 1*"0" [ chunk-ext ] CRLF
//! ```

use crate::framing::BodyKind;
use crate::head::BadRequest;
use crate::token::{is_token_byte, is_value_byte};

/// The maximum size of all chunk extensions of a message, in bytes. No client sends any; endless ones are an attack.
pub const EXTENSION_BYTES: u16 = 256;
/// The maximum size of the trailer section, including its line ends, in bytes.
pub const TRAILER_BYTES: u16 = 4096;

/// The state of one request body. [`BodyReader::decode`] needs the bytes after the head, in order.
#[derive(Clone, Debug)]
pub struct BodyReader {
    state: BodyState,
    /// Bytes of chunk data within the limit that were not announced yet.
    data_left: u64,
    extension_left: u16,
    trailer_left: u16,
}

/// The result of one call of [`BodyReader::decode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyProgress<'b> {
    /// Bytes of the input that were read: framing and data together.
    pub consumed: usize,
    /// The body bytes, at the end of the consumed ones; may be empty.
    pub data: &'b [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyState {
    Length { left: u64 },
    Size { value: u64, digits: u8 },
    SizeSpace { value: u64 },
    ExtensionName { value: u64 },
    Extension { value: u64 },
    ExtensionQuoted { value: u64 },
    ExtensionEscaped { value: u64 },
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
    /// A reader for a body of at most `max` bytes of data. The first `decode` rejects a larger Content-Length, also with empty
    /// input: call it in this way before `100 Continue` is sent.
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
            data_left: max,
            extension_left: EXTENSION_BYTES,
            trailer_left: TRAILER_BYTES,
        }
    }

    /// Whether the last byte of the body was consumed.
    pub fn is_done(&self) -> bool {
        self.state == BodyState::Done
    }

    /// Reads framing bytes up to the next data, and this data as far as it has been received. Call it again with the rest of
    /// the input until it is used up or [`is_done`](Self::is_done). It consumes nothing only if the input is empty or the body
    /// has ended.
    ///
    /// Errors: `Chunk`, `ChunkExtension`, `Trailer`, `TrailersTooLarge`, `BodyTooLarge`; later calls return the same error.
    /// Data before the error was returned by earlier calls.
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

    /// Reads one byte of chunk framing and returns the next state.
    fn step(&mut self, byte: u8) -> Result<BodyState, BadRequest> {
        match (self.state, byte) {
            (BodyState::Size { value, digits }, _) => self.size(value, digits, byte),
            (BodyState::SizeSpace { value }, _) => self.size_end(value, byte),
            (BodyState::ExtensionName { value } | BodyState::Extension { value }, _) => {
                self.extension(value, byte)
            }
            (BodyState::ExtensionQuoted { value } | BodyState::ExtensionEscaped { value }, _) => {
                self.quoted_extension(value, byte)
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
        // Sixteen digits fill 64 bits exactly, so the shift loses no bits.
        if digits >= SIZE_DIGITS {
            return Err(BadRequest::Chunk);
        }
        Ok(BodyState::Size {
            value: (value << 4) | u64::from(digit),
            digits: digits + 1,
        })
    }

    /// Reads a byte after the last digit. White space is allowed only before an extension (RFC 9112 section 7.1.1).
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

    /// An extension begins with a name. The rest is dropped, so it is only checked for control characters.
    fn extension(&mut self, value: u64, byte: u8) -> Result<BodyState, BadRequest> {
        let has_name = matches!(self.state, BodyState::Extension { .. });
        let next = match byte {
            b'\r' if has_name => return Ok(BodyState::SizeLf { value }),
            b' ' | b'\t' if !has_name => BodyState::ExtensionName { value },
            b'"' if has_name => BodyState::ExtensionQuoted { value },
            _ if has_name && is_value_byte(byte) => BodyState::Extension { value },
            _ if is_token_byte(byte) => BodyState::Extension { value },
            _ => return Err(BadRequest::ChunkExtension),
        };
        self.spend_extension()?;
        Ok(next)
    }

    /// A line cannot end within quotes: parsers disagree on where such an extension ends (CVE-2026-33870).
    fn quoted_extension(&mut self, value: u64, byte: u8) -> Result<BodyState, BadRequest> {
        let is_escaped = matches!(self.state, BodyState::ExtensionEscaped { .. });
        let next = match byte {
            b'"' if !is_escaped => BodyState::Extension { value },
            b'\\' if !is_escaped => BodyState::ExtensionEscaped { value },
            _ if is_value_byte(byte) => BodyState::ExtensionQuoted { value },
            _ => return Err(BadRequest::ChunkExtension),
        };
        self.spend_extension()?;
        Ok(next)
    }

    fn spend_extension(&mut self) -> Result<(), BadRequest> {
        let left = self.extension_left.checked_sub(1);
        self.extension_left = left.ok_or(BadRequest::ChunkExtension)?;
        Ok(())
    }

    /// Reads the end of the size line.
    fn chunk(&mut self, value: u64) -> Result<BodyState, BadRequest> {
        if value == 0 {
            return Ok(BodyState::TrailerStart);
        }
        let data_left = self.data_left.checked_sub(value);
        self.data_left = data_left.ok_or(BadRequest::BodyTooLarge)?;
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
        let left = self.trailer_left.checked_sub(1);
        self.trailer_left = left.ok_or(BadRequest::TrailersTooLarge)?;
        Ok(next)
    }
}

const SIZE_DIGITS: u8 = 16;
const NEXT_CHUNK: BodyState = BodyState::Size {
    value: 0,
    digits: 0,
};
