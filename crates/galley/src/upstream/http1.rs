//! HTTP/1.1 towards Apache and the like, on hyper's client.
//!
//! Requests are written anew from typed parts, never passed through as bytes, so what a client framed oddly cannot reach
//! the upstream as framing. Connections are kept ([`super::idle`]) only while nobody else waits for a first byte: a kept idle one
//! occupies a worker of a prefork Apache, and with fewer workers than connections those in the listen queue would wait for one
//! that never comes free. A request is tried once more when a kept connection turns out closed. Servers are asked in turn;
//! those that are left alone are passed over. Responses are read as strictly as requests ([`super::strict`]).

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use galley_cache::fill::FillError;
use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming as HyperBody;
use hyper::client::conn::http1::handshake;
use hyper::ext::on_informational;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout};

use super::attempt::{FailedAttempt, Retry, UpstreamHealth};
use super::breaker::{Attempt, Breaker};
use super::call::UpstreamCall;
use super::http1_body::{AskBody, HttpBody, HttpShared, Link};
use super::idle::Idle;
use super::incoming::{IncomingBody, IncomingResponse};
use super::resolve::ResolvedName;
use super::spec::{HttpServer, PoolSpec};
use super::stats::UpstreamStats;
use super::strict::{self, Refusals, Strict};
use crate::tls::UpstreamTlsClient;

/// The way to a list of servers.
pub(super) struct HttpConnections {
    shared: Rc<HttpShared>,
    servers: Vec<HttpPeer>,
    next: Cell<usize>,
    connect_timeout: Duration,
    first_byte_timeout: Duration,
    read_timeout: Duration,
    refusals: Refusals,
}

struct HttpPeer {
    name: ResolvedName,
    /// `None`: it is spoken with in plain.
    tls: Option<Arc<UpstreamTlsClient>>,
    /// Connections to it that are kept without a request, by all pools.
    idle: Arc<AtomicUsize>,
    breaker: Breaker,
    site: String,
    /// When it was last told that a handshake failed.
    warned_at: Cell<Option<Instant>>,
}

impl HttpPeer {
    /// Says why a handshake failed: a connection that does not come to stand is told of in general, and an authority that
    /// nobody trusts would hide behind it.
    fn warn_once(&self, error: &std::io::Error) {
        let now = Instant::now();
        if self.warned_at.get().is_none_or(|at| now - at >= TELL_EVERY) {
            self.warned_at.set(Some(now));
            let (site, upstream) = (&self.site, self.name.host());
            tracing::error!(site, upstream, %error, "the TLS handshake with the upstream failed");
        }
    }
}

/// A connection for one request.
struct ReadyConnection<'c> {
    connection: Link,
    /// Whose it is, and its place among the servers.
    server: (usize, &'c HttpPeer),
    attempt: Attempt<'c>,
}

impl HttpConnections {
    pub(super) fn new(
        servers: Vec<HttpServer>,
        spec: &PoolSpec,
        gauge: &Arc<UpstreamStats>,
    ) -> Self {
        let servers = servers.into_iter().enumerate();
        Self {
            shared: Rc::new(HttpShared {
                idle: Rc::new(Idle::new(spec.idle_share, spec.idle_age, gauge)),
                unanswered: Cell::new(0),
            }),
            servers: servers
                .map(|(index, at)| HttpPeer {
                    name: ResolvedName::new(&at.host, at.port),
                    tls: at.tls,
                    idle: at.idle,
                    breaker: Breaker::new(&spec.site, gauge, index),
                    site: spec.site.clone(),
                    warned_at: Cell::new(None),
                })
                .collect(),
            next: Cell::new(0),
            connect_timeout: spec.connect_timeout,
            first_byte_timeout: spec.first_byte_timeout,
            read_timeout: spec.read_timeout,
            refusals: Refusals::new(&spec.site, gauge),
        }
    }

    /// How long nobody is let through to any server; zero where one may be asked.
    pub(super) fn pause(&self) -> Duration {
        let now = Instant::now();
        let pauses = self.servers.iter().map(|server| server.breaker.pause(now));
        pauses.min().unwrap_or_default()
    }

    /// One attempt.
    pub(super) async fn send(
        &self,
        ask: &UpstreamCall,
    ) -> Result<(IncomingResponse, UpstreamHealth), FailedAttempt> {
        let ReadyConnection {
            connection,
            server: (index, server),
            attempt,
        } = self.connection().await?;
        let outcome = self.exchange(ask, connection, index, server).await;
        let was_alone = !self.servers.iter().any(|server| server.breaker.is_closed());
        let standing = UpstreamHealth::of(attempt.record(&outcome) && was_alone);
        outcome.map(|incoming| (incoming, standing))
    }

    async fn exchange(
        &self,
        ask: &UpstreamCall,
        mut connection: Link,
        index: usize,
        server: &HttpPeer,
    ) -> Result<IncomingResponse, FailedAttempt> {
        let request = request(ask).ok_or(FailedAttempt {
            failure: FillError::Malformed,
            retry: Retry::Never,
        })?;
        let unanswered = Unanswered::begin(&self.shared);
        let patience = ask.timeouts.first_byte.unwrap_or(self.first_byte_timeout);
        connection.watch.begin();
        let sending = connection.sender.send_request(request);
        let answer = match timeout(patience, sending).await {
            Err(_elapsed) => return Err(FailedAttempt::sent(FillError::Timeout, ask)),
            Ok(Err(error)) => return Err(self.failed(ask, &error, &connection, index)),
            Ok(Ok(answer)) => answer,
        };
        drop(unanswered);
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
            return self.switched(ask, answer, server).await;
        }
        if let Err(bad) = strict::check(&answer) {
            self.refusals.log(index, &bad);
            return Err(FailedAttempt::sent(FillError::Malformed, ask));
        }
        let (parts, body) = answer.into_parts();
        let reading = HttpBody {
            body,
            connection: Some((index, connection)),
            read_timeout: ask.timeouts.read.unwrap_or(self.read_timeout),
            all_idle: Arc::clone(&server.idle),
            shared: Rc::clone(&self.shared),
        };
        let is_head = ask.request.method == "HEAD";
        let body = IncomingBody::Http(reading);
        let mut incoming = IncomingResponse::new(parts.status, parts.headers, body, is_head);
        if parts.status == StatusCode::RESET_CONTENT
            && let Err((failure, bad)) = incoming.without_content().await
        {
            self.refusals.log(index, &bad);
            return Err(FailedAttempt::sent(failure, ask));
        }
        Ok(incoming)
    }

    /// What an attempt that hyper gave up says.
    fn failed(
        &self,
        ask: &UpstreamCall,
        error: &hyper::Error,
        connection: &Link,
        server: usize,
    ) -> FailedAttempt {
        if let Some(bad) = connection.watch.refused() {
            self.refusals.log(server, &bad);
            return FailedAttempt::sent(FillError::Malformed, ask);
        }
        if error.is_parse() {
            self.refusals.log(server, error);
            return FailedAttempt::sent(FillError::Malformed, ask);
        }
        if error.is_canceled() {
            return FailedAttempt::unsent(FillError::Closed);
        }
        FailedAttempt::sent(FillError::Closed, ask)
    }

    /// A connection that the upstream takes for something else than HTTP from here on.
    async fn switched(
        &self,
        ask: &UpstreamCall,
        mut answer: Response<HyperBody>,
        server: &HttpPeer,
    ) -> Result<IncomingResponse, FailedAttempt> {
        let agreed = ask.switch.as_ref();
        let agreed = agreed.filter(|switch| switch.is_agreed(answer.headers()));
        // To a request that asked for nothing of the kind: what follows is nobody's answer.
        let Some(switch) = agreed else {
            return Err(FailedAttempt::sent(FillError::Malformed, ask));
        };
        let switching = hyper::upgrade::on(&mut answer);
        let Ok(Ok(stream)) = timeout(self.connect_timeout, switching).await else {
            return Err(FailedAttempt::sent(FillError::Closed, ask));
        };
        switch.done(TokioIo::new(stream));
        let (parts, body) = answer.into_parts();
        let reading = HttpBody {
            body,
            connection: None,
            read_timeout: self.read_timeout,
            all_idle: Arc::clone(&server.idle),
            shared: Rc::clone(&self.shared),
        };
        let body = IncomingBody::Http(reading);
        Ok(IncomingResponse::new(
            parts.status,
            parts.headers,
            body,
            true,
        ))
    }

    /// A kept connection, or a new one to the next server that may be asked and can be reached.
    async fn connection(&self) -> Result<ReadyConnection<'_>, FailedAttempt> {
        while let Some((index, mut connection)) = self.shared.idle.take() {
            let Some(server) = self.servers.get(index) else {
                continue;
            };
            // `ready` waits for the connection's task to have settled after the last exchange; a closed one fails.
            if server.breaker.is_closed()
                && connection.sender.ready().await.is_ok()
                && let Some(attempt) = server.breaker.pass(Instant::now())
            {
                return Ok(ReadyConnection {
                    connection,
                    server: (index, server),
                    attempt,
                });
            }
        }
        let mut last = FailedAttempt::paused();
        for _ in 0..self.servers.len() {
            let turn = self.next.get();
            self.next.set(turn.wrapping_add(1));
            let index = turn % self.servers.len();
            let Some(server) = self.servers.get(index) else {
                continue;
            };
            let Some(attempt) = server.breaker.pass(Instant::now()) else {
                continue;
            };
            let connecting = connect(server, self.connect_timeout);
            if let Ok(Ok(connection)) = timeout(self.connect_timeout, connecting).await {
                return Ok(ReadyConnection {
                    connection,
                    server: (index, server),
                    attempt,
                });
            }
            attempt.failed();
            last = FailedAttempt::unsent(FillError::Connect);
        }
        Err(last)
    }
}

/// A new connection, over TLS where the server speaks it; the caller sees to the time.
async fn connect(server: &HttpPeer, patience: Duration) -> Result<Link, FillError> {
    let stream = server.name.connect(patience).await;
    let stream = stream.map_err(|_| FillError::Connect)?;
    // Heads and bodies leave in whole writes; waiting to fill segments only delays PHP.
    let _ = stream.set_nodelay(true);
    let Some(tls) = &server.tls else {
        return speak(stream).await;
    };
    match tls.connect(stream).await {
        Ok(stream) => speak(stream).await,
        Err(error) => {
            server.warn_once(&error);
            Err(FillError::Connect)
        }
    }
}

async fn speak<S>(stream: S) -> Result<Link, FillError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let watch = Arc::default();
    let stream = Strict::new(stream, &watch);
    let (sender, connection) = handshake(TokioIo::new(stream))
        .await
        .map_err(|_| FillError::Connect)?;
    // Ends by itself when the sender is dropped or the server closes; its errors reach the exchange.
    tokio::task::spawn_local(async move {
        let _ = connection.with_upgrades().await;
    });
    Ok(Link { sender, watch })
}

/// Writes the request anew; `None` where its parts do not make one.
fn request(ask: &UpstreamCall) -> Option<Request<AskBody>> {
    let mut target = ask.request.path.clone();
    if let Some(query) = &ask.request.query {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    let body = AskBody {
        reader: ask.body.reader(),
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
    if let Some(switch) = &ask.switch {
        switch.ask(fields);
    }
    if let Some(client) = ask.interim.clone() {
        on_informational(&mut request, move |interim| {
            client.send(interim.status(), interim.headers());
        });
    }
    Some(request)
}

struct Unanswered(Rc<HttpShared>);

impl Unanswered {
    fn begin(shared: &Rc<HttpShared>) -> Self {
        shared.unanswered.set(shared.unanswered.get() + 1);
        Self(Rc::clone(shared))
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.unanswered.set(self.0.unanswered.get() - 1);
    }
}

/// An upstream whose certificate is refused is refused at each request.
const TELL_EVERY: Duration = Duration::from_secs(60);
