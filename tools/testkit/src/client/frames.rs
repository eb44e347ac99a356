//! An HTTP/2 client that sends what the test wrote, frame by frame, and shows the frames that come.
//!
//! It keeps no rule of the protocol: windows, states of streams and limits are the test's affair. Heads are written without
//! compression; of heads that come only the status is read, and that only where it has an index of its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use self::kinds::{DATA, GOAWAY, HEADERS, RST_STREAM, SETTINGS};
use crate::error::{Context, TestkitError};

/// A frame as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its type; see the constants.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// Its stream.
    pub stream: u32,
    /// What it holds.
    pub payload: Vec<u8>,
}

impl Frame {
    /// Whether it is the last one of its stream.
    pub fn ends_stream(&self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0
    }

    /// The status, of a head that begins with one of those that have an index (RFC 7541, appendix A).
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

    /// The error code of a reset, or of a farewell.
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

/// A connection.
#[derive(Debug)]
pub struct Frames {
    stream: TcpStream,
}

impl Frames {
    /// Connects and sends the greeting with these settings. Each wait may take so long.
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
        let greeting = [PREFACE, &settings_frame(settings)].concat();
        frames.write(&greeting)?;
        Ok(frames)
    }

    /// Sends bytes, whatever they mean.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), TestkitError> {
        self.stream.write_all(bytes).context("write frames")
    }

    /// The next frame; settings are acknowledged.
    ///
    /// # Errors
    /// [`TestkitError::Io`] when none comes in time or the connection has ended.
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
            // The other side may have closed already; then the next read says so.
            let _ = self.write(&bytes_of(SETTINGS, ACK, 0, &[]));
        }
        Ok(frame)
    }

    /// Frames up to the first one that is wanted, that one included.
    ///
    /// # Errors
    /// As [`Frames::receive`].
    pub fn until(
        &mut self,
        is_wanted: impl Fn(&Frame) -> bool,
    ) -> Result<Vec<Frame>, TestkitError> {
        let mut frames = Vec::new();
        loop {
            let frame = self.receive()?;
            let is_last = is_wanted(&frame);
            frames.push(frame);
            if is_last {
                return Ok(frames);
            }
        }
    }

    /// All frames until the connection ends.
    ///
    /// # Errors
    /// [`TestkitError::Io`] when it does not end in time.
    pub fn until_closed(&mut self) -> Result<Vec<Frame>, TestkitError> {
        let mut frames = Vec::new();
        loop {
            match self.receive() {
                Ok(frame) => frames.push(frame),
                Err(trouble) if trouble.is_timeout() => return Err(trouble),
                Err(_) => return Ok(frames),
            }
        }
    }

    /// The stream itself.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    fn read(&mut self, into: &mut [u8]) -> Result<(), TestkitError> {
        self.stream.read_exact(into).context("read a frame")
    }
}

/// The bytes of a frame.
pub fn bytes_of(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or_default();
    let [_, a, b, c] = length.to_be_bytes();
    let mut bytes = vec![a, b, c, kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// `SETTINGS` with these identifiers and values.
pub fn settings_frame(settings: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<u8> = settings
        .iter()
        .flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat())
        .collect();
    bytes_of(SETTINGS, 0, 0, &payload)
}

/// A header block: each field literal, neither compressed nor remembered (RFC 7541 section 6.2.2).
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

/// An integer with a prefix of seven bits (RFC 7541 section 5.1).
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

/// The head of a request in one frame.
pub fn head_frame(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    bytes_of(HEADERS, flags | END_HEADERS, stream, &block(fields))
}

/// What a client says first (RFC 9113 section 3.4).
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
    fn lengths_are_written_as_hpack_has_them() {
        let written = |length| {
            let mut block = Vec::new();
            write_length(&mut block, length);
            block
        };
        assert_eq!(written(5), [5]);
        assert_eq!(written(126), [126]);
        assert_eq!(written(127), [127, 0]);
        // RFC 7541, appendix C.1.2, with two bits more.
        assert_eq!(written(1337), [127, 186, 9]);
        assert_eq!(block(&[("a", "bc")]), [0, 1, b'a', 2, b'b', b'c']);
        assert_eq!(
            bytes_of(DATA, END_STREAM, 5, b"x"),
            [0, 0, 1, 0, 1, 0, 0, 0, 5, b'x']
        );
    }
}
