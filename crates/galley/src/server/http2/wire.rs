//! The socket below the library: passes input through the frame interceptor, and sends the output of many streams in few writes.
//!
//! Input passes the [`FrameInterceptor`] first; the library reads the rest. The library writes frame by frame and flushes in
//! between. Its frames are collected here, and sent at the end of a round ([`FramedSocket::poll_out`]) or when the buffer is
//! full. While the client reads nothing, at most [`MOST_OUT`] bytes are collected; then the library stops writing, and nothing
//! more is read. The [`FrameLedger`] examines every byte in either direction.

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
    /// Input that the interceptor has not removed yet.
    input: Vec<u8>,
    /// The number of bytes of `input` that the interceptor has processed.
    sorted: usize,
    /// Whether the rest of `input` may contain a complete frame.
    is_unsorted: bool,
    /// Whether the client has closed its side.
    is_ended: bool,
    /// Bytes of the client's connection preface that the library has not read.
    greeting: usize,
    sieve: FrameInterceptor,
    /// Input for the library.
    through: Vec<u8>,
    /// The number of bytes of `through` that the library has read.
    taken: usize,
    out: Vec<u8>,
    /// The number of bytes of `out` that have been sent.
    at: usize,
    /// Whether a flush is needed, because a TLS stream may buffer its last record.
    is_unflushed: bool,
    /// Whether the last output was not sent at once.
    is_slow: bool,
    /// Whether the library had to stop writing.
    held: bool,
    /// The number of bytes that have been sent since the beginning.
    pub(super) written: u64,
    pub(super) ledger: FrameLedger,
    timers: Rc<Timers>,
    spare: Rc<Spare>,
}

/// The stream of the library.
pub(super) struct Half<S>(pub(super) Rc<RefCell<FramedSocket<S>>>);

impl<S: AsyncRead + AsyncWrite + Unpin> FramedSocket<S> {
    /// `begun`: bytes that were read before HTTP/2 was detected. `most`: the maximum size of a head.
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

    /// Whether all output has been sent, including a TLS stream's own buffer.
    pub(super) fn is_empty(&self) -> bool {
        self.out.is_empty() && !self.is_unflushed
    }

    /// Whether more output may be collected. If not, nothing more is read, either.
    pub(super) fn has_room(&self) -> bool {
        self.out.len() < self.most_out()
    }

    /// The maximum number of bytes to collect: few for a client that did not receive the last ones at once.
    pub(super) fn most_out(&self) -> usize {
        if self.is_slow {
            MOST_OUT_SLOW
        } else {
            MOST_OUT
        }
    }

    /// Whether the library had to stop writing since the last call, and may continue now.
    pub(super) fn take_held(&mut self) -> bool {
        self.has_room() && std::mem::take(&mut self.held)
    }

    /// Whether there is input for the library.
    pub(super) fn has_through(&self) -> bool {
        self.taken < self.through.len()
    }

    /// Whether too much input for the library has accumulated.
    pub(super) fn is_clogged(&self) -> bool {
        self.through.len() - self.taken > MOST_THROUGH
    }

    /// Whether input remains that the interceptor has not processed, because a round was full.
    pub(super) fn has_unsorted(&self) -> bool {
        self.is_unsorted
    }

    /// Whether the client has closed its side.
    pub(super) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Returns empty buffers to the pool.
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

    /// Reads what has arrived; ready if there was input, or at the end.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.ledger.flood().is_some() || self.is_ended {
            // No further frame is read: the round ends, and with it the connection.
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

    /// Passes the input through the interceptor up to the next head, which is decoded to `block`.
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

    /// Passes a head to the library.
    pub(super) fn pass(&mut self, opening: &Opening, block: &Block) {
        self.sieve.pass(opening, block, &mut self.through);
    }

    /// Passes a stub of a request without a body to the library, which need not parse the head.
    pub(super) fn pass_stub(&mut self, opening: &Opening) {
        self.sieve.pass_stub(opening, &mut self.through);
    }

    /// Whether a head may be answered here: only between two complete frames of the library, and not within a header block.
    pub(super) fn may_respond(&self, opening: &Opening, block: &Block) -> bool {
        self.sieve.may_respond(opening, block) && self.ledger.is_between_frames()
    }

    /// The number of bytes of a body that fit into the client's window.
    pub(super) fn window(&self) -> usize {
        self.sieve.window()
    }

    /// Reserves a part of the client's window for a body, if it is large enough.
    pub(super) fn take_window(&mut self, bytes: usize) -> bool {
        self.sieve.take_window(bytes)
    }

    /// Writes a response to the output: its header block, and its body.
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

    /// Records that the library has no open stream.
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

    /// Records that the client does not receive all output at once, and shrinks a large buffer to what is left.
    fn stall(&mut self) {
        self.is_slow = true;
        let rest = self.out.len() - self.at;
        if self.out.capacity() - rest > MOST_OUT_SLOW {
            self.out.drain(..self.at);
            self.at = 0;
            self.out.shrink_to_fit();
        }
    }

    /// The number of bytes that the client has received since the beginning, as far as the operating system knows.
    pub(super) fn arrived(&self) -> u64
    where
        S: Unsent,
    {
        self.written.saturating_sub(self.stream.unsent())
    }

    /// Sends the rest and closes the sending side.
    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_out(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    /// Reads and discards input: the number of bytes, 0 at the end.
    pub(super) fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut room = [0; 4096];
        let mut into = ReadBuf::new(&mut room);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut into))?;
        Poll::Ready(Ok(into.filled().len()))
    }

    /// Returns input to the library: the connection preface as it arrives, then the input that passed the interceptor.
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
            // The connection reads, and polls the library when it has input for it.
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

    /// Collects output, and returns the number of bytes. Sends it first if the buffer is full.
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

    /// Does nothing: the output is sent at the end of a round.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_shutdown(cx)
    }
}

/// The maximum number of bytes that are collected, plus one frame: a dozen pages, and a good size for one write.
const MOST_OUT: usize = 128 * 1024;

/// The maximum for a slow client: one frame.
const MOST_OUT_SLOW: usize = 16 * 1024;

/// The maximum number of bytes that wait for the library: a dozen frames of an upload.
const MOST_THROUGH: usize = 192 * 1024;

/// The buffer for one read: dozens of heads, or one frame of an upload.
const READ_BYTES: usize = 16 * 1024 + frame_interceptor::FRAME_HEAD;
