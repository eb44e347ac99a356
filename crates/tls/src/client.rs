//! TLS to upstreams: the expected name, and the trusted certificate authorities.
//!
//! If no file is configured, the system's own store is trusted: it contains internal authorities that the machine trusts, and
//! `ca-certificates` keeps it up to date. A list inside the program could do neither.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use galley_certs::CertificateError;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The TLS settings for one upstream.
#[derive(Clone)]
pub struct UpstreamTlsClient {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// Why TLS to an upstream is not possible.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamTlsError {
    /// The file with the authorities cannot be used.
    #[error("`site.upstream_tls` names a `ca` {0}")]
    Ca(CertificateError),
    /// The system trusts no authorities.
    #[error(
        "the system has no trusted certificate authorities: install `ca-certificates`, or name one with `ca` in `site.upstream_tls`"
    )]
    NoRoots,
    /// The server name is invalid.
    #[error("`{0}` is not a valid name in a certificate")]
    Name(String),
    /// The TLS library cannot be used.
    #[error("TLS cannot be used: {0}")]
    Tls(#[from] rustls::Error),
}

impl UpstreamTlsClient {
    /// Creates the settings for an upstream with the name `name`. `ca`: the trusted authorities, instead of the system's.
    /// Blocks on the disk.
    pub fn new(name: &str, ca: Option<&Path>, verify: bool) -> Result<Self, UpstreamTlsError> {
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(bare.to_owned())
            .map_err(|_| UpstreamTlsError::Name(bare.to_owned()))?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let mut config = if verify {
            builder.with_root_certificates(roots(ca)?)
        } else {
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AcceptAnyServer(provider)))
        }
        .with_no_client_auth();
        // RFC 7301: without this, an upstream that also speaks HTTP/2 could select it.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            config: Arc::new(config),
            name,
        })
    }

    /// Performs the handshake. Not cancel-safe: the connection is lost.
    pub async fn connect(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let connector = TlsConnector::from(Arc::clone(&self.config));
        connector.connect(self.name.clone(), stream).await
    }
}

impl fmt::Debug for UpstreamTlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

fn roots(ca: Option<&Path>) -> Result<RootCertStore, UpstreamTlsError> {
    let mut store = RootCertStore::empty();
    let found = match ca {
        Some(path) => galley_certs::read_roots(path).map_err(UpstreamTlsError::Ca)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    // Some authorities of every system are too old to be parsed; the others are trusted nevertheless.
    let (added, _) = store.add_parsable_certificates(found);
    match (added, ca) {
        (0, None) => Err(UpstreamTlsError::NoRoots),
        (0, Some(_)) => Err(UpstreamTlsError::Ca(CertificateError::Missing(
            "usable certificate",
        ))),
        _ => Ok(store),
    }
}

/// Accepts any certificate (`verify = false`). This protects against eavesdroppers, not against a man in the middle.
#[derive(Debug)]
struct AcceptAnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
