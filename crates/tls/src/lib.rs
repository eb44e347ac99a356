//! TLS for clients and for upstreams: certificates and handshakes.
//!
//! [`Certificates`] finds a certificate by name during a handshake, so it takes no lock and does not read the disk;
//! [`CertificateWatch`] updates it when files change. [`acceptor`] creates the settings that all handshakes share. This module
//! does not use client sockets or requests; [`SelectedCertificates`] decides which hosts may be requested on a connection.
//!
//! [`acme`] obtains certificates and renews them; [`service_client`] sends one request to a service on another machine, and [`one_shot`] over any
//! connection.
//!
//! The implementation is rustls with the cryptography of AWS-LC: weak features (TLS 1.1, RC4, static RSA, renegotiation,
//! compression) do not exist in it, so none has to be disabled.

pub mod acme;
mod certificates;
mod client;
pub mod one_shot;
mod protocols;
mod server;
pub mod service_client;
mod watch;

pub use certificates::{
    CertificateSet, CertificateSource, Certificates, SelectedCertificates, Slot,
};
pub use client::{UpstreamTlsClient, UpstreamTlsError};
pub use protocols::{ACME, H2, H3};
pub use server::{Acceptor, MinTlsVersion, acceptor};
pub use watch::{CertificateWatch, Watched};
