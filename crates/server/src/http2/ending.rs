//! The end of a connection, and the reason that is sent and logged.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use galley_http::frame_interceptor::FrameError;
use h2::Reason;
use tokio::io::{AsyncRead, AsyncWrite};

use super::deadlines;
use super::framed_socket::FramedSocket;
use crate::Core;
use crate::endpoints::Endpoints;
use crate::timer::Timer;
use galley_telemetry::http2::Http2EndReason;

/// How a connection ended.
pub(super) enum Http2End {
    /// Both sides are done.
    Done,
    /// The client has disconnected, or cannot be written to.
    ClientGone,
    /// Galley has closed it.
    ByGalley(Http2EndReason, &'static str),
}

/// Reports the end, and lets the last output arrive.
pub(super) async fn finish<S: AsyncRead + AsyncWrite + Unpin>(
    core: &Core,
    socket: &Rc<RefCell<FramedSocket<S>>>,
    timer: &Timer,
    endpoints: Endpoints,
    end: Http2End,
) {
    let counts = socket.borrow().floods.counts;
    let by_galley = match end {
        Http2End::ByGalley(ended, note) => {
            let (streams, resets) = (counts.streams, counts.resets_by_client);
            let made = counts.resets_by_galley;
            tracing::debug!(client = %endpoints.client, streams, resets, made, note, "an HTTP/2 connection was ended");
            if ended == Http2EndReason::Flood && core.services.http2_floods.admit() {
                tracing::warn!(client = %endpoints.client, streams, resets, made, note, "an HTTP/2 connection was ended");
            }
            Some(ended)
        }
        Http2End::Done | Http2End::ClientGone => None,
    };
    core.counters.http2(&counts, by_galley);
    // A client that reads nothing does not read a GOAWAY either.
    let is_stuck = by_galley == Some(Http2EndReason::Slow) && !socket.borrow().is_empty();
    if matches!(end, Http2End::ClientGone) || is_stuck {
        return;
    }
    let mut drained = 0;
    let closing = poll_fn(|cx| {
        let mut socket = socket.borrow_mut();
        match socket.poll_shutdown(cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(_)) => return Poll::Ready(()),
            Poll::Pending => return Poll::Pending,
        }
        // Closing a socket with unread bytes makes the kernel send a reset, which can overtake the last output.
        while let Poll::Ready(read) = socket.poll_drain(cx) {
            drained += read.as_ref().copied().unwrap_or_default();
            if !matches!(read, Ok(1..)) || drained > LINGER_BYTES {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    });
    let _ = timer.within(deadlines::LINGER, closing).await;
}

pub(super) fn frame_error_reason(error: FrameError) -> Reason {
    match error {
        FrameError::Protocol => Reason::PROTOCOL_ERROR,
        FrameError::FlowControl => Reason::FLOW_CONTROL_ERROR,
        FrameError::StreamClosed => Reason::STREAM_CLOSED,
        FrameError::FrameSize => Reason::FRAME_SIZE_ERROR,
        FrameError::Compression => Reason::COMPRESSION_ERROR,
        FrameError::TooLarge => Reason::ENHANCE_YOUR_CALM,
    }
}

pub(super) fn frame_error_end(error: FrameError) -> Http2End {
    match error {
        FrameError::TooLarge => {
            Http2End::ByGalley(Http2EndReason::Flood, "a head exceeded the limit by far")
        }
        _ => Http2End::ByGalley(Http2EndReason::Protocol, "protocol error"),
    }
}

/// The end of a connection that the library has closed.
pub(super) fn library_end(error: &h2::Error) -> Http2End {
    if error.is_io() || error.is_remote() {
        return Http2End::ClientGone;
    }
    match error.reason() {
        Some(Reason::ENHANCE_YOUR_CALM) => {
            Http2End::ByGalley(Http2EndReason::Flood, "the library's limits")
        }
        Some(Reason::NO_ERROR) | None => Http2End::Done,
        Some(_) => Http2End::ByGalley(Http2EndReason::Protocol, "protocol error"),
    }
}

/// The maximum number of unread bytes that are drained on closing.
const LINGER_BYTES: usize = 256 * 1024;
