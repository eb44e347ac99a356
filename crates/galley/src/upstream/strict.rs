//! A connection to an HTTP upstream whose response heads are checked as bytes, and the log of rejected responses.
//!
//! hyper parses responses less strictly than Galley parses requests: it accepts a bare line feed as the end of a line, and a
//! body with `gzip, chunked` as plain. [`Strict`] therefore checks each head below hyper as it arrives
//! ([`galley_http::response::HeadCheck`]); [`check`] checks the head that hyper has parsed. A [`HeadWatch`] marks where a head
//! begins, which cannot be seen in a stream of bytes: with the request to which it responds.

use std::cell::RefCell;
use std::fmt::Display;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use galley_http::response::{self, BadResponse, HeadCheck};
use http::Response;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::stats::UpstreamStats;

/// The state of the next head on a connection, shared by the stream and the exchange.
#[derive(Debug, Default)]
pub(super) struct HeadWatch(Mutex<AwaitedHead>);

#[derive(Debug, Default)]
struct AwaitedHead {
    /// `None`: no head is expected.
    head: Option<HeadCheck>,
    rejected: Option<BadResponse>,
}

impl HeadWatch {
    /// Declares that the next received byte is the first byte of a head.
    pub(super) fn begin(&self) {
        *self.lock() = AwaitedHead {
            head: Some(HeadCheck::new()),
            rejected: None,
        };
    }

    /// Why the head was rejected, if it was.
    pub(super) fn rejected(&self) -> Option<BadResponse> {
        self.lock().rejected
    }

    fn push(&self, bytes: &[u8]) -> io::Result<()> {
        let mut awaited = self.lock();
        let Some(head) = &mut awaited.head else {
            return Ok(());
        };
        let checked = head.push(bytes);
        if checked.is_err() || head.is_over() {
            awaited.head = None;
        }
        awaited.rejected = checked.err();
        checked.map_err(|bad| io::Error::new(io::ErrorKind::InvalidData, bad))
    }

    fn lock(&self) -> MutexGuard<'_, AwaitedHead> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Logs rejected responses: a new reason immediately, a repeated one once a minute, because an upstream that sends one such
/// response sends many.
pub(super) struct RejectionLog {
    site: String,
    stats: Arc<UpstreamStats>,
    last: RefCell<Option<(Instant, String)>>,
}

impl RejectionLog {
    pub(super) fn new(site: &str, stats: &Arc<UpstreamStats>) -> Self {
        Self {
            site: site.to_owned(),
            stats: Arc::clone(stats),
            last: RefCell::default(),
        }
    }

    /// Logs a rejected response. `server`: its index in the servers of the upstream.
    pub(super) fn log(&self, server: usize, reason: &dyn Display) {
        let reason = reason.to_string();
        let now = Instant::now();
        let mut last = self.last.borrow_mut();
        if let Some((at, logged)) = &*last
            && *logged == reason
            && now - *at < LOG_EVERY
        {
            return;
        }
        let site = &self.site;
        let server = self.stats.servers().get(server);
        let upstream = server.map_or("", |server| server.state.address.as_str());
        tracing::warn!(
            site,
            upstream,
            "rejected a response of the upstream: {reason}"
        );
        *last = Some((now, reason));
    }
}

/// The minimum time between two lines with the same reason.
const LOG_EVERY: Duration = Duration::from_secs(60);
