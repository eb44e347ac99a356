//! The client behind trusted proxies, and the scheme and host that it requested.
//!
//! A proxy names its client in request fields: `X-Forwarded-For` (with `-Proto`, `-Host`, `-Port`), `Forwarded` (RFC
//! 7239) or `X-Real-IP`. Anyone can send these fields, so they count only if the peer is trusted. A list is read from its
//! right end, which trusted proxies wrote, and the first address that is not trusted is the client. That client may have
//! written everything to the left of it. One field is used and the others are ignored, because a proxy that sets one
//! forwards the others unchanged.
//!
//! Accepts any bytes, and does not allocate. The permissions of the address are decided elsewhere.

mod elements;
mod node;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ipnet::IpNet;

use crate::request_info::Scheme;
use crate::route;
use elements::{Elements, Separator};

/// The trusted proxies, and the field that they set.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    /// The networks of the proxies.
    pub networks: Vec<IpNet>,
    /// Whether every client of a unix socket is a trusted proxy.
    pub unix: bool,
    /// The field that the proxies set.
    pub field: ForwardingField,
}

/// The field with the client's address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardingField {
    /// `X-Forwarded-For`: a list, to which each proxy appends its client.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239): such a list, with scheme and host in each element.
    Forwarded,
    /// `X-Real-IP`: one address.
    XRealIp,
    /// `CF-Connecting-IP` of Cloudflare: one address. Cloudflare passes on what visitors send in `X-Forwarded-Host` and
    /// `X-Forwarded-Port`, so these do not count; it replaces `X-Forwarded-Proto`.
    CfConnectingIp,
}

/// The client, scheme, host and port of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestOrigin<'a> {
    /// The client's address; port 0 if it is unknown. [`UNKNOWN_ADDRESS`] if a proxy does not name the client.
    pub client: SocketAddr,
    /// The scheme by which the client reached the first proxy.
    pub scheme: Scheme,
    /// The requested host, perhaps with a port. Not canonical, and not always well formed.
    pub host: &'a [u8],
    /// The source of the port.
    pub port: Port,
    /// Whether a trusted proxy has sent the request.
    pub is_from_proxy: bool,
}

/// The requested port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// The port in the target or in `Host`.
    Named,
    /// A proxy has named the port; `None`: the scheme's default.
    Given(Option<u16>),
}

/// The properties of a request without the fields of proxies.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionInfo<'a> {
    /// The peer of the connection, or the client that the PROXY protocol named; [`UNKNOWN_ADDRESS`] on a unix socket.
    pub peer: SocketAddr,
    /// The scheme of the connection.
    pub scheme: Scheme,
    /// The host in the target or in `Host`.
    pub host: &'a [u8],
}

/// The unspecified address, for clients over a unix socket and clients that a proxy hides. The only network that contains it is
/// `0.0.0.0/0`.
pub const UNKNOWN_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

impl Proxies {
    /// Whether the peer of a connection is a trusted proxy.
    pub fn trusts(&self, peer: SocketAddr) -> bool {
        if peer == UNKNOWN_ADDRESS {
            return self.unix;
        }
        !self.networks.is_empty() && self.trusts_address(peer.ip())
    }

    fn trusts_address(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.iter().any(|net| net.contains(&address))
    }

    /// The origin of a request: by the connection, and by its fields if the peer is trusted. Does not allocate.
    pub fn origin<'a>(
        &self,
        own: &ConnectionInfo<'a>,
        fields: &(impl Iterator<Item = (&'a str, &'a [u8])> + Clone),
    ) -> RequestOrigin<'a> {
        let mut origin = RequestOrigin {
            client: own.peer,
            scheme: own.scheme,
            host: own.host,
            port: Port::Named,
            is_from_proxy: self.trusts(own.peer),
        };
        if !origin.is_from_proxy {
            return origin;
        }
        let info = match self.field {
            ForwardingField::Forwarded => self.forwarded(own.peer, fields),
            ForwardingField::XForwardedFor => self.x_forwarded_for(own.peer, fields),
            ForwardingField::XRealIp => {
                let client = one_address(own.peer, fields, "x-real-ip");
                ForwardedInfo::with_fields(client, 0, fields)
            }
            ForwardingField::CfConnectingIp => {
                let client = one_address(own.peer, fields, "cf-connecting-ip");
                let info = ForwardedInfo::with_fields(client, 0, fields);
                ForwardedInfo {
                    host: None,
                    port: None,
                    ..info
                }
            }
        };
        origin.client = info.client;
        origin.scheme = info.scheme.unwrap_or(own.scheme);
        if let Some(host) = info.host {
            origin.host = host;
            origin.port = Port::Given(route::port(host));
        }
        if let Some(port) = info.port {
            origin.port = Port::Given(Some(port));
        }
        // Port 80 with `https`, or 443 with `http`, is the port of a hop after which TLS ended or began.
        if let Port::Given(Some(80 | 443)) = origin.port {
            origin.port = Port::Given(None);
        }
        origin
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
                None => client = UNKNOWN_ADDRESS,
                Some(address) => {
                    client = address;
                    if self.trusts_address(address.ip()) {
                        continue;
                    }
                }
            }
            break;
        }
        ForwardedInfo::with_fields(client, hop, fields)
    }

    fn forwarded<'a, F: HeaderFields<'a>>(
        &self,
        peer: SocketAddr,
        fields: &F,
    ) -> ForwardedInfo<'a> {
        let mut info = ForwardedInfo::without_fields(peer);
        for element in Elements::of(named(fields, "forwarded"), Separator::CommaUnquoted) {
            let element = node::ForwardedElement::read(element);
            // The farthest address counts, as long as the hops that stated it are trusted.
            info.scheme = element.scheme.or(info.scheme);
            info.host = element.host.or(info.host);
            info.client = element.client.unwrap_or(UNKNOWN_ADDRESS);
            if !element
                .client
                .is_some_and(|at| self.trusts_address(at.ip()))
            {
                break;
            }
        }
        info
    }
}

/// The address in a field that has one; the peer's without the field.
fn one_address<'a, F: HeaderFields<'a>>(
    peer: SocketAddr,
    fields: &F,
    name: &'static str,
) -> SocketAddr {
    match Elements::of(named(fields, name), Separator::Comma).next() {
        None => peer,
        Some(element) => node::address(element).unwrap_or(UNKNOWN_ADDRESS),
    }
}

/// The values of the fields of trusted proxies.
struct ForwardedInfo<'a> {
    client: SocketAddr,
    scheme: Option<Scheme>,
    host: Option<&'a [u8]>,
    port: Option<u16>,
}

impl<'a> ForwardedInfo<'a> {
    fn without_fields(client: SocketAddr) -> Self {
        Self {
            client,
            scheme: None,
            host: None,
            port: None,
        }
    }

    /// Adds the other `X-Forwarded-*` fields for the hop that named the client.
    fn with_fields<F: HeaderFields<'a>>(client: SocketAddr, hop: usize, fields: &F) -> Self {
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
