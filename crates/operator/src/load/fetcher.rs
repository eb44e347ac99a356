//! Single requests to the site under test: for its sitemap, its login, the proof of ownership.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use galley_load::TrustedCertificates;
use galley_tls::one_shot::{OneShotResponse, exchange};
use http::{HeaderMap, Request, header};
use http_body_util::Full;
use rustls::RootCertStore;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::site::TestedSite;
use crate::outcome::runtime;

/// Sends requests to the site, each on a new connection; does not follow redirects.
pub(super) struct SiteFetcher<'s> {
    site: &'s TestedSite,
    trust: &'s TrustedCertificates,
}

/// A response.
pub(super) struct FetchedPage {
    pub(super) status: u16,
    pub(super) fields: HeaderMap,
    pub(super) body: Bytes,
}

/// Which certificates to trust: those of the system's authorities, or all.
pub(super) fn trust(is_insecure: bool) -> TrustedCertificates {
    if is_insecure {
        return TrustedCertificates::Any;
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    TrustedCertificates::Roots(Arc::new(roots))
}

impl<'s> SiteFetcher<'s> {
    pub(super) fn new(site: &'s TestedSite, trust: &'s TrustedCertificates) -> Self {
        Self { site, trust }
    }

    pub(super) fn get(&self, target: &str) -> Result<FetchedPage, String> {
        let request = Request::get(target);
        self.fetch(request, Bytes::new())
    }

    pub(super) fn fetch(
        &self,
        request: http::request::Builder,
        body: Bytes,
    ) -> Result<FetchedPage, String> {
        let request = request
            .header(header::HOST, &self.site.authority)
            .header(header::USER_AGENT, "galley-load")
            .body(Full::new(body))
            .map_err(|error| error.to_string())?;
        let url = format!("{}{}", self.site.url(), request.uri());
        let fetched = runtime()?.block_on(async {
            let exchange = self.exchange(request);
            let late = || format!("no response within {TIMEOUT:?}");
            tokio::time::timeout(TIMEOUT, exchange)
                .await
                .map_err(|_| late())?
        });
        fetched.map_err(|why| format!("cannot fetch {url}: {why}"))
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<FetchedPage, String> {
        let text = |error: &dyn std::error::Error| error.to_string();
        let stream = TcpStream::connect(self.site.addr)
            .await
            .map_err(|e| text(&e))?;
        if !self.site.is_tls {
            return send(stream, request).await;
        }
        let config = self.trust.client_config(b"http/1.1", false);
        let config = config.map_err(|e| text(&e))?;
        let name = ServerName::try_from(self.site.host.clone()).map_err(|e| text(&e))?;
        let connector = TlsConnector::from(Arc::new(config));
        let stream = connector
            .connect(name, stream)
            .await
            .map_err(|e| text(&e))?;
        send(stream, request).await
    }
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<FetchedPage, String> {
    let response = exchange(stream, request, MAX_BODY).await;
    let response = response.and_then(OneShotResponse::complete);
    let (head, body) = response.map_err(|e| e.to_string())?;
    Ok(FetchedPage {
        status: head.status.as_u16(),
        fields: head.headers,
        body,
    })
}

const TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size of a body in bytes: that of a sitemap file (sitemaps.org).
const MAX_BODY: usize = 50 * 1024 * 1024;
