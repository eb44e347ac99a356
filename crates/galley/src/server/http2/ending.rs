//! How a connection ends, and what is said of it.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use galley_http::frame_interceptor::FrameError;
use h2::Reason;
use tokio::io::{AsyncRead, AsyncWrite};

use super::patience;
use super::wire::Wire;
use crate::server::Core;
use crate::server::http1::Ends;
use crate::server::timer::Timer;
use crate::telemetry::http2::Ended;

/// How a connection ended.
pub(super) enum End {
    /// Both sides are done.
    Done,
    /// The client has gone, or cannot be written to.
    Gone,
    /// We have ended it.
    Ours(Ended, &'static str),
}

/// Tells about the end, and lets what was written last arrive.
pub(super) async fn finish<S: AsyncRead + AsyncWrite + Unpin>(
    core: &Core,
    wire: &Rc<RefCell<Wire<S>>>,
    timer: &Timer,
    ends: Ends,
    end: End,
) {
    let tally = wire.borrow().ledger.tally;
    let ours = match end {
        End::Ours(ended, note) => {
            let (streams, resets) = (tally.streams, tally.resets_by_client);
            let made = tally.resets_by_galley;
            tracing::debug!(client = %ends.client, streams, resets, made, note, "an HTTP/2 connection was ended");
            if ended == Ended::Flood && core.services.http2_floods.admit() {
                tracing::warn!(client = %ends.client, streams, resets, made, note, "an HTTP/2 connection was ended");
            }
            Some(ended)
        }
        End::Done | End::Gone => None,
    };
    core.counters.http2(&tally, ours);
    // Who takes nothing does not take a farewell either.
    let is_stuck = ours == Some(Ended::Slow) && !wire.borrow().is_empty();
    if matches!(end, End::Gone) || is_stuck {
        return;
    }
    let mut drained = 0;
    let leaving = poll_fn(|cx| {
        let mut wire = wire.borrow_mut();
        match wire.poll_shutdown(cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(_)) => return Poll::Ready(()),
            Poll::Pending => return Poll::Pending,
        }
        // Closing with unread bytes makes the kernel send a reset, which can overtake what was written last.
        while let Poll::Ready(read) = wire.poll_drain(cx) {
            drained += read.as_ref().copied().unwrap_or_default();
            if !matches!(read, Ok(1..)) || drained > LINGER_BYTES {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    });
    let _ = timer.within(patience::LINGER, leaving).await;
}

pub(super) fn reason(broken: FrameError) -> Reason {
    match broken {
        FrameError::Protocol => Reason::PROTOCOL_ERROR,
        FrameError::FlowControl => Reason::FLOW_CONTROL_ERROR,
        FrameError::StreamClosed => Reason::STREAM_CLOSED,
        FrameError::FrameSize => Reason::FRAME_SIZE_ERROR,
        FrameError::Compression => Reason::COMPRESSION_ERROR,
        FrameError::TooLarge => Reason::ENHANCE_YOUR_CALM,
    }
}

pub(super) fn ended(broken: FrameError) -> (Ended, &'static str) {
    match broken {
        FrameError::TooLarge => (Ended::Flood, "a head was far too large"),
        _ => (Ended::Protocol, "the protocol was broken"),
    }
}

/// Why the library has ended a connection.
pub(super) fn why(error: &h2::Error) -> End {
    if error.is_io() || error.is_remote() {
        return End::Gone;
    }
    match error.reason() {
        Some(Reason::ENHANCE_YOUR_CALM) => End::Ours(Ended::Flood, "the library's limits"),
        Some(Reason::NO_ERROR) | None => End::Done,
        Some(_) => End::Ours(Ended::Protocol, "the protocol was broken"),
    }
}

/// How many unread bytes are drained on closing.
const LINGER_BYTES: usize = 256 * 1024;
