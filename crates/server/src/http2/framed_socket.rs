//! The socket below the library: passes input through the frame interceptor, and sends the output of many streams in few writes.
//!
//! Input passes the [`FrameInterceptor`] first; the library reads the rest. The library writes frame by frame and flushes in
//! between. Its frames are collected here, and sent at the end of a scheduling slice ([`FramedSocket::poll_out`]) or when the
//! buffer is full. While the client reads nothing, at most [`MAX_OUTPUT`] bytes are collected; then the library stops writing,
//! and nothing more is read. The [`FloodDetector`] examines every byte in either direction.

use std::cell::RefCell;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use galley_http::frame_interceptor::{
    self, FrameError, FrameInterceptor, InterceptorOutput, Opening, PREFACE,
};
use galley_http::hpack::Block;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use super::super::socket::UnacknowledgedBytes;
use super::flood::FloodDetector;
use crate::Core;
use crate::pool::OutputBuffers;
use crate::timer::Timers;

/// The socket with the pending bytes of both directions.
pub(super) struct FramedSocket<S> {
    stream: S,
    /// Input that the interceptor has not removed yet.
    input: Vec<u8>,
    /// The number of bytes of `input` that the interceptor has processed.
    processed: usize,
    /// Whether the rest of `input` may contain a complete frame.
    is_unprocessed: bool,
    /// Whether the client has closed its side.
    is_ended: bool,
    /// Bytes of the client's connection preface that the library has not read.
    preface_left: usize,
    interceptor: FrameInterceptor,
    /// Input for the library.
    library_input: Vec<u8>,
    /// The number of bytes of `library_input` that the library has read.
    library_read: usize,
    output: Vec<u8>,
    /// The number of bytes of `output` that have been sent.
    sent: usize,
    /// Whether a flush is needed, because a TLS stream may buffer its last record.
    is_unflushed: bool,
    /// Whether the last output was not sent at once.
    is_slow: bool,
    /// Whether the library had to stop writing.
    is_blocked: bool,
    /// The number of bytes that have been sent since the beginning.
    pub(super) written: u64,
    pub(super) floods: FloodDetector,
    timers: Rc<Timers>,
    spare: Rc<OutputBuffers>,
}

/// The stream of the library.
pub(super) struct LibraryIo<S>(pub(super) Rc<RefCell<FramedSocket<S>>>);

impl<S: AsyncRead + AsyncWrite + Unpin> FramedSocket<S> {
    /// `begun`: bytes that were read before HTTP/2 was detected. `max_head`: the maximum size of a head.
    pub(super) fn new(stream: S, begun: &BytesMut, core: &Core, max_head: usize) -> Self {
        let now_ms = core.timers.now_ms();
        let mut floods = FloodDetector::new(now_ms);
        floods.receive(begun, now_ms);
        Self {
            stream,
            input: begun.to_vec(),
            processed: 0,
            is_unprocessed: !begun.is_empty(),
            is_ended: false,
            preface_left: PREFACE.len(),
            interceptor: FrameInterceptor::new(max_head),
            library_input: Vec::new(),
            library_read: 0,
            output: Vec::new(),
            sent: 0,
            is_unflushed: false,
            is_slow: false,
            is_blocked: false,
            written: 0,
            floods,
            timers: Rc::clone(&core.timers),
            spare: Rc::clone(&core.spare),
        }
    }

    /// Whether all output has been sent, including a TLS stream's own buffer.
    pub(super) fn is_empty(&self) -> bool {
        self.output.is_empty() && !self.is_unflushed
    }

    /// Whether more output may be collected. If not, nothing more is read, either.
    pub(super) fn has_capacity(&self) -> bool {
        self.output.len() < self.max_output()
    }

    /// The maximum number of bytes to collect: few for a client that did not receive the last ones at once.
    pub(super) fn max_output(&self) -> usize {
        if self.is_slow {
            MAX_OUTPUT_SLOW
        } else {
            MAX_OUTPUT
        }
    }

    /// Whether the library had to stop writing since the last call, and may continue now.
    pub(super) fn take_blocked(&mut self) -> bool {
        self.has_capacity() && std::mem::take(&mut self.is_blocked)
    }

    /// Whether there is input for the library.
    pub(super) fn has_library_input(&self) -> bool {
        self.library_read < self.library_input.len()
    }

    /// Whether too much input for the library has accumulated.
    pub(super) fn is_library_behind(&self) -> bool {
        self.library_input.len() - self.library_read > MAX_LIBRARY_INPUT
    }

    /// Whether input remains that the interceptor has not processed, because a scheduling slice was full.
    pub(super) fn has_unprocessed(&self) -> bool {
        self.is_unprocessed
    }

    /// Whether the client has closed its side.
    pub(super) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Returns empty buffers to the pool.
    pub(super) fn release_buffers(&mut self) {
        if self.output.is_empty() && self.output.capacity() > 0 {
            self.spare.put_back(std::mem::take(&mut self.output));
        }
        if self.input.is_empty() && self.input.capacity() > 0 {
            self.spare.return_input(std::mem::take(&mut self.input));
        }
        if self.library_input.is_empty() {
            self.library_input = Vec::new();
        }
    }

    /// Reads the received bytes; ready if there was input, or at the end.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.floods.flood().is_some() || self.is_ended {
            // No further frame is read: the slice ends, and with it the connection.
            return Poll::Pending;
        }
        if self.input.capacity() == 0 {
            self.input = self.spare.take_input();
        }
        let before = self.input.len();
        self.input.reserve(READ_BYTES);
        let count = ready!(pin!(self.stream.read_buf(&mut self.input)).poll(cx))?;
        self.is_ended = count == 0;
        self.is_unprocessed = true;
        let received = self.input.get(before..).unwrap_or_default();
        self.floods.receive(received, self.timers.now_ms());
        Poll::Ready(Ok(()))
    }

    /// Passes the input through the interceptor up to the next head, which is decoded to `block`.
    pub(super) fn intercept(&mut self, block: &mut Block) -> Result<InterceptorOutput, FrameError> {
        let all = self.input.get(self.processed..).unwrap_or_default();
        let mut rest = all;
        let step = self
            .interceptor
            .next(&mut rest, &mut self.library_input, block)?;
        self.processed += all.len() - rest.len();
        if step == InterceptorOutput::More {
            // The rest is the beginning of one frame.
            self.input.drain(..self.processed);
            self.processed = 0;
            self.is_unprocessed = false;
        }
        Ok(step)
    }

    /// Passes a head to the library.
    pub(super) fn pass(&mut self, opening: &Opening, block: &Block) {
        self.interceptor
            .pass(opening, block, &mut self.library_input);
    }

    /// Passes a stub of a request without a body to the library, which need not parse the head.
    pub(super) fn pass_stub(&mut self, opening: &Opening) {
        self.interceptor.pass_stub(opening, &mut self.library_input);
    }

    /// Whether a head may be answered here: only between two complete frames of the library, and not within a header block.
    pub(super) fn may_respond(&self, opening: &Opening, block: &Block) -> bool {
        self.interceptor.may_respond(opening, block) && self.floods.is_between_frames()
    }

    /// The number of bytes of a body that fit into the client's window.
    pub(super) fn window(&self) -> usize {
        self.interceptor.window()
    }

    /// Reserves a part of the client's window for a body, if the window is large enough.
    pub(super) fn take_window(&mut self, bytes: usize) -> bool {
        self.interceptor.take_window(bytes)
    }

    /// Writes a response to the output: its header block, and its body.
    pub(super) fn write_response(&mut self, stream: u32, encoded: &[u8], body: &[u8]) {
        if self.output.capacity() == 0 {
            self.output = self.spare.take();
        }
        let before = self.output.len();
        frame_interceptor::write_head(&mut self.output, stream, body.is_empty(), encoded);
        frame_interceptor::write_body(&mut self.output, stream, body);
        let frames = self.output.get(before..).unwrap_or_default();
        self.floods.send(frames, self.timers.now_ms());
    }

    /// Records that the library has no open stream.
    pub(super) fn library_rests(&mut self) {
        self.interceptor.library_rests();
    }

    /// Sends the collected output; ready when all of it has been sent.
    pub(super) fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let is_sent_at_once = self.sent == 0 && !self.output.is_empty();
        while self.sent < self.output.len() {
            let rest = self.output.get(self.sent..).unwrap_or_default();
            let Poll::Ready(count) = Pin::new(&mut self.stream).poll_write(cx, rest) else {
                self.note_slow_client();
                return Poll::Pending;
            };
            let count = count?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += count;
            self.written += count as u64;
            self.is_unflushed = true;
        }
        self.is_slow &= !is_sent_at_once;
        self.output.clear();
        self.sent = 0;
        if self.is_unflushed {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.is_unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Records that the client does not receive all output at once, and shrinks a large buffer to the remaining bytes.
    fn note_slow_client(&mut self) {
        self.is_slow = true;
        let rest = self.output.len() - self.sent;
        if self.output.capacity() - rest > MAX_OUTPUT_SLOW {
            self.output.drain(..self.sent);
            self.sent = 0;
            self.output.shrink_to_fit();
        }
    }

    /// The number of bytes that the client has received since the beginning, as far as the operating system knows.
    pub(super) fn arrived(&self) -> u64
    where
        S: UnacknowledgedBytes,
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
        let mut buffer = [0; 4096];
        let mut into = ReadBuf::new(&mut buffer);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut into))?;
        Poll::Ready(Ok(into.filled().len()))
    }

    /// Returns input to the library: the connection preface as it arrives, then the input that passed the interceptor.
    fn poll_library_read(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.preface_left > 0 {
            if self.input.is_empty() && !self.is_ended {
                ready!(self.poll_fill(cx))?;
            }
            let count = self
                .preface_left
                .min(self.input.len())
                .min(into.remaining());
            into.put_slice(self.input.get(..count).unwrap_or_default());
            self.input.drain(..count);
            self.preface_left -= count;
            return Poll::Ready(Ok(()));
        }
        let pending = self
            .library_input
            .get(self.library_read..)
            .unwrap_or_default();
        if pending.is_empty() {
            // The connection reads, and polls the library when it has input for it.
            return if self.is_ended {
                Poll::Ready(Ok(()))
            } else {
                Poll::Pending
            };
        }
        let count = pending.len().min(into.remaining());
        into.put_slice(pending.get(..count).unwrap_or_default());
        self.library_read += count;
        if self.library_read == self.library_input.len() {
            self.library_input.clear();
            self.library_read = 0;
        }
        Poll::Ready(Ok(()))
    }

    /// Collects output, and returns the number of bytes. Sends it first if the buffer is full.
    fn poll_library_write(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if !self.has_capacity() {
            match self.poll_out(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.is_blocked = true;
                    return Poll::Pending;
                }
            }
        }
        let now_ms = self.timers.now_ms();
        if self.output.capacity() == 0 {
            self.output = self.spare.take();
        }
        let count = pieces.iter().map(|piece| piece.len()).sum();
        self.output.reserve(count);
        for piece in pieces {
            let data = self.floods.send(piece, now_ms);
            if data > 0 {
                self.interceptor.library_sent(data, &mut self.library_input);
            }
            self.output.extend_from_slice(piece);
        }
        Poll::Ready(Ok(count))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for LibraryIo<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_library_read(cx, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for LibraryIo<S> {
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
        self.0.borrow_mut().poll_library_write(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing: the output is sent at the end of a scheduling slice.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_shutdown(cx)
    }
}

/// The maximum number of bytes that are collected, plus one frame: a dozen pages, and a good size for one write.
const MAX_OUTPUT: usize = 128 * 1024;

/// The maximum for a slow client: one frame.
const MAX_OUTPUT_SLOW: usize = 16 * 1024;

/// The maximum number of bytes that wait for the library: a dozen frames of an upload.
const MAX_LIBRARY_INPUT: usize = 192 * 1024;

/// The buffer for one read: dozens of heads, or one frame of an upload.
const READ_BYTES: usize = 16 * 1024 + frame_interceptor::FRAME_HEAD;
