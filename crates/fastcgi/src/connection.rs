//! Drives an [`FastCgiExchange`] over a stream, writing and reading as much as possible at each turn.
//!
//! Reading never waits for writing, nor writing for reading: a script that prints while it reads, or that responds without
//! reading, cannot deadlock with an upload. The caller controls the pace: nothing is read or written between calls of
//! [`FastCgiConnection::event`]. So the caller continues to call it until [`FastCgiEvent::End`], or drops the connection,
//! which aborts the request (PHP-FPM notices a closed connection; it ignores `ABORT_REQUEST`). Timeouts are the caller's
//! task.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::Error;
use crate::event::FastCgiEvent;
use crate::exchange::{FastCgiExchange, FastCgiRequest};

/// Where the request body comes from.
pub trait BodySource {
    /// The next chunk, of any size and counted in [`FastCgiRequest::body_length`]; `None` at the end. Not called again after the
    /// declared length has been given. A pending call must wake the task when it can go on.
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

/// A connection to a responder: one request at a time, kept between requests. `S` must not hold back written bytes until
/// it is flushed; sockets do not.
#[derive(Debug)]
pub struct FastCgiConnection<S> {
    stream: S,
    exchange: FastCgiExchange,
    /// Why writing ended, kept while the response may still come.
    write_error: Option<io::Error>,
    /// Something was received since the last `send`.
    received: bool,
    /// Nothing has been sent: the peer cannot have closed it as idle, and owes no response.
    is_new: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> FastCgiConnection<S> {
    /// Takes a connected stream.
    pub fn new(stream: S) -> FastCgiConnection<S> {
        FastCgiConnection {
            stream,
            exchange: FastCgiExchange::new(),
            write_error: None,
            received: false,
            is_new: true,
        }
    }

    /// Begins a request. Without a body it is written at once as far as the stream accepts it, without waiting; with one, the
    /// first [`FastCgiConnection::event`] writes it together with what the source has ready, so that one write sends begin,
    /// variables and a small body.
    ///
    /// [`Error::Stale`]: a kept connection has ended meanwhile, nothing was sent. [`Error::OutOfTurn`]: not reusable.
    /// Cancel-safe: it never suspends.
    pub async fn send(&mut self, request: &FastCgiRequest<'_>) -> Result<(), Error> {
        poll_fn(|cx| Poll::Ready(self.begin(request, cx))).await
    }

    /// The next event of the response, while the body is sent. Returns what is ready before it waits; see [`FastCgiEvent`] for
    /// the pieces. After [`FastCgiEvent::End`] or an error another call returns [`Error::OutOfTurn`].
    ///
    /// Cancel-safe: if it is dropped while it waits, nothing is lost, and a later call continues (with the same `body`).
    pub async fn event(&mut self, body: &mut impl BodySource) -> Result<FastCgiEvent, Error> {
        poll_fn(|cx| self.poll_event(body, cx)).await
    }

    /// A new request may be sent: none is in progress, the last one was sent completely, nothing came after its `END_REQUEST`.
    /// The peer may have closed since; [`FastCgiConnection::poll_idle`] tells.
    pub fn is_reusable(&self) -> bool {
        self.exchange.is_reusable()
    }

    /// Some byte was received since the last `send`. If not, and the method is safe, a failed request may be tried again.
    pub fn has_received(&self) -> bool {
        self.received
    }

    /// Ready when an idle connection has become useless: closed by the peer, broken, or not silent. Wakes the task when
    /// that happens. Call only between exchanges; during one it is ready at once.
    pub fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.exchange.is_reusable() {
            return Poll::Ready(());
        }
        // Whatever comes, end or bytes, is wrong here.
        let _ = std::task::ready!(self.poll_read(cx));
        self.exchange.spend();
        Poll::Ready(())
    }

    /// Returns when the responder has closed the connection, after telling it that no further request will come.
    ///
    /// PHP-FPM looks at the connection again when the script has ended, which may be long after [`FastCgiEvent::End`]
    /// (`fastcgi_finish_request()`): so this is the moment at which its worker is free. What still comes is dropped. Dropped
    /// midway, it closes the connection.
    pub async fn released(mut self) {
        // If that fails the connection is gone, which is what is waited for.
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
        for _ in 0..TURNS {
            if let Some(event) = self.exchange.event()? {
                return Poll::Ready(Ok(event));
            }
            let written = self.write(body, cx)?;
            match (self.poll_read(cx), written) {
                (Poll::Ready(Ok(0)), _) => return Poll::Ready(Err(self.ended(Error::Closed))),
                (Poll::Ready(Ok(_)), _) => self.received = true,
                (Poll::Ready(Err(error)), _) => {
                    return Poll::Ready(Err(self.ended(Error::Read(error))));
                }
                (Poll::Pending, WriteProgress::More) => {}
                (Poll::Pending, WriteProgress::Blocked) => return Poll::Pending,
            }
        }
        // Others on this thread first; both directions are tried again at the next turn.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Takes from the body and writes until one of them makes us wait, or a few writes are done. A failed write is not an
    /// error yet: a responder that refuses an upload answers and closes, and the response is worth reading.
    fn write(
        &mut self,
        body: &mut impl BodySource,
        cx: &mut Context<'_>,
    ) -> Result<WriteProgress, Error> {
        for _ in 0..WRITES {
            self.take_body(body, cx)?;
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

    fn take_body(&mut self, body: &mut impl BodySource, cx: &mut Context<'_>) -> Result<(), Error> {
        while self.exchange.wants_body() {
            match body.poll_chunk(cx) {
                Poll::Pending => return Ok(()),
                // An empty chunk ends the turn too, lest a source that gives nothing else spins here.
                Poll::Ready(Ok(Some(chunk))) if chunk.is_empty() => {
                    cx.waker().wake_by_ref();
                    return Ok(());
                }
                Poll::Ready(Ok(Some(chunk))) => self.exchange.give_body(chunk)?,
                Poll::Ready(Ok(None)) => self.exchange.end_body()?,
                Poll::Ready(Err(error)) => {
                    self.exchange.spend();
                    return Err(Error::Body(error));
                }
            }
        }
        Ok(())
    }

    /// One write, of several pieces at once if the stream can.
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

    /// The response ended too early. If writing failed first, that is why.
    fn ended(&mut self, error: Error) -> Error {
        self.exchange.spend();
        self.write_error.take().map_or(error, Error::Write)
    }
}

/// How [`FastCgiConnection::write`] left off.
#[derive(Clone, Copy, Debug)]
enum WriteProgress {
    /// More could be written at once.
    More,
    /// The stream or the body source will wake this task, or nothing remains to be written.
    Blocked,
}

/// Rounds of writing and reading in one poll, before other tasks of the thread get their turn. Rounds without an event
/// are uploads: 16 rounds of 4 writes are some 6 MB at most.
const TURNS: usize = 16;

/// Writes before looking whether something can be read.
const WRITES: usize = 4;

/// Pieces in one vectored write: headers and contents of a full output buffer.
const SLICES: usize = 8;
