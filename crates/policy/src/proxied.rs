//! The client behind trusted proxies, and the scheme and host that it requested.
//!
//! A proxy names its client in fields of the request: `X-Forwarded-For` (with `-Proto`, `-Host`, `-Port`), `Forwarded` (RFC
//! 7239) or `X-Real-IP`. Anybody can write these fields, so they count only if the peer is trusted, and of a list only the
//! end that trusted proxies wrote: it is read from its right, and the first address that is not trusted is the client. That
//! client may have written everything to the left of it. One field is used and the others are ignored, since a proxy that
//! sets one passes the others on unchanged.
//!
//! Total over any bytes, without allocation. What the address may do is decided elsewhere.

mod elements;
mod node;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ipnet::IpNet;

use crate::request_info::Scheme;
use crate::route;
use elements::{Elements, Separator};

/// The trusted proxies, and their fields.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    /// Addresses of proxies.
    pub networks: Vec<IpNet>,
    /// Whether every client of a unix socket is a trusted proxy.
    pub unix: bool,
    /// The field that they write.
    pub field: ForwardingField,
}

/// The field that tells the client's address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardingField {
    /// `X-Forwarded-For`: a list, to which each proxy appends its client.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239): the same with scheme and host in each element.
    Forwarded,
    /// `X-Real-IP`: one address.
    XRealIp,
}

/// The target of a request, and its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestOrigin<'a> {
    /// The client; port 0 if it is unknown. [`NOBODY`] if a proxy does not name it.
    pub client: SocketAddr,
    /// How the client reached the first proxy.
    pub scheme: Scheme,
    /// The requested host, perhaps with a port. Not canonical, and not always well formed.
    pub host: &'a [u8],
    /// Where the port is found.
    pub port: Port,
}

/// The requested port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// Whatever target and `Host` name.
    Named,
    /// A proxy has told; `None`: the scheme's own.
    Told(Option<u16>),
}

/// What the connection says, without any proxy's word.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionInfo<'a> {
    /// The other end of the connection, or the client that the PROXY protocol named; [`NOBODY`] on a unix socket.
    pub peer: SocketAddr,
    /// Of the connection.
    pub scheme: Scheme,
    /// From the target or from `Host`.
    pub host: &'a [u8],
}

/// The unspecified address: of clients over a unix socket, and of clients that a proxy keeps secret. In no list of networks
/// but `0.0.0.0/0`.
pub const NOBODY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

impl Proxies {
    /// Whether the other end of a connection is one.
    pub fn trusts(&self, peer: SocketAddr) -> bool {
        if peer == NOBODY {
            return self.unix;
        }
        !self.networks.is_empty() && self.trusts_address(peer.ip())
    }

    fn trusts_address(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.iter().any(|net| net.contains(&address))
    }

    /// The target and client of a request: by the connection, and by its fields if the peer is trusted. Allocates nothing.
    pub fn origin<'a>(
        &self,
        own: &ConnectionInfo<'a>,
        fields: &(impl Iterator<Item = (&'a str, &'a [u8])> + Clone),
    ) -> RequestOrigin<'a> {
        let mut asked = RequestOrigin {
            client: own.peer,
            scheme: own.scheme,
            host: own.host,
            port: Port::Named,
        };
        if !self.trusts(own.peer) {
            return asked;
        }
        let told = match self.field {
            ForwardingField::Forwarded => self.forwarded(own.peer, fields),
            ForwardingField::XForwardedFor => self.x_forwarded_for(own.peer, fields),
            ForwardingField::XRealIp => x_real_ip(own.peer, fields),
        };
        asked.client = told.client;
        asked.scheme = told.scheme.unwrap_or(own.scheme);
        if let Some(host) = told.host {
            asked.host = host;
            asked.port = Port::Told(route::port(host));
        }
        if let Some(port) = told.port {
            asked.port = Port::Told(Some(port));
        }
        // A port of 80 beside `https`, as of 443, is that of a hop behind which TLS had ended, or begun.
        if let Port::Told(Some(80 | 443)) = asked.port {
            asked.port = Port::Told(None);
        }
        asked
    }

    fn x_forwarded_for<'a, F: HeaderFields<'a>>(
        &self,
        peer: SocketAddr,
        fields: &F,
    ) -> ForwardedInfo<'a> {
        let mut client = peer;
        let mut hop = 0;
        let hops = Elements::of(named(fields, "x-forwarded-for"), Separator::Comma);
        for (at, element) in hops.enumerate() {
            hop = at;
            match node::address(element) {
                None => client = NOBODY,
                Some(address) => {
                    client = address;
                    if self.trusts_address(address.ip()) {
                        continue;
                    }
                }
            }
            break;
        }
        ForwardedInfo::beside(client, hop, fields)
    }

    fn forwarded<'a, F: HeaderFields<'a>>(
        &self,
        peer: SocketAddr,
        fields: &F,
    ) -> ForwardedInfo<'a> {
        let mut told = ForwardedInfo::nothing(peer);
        for element in Elements::of(named(fields, "forwarded"), Separator::CommaUnquoted) {
            let said = node::ForwardedElement::read(element);
            // The farther address counts, as long as those that stated it are trusted.
            told.scheme = said.scheme.or(told.scheme);
            told.host = said.host.or(told.host);
            told.client = said.client.unwrap_or(NOBODY);
            if !said.client.is_some_and(|at| self.trusts_address(at.ip())) {
                break;
            }
        }
        told
    }
}

fn x_real_ip<'a, F: HeaderFields<'a>>(peer: SocketAddr, fields: &F) -> ForwardedInfo<'a> {
    let client = match Elements::of(named(fields, "x-real-ip"), Separator::Comma).next() {
        None => peer,
        Some(element) => node::address(element).unwrap_or(NOBODY),
    };
    ForwardedInfo::beside(client, 0, fields)
}

/// What the fields of trusted proxies say.
struct ForwardedInfo<'a> {
    client: SocketAddr,
    scheme: Option<Scheme>,
    host: Option<&'a [u8]>,
    port: Option<u16>,
}

impl<'a> ForwardedInfo<'a> {
    fn nothing(client: SocketAddr) -> Self {
        Self {
            client,
            scheme: None,
            host: None,
            port: None,
        }
    }

    /// With the other `X-Forwarded-*` fields for the hop at which the client was found.
    fn beside<F: HeaderFields<'a>>(client: SocketAddr, hop: usize, fields: &F) -> Self {
        // A proxy appends to these lists, or replaces them: then they are shorter than the list of addresses.
        let at = |name| {
            let elements = Elements::of(named(fields, name), Separator::Comma);
            elements.take(hop + 1).last()
        };
        Self {
            client,
            scheme: at("x-forwarded-proto").and_then(node::scheme),
            host: at("x-forwarded-host"),
            port: at("x-forwarded-port").and_then(node::port),
        }
    }
}

/// The fields of a head.
trait HeaderFields<'a>: Iterator<Item = (&'a str, &'a [u8])> + Clone {}

impl<'a, I: Iterator<Item = (&'a str, &'a [u8])> + Clone> HeaderFields<'a> for I {}

/// The lines of one field.
fn named<'a, F: HeaderFields<'a>>(
    fields: &F,
    wanted: &'static str,
) -> impl Iterator<Item = &'a [u8]> {
    let fields = fields.clone();
    fields.filter_map(move |(name, value)| name.eq_ignore_ascii_case(wanted).then_some(value))
}

#[cfg(test)]
mod tests;
