//! The bytes to be written to the responder, as a [`Buf`] of pieces for one vectored write.
//!
//! Small pieces (headers, variables, small bodies) are copied together, so that one write sends them even through a writer
//! without vectored writes. Larger pieces of a body are queued without a copy. The exchange limits the size of the queue.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes, BytesMut};

/// A queue of bytes.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// Complete pieces, none of them empty, oldest first.
    pieces: VecDeque<Bytes>,
    /// Copied bytes that follow all `pieces`.
    tail: BytesMut,
    /// The length of both, in bytes.
    length: usize,
}

impl Outgoing {
    /// Appends the bytes that `write` appends to the buffer. It must not change existing bytes.
    pub(crate) fn encode<T>(&mut self, write: impl FnOnce(&mut BytesMut) -> T) -> T {
        let before = self.tail.len();
        let result = write(&mut self.tail);
        self.length += self.tail.len().saturating_sub(before);
        result
    }

    /// Appends content. Copies it if it is small.
    pub(crate) fn push(&mut self, content: Bytes) {
        self.length += content.len();
        if content.len() <= COPIED_BYTES {
            self.tail.extend_from_slice(&content);
            return;
        }
        if !self.tail.is_empty() {
            self.pieces.push_back(self.tail.split().freeze());
        }
        self.pieces.push_back(content);
    }

    pub(crate) fn clear(&mut self) {
        *self = Outgoing::default();
    }
}

impl Buf for Outgoing {
    fn remaining(&self) -> usize {
        self.length
    }

    fn chunk(&self) -> &[u8] {
        self.pieces
            .front()
            .map_or(&self.tail[..], |piece| &piece[..])
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let all = self
            .pieces
            .iter()
            .map(|piece| &piece[..])
            .chain(std::iter::once(&self.tail[..]));
        let mut count = 0;
        for (slot, bytes) in slices.iter_mut().zip(all.filter(|bytes| !bytes.is_empty())) {
            *slot = IoSlice::new(bytes);
            count += 1;
        }
        count
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.length, "advanced beyond what is there");
        self.length -= count;
        while let Some(front) = self.pieces.front_mut() {
            if count < front.len() {
                front.advance(count);
                return;
            }
            count -= front.len();
            self.pieces.pop_front();
        }
        self.tail.advance(count);
    }
}

/// Content up to this size is copied after its header: this takes about a microsecond, less than another slice of a vectored
/// write and a reference for it. So one write can send a whole request with a login form or a REST call.
const COPIED_BYTES: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn small_content_is_one_piece() {
        let mut outgoing = Outgoing::default();
        outgoing.encode(|out| out.extend_from_slice(b"head"));
        outgoing.push(Bytes::from(vec![1; COPIED_BYTES]));
        outgoing.encode(|out| out.extend_from_slice(b"end"));
        assert_eq!(outgoing.chunk().len(), outgoing.remaining());
    }

    #[test]
    fn large_content_is_not_copied() {
        let content = Bytes::from(vec![1; COPIED_BYTES + 1]);
        let mut outgoing = Outgoing::default();
        outgoing.encode(|out| out.extend_from_slice(b"head"));
        outgoing.push(content.clone());
        outgoing.advance(4);
        assert_eq!(outgoing.chunk().as_ptr(), content.as_ptr());
    }

    proptest! {
        /// Pieces of any size, consumed in steps of any size, keep their order.
        #[test]
        fn order_is_kept(sizes in proptest::collection::vec(0_usize..20_000, 0..12), steps in proptest::collection::vec(1_usize..30_000, 1..40)) {
            let mut outgoing = Outgoing::default();
            let mut expected = Vec::new();
            for (index, size) in sizes.into_iter().enumerate() {
                let content = vec![u8::try_from(index).unwrap(); size];
                expected.extend_from_slice(&content);
                if index % 3 == 0 { outgoing.encode(|out| out.extend_from_slice(&content)) } else { outgoing.push(Bytes::from(content)) }
            }
            let mut seen = Vec::new();
            for step in steps.into_iter().cycle() {
                let mut slices = [IoSlice::new(&[]); 4];
                let count = outgoing.chunks_vectored(&mut slices);
                prop_assert_eq!(outgoing.remaining(), expected.len() - seen.len());
                if count == 0 { break }
                let joined = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect::<Vec<u8>>();
                let taken = step.min(joined.len());
                seen.extend_from_slice(&joined[..taken]);
                outgoing.advance(taken);
            }
            prop_assert_eq!(seen, expected);
        }
    }
}
