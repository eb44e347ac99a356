//! The header of the PROXY protocol: what it says, and that nothing behind it is touched.

use galley_http::proxy::{Malformed, ProxyHeaderStep, ProxySource, read};
use proptest::prelude::*;
use std::net::SocketAddr;

/// Reads a header as a connection does: never more than is asked for. Gives what it says and how much was taken.
fn take(bytes: &[u8]) -> Result<Option<(ProxySource, usize)>, Malformed> {
    let mut got = 0;
    loop {
        match read(&bytes[..got])? {
            ProxyHeaderStep::Whole(said) => return Ok(Some((said, got))),
            ProxyHeaderStep::More(more) => {
                assert!(more > 0);
                if got + more > bytes.len() {
                    return Ok(None);
                }
                got += more;
            }
        }
    }
}

fn version_2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let mut all = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    all.extend([command, family]);
    all.extend(u16::try_from(rest.len()).unwrap().to_be_bytes());
    all.extend(rest);
    all
}

fn of(source: &str, destination: &str) -> ProxySource {
    ProxySource::Client {
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
    }
}

#[test]
fn version_1_is_read() {
    for (line, said) in [
        (
            "PROXY TCP4 192.0.2.1 198.51.100.2 56324 443",
            Some(of("192.0.2.1:56324", "198.51.100.2:443")),
        ),
        (
            "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535",
            Some(of("255.255.255.255:65535", "255.255.255.255:65535")),
        ),
        (
            "PROXY TCP4 1.1.1.1 1.1.1.1 1 1",
            Some(of("1.1.1.1:1", "1.1.1.1:1")),
        ),
        (
            "PROXY TCP6 2001:db8::1 ::1 4 80",
            Some(of("[2001:db8::1]:4", "[::1]:80")),
        ),
        ("PROXY TCP6 ::1 :: 4 0", Some(of("[::1]:4", "[::]:0"))),
        (
            "PROXY TCP6 ::ffff:192.0.2.1 ::1 4 80",
            Some(of("192.0.2.1:4", "[::1]:80")),
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
        let wanted = said.map_or(Err(Malformed), |said| Ok(Some((said, length))));
        assert_eq!(take(&bytes), wanted, "{line}");
    }
    let endless = format!("PROXY UNKNOWN {}", "x".repeat(200));
    assert_eq!(take(endless.as_bytes()), Err(Malformed));
    assert_eq!(
        take(b"PROXY TCP4 192.0.2.1 198.51.100.2 1 1\nGET /"),
        Err(Malformed)
    );
}

#[test]
fn version_2_is_read() {
    let v4 = [192, 0, 2, 1, 198, 51, 100, 2, 0xdc, 4, 1, 0xbb];
    let mut v6 = [0; 36];
    v6[0] = 0x20;
    v6[15] = 1;
    v6[31] = 1;
    v6[33] = 5;
    let tlvs = [&v4[..], &[0x03, 0, 4, 1, 2, 3, 4, 0x20, 0xff, 0xff]].concat();
    let unix = [b'a'; 216];
    for (name, bytes, said) in [
        (
            "TCP4",
            version_2(0x21, 0x11, &v4),
            Some(of("192.0.2.1:56324", "198.51.100.2:443")),
        ),
        (
            "TCP4 and TLVs",
            version_2(0x21, 0x11, &tlvs),
            Some(of("192.0.2.1:56324", "198.51.100.2:443")),
        ),
        (
            "TCP6",
            version_2(0x21, 0x21, &v6),
            Some(of("[2000::1]:5", "[::1]:0")),
        ),
        (
            "LOCAL",
            version_2(0x20, 0x00, b""),
            Some(ProxySource::Itself),
        ),
        (
            "LOCAL with addresses",
            version_2(0x20, 0x11, &v4),
            Some(ProxySource::Itself),
        ),
        (
            "none",
            version_2(0x21, 0x00, b"anything"),
            Some(ProxySource::Itself),
        ),
        (
            "unix",
            version_2(0x21, 0x31, &unix),
            Some(ProxySource::Itself),
        ),
        ("unix, short", version_2(0x21, 0x31, b"a"), None),
        ("TCP4, short", version_2(0x21, 0x11, &v4[..11]), None),
        ("TCP6, short", version_2(0x21, 0x21, &v4), None),
        ("UDP", version_2(0x21, 0x12, &v4), None),
        ("version 1 in 2", version_2(0x11, 0x11, &v4), None),
        ("version 3", version_2(0x31, 0x11, &v4), None),
        ("unknown command", version_2(0x22, 0x11, &v4), None),
        ("too long", version_2(0x21, 0x11, &[1; 9_000]), None),
        ("from nobody", version_2(0x21, 0x11, &[0; 12]), None),
    ] {
        let length = bytes.len();
        let all = [&bytes[..], b"GET / HTTP/1.1\r\n\r\n"].concat();
        let wanted = said.map_or(Err(Malformed), |said| Ok(Some((said, length))));
        assert_eq!(take(&all), wanted, "{name}");
    }
}

fn address() -> impl Strategy<Value = SocketAddr> {
    (any::<std::net::IpAddr>(), any::<u16>())
        .prop_map(|(ip, port)| SocketAddr::new(ip, port))
        .prop_filter("somebody's", |address| {
            !address.ip().to_canonical().is_unspecified()
        })
}

proptest! {
    #[test]
    fn any_bytes_are_judged(bytes in proptest::collection::vec(any::<u8>(), 0..300), v2 in any::<bool>()) {
        let mut all = if v2 { b"\r\n\r\n\0\r\nQUIT\n\x21".to_vec() } else { b"PROXY TCP4 ".to_vec() };
        all.extend(&bytes);
        for bytes in [&bytes, &all] {
            let _ = take(bytes);
            for end in 0..bytes.len() {
                let _ = read(&bytes[..end]);
            }
        }
    }

    /// Whatever follows stays where it is, and cuts change nothing.
    #[test]
    fn exactly_the_header_is_taken(source in address(), destination in address(), behind in "[ -~\r\n]{0,60}") {
        if source.is_ipv4() == destination.is_ipv4() {
            let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
            let line = format!(
                "PROXY {family} {} {} {} {}\r\n",
                source.ip(), destination.ip(), source.port(), destination.port()
            );
            let all = format!("{line}{behind}");
            let canonical = |at: SocketAddr| SocketAddr::new(at.ip().to_canonical(), at.port());
            let said = ProxySource::Client { source: canonical(source), destination: canonical(destination) };
            prop_assert_eq!(take(all.as_bytes()), Ok(Some((said, line.len()))));
            for end in 0..line.len() {
                match read(&line.as_bytes()[..end]) {
                    Ok(ProxyHeaderStep::More(more)) => prop_assert!(end + more <= line.len()),
                    other => prop_assert!(false, "{:?} after {} bytes", other, end),
                }
            }
        }
    }
}
