//! Who a client is and what lets it in: the PROXY protocol, fields of proxies, files of passwords, calls of XML-RPC.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use galley_http::proxy::{self, ProxyHeaderStep};
use galley_policy::access::passwords;
use galley_policy::access::xmlrpc::{Call, XmlRpcScanner};
use galley_policy::proxied::{ConnectionInfo, ForwardingField, NOBODY, Proxies};
use galley_policy::request_info::Scheme;

/// A header of the PROXY protocol is read to the byte: what is asked for always belongs to it, however slowly it comes.
pub fn proxy_protocol(data: &[u8]) {
    let mut length = 0;
    let whole = loop {
        match proxy::read(&data[..length]) {
            Err(_) => return,
            Ok(ProxyHeaderStep::Whole(_)) => break length,
            Ok(ProxyHeaderStep::More(more)) => {
                assert!(more > 0);
                length += more;
                if length > data.len() {
                    return;
                }
            }
        }
    };
    for length in 0..whole {
        let Ok(ProxyHeaderStep::More(more)) = proxy::read(&data[..length]) else {
            panic!("{length} of {whole} bytes are no beginning");
        };
        assert!(length + more <= whole);
    }
}

/// Strangers are not believed, and of a list nothing counts that stands left of the first address that is not trusted.
pub fn forwarded(data: &[u8]) {
    let Some((&choice, rest)) = data.split_first() else {
        return;
    };
    let mut lines = rest.split(|byte| *byte == b'\n');
    let values: Vec<&[u8]> = NAMES.iter().map_while(|_| lines.next()).collect();
    let fields = NAMES.iter().copied().zip(values.iter().copied());
    let proxies = Proxies {
        networks: vec!["10.0.0.0/8".parse().expect("a network")],
        unix: false,
        field: [
            ForwardingField::XForwardedFor,
            ForwardingField::Forwarded,
            ForwardingField::XRealIp,
        ][usize::from(choice) % 3],
    };
    let own = |peer: [u8; 4]| ConnectionInfo {
        peer: SocketAddr::new(IpAddr::V4(Ipv4Addr::from(peer)), 4000),
        scheme: Scheme::Http,
        host: b"example.com",
    };
    let stranger = own([192, 0, 2, 1]);
    let asked = proxies.origin(&stranger, &fields);
    assert_eq!((asked.client, asked.scheme), (stranger.peer, Scheme::Http));
    assert_eq!(asked.host, stranger.host);
    let asked = proxies.origin(&own([10, 0, 0, 1]), &fields);
    if proxies.field != ForwardingField::XForwardedFor || proxies.trusts(asked.client) {
        return;
    }
    let list = [
        b"198.51.100.9, ",
        values.first().copied().unwrap_or_default(),
    ]
    .concat();
    let longer = fields.map(|(name, value)| match name {
        "x-forwarded-for" => (name, list.as_slice()),
        _ => (name, value),
    });
    let again = proxies.origin(&own([10, 0, 0, 1]), &longer);
    assert!(again.client == asked.client || asked.client == NOBODY);
}

const NAMES: &[&str] = &[
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-port",
    "forwarded",
    "x-real-ip",
];

/// A call is judged alike however its body is cut, and one that is forbidden and plainly there is never let through.
pub fn xmlrpc(data: &[u8]) {
    let whole = judged([data]);
    assert_eq!(judged(data.chunks(1)), whole);
    assert_eq!(judged(data.chunks(7)), whole);
    for name in ["system.multicall", "pingback.ping"] {
        let call = format!("<methodName>{name}</methodName>");
        let is_there = data.windows(call.len()).any(|part| part == call.as_bytes());
        assert!(!is_there || whole != Call::Fine);
    }
}

fn judged<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Call {
    let mut scanner = XmlRpcScanner::default();
    for piece in pieces {
        scanner.push(piece);
    }
    scanner.finish()
}

/// In a file that passes the check every name has a hash, and credentials are what follows the scheme.
pub fn htpasswd(data: &[u8]) {
    if let Some(offered) = passwords::offered(data) {
        assert_eq!(offered, offered.trim_ascii());
    }
    let Ok(file) = std::str::from_utf8(data) else {
        return;
    };
    let is_usable = passwords::check(file).is_ok();
    for line in file.lines().map(str::trim) {
        let Some((name, _)) = line.split_once(':') else {
            continue;
        };
        if line.starts_with('#') || name.is_empty() {
            continue;
        }
        let found = passwords::find(file, name.as_bytes());
        assert!(!is_usable || found.is_some());
        assert!(found.is_none() || passwords::some(file).is_some());
    }
}
