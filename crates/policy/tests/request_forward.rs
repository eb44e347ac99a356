//! Header fields and CGI variables of upstream requests.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::borrow::Cow;
use std::net::IpAddr;

use galley_policy::cgi::{self, BadCgiHead, CgiConnection, Script};
use galley_policy::forward::{self, BodyLength, Client, Schedule, UpstreamRequest};
use galley_policy::key::write_key;
use galley_policy::request_info::{RequestInfo, RequestLineInfo, Scheme};
use galley_policy::site::{IgnoredParts, Policy, Rule};
use proptest::prelude::*;

const LINE: RequestLineInfo<'static> = RequestLineInfo {
    method: "GET",
    target: b"/a%20b?utm_source=x&b&a",
    scheme: Scheme::Https,
    host: "example.com",
    has_body: false,
    upgrade: false,
    country: None,
};

fn client() -> Client<'static> {
    Client {
        address: "::ffff:192.0.2.7".parse().unwrap(),
        port: 4711,
        request_id: "req-1",
    }
}

fn info(line: &RequestLineInfo<'_>, fields: &[(&str, &str)]) -> RequestInfo {
    let mut info = RequestInfo::default();
    info.parse(
        line,
        fields.iter().map(|(n, v)| (*n, v.as_bytes())),
        &Policy::default(),
    )
    .unwrap();
    info
}

fn whole_request(line: &RequestLineInfo<'_>, fields: &[(&str, &str)]) -> UpstreamRequest {
    let info = info(line, fields);
    forward::whole(
        &info,
        fields.iter().map(|(n, v)| (*n, v.as_bytes())),
        &client(),
        BodyLength::None,
    )
}

fn field<'r>(request: &'r UpstreamRequest, name: &str) -> Vec<&'r str> {
    request
        .fields
        .iter()
        .filter(|(n, _)| n == name)
        .map(|(_, value)| value.to_str().unwrap())
        .collect()
}

fn script() -> Script {
    Script {
        filename: b"/srv/index.php".to_vec(),
        name: b"/index.php".to_vec(),
        path_info: Some(b"/a b".to_vec()),
        document_root: b"/srv".to_vec(),
    }
}

fn variables(request: &UpstreamRequest, script: &Script) -> Vec<(String, String)> {
    let text = |bytes: Cow<'_, [u8]>| String::from_utf8(bytes.into_owned()).unwrap();
    let server: IpAddr = "192.0.2.1".parse().unwrap();
    let connection = CgiConnection {
        client: client(),
        server_address: Some(server),
    };
    cgi::variables(request, script, &connection)
        .into_iter()
        .map(|(n, v)| (text(n), text(v)))
        .collect()
}

fn variable<'v>(variables: &'v [(String, String)], name: &str) -> Option<&'v str> {
    let mut matching = variables
        .iter()
        .filter(|(n, _)| n == name)
        .map(|(_, value)| value.as_str());
    let first = matching.next();
    assert_eq!(matching.next(), None, "{name} twice");
    first
}

#[test]
fn a_trimmed_request_contains_only_parsed_values() {
    let head = [
        ("Cookie", "akm_mobile=1; _ga=2"),
        ("Accept", "text/html"),
        ("Host", "example.com:8443"),
    ];
    let request = forward::trimmed(&info(
        &RequestLineInfo {
            method: "HEAD",
            ..LINE
        },
        &head,
    ));
    assert_eq!(
        (request.method.as_str(), request.host.as_str()),
        ("GET", "example.com:8443")
    );
    assert_eq!(
        (request.path.as_slice(), request.query.as_deref()),
        (&b"/a%20b"[..], Some(&b"a&b"[..]))
    );
    assert_eq!(request.body_length, BodyLength::None);
    assert_eq!(field(&request, "cookie"), ["akm_mobile=1"]);
    assert_eq!(field(&request, "accept-encoding"), ["identity"]);
    assert_eq!(field(&request, "x-forwarded-port"), ["8443"]);
    assert_eq!(field(&request, "x-forwarded-proto"), ["https"]);
    let json = forward::trimmed(&info(&LINE, &[("Accept", "application/geo+json")]));
    assert_eq!(field(&json, "accept"), ["application/json"]);
}

#[test]
fn the_client_address_is_added_separately_and_only_once() {
    let mut request = forward::trimmed(&info(&LINE, &[("X-Forwarded-For", "1.2.3.4")]));
    assert!(field(&request, "x-forwarded-for").is_empty());
    for _ in 0..2 {
        forward::address(&mut request, &client());
        assert_eq!(field(&request, "x-forwarded-for"), ["192.0.2.7"]);
        assert_eq!(field(&request, "x-real-ip"), ["192.0.2.7"]);
        assert_eq!(field(&request, "x-request-id"), ["req-1"]);
    }
}

#[test]
fn a_whole_request_keeps_end_to_end_fields_of_the_client() {
    let head = [
        ("Host", "example.com"),
        ("Accept", "text/html"),
        ("accept-encoding", "gzip, br"),
        ("Authorization", "Basic x"),
        ("Content-Type", "text/plain"),
        ("If-None-Match", "\"a\""),
        ("Cookie", "a=1; b=2"),
        ("X-WP-Nonce", "n"),
        ("cookie", "c=3"),
        ("Origin", "https://other.com"),
        ("X-Own", "1"),
        ("X-Own", "2"),
    ];
    let request = whole_request(&LINE, &head);
    assert_eq!(request.query.as_deref(), Some(&b"utm_source=x&b&a"[..]));
    assert_eq!(field(&request, "cookie"), ["a=1; b=2; c=3"]);
    assert_eq!(field(&request, "authorization"), ["Basic x"]);
    assert_eq!(field(&request, "accept-encoding"), ["gzip, br"]);
    assert_eq!(field(&request, "if-none-match"), ["\"a\""]);
    assert_eq!(field(&request, "x-wp-nonce"), ["n"]);
    assert_eq!(field(&request, "x-own"), ["1", "2"]);
    assert!(field(&request, "host").is_empty());
}

#[test]
fn a_whole_request_drops_hop_by_hop_and_spoofable_fields() {
    for name in [
        "Connection",
        "Keep-Alive",
        "Proxy-Connection",
        "Proxy-Authorization",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "Upgrade",
        "Content-Length",
        "Expect",
        "Forwarded",
        "X-Forwarded",
        "X-Forwarded-Server",
        "X-FORWARDED-PREFIX",
        "Proxy",
        "X-Original-URL",
        "X-Rewrite-URL",
        "X-HTTP-Method-Override",
        "X_Forwarded_For",
        "X_Own",
        "X.Own",
        "True-Client-IP",
        "X-LSCACHE",
        "x-lscache-vary-value",
        "Connection-Named",
        "Galley-Request",
        "GALLEY-Acknowledged",
        "galley-purge",
    ] {
        let request = whole_request(
            &LINE,
            &[("Connection", "Connection-Named"), (name, "CANARY")],
        );
        assert!(
            !format!("{:?}", request.fields).contains("CANARY"),
            "{name}"
        );
    }
    for name in [
        "X-Forwarded-For",
        "X-Real-IP",
        "X-Forwarded-Proto",
        "X-Forwarded-Host",
        "X-Request-Id",
    ] {
        let values = whole_request(&LINE, &[(name, "CANARY")]);
        let values = field(&values, &name.to_ascii_lowercase()).join(",");
        assert!(!values.is_empty() && !values.contains("CANARY"), "{name}");
    }
}

#[test]
fn galley_fields_for_the_plugin_cannot_be_set_by_clients() {
    let client_fields = [
        ("Galley-Request", "shared"),
        ("Galley-Acknowledged", "CANARY"),
        ("Galley-Cron", "run"),
    ];
    let shared = forward::trimmed(&info(&LINE, &client_fields));
    assert_eq!(field(&shared, "galley-request"), ["shared"]);
    assert!(field(&shared, "galley-acknowledged").is_empty());
    let mut acknowledging = shared.clone();
    forward::set_acknowledged(&mut acknowledging, "a1");
    assert_eq!(field(&acknowledging, "galley-acknowledged"), ["a1"]);
    let mut request = whole_request(&LINE, &client_fields);
    assert!(field(&request, "galley-request").is_empty());
    forward::for_plugin(&mut request, "a1 b2");
    assert_eq!(field(&request, "galley-request"), ["whole"]);
    assert_eq!(field(&request, "galley-acknowledged"), ["a1 b2"]);
    let mut request = whole_request(&LINE, &[]);
    forward::for_plugin(&mut request, "");
    assert!(field(&request, "galley-acknowledged").is_empty());
    for (schedule, word) in [
        (Schedule::Own, None),
        (Schedule::Kept, Some("kept")),
        (Schedule::Run, Some("run")),
    ] {
        let mut request = whole_request(&LINE, &client_fields);
        forward::schedule(&mut request, schedule);
        assert_eq!(field(&request, "galley-cron"), Vec::from_iter(word));
    }
}

#[test]
fn connection_cannot_remove_protected_fields() {
    for name in [
        "Cookie",
        "Authorization",
        "X-WP-Nonce",
        "Content-Type",
        "Origin",
        "X-Requested-With",
        "Range",
    ] {
        let request = whole_request(
            &LINE,
            &[
                ("Connection", name),
                (name, "kept"),
                ("Connection", "x-forwarded-for, host"),
            ],
        );
        assert_eq!(
            field(&request, &name.to_ascii_lowercase()),
            ["kept"],
            "{name}"
        );
        assert_eq!(field(&request, "x-forwarded-for"), ["192.0.2.7"]);
    }
}

#[test]
fn method_overrides_are_forwarded_only_with_unsafe_methods() {
    for (method, expected) in [
        ("GET", 0),
        ("HEAD", 0),
        ("OPTIONS", 0),
        ("POST", 1),
        ("DELETE", 1),
    ] {
        let request = whole_request(
            &RequestLineInfo { method, ..LINE },
            &[("X-HTTP-Method-Override", "PUT")],
        );
        assert_eq!(
            field(&request, "x-http-method-override").len(),
            expected,
            "{method}"
        );
    }
}

#[test]
fn a_rule_that_ignores_cookies_removes_them_from_upstream_requests() {
    let ignore = IgnoredParts {
        cookie: true,
        ..IgnoredParts::default()
    };
    let site = Policy {
        rules: vec![Rule {
            path: "/*".to_owned(),
            ignore,
            ..Rule::default()
        }],
        ..Policy::default()
    };
    let fields = [("Cookie", &b"wordpress_logged_in_x=1; akm_mobile=1"[..])];
    let mut info = RequestInfo::default();
    info.parse(&LINE, fields.into_iter(), &site).unwrap();
    assert!(field(&forward::trimmed(&info), "cookie").is_empty());
    assert!(
        field(
            &forward::whole(&info, fields.into_iter(), &client(), BodyLength::None),
            "cookie"
        )
        .is_empty()
    );
}

#[test]
fn php_receives_the_variables_that_wordpress_reads() {
    let request = UpstreamRequest {
        body_length: BodyLength::Known(5),
        ..whole_request(
            &LINE,
            &[
                ("Content-Type", "text/plain"),
                ("Authorization", "Basic x"),
                ("X-Own", "1"),
                ("X-Own", "2"),
            ],
        )
    };
    let received = variables(&request, &script());
    for (name, value) in [
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("SERVER_NAME", "example.com"),
        ("SERVER_PORT", "443"),
        ("SERVER_ADDR", "192.0.2.1"),
        ("REMOTE_ADDR", "192.0.2.7"),
        ("REMOTE_PORT", "4711"),
        ("REQUEST_METHOD", "GET"),
        ("REQUEST_SCHEME", "https"),
        ("HTTPS", "on"),
        ("REQUEST_URI", "/a%20b?utm_source=x&b&a"),
        ("QUERY_STRING", "utm_source=x&b&a"),
        ("SCRIPT_FILENAME", "/srv/index.php"),
        ("SCRIPT_NAME", "/index.php"),
        ("PATH_INFO", "/a b"),
        ("DOCUMENT_URI", "/index.php/a b"),
        ("DOCUMENT_ROOT", "/srv"),
        ("REDIRECT_STATUS", "200"),
        ("CONTENT_TYPE", "text/plain"),
        ("CONTENT_LENGTH", "5"),
        ("HTTP_HOST", "example.com"),
        ("HTTP_AUTHORIZATION", "Basic x"),
        ("HTTP_X_OWN", "1, 2"),
        ("HTTP_X_FORWARDED_FOR", "192.0.2.7"),
    ] {
        assert_eq!(variable(&received, name), Some(value), "{name}");
    }
    assert!(
        variable(&received, "SERVER_SOFTWARE")
            .unwrap()
            .contains("nginx")
    );
    assert_eq!(variable(&received, "HTTP_CONTENT_TYPE"), None);
}

#[test]
fn forbidden_variables_are_not_sent() {
    let line = RequestLineInfo {
        scheme: Scheme::Http,
        target: b"/",
        ..LINE
    };
    let mut request = whole_request(&line, &[("Host", "example.com:8080")]);
    for name in [
        "proxy",
        "x_own",
        "x.own",
        "content-length",
        "transfer-encoding",
        "host",
        "connection",
    ] {
        request.fields.push((
            http::HeaderName::from_static(name),
            http::HeaderValue::from_static("CANARY"),
        ));
    }
    let received = variables(
        &request,
        &Script {
            path_info: Some(Vec::new()),
            ..script()
        },
    );
    assert!(!received.iter().any(|(_, value)| value.contains("CANARY")));
    for name in [
        "HTTPS",
        "PATH_INFO",
        "CONTENT_LENGTH",
        "CONTENT_TYPE",
        "HTTP_PROXY",
    ] {
        assert_eq!(variable(&received, name), None, "{name}");
    }
    assert_eq!(variable(&received, "QUERY_STRING"), Some(""));
    assert_eq!(variable(&received, "REQUEST_URI"), Some("/"));
    assert_eq!(variable(&received, "SERVER_PORT"), Some("8080"));
    assert_eq!(variable(&received, "SERVER_NAME"), Some("example.com"));
    assert_eq!(variable(&received, "HTTP_HOST"), Some("example.com:8080"));
}

#[test]
fn equivalent_requests_have_the_same_key() {
    let bytes = |line: &RequestLineInfo<'_>, fields: &[(&str, &str)]| {
        let mut out = vec![9; 3];
        write_key(&info(line, fields), &mut out);
        out
    };
    assert_eq!(
        bytes(
            &RequestLineInfo {
                target: b"/p?q",
                ..LINE
            },
            &[("Accept", "application/json"), ("Cookie", "akm_mobile=1")]
        ),
        b"\x01\x01\x00\x0bexample.com\x02/p\x01\x01q\x0cakm_mobile=1"
    );
    let base = bytes(&LINE, &[]);
    for line in [
        RequestLineInfo {
            scheme: Scheme::Http,
            ..LINE
        },
        RequestLineInfo {
            host: "www.example.com",
            ..LINE
        },
        RequestLineInfo {
            target: b"/a%20b",
            ..LINE
        },
        RequestLineInfo {
            target: b"/a%20b/?a&b",
            ..LINE
        },
        RequestLineInfo {
            target: b"/a%20b?a&b=",
            ..LINE
        },
    ] {
        assert_ne!(bytes(&line, &[]), base, "{line:?}");
    }
    assert_ne!(bytes(&LINE, &[("Host", "example.com:8443")]), base);
    assert_eq!(
        bytes(
            &RequestLineInfo {
                target: b"/a%20b?a&fbclid&b",
                method: "HEAD",
                ..LINE
            },
            &[]
        ),
        base
    );
}

#[test]
fn valid_cgi_responses_are_parsed() {
    for (head, status, fields) in [
        (&b"Content-Type: text/html\r\n\r\n"[..], 200, &[("content-type", "text/html")][..]),
        (b"Status: 404 Not Found\r\nX-A:b\r\n", 404, &[("x-a", "b")]),
        (b"status:503\nX-A: b\n\n", 503, &[("x-a", "b")]),
        (b"Location: /x\r\n\r\n", 302, &[("location", "/x")]),
        (b"Location: /x\r\nStatus: 301 Moved\r\n\r\n", 301, &[("location", "/x")]),
        (b"Set-Cookie: a\r\nSet-Cookie: b", 200, &[("set-cookie", "a"), ("set-cookie", "b")]),
        (b"Connection: x-gone, set-cookie\nX-Gone: 1\nKeep-Alive: 1\nTransfer-Encoding: chunked\nSet-Cookie: a\n", 200,
            &[("set-cookie", "a")]),
        (b"Content-Length: 5\nX-Empty:\n", 200, &[("content-length", "5"), ("x-empty", "")]),
        (b"", 200, &[]),
        (b"\r\n", 200, &[]),
        (b"Status: 999\nX-A: b\n", 999, &[("x-a", "b")]),
        (b"no-colon\r\nX-A: b\n", 200, &[("x-a", "b")]),
        (b": x\r\nX-A: b\n", 200, &[("x-a", "b")]),
        (b"X-Gr\xc3\xb6\xc3\x9fe: 5\nX-A: b\n", 200, &[("x-a", "b")]),
        (b"X-B: a\x01b\nX-A: b\n", 200, &[("x-a", "b")]),
    ] {
        let head_of = cgi::response(head).unwrap();
        let map: Vec<_> = head_of.fields.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!((head_of.status.as_u16(), map.as_slice()), (status, fields), "{}", head.escape_ascii());
    }
}

#[test]
fn malformed_cgi_responses_are_rejected() {
    for (head, why) in [
        (&b"no colon\r\n"[..], BadCgiHead::Field),
        (b"HTTP/1.1 200 OK\r\n", BadCgiHead::Field),
        (b"PHP Warning:  x in /srv\r\n", BadCgiHead::Field),
        (b"Content-Length: 5\x01\r\n", BadCgiHead::Field),
        (b"Transfer-Encoding\xa0: chunked\r\n", BadCgiHead::Field),
        (b"a: b\r\n c\r\n", BadCgiHead::Field),
        (b"a: b\r\n c: d\r\n", BadCgiHead::Field),
        (b"a : b\r\n", BadCgiHead::Field),
        (b"a: b\rX: c\r\n", BadCgiHead::Field),
        (b"a: b\0\r\n", BadCgiHead::Field),
        (b"Status: 2000\n", BadCgiHead::Status),
        (b"Status: 100\n", BadCgiHead::Status),
        (b"Status: 1000\n", BadCgiHead::Status),
        (b"Status: 099\n", BadCgiHead::Status),
        (b"Status:\n", BadCgiHead::Status),
        (b"Status: 200\nStatus: 404\n", BadCgiHead::Status),
        (b"a: b\n\nbody", BadCgiHead::Trailing),
    ] {
        assert_eq!(
            cgi::response(head).unwrap_err(),
            why,
            "{}",
            head.escape_ascii()
        );
    }
    let too_many = "a: b\n".repeat(cgi::MAX_FIELDS + 1);
    assert_eq!(
        cgi::response(too_many.as_bytes()).unwrap_err(),
        BadCgiHead::TooMany
    );
}

proptest! {
    #[test]
    fn parsing_a_cgi_head_never_panics(head in proptest::collection::vec(any::<u8>(), 0..120), text in "([aS:]|Status|: |[0-9]|\r|\n){0,20}") {
        let _ = cgi::response(&head);
        let _ = cgi::response(text.as_bytes());
    }
}
