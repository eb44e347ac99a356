//! The socket below the library: what many streams have to say leaves in few writes.
//!
//! The library writes frame by frame and flushes in between. Here its frames are collected, and leave when the connection's
//! turn ends ([`Wire::poll_out`]) or when there are many. While the client takes nothing, no more than [`MOST_OUT`] is
//! collected; the library then stops writing, and with it reading. Every byte in either direction is shown to the
//! [`Ledger`].

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::ledger::Ledger;
use crate::front::pool::Spare;
use crate::front::timer::Timers;

/// The socket with what waits on both sides of it.
pub(super) struct Wire<S> {
    stream: S,
    /// What was read before it was known to be HTTP/2.
    begun: BytesMut,
    out: Vec<u8>,
    /// How much of `out` has left.
    at: usize,
    /// A stream of records may keep the last one back.
    is_unflushed: bool,
    /// The library had to stop.
    held: bool,
    /// Bytes that have left since the beginning.
    pub(super) written: u64,
    pub(super) ledger: Ledger,
    timers: Rc<Timers>,
    spare: Rc<Spare>,
}

/// The library's hold on it.
pub(super) struct Half<S>(pub(super) Rc<RefCell<Wire<S>>>);

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(super) fn new(
        stream: S,
        begun: BytesMut,
        (timers, spare): (Rc<Timers>, Rc<Spare>),
    ) -> Self {
        Self {
            stream,
            begun,
            out: Vec::new(),
            at: 0,
            is_unflushed: false,
            held: false,
            written: 0,
            ledger: Ledger::new(timers.now_ms()),
            timers,
            spare,
        }
    }

    /// Whether everything that was collected has left.
    pub(super) fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Whether the library had to stop since the last time, and may go on now.
    pub(super) fn take_held(&mut self) -> bool {
        self.out.len() < MOST_OUT && std::mem::take(&mut self.held)
    }

    /// Gives the memory back that nothing waits in.
    pub(super) fn rest(&mut self) {
        if self.out.is_empty() {
            self.spare.give(std::mem::take(&mut self.out));
        }
    }

    /// Sends what was collected; ready when all of it has left.
    pub(super) fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.at < self.out.len() {
            let rest = self.out.get(self.at..).unwrap_or_default();
            let count = ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.at += count;
            self.written += count as u64;
            self.is_unflushed = true;
        }
        self.out.clear();
        self.at = 0;
        if self.is_unflushed {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.is_unflushed = false;
        }
        Poll::Ready(Ok(()))
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

    fn poll_in(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.ledger.flood().is_some() {
            // Not another frame of it: the connection's turn ends, and with it the connection.
            return Poll::Pending;
        }
        let before = into.filled().len();
        if self.begun.is_empty() {
            ready!(Pin::new(&mut self.stream).poll_read(cx, into))?;
        } else {
            let count = self.begun.len().min(into.remaining());
            into.put_slice(self.begun.get(..count).unwrap_or_default());
            self.begun.advance(count);
        }
        let came = into.filled().get(before..).unwrap_or_default();
        self.ledger.receive(came, self.timers.now_ms());
        Poll::Ready(Ok(()))
    }

    /// Collects bytes: how many. Sends what there is where it is much.
    fn poll_collect(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.out.len() >= MOST_OUT {
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
            self.ledger.send(piece, now_ms);
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
