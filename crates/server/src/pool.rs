//! Buffers of idle connections. A connection that becomes idle returns its buffers to the pool, and the next active
//! connection reuses them without an allocation. One pool per core.

use std::cell::RefCell;

use bytes::BytesMut;
use galley_http::hpack::Block;
use galley_sys::PageSender;

/// The buffers of a core, and its pipe for bodies that are sent without a copy.
#[derive(Default)]
pub(super) struct BufferPool {
    buffers: RefCell<Vec<(BytesMut, Vec<u8>)>>,
    pub(super) pages: PageSender,
}

impl BufferPool {
    /// Takes the buffers of a connection. They contain no unused bytes.
    pub(super) fn put_back(&self, input: &mut BytesMut, output: &mut Vec<u8>) {
        if input.capacity() == 0 && output.capacity() == 0 {
            return;
        }
        let mut input = std::mem::take(input);
        let mut output = std::mem::take(output);
        let mut pool = self.buffers.borrow_mut();
        if pool.len() < MAX_BUFFERS
            && input.capacity() <= MAX_BUFFER_BYTES
            && output.capacity() <= MAX_BUFFER_BYTES
        {
            input.clear();
            output.clear();
            pool.push((input, output));
        }
    }

    /// Gives buffers to a connection that has none.
    pub(super) fn take(&self, input: &mut BytesMut, output: &mut Vec<u8>) {
        if input.capacity() == 0
            && let Some(buffers) = self.buffers.borrow_mut().pop()
        {
            (*input, *output) = buffers;
        }
    }
}

/// Buffers of a core for the turns of its HTTP/2 connections: input, parsed heads, header blocks of responses, and
/// output. The turns of a core follow one another, so the buffers are always free, large enough after the first large turn, and
/// in the processor's cache.
#[derive(Default)]
pub(super) struct OutputBuffers {
    out: RefCell<Vec<u8>>,
    input: RefCell<Vec<u8>>,
    encoded: RefCell<Vec<u8>>,
    blocks: RefCell<Vec<Block>>,
}

impl OutputBuffers {
    /// The output buffer; empty while another connection uses it.
    pub(super) fn take(&self) -> Vec<u8> {
        self.out.take()
    }

    /// Returns the output buffer.
    pub(super) fn put_back(&self, buffer: Vec<u8>) {
        keep(&self.out, buffer);
    }

    /// The input buffer.
    pub(super) fn take_input(&self) -> Vec<u8> {
        self.input.take()
    }

    /// Returns the input buffer.
    pub(super) fn return_input(&self, buffer: Vec<u8>) {
        keep(&self.input, buffer);
    }

    /// The buffer for header blocks of responses.
    pub(super) fn take_encoded(&self) -> Vec<u8> {
        self.encoded.take()
    }

    /// Returns the buffer for header blocks.
    pub(super) fn return_encoded(&self, buffer: Vec<u8>) {
        keep(&self.encoded, buffer);
    }

    /// The buffer for a head.
    pub(super) fn take_block(&self) -> Block {
        self.blocks.borrow_mut().pop().unwrap_or_default()
    }

    /// Returns the buffer for a head.
    pub(super) fn return_block(&self, mut block: Block) {
        let mut blocks = self.blocks.borrow_mut();
        if blocks.len() < MAX_BUFFERS && block.capacity() <= MAX_BLOCK_BYTES {
            block.clear();
            blocks.push(block);
        }
    }
}

fn keep(spare: &RefCell<Vec<u8>>, mut buffer: Vec<u8>) {
    buffer.clear();
    let mut spare = spare.borrow_mut();
    if buffer.capacity() > spare.capacity() && buffer.capacity() <= MAX_SPARE_BYTES {
        *spare = buffer;
    }
}

/// Maximum number of pooled buffers: connections of one core that are busy at the same time.
const MAX_BUFFERS: usize = 64;

/// A buffer that grew beyond this is freed.
const MAX_BUFFER_BYTES: usize = 64 * 1024;

/// The same limit for the output buffer: twice what a turn collects, because a buffer doubles as it grows.
const MAX_SPARE_BYTES: usize = 320 * 1024;

/// The same limit for a head; those of browsers have a kilobyte or two.
const MAX_BLOCK_BYTES: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spare_buffer_is_the_largest_within_bounds() {
        let spare = OutputBuffers::default();
        assert_eq!(spare.take().capacity(), 0);
        spare.put_back(b"old".repeat(100));
        spare.put_back(b"small".to_vec());
        spare.put_back(Vec::with_capacity(MAX_SPARE_BYTES + 1));
        let taken = spare.take();
        assert!(taken.is_empty() && (300..MAX_SPARE_BYTES).contains(&taken.capacity()));
        assert_eq!(spare.take().capacity(), 0);
    }

    #[test]
    fn buffers_go_round_empty_and_within_bounds() {
        let pool = BufferPool::default();
        let (mut input, mut output) = (BytesMut::from(&b"old"[..]), b"old".to_vec());
        pool.put_back(&mut input, &mut output);
        assert_eq!((input.capacity(), output.capacity()), (0, 0));
        pool.take(&mut input, &mut output);
        assert!(input.capacity() > 0 && input.is_empty() && output.is_empty());
        let (mut large, mut none) = (BytesMut::with_capacity(MAX_BUFFER_BYTES + 1), Vec::new());
        pool.put_back(&mut large, &mut none);
        assert!(pool.buffers.borrow().is_empty());
        for _ in 0..MAX_BUFFERS + 3 {
            pool.put_back(&mut BytesMut::with_capacity(8), &mut Vec::new());
        }
        assert_eq!(pool.buffers.borrow().len(), MAX_BUFFERS);
    }
}
