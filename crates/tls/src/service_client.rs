//! Sends one request to a service on another machine, over a separate connection, and receives the response.
//!
//! Limits: a timeout for the exchange, 64 KiB of response.

use std::io;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use galley_config::HttpUpstream;
use http::header::{self, HeaderMap};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Collected, Full, Limited};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::{UpstreamTlsClient, UpstreamTlsError};

/// A client of one service, with a new connection for each request.
pub struct ServiceClient {
    host: String,
    port: u16,
    authority: String,
    tls: Option<UpstreamTlsClient>,
}

/// The response of a service.
pub struct ServiceResponse {
    /// The status.
    pub status: StatusCode,
    /// The header fields.
    pub fields: HeaderMap,
    /// The body; empty if it is incomplete.
    pub body: Bytes,
}

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The timeout expired.
    #[error("no response in time")]
    Timeout,
    /// The connection failed.
    #[error("{0}")]
    Connection(#[from] io::Error),
    /// The service does not speak HTTP.
    #[error("{0}")]
    Http(#[from] hyper::Error),
}

impl ServiceClient {
    /// Creates a client for an address. Reads the certificates that the system trusts.
    pub fn new(server: &HttpUpstream) -> Result<Self, UpstreamTlsError> {
        let host = server.host.trim_start_matches('[').trim_end_matches(']');
        let tls = if server.tls {
            Some(UpstreamTlsClient::new(host, None, true)?)
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

    /// Host and port, as in the field `Host`.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Sends one request, which must have a `Host` field.
    pub async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<ServiceResponse, ServiceError> {
        timeout(REQUEST_TIMEOUT, self.connect_and_send(request))
            .await
            .unwrap_or(Err(ServiceError::Timeout))
    }

    async fn connect_and_send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<ServiceResponse, ServiceError> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        match &self.tls {
            Some(tls) => exchange(tls.connect(stream).await?, request).await,
            None => exchange(stream, request).await,
        }
    }
}

impl ServiceResponse {
    /// The value of `Retry-After`, which is a number of seconds or a date (RFC 9110 section 10.2.3).
    pub fn retry_after(&self, now: SystemTime) -> Option<Duration> {
        let text = self.fields.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
        if let Ok(seconds) = text.parse() {
            return Some(Duration::from_secs(seconds));
        }
        let at = httpdate::parse_http_date(text).ok()?;
        Some(at.duration_since(now).unwrap_or_default())
    }
}

async fn exchange<S>(
    stream: S,
    request: Request<Full<Bytes>>,
) -> Result<ServiceResponse, ServiceError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    let asking = async move {
        let (parts, body) = sender.send_request(request).await?.into_parts();
        let body = Limited::new(body, MAX_BODY).collect().await;
        Ok(ServiceResponse {
            status: parts.status,
            fields: parts.headers,
            // The status is valid even if the body is incomplete.
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

/// Host and port, as in the field `Host`.
fn authority(server: &HttpUpstream) -> String {
    let usual = if server.tls { 443 } else { 80 };
    if server.port == usual {
        server.host.clone()
    } else {
        format!("{}:{}", server.host, server.port)
    }
}

/// The timeout of one exchange.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// The maximum size of a response body, in bytes.
const MAX_BODY: usize = 64 * 1024;
