//! One health check: a request to one server, and whether its status passes.
//!
//! A check has a separate connection, so that it tests connecting, too, and uses no slot of a visitor. Only the status of the
//! response is read.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use galley_config::{HealthCheckConfig, PhpAddress};
use galley_fastcgi::response::Splitter;
use galley_fastcgi::{FastCgiConnection, FastCgiEvent, FastCgiRequest, NoBody};
use galley_policy::cgi::{self, Variable};
use http::{Request, header};
use http_body_util::Empty;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::spec::HttpServer;

/// The request to a server, and the expected response.
#[derive(Clone, Debug)]
pub struct HealthCheck {
    /// The requested host.
    pub host: String,
    /// The folder of FastCGI scripts.
    pub root: Option<PathBuf>,
    /// The path, the time limits, the statuses that pass.
    pub config: HealthCheckConfig,
}

/// The server to check.
#[derive(Clone, Debug)]
pub enum CheckTarget {
    /// Over FastCGI.
    FastCgi(PhpAddress),
    /// Over HTTP.
    Http(HttpServer),
}

/// Why a server did not pass.
#[derive(Debug, thiserror::Error)]
pub enum CheckFailure {
    /// No response in time.
    #[error("no response in time")]
    Timeout,
    /// The server cannot be reached, or ended the response early.
    #[error("{0}")]
    Broken(String),
    /// The response has another status.
    #[error("status {0}")]
    Status(u16),
}

impl HealthCheck {
    /// Sends the check. Cancel-safe: dropping it closes the connection.
    pub async fn run(&self, target: &CheckTarget) -> Result<(), CheckFailure> {
        let status = match timeout(self.config.timeout, self.status(target)).await {
            Err(_elapsed) => return Err(CheckFailure::Timeout),
            Ok(status) => status?,
        };
        let is_good = match self.config.statuses.as_slice() {
            [] => (200..400).contains(&status),
            wanted => wanted.contains(&status),
        };
        is_good.then_some(()).ok_or(CheckFailure::Status(status))
    }

    async fn status(&self, target: &CheckTarget) -> Result<u16, CheckFailure> {
        match target {
            CheckTarget::FastCgi(PhpAddress::Unix(path)) => {
                self.status_over_fastcgi(UnixStream::connect(path).await?)
                    .await
            }
            CheckTarget::FastCgi(PhpAddress::Tcp(address)) => {
                self.status_over_fastcgi(TcpStream::connect(address).await?)
                    .await
            }
            CheckTarget::Http(server) => {
                let host = server.host.trim_start_matches('[').trim_end_matches(']');
                let stream = TcpStream::connect((host, server.port)).await?;
                match &server.tls {
                    Some(tls) => self.status_over_http(tls.connect(stream).await?).await,
                    None => self.status_over_http(stream).await,
                }
            }
        }
    }

    async fn status_over_http<S>(&self, stream: S) -> Result<u16, CheckFailure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let request = Request::get(self.config.path.as_str())
            .header(header::HOST, &self.host)
            .header(header::USER_AGENT, AGENT)
            .header(header::CONNECTION, "close")
            .body(Empty::<Bytes>::new())
            .map_err(CheckFailure::broken)?;
        let (mut sender, connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(CheckFailure::broken)?;
        let exchange = sender.send_request(request);
        tokio::pin!(exchange, connection);
        // Ends with the head: the body is not needed.
        tokio::select! {
            response = &mut exchange => response.map(|response| response.status().as_u16()).map_err(CheckFailure::broken),
            ended = &mut connection => {
                ended.map_err(CheckFailure::broken)?;
                exchange.await.map(|response| response.status().as_u16()).map_err(CheckFailure::broken)
            }
        }
    }

    async fn status_over_fastcgi(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
    ) -> Result<u16, CheckFailure> {
        let mut connection = FastCgiConnection::new(stream);
        let variables = self.variables();
        let request = FastCgiRequest {
            variables: &variables,
            body_length: 0,
        };
        connection
            .send(&request)
            .await
            .map_err(CheckFailure::broken)?;
        let mut splitter = Splitter::new();
        loop {
            let event = connection.event(&mut NoBody).await;
            match event.map_err(CheckFailure::broken)? {
                FastCgiEvent::Stdout(bytes) => {
                    let output = splitter.push(bytes).map_err(CheckFailure::broken)?;
                    if let Some(head) = output.head {
                        let response = cgi::response(&head).map_err(CheckFailure::broken)?;
                        return Ok(response.status.as_u16());
                    }
                }
                FastCgiEvent::Stderr(_) => {}
                FastCgiEvent::End(_) => {
                    return Err(CheckFailure::Broken("it ended without a head".to_owned()));
                }
            }
        }
    }

    /// The variables of the request. PHP-FPM compares them with its `ping.path`, and otherwise runs the script that they name.
    fn variables(&self) -> Vec<Variable<'_>> {
        let path = self.config.path.as_bytes();
        let root = self.root.as_deref().unwrap_or(Path::new("/"));
        let root = root.as_os_str().as_encoded_bytes();
        let script = [root, path].concat();
        let fixed: [(&str, &[u8]); 12] = [
            ("REQUEST_METHOD", b"GET"),
            ("QUERY_STRING", b""),
            ("CONTENT_LENGTH", b"0"),
            ("SERVER_PROTOCOL", b"HTTP/1.1"),
            ("GATEWAY_INTERFACE", b"CGI/1.1"),
            ("REMOTE_ADDR", b"127.0.0.1"),
            ("HTTP_USER_AGENT", AGENT.as_bytes()),
            ("SCRIPT_NAME", path),
            ("REQUEST_URI", path),
            ("SERVER_NAME", self.host.as_bytes()),
            ("HTTP_HOST", self.host.as_bytes()),
            ("DOCUMENT_ROOT", root),
        ];
        let fixed = fixed.map(|(name, value)| (name.as_bytes().into(), value.into()));
        let mut variables: Vec<Variable<'_>> = fixed.into();
        variables.push((b"SCRIPT_FILENAME".into(), script.into()));
        variables
    }
}

impl CheckFailure {
    fn broken(error: impl fmt::Display) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<io::Error> for CheckFailure {
    fn from(error: io::Error) -> Self {
        Self::broken(error)
    }
}

/// The name by which the server's log distinguishes checks from visitors.
const AGENT: &str = "Galley health check";
