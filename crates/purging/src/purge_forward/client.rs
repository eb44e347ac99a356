//! Sends one request to a cache on another machine, and evaluates the response.
//!
//! The token is read for each request and never part of a message.

use std::fmt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use galley_certs::file;
use galley_config::HttpUpstream;
use http::Request;
use http::header::{self, HeaderValue};
use http_body_util::Full;

use super::target::{ForwardTarget, TargetRequest};
use galley_tls::one_shot::{self, OneShotResponse};
use galley_tls::service_client::ServiceClient;

/// Why a purge failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SendError {
    /// A message without secrets.
    pub(super) why: String,
    /// The pause that the target requests.
    pub(super) retry_after: Option<Duration>,
    /// Whether the request is invalid, so that it would be rejected again.
    pub(super) is_rejected: bool,
}

/// Sends purges to the address of a target.
pub(super) struct Connector(ServiceClient);

impl Connector {
    /// A connector for a target's address. Reads the certificates that the system trusts.
    pub(super) fn new(server: &HttpUpstream) -> Result<Self, SendError> {
        ServiceClient::new(server).map(Self).map_err(SendError::new)
    }

    /// Sends one request.
    pub(super) async fn send(
        &self,
        target: &ForwardTarget,
        call: &TargetRequest,
    ) -> Result<(), SendError> {
        let request = self.request(target, call)?;
        let response = self.0.send(request).await.map_err(SendError::new)?;
        if target.means_absent(call, response.head.status.as_u16()) {
            return Ok(());
        }
        judge(&response)
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
        let host = call.host.as_deref().unwrap_or(self.0.authority());
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
        if let Some(file) = &target.cache.token_file {
            let (name, value) = target.authorization(&token(file)?);
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
}

/// Whether the target has accepted the purge: a successful status, and no `false` in a JSON body.
fn judge(response: &OneShotResponse) -> Result<(), SendError> {
    let status = response.head.status;
    let value: serde_json::Value = serde_json::from_slice(&response.body).unwrap_or_default();
    let is_failure = value["success"] == false || value["ok"] == false;
    if value["reach"] == "local" {
        return Err(SendError::new("the purge has not reached all its nodes"));
    }
    if status.is_success() && !is_failure {
        return Ok(());
    }
    Err(SendError {
        why: format!("status {}{}", status.as_u16(), error_message(&value)),
        retry_after: retry_after(response, SystemTime::now()),
        is_rejected: matches!(status.as_u16(), 400 | 404 | 413 | 414 | 422),
    })
}

/// The beginning of an error message in JSON.
fn error_message(value: &serde_json::Value) -> String {
    let messages = [
        &value["errors"][0]["message"],
        &value["error"],
        &value["msg"],
        &value["Message"],
    ];
    let text = messages.into_iter().find_map(serde_json::Value::as_str);
    let text = text
        .unwrap_or_default()
        .chars()
        .filter(|letter| !letter.is_control());
    let text: String = text.take(MAX_MESSAGE).collect();
    if text.is_empty() {
        text
    } else {
        format!(": {text}")
    }
}

/// `Retry-After`, or the time at which Fastly's rate limit ends.
fn retry_after(response: &OneShotResponse, now: SystemTime) -> Option<Duration> {
    let fields = &response.head.headers;
    let requested = one_shot::retry_after(fields, now).or_else(|| {
        let text = fields.get("fastly-ratelimit-reset")?.to_str().ok()?;
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(text.trim().parse().ok()?);
        Some(at.duration_since(now).unwrap_or_default())
    })?;
    Some(requested.min(MAX_PAUSE))
}

fn token(path: &Path) -> Result<String, SendError> {
    let read = file::read_text(path, galley_config::MAX_TOKEN_FILE);
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

/// The maximum length of an error message from the target, in characters.
const MAX_MESSAGE: usize = 200;

/// The longest pause, even if the target requests a longer one.
pub(super) const MAX_PAUSE: Duration = Duration::from_secs(600);
