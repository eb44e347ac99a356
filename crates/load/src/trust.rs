//! The trusted certificates of a target.

use std::sync::Arc;

use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

/// The trusted certificates of a target.
#[derive(Debug, Clone)]
pub enum TrustedCertificates {
    /// Only this certificate, over TLS 1.3 with AES-128-GCM and X25519, so that all servers do the same work.
    Only(CertificateDer<'static>),
    /// Certificates of these authorities.
    Roots(Arc<RootCertStore>),
    /// Any certificate: for test servers of the user.
    Any,
}

impl TrustedCertificates {
    /// Creates the TLS configuration of the client; `resumes`: whether connections may resume a previous session.
    ///
    /// # Errors
    /// If the certificate of [`Only`](Self::Only) cannot be used.
    pub fn client_config(&self, alpn: &[u8], resumes: bool) -> Result<ClientConfig, Error> {
        let mut config = match self {
            TrustedCertificates::Only(certificate) => pinned(certificate)?,
            TrustedCertificates::Roots(roots) => {
                let roots = Arc::clone(roots);
                builder(aws_lc_rs::default_provider())?
                    .with_root_certificates(roots)
                    .with_no_client_auth()
            }
            TrustedCertificates::Any => {
                let provider = aws_lc_rs::default_provider();
                let any = AnyCertificate(provider.clone());
                builder(provider)?
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(any))
                    .with_no_client_auth()
            }
        };
        config.alpn_protocols = vec![alpn.to_vec()];
        config.resumption = if resumes {
            Resumption::in_memory_sessions(SESSIONS)
        } else {
            Resumption::disabled()
        };
        Ok(config)
    }
}

type TlsBuilder = rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>;

fn builder(provider: CryptoProvider) -> Result<TlsBuilder, Error> {
    ClientConfig::builder_with_provider(Arc::new(provider)).with_safe_default_protocol_versions()
}

fn pinned(certificate: &CertificateDer<'static>) -> Result<ClientConfig, Error> {
    let provider = CryptoProvider {
        cipher_suites: vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256],
        kx_groups: vec![aws_lc_rs::kx_group::X25519],
        ..aws_lc_rs::default_provider()
    };
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone())?;
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

/// Accepts any certificate, but verifies that the handshake is signed with its key.
#[derive(Debug)]
struct AnyCertificate(CryptoProvider);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// The number of servers whose tickets are kept.
const SESSIONS: usize = 8;
