//! Fetches a page from a server on this machine, with the host of the site.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, header};
use http_body_util::Empty;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::pages;
use galley_tls::UpstreamTlsClient;
use galley_tls::one_shot::{self, OneShotResponse};

/// A server on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerEndpoint {
    /// The server's address.
    pub address: SocketAddr,
    /// Whether connections use TLS. The certificate is not verified, because the connection is local.
    pub is_tls: bool,
    /// Whether requests declare that the visitor uses `https`.
    pub is_forwarded_https: bool,
}

/// The parts of a response that are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageSummary {
    /// The status.
    pub status: u16,
    /// The target of a redirect.
    pub location: Option<String>,
    /// The media type without parameters.
    pub media_type: Option<String>,
    /// The title of a page.
    pub title: Option<String>,
    /// `Cache-Status`, if the server sends it.
    pub cache_status: Option<String>,
    /// Paths of linked pages.
    pub links: Vec<String>,
}

/// Fetches a page. The error is a text for people. Cancel-safe.
pub async fn fetch_page(
    server: ServerEndpoint,
    host: &str,
    path: &str,
) -> Result<PageSummary, String> {
    let exchange = async {
        let stream = TcpStream::connect(server.address).await;
        let stream =
            stream.map_err(|error| format!("{} does not respond: {error}", server.address))?;
        if !server.is_tls {
            return exchange(stream, server, host, path).await;
        }
        let client = UpstreamTlsClient::new(host, None, false).map_err(|e| e.to_string())?;
        let stream = client.connect(stream).await;
        let stream = stream.map_err(|error| format!("TLS with {}: {error}", server.address))?;
        exchange(stream, server, host, path).await
    };
    let fetched = tokio::time::timeout(TIMEOUT, exchange).await;
    fetched.map_err(|_| format!("{} does not respond within {TIMEOUT:?}", server.address))?
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    server: ServerEndpoint,
    host: &str,
    path: &str,
) -> Result<PageSummary, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", server.address);
    let mut request = Request::get(path)
        .header(header::HOST, host)
        .header(header::ACCEPT, "text/html,*/*")
        .header(header::USER_AGENT, "galley-setup");
    if server.is_forwarded_https {
        request = request
            .header("x-forwarded-proto", "https")
            .header("x-forwarded-for", "127.0.0.1");
    }
    let request = request
        .body(Empty::<Bytes>::new())
        .map_err(|e| failed(&e))?;
    let response = one_shot::exchange(stream, request, MAX_BODY).await;
    // The beginning of a long page has the title and links.
    let OneShotResponse { head, body, .. } = response.map_err(|e| failed(&e))?;
    let field = |name: &str| {
        let value = head.headers.get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let media_type = field("content-type").map(|value| {
        let essence = value.split(';').next().unwrap_or_default();
        essence.trim().to_ascii_lowercase()
    });
    let html = match media_type.as_deref() {
        Some("text/html") => String::from_utf8_lossy(&body),
        _ => "".into(),
    };
    Ok(PageSummary {
        status: head.status.as_u16(),
        location: field("location"),
        title: pages::title(&html),
        cache_status: field("cache-status"),
        links: pages::links(&html, host, MAX_LINKS),
        media_type,
    })
}

/// The time limit for a response. A page of a cold WordPress may need seconds.
const TIMEOUT: Duration = Duration::from_secs(30);

const MAX_BODY: usize = 4 << 20;
const MAX_LINKS: usize = 3;
