//! Drives a [`FastCgiExchange`] over a stream. Each call of [`FastCgiConnection::event`] writes and reads as much as possible.
//!
//! Reading never waits for writing, nor writing for reading: a script that prints while it reads, or that responds without
//! reading, cannot deadlock with an upload. The caller controls the pace: nothing is read or written between calls of
//! [`FastCgiConnection::event`]. So the caller continues to call it until [`FastCgiEvent::End`], or drops the connection,
//! which aborts the request (PHP-FPM notices a closed connection; it ignores `ABORT_REQUEST`). The caller is responsible
//! for timeouts.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::Error;
use crate::event::FastCgiEvent;
use crate::exchange::{FastCgiExchange, FastCgiRequest};

/// The source of a request body.
pub trait BodySource {
    /// The next chunk, of any size; it counts towards [`FastCgiRequest::body_length`]. `None` at the end. Not called again
    /// after all bytes of the declared length. A pending call must wake the task when it can continue.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>>;
}

/// The source for requests without a body.
#[derive(Clone, Copy, Debug)]
pub struct NoBody;

impl BodySource for NoBody {
    fn poll_chunk(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        Poll::Ready(Ok(None))
    }
}

/// A connection to a responder. It has one request at a time and is kept between requests. `S` must not buffer written
/// bytes until it is flushed; sockets do not.
#[derive(Debug)]
pub struct FastCgiConnection<S> {
    stream: S,
    exchange: FastCgiExchange,
    /// The error that ended writing, kept while the response may still be received.
    write_error: Option<io::Error>,
    /// Whether bytes were received since the last `send`.
    received: bool,
    /// Whether nothing was sent: then the peer cannot have closed the connection as idle, and there is no response to read.
    is_new: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> FastCgiConnection<S> {
    /// A connection over a connected stream.
    pub fn new(stream: S) -> FastCgiConnection<S> {
        FastCgiConnection {
            stream,
            exchange: FastCgiExchange::new(),
            write_error: None,
            received: false,
            is_new: true,
        }
    }

    /// Starts a request. Without a body it is written immediately as far as the stream accepts it, without waiting. With a
    /// body, the first [`FastCgiConnection::event`] writes it together with the bytes that the source has ready, so that one
    /// write sends the start of the request, the variables and a small body.
    ///
    /// [`Error::Stale`]: a kept connection was closed before the request; nothing was sent. [`Error::OutOfTurn`]: the connection
    /// is not reusable. Cancel-safe: it never suspends.
    pub async fn send(&mut self, request: &FastCgiRequest<'_>) -> Result<(), Error> {
        poll_fn(|cx| Poll::Ready(self.begin(request, cx))).await
    }

    /// The next event of the response, while the body is sent. Returns an available event without waiting; see [`FastCgiEvent`]
    /// for the pieces. After [`FastCgiEvent::End`] or an error another call returns [`Error::OutOfTurn`].
    ///
    /// Cancel-safe: if it is dropped while it waits, nothing is lost, and a later call continues (with the same `body`).
    pub async fn event(&mut self, body: &mut impl BodySource) -> Result<FastCgiEvent, Error> {
        poll_fn(|cx| self.poll_event(body, cx)).await
    }

    /// Whether a new request may be sent: none is in progress, the last one was sent completely, and nothing was received
    /// after its `END_REQUEST`. The peer may have closed the connection since; [`FastCgiConnection::poll_idle`] detects it.
    pub fn is_reusable(&self) -> bool {
        self.exchange.is_reusable()
    }

    /// Whether any byte was received since the last `send`. If not, and the method is safe, a failed request may be retried.
    pub fn has_received(&self) -> bool {
        self.received
    }

    /// Ready when an idle connection has become unusable: closed by the peer, broken, or with unexpected bytes. Wakes the task
    /// when that happens. Call it only between exchanges; during one it is ready immediately.
    pub fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.exchange.is_reusable() {
            return Poll::Ready(());
        }
        // The end of the stream and bytes are both unexpected here.
        let _ = std::task::ready!(self.poll_read(cx));
        self.exchange.spend();
        Poll::Ready(())
    }

    /// Announces to the responder that no further request follows, and waits until it has closed the connection.
    ///
    /// PHP-FPM checks the connection again when the script has ended, which may be long after [`FastCgiEvent::End`]
    /// (`fastcgi_finish_request()`): so the worker is available again when this function returns. Received bytes are
    /// discarded. If the future is dropped before, the connection is closed.
    pub async fn released(mut self) {
        // If that fails, the connection is already closed.
        let _ = self.stream.shutdown().await;
        let mut rest = [0; 512];
        while matches!(self.stream.read(&mut rest).await, Ok(1..)) {}
    }

    /// The stream, for its address or its options.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    fn begin(&mut self, request: &FastCgiRequest<'_>, cx: &mut Context<'_>) -> Result<(), Error> {
        if !self.exchange.is_reusable() {
            return Err(Error::OutOfTurn);
        }
        if !std::mem::take(&mut self.is_new) && self.poll_idle(cx).is_ready() {
            return Err(Error::Stale);
        }
        self.received = false;
        self.write_error = None;
        self.exchange.begin(request)?;
        if request.body_length == 0 {
            self.write(&mut NoBody, cx)?;
        }
        Ok(())
    }

    fn poll_event(
        &mut self,
        body: &mut impl BodySource,
        cx: &mut Context<'_>,
    ) -> Poll<Result<FastCgiEvent, Error>> {
        for _ in 0..ROUNDS {
            if let Some(event) = self.exchange.event()? {
                return Poll::Ready(Ok(event));
            }
            let written = self.write(body, cx)?;
            match (self.poll_read(cx), written) {
                (Poll::Ready(Ok(0)), _) => return Poll::Ready(Err(self.early_end(Error::Closed))),
                (Poll::Ready(Ok(_)), _) => self.received = true,
                (Poll::Ready(Err(error)), _) => {
                    return Poll::Ready(Err(self.early_end(Error::Read(error))));
                }
                (Poll::Pending, WriteProgress::More) => {}
                (Poll::Pending, WriteProgress::Blocked) => return Poll::Pending,
            }
        }
        // Other tasks of this thread run first; both directions are tried again in the next poll.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads from the body and writes until one of them would block, or after a few writes. A failed write is not an error
    /// yet: a responder that rejects an upload sends a response and closes, and the response is useful.
    fn write(
        &mut self,
        body: &mut impl BodySource,
        cx: &mut Context<'_>,
    ) -> Result<WriteProgress, Error> {
        for _ in 0..WRITES {
            self.read_body(body, cx)?;
            if !self.exchange.outgoing().has_remaining() {
                return Ok(WriteProgress::Blocked);
            }
            match self.poll_write(cx) {
                Poll::Pending => return Ok(WriteProgress::Blocked),
                Poll::Ready(Ok(count)) => {
                    self.exchange.outgoing().advance(count);
                    self.exchange.frame();
                }
                Poll::Ready(Err(error)) => {
                    self.write_error = Some(error);
                    self.exchange.abandon_output();
                    return Ok(WriteProgress::Blocked);
                }
            }
        }
        Ok(WriteProgress::More)
    }

    fn read_body(&mut self, body: &mut impl BodySource, cx: &mut Context<'_>) -> Result<(), Error> {
        while self.exchange.wants_body() {
            match body.poll_chunk(cx) {
                Poll::Pending => return Ok(()),
                // An empty chunk also ends the loop, so that a source that returns only empty ones does not spin here.
                Poll::Ready(Ok(Some(chunk))) if chunk.is_empty() => {
                    cx.waker().wake_by_ref();
                    return Ok(());
                }
                Poll::Ready(Ok(Some(chunk))) => self.exchange.push_body(chunk)?,
                Poll::Ready(Ok(None)) => self.exchange.end_body()?,
                Poll::Ready(Err(error)) => {
                    self.exchange.spend();
                    return Err(Error::Body(error));
                }
            }
        }
        Ok(())
    }

    /// Does one write, of several pieces at once if the stream supports it.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let stream = Pin::new(&mut self.stream);
        let outgoing = self.exchange.outgoing();
        let written = if stream.is_write_vectored() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = outgoing.chunks_vectored(&mut slices);
            stream.poll_write_vectored(cx, slices.get(..count).unwrap_or_default())
        } else {
            stream.poll_write(cx, outgoing.chunk())
        };
        written.map(|result| match result {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            other => other,
        })
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        pin!(self.stream.read_buf(self.exchange.input())).poll(cx)
    }

    /// The error of a response that ended too early: that of writing, if it failed first.
    fn early_end(&mut self, error: Error) -> Error {
        self.exchange.spend();
        self.write_error.take().map_or(error, Error::Write)
    }
}

/// The state after [`FastCgiConnection::write`].
#[derive(Clone, Copy, Debug)]
enum WriteProgress {
    /// More could be written immediately.
    More,
    /// The stream or the body source will wake this task, or nothing remains to be written.
    Blocked,
}

/// The maximum number of rounds of writing and reading in one poll, before other tasks of the thread run. Rounds without an
/// event are uploads: 16 rounds of 4 writes are at most some 6 MB.
const ROUNDS: usize = 16;

/// The maximum number of writes before the next read.
const WRITES: usize = 4;

/// The maximum number of pieces in one vectored write: headers and contents of a full output buffer.
const SLICES: usize = 8;
