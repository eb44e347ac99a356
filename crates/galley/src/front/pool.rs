//! Buffers of connections that ask nothing: given back, so that an idle connection holds none, and handed to whoever asks next,
//! so that a busy one allocates none. One pool per core.

use std::cell::RefCell;

use bytes::BytesMut;

/// See the module.
#[derive(Default)]
pub(super) struct Pool(RefCell<Vec<(BytesMut, Vec<u8>)>>);

impl Pool {
    /// Takes a connection's buffers, which hold nothing that is still wanted.
    pub(super) fn give(&self, input: &mut BytesMut, output: &mut Vec<u8>) {
        if input.capacity() == 0 && output.capacity() == 0 {
            return;
        }
        let mut input = std::mem::take(input);
        let mut output = std::mem::take(output);
        let mut pool = self.0.borrow_mut();
        if pool.len() < MOST && input.capacity() <= LARGEST && output.capacity() <= LARGEST {
            input.clear();
            output.clear();
            pool.push((input, output));
        }
    }

    /// Gives a connection that has none buffers of another one.
    pub(super) fn take(&self, input: &mut BytesMut, output: &mut Vec<u8>) {
        if input.capacity() == 0
            && let Some(buffers) = self.0.borrow_mut().pop()
        {
            (*input, *output) = buffers;
        }
    }
}

/// Buffers that wait at most: connections of one core that are busy at one moment.
const MOST: usize = 64;

/// A buffer that grew beyond this goes back to the system.
const LARGEST: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_go_round_empty_and_within_bounds() {
        let pool = Pool::default();
        let (mut input, mut output) = (BytesMut::from(&b"old"[..]), b"old".to_vec());
        pool.give(&mut input, &mut output);
        assert_eq!((input.capacity(), output.capacity()), (0, 0));
        pool.take(&mut input, &mut output);
        assert!(input.capacity() > 0 && input.is_empty() && output.is_empty());
        let (mut large, mut none) = (BytesMut::with_capacity(LARGEST + 1), Vec::new());
        pool.give(&mut large, &mut none);
        assert!(pool.0.borrow().is_empty());
        for _ in 0..MOST + 3 {
            pool.give(&mut BytesMut::with_capacity(8), &mut Vec::new());
        }
        assert_eq!(pool.0.borrow().len(), MOST);
    }
}
