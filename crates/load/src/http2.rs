//! HTTP/2 on one connection.

use std::io;

use bytes::Bytes;
use h2::{
    Reason,
    client::{Builder, SendRequest},
};
use http::Request;
use tokio::task::spawn_local;

use crate::{
    connect::{Dialer, Stream},
    multiplexed::{ExchangeError, Multiplexed},
    response::ReceivedResponse,
};

/// Opens a connection and starts HTTP/2 on it.
async fn open(link: &Dialer) -> io::Result<SendRequest<Bytes>> {
    let stream: Stream = link.open().await?;
    let mut builder = Builder::new();
    builder
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    let (send, connection) = builder
        .handshake(stream)
        .await
        .map_err(|error| io::Error::other(format!("HTTP/2: {error}")))?;
    spawn_local(async move {
        // The streams see errors of the connection.
        let _ = connection.await;
    });
    Ok(send)
}

impl Multiplexed for SendRequest<Bytes> {
    async fn open(link: &Dialer) -> io::Result<Self> {
        open(link).await
    }

    async fn exchange(
        &mut self,
        head: &[u8],
        response: &mut ReceivedResponse,
    ) -> Result<(), ExchangeError> {
        let exchanged = exchange(head, self, response).await;
        exchanged.map_err(|error| ExchangeError {
            ends_connection: !error.is_reset(),
            // RFC 9113 section 6.8.
            is_unprocessed: error.is_remote() && error.reason() == Some(Reason::NO_ERROR),
            source: io::Error::other(error),
        })
    }
}

async fn exchange(
    head: &[u8],
    send: &mut SendRequest<Bytes>,
    response: &mut ReceivedResponse,
) -> Result<(), h2::Error> {
    std::future::poll_fn(|context| send.poll_ready(context)).await?;
    let request = request(head).ok_or_else(|| h2::Error::from(Reason::INTERNAL_ERROR))?;
    let (pending, _) = send.send_request(request, true)?;
    let (head, mut body) = pending.await?.into_parts();
    response.begins(&head);
    while let Some(piece) = body.data().await {
        let piece = piece?;
        response.bytes += piece.len() as u64;
        response.take(&piece);
        body.flow_control().release_capacity(piece.len())?;
    }
    Ok(())
}

/// Converts the head of an HTTP/1.1 request to HTTP/2 or HTTP/3.
pub(crate) fn request(head: &[u8]) -> Option<Request<()>> {
    let lines = head.split(|byte| *byte == b'\n').count();
    let mut fields = vec![httparse::EMPTY_HEADER; lines];
    let mut parsed = httparse::Request::new(&mut fields);
    parsed.parse(head).ok()?;
    let mut host = "";
    let mut request = Request::builder().method(parsed.method?);
    for field in parsed.headers.iter() {
        // `:authority` replaces `Host`, and connection-specific fields are not permitted (RFC 9113 section 8.2.2).
        if field.name.eq_ignore_ascii_case("host") {
            host = std::str::from_utf8(field.value).ok()?;
        } else if !field.name.eq_ignore_ascii_case("connection") {
            request = request.header(field.name, field.value);
        }
    }
    let uri = format!("https://{host}{}", parsed.path?);
    request.uri(uri).body(()).ok()
}

/// As large as the windows of a browser.
pub(crate) const STREAM_WINDOW: u32 = 6 * 1024 * 1024;
pub(crate) const CONNECTION_WINDOW: u32 = 15 * 1024 * 1024;
