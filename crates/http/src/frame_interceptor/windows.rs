//! The client's window of the connection, divided between the owner's responses and the library's (RFC 9113 section 6.9).
//!
//! The client counts one window. The library gets a part of it; both parts together never exceed the client's window. While
//! the library has streams it gets half, or all of a small window: a client that opens its window only when most of it is
//! used must not wait for the unused half. Otherwise it gets the initial window of a connection, for its next stream.

use super::frame::{FrameHeader, WINDOW_UPDATE};

/// See the module.
#[derive(Debug)]
pub(super) struct Windows {
    ours: u32,
    /// What the library may still send, as far as it knows.
    library: u32,
    /// Each stream's, at its beginning.
    initial: u32,
    is_lent: bool,
}

impl Default for Windows {
    fn default() -> Self {
        Self {
            ours: 0,
            library: FIRST,
            initial: FIRST,
            is_lent: false,
        }
    }
}

impl Windows {
    /// Opens the connection's window; `None`: further than there is.
    pub(super) fn open(&mut self, increment: u32) -> Option<()> {
        let ours = self.ours.checked_add(increment)?;
        if ours.checked_add(self.library)? > MOST {
            return None;
        }
        self.ours = ours;
        Some(())
    }

    /// Gives the library its share, by a frame of the kind that the client would send.
    pub(super) fn share(&mut self, through: &mut Vec<u8>) {
        let all = self.ours + self.library;
        let fair = match self.is_lent {
            true if all <= 2 * FIRST => all,
            true => all / 2,
            false => FIRST,
        };
        let more = fair.saturating_sub(self.library).min(self.ours);
        if more > 0 {
            self.ours -= more;
            self.library += more;
            FrameHeader {
                length: 4,
                kind: WINDOW_UPDATE,
                flags: 0,
                stream: 0,
            }
            .write(through);
            through.extend_from_slice(&more.to_be_bytes());
        }
    }

    /// Bytes that a stream and the connection have room for.
    pub(super) fn room(&self) -> usize {
        self.ours.min(self.initial) as usize
    }

    /// Takes from the owner's share, if a stream and the connection have room.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let Ok(bytes) = u32::try_from(bytes) else {
            return false;
        };
        let left = self.ours.checked_sub(bytes);
        match left {
            Some(left) if bytes <= self.initial => {
                self.ours = left;
                true
            }
            _ => false,
        }
    }

    /// The library has a stream.
    pub(super) fn lend(&mut self) {
        self.is_lent = true;
    }

    /// It has none.
    pub(super) fn end_loan(&mut self) {
        self.is_lent = false;
    }

    pub(super) fn library_sent(&mut self, bytes: u32) {
        self.library = self.library.saturating_sub(bytes);
    }

    pub(super) fn set_initial(&mut self, bytes: u32) {
        self.initial = bytes;
    }
}

/// Of a stream and of a connection, unless their client says something else (RFC 9113 section 6.9.2).
const FIRST: u32 = 65_535;

/// RFC 9113 section 6.9.1.
const MOST: u32 = u32::MAX >> 1;
