//! HTTP/1.1 towards Apache and other servers, on hyper's client.
//!
//! Requests are written from typed parts, never passed through as bytes, so that a client's framing cannot reach the
//! upstream. Connections are reused ([`super::idle`]) only while no other request waits for a first byte: an idle connection
//! occupies a worker of a prefork Apache, and with fewer workers than connections, connections in the listen queue would wait
//! for a worker that never becomes free. A request is retried once if a reused connection turns out to be closed. Servers are
//! used in turn; those with an open circuit breaker are skipped. Responses are read as strictly as requests
//! ([`super::strict`]).

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use galley_cache::fill::FillError;
use galley_config::UpstreamLimits;
use galley_policy::forward::TRACEPARENT;
use galley_policy::trace_context::TraceParent;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming as HyperBody;
use hyper::client::conn::http1;
use hyper::ext::on_informational;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout};

use super::attempt::{FailedAttempt, Retry};
use super::attempt_span::AttemptSpan;
use super::balancer::ChosenServer;
use super::call::UpstreamCall;
use super::http1_body::{BodyConnection, HttpBody, HttpShared, HyperRequestBody};
use super::idle::IdleConnections;
use super::incoming::{IncomingBody, IncomingHead, IncomingResponse};
use super::resolve::ResolvedName;
use super::response_log::ResponseLog;
use super::server_state::ServerState;
use super::spec::{HttpServer, PoolSpec};
use super::stats::UpstreamStats;
use super::strict::{self, Strict};
use crate::body::streamed_body::UploadPace;
use galley_tls::UpstreamTlsClient;

/// The connections to the servers of one upstream.
pub(super) struct HttpConnections {
    shared: Rc<HttpShared>,
    servers: Vec<HttpPeer>,
    limits: UpstreamLimits,
    log: Rc<ResponseLog>,
}

struct HttpPeer {
    name: ResolvedName,
    /// `None`: plain HTTP.
    tls: Option<Arc<UpstreamTlsClient>>,
    /// The number of idle connections to the server, over all pools.
    idle: Arc<AtomicUsize>,
    site: String,
    /// The time when a failed handshake was last logged.
    warned_at: Cell<Option<Instant>>,
}

impl HttpPeer {
    /// Logs why a handshake failed: the general message about a failed connection would not mention an untrusted certificate
    /// authority.
    fn warn_once(&self, error: &io::Error) {
        let now = Instant::now();
        if self
            .warned_at
            .get()
            .is_none_or(|at| now - at >= WARNING_INTERVAL)
        {
            self.warned_at.set(Some(now));
            let (site, upstream) = (&self.site, self.name.host());
            tracing::error!(site, upstream, %error, "the TLS handshake with the upstream failed");
        }
    }
}

impl HttpConnections {
    pub(super) fn new(
        servers: Vec<HttpServer>,
        spec: &PoolSpec,
        stats: &Arc<UpstreamStats>,
    ) -> Self {
        let servers = servers.into_iter();
        Self {
            shared: Rc::new(HttpShared {
                idle: Rc::new(IdleConnections::new(
                    spec.limits.idle_share,
                    spec.limits.idle_age,
                    stats,
                )),
                unanswered: Cell::new(0),
            }),
            servers: servers
                .map(|at| HttpPeer {
                    name: ResolvedName::new(&at.host, at.port),
                    tls: at.tls,
                    idle: at.idle,
                    site: spec.site.clone(),
                    warned_at: Cell::new(None),
                })
                .collect(),
            limits: spec.limits,
            log: ResponseLog::new(&spec.site, stats),
        }
    }

    /// Sends the request to a server, over an idle connection if there is one, and receives the head of the response.
    pub(super) async fn exchange(
        &self,
        call: &UpstreamCall,
        ChosenServer { index, state }: ChosenServer<'_>,
        span: &mut AttemptSpan,
    ) -> Result<IncomingResponse, FailedAttempt> {
        let unreachable = || FailedAttempt::unsent(FillError::Connect);
        let server = self.servers.get(index).ok_or_else(unreachable)?;
        span.tries_http(&server.name);
        let connection = self.connection(index, server, state, span).await;
        let mut connection = connection.ok_or_else(unreachable)?;
        let request = request(call, span.parent()).ok_or(FailedAttempt {
            failure: FillError::Malformed,
            retry: Retry::Never,
        })?;
        let unanswered = Unanswered::begin(&self.shared);
        let first_byte_timeout = call
            .timeouts
            .first_byte
            .unwrap_or(self.limits.first_byte_timeout);
        connection.watch.begin();
        let sending = connection.sender.send_request(request);
        let response = match call.body.pace().within(first_byte_timeout, sending).await {
            Err(_elapsed) => return Err(FailedAttempt::sent(FillError::Timeout, call)),
            Ok(Err(error)) => return Err(self.failed(call, &error, &connection, index)),
            Ok(Ok(response)) => response,
        };
        drop(unanswered);
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return self.switched(call, response, index, server).await;
        }
        if let Err(bad) = strict::check(&response) {
            self.log.rejected(index, &bad);
            return Err(FailedAttempt::sent(FillError::Malformed, call));
        }
        let (parts, body) = response.into_parts();
        let may_be_reused = !is_authenticated_connection(call, &parts.headers);
        let head = IncomingHead {
            status: parts.status,
            fields: parts.headers,
            dropped: connection.watch.dropped(),
            is_bare: call.request.method == "HEAD",
        };
        let reading = HttpBody {
            body,
            connection: may_be_reused.then_some((index, connection)),
            is_excessive: false,
            read_timeout: call.timeouts.read.unwrap_or(self.limits.read_timeout),
            upload: call.body.pace(),
            all_idle: Arc::clone(&server.idle),
            shared: Rc::clone(&self.shared),
        };
        let body = IncomingBody::Http(reading);
        let source = self.log.source(index, call);
        let mut incoming = IncomingResponse::new(head, body, source);
        if incoming.status == StatusCode::RESET_CONTENT
            && let Err((failure, bad)) = incoming.without_content().await
        {
            self.log.rejected(index, &bad);
            return Err(FailedAttempt::sent(failure, call));
        }
        Ok(incoming)
    }

    /// The error of an attempt that hyper has failed.
    fn failed(
        &self,
        call: &UpstreamCall,
        error: &hyper::Error,
        connection: &BodyConnection,
        server: usize,
    ) -> FailedAttempt {
        if call.is_upload_aborted() {
            return FailedAttempt::upload_aborted();
        }
        if let Some(bad) = connection.watch.rejected() {
            self.log.rejected(server, &bad);
            return FailedAttempt::sent(FillError::Malformed, call);
        }
        if error.is_parse() {
            self.log.rejected(server, error);
            return FailedAttempt::sent(FillError::Malformed, call);
        }
        if error.is_canceled() {
            return FailedAttempt::unsent(FillError::Closed);
        }
        FailedAttempt::sent(FillError::Closed, call)
    }

    /// A connection that the upstream switches to another protocol.
    async fn switched(
        &self,
        call: &UpstreamCall,
        mut response: Response<HyperBody>,
        index: usize,
        server: &HttpPeer,
    ) -> Result<IncomingResponse, FailedAttempt> {
        let agreed = call.switch.as_ref();
        let agreed = agreed.filter(|switch| switch.is_agreed(response.headers()));
        // The client did not request this switch: the bytes that follow are not a response.
        let Some(switch) = agreed else {
            return Err(FailedAttempt::sent(FillError::Malformed, call));
        };
        let switching = hyper::upgrade::on(&mut response);
        let Ok(Ok(stream)) = timeout(self.limits.connect_timeout, switching).await else {
            return Err(FailedAttempt::sent(FillError::Closed, call));
        };
        switch.done(TokioIo::new(stream));
        let (parts, body) = response.into_parts();
        let reading = HttpBody {
            body,
            connection: None,
            is_excessive: false,
            read_timeout: self.limits.read_timeout,
            upload: UploadPace::default(),
            all_idle: Arc::clone(&server.idle),
            shared: Rc::clone(&self.shared),
        };
        let head = IncomingHead {
            status: parts.status,
            fields: parts.headers,
            dropped: None,
            is_bare: true,
        };
        let body = IncomingBody::Http(reading);
        let source = self.log.source(index, call);
        Ok(IncomingResponse::new(head, body, source))
    }

    /// An idle connection to the server, or a new one. `None`: the server cannot be reached.
    async fn connection(
        &self,
        index: usize,
        server: &HttpPeer,
        state: &ServerState,
        span: &AttemptSpan,
    ) -> Option<BodyConnection> {
        if let Some(idle) = self.idle(index, state).await {
            return Some(idle);
        }
        let _connecting = span.begin_connect();
        // Boxed: requests over a reused connection do not need its memory.
        let connecting = Box::pin(connect(server, self.limits.connect_timeout));
        let connected = timeout(self.limits.connect_timeout, connecting).await;
        let connected = connected.unwrap_or_else(|_elapsed| Err(io::ErrorKind::TimedOut.into()));
        state.connected(connected.as_ref().err());
        connected.ok()
    }

    /// An idle connection to a server that responds.
    async fn idle(&self, index: usize, state: &ServerState) -> Option<BodyConnection> {
        while let Some(mut connection) = self.shared.idle.take(index) {
            // `ready` waits until the connection's task has settled after the last exchange; a closed one fails.
            if state.breaker.is_closed() && connection.sender.ready().await.is_ok() {
                return Some(connection);
            }
        }
        None
    }
}

async fn connect(server: &HttpPeer, time_limit: Duration) -> io::Result<BodyConnection> {
    let stream = server.name.connect(time_limit).await?;
    // Heads and bodies are sent in whole writes; waiting to fill segments only delays PHP.
    let _ = stream.set_nodelay(true);
    let Some(tls) = &server.tls else {
        return start_http1(stream).await;
    };
    match tls.connect(stream).await {
        Ok(stream) => start_http1(stream).await,
        Err(error) => {
            server.warn_once(&error);
            Err(error)
        }
    }
}

async fn start_http1<S>(stream: S) -> io::Result<BodyConnection>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let watch = Arc::default();
    let stream = Strict::new(stream, &watch);
    let mut builder = http1::Builder::new();
    // `Strict` has rejected dangerous ones.
    builder.ignore_invalid_headers_in_responses(true);
    let (sender, connection) = builder
        .handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    // The task ends when the sender is dropped or the server closes; the exchange receives its errors.
    tokio::task::spawn_local(async move {
        let _ = connection.with_upgrades().await;
    });
    Ok(BodyConnection { sender, watch })
}

/// Builds the request; `None` if its parts are invalid.
fn request(call: &UpstreamCall, trace: Option<TraceParent>) -> Option<Request<HyperRequestBody>> {
    let mut target = call.request.path.clone();
    if let Some(query) = &call.request.query {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    let body = HyperRequestBody {
        reader: call.body.reader(),
        length: call.body.length(),
    };
    let mut request = Request::builder()
        .method(call.request.method.as_str())
        .uri(http::Uri::try_from(target).ok()?)
        .body(body)
        .ok()?;
    let fields = request.headers_mut();
    fields.insert(
        header::HOST,
        HeaderValue::from_str(&call.request.host).ok()?,
    );
    for (name, value) in &call.request.fields {
        fields.append(name.clone(), value.clone());
    }
    if let Some(parent) = trace {
        fields.insert(TRACEPARENT, HeaderValue::from_str(&parent.text()).ok()?);
    }
    if let Some(switch) = &call.switch {
        switch.write_fields(fields);
    }
    if let Some(client) = call.interim.clone() {
        on_informational(&mut request, move |interim| {
            client.send(interim.status(), interim.headers());
        });
    }
    Some(request)
}

/// Whether the exchange may have authenticated its connection instead of its request, as NTLM and Negotiate do (RFC 4559 section
/// 6): the next request on it would be that of the first client (the advisory of Traefik 3.7.13).
fn is_authenticated_connection(call: &UpstreamCall, response: &HeaderMap) -> bool {
    let sent = call.request.fields.iter();
    let sent = sent.filter(|(name, _)| *name == header::AUTHORIZATION);
    let challenges = response.get_all(header::WWW_AUTHENTICATE);
    sent.map(|(_, value)| value)
        .chain(challenges)
        .any(|value| names_connection_scheme(value.as_bytes()))
}

/// Whether credentials, or one of the challenges of a field, belong to a scheme that authenticates connections.
fn names_connection_scheme(value: &[u8]) -> bool {
    value.split(|byte| *byte == b',').any(|part| {
        let part = part.trim_ascii_start();
        let end = part.iter().position(u8::is_ascii_whitespace);
        let scheme = part.get(..end.unwrap_or(part.len())).unwrap_or_default();
        [&b"ntlm"[..], b"negotiate"]
            .iter()
            .any(|name| scheme.eq_ignore_ascii_case(name))
    })
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

/// Minimum time between two log lines: an upstream with a rejected certificate fails at each request.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);
