//! The two ends of a connection with a client.

use std::net::SocketAddr;

use galley_policy::request_info::Scheme;

/// The two ends of a connection.
#[derive(Clone, Copy)]
pub(super) struct Endpoints {
    pub(super) client: SocketAddr,
    /// The address at which the client reached us. `None`: the socket is asked when a request needs it, which hits do not.
    pub(super) local: Option<SocketAddr>,
    /// Whether Galley itself speaks TLS with the client.
    pub(super) is_tls: bool,
    /// Which version, once that is agreed: `1.3`.
    pub(super) tls_version: Option<&'static str>,
}

impl Endpoints {
    /// Those of a connection without TLS.
    pub(super) fn plain(client: SocketAddr) -> Self {
        Self {
            client,
            local: None,
            is_tls: false,
            tls_version: None,
        }
    }

    /// The scheme of requests here.
    pub(super) fn scheme(self) -> Scheme {
        if self.is_tls {
            Scheme::Https
        } else {
            Scheme::Http
        }
    }
}
