//! The connection's send window, divided between the caller's responses and the library's (RFC 9113 section 6.9).
//!
//! The client counts one window. The library gets a part of it; both parts together never exceed the client's window. While
//! the library has streams it gets half, or all of a small window, because a client may open its window only after most
//! of it is used. Without streams it gets the initial window of a connection, for its next stream.

use super::frame::{FrameHeader, WINDOW_UPDATE};

/// The send window of a connection. See the module.
#[derive(Debug)]
pub(super) struct SendWindows {
    ours: u32,
    /// The library's part, as far as the library knows.
    library: u32,
    /// The initial window of each stream.
    initial: u32,
    has_library_streams: bool,
}

impl Default for SendWindows {
    fn default() -> Self {
        Self {
            ours: 0,
            library: FIRST,
            initial: FIRST,
            has_library_streams: false,
        }
    }
}

impl SendWindows {
    /// Enlarges the connection's window; `None` if it would exceed the maximum.
    pub(super) fn open(&mut self, increment: u32) -> Option<()> {
        let ours = self.ours.checked_add(increment)?;
        if ours.checked_add(self.library)? > MAX_WINDOW {
            return None;
        }
        self.ours = ours;
        Some(())
    }

    /// Gives the library its part, by a `WINDOW_UPDATE` like one of the client.
    pub(super) fn share(&mut self, through: &mut Vec<u8>) {
        let all = self.ours + self.library;
        let fair = match self.has_library_streams {
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

    /// The number of bytes that fit into the windows of a new stream and of the connection.
    pub(super) fn available(&self) -> usize {
        self.ours.min(self.initial) as usize
    }

    /// Reserves bytes of the caller's part, if they fit into the windows of a new stream and of the connection.
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
    pub(super) fn library_starts(&mut self) {
        self.has_library_streams = true;
    }

    /// The library has no streams.
    pub(super) fn library_ends(&mut self) {
        self.has_library_streams = false;
    }

    pub(super) fn library_sent(&mut self, bytes: u32) {
        self.library = self.library.saturating_sub(bytes);
    }

    pub(super) fn set_initial(&mut self, bytes: u32) {
        self.initial = bytes;
    }
}

/// The initial window of a stream and of a connection, unless the client changes it (RFC 9113 section 6.9.2).
const FIRST: u32 = 65_535;

/// The maximum window (RFC 9113 section 6.9.1).
const MAX_WINDOW: u32 = u32::MAX >> 1;
