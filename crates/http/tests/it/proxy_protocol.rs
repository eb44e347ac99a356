//! The header of the PROXY protocol: its addresses, and that no byte after it is consumed.

use galley_http::proxy::{Malformed, ProxyHeaderStep, ProxySource, read};
use proptest::prelude::*;
use std::net::SocketAddr;

/// Reads a header as a connection does, without reading too far. Returns the source and the length of the header.
fn read_header(bytes: &[u8]) -> Result<Option<(ProxySource, usize)>, Malformed> {
    let mut received = 0;
    loop {
        match read(&bytes[..received])? {
            ProxyHeaderStep::Whole(source) => return Ok(Some((source, received))),
            ProxyHeaderStep::More(more) => {
                assert!(more > 0);
                if received + more > bytes.len() {
                    return Ok(None);
                }
                received += more;
            }
        }
    }
}

fn version_2_header(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let mut all = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    all.extend([command, family]);
    all.extend(u16::try_from(rest.len()).unwrap().to_be_bytes());
    all.extend(rest);
    all
}

fn client(source: &str, destination: &str) -> ProxySource {
    ProxySource::Client {
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
    }
}

#[test]
fn version_1_headers() {
    for (line, source) in [
        (
            "PROXY TCP4 192.0.2.1 198.51.100.2 56324 443",
            Some(client("192.0.2.1:56324", "198.51.100.2:443")),
        ),
        (
            "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535",
            Some(client("255.255.255.255:65535", "255.255.255.255:65535")),
        ),
        (
            "PROXY TCP4 1.1.1.1 1.1.1.1 1 1",
            Some(client("1.1.1.1:1", "1.1.1.1:1")),
        ),
        (
            "PROXY TCP6 2001:db8::1 ::1 4 80",
            Some(client("[2001:db8::1]:4", "[::1]:80")),
        ),
        ("PROXY TCP6 ::1 :: 4 0", Some(client("[::1]:4", "[::]:0"))),
        (
            "PROXY TCP6 ::ffff:192.0.2.1 ::1 4 80",
            Some(client("192.0.2.1:4", "[::1]:80")),
        ),
        ("PROXY UNKNOWN", Some(ProxySource::Itself)),
        (
            "PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535",
            Some(ProxySource::Itself),
        ),
        ("PROXY TCP4 192.0.2.1 198.51.100.2 56324", None),
        ("PROXY TCP4 192.0.2.1 198.51.100.2 56324 443 1", None),
        ("PROXY TCP4 192.0.2.1 198.51.100.2 056324 443", None),
        ("PROXY TCP4 192.0.2.1 198.51.100.2 +56324 443", None),
        ("PROXY TCP4 192.0.2.1 198.51.100.2 65536 443", None),
        ("PROXY TCP4  192.0.2.1 198.51.100.2 5632 443", None),
        ("PROXY TCP4 2001:db8::1 ::1 4 80", None),
        ("PROXY TCP6 192.0.2.1 192.0.2.2 4 80", None),
        ("PROXY TCP4 0.0.0.0 192.0.2.2 4 80", None),
        ("PROXY UDP4 192.0.2.1 192.0.2.2 4 80", None),
        ("PROXY tcp4 192.0.2.1 192.0.2.2 4 80", None),
        ("PROXY UNKNOWNx", None),
        ("PROXY ", None),
        ("GET / HTTP/1.1", None),
    ] {
        let mut bytes = format!("{line}\r\n").into_bytes();
        let length = bytes.len();
        bytes.extend(b"GET / HTTP/1.1\r\n\r\n0123456789");
        let expected = source.map_or(Err(Malformed), |source| Ok(Some((source, length))));
        assert_eq!(read_header(&bytes), expected, "{line}");
    }
    let endless = format!("PROXY UNKNOWN {}", "x".repeat(200));
    assert_eq!(read_header(endless.as_bytes()), Err(Malformed));
    assert_eq!(
        read_header(b"PROXY TCP4 192.0.2.1 198.51.100.2 1 1\nGET /"),
        Err(Malformed)
    );
}

#[test]
fn version_2_headers() {
    let v4 = [192, 0, 2, 1, 198, 51, 100, 2, 0xdc, 4, 1, 0xbb];
    let mut v6 = [0; 36];
    v6[0] = 0x20;
    v6[15] = 1;
    v6[31] = 1;
    v6[33] = 5;
    let tlvs = [&v4[..], &[0x03, 0, 4, 1, 2, 3, 4, 0x20, 0xff, 0xff]].concat();
    let unix = [b'a'; 216];
    for (name, bytes, source) in [
        (
            "TCP4",
            version_2_header(0x21, 0x11, &v4),
            Some(client("192.0.2.1:56324", "198.51.100.2:443")),
        ),
        (
            "TCP4 and TLVs",
            version_2_header(0x21, 0x11, &tlvs),
            Some(client("192.0.2.1:56324", "198.51.100.2:443")),
        ),
        (
            "TCP6",
            version_2_header(0x21, 0x21, &v6),
            Some(client("[2000::1]:5", "[::1]:0")),
        ),
        (
            "LOCAL",
            version_2_header(0x20, 0x00, b""),
            Some(ProxySource::Itself),
        ),
        (
            "LOCAL with addresses",
            version_2_header(0x20, 0x11, &v4),
            Some(ProxySource::Itself),
        ),
        (
            "none",
            version_2_header(0x21, 0x00, b"anything"),
            Some(ProxySource::Itself),
        ),
        (
            "unix",
            version_2_header(0x21, 0x31, &unix),
            Some(ProxySource::Itself),
        ),
        ("unix, short", version_2_header(0x21, 0x31, b"a"), None),
        ("TCP4, short", version_2_header(0x21, 0x11, &v4[..11]), None),
        ("TCP6, short", version_2_header(0x21, 0x21, &v4), None),
        ("UDP", version_2_header(0x21, 0x12, &v4), None),
        ("version 1 in 2", version_2_header(0x11, 0x11, &v4), None),
        ("version 3", version_2_header(0x31, 0x11, &v4), None),
        ("unknown command", version_2_header(0x22, 0x11, &v4), None),
        ("too long", version_2_header(0x21, 0x11, &[1; 9_000]), None),
        (
            "unspecified addresses",
            version_2_header(0x21, 0x11, &[0; 12]),
            None,
        ),
    ] {
        let length = bytes.len();
        let all = [&bytes[..], b"GET / HTTP/1.1\r\n\r\n"].concat();
        let expected = source.map_or(Err(Malformed), |source| Ok(Some((source, length))));
        assert_eq!(read_header(&all), expected, "{name}");
    }
}

fn address() -> impl Strategy<Value = SocketAddr> {
    (any::<std::net::IpAddr>(), any::<u16>())
        .prop_map(|(ip, port)| SocketAddr::new(ip, port))
        .prop_filter("a specified address", |address| {
            !address.ip().to_canonical().is_unspecified()
        })
}

proptest! {
    #[test]
    fn reading_arbitrary_bytes_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300), v2 in any::<bool>()) {
        let mut all = if v2 { b"\r\n\r\n\0\r\nQUIT\n\x21".to_vec() } else { b"PROXY TCP4 ".to_vec() };
        all.extend(&bytes);
        for bytes in [&bytes, &all] {
            let _ = read_header(bytes);
            for end in 0..bytes.len() {
                let _ = read(&bytes[..end]);
            }
        }
    }

    /// The bytes after the header are not consumed, wherever reads end.
    #[test]
    fn exactly_the_header_is_consumed(source in address(), destination in address(), rest in "[ -~\r\n]{0,60}") {
        if source.is_ipv4() == destination.is_ipv4() {
            let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
            let line = format!(
                "PROXY {family} {} {} {} {}\r\n",
                source.ip(), destination.ip(), source.port(), destination.port()
            );
            let all = format!("{line}{rest}");
            let canonical = |at: SocketAddr| SocketAddr::new(at.ip().to_canonical(), at.port());
            let source = ProxySource::Client { source: canonical(source), destination: canonical(destination) };
            prop_assert_eq!(read_header(all.as_bytes()), Ok(Some((source, line.len()))));
            for end in 0..line.len() {
                match read(&line.as_bytes()[..end]) {
                    Ok(ProxyHeaderStep::More(more)) => prop_assert!(end + more <= line.len()),
                    other => prop_assert!(false, "{:?} after {} bytes", other, end),
                }
            }
        }
    }
}
