//! Handing requests on to the library: its whole head, written anew, or no more than that there is one.

use super::{
    CONTINUATION, END_HEADERS, END_STREAM, FrameInterceptor, HAS_PRIORITY, HEADERS, MOST_FRAME,
    Opening, write_frame_head,
};
use crate::hpack::{self, Block};

impl FrameInterceptor {
    /// Hands a head on to the library, its fields in `block`.
    pub fn pass(&mut self, opening: &Opening, block: &Block, through: &mut Vec<u8>) {
        self.passed = self.passed.max(opening.stream);
        self.windows.lend();
        self.windows.share(through);
        let mut encoded = opening.priority.map(Vec::from).unwrap_or_default();
        for (name, value) in block.fields() {
            hpack::write_field(&mut encoded, name, value);
        }
        if block.list_bytes() > self.most {
            // What was not kept: the library has the same limit, and an answer for whoever breaks it.
            hpack::write_field(&mut encoded, b"x", &vec![b'x'; self.most]);
        }
        let flags = if opening.is_end { END_STREAM } else { 0 };
        let flags = flags | opening.priority.map_or(0, |_| HAS_PRIORITY);
        let mut parts = encoded.chunks(MOST_FRAME).peekable();
        let mut kind = (HEADERS, flags);
        // A block without fields is a frame too.
        let mut part: &[u8] = parts.next().unwrap_or_default();
        loop {
            let next = parts.next();
            if next.is_none() {
                kind.1 |= END_HEADERS;
            }
            write_frame_head(through, part.len(), kind, opening.stream);
            through.extend_from_slice(part);
            kind = (CONTINUATION, 0);
            match next {
                Some(next) => part = next,
                None => return,
            }
        }
    }

    /// Hands on that there is a request without a body. Its owner has the head: the library needs the stream alone, and reads
    /// no more than it must. The stub's method is one that nobody serves.
    pub fn pass_stub(&mut self, opening: &Opening, through: &mut Vec<u8>) {
        self.passed = self.passed.max(opening.stream);
        self.windows.lend();
        self.windows.share(through);
        let mut encoded = Vec::with_capacity(STUB_BYTES);
        // A dependency may break the protocol, which the library judges.
        encoded.extend_from_slice(opening.priority.as_ref().map_or(&[], |priority| priority));
        for (name, value) in [
            (":method", "PARSED"),
            (":scheme", "http"),
            (":path", "/"),
            (":authority", "a"),
        ] {
            hpack::write_field(&mut encoded, name.as_bytes(), value.as_bytes());
        }
        let flags = END_STREAM | END_HEADERS | opening.priority.map_or(0, |_| HAS_PRIORITY);
        write_frame_head(through, encoded.len(), (HEADERS, flags), opening.stream);
        through.extend_from_slice(&encoded);
    }
}

/// A stub's header block takes fewer.
const STUB_BYTES: usize = 64;
