//! Frames (RFC 9114 section 7.1): type and length as integers of QUIC, then the payload.

use super::code::{H3Code, H3Error};
use super::flood::H3Flood;
use super::varint;

/// The type and length of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct H3Frame {
    pub(super) kind: u64,
    /// The length of the payload, in bytes.
    pub(super) length: u64,
}

/// Reads the heads of frames, and payloads that are needed whole, from bytes that arrive in pieces.
#[derive(Debug, Default)]
pub(super) struct H3FrameReader {
    head: [u8; MAX_FRAME_HEAD],
    have: usize,
    /// The beginning of a payload of which not everything was in one piece.
    payload: Vec<u8>,
}

impl H3FrameReader {
    /// The next frame; `None`: it is incomplete, and `input` is used.
    pub(super) fn next(&mut self, input: &mut &[u8]) -> Option<H3Frame> {
        loop {
            let (first, rest) = input.split_first()?;
            *input = rest;
            // Two integers of the largest size fill the array, so it always has a place for the next byte.
            *self.head.get_mut(self.have)? = *first;
            self.have += 1;
            let mut bytes = self.head.get(..self.have)?;
            if let (Some(kind), Some(length)) = (varint::read(&mut bytes), varint::read(&mut bytes))
            {
                self.have = 0;
                return Some(H3Frame { kind, length });
            }
        }
    }

    /// The payload of `length` bytes, from `input` if all of it is there; `None`: it is incomplete, and `input` is used.
    /// [`Self::release`] must follow.
    pub(super) fn payload<'p, 'i: 'p>(
        &'p mut self,
        input: &mut &'i [u8],
        length: usize,
    ) -> Option<&'p [u8]> {
        let missing = length.saturating_sub(self.payload.len());
        let (piece, rest) = input.split_at(missing.min(input.len()));
        *input = rest;
        if self.payload.is_empty() && piece.len() == length {
            return Some(piece);
        }
        // Grows with what has arrived, not with what was announced.
        self.payload.extend_from_slice(piece);
        (self.payload.len() == length).then_some(self.payload.as_slice())
    }

    /// Releases the memory of the payload.
    pub(super) fn release(&mut self) {
        self.payload = Vec::new();
    }

    /// The number of bytes of the payload that are buffered.
    pub(super) fn buffered(&self) -> usize {
        self.payload.len()
    }

    /// Whether no part of a frame's head was read.
    pub(super) fn is_between_frames(&self) -> bool {
        self.have == 0
    }

    /// The memory of the payload, in bytes.
    pub(super) fn capacity(&self) -> usize {
        self.payload.capacity()
    }
}

/// Removes up to `count` bytes from the front of `input`.
pub(super) fn take<'i>(input: &mut &'i [u8], count: u64) -> &'i [u8] {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let (taken, rest) = input.split_at(count.min(input.len()));
    *input = rest;
    taken
}

/// Whether the type must not be skipped where it is not expected: it has a meaning on another stream, or only in HTTP/2
/// (RFC 9114 section 7.2.8).
pub(super) fn is_known(kind: u64) -> bool {
    matches!(
        kind,
        0x00..=0x09 | MAX_PUSH_ID | PRIORITY_OF_REQUEST | PRIORITY_OF_PUSH
    )
}

/// Counts a frame of an unknown type, and returns its length.
pub(super) fn skip(length: u64, flood: &mut H3Flood) -> Result<u64, H3Error> {
    if length > MAX_SKIPPED {
        return Err(H3Error::Connection(H3Code::ExcessiveLoad));
    }
    flood.idle(1)?;
    Ok(length)
}

/// The maximum length of a frame of an unknown type, in bytes. Clients send short ones, so that servers learn to skip them; RFC
/// 9114 section 10.5 permits to end a connection that uses more.
const MAX_SKIPPED: u64 = 16 * 1024;

/// Two integers of eight bytes.
const MAX_FRAME_HEAD: usize = 16;

pub(super) const DATA: u64 = 0x00;
pub(super) const HEADERS: u64 = 0x01;
pub(super) const CANCEL_PUSH: u64 = 0x03;
pub(super) const SETTINGS: u64 = 0x04;
pub(super) const GOAWAY: u64 = 0x07;
pub(super) const MAX_PUSH_ID: u64 = 0x0d;
/// `PRIORITY_UPDATE` for a request (RFC 9218 section 7.2).
pub(super) const PRIORITY_OF_REQUEST: u64 = 0xf_0700;
/// `PRIORITY_UPDATE` for a push.
pub(super) const PRIORITY_OF_PUSH: u64 = 0xf_0701;
