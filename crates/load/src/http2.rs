//! HTTP/2 on one connection: several streams, each with one request after the other.

use std::{io, rc::Rc};

use bytes::Bytes;
use h2::{
    Reason,
    client::{Builder, SendRequest},
};
use http::{Request, header};
use tokio::{
    sync::Mutex,
    task::{JoinSet, spawn_local},
};

use crate::{
    connect::{Dialer, Stream},
    response::{BodyCoding, ReceivedResponse},
    run::{LoadWorker, Run},
};

/// Opens a connection and starts HTTP/2 on it.
pub(crate) async fn open(link: &Dialer) -> io::Result<SendRequest<Bytes>> {
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

/// Sends requests until the run ends. Returns the connection if it is reusable.
pub(crate) async fn work(
    run: Rc<Run>,
    link: Rc<Dialer>,
    send: SendRequest<Bytes>,
    streams: usize,
) -> Option<SendRequest<Bytes>> {
    let connection = Rc::new(Connection {
        link,
        current: Mutex::new(CurrentConnection {
            number: 0,
            send: Some(send),
        }),
    });
    let mut all = JoinSet::new();
    for _ in 0..streams.max(1) {
        all.spawn_local(stream(run.worker(), Rc::clone(&connection)));
    }
    while all.join_next().await.is_some() {}
    connection.current.lock().await.send.take()
}

/// A connection that is reopened when the server closes it; all its streams use it.
struct Connection {
    link: Rc<Dialer>,
    current: Mutex<CurrentConnection>,
}

struct CurrentConnection {
    /// The number of the connection.
    number: u64,
    send: Option<SendRequest<Bytes>>,
}

impl Connection {
    /// The open connection with its number, or a new one.
    async fn sender(&self, worker: &LoadWorker) -> io::Result<(u64, SendRequest<Bytes>)> {
        let mut current = self.current.lock().await;
        let send = if let Some(send) = &current.send {
            send.clone()
        } else {
            let send = open(&self.link).await?;
            worker.reconnected();
            current.number += 1;
            current.send.insert(send).clone()
        };
        Ok((current.number, send))
    }

    /// Stops using the connection with this number.
    async fn retire(&self, number: u64) {
        let mut current = self.current.lock().await;
        if current.number == number {
            current.send = None;
        }
    }

    /// Exchanges one request and its response. If the server did not process the request because it closes the connection
    /// (RFC 9113 §6.8), the request is sent again on a new one.
    async fn exchange(
        &self,
        worker: &LoadWorker,
        head: &[u8],
        response: &mut ReceivedResponse,
    ) -> io::Result<()> {
        let mut attempts = 0;
        loop {
            let (number, mut send) = self.sender(worker).await?;
            let Err(error) = exchange(head, &mut send, response).await else {
                return Ok(());
            };
            if !error.is_reset() {
                self.retire(number).await;
            }
            attempts += 1;
            let is_in_order = error.is_remote() && error.reason() == Some(Reason::NO_ERROR);
            if !is_in_order || !response.is_untouched() || attempts == MAX_ATTEMPTS {
                return Err(io::Error::other(error));
            }
        }
    }
}

/// Sends requests, one stream after the other.
async fn stream(worker: LoadWorker, connection: Rc<Connection>) {
    let watch = connection.link.target.watch.as_deref();
    let mut response = ReceivedResponse::new(watch.map(Rc::from));
    let mut head = Vec::new();
    while let Some(expected) = worker.begin(&mut head, &mut response).await {
        match connection.exchange(&worker, &head, &mut response).await {
            Ok(()) => worker.done(expected, &mut response),
            Err(error) => worker.failed(&error),
        }
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
    response.status = head.status.as_u16();
    let coding = head.headers.get(header::CONTENT_ENCODING);
    response.coding = coding.map_or(BodyCoding::Identity, |value| {
        BodyCoding::of(value.as_bytes())
    });
    let watched = response.watch().and_then(|name| head.headers.get(name));
    if let Some(value) = watched {
        response.note(value.as_bytes());
    }
    while let Some(piece) = body.data().await {
        let piece = piece?;
        response.bytes += piece.len() as u64;
        response.take(&piece);
        body.flow_control().release_capacity(piece.len())?;
    }
    Ok(())
}

/// Converts the head of an HTTP/1.1 request to HTTP/2.
fn request(head: &[u8]) -> Option<Request<()>> {
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
const STREAM_WINDOW: u32 = 6 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 15 * 1024 * 1024;
/// The maximum number of connections on which one request is tried.
const MAX_ATTEMPTS: u32 = 10;
