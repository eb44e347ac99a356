//! The socket below the library: input is sorted, and the output of many streams is sent in few writes.
//!
//! Input goes to the [`FrameInterceptor`] first; the library reads the rest. The library writes frame by frame and flushes
//! in between. Here its frames are collected, and sent when the connection's turn ends ([`FramedSocket::poll_out`]) or when
//! there are many. While the client reads nothing, no more than [`MOST_OUT`] is collected; the library then stops writing,
//! and nothing more is read. The [`FrameLedger`] sees every byte in either direction.

use std::cell::RefCell;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use galley_http::frame_interceptor::{
    self, FrameError, FrameInterceptor, Intercepted, Opening, PREFACE,
};
use galley_http::hpack::Block;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use super::super::socket::Unsent;
use super::ledger::FrameLedger;
use crate::server::Core;
use crate::server::pool::Spare;
use crate::server::timer::Timers;

/// The socket with the pending bytes of both directions.
pub(super) struct FramedSocket<S> {
    stream: S,
    /// Input that was not sorted yet.
    input: Vec<u8>,
    /// How much of `input` was.
    sorted: usize,
    /// Whether there may be a whole frame in the rest.
    is_unsorted: bool,
    /// The client sends no more.
    is_ended: bool,
    /// Bytes of the client's greeting that the library has not read.
    greeting: usize,
    sieve: FrameInterceptor,
    /// What the library is to read.
    through: Vec<u8>,
    /// How much of `through` it has read.
    taken: usize,
    out: Vec<u8>,
    /// How much of `out` has left.
    at: usize,
    /// A stream of records may keep the last one back.
    is_unflushed: bool,
    /// The last output was not sent at once.
    is_slow: bool,
    /// The library had to stop.
    held: bool,
    /// Bytes that have left since the beginning.
    pub(super) written: u64,
    pub(super) ledger: FrameLedger,
    timers: Rc<Timers>,
    spare: Rc<Spare>,
}

/// The library's hold on it.
pub(super) struct Half<S>(pub(super) Rc<RefCell<FramedSocket<S>>>);

impl<S: AsyncRead + AsyncWrite + Unpin> FramedSocket<S> {
    /// `begun` came before it was known to be HTTP/2; `most` is what a head may have.
    pub(super) fn new(stream: S, begun: &BytesMut, core: &Core, most: usize) -> Self {
        let now_ms = core.timers.now_ms();
        let mut ledger = FrameLedger::new(now_ms);
        ledger.receive(begun, now_ms);
        Self {
            stream,
            input: begun.to_vec(),
            sorted: 0,
            is_unsorted: !begun.is_empty(),
            is_ended: false,
            greeting: PREFACE.len(),
            sieve: FrameInterceptor::new(most),
            through: Vec::new(),
            taken: 0,
            out: Vec::new(),
            at: 0,
            is_unflushed: false,
            is_slow: false,
            held: false,
            written: 0,
            ledger,
            timers: Rc::clone(&core.timers),
            spare: Rc::clone(&core.spare),
        }
    }

    /// Whether everything that was collected has left, also from a stream of records.
    pub(super) fn is_empty(&self) -> bool {
        self.out.is_empty() && !self.is_unflushed
    }

    /// Whether more may be collected: while the client takes nothing, nothing more is read for it.
    pub(super) fn has_room(&self) -> bool {
        self.out.len() < self.most_out()
    }

    /// Bytes that may be collected: few for a client that did not take the last ones at once.
    pub(super) fn most_out(&self) -> usize {
        if self.is_slow {
            MOST_OUT_SLOW
        } else {
            MOST_OUT
        }
    }

    /// Whether the library had to stop since the last time, and may go on now.
    pub(super) fn take_held(&mut self) -> bool {
        self.has_room() && std::mem::take(&mut self.held)
    }

    /// Whether there are bytes for the library to read.
    pub(super) fn has_through(&self) -> bool {
        self.taken < self.through.len()
    }

    /// Whether the library has not consumed its input.
    pub(super) fn is_clogged(&self) -> bool {
        self.through.len() - self.taken > MOST_THROUGH
    }

    /// Whether something came that was not sorted, because there were too many.
    pub(super) fn has_unsorted(&self) -> bool {
        self.is_unsorted
    }

    /// Whether the client sends no more.
    pub(super) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Gives the memory back that nothing waits in.
    pub(super) fn rest(&mut self) {
        if self.out.is_empty() && self.out.capacity() > 0 {
            self.spare.give(std::mem::take(&mut self.out));
        }
        if self.input.is_empty() && self.input.capacity() > 0 {
            self.spare.give_input(std::mem::take(&mut self.input));
        }
        if self.through.is_empty() {
            self.through = Vec::new();
        }
    }

    /// Reads what has arrived; ready if there was something, or at the end.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.ledger.flood().is_some() || self.is_ended {
            // Not another frame of it: the connection's turn ends, and with it the connection.
            return Poll::Pending;
        }
        if self.input.capacity() == 0 {
            self.input = self.spare.take_input();
        }
        let before = self.input.len();
        self.input.reserve(READ_BYTES);
        let count = ready!(pin!(self.stream.read_buf(&mut self.input)).poll(cx))?;
        self.is_ended = count == 0;
        self.is_unsorted = true;
        let came = self.input.get(before..).unwrap_or_default();
        self.ledger.receive(came, self.timers.now_ms());
        Poll::Ready(Ok(()))
    }

    /// Sorts the input up to the next head, which it reads into `block`.
    pub(super) fn sort(&mut self, block: &mut Block) -> Result<Intercepted, FrameError> {
        let all = self.input.get(self.sorted..).unwrap_or_default();
        let mut rest = all;
        let step = self.sieve.next(&mut rest, &mut self.through, block)?;
        self.sorted += all.len() - rest.len();
        if step == Intercepted::More {
            // The rest is the beginning of one frame.
            self.input.drain(..self.sorted);
            self.sorted = 0;
            self.is_unsorted = false;
        }
        Ok(step)
    }

    /// Hands a head to the library.
    pub(super) fn pass(&mut self, opening: &Opening, block: &Block) {
        self.sieve.pass(opening, block, &mut self.through);
    }

    /// Hands the library a request without a body whose head it need not read.
    pub(super) fn pass_stub(&mut self, opening: &Opening) {
        self.sieve.pass_stub(opening, &mut self.through);
    }

    /// Whether a head may be answered here: between two frames of the library, whole heads of it.
    pub(super) fn may_respond(&self, opening: &Opening, block: &Block) -> bool {
        self.sieve.may_respond(opening, block) && self.ledger.is_between_frames()
    }

    /// Bytes of a body that the client has room for.
    pub(super) fn window(&self) -> usize {
        self.sieve.window()
    }

    /// Takes room for the body of an answer, if the client has it.
    pub(super) fn take_window(&mut self, bytes: usize) -> bool {
        self.sieve.take_window(bytes)
    }

    /// Collects an answer: its header block, and its body.
    pub(super) fn write_response(&mut self, stream: u32, encoded: &[u8], body: &[u8]) {
        if self.out.capacity() == 0 {
            self.out = self.spare.take();
        }
        let before = self.out.len();
        frame_interceptor::write_head(&mut self.out, stream, body.is_empty(), encoded);
        frame_interceptor::write_body(&mut self.out, stream, body);
        let frames = self.out.get(before..).unwrap_or_default();
        self.ledger.send(frames, self.timers.now_ms());
    }

    /// Tells that the library has no stream left.
    pub(super) fn library_rests(&mut self) {
        self.sieve.library_rests();
    }

    /// Sends the collected output; ready when all of it has been sent.
    pub(super) fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let leaves_at_once = self.at == 0 && !self.out.is_empty();
        while self.at < self.out.len() {
            let rest = self.out.get(self.at..).unwrap_or_default();
            let Poll::Ready(count) = Pin::new(&mut self.stream).poll_write(cx, rest) else {
                self.stall();
                return Poll::Pending;
            };
            let count = count?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.at += count;
            self.written += count as u64;
            self.is_unflushed = true;
        }
        self.is_slow &= !leaves_at_once;
        self.out.clear();
        self.at = 0;
        if self.is_unflushed {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.is_unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// The client does not take all of it: what waits for it keeps no more room than it needs.
    fn stall(&mut self) {
        self.is_slow = true;
        let rest = self.out.len() - self.at;
        if self.out.capacity() - rest > MOST_OUT_SLOW {
            self.out.drain(..self.at);
            self.at = 0;
            self.out.shrink_to_fit();
        }
    }

    /// Bytes that have arrived since the beginning, as far as the system knows.
    pub(super) fn arrived(&self) -> u64
    where
        S: Unsent,
    {
        self.written.saturating_sub(self.stream.unsent())
    }

    /// Says that nothing follows.
    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_out(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    /// Reads and throws away: how much; 0 at the end.
    pub(super) fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut room = [0; 4096];
        let mut into = ReadBuf::new(&mut room);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut into))?;
        Poll::Ready(Ok(into.filled().len()))
    }

    /// What the library reads: the preface as it arrives, then the sorted input.
    fn poll_in(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.greeting > 0 {
            if self.input.is_empty() && !self.is_ended {
                ready!(self.poll_fill(cx))?;
            }
            let count = self.greeting.min(self.input.len()).min(into.remaining());
            into.put_slice(self.input.get(..count).unwrap_or_default());
            self.input.drain(..count);
            self.greeting -= count;
            return Poll::Ready(Ok(()));
        }
        let waits = self.through.get(self.taken..).unwrap_or_default();
        if waits.is_empty() {
            // The connection reads, and polls the library when there is something for it.
            return if self.is_ended {
                Poll::Ready(Ok(()))
            } else {
                Poll::Pending
            };
        }
        let count = waits.len().min(into.remaining());
        into.put_slice(waits.get(..count).unwrap_or_default());
        self.taken += count;
        if self.taken == self.through.len() {
            self.through.clear();
            self.taken = 0;
        }
        Poll::Ready(Ok(()))
    }

    /// Collects bytes: how many. Sends them if there are many.
    fn poll_collect(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if !self.has_room() {
            match self.poll_out(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.held = true;
                    return Poll::Pending;
                }
            }
        }
        let now_ms = self.timers.now_ms();
        if self.out.capacity() == 0 {
            self.out = self.spare.take();
        }
        let count = pieces.iter().map(|piece| piece.len()).sum();
        self.out.reserve(count);
        for piece in pieces {
            let data = self.ledger.send(piece, now_ms);
            if data > 0 {
                self.sieve.library_sent(data, &mut self.through);
            }
            self.out.extend_from_slice(piece);
        }
        Poll::Ready(Ok(count))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Half<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_in(cx, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Half<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().poll_collect(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Done when the turn ends.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_shutdown(cx)
    }
}

/// Bytes that are collected before they are sent, but for one frame more: a dozen pages, and what one write takes well.
const MOST_OUT: usize = 128 * 1024;

/// The same where the client is slower than that: a frame.
const MOST_OUT_SLOW: usize = 16 * 1024;

/// Bytes that wait for the library to read them: a dozen frames of an upload.
const MOST_THROUGH: usize = 192 * 1024;

/// Room for one read: dozens of heads, or one frame of an upload.
const READ_BYTES: usize = 16 * 1024 + frame_interceptor::FRAME_HEAD;
