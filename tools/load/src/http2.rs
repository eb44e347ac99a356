//! HTTP/2 on one connection: several streams, each with one request after the other.

use std::{io, rc::Rc};

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use http::{Request, header};
use tokio::task::{JoinSet, spawn_local};

use crate::{
    connect::{Link, Stream},
    response::{Coding, Response},
    run::Run,
};

/// Begins to speak HTTP/2 after the handshake.
pub(crate) async fn open(link: &Link) -> io::Result<SendRequest<Bytes>> {
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
        // What breaks is seen by the streams.
        let _ = connection.await;
    });
    Ok(send)
}

/// Sends requests until the run ends; the connection, if it can go on.
pub(crate) async fn work(
    run: Rc<Run>,
    send: SendRequest<Bytes>,
    streams: usize,
) -> Option<SendRequest<Bytes>> {
    let mut all = JoinSet::new();
    for _ in 0..streams.max(1) {
        all.spawn_local(stream(Rc::clone(&run), send.clone()));
    }
    let mut is_whole = true;
    while let Some(ended) = all.join_next().await {
        is_whole &= ended.unwrap_or(false);
    }
    is_whole.then_some(send)
}

/// One stream after the other; false if the connection broke.
async fn stream(run: Rc<Run>, mut send: SendRequest<Bytes>) -> bool {
    let mut response = Response::new(None);
    let mut head = Vec::new();
    while let Some(start) = run.begin().await {
        let expected = run.request(&mut head, &mut response);
        match exchange(&head, &mut send, &mut response).await {
            Ok(()) => run.done(expected, &mut response, start),
            Err(error) => {
                run.broke(&error);
                return false;
            }
        }
    }
    true
}

async fn exchange(
    head: &[u8],
    send: &mut SendRequest<Bytes>,
    response: &mut Response,
) -> Result<(), h2::Error> {
    std::future::poll_fn(|context| send.poll_ready(context)).await?;
    let request = request(head).ok_or_else(|| h2::Error::from(h2::Reason::INTERNAL_ERROR))?;
    let (answer, _) = send.send_request(request, true)?;
    let (head, mut body) = answer.await?.into_parts();
    response.status = head.status.as_u16();
    let coding = head.headers.get(header::CONTENT_ENCODING);
    response.coding = coding.map_or(Coding::Identity, |value| Coding::of(value.as_bytes()));
    while let Some(piece) = body.data().await {
        let piece = piece?;
        response.bytes += piece.len() as u64;
        response.take(&piece);
        body.flow_control().release_capacity(piece.len())?;
    }
    Ok(())
}

/// The request as HTTP/2 has it, from its head as HTTP/1.1 has it.
fn request(head: &[u8]) -> Option<Request<()>> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut parsed = httparse::Request::new(&mut fields);
    parsed.parse(head).ok()?;
    let mut host = "";
    let mut request = Request::builder().method(parsed.method?);
    for field in parsed.headers.iter() {
        // RFC 9113 section 8.2.2, and what `:authority` says.
        if field.name.eq_ignore_ascii_case("host") {
            host = std::str::from_utf8(field.value).ok()?;
        } else if !field.name.eq_ignore_ascii_case("connection") {
            request = request.header(field.name, field.value);
        }
    }
    let uri = format!("https://{host}{}", parsed.path?);
    request.uri(uri).body(()).ok()
}

/// As large as a browser's.
const STREAM_WINDOW: u32 = 6 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 15 * 1024 * 1024;
const MOST_FIELDS: usize = 32;
