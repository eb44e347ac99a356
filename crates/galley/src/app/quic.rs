//! HTTP/3: whether its addresses can be used and answer, and how browsers learn of it.

use std::io;
use std::os::fd::OwnedFd;

use galley_config::Listen;
use http::HeaderValue;

use crate::binary_upgrade::QuicHeritage;
use galley_sys::sockets::{self, Listening};

/// The keys of HTTP/3, and the line to the previous process.
pub(super) struct InheritedQuic {
    pub(super) heritage: QuicHeritage,
    pub(super) line: OwnedFd,
}

/// A UDP address that HTTP/3 has by default, and that cannot be used.
pub(super) struct MissingQuic {
    pub(super) listen: Listen,
    pub(super) cause: io::Error,
}

impl MissingQuic {
    pub(super) fn warn(&self) {
        tracing::warn!(
            address = %self.listen,
            cause = %self.cause,
            "HTTP/3 is not served on this UDP address: {}",
            self.remedy()
        );
    }

    /// What the owner can do.
    pub(super) fn remedy(&self) -> String {
        let help = match (&self.listen, self.cause.kind()) {
            (Listen::Passed(_), _) => {
                "stop Galley, run `systemctl enable --now galley-quic.socket`, and start Galley"
            }
            (_, io::ErrorKind::AddrInUse) => "stop the other program (`ss -lunp` shows it)",
            (_, io::ErrorKind::PermissionDenied) => {
                "restart Galley as root with `server.user`, or give it the capability CAP_NET_BIND_SERVICE"
            }
            _ => "write the addresses for HTTP/3 to `listen_quic`",
        };
        format!("{help}; `listen_quic = []` turns HTTP/3 off")
    }
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
