//! An HTTP/2 client that sends the raw frames of a test and returns the received frames.
//!
//! It does not enforce the protocol: the test handles flow control, stream states and limits. It encodes header blocks without
//! compression. Of received header blocks, it decodes only a status with an entry in the static table.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use self::kinds::{DATA, GOAWAY, HEADERS, RST_STREAM, SETTINGS};
use crate::error::{Context, TestkitError};

/// A received frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Frame type; see [`kinds`].
    pub kind: u8,
    /// Flags.
    pub flags: u8,
    /// Stream identifier.
    pub stream: u32,
    /// Payload.
    pub payload: Vec<u8>,
}

impl Frame {
    /// Whether it is a `DATA` or `HEADERS` frame with `END_STREAM`.
    pub fn ends_stream(&self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0
    }

    /// The status, if the header block begins with a status of the static table (RFC 7541, appendix A).
    pub fn status(&self) -> Option<u16> {
        match (self.kind, self.payload.first()) {
            (HEADERS, Some(0x88)) => Some(200),
            (HEADERS, Some(0x89)) => Some(204),
            (HEADERS, Some(0x8a)) => Some(206),
            (HEADERS, Some(0x8b)) => Some(304),
            (HEADERS, Some(0x8c)) => Some(400),
            (HEADERS, Some(0x8d)) => Some(404),
            (HEADERS, Some(0x8e)) => Some(500),
            _ => None,
        }
    }

    /// The error code of `RST_STREAM` or `GOAWAY`.
    pub fn code(&self) -> Option<u32> {
        let at = match self.kind {
            RST_STREAM => 0,
            GOAWAY => 4,
            _ => return None,
        };
        let bytes = self.payload.get(at..)?.first_chunk()?;
        Some(u32::from_be_bytes(*bytes))
    }
}

/// An HTTP/2 connection.
#[derive(Debug)]
pub struct Frames {
    stream: TcpStream,
}

impl Frames {
    /// Connects and sends the connection preface with these settings. The timeout is for each read and write.
    pub fn open(
        addr: SocketAddr,
        settings: &[(u16, u32)],
        timeout: Duration,
    ) -> Result<Self, TestkitError> {
        let stream = TcpStream::connect_timeout(&addr, timeout)
            .context(format_args!("connect to {addr}"))?;
        stream
            .set_read_timeout(Some(timeout))
            .context("set a deadline")?;
        stream
            .set_write_timeout(Some(timeout))
            .context("set a deadline")?;
        let mut frames = Self { stream };
        let preface = [PREFACE, &settings_frame(settings)].concat();
        frames.write(&preface)?;
        Ok(frames)
    }

    /// Sends raw bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), TestkitError> {
        self.stream.write_all(bytes).context("write frames")
    }

    /// Reads the next frame; acknowledges `SETTINGS`.
    ///
    /// # Errors
    /// [`TestkitError::Io`] after the timeout, or if the connection has ended.
    pub fn receive(&mut self) -> Result<Frame, TestkitError> {
        let mut head = [0; 9];
        self.read(&mut head)?;
        let [a, b, c, kind, flags, stream @ ..] = head;
        let length = u32::from_be_bytes([0, a, b, c]);
        let mut payload = vec![0; usize::try_from(length).unwrap_or_default()];
        self.read(&mut payload)?;
        let frame = Frame {
            kind,
            flags,
            stream: u32::from_be_bytes(stream),
            payload,
        };
        if frame.kind == SETTINGS && frame.flags & ACK == 0 {
            // If the server has closed the connection, the next read fails.
            let _ = self.write(&bytes_of(SETTINGS, ACK, 0, &[]));
        }
        Ok(frame)
    }

    /// Reads frames up to and including the first that satisfies the condition.
    ///
    /// # Errors
    /// As [`Frames::receive`].
    pub fn until(
        &mut self,
        condition: impl Fn(&Frame) -> bool,
    ) -> Result<Vec<Frame>, TestkitError> {
        let mut frames = Vec::new();
        loop {
            let frame = self.receive()?;
            let is_last = condition(&frame);
            frames.push(frame);
            if is_last {
                return Ok(frames);
            }
        }
    }

    /// Reads all frames until the connection ends.
    ///
    /// # Errors
    /// [`TestkitError::Io`] if it does not end in time.
    pub fn until_closed(&mut self) -> Result<Vec<Frame>, TestkitError> {
        let mut frames = Vec::new();
        loop {
            match self.receive() {
                Ok(frame) => frames.push(frame),
                Err(error) if error.is_timeout() => return Err(error),
                Err(_) => return Ok(frames),
            }
        }
    }

    /// The TCP stream.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    fn read(&mut self, into: &mut [u8]) -> Result<(), TestkitError> {
        self.stream.read_exact(into).context("read a frame")
    }
}

/// Encodes a frame.
pub fn bytes_of(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or_default();
    let [_, a, b, c] = length.to_be_bytes();
    let mut bytes = vec![a, b, c, kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Encodes a `SETTINGS` frame with these identifiers and values.
pub fn settings_frame(settings: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<u8> = settings
        .iter()
        .flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat())
        .collect();
    bytes_of(SETTINGS, 0, 0, &payload)
}

/// Encodes a header block with literal fields without indexing (RFC 7541 section 6.2.2).
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            write_length(&mut block, text.len());
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// Encodes an integer with a prefix of seven bits (RFC 7541 section 5.1).
fn write_length(block: &mut Vec<u8>, length: usize) {
    let byte = |part: usize| u8::try_from(part).unwrap_or_default();
    if length < 127 {
        return block.push(byte(length));
    }
    block.push(127);
    let mut rest = length - 127;
    while rest >= 128 {
        block.push(byte(rest % 128 + 128));
        rest /= 128;
    }
    block.push(byte(rest));
}

/// Encodes a `HEADERS` frame with a whole header block.
pub fn head_frame(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    bytes_of(HEADERS, flags | END_HEADERS, stream, &block(fields))
}

/// The connection preface of a client (RFC 9113 section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Frame types (RFC 9113 section 6).
#[expect(missing_docs, reason = "the frames' own names")]
pub mod kinds {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}
/// Flag of `DATA` and `HEADERS`.
pub const END_STREAM: u8 = 1;
/// Flag of `SETTINGS` and `PING`.
pub const ACK: u8 = 1;
/// Flag of `HEADERS` and `CONTINUATION`.
pub const END_HEADERS: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_encoded_as_hpack_integers() {
        let encoded = |length| {
            let mut block = Vec::new();
            write_length(&mut block, length);
            block
        };
        assert_eq!(encoded(5), [5]);
        assert_eq!(encoded(126), [126]);
        assert_eq!(encoded(127), [127, 0]);
        // RFC 7541, appendix C.1.2, with a prefix of two more bits.
        assert_eq!(encoded(1337), [127, 186, 9]);
        assert_eq!(block(&[("a", "bc")]), [0, 1, b'a', 2, b'b', b'c']);
        assert_eq!(
            bytes_of(DATA, END_STREAM, 5, b"x"),
            [0, 0, 1, 0, 1, 0, 0, 0, 5, b'x']
        );
    }
}
