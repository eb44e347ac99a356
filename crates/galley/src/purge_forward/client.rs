//! Sends one request to a cache of another machine, on a connection of its own, and judges the response.
//!
//! Bounds: a time for the whole, 64 KiB of response. The token is read for each request and never part of a message.

use std::fmt;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use galley_certs::file;
use galley_config::HttpUpstream;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Collected, Full, Limited};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::target::{ForwardTarget, TargetRequest, authority};
use crate::tls::UpstreamTlsClient;

/// Why a purge did not get through.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SendError {
    /// A message without secrets.
    pub(super) why: String,
    /// The pause that the other side asks for.
    pub(super) retry_after: Option<Duration>,
    /// Whether the request itself is wrong, so that it will be refused again.
    pub(super) is_rejected: bool,
}

/// The address of a target.
pub(super) struct Connector {
    host: String,
    port: u16,
    authority: String,
    tls: Option<UpstreamTlsClient>,
}

impl Connector {
    /// For a target's address. Reads the certificates that the system trusts.
    pub(super) fn new(server: &HttpUpstream) -> Result<Self, SendError> {
        let host = server.host.trim_start_matches('[').trim_end_matches(']');
        let tls = if server.tls {
            Some(UpstreamTlsClient::new(host, None, true).map_err(SendError::new)?)
        } else {
            None
        };
        Ok(Self {
            host: host.to_owned(),
            port: server.port,
            authority: authority(server),
            tls,
        })
    }

    /// Sends one request.
    pub(super) async fn send(
        &self,
        target: &ForwardTarget,
        call: &TargetRequest,
    ) -> Result<(), SendError> {
        let request = self.request(target, call)?;
        let answer = match timeout(REQUEST_TIMEOUT, self.exchange(request)).await {
            Err(_elapsed) => return Err(SendError::new("no response in time")),
            Ok(answer) => answer?,
        };
        if target.means_absent(call, answer.status.as_u16()) {
            return Ok(());
        }
        judge(answer.status, &answer.fields, &answer.body)
    }

    fn request(
        &self,
        target: &ForwardTarget,
        call: &TargetRequest,
    ) -> Result<Request<Full<Bytes>>, SendError> {
        let body = call
            .body
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        let host = call.host.as_ref().unwrap_or(&self.authority);
        let mut request = Request::builder()
            .method(call.method)
            .uri(&call.target)
            .header(header::HOST, host)
            .header(header::USER_AGENT, "Galley")
            .header(header::CONNECTION, "close");
        if call.body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        for (name, value) in &call.fields {
            request = request.header(*name, value);
        }
        if let Some(file) = &target.token_file {
            let (name, value) = target.permission(&token(file)?);
            let value = HeaderValue::from_str(&value);
            let mut value =
                value.map_err(|_| SendError::new("the token is not one line of text"))?;
            value.set_sensitive(true);
            request = request.header(name, value);
        }
        request.body(Full::from(body)).map_err(|why| SendError {
            is_rejected: true,
            ..SendError::new(why)
        })
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<TargetResponse, SendError> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        match &self.tls {
            Some(tls) => exchange(tls.connect(stream).await?, request).await,
            None => exchange(stream, request).await,
        }
    }
}

struct TargetResponse {
    status: StatusCode,
    fields: HeaderMap,
    body: Bytes,
}

async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> Result<TargetResponse, SendError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = handshake(TokioIo::new(stream))
        .await
        .map_err(SendError::new)?;
    let asking = async move {
        let answer = sender.send_request(request).await.map_err(SendError::new)?;
        let (parts, body) = answer.into_parts();
        let body = Limited::new(body, MOST_ANSWER).collect().await;
        Ok(TargetResponse {
            status: parts.status,
            fields: parts.headers,
            // The status counts even if the body breaks off.
            body: body.map(Collected::to_bytes).unwrap_or_default(),
        })
    };
    tokio::pin!(asking, connection);
    tokio::select! {
        biased;
        answer = &mut asking => answer,
        _ended = &mut connection => asking.await,
    }
}

/// Whether the purge was taken: a good status, and no `false` in what JSON says of it.
fn judge(status: StatusCode, fields: &HeaderMap, body: &[u8]) -> Result<(), SendError> {
    let value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let is_refused = value["success"] == false || value["ok"] == false;
    if value["reach"] == "local" {
        return Err(SendError::new("the purge has not reached all its nodes"));
    }
    if status.is_success() && !is_refused {
        return Ok(());
    }
    Err(SendError {
        why: format!("status {}{}", status.as_u16(), error_message(&value)),
        retry_after: retry_after(fields, SystemTime::now()),
        is_rejected: matches!(status.as_u16(), 400 | 404 | 413 | 414 | 422),
    })
}

/// The beginning of an error message in JSON.
fn error_message(value: &serde_json::Value) -> String {
    let known = [
        &value["errors"][0]["message"],
        &value["error"],
        &value["msg"],
        &value["Message"],
    ];
    let text = known.into_iter().find_map(serde_json::Value::as_str);
    let text = text
        .unwrap_or_default()
        .chars()
        .filter(|letter| !letter.is_control());
    let text: String = text.take(MOST_MESSAGE).collect();
    if text.is_empty() {
        text
    } else {
        format!(": {text}")
    }
}

/// `Retry-After` (RFC 9110 section 10.2.3), or the second at which Fastly's limit ends.
fn retry_after(fields: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| fields.get(name).and_then(|value| value.to_str().ok());
    let until = |at: SystemTime| at.duration_since(now).unwrap_or_default();
    let asked = match (text("retry-after"), text("fastly-ratelimit-reset")) {
        (Some(text), _) => match text.trim().parse() {
            Ok(seconds) => Duration::from_secs(seconds),
            Err(_) => until(httpdate::parse_http_date(text).ok()?),
        },
        (None, Some(text)) => {
            until(SystemTime::UNIX_EPOCH + Duration::from_secs(text.trim().parse().ok()?))
        }
        (None, None) => return None,
    };
    Some(asked.min(LONGEST_PAUSE))
}

fn token(path: &Path) -> Result<String, SendError> {
    let read = file::read_text(path, galley_config::MOST_OF_TOKEN);
    let text = read.map_err(|why| SendError::new(format!("{}: {why}", path.display())))?;
    Ok(text.trim().to_owned())
}

impl SendError {
    fn new(why: impl fmt::Display) -> Self {
        Self {
            why: why.to_string(),
            retry_after: None,
            is_rejected: false,
        }
    }
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> Self {
        Self::new(error)
    }
}

/// For one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// Responses are short.
const MOST_ANSWER: usize = 64 * 1024;

/// What is kept of an error's text.
const MOST_MESSAGE: usize = 200;

/// However long the other side asks for.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(600);
