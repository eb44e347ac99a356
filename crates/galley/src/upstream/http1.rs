//! HTTP/1.1 towards Apache and the like, on hyper's client.
//!
//! Requests are written anew from typed parts, never passed through as bytes, so what a client framed oddly cannot reach
//! the upstream as framing. Connections are kept only while nobody else waits for a first byte: a kept idle one occupies a worker
//! of a prefork Apache, and with fewer workers than connections those in the listen queue would wait for one that never comes
//! free. A request is tried once more when a kept connection turns out closed.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use galley_store::fill::Failure;
use http::{HeaderValue, Request, header};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming as HyperBody, SizeHint};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::ext::on_informational;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Ask, Broken, Incoming, IncomingBody, PoolSpec};
use crate::body::BodyReader;

/// Kept connections to a list of servers.
pub(super) struct Connections {
    shared: Rc<Shared>,
    servers: Vec<(String, u16)>,
    next: Cell<usize>,
    connect_timeout: Duration,
    first_byte_timeout: Duration,
}

struct Shared {
    idle: RefCell<Vec<SendRequest<AskBody>>>,
    /// Exchanges that have been sent and not yet answered.
    unanswered: Cell<usize>,
    read_timeout: Duration,
}

impl Connections {
    pub(super) fn new(servers: Vec<(String, u16)>, spec: &PoolSpec) -> Self {
        Self {
            shared: Rc::new(Shared {
                idle: RefCell::new(Vec::new()),
                unanswered: Cell::new(0),
                read_timeout: spec.read_timeout,
            }),
            servers,
            next: Cell::new(0),
            connect_timeout: spec.connect_timeout,
            first_byte_timeout: spec.first_byte_timeout,
        }
    }

    /// One attempt.
    pub(super) async fn send(&self, ask: &Ask) -> Result<Incoming, Broken> {
        let mut connection = self.connection().await.map_err(Broken::unsent)?;
        let request = request(ask).ok_or(Broken {
            failure: Failure::Malformed,
            retry: super::Retry::Never,
        })?;
        let unanswered = Unanswered::begin(&self.shared);
        let answer = match timeout(self.first_byte_timeout, connection.send_request(request)).await
        {
            Err(_elapsed) => return Err(Broken::sent(Failure::Timeout, ask)),
            Ok(Err(error)) if error.is_parse() => {
                return Err(Broken::sent(Failure::Malformed, ask));
            }
            Ok(Err(error)) if error.is_canceled() => return Err(Broken::unsent(Failure::Closed)),
            Ok(Err(_)) => return Err(Broken::sent(Failure::Closed, ask)),
            Ok(Ok(answer)) => answer,
        };
        drop(unanswered);
        let (parts, body) = answer.into_parts();
        if parts.status.is_informational() {
            // 101 to a request that asked for no other protocol: what follows is nobody's answer.
            return Err(Broken::sent(Failure::Malformed, ask));
        }
        let reading = Reading {
            body,
            connection: Some(connection),
            shared: Rc::clone(&self.shared),
        };
        let is_head = ask.request.method == "HEAD";
        Ok(Incoming::new(
            parts.status,
            parts.headers,
            IncomingBody::Http(reading),
            is_head,
        ))
    }

    async fn connection(&self) -> Result<SendRequest<AskBody>, Failure> {
        while let Some(mut idle) = self.shared.take_idle() {
            // `ready` waits for the connection's task to have settled after the last exchange; a closed one fails.
            if idle.ready().await.is_ok() {
                return Ok(idle);
            }
        }
        let mut last = Failure::Connect;
        for _ in 0..self.servers.len().max(1) {
            match timeout(self.connect_timeout, self.connect()).await {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(failure)) => last = failure,
                Err(_elapsed) => last = Failure::Connect,
            }
        }
        Err(last)
    }

    async fn connect(&self) -> Result<SendRequest<AskBody>, Failure> {
        let turn = self.next.get();
        self.next.set(turn.wrapping_add(1));
        let (host, port) = self
            .servers
            .get(turn % self.servers.len().max(1))
            .ok_or(Failure::Connect)?;
        let stream = TcpStream::connect((host.as_str(), *port))
            .await
            .map_err(|_| Failure::Connect)?;
        // Heads and bodies leave in whole writes; waiting to fill segments only delays PHP.
        let _ = stream.set_nodelay(true);
        let (sender, connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(|_| Failure::Connect)?;
        // Ends by itself when the sender is dropped or the server closes; its errors reach the exchange.
        tokio::task::spawn_local(async move {
            let _ = connection.await;
        });
        Ok(sender)
    }
}

impl Shared {
    fn take_idle(&self) -> Option<SendRequest<AskBody>> {
        self.idle.borrow_mut().pop()
    }

    fn give_back(&self, connection: SendRequest<AskBody>) {
        if self.unanswered.get() == 0 && !connection.is_closed() {
            let mut idle = self.idle.borrow_mut();
            if idle.len() < MOST_IDLE {
                idle.push(connection);
            }
        }
    }
}

/// The body of an answer under way.
pub(super) struct Reading {
    body: HyperBody,
    connection: Option<SendRequest<AskBody>>,
    shared: Rc<Shared>,
}

impl Reading {
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            let frame = match timeout(self.shared.read_timeout, self.body.frame()).await {
                Err(_elapsed) => return Err(Failure::Timeout),
                Ok(None) => {
                    if let Some(connection) = self.connection.take() {
                        self.shared.give_back(connection);
                    }
                    return Ok(None);
                }
                Ok(Some(Err(_))) => return Err(Failure::Closed),
                Ok(Some(Ok(frame))) => frame,
            };
            // Trailers are dropped: RFC 9110 §6.5.1 forbids merging what we do not know.
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }
}

/// A request's body for hyper.
pub(super) struct AskBody {
    reader: BodyReader,
    length: u64,
}

impl Body for AskBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        self.reader
            .poll_chunk(cx)
            .map(|chunk| chunk.transpose().map(|c| c.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.length == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.length)
    }
}

/// Writes the request anew; `None` where its parts do not make one.
fn request(ask: &Ask) -> Option<Request<AskBody>> {
    let mut target = ask.request.path.clone();
    if let Some(query) = &ask.request.query {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    let body = AskBody {
        reader: ask.body.reader().ok()?,
        length: ask.body.length(),
    };
    let mut request = Request::builder()
        .method(ask.request.method.as_str())
        .uri(http::Uri::try_from(target).ok()?)
        .body(body)
        .ok()?;
    let fields = request.headers_mut();
    fields.insert(header::HOST, HeaderValue::from_str(&ask.request.host).ok()?);
    for (name, value) in &ask.request.fields {
        fields.append(name.clone(), value.clone());
    }
    if let Some(client) = ask.interim.clone() {
        on_informational(&mut request, move |interim| {
            client.send(interim.status(), interim.headers());
        });
    }
    Some(request)
}

struct Unanswered(Rc<Shared>);

impl Unanswered {
    fn begin(shared: &Rc<Shared>) -> Self {
        shared.unanswered.set(shared.unanswered.get() + 1);
        Self(Rc::clone(shared))
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.unanswered.set(self.0.unanswered.get() - 1);
    }
}

/// Idle connections kept at most: a small prefork Apache has 20 children, and a quarter of them is plenty to
/// save the handshake while most stay free for others.
const MOST_IDLE: usize = 5;
