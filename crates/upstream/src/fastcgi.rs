//! FastCGI towards PHP-FPM and similar programs: one connection per request, one attempt, the pieces of the response.
//!
//! The variables come from typed values only (`galley_policy::cgi`). The error stream of PHP is logged with the id of the
//! request.
//!
//! Connections are not reused. A connection belongs to one worker, and the protocol does not show whether that worker is free:
//! after `fastcgi_finish_request()`, as in each run of WordPress's scheduler, the response has ended and the script continues.
//! The next request on that connection would wait for it while other workers are idle. An idle connection also occupies a
//! worker. A new connection reaches any free worker, and costs about 20 us compared with PHP's milliseconds.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use galley_cache::fill::FillError;
use galley_config::{PhpAddress, UpstreamLimits};
use galley_fastcgi::response::Splitter;
use galley_fastcgi::{Error, FastCgiConnection, FastCgiRequest};
use galley_policy::cgi;
use tokio::time::timeout;

use super::attempt::{FailedAttempt, Retry};
use super::attempt_span::AttemptSpan;
use super::balancer::ChosenServer;
use super::call::UpstreamCall;
use super::fastcgi_body::{Errors, FastCgiBody, RequestBodySource, failure};
use super::incoming::{IncomingBody, IncomingHead, IncomingResponse};
use super::response_log::ResponseLog;
use super::server_state::ServerState;
use super::spec::{ExchangeEnd, PoolSpec};
use super::stats::UpstreamStats;
use super::stream::{ConnectAddress, UpstreamStream};

/// The connections to one FastCGI upstream.
pub(super) struct FastCgiUpstream {
    site: Arc<str>,
    servers: Vec<ConnectAddress>,
    limits: UpstreamLimits,
    end: ExchangeEnd,
    log: Rc<ResponseLog>,
}

impl FastCgiUpstream {
    pub(super) fn new(
        servers: Vec<PhpAddress>,
        spec: &PoolSpec,
        stats: &Arc<UpstreamStats>,
    ) -> Self {
        Self {
            site: spec.site.as_str().into(),
            servers: servers.into_iter().map(ConnectAddress::of).collect(),
            limits: spec.limits,
            end: spec.end,
            log: ResponseLog::new(&spec.site, stats),
        }
    }

    /// Sends the request to a server over a new connection, and receives the head of the response. `has_other`: whether another
    /// server may be used.
    pub(super) async fn exchange(
        &self,
        call: &UpstreamCall,
        server: ChosenServer<'_>,
        has_other: &dyn Fn() -> bool,
        span: &mut AttemptSpan,
    ) -> Result<IncomingResponse, FailedAttempt> {
        let never = |failure| FailedAttempt {
            failure,
            retry: Retry::Never,
        };
        // Without a length there is no `CONTENT_LENGTH`, and such a body is not streamed to FastCGI.
        let (Some(script), Some(body_length)) = (&call.script, call.body.length()) else {
            return Err(never(FillError::Malformed));
        };
        let connection = cgi::CgiConnection {
            client: call.client(),
            server_address: call.server_address,
        };
        let mut variables = cgi::variables(&call.request, script, &connection);
        if let Some(parent) = span.parent() {
            variables.push(cgi::trace_parent(&parent));
        }
        let request = FastCgiRequest {
            variables: &variables,
            body_length,
        };
        let body = RequestBodySource(call.body.reader());
        let connection = self.begin(&request, server, has_other, span).await?;
        let reading = FastCgiBody {
            connection: Some(connection),
            server: server.index,
            body,
            splitter: Splitter::new(),
            first: Bytes::new(),
            ended: None,
            read_timeout: call.timeouts.read.unwrap_or(self.limits.read_timeout),
            upload: call.body.pace(),
            end: self.end,
            errors: Errors::new(&self.site, &call.request.host, &call.request_id),
        };
        let first_byte_timeout = call
            .timeouts
            .first_byte
            .unwrap_or(self.limits.first_byte_timeout);
        let head = reading.head(&self.log);
        match call.body.pace().within(first_byte_timeout, head).await {
            Err(_elapsed) => Err(FailedAttempt::sent(FillError::Timeout, call)),
            Ok(Err(_)) if call.is_upload_aborted() => Err(FailedAttempt::upload_aborted()),
            Ok(Err((failure, received))) if received => Err(FailedAttempt::received(failure, call)),
            Ok(Err((failure, _))) => Err(FailedAttempt::sent(failure, call)),
            Ok(Ok((head, reading))) => {
                let head = IncomingHead {
                    status: head.status,
                    fields: head.fields,
                    dropped: head.dropped,
                    is_bare: call.request.method == "HEAD",
                };
                let source = self.log.source(server.index, call);
                let body = IncomingBody::FastCgi(Box::new(reading));
                Ok(IncomingResponse::new(head, body, source))
            }
        }
    }

    async fn begin(
        &self,
        request: &FastCgiRequest<'_>,
        server: ChosenServer<'_>,
        has_other: &dyn Fn() -> bool,
        span: &mut AttemptSpan,
    ) -> Result<FastCgiConnection<UpstreamStream>, FailedAttempt> {
        let never = |failure| FailedAttempt {
            failure,
            retry: Retry::Never,
        };
        let address = self.servers.get(server.index);
        let address = address.ok_or(never(FillError::Connect))?;
        span.tries_fastcgi(address);
        let connecting = span.begin_connect();
        let connected = self.connect(address, server.state, has_other).await;
        let mut fresh = connected.map_err(never)?;
        drop(connecting);
        match fresh.send(request).await {
            Ok(()) => Ok(fresh),
            Err(Error::Variables { .. }) => Err(never(FillError::Malformed)),
            Err(error) => Err(FailedAttempt::unsent(failure(&error))),
        }
    }

    /// Connects. If no other server may be used, retries a few times: a restart takes less than a second, and a unix socket with a
    /// full listen queue fails at once instead of waiting.
    async fn connect(
        &self,
        address: &ConnectAddress,
        state: &ServerState,
        has_other: &dyn Fn() -> bool,
    ) -> Result<FastCgiConnection<UpstreamStream>, FillError> {
        // The queue of the socket is full, so PHP-FPM listens.
        let is_full = Cell::new(false);
        let attempts = async {
            let mut refused = 0;
            loop {
                let connected = UpstreamStream::connect(address, self.limits.connect_timeout).await;
                let error = match connected {
                    Ok(stream) => {
                        state.connected(None);
                        return Ok(FastCgiConnection::new(stream));
                    }
                    Err(error) => error,
                };
                is_full.set(error.kind() == io::ErrorKind::WouldBlock);
                if !is_full.get() {
                    state.connected(Some(&error));
                    refused += 1;
                }
                let is_over = refused > MAX_RESTART_WAITS;
                if is_over || has_other() {
                    return Err(FillError::Connect);
                }
                tokio::time::sleep(CONNECT_PAUSE).await;
            }
        };
        let connected = timeout(self.limits.connect_timeout, attempts).await;
        connected.unwrap_or_else(|_elapsed| {
            if !is_full.get() {
                state.connected(Some(&io::ErrorKind::TimedOut.into()));
            }
            Err(FillError::Connect)
        })
    }
}

/// The pause between two connection attempts.
const CONNECT_PAUSE: Duration = Duration::from_millis(50);

/// The number of refused connections that are treated as a restart: 150 ms, so that a dead PHP is noticed early.
const MAX_RESTART_WAITS: u32 = 3;
