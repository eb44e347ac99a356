//! Tests of forwarding fields from trusted and untrusted peers, as tables and properties.

use super::*;
use proptest::prelude::*;

const HOST: &[u8] = b"own.test";

fn proxies(field: ForwardingField) -> Proxies {
    let networks = ["10.0.0.0/8", "fd00::/8"];
    Proxies {
        networks: networks.iter().map(|net| net.parse().unwrap()).collect(),
        unix: false,
        field,
    }
}

fn origin<'a>(proxies: &Proxies, peer: &str, fields: &[(&'a str, &'a str)]) -> RequestOrigin<'a> {
    let own = ConnectionInfo {
        peer: peer.parse().unwrap(),
        scheme: Scheme::Http,
        host: HOST,
    };
    let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
    proxies.origin(&own, &fields)
}

#[test]
fn the_first_address_that_is_not_trusted_is_the_client() {
    let proxies = proxies(ForwardingField::XForwardedFor);
    for (lines, client) in [
        (&[][..], "10.0.0.1:9"),
        (&["192.0.2.7"], "192.0.2.7:0"),
        (&["192.0.2.7:81"], "192.0.2.7:81"),
        (&["203.0.113.9, 192.0.2.7"], "192.0.2.7:0"),
        (
            &["203.0.113.9, 192.0.2.7 , 10.2.3.4,10.9.9.9"],
            "192.0.2.7:0",
        ),
        (&["203.0.113.9", "192.0.2.7", "10.2.3.4"], "192.0.2.7:0"),
        (&["192.0.2.7, fd00::1, [fd00::2]:80"], "192.0.2.7:0"),
        (&["2001:db8::1"], "[2001:db8::1]:0"),
        (&["[2001:db8::1]:443"], "[2001:db8::1]:443"),
        (&["::ffff:192.0.2.7"], "192.0.2.7:0"),
        (&["192.0.2.7, ::ffff:10.1.1.1"], "192.0.2.7:0"),
        // All are trusted: the farthest one is the client.
        (&["10.0.0.5, 10.0.0.6"], "10.0.0.5:0"),
        // An invalid element hides the client, and elements to the left of it do not count.
        (&["192.0.2.7, unknown"], "0.0.0.0:0"),
        (&["192.0.2.7, _hidden, 10.0.0.6"], "0.0.0.0:0"),
        (&["192.0.2.7, 1.2.3.4.5"], "0.0.0.0:0"),
        (&["192.0.2.7, 0.0.0.0"], "0.0.0.0:0"),
        (&["192.0.2.7, 192.0.2.8:99999"], "0.0.0.0:0"),
        (&["fe80::1%eth0"], "0.0.0.0:0"),
        (&["203.0.113.9, , 192.0.2.7, "], "192.0.2.7:0"),
        // An unclosed quote of the client does not extend into appended elements.
        (&["\"10.0.0.1, 192.0.2.7"], "192.0.2.7:0"),
        (&["\"10.0.0.1", "192.0.2.7"], "192.0.2.7:0"),
    ] {
        let fields: Vec<_> = lines
            .iter()
            .map(|line| ("X-Forwarded-For", *line))
            .collect();
        let found = origin(&proxies, "10.0.0.1:9", &fields).client;
        assert_eq!(found, client.parse().unwrap(), "{lines:?}");
    }
}

#[test]
fn an_untrusted_peer_is_the_client() {
    let fields = [
        ("x-forwarded-for", "192.0.2.7"),
        ("forwarded", "for=192.0.2.7;proto=https;host=evil.test"),
        ("x-real-ip", "192.0.2.7"),
        ("cf-connecting-ip", "192.0.2.7"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "evil.test"),
        ("x-forwarded-port", "444"),
    ];
    for field in [
        ForwardingField::XForwardedFor,
        ForwardingField::Forwarded,
        ForwardingField::XRealIp,
        ForwardingField::CfConnectingIp,
    ] {
        for peer in ["192.0.2.99:5", "[2001:db8::9]:5", "0.0.0.0:0"] {
            let found = origin(&proxies(field), peer, &fields);
            let own = RequestOrigin {
                client: peer.parse().unwrap(),
                scheme: Scheme::Http,
                host: HOST,
                port: Port::Named,
                is_from_proxy: false,
            };
            assert_eq!(found, own, "{field:?} {peer}");
        }
    }
    let trusting = Proxies {
        unix: true,
        ..Proxies::default()
    };
    let client = origin(&trusting, "0.0.0.0:0", &fields).client;
    assert_eq!(client, "192.0.2.7:0".parse().unwrap());
    assert!(!trusting.trusts("127.0.0.1:1".parse().unwrap()));
}

#[test]
fn only_the_configured_field_counts() {
    let fields = [
        ("x-forwarded-for", "192.0.2.1"),
        ("forwarded", "for=192.0.2.2"),
        ("x-real-ip", "192.0.2.3"),
        ("cf-connecting-ip", "192.0.2.4"),
    ];
    for (field, client) in [
        (ForwardingField::XForwardedFor, "192.0.2.1:0"),
        (ForwardingField::Forwarded, "192.0.2.2:0"),
        (ForwardingField::XRealIp, "192.0.2.3:0"),
        (ForwardingField::CfConnectingIp, "192.0.2.4:0"),
    ] {
        let found = origin(&proxies(field), "10.0.0.1:9", &fields).client;
        assert_eq!(found, client.parse().unwrap());
    }
    let two = [("x-real-ip", "192.0.2.3"), ("x-real-ip", "192.0.2.4")];
    let found = origin(&proxies(ForwardingField::XRealIp), "10.0.0.1:9", &two).client;
    assert_eq!(found, "192.0.2.4:0".parse().unwrap());
    let odd = [("x-real-ip", "nobody")];
    let found = origin(&proxies(ForwardingField::XRealIp), "10.0.0.1:9", &odd).client;
    assert_eq!(found, UNKNOWN_ADDRESS);
}

#[test]
fn cloudflare_tells_the_client_and_the_scheme_only() {
    let fields = [
        ("cf-connecting-ip", "2001:db8::7"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "evil.test"),
        ("x-forwarded-port", "8443"),
    ];
    let found = origin(
        &proxies(ForwardingField::CfConnectingIp),
        "10.0.0.1:9",
        &fields,
    );
    assert_eq!(found.client, "[2001:db8::7]:0".parse().unwrap());
    assert_eq!((found.scheme, found.host), (Scheme::Https, HOST));
    assert_eq!(found.port, Port::Named);
}

/// RFC 7239 sections 4 to 6.
#[test]
fn forwarded_is_parsed_in_all_its_forms() {
    let proxies = proxies(ForwardingField::Forwarded);
    for (line, client, scheme, host) in [
        (
            "for=192.0.2.60;proto=https;by=203.0.113.43",
            "192.0.2.60:0",
            "https",
            None,
        ),
        (
            "For=\"[2001:db8:cafe::17]:4711\"",
            "[2001:db8:cafe::17]:4711",
            "http",
            None,
        ),
        (
            "for=192.0.2.43, for=198.51.100.17",
            "198.51.100.17:0",
            "http",
            None,
        ),
        ("for=\"192.0.2.43:47011\"", "192.0.2.43:47011", "http", None),
        ("for=\"192.0.2.43:_port\"", "192.0.2.43:0", "http", None),
        ("for=unknown;proto=https", "0.0.0.0:0", "https", None),
        ("for=192.0.2.1, for=\"_gazonk\"", "0.0.0.0:0", "http", None),
        ("for=_hidden, for=_SEVKISEK", "0.0.0.0:0", "http", None),
        ("proto=https", "0.0.0.0:0", "https", None),
        ("for=192.0.2.1;for=192.0.2.2", "0.0.0.0:0", "http", None),
        (
            "for=192.0.2.1;proto=https;host=\"shop.test:8443\", for=10.0.0.4;proto=http;host=inner",
            "192.0.2.1:0",
            "https",
            Some("shop.test:8443"),
        ),
        // The nearer element provides parameters that the farther one lacks.
        (
            "for=192.0.2.1, for=10.0.0.4;proto=https;host=a.test",
            "192.0.2.1:0",
            "https",
            Some("a.test"),
        ),
        // Elements and quotes of the client.
        (
            "for=10.0.0.9;proto=https;host=evil.test, for=192.0.2.1",
            "192.0.2.1:0",
            "http",
            None,
        ),
        ("for=\"10.0.0.9, for=192.0.2.1", "192.0.2.1:0", "http", None),
        (
            "for=\"10.0.0.9\\\", for=192.0.2.1",
            "192.0.2.1:0",
            "http",
            None,
        ),
        ("for=1.1.1.1, for=\"a,b\"", "0.0.0.0:0", "http", None),
        (
            "for=192.0.2.1;secret=\"x;for=10.0.0.9\"",
            "192.0.2.1:0",
            "http",
            None,
        ),
    ] {
        let found = origin(&proxies, "10.0.0.1:9", &[("Forwarded", line)]);
        assert_eq!(found.client, client.parse().unwrap(), "{line}");
        assert_eq!(found.scheme.as_str(), scheme, "{line}");
        let own = std::str::from_utf8(HOST).unwrap();
        assert_eq!(found.host, host.unwrap_or(own).as_bytes(), "{line}");
    }
}

#[test]
fn scheme_host_and_port_are_those_of_the_client() {
    let proxies = proxies(ForwardingField::XForwardedFor);
    let own = ("http", "own.test", Port::Named);
    for (fields, (scheme, host, port)) in [
        (vec![("x-forwarded-for", "192.0.2.1")], own),
        (
            vec![("x-forwarded-proto", "https")],
            ("https", "own.test", Port::Named),
        ),
        (
            vec![("x-forwarded-proto", "HTTPS")],
            ("https", "own.test", Port::Named),
        ),
        (vec![("x-forwarded-proto", "gopher")], own),
        (
            vec![("x-forwarded-proto", "https"), ("x-forwarded-port", "443")],
            ("https", "own.test", Port::Given(None)),
        ),
        // TLS ended one hop before the proxy that names its own port.
        (
            vec![("x-forwarded-proto", "https"), ("x-forwarded-port", "80")],
            ("https", "own.test", Port::Given(None)),
        ),
        (
            vec![("x-forwarded-port", "8443")],
            ("http", "own.test", Port::Given(Some(8443))),
        ),
        (vec![("x-forwarded-port", "0")], own),
        (vec![("x-forwarded-port", "+80")], own),
        (
            vec![("x-forwarded-host", "shop.test")],
            ("http", "shop.test", Port::Given(None)),
        ),
        (
            vec![("x-forwarded-host", "shop.test:8080")],
            ("http", "shop.test:8080", Port::Given(Some(8080))),
        ),
        (vec![("x-forwarded-host", " ")], own),
        // Lists: the element of the hop that named the client, never that of the client.
        (
            vec![
                ("x-forwarded-for", "192.0.2.1"),
                ("x-forwarded-proto", "https, http"),
                ("x-forwarded-host", "evil.test, shop.test"),
            ],
            ("http", "shop.test", Port::Given(None)),
        ),
        (
            vec![
                ("x-forwarded-for", "9.9.9.9, 192.0.2.1, 10.0.0.2"),
                ("x-forwarded-proto", "http, https, http"),
                ("x-forwarded-host", "evil.test, shop.test, inner.test"),
            ],
            ("https", "shop.test", Port::Given(None)),
        ),
        (
            vec![
                ("x-forwarded-for", "192.0.2.1, 10.0.0.2, 10.0.0.3"),
                ("x-forwarded-proto", "https"),
            ],
            ("https", "own.test", Port::Named),
        ),
    ] {
        let found = origin(&proxies, "10.0.0.1:9", &fields);
        let host_text = std::str::from_utf8(found.host).unwrap();
        assert_eq!(
            (found.scheme.as_str(), host_text, found.port),
            (scheme, host, port),
            "{fields:?}"
        );
    }
}

#[test]
fn a_long_list_is_read_from_its_end() {
    let proxies = proxies(ForwardingField::XForwardedFor);
    let mut long = "10.0.0.2, ".repeat(5_000);
    long.push_str("192.0.2.7");
    let found = origin(&proxies, "10.0.0.1:9", &[("x-forwarded-for", &long)]);
    assert_eq!(found.client, "192.0.2.7:0".parse().unwrap());
    let lines = vec![("x-forwarded-for", "8.8.8.8"); 500];
    let mut lines = lines;
    lines.push(("x-forwarded-for", "192.0.2.7"));
    let found = origin(&proxies, "10.0.0.1:9", &lines);
    assert_eq!(found.client, "192.0.2.7:0".parse().unwrap());
}

fn odd_text() -> impl Strategy<Value = String> {
    "[\"\\\\,;=:\\[\\] a-f0-9_.]{0,40}"
}

proptest! {
    /// Behind one proxy that appends, the client is the peer of that proxy, whatever it sends.
    #[test]
    fn the_appended_element_decides(sent in odd_text(), more in odd_text(), last in any::<[u8; 4]>()) {
        let address = Ipv4Addr::from(last);
        prop_assume!(last[0] != 10 && !address.is_unspecified());
        for (field, name, text) in [
            (ForwardingField::XForwardedFor, "x-forwarded-for", format!("{address}")),
            (ForwardingField::Forwarded, "forwarded", format!("for={address};proto=http")),
        ] {
            let joined = format!("{sent}, {text}");
            for fields in [
                vec![(name, sent.as_str()), (name, more.as_str()), (name, text.as_str())],
                vec![(name, more.as_str()), (name, joined.as_str())],
            ] {
                let found = origin(&proxies(field), "10.0.0.1:9", &fields);
                prop_assert_eq!(found.client.ip(), IpAddr::V4(address));
                prop_assert_eq!(found.scheme, Scheme::Http);
            }
        }
    }

    #[test]
    fn any_bytes_are_accepted(values in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..6), odd in odd_text()) {
        let names = ["x-forwarded-for", "forwarded", "x-real-ip", "cf-connecting-ip", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-port"];
        let fields = names.iter().zip(&values).map(|(name, value)| (*name, value.as_slice()));
        let fields = fields.chain([("forwarded", odd.as_bytes())]);
        let own = ConnectionInfo { peer: "10.0.0.1:1".parse().unwrap(), scheme: Scheme::Https, host: HOST };
        for field in [ForwardingField::XForwardedFor, ForwardingField::Forwarded, ForwardingField::XRealIp, ForwardingField::CfConnectingIp] {
            let found = proxies(field).origin(&own, &fields.clone());
            prop_assert!(!matches!(found.port, Port::Given(Some(0))));
        }
    }
}
