//! FastCGI towards PHP-FPM and the like: a connection for each request, one attempt, the answer's pieces.
//!
//! The variables come from typed values only (`galley_policy::cgi`); what PHP writes to its error stream goes to the log with
//! the request's id.
//!
//! No connection is kept. It would belong to one worker, and nothing on the wire tells whether that worker is free:
//! after `fastcgi_finish_request()`, as in each run of WordPress's scheduler, an answer has ended and the script works on.
//! The next request on that connection would wait for it, beside idle workers. Also, a kept idle connection occupies a worker.
//! A new one goes to whoever is free, and costs some 20 us beside PHP's milliseconds.

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
        gauge: &Arc<UpstreamStats>,
    ) -> Self {
        Self {
            site: spec.site.as_str().into(),
            address: ConnectAddress::of(address),
            breaker: Breaker::new(&spec.site, gauge, 0),
            connect_timeout: spec.connect_timeout,
            first_byte_timeout: spec.first_byte_timeout,
            read_timeout: spec.read_timeout,
            end: spec.end,
            refusals: Refusals::new(&spec.site, gauge),
        }
    }

    /// How long nobody is let through; zero where the application may be asked.
    pub(super) fn pause(&self) -> Duration {
        self.breaker.pause(Instant::now())
    }

    /// One attempt.
    pub(super) async fn send(
        &self,
        ask: &UpstreamCall,
    ) -> Result<(IncomingResponse, UpstreamHealth), FailedAttempt> {
        let Some(attempt) = self.breaker.pass(Instant::now()) else {
            return Err(FailedAttempt::paused());
        };
        let outcome = self.exchange(ask).await;
        let standing = UpstreamHealth::of(attempt.record(&outcome));
        outcome.map(|incoming| (incoming, standing))
    }

    async fn exchange(&self, ask: &UpstreamCall) -> Result<IncomingResponse, FailedAttempt> {
        let never = |failure| FailedAttempt {
            failure,
            retry: Retry::Never,
        };
        let Some(script) = &ask.script else {
            return Err(never(FillError::Malformed));
        };
        let connection = cgi::CgiConnection {
            client: ask.client(),
            server_port: ask.server_port,
            server_address: ask.server_address,
        };
        let variables = cgi::variables(&ask.request, script, &connection);
        let request = FastCgiRequest {
            variables: &variables,
            body_length: ask.body.length(),
        };
        let body = RequestBodySource(ask.body.reader());
        let connection = self.begin(&request).await?;
        let reading = FastCgiBody {
            connection: Some(connection),
            body,
            splitter: Splitter::new(),
            first: Bytes::new(),
            ended: None,
            read_timeout: ask.timeouts.read.unwrap_or(self.read_timeout),
            end: self.end,
            errors: Errors::new(&self.site, &ask.request.host, &ask.request_id),
        };
        let patience = ask.timeouts.first_byte.unwrap_or(self.first_byte_timeout);
        let answered = timeout(patience, reading.head(&self.refusals)).await;
        match answered {
            Err(_elapsed) => Err(FailedAttempt::sent(FillError::Timeout, ask)),
            Ok(Err((failure, received))) if received => Err(never(failure)),
            Ok(Err((failure, _))) => Err(FailedAttempt::sent(failure, ask)),
            Ok(Ok((status, fields, reading))) => {
                let is_head = ask.request.method == "HEAD";
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

    /// Connects, trying again for a moment: an application that restarts is away for less than a second, and a full listen
    /// queue of a unix socket answers at once instead of making us wait.
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

/// Between two attempts to connect.
const CONNECT_PAUSE: Duration = Duration::from_millis(50);

/// Refused connections that are taken for a restart under way: 150 ms, so that a dead PHP is told soon.
const RESTART_PATIENCE: u32 = 3;
