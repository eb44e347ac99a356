//! HTTP/3: whether its addresses can be used and answer, and how browsers learn of it.

use std::io;
use std::os::fd::OwnedFd;

use galley_config::Listen;
use galley_policy::request_info::Scheme;
use galley_policy::site::AltSvc;
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

/// The values of `Alt-Svc` for a site on these ports.
///
/// A browser finds HTTP/3 on the port that it knows. That is another one than Galley's behind a mapping of ports, as of containers,
/// and such a mapping has the same ports for TCP and UDP. So a UDP port that is also one of TLS is advertised to requests that
/// name it, and 443 to those for this port. Requests for a third port are told nothing rather than something wrong.
pub(super) fn alternatives(udp: &[u16], tls: &[u16]) -> Vec<AltSvc> {
    let own = udp.iter().copied().filter(|port| tls.contains(port));
    let mut of_ports: Vec<(u16, Option<u16>)> = own.map(|port| (port, Some(port))).collect();
    if of_ports.is_empty() {
        of_ports.extend(udp.first().map(|&port| (port, None)));
    } else {
        let default = Scheme::Https.default_port();
        of_ports.push((default, Some(default)));
    }
    let values = of_ports.into_iter().filter_map(|(port, of_port)| {
        let value = format!("h3=\":{port}\"; ma={ALTERNATIVE_S}");
        let value = HeaderValue::try_from(value).ok()?;
        Some(AltSvc { of_port, value })
    });
    values.collect()
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
