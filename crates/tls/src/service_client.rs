//! Sends one request to a service on another machine, over a separate connection, and receives the response.
//!
//! Limits: a timeout for the exchange, 64 KiB of response.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use galley_config::HttpUpstream;
use http::Request;
use http_body_util::Full;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::one_shot::{OneShotError, OneShotResponse, exchange};
use crate::{UpstreamTlsClient, UpstreamTlsError};

/// A client of one service, with a new connection for each request.
pub struct ServiceClient {
    host: String,
    port: u16,
    authority: String,
    tls: Option<UpstreamTlsClient>,
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
    Http(#[from] OneShotError),
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

    /// Sends one request, which must have a `Host` field. The status of a response counts even if the body is incomplete.
    pub async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<OneShotResponse, ServiceError> {
        timeout(REQUEST_TIMEOUT, self.connect_and_send(request))
            .await
            .unwrap_or(Err(ServiceError::Timeout))
    }

    async fn connect_and_send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<OneShotResponse, ServiceError> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        match &self.tls {
            Some(tls) => Ok(exchange(tls.connect(stream).await?, request, MAX_BODY).await?),
            None => Ok(exchange(stream, request, MAX_BODY).await?),
        }
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
