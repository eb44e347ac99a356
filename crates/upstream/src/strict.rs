//! A connection to an HTTP upstream whose response heads are checked as bytes.
//!
//! hyper parses responses less strictly than Galley parses requests: it accepts a bare line feed as the end of a line, and a
//! body with `gzip, chunked` as plain. [`Strict`] therefore checks each head below hyper as it arrives
//! ([`galley_http::response::HeadCheck`], and its fields with [`field_flaw`], because hyper drops invalid ones silently);
//! [`check`] checks the head that hyper has parsed. A [`HeadWatch`] marks where a head begins, which cannot be seen in a stream
//! of bytes: with the request to which it responds. It also counts the bytes after the head, because hyper hides those that
//! follow the announced length.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use galley_http::response::{self, BadResponse, HeadCheck};
use galley_policy::fields::{FieldFlaw, field_flaw};
use galley_sys::Lock;
use http::Response;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The state of the next head on a connection, shared by the stream and the exchange.
#[derive(Debug, Default)]
pub(super) struct HeadWatch(Lock<AwaitedHead>);

#[derive(Debug, Default)]
struct AwaitedHead {
    /// `None`: no head is expected.
    head: Option<HeadCheck>,
    rejected: Option<BadResponse>,
    lines: FieldLines,
    /// The number of bytes that were received after the head.
    after_head: u64,
}

/// The lines of a head, to find the invalid fields.
#[derive(Debug, Default)]
struct FieldLines {
    /// The begin of the current line, at most a head long.
    line: Vec<u8>,
    is_after_status_line: bool,
    /// The worst flaw of a field.
    flaw: Option<FieldFlaw>,
}

impl FieldLines {
    /// Reads the next bytes of a head whose lines end with CRLF.
    fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if self.line.ends_with(b"\r\n") {
                self.line.truncate(self.line.len() - 2);
                self.end_line();
                self.line.clear();
            }
        }
    }

    fn end_line(&mut self) {
        // The head of another response follows an interim one.
        let is_field = self.is_after_status_line && !self.line.is_empty();
        self.is_after_status_line = !self.line.is_empty();
        if !is_field {
            return;
        }
        let colon = memchr::memchr(b':', &self.line).unwrap_or(self.line.len());
        let (name, value) = self.line.split_at(colon);
        self.flaw = self.flaw.max(field_flaw(name, value.get(1..)));
    }
}

impl HeadWatch {
    /// Declares that the next received byte is the first byte of a head.
    pub(super) fn begin(&self) {
        *self.0.lock() = AwaitedHead {
            head: Some(HeadCheck::new()),
            ..AwaitedHead::default()
        };
    }

    /// Why the head was rejected, if it was.
    pub(super) fn rejected(&self) -> Option<BadResponse> {
        self.0.lock().rejected
    }

    /// The worst flaw of the fields that hyper has dropped.
    pub(super) fn dropped(&self) -> Option<FieldFlaw> {
        self.0.lock().lines.flaw
    }

    /// The number of bytes that were received after the head.
    pub(super) fn after_head(&self) -> u64 {
        self.0.lock().after_head
    }

    fn push(&self, bytes: &[u8]) -> io::Result<()> {
        let mut awaited = self.0.lock();
        let awaited = &mut *awaited;
        let checked = awaited.check(bytes);
        if checked.is_err() || awaited.head.as_ref().is_some_and(HeadCheck::is_over) {
            awaited.head = None;
        }
        awaited.rejected = awaited.rejected.or(checked.err());
        checked.map_err(|bad| io::Error::new(io::ErrorKind::InvalidData, bad))
    }
}

impl AwaitedHead {
    fn check(&mut self, bytes: &[u8]) -> Result<(), BadResponse> {
        let of_head = match &mut self.head {
            Some(head) => head.push(bytes)?,
            None => 0,
        };
        self.lines.push(bytes.get(..of_head).unwrap_or_default());
        self.after_head += (bytes.len() - of_head) as u64;
        match self.lines.flaw {
            Some(FieldFlaw::Dangerous) => Err(BadResponse::Field),
            Some(FieldFlaw::Name | FieldFlaw::Value) | None => Ok(()),
        }
    }
}

/// A stream that checks response heads before hyper reads them.
pub(super) struct Strict<S> {
    stream: S,
    watch: Arc<HeadWatch>,
}

impl<S> Strict<S> {
    pub(super) fn new(stream: S, watch: &Arc<HeadWatch>) -> Self {
        let watch = Arc::clone(watch);
        Self { stream, watch }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Strict<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let checked = self
            .watch
            .push(buf.filled().get(before..).unwrap_or_default());
        if checked.is_err() {
            buf.set_filled(before);
        }
        Poll::Ready(checked)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Strict<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Checks the status and framing of a response that hyper has parsed.
pub(super) fn check<B>(response: &Response<B>) -> Result<(), BadResponse> {
    let fields = response.headers().iter();
    let fields = fields.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    response::check(response.status().as_u16(), fields)
}
