//! Requests to the directory: HTTPS, one connection for each request, with limits on time and size.
//!
//! A dozen requests every two months do not need a pool. The directory is an untrusted server with a certificate: its
//! response is limited to a megabyte and half a minute. The `Retry-After` of an error, which the ACME library does not
//! return, is recorded here.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use http::{Request, Response, Uri};
use http_body_util::Full;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::one_shot::{OneShotError, exchange, retry_after};
use galley_sys::Lock;
use galley_sys::clock::Clock;

/// Sends the requests of one attempt to the directory.
pub(super) struct AcmeClient {
    pub(super) tls: Arc<ClientConfig>,
    pub(super) notes: Arc<ResponseNotes>,
    pub(super) clock: Clock,
}

/// Values from the heads of responses.
#[derive(Default)]
pub(super) struct ResponseNotes(Lock<Option<Duration>>);

impl ResponseNotes {
    /// The `Retry-After` of the last error.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        *self.0.lock()
    }

    fn set(&self, pause: Option<Duration>) {
        *self.0.lock() = pause;
    }
}

impl HttpClient for AcmeClient {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let (tls, notes, clock) = (Arc::clone(&self.tls), Arc::clone(&self.notes), self.clock);
        Box::pin(async move {
            let host = request.uri().authority().map(ToString::to_string);
            let host = host.unwrap_or_default();
            let failed = |cause: OneShotError| Error::Other(format!("`{host}`: {cause}").into());
            let response = tokio::time::timeout(TIMEOUT, send(TlsConnector::from(tls), request));
            let response = match response.await {
                Ok(Ok(response)) => response,
                Ok(Err(cause)) => return Err(failed(cause)),
                Err(_elapsed) => return Err(failed("no response in time".into())),
            };
            let status = response.status();
            if status.is_client_error() || status.is_server_error() {
                notes.set(retry_after(response.headers(), clock.wall()));
                if !is_problem(response.headers()) {
                    return Err(failed(format!("it responded with status {status}").into()));
                }
            }
            Ok(BytesResponse::from(response))
        })
    }
}

/// Sets the target and the `Host` of a request (RFC 9112 section 3.2.1).
fn address<B>(request: &mut Request<B>, uri: &Uri) -> Result<(), OneShotError> {
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    *request.uri_mut() = target.parse()?;
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let authority = HeaderValue::from_str(authority)?;
    request.headers_mut().insert(HOST, authority);
    Ok(())
}

async fn send(
    tls: TlsConnector,
    mut request: Request<BodyWrapper<Bytes>>,
) -> Result<Response<Full<Bytes>>, OneShotError> {
    let uri = std::mem::take(request.uri_mut());
    let (host, port) = destination(&uri).ok_or("the directory named no `https` address")?;
    let stream = TcpStream::connect((host.as_str(), port)).await?;
    let stream = tls.connect(ServerName::try_from(host)?, stream).await?;
    address(&mut request, &uri)?;
    let (head, body) = exchange(stream, request, MAX_RESPONSE).await?.complete()?;
    Ok(Response::from_parts(head, Full::new(body)))
}

/// The host, without the brackets of an IPv6 address, and the port.
fn destination(uri: &Uri) -> Option<(String, u16)> {
    if uri.scheme_str() != Some("https") {
        return None;
    }
    let host = uri.host()?.trim_start_matches('[').trim_end_matches(']');
    Some((host.to_owned(), uri.port_u16().unwrap_or(443)))
}

/// Whether the media type is that of a problem document (RFC 7807 section 3).
fn is_problem(fields: &HeaderMap) -> bool {
    let media_type = fields.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    media_type.is_some_and(|text| {
        text.to_ascii_lowercase()
            .starts_with(b"application/problem+json")
    })
}

/// The trusted authorities for the directory's own certificate: the system's roots and those in `ca`.
///
/// Errors: `ca` cannot be read or contains no certificate.
pub(super) fn trust(ca: Option<&Path>) -> io::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(file) = ca {
        let failed = |why: String| io::Error::other(format!("`{}`: {why}", file.display()));
        let more = galley_certs::read_roots(file).map_err(|e| failed(e.to_string()))?;
        for root in more {
            roots.add(root).map_err(|e| failed(e.to_string()))?;
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// The time limit for one request, from the DNS lookup to the last byte.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size of a response in bytes. A certificate chain has about 10 KB.
const MAX_RESPONSE: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_addresses_are_requested() {
        let found = |uri: &str| destination(&uri.parse().unwrap());
        assert_eq!(
            found("https://ca.test/dir"),
            Some(("ca.test".to_owned(), 443))
        );
        assert_eq!(
            found("https://[::1]:14000/"),
            Some(("::1".to_owned(), 14_000))
        );
        assert_eq!(found("http://ca.test/dir"), None);
        assert_eq!(found("/dir"), None);
    }
}
