//! What the client over TLS says on one connection: requests of HTTP/1.1 one after the other, or streams of HTTP/2.

use std::{io, rc::Rc, time::Instant};

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use http::{HeaderMap, HeaderValue, Request, header};
use serde::Deserialize;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::{JoinSet, spawn_local},
};
use tokio_rustls::client::TlsStream;

use super::{
    Coding,
    answer::{Answer, Step},
    secured::Turn,
};
use crate::demo::Complaint;

/// What is spoken over TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(in super::super) enum Spoken {
    #[serde(rename = "http/1.1")]
    Http1,
    #[serde(rename = "h2")]
    H2,
}

impl Spoken {
    /// As handshakes name it (RFC 7301).
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Http1 => "http/1.1",
            Self::H2 => "h2",
        }
    }
}

/// A connection that may be asked.
#[derive(Debug)]
pub(super) enum Open {
    Http1(Box<TlsStream<TcpStream>>),
    H2(SendRequest<Bytes>),
}

/// Begins to speak after the handshake.
pub(super) async fn open(spoken: Spoken, stream: TlsStream<TcpStream>) -> Result<Open, Complaint> {
    if stream.get_ref().1.alpn_protocol() != Some(spoken.name().as_bytes()) {
        return Err(format!("it does not speak {}", spoken.name()).into());
    }
    match spoken {
        Spoken::Http1 => Ok(Open::Http1(Box::new(stream))),
        Spoken::H2 => {
            let mut builder = Builder::new();
            builder
                .enable_push(false)
                .initial_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW);
            let (send, connection) = builder.handshake(stream).await?;
            spawn_local(async move {
                // What breaks is seen by the streams.
                let _ = connection.await;
            });
            Ok(Open::H2(send))
        }
    }
}

/// Asks until the turn ends; the connection, if it can go on.
pub(super) async fn ask(turn: Rc<Turn>, open: Open, streams: usize) -> Option<Open> {
    match open {
        Open::Http1(mut stream) => {
            let mut room = Room::new();
            while turn.goes_on() {
                if let Err(error) = one(&turn, &mut stream, &mut room, Instant::now()).await {
                    turn.broke(&error.to_string());
                    return None;
                }
            }
            Some(Open::Http1(stream))
        }
        Open::H2(send) => {
            let mut all = JoinSet::new();
            for _ in 0..streams.max(1) {
                all.spawn_local(stream(Rc::clone(&turn), send.clone()));
            }
            while all.join_next().await.is_some() {}
            Some(Open::H2(send))
        }
    }
}

/// The one request of a connection, to the connection's end.
pub(super) async fn last(turn: &Turn, mut stream: TlsStream<TcpStream>, since: Instant) {
    let mut room = Room::new();
    if let Err(error) = one(turn, &mut stream, &mut room, since).await {
        return turn.broke(&error.to_string());
    }
    // The server closes: an end from this side could be a reset.
    while matches!(stream.read(&mut room.buffer).await, Ok(1..)) {}
}

/// What a connection of HTTP/1.1 reads into.
struct Room {
    answer: Answer,
    buffer: Vec<u8>,
}

impl Room {
    fn new() -> Self {
        Self {
            answer: Answer::new(),
            buffer: vec![0; BUFFER],
        }
    }
}

async fn one(
    turn: &Turn,
    stream: &mut TlsStream<TcpStream>,
    room: &mut Room,
    since: Instant,
) -> io::Result<()> {
    let Room { answer, buffer } = room;
    let number = turn.next(answer);
    stream.write_all(&turn.head(number)).await?;
    stream.flush().await?;
    loop {
        let count = stream.read(buffer).await?;
        let bytes = buffer.get(..count).unwrap_or_default();
        if bytes.is_empty() {
            return Err(io::Error::other("the connection broke"));
        }
        match answer.feed(bytes) {
            Ok(Step::More) => {}
            Ok(Step::Done { used }) if used == count => break,
            Ok(Step::Done { .. }) => {
                return Err(io::Error::other("more bytes than the answer has"));
            }
            Err(malformed) => return Err(io::Error::other(malformed.0)),
        }
    }
    turn.done(number, answer, since);
    Ok(())
}

/// One stream after the other.
async fn stream(turn: Rc<Turn>, mut send: SendRequest<Bytes>) {
    let mut answer = Answer::new();
    while turn.goes_on() {
        let since = Instant::now();
        let number = turn.next(&mut answer);
        let head = turn.head(number);
        if let Err(complaint) = fetch(&head, &mut send, &mut answer).await {
            return turn.broke(&complaint.to_string());
        }
        turn.done(number, &mut answer, since);
    }
}

async fn fetch(
    head: &[u8],
    send: &mut SendRequest<Bytes>,
    answer: &mut Answer,
) -> Result<(), Complaint> {
    let request = request(head).ok_or("no request")?;
    std::future::poll_fn(|cx| send.poll_ready(cx)).await?;
    let (response, _) = send.send_request(request, true)?;
    let (head, mut body) = response.await?.into_parts();
    answer.status = head.status.as_u16();
    answer.coding = coding(&head.headers);
    while let Some(piece) = body.data().await {
        let piece = piece?;
        answer.length += piece.len() as u64;
        answer.bytes += piece.len() as u64;
        if let Some(body) = &mut answer.body {
            body.extend_from_slice(&piece);
        }
        body.flow_control().release_capacity(piece.len())?;
    }
    Ok(())
}

/// The same request as HTTP/2 has it.
fn request(head: &[u8]) -> Option<Request<()>> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut parsed = httparse::Request::new(&mut fields);
    parsed.parse(head).ok()?;
    let of = |name: &str| {
        let mut fields = parsed.headers.iter();
        fields.find(|field| field.name.eq_ignore_ascii_case(name))
    };
    let host = std::str::from_utf8(of("host")?.value).ok()?;
    let mut request = Request::builder()
        .method(parsed.method?)
        .uri(format!("https://{host}{}", parsed.path?));
    for field in parsed.headers.iter() {
        // RFC 9113 section 8.2.2, and what `:authority` says.
        let is_left = ["host", "connection"]
            .iter()
            .any(|name| field.name.eq_ignore_ascii_case(name));
        if !is_left {
            request = request.header(field.name, field.value);
        }
    }
    request.body(()).ok()
}

fn coding(fields: &HeaderMap) -> Coding {
    match fields
        .get(header::CONTENT_ENCODING)
        .map(HeaderValue::as_bytes)
    {
        None => Coding::Identity,
        Some(b"gzip") => Coding::Gzip,
        Some(b"br") => Coding::Br,
        Some(_) => Coding::Other,
    }
}

/// As large as a browser's.
const STREAM_WINDOW: u32 = 6 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 15 * 1024 * 1024;
/// Of one read: a record of TLS has at most so much.
const BUFFER: usize = 17 * 1024;
const MOST_FIELDS: usize = 32;
