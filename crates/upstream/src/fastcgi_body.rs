//! A FastCGI response in progress: its head, the pieces of its body, and the application's error stream.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use galley_cache::fill::FillError;
use galley_fastcgi::response::{SplitOutput, Splitter};
use galley_fastcgi::{
    BodySource, EndStatus, Error, FastCgiConnection, FastCgiEvent, ProtocolStatus,
};
use galley_policy::cgi::{self, CgiHead};
use tokio::time::timeout;

use super::response_log::ResponseLog;
use super::spec::ExchangeEnd;
use super::stream::UpstreamStream;
use crate::body::RequestBodyReader;
use crate::body::streamed_body::UploadPace;

/// A response in progress.
pub(super) struct FastCgiBody {
    pub(super) connection: Option<FastCgiConnection<UpstreamStream>>,
    /// The index of the server in the upstream.
    pub(super) server: usize,
    pub(super) body: RequestBodySource,
    pub(super) splitter: Splitter,
    pub(super) first: Bytes,
    pub(super) ended: Option<EndStatus>,
    pub(super) read_timeout: Duration,
    /// The progress of the request's own body.
    pub(super) upload: UploadPace,
    pub(super) end: ExchangeEnd,
    pub(super) errors: Errors,
}

impl FastCgiBody {
    /// Reads to the end of the CGI head. Errors state whether a part of the response was received.
    pub(super) async fn head(
        mut self,
        log: &ResponseLog,
    ) -> Result<(CgiHead, Self), (FillError, bool)> {
        let server = self.server;
        let rejected = |reason: &dyn fmt::Display| {
            log.rejected(server, reason);
            (FillError::Malformed, true)
        };
        loop {
            match self.event().await {
                Ok(FastCgiEvent::Stdout(piece)) => {
                    let SplitOutput { head, body } =
                        self.splitter.push(piece).map_err(|bad| rejected(&bad))?;
                    if let Some(head) = head {
                        self.first = body;
                        let head = cgi::response(&head).map_err(|bad| rejected(&bad))?;
                        return Ok((head, self));
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
            let upload = self.upload.clone();
            match upload.within(self.read_timeout, self.event()).await {
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

    /// Reads the body to its end and discards it.
    pub(super) async fn skip(&mut self) -> Result<Option<Bytes>, FillError> {
        while self.chunk().await?.is_some() {}
        Ok(None)
    }

    /// Whether the response is complete. PHP ends with a status other than 0 after a fatal error: its output until then is not
    /// a complete page.
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

/// Waits until the worker has finished its work after the response: it then closes the connection.
async fn released(
    connection: Option<FastCgiConnection<UpstreamStream>>,
    time_limit: Duration,
) -> Result<Option<Bytes>, FillError> {
    if let Some(connection) = connection {
        let released = timeout(time_limit, connection.released()).await;
        released.map_err(|_elapsed| FillError::Timeout)?;
    }
    Ok(None)
}

/// Logs the application's error stream, line by line.
pub(super) struct Errors {
    site: Arc<str>,
    host: String,
    request_id: String,
    line: Vec<u8>,
    lines: usize,
}

impl Errors {
    pub(super) fn new(site: &Arc<str>, host: &str, request_id: &str) -> Self {
        Self {
            site: Arc::clone(site),
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
                _ if self.line.len() < MAX_LINE => self.line.push(*byte),
                _ => {}
            }
        }
    }

    fn flush(&mut self) {
        if !self.line.is_empty() && self.lines < MAX_LINES {
            let text = String::from_utf8_lossy(&self.line);
            tracing::warn!(
                site = &*self.site,
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

pub(super) struct RequestBodySource(pub(super) RequestBodyReader);

impl BodySource for RequestBodySource {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        self.0.poll_chunk(cx)
    }
}

pub(super) fn failure(error: &Error) -> FillError {
    match error {
        Error::Stale | Error::Closed | Error::Read(_) | Error::Write(_) => FillError::Closed,
        Error::Record(_) | Error::Variables { .. } => FillError::Malformed,
        Error::Body(_) | Error::BodyLength { .. } | Error::OutOfTurn => FillError::Aborted,
    }
}

/// The maximum length of one line of the error stream, in bytes.
const MAX_LINE: usize = 4096;

/// The maximum number of lines per request, so that a plugin that warns in a loop does not fill the disk.
const MAX_LINES: usize = 50;
