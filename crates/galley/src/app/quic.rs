//! HTTP/3: which sites it reaches, whether its addresses answer, and how browsers learn of it.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use galley_config::{Config, Listen, SiteConfig};
use http::HeaderValue;

use crate::binary_upgrade::QuicHeritage;
use galley_sys::sockets::{self, Listening};

/// The keys of HTTP/3, and the line to the previous process.
pub(super) struct InheritedQuic {
    pub(super) heritage: QuicHeritage,
    pub(super) line: OwnedFd,
}

/// The address of a UDP socket.
pub(super) fn udp_address(socket: &Listening) -> Option<SocketAddr> {
    match socket {
        Listening::Udp(socket) => socket.local_addr().ok(),
        Listening::Tcp(_) | Listening::Unix(_) => None,
    }
}

/// The listeners of HTTP/3; none if it reaches no site.
pub(super) fn listeners(config: &Config) -> impl Iterator<Item = &Listen> {
    let is_used = config.sites.iter().any(is_reached);
    config.server.listen_quic.iter().filter(move |_| is_used)
}

/// Whether a site is served over HTTP/3, if there is an address for it.
pub(super) fn is_reached(site: &SiteConfig) -> bool {
    site.policy.flags.http3 && (!site.certificates.is_empty() || site.has_auto_tls)
}

/// The value of `Alt-Svc` (RFC 7838) that names a port of the same host.
pub(super) fn alternative(port: u16) -> Option<HeaderValue> {
    HeaderValue::try_from(format!("h3=\":{port}\"; ma={ALTERNATIVE_S}")).ok()
}

/// Whether a datagram that this process sends to the UDP sockets of a listener arrives. Warns if not. True for other sockets.
pub(super) fn answers(listen: &Listen, per_core: &[Vec<Listening>]) -> bool {
    let udp = per_core.iter().flatten().filter_map(|socket| match socket {
        Listening::Udp(socket) => Some(socket),
        Listening::Tcp(_) | Listening::Unix(_) => None,
    });
    let udp: Vec<_> = udp.collect();
    if udp.is_empty() || sockets::udp_answers(&udp) {
        return true;
    }
    tracing::warn!(
        address = %listen,
        "a datagram to this UDP address does not arrive, so browsers are not told of HTTP/3: \
         let the firewall of this machine pass UDP, and reload"
    );
    false
}

/// The list of UDP addresses.
pub(super) const QUIC_LIST: &str = "listen_quic";

/// The remedy for an address that another program uses.
pub(super) const OTHER_UDP: &str =
    "stop the other program (`ss -lunp` shows it), or write another address";

/// How long browsers may use HTTP/3 without being told again, in seconds. Short, so that a wrong entry does not last.
const ALTERNATIVE_S: u32 = 3600;
