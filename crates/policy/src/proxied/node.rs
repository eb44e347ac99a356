//! The elements of forwarding fields: an address with or without port, a scheme, a port, or a `forwarded-element`.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::fields;
use crate::request_info::Scheme;

/// One element of `Forwarded` (RFC 7239 section 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ForwardedElement<'a> {
    /// `for`; `None` if it is absent, hidden (`unknown`, `_name`) or repeated.
    pub(super) client: Option<SocketAddr>,
    /// `proto`.
    pub(super) scheme: Option<Scheme>,
    /// `host`.
    pub(super) host: Option<&'a [u8]>,
}

impl<'a> ForwardedElement<'a> {
    pub(super) fn read(element: &'a [u8]) -> Self {
        let mut node = Self::default();
        let mut clients = 0;
        for part in fields::parts(element) {
            let (name, Some(value)) = fields::name_value(part) else {
                continue;
            };
            if name.eq_ignore_ascii_case(b"for") {
                clients += 1;
                node.client = address(value);
            } else if name.eq_ignore_ascii_case(b"proto") {
                node.scheme = scheme(value);
            } else if name.eq_ignore_ascii_case(b"host") && !value.is_empty() {
                node.host = Some(value);
            }
        }
        if clients > 1 {
            node.client = None;
        }
        node
    }
}

/// Parses `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:80`, also with a hidden port
/// (`:_name`, RFC 7239 section 6). Port 0 if there is none. The unspecified address is invalid.
pub(super) fn address(text: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let (ip, port) = if let Some(rest) = text.strip_prefix('[') {
        let (ip, port) = rest.split_once(']')?;
        let ip: Ipv6Addr = ip.parse().ok()?;
        let port = match port {
            "" => None,
            port => Some(port.strip_prefix(':')?),
        };
        (IpAddr::V6(ip), port)
    } else if let Ok(ip) = text.parse::<IpAddr>() {
        (ip, None)
    } else {
        let (ip, port) = text.split_once(':')?;
        (IpAddr::V4(ip.parse().ok()?), Some(port))
    };
    let ip = ip.to_canonical();
    let port = match port {
        None => 0,
        Some(hidden) if hidden.starts_with('_') => 0,
        Some(digits) => number(digits)?,
    };
    (!ip.is_unspecified()).then_some(SocketAddr::new(ip, port))
}

/// Parses `http` or `https`; proxies of `WebSocket`s write `ws` and `wss`.
pub(super) fn scheme(text: &[u8]) -> Option<Scheme> {
    let is = |known: &[u8]| text.eq_ignore_ascii_case(known);
    if is(b"https") || is(b"wss") {
        Some(Scheme::Https)
    } else if is(b"http") || is(b"ws") {
        Some(Scheme::Http)
    } else {
        None
    }
}

/// Parses a port other than 0.
pub(super) fn port(text: &[u8]) -> Option<u16> {
    number(std::str::from_utf8(text).ok()?).filter(|&port| port != 0)
}

fn number(digits: &str) -> Option<u16> {
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_plain)
}
