//! The two ends of a connection with a client.

use std::net::SocketAddr;

use galley_policy::request_info::Scheme;

/// The two ends of a connection.
#[derive(Clone, Copy)]
pub(super) struct Endpoints {
    pub(super) client: SocketAddr,
    /// The local address. `None`: not determined yet; the socket is queried when a request needs it, which hits do not.
    pub(super) local: Option<SocketAddr>,
    /// Whether Galley terminates TLS on this connection.
    pub(super) is_tls: bool,
    /// The TLS version, once negotiated: `1.3`.
    pub(super) tls_version: Option<&'static str>,
}

impl Endpoints {
    /// The ends of a connection without TLS.
    pub(super) fn plain(client: SocketAddr) -> Self {
        Self {
            client,
            local: None,
            is_tls: false,
            tls_version: None,
        }
    }

    /// The scheme of the connection's requests.
    pub(super) fn scheme(self) -> Scheme {
        if self.is_tls {
            Scheme::Https
        } else {
            Scheme::Http
        }
    }
}
