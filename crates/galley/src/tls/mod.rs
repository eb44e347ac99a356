//! TLS: which certificate a handshake is answered with, and how; towards clients and towards upstreams.
//!
//! [`Certificates`] has them by name and is asked in the middle of a handshake, so it takes no lock and looks at no disk;
//! [`CertificateWatch`] renews it when files change. [`acceptor`] holds what all handshakes have in common. Knows no sockets of clients and
//! no requests; [`Presented`] says afterwards whether a connection may be asked for a host.
//!
//! The implementation is rustls with AWS-LC's cryptography: what is weak (TLS 1.1, RC4, static RSA, renegotiation, compression)
//! is not there, so nothing has to be turned off.

mod certificates;
mod client;
mod protocols;
mod server;
mod watch;

pub use certificates::{Certificates, Kinds, Presented, Slot};
pub use client::{ClientTrouble, UpstreamTlsClient};
pub use protocols::{ACME, H2};
pub use server::{Acceptor, Least, acceptor};
pub use watch::{CertificateWatch, Watched};
