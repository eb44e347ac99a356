//! The TLS settings that all handshakes with clients share.
//!
//! Sessions are resumed with tickets, whose keys are valid for six hours, rotate, and are never written to disk. Sessions are
//! stored only for the few TLS 1.2 clients that do not accept tickets. There is no early data, because it can be replayed, except over
//! QUIC if [`Acceptor::permit_early_data`] was called: its sessions are stored, too, and each is valid once.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::server::{ServerSessionMemoryCache, WantsServerCert};
use rustls::{ConfigBuilder, SupportedProtocolVersion};

use super::certificates::Certificates;
use super::protocols::{ACME, H3};

/// The oldest accepted version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinTlsVersion {
    /// TLS 1.2, and 1.3 with clients that support it.
    Tls12,
    /// Only TLS 1.3.
    Tls13,
}

/// The TLS settings of a front thread.
#[derive(Clone)]
pub struct Acceptor {
    /// The settings of rustls.
    pub config: Arc<ServerConfig>,
    /// The settings for QUIC: only TLS 1.3 and HTTP/3, with the same certificates and tickets.
    pub quic: Arc<ServerConfig>,
    /// The certificates by name.
    pub certificates: Arc<Certificates>,
}

/// Creates the settings for handshakes with `certificates`, which select the first of `protocols` that the client supports.
/// Sessions of `before` can be resumed.
///
/// Errors: only if the TLS library cannot be used.
pub fn acceptor(
    certificates: &Arc<Certificates>,
    least: MinTlsVersion,
    protocols: &[&[u8]],
    before: Option<&Acceptor>,
) -> Result<Acceptor, rustls::Error> {
    let resolver = Arc::clone(certificates);
    let mut config = builder(least)?.with_cert_resolver(resolver);
    config.alpn_protocols = protocols.iter().map(|one| one.to_vec()).collect();
    // Last: it is selected only if the client offers no other protocol. Then `resolve` finds the challenge, or rejects the
    // handshake.
    config.alpn_protocols.push(ACME.to_vec());
    if let Some(Acceptor { config: before, .. }) = before {
        config.ticketer = Arc::clone(&before.ticketer);
        config.session_storage = Arc::clone(&before.session_storage);
    } else {
        config.ticketer = aws_lc_rs::Ticketer::new()?;
        config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
    }
    let mut quic = quic(certificates)?;
    quic.ticketer = Arc::clone(&config.ticketer);
    quic.session_storage = Arc::clone(&config.session_storage);
    Ok(Acceptor {
        quic: Arc::new(quic),
        config: Arc::new(config),
        certificates: Arc::clone(certificates),
    })
}

impl Acceptor {
    /// Accepts early data over QUIC.
    ///
    /// A ticket is valid once, so that nobody can replay early data (RFC 8446 section 8.1): it names a session in the memory of this
    /// process. The sessions are those of this acceptor alone, because a client assumes the settings of the connection that issued its
    /// ticket (RFC 9114 section 7.2.4.2), and the next configuration may have others.
    ///
    /// Errors: only if the TLS library cannot be used.
    pub fn permit_early_data(&mut self) -> Result<(), rustls::Error> {
        let mut config = quic(&self.certificates)?;
        config.session_storage = ServerSessionMemoryCache::new(EARLY_SESSIONS);
        // QUIC has limits of its own, and no other value is permitted (RFC 9001 section 4.6.1).
        config.max_early_data_size = u32::MAX;
        self.quic = Arc::new(config);
        Ok(())
    }
}

/// The settings for handshakes of QUIC, without tickets.
fn quic(certificates: &Arc<Certificates>) -> Result<ServerConfig, rustls::Error> {
    let resolver = Arc::clone(certificates);
    let mut config = builder(MinTlsVersion::Tls13)?.with_cert_resolver(resolver);
    config.alpn_protocols = vec![H3.to_vec()];
    Ok(config)
}

fn builder(
    least: MinTlsVersion,
) -> Result<ConfigBuilder<ServerConfig, WantsServerCert>, rustls::Error> {
    let versions: &[&SupportedProtocolVersion] = match least {
        MinTlsVersion::Tls12 => &[&rustls::version::TLS13, &rustls::version::TLS12],
        MinTlsVersion::Tls13 => &[&rustls::version::TLS13],
    };
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider);
    Ok(builder
        .with_protocol_versions(versions)?
        .with_no_client_auth())
}

/// The maximum number of stored sessions, of some hundred bytes each.
const SESSIONS: usize = 1024;

/// The maximum number of stored sessions with early data: two for each visitor, about 6 MB together.
const EARLY_SESSIONS: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::super::protocols::H2;
    use super::*;

    /// RFC 8446 section 4.6.1: a stolen key decrypts the sessions of its tickets.
    #[test]
    fn ticket_keys_rotate_and_are_shared_until_a_restart() {
        let certificates = Arc::new(Certificates::default());
        let make = || acceptor(&certificates, MinTlsVersion::Tls12, &[H2], None).unwrap();
        let (one, two) = (make().config, make().config);
        let ticket = one.ticketer.encrypt(b"a session").unwrap();
        assert!(one.ticketer.decrypt(&ticket).is_some());
        assert!(two.ticketer.decrypt(&ticket).is_none());
        let next = acceptor(
            &certificates,
            MinTlsVersion::Tls13,
            &[H2],
            Some(&Acceptor {
                config: Arc::clone(&one),
                quic: Arc::clone(&one),
                certificates: Arc::clone(&certificates),
            }),
        )
        .unwrap();
        assert!(next.config.ticketer.decrypt(&ticket).is_some());
        assert!(next.quic.ticketer.decrypt(&ticket).is_some());
        assert_eq!(next.quic.alpn_protocols, [H3]);
        assert_eq!(next.quic.max_early_data_size, 0);
        // A key encrypts tickets for six hours, and decrypts them for six more.
        assert!(one.ticketer.enabled() && one.ticketer.lifetime() <= 12 * 3600);
        let kind = format!("{:?}", one.ticketer);
        assert!(kind.starts_with("TicketRotator"), "{kind}");
        assert_eq!(one.max_early_data_size, 0);
    }

    #[test]
    fn early_data_is_for_quic_alone_and_needs_stored_sessions() {
        let certificates = Arc::new(Certificates::default());
        let mut one = acceptor(&certificates, MinTlsVersion::Tls12, &[H2], None).unwrap();
        one.permit_early_data().unwrap();
        assert_eq!(one.quic.max_early_data_size, u32::MAX);
        assert_eq!(one.quic.alpn_protocols, [H3]);
        // With a ticketer, a ticket would be valid more than once.
        assert!(!one.quic.ticketer.enabled() && one.quic.session_storage.can_cache());
        assert_eq!(one.config.max_early_data_size, 0);
        assert!(one.config.ticketer.enabled());
        let (id, session) = (b"id".to_vec(), b"a session".to_vec());
        assert!(one.quic.session_storage.put(id.clone(), session.clone()));
        // What was on is off after a reload, and the other way.
        let mut next = acceptor(&certificates, MinTlsVersion::Tls12, &[H2], Some(&one)).unwrap();
        assert_eq!(next.quic.max_early_data_size, 0);
        assert!(next.quic.ticketer.enabled());
        assert_eq!(next.quic.session_storage.take(&id), None);
        next.permit_early_data().unwrap();
        assert_eq!(next.quic.session_storage.take(&id), None);
        assert_eq!(one.quic.session_storage.take(&id), Some(session));
        assert_eq!(one.quic.session_storage.take(&id), None);
    }
}
