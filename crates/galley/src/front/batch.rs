//! Hits that leave together: the answers to requests that came together, in their order, in one vectored write.
//!
//! Heads lie one behind the other in the connection's output buffer, bodies where they are stored. Nothing is copied to
//! resume a write that came only so far: the bytes that left say where it stands, and afterwards which answer had what.

use std::io::IoSlice;
use std::net::IpAddr;
use std::rc::Rc;

use smallvec::SmallVec;

use super::memo::Remembered;
use super::record::Said;
use crate::serve::Hit;

/// A hit whose head is in the output buffer.
pub(super) struct Ready<'b> {
    pub(super) hit: Hit,
    pub(super) said: Told<'b>,
    /// Who asks.
    pub(super) client: IpAddr,
    /// Where its head ends in the output buffer.
    pub(super) head_end: usize,
    pub(super) keep_alive: bool,
    /// Which of the core's logs.
    pub(super) log: usize,
    /// The site's number.
    pub(super) site: u32,
}

/// The words of a request, for its record.
pub(super) enum Told<'b> {
    /// As they came.
    Now(Said<'b>),
    /// As they came before.
    Before(Rc<Remembered>),
}

/// See the module.
pub(super) struct Batch<'b>(Vec<Ready<'b>>);

/// The slices of one write.
pub(super) type Slices<'a> = SmallVec<[IoSlice<'a>; 2 * MOST_ANSWERS]>;

impl<'b> Batch<'b> {
    /// An empty one, in room that was used before.
    pub(super) fn within(room: Vec<Ready<'static>>) -> Self {
        Self(recycled(room))
    }

    /// The room.
    pub(super) fn into_room(self) -> Vec<Ready<'static>> {
        recycled(self.0)
    }

    pub(super) fn push(&mut self, ready: Ready<'b>) {
        self.0.push(ready);
    }

    pub(super) fn answers(&self) -> &[Ready<'b>] {
        &self.0
    }

    /// Whether another answer may join: a client that asks without end is not to keep its core, nor to make it gather more
    /// than a socket takes at once.
    pub(super) fn has_room(&self) -> bool {
        let bytes: usize = self.0.iter().map(|ready| ready.hit.body().len()).sum();
        self.0.len() < MOST_ANSWERS && bytes < MOST_BYTES
    }

    /// The bytes of all of it.
    pub(super) fn length(&self, heads: &[u8]) -> usize {
        let bodies = self.0.iter().map(|ready| ready.hit.body().len());
        heads.len() + bodies.sum::<usize>()
    }

    /// What is to be written when `written` bytes have left; empty at the end.
    pub(super) fn slices<'a>(&'a self, heads: &'a [u8], written: usize) -> Slices<'a> {
        let mut slices = Slices::new();
        let (mut head_start, mut skip) = (0, written);
        for ready in &self.0 {
            let head = heads.get(head_start..ready.head_end).unwrap_or_default();
            head_start = ready.head_end;
            for piece in [head, ready.hit.body()] {
                match piece.get(skip..) {
                    Some(left) => {
                        skip = 0;
                        if !left.is_empty() {
                            slices.push(IoSlice::new(left));
                        }
                    }
                    None => skip -= piece.len(),
                }
            }
        }
        slices
    }

    /// Each answer with the bytes of its body that left, and whether any byte of it did not.
    pub(super) fn ends(&self, written: usize) -> impl Iterator<Item = (&Ready<'b>, u64, bool)> {
        let (mut head_start, mut left) = (0, written);
        self.0.iter().map(move |ready| {
            let head = ready.head_end - head_start;
            head_start = ready.head_end;
            let body = ready.hit.body().len();
            let of_body = left.saturating_sub(head).min(body);
            let is_short = left < head + body;
            left = left.saturating_sub(head + body);
            (ready, of_body as u64, is_short)
        })
    }
}

/// The same room for answers that borrow from somewhere else: collecting nothing reuses the memory.
fn recycled<'to>(mut room: Vec<Ready<'_>>) -> Vec<Ready<'to>> {
    room.clear();
    room.into_iter().map_while(|_| None).collect()
}

/// Answers that leave together at most, and the turns a connection gets before others have theirs.
pub(super) const MOST_ANSWERS: usize = 32;

/// Bytes of bodies after which no further answer joins.
const MOST_BYTES: usize = 256 * 1024;
