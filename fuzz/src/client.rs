//! Client addresses and access control: the PROXY protocol, forwarding fields, password files, XML-RPC calls.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use galley_http::proxy::{self, ProxyHeaderStep};
use galley_policy::access::passwords;
use galley_policy::access::xmlrpc::{Call, XmlRpcScanner};
use galley_policy::proxied::{ConnectionInfo, ForwardingField, Proxies, UNKNOWN_ADDRESS};
use galley_policy::request_info::Scheme;

/// A PROXY protocol header never requests bytes beyond its end, however few bytes arrive at a time.
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
            panic!("{length} of {whole} bytes are not a prefix");
        };
        assert!(length + more <= whole);
    }
}

/// Fields of untrusted peers are ignored. In a list, addresses left of the first untrusted address (from the right) have no effect.
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
    let connection_from = |peer: [u8; 4]| ConnectionInfo {
        peer: SocketAddr::new(IpAddr::V4(Ipv4Addr::from(peer)), 4000),
        scheme: Scheme::Http,
        host: b"example.com",
    };
    let untrusted = connection_from([192, 0, 2, 1]);
    let origin = proxies.origin(&untrusted, &fields);
    assert_eq!(
        (origin.client, origin.scheme),
        (untrusted.peer, Scheme::Http)
    );
    assert_eq!(origin.host, untrusted.host);
    let origin = proxies.origin(&connection_from([10, 0, 0, 1]), &fields);
    if proxies.field != ForwardingField::XForwardedFor || proxies.trusts(origin.client) {
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
    let with_longer_list = proxies.origin(&connection_from([10, 0, 0, 1]), &longer);
    assert!(with_longer_list.client == origin.client || origin.client == UNKNOWN_ADDRESS);
}

const NAMES: &[&str] = &[
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-port",
    "forwarded",
    "x-real-ip",
];

/// The result does not depend on how the body is split, and a plainly visible forbidden call is never permitted.
pub fn xmlrpc(data: &[u8]) {
    let whole = scan([data]);
    assert_eq!(scan(data.chunks(1)), whole);
    assert_eq!(scan(data.chunks(7)), whole);
    for name in ["system.multicall", "pingback.ping"] {
        let call = format!("<methodName>{name}</methodName>");
        let is_present = data.windows(call.len()).any(|part| part == call.as_bytes());
        assert!(!is_present || whole != Call::Fine);
    }
}

fn scan<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Call {
    let mut scanner = XmlRpcScanner::default();
    for piece in pieces {
        scanner.push(piece);
    }
    scanner.finish()
}

/// In a file that passes the check, every name has a hash. Credentials are the text after the scheme.
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
