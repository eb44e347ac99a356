//! FastCGI towards PHP-FPM and the like: a connection for each request, one attempt, the answer's pieces.
//!
//! The variables come from typed values only (`galley_policy::cgi`); what PHP writes to its error stream goes to the log with
//! the request's id.
//!
//! No connection is kept. It would belong to one worker, and nothing on the wire tells whether that worker is free:
//! after `fastcgi_finish_request()`, as in each run of WordPress's scheduler, an answer has ended and the script works on.
//! The next request on that connection would wait for it, beside idle workers. Also, a kept idle connection occupies a worker.
//! A new one goes to whoever is free, and costs some 20 us beside PHP's milliseconds.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use galley_cache::fill::FillError;
use galley_fastcgi::answer::{SplitOutput, Splitter};
use galley_fastcgi::{
    BodySource, EndStatus, Error, FastCgiConnection, FastCgiEvent, FastCgiRequest, ProtocolStatus,
};
use galley_policy::cgi;
use http::{HeaderMap, StatusCode};
use tokio::time::timeout;

use super::breaker::Breaker;
use super::stream::{ConnectAddress, UpstreamStream};
use super::strict::Refusals;
use super::{
    ExchangeEnd, FailedAttempt, Gauge, IncomingBody, IncomingResponse, Instant, PoolSpec, Retry,
    UpstreamCall, UpstreamHealth,
};
use crate::body::SpooledBodyReader;

/// Where a FastCGI application listens.
#[derive(Clone, Debug)]
pub enum FastCgiAddress {
    /// A socket in the file system.
    Unix(PathBuf),
    /// `host:port`.
    Tcp(String),
}

impl fmt::Display for FastCgiAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => f.write_str(address),
        }
    }
}

/// Connects to one application.
pub(super) struct FastCgiUpstream {
    place: ConnectAddress,
    breaker: Breaker,
    connect_timeout: Duration,
    first_byte_timeout: Duration,
    read_timeout: Duration,
    end: ExchangeEnd,
    refusals: Refusals,
}

impl FastCgiUpstream {
    pub(super) fn new(address: FastCgiAddress, spec: &PoolSpec, gauge: &Arc<Gauge>) -> Self {
        Self {
            place: ConnectAddress::of(address),
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
        let standing = UpstreamHealth::of(attempt.told(&outcome));
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
            read_timeout: ask.patience.read.unwrap_or(self.read_timeout),
            end: self.end,
            errors: Errors::new(&ask.request.host, &ask.request_id),
        };
        let patience = ask.patience.first_byte.unwrap_or(self.first_byte_timeout);
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
                let error = match UpstreamStream::connect(&self.place, self.connect_timeout).await {
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

/// The answer under way.
pub(super) struct FastCgiBody {
    connection: Option<FastCgiConnection<UpstreamStream>>,
    body: RequestBodySource,
    splitter: Splitter,
    first: Bytes,
    ended: Option<EndStatus>,
    read_timeout: Duration,
    end: ExchangeEnd,
    errors: Errors,
}

impl FastCgiBody {
    /// Reads up to the end of the CGI head. The flag of an error: whether something of the answer was received.
    async fn head(
        mut self,
        refusals: &Refusals,
    ) -> Result<(StatusCode, HeaderMap, Self), (FillError, bool)> {
        let refused = |reason: &dyn fmt::Display| {
            refusals.log(0, reason);
            (FillError::Malformed, true)
        };
        loop {
            match self.event().await {
                Ok(FastCgiEvent::Stdout(piece)) => {
                    let SplitOutput { head, body } =
                        self.splitter.push(piece).map_err(|bad| refused(&bad))?;
                    if let Some(head) = head {
                        self.first = body;
                        let (status, fields) = cgi::answer(&head).map_err(|bad| refused(&bad))?;
                        return Ok((status, fields, self));
                    }
                }
                Ok(FastCgiEvent::Stderr(text)) => self.errors.push(&text),
                Ok(FastCgiEvent::End(end)) => {
                    let overloaded = end.protocol_status == ProtocolStatus::Overloaded;
                    return Err((
                        if overloaded {
                            FillError::Overload
                        } else {
                            FillError::Malformed
                        },
                        true,
                    ));
                }
                Err(error) => {
                    let received = self
                        .connection
                        .as_ref()
                        .is_some_and(FastCgiConnection::has_received);
                    return Err((failure(&error), received));
                }
            }
        }
    }

    /// The next piece of the body.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, FillError> {
        if !self.first.is_empty() {
            return Ok(Some(std::mem::take(&mut self.first)));
        }
        if self.ended.is_some() {
            return Ok(None);
        }
        loop {
            match timeout(self.read_timeout, self.event()).await {
                Err(_elapsed) => return Err(FillError::Timeout),
                Ok(Err(error)) => return Err(failure(&error)),
                Ok(Ok(FastCgiEvent::Stdout(piece))) => return Ok(Some(piece)),
                Ok(Ok(FastCgiEvent::Stderr(text))) => self.errors.push(&text),
                Ok(Ok(FastCgiEvent::End(end))) => {
                    self.ended = Some(end);
                    let connection = self.connection.take();
                    if self.end == ExchangeEnd::Worker {
                        return released(connection, self.read_timeout).await;
                    }
                    return Ok(None);
                }
            }
        }
    }

    /// Reads to the end without giving anything of the body.
    pub(super) async fn skip(&mut self) -> Result<Option<Bytes>, FillError> {
        while self.chunk().await?.is_some() {}
        Ok(None)
    }

    /// PHP ends with another status than 0 after a fatal error: what it printed until then is not a whole page.
    pub(super) fn ended_well(&self) -> bool {
        self.ended.is_some_and(|end| {
            end.app_status == 0 && end.protocol_status == ProtocolStatus::RequestComplete
        })
    }

    async fn event(&mut self) -> Result<FastCgiEvent, Error> {
        match &mut self.connection {
            Some(connection) => connection.event(&mut self.body).await,
            None => Err(Error::OutOfTurn),
        }
    }
}

/// Waits until the worker has done what it does after its answer: it closes the connection then.
async fn released(
    connection: Option<FastCgiConnection<UpstreamStream>>,
    patience: Duration,
) -> Result<Option<Bytes>, FillError> {
    if let Some(connection) = connection {
        let released = timeout(patience, connection.released()).await;
        released.map_err(|_elapsed| FillError::Timeout)?;
    }
    Ok(None)
}

/// What the application writes to its error stream, line by line into the log.
struct Errors {
    host: String,
    request_id: String,
    line: Vec<u8>,
    lines: usize,
}

impl Errors {
    fn new(host: &str, request_id: &str) -> Self {
        Self {
            host: host.to_owned(),
            request_id: request_id.to_owned(),
            line: Vec::new(),
            lines: 0,
        }
    }

    fn push(&mut self, text: &[u8]) {
        for byte in text {
            match byte {
                b'\n' => self.flush(),
                _ if self.line.len() < LONGEST_LINE => self.line.push(*byte),
                _ => {}
            }
        }
    }

    fn flush(&mut self) {
        if !self.line.is_empty() && self.lines < MOST_LINES {
            let text = String::from_utf8_lossy(&self.line);
            tracing::warn!(
                host = self.host,
                request = self.request_id,
                "upstream says: {}",
                text.trim_end()
            );
            self.lines += 1;
        }
        self.line.clear();
    }
}

impl Drop for Errors {
    fn drop(&mut self) {
        self.flush();
    }
}

struct RequestBodySource(SpooledBodyReader);

impl BodySource for RequestBodySource {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        self.0.poll_chunk(cx)
    }
}

fn failure(error: &Error) -> FillError {
    match error {
        Error::Stale | Error::Closed | Error::Read(_) | Error::Write(_) => FillError::Closed,
        Error::Record(_) | Error::Variables { .. } => FillError::Malformed,
        Error::Body(_) | Error::BodyLength { .. } | Error::OutOfTurn => FillError::Aborted,
    }
}

/// Between two attempts to connect.
const CONNECT_PAUSE: Duration = Duration::from_millis(50);

/// Refused connections that are taken for a restart under way: 150 ms, so that a dead PHP is told soon.
const RESTART_PATIENCE: u32 = 3;

/// Bytes of one line from the error stream.
const LONGEST_LINE: usize = 4096;

/// Lines of one request: a plugin that warns in a loop does not fill the disk.
const MOST_LINES: usize = 50;
