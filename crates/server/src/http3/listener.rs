//! What an endpoint begins with: a socket, and what is behind it.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::router::QuicRouter;
use galley_request::Sites;
use galley_tls::Acceptor;

/// A UDP socket with its sites.
pub struct QuicListener {
    /// The socket.
    pub socket: UdpSocket,
    /// The sites that this listener serves.
    pub sites: Arc<Sites>,
    /// The settings for handshakes, with the protocol of HTTP/3.
    pub tls: Acceptor,
    /// What the endpoints of the process share.
    pub router: Arc<QuicRouter>,
    /// Whether no later configuration reads the socket.
    pub is_removed: Arc<AtomicBool>,
}
