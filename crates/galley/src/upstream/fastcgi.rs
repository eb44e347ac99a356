//! FastCGI towards PHP-FPM and similar programs: one connection per request, one attempt, the pieces of the response.
//!
//! The variables come from typed values only (`galley_policy::cgi`). The error stream of PHP is logged with the id of the
//! request.
//!
//! Connections are not reused. A connection belongs to one worker, and nothing in the protocol tells whether that worker is
//! free: after `fastcgi_finish_request()`, as in each run of WordPress's scheduler, the response has ended and the script
//! goes on. The next request on that connection would wait for it while other workers are idle. An idle connection also
//! occupies a worker. A new connection reaches any free worker, and costs about 20 us beside PHP's milliseconds.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use galley_cache::fill::FillError;
use galley_fastcgi::response::Splitter;
use galley_fastcgi::{Error, FastCgiConnection, FastCgiRequest};
use galley_policy::cgi;
use tokio::time::{Instant, timeout};

use super::attempt::{FailedAttempt, Retry, UpstreamHealth};
use super::breaker::Breaker;
use super::call::UpstreamCall;
use super::fastcgi_body::{Errors, FastCgiBody, RequestBodySource, failure};
use super::incoming::{IncomingBody, IncomingResponse};
use super::spec::{ExchangeEnd, FastCgiAddress, PoolSpec};
use super::stats::UpstreamStats;
use super::stream::{ConnectAddress, UpstreamStream};
use super::strict::Refusals;

/// Connects to one application.
pub(super) struct FastCgiUpstream {
    site: Arc<str>,
    address: ConnectAddress,
    breaker: Breaker,
    connect_timeout: Duration,
    first_byte_timeout: Duration,
    read_timeout: Duration,
    end: ExchangeEnd,
    refusals: Refusals,
}

impl FastCgiUpstream {
    pub(super) fn new(
        address: FastCgiAddress,
        spec: &PoolSpec,
        stats: &Arc<UpstreamStats>,
    ) -> Self {
        Self {
            site: spec.site.as_str().into(),
            address: ConnectAddress::of(address),
            breaker: Breaker::new(&spec.site, stats, 0),
            connect_timeout: spec.connect_timeout,
            first_byte_timeout: spec.first_byte_timeout,
            read_timeout: spec.read_timeout,
            end: spec.end,
            refusals: Refusals::new(&spec.site, stats),
        }
    }

    /// How long the circuit breaker blocks requests; zero if one may be sent now.
    pub(super) fn pause(&self) -> Duration {
        self.breaker.pause(Instant::now())
    }

    /// One attempt.
    pub(super) async fn send(
        &self,
        call: &UpstreamCall,
    ) -> Result<(IncomingResponse, UpstreamHealth), FailedAttempt> {
        let Some(attempt) = self.breaker.try_acquire(Instant::now()) else {
            return Err(FailedAttempt::paused());
        };
        let outcome = self.exchange(call).await;
        let standing = UpstreamHealth::of(attempt.record(&outcome));
        outcome.map(|incoming| (incoming, standing))
    }

    async fn exchange(&self, call: &UpstreamCall) -> Result<IncomingResponse, FailedAttempt> {
        let never = |failure| FailedAttempt {
            failure,
            retry: Retry::Never,
        };
        let Some(script) = &call.script else {
            return Err(never(FillError::Malformed));
        };
        let connection = cgi::CgiConnection {
            client: call.client(),
            server_port: call.server_port,
            server_address: call.server_address,
        };
        let variables = cgi::variables(&call.request, script, &connection);
        let request = FastCgiRequest {
            variables: &variables,
            body_length: call.body.length(),
        };
        let body = RequestBodySource(call.body.reader());
        let connection = self.begin(&request).await?;
        let reading = FastCgiBody {
            connection: Some(connection),
            body,
            splitter: Splitter::new(),
            first: Bytes::new(),
            ended: None,
            read_timeout: call.timeouts.read.unwrap_or(self.read_timeout),
            end: self.end,
            errors: Errors::new(&self.site, &call.request.host, &call.request_id),
        };
        let first_byte_timeout = call.timeouts.first_byte.unwrap_or(self.first_byte_timeout);
        let answered = timeout(first_byte_timeout, reading.head(&self.refusals)).await;
        match answered {
            Err(_elapsed) => Err(FailedAttempt::sent(FillError::Timeout, call)),
            Ok(Err((failure, received))) if received => Err(never(failure)),
            Ok(Err((failure, _))) => Err(FailedAttempt::sent(failure, call)),
            Ok(Ok((status, fields, reading))) => {
                let is_head = call.request.method == "HEAD";
                Ok(IncomingResponse::new(
                    status,
                    fields,
                    IncomingBody::FastCgi(Box::new(reading)),
                    is_head,
                ))
            }
        }
    }

    async fn begin(
        &self,
        request: &FastCgiRequest<'_>,
    ) -> Result<FastCgiConnection<UpstreamStream>, FailedAttempt> {
        let mut fresh = self.connect().await.map_err(|failure| FailedAttempt {
            failure,
            retry: Retry::Never,
        })?;
        match fresh.send(request).await {
            Ok(()) => Ok(fresh),
            Err(Error::Variables { .. }) => Err(FailedAttempt {
                failure: FillError::Malformed,
                retry: Retry::Never,
            }),
            Err(error) => Err(FailedAttempt::unsent(failure(&error))),
        }
    }

    /// Connects, with a few retries: a restart takes less than a second, and a unix socket with a full listen queue fails at
    /// once instead of waiting.
    async fn connect(&self) -> Result<FastCgiConnection<UpstreamStream>, FillError> {
        let attempts = async {
            let mut refused = 0;
            loop {
                let error = match UpstreamStream::connect(&self.address, self.connect_timeout).await
                {
                    Ok(stream) => return Ok(FastCgiConnection::new(stream)),
                    Err(error) => error,
                };
                let queue_full = error.kind() == io::ErrorKind::WouldBlock;
                refused += u32::from(!queue_full);
                if refused > RESTART_PATIENCE {
                    return Err(FillError::Connect);
                }
                tokio::time::sleep(CONNECT_PAUSE).await;
            }
        };
        timeout(self.connect_timeout, attempts)
            .await
            .unwrap_or(Err(FillError::Connect))
    }
}

/// Between two connection attempts.
const CONNECT_PAUSE: Duration = Duration::from_millis(50);

/// Refused connections that are treated as a restart: 150 ms, so that a dead PHP is noticed early.
const RESTART_PATIENCE: u32 = 3;
