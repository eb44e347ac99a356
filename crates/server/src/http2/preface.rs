//! The exchange of connection prefaces (RFC 9113 section 3.4).

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use galley_http::frame_interceptor::PREFACE;
use h2::server::{self, Builder};
use tokio::io::{AsyncRead, AsyncWrite};

use super::ending::Http2End;
use super::framed_socket::{FramedSocket, LibraryIo};
use super::limits;
use crate::Core;
use crate::io::ClientConnection;
use crate::timer::Timer;
use galley_telemetry::http2::Http2EndReason;

/// Whether a connection without TLS begins with the client's connection preface (RFC 9113 section 3.4).
pub(crate) async fn has_preface(core: &Core, connection: &mut ClientConnection) -> bool {
    let deadline = connection.timer.deadline(core.limits.head_timeout);
    while connection.input.len() < PREFACE.len() {
        if !PREFACE.starts_with(&connection.input)
            || connection.fill_before(deadline).await.is_err()
        {
            return false;
        }
    }
    connection.input.starts_with(PREFACE)
}

/// Exchanges the connection prefaces.
pub(super) async fn exchange_prefaces<S: AsyncRead + AsyncWrite + Unpin>(
    core: &Core,
    socket: &Rc<RefCell<FramedSocket<S>>>,
    timer: &Timer,
) -> Result<server::Connection<LibraryIo<S>, Bytes>, Http2End> {
    let builder: Builder = limits::builder(&core.limits);
    let mut handshake = pin!(builder.handshake(LibraryIo(Rc::clone(socket))));
    let exchange = poll_fn(|cx| {
        let polled = handshake.as_mut().poll(cx);
        match socket.borrow_mut().poll_out(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
            Poll::Ready(Ok(())) | Poll::Pending => polled.map_err(PrefaceError::from),
        }
    });
    match timer.within(core.limits.head_timeout, exchange).await {
        Ok(Ok(h2)) => Ok(h2),
        Ok(Err(PrefaceError::Broken)) => Err(Http2End::ClientGone),
        Ok(Err(PrefaceError::Wrong)) => {
            Err(Http2End::ByGalley(Http2EndReason::Protocol, "no greeting"))
        }
        Err(_) => Err(Http2End::ByGalley(
            Http2EndReason::Slow,
            "no connection preface in time",
        )),
    }
}

enum PrefaceError {
    Broken,
    Wrong,
}

impl From<io::Error> for PrefaceError {
    fn from(_: io::Error) -> Self {
        Self::Broken
    }
}

impl From<h2::Error> for PrefaceError {
    fn from(error: h2::Error) -> Self {
        if error.is_io() {
            Self::Broken
        } else {
            Self::Wrong
        }
    }
}
