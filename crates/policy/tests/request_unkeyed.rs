//! Requests with equal cache keys result in equal upstream requests, whatever other input the clients send.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::net::{IpAddr, Ipv4Addr};

use galley_policy::cgi::{self, CgiConnection, Script};
use galley_policy::forward::{self, Client, UpstreamRequest};
use galley_policy::key::write_key;
use galley_policy::request_info::{RequestInfo, RequestLineInfo, Scheme};
use galley_policy::route;
use galley_policy::site::{
    AuthorizationPolicy, IgnoredParts, NamePattern, Policy, Rule, SiteFlags,
};
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// A request as a client sends it.
#[derive(Clone, Debug)]
struct RequestHead {
    method: &'static str,
    scheme: Scheme,
    host: &'static str,
    absolute: bool,
    path: String,
    query: Vec<String>,
    fields: Vec<(String, Vec<u8>)>,
}

impl RequestHead {
    fn target(&self) -> String {
        let origin = if self.absolute {
            format!("http://{}", self.host)
        } else {
            String::new()
        };
        let query = if self.query.is_empty() {
            String::new()
        } else {
            format!("?{}", self.query.join("&"))
        };
        format!("{origin}{}{query}", self.path)
    }

    /// `None` if the target is rejected.
    fn info(&self, policy: &Policy) -> Option<RequestInfo> {
        let host = route::canonical_host(self.host.as_bytes()).unwrap();
        let target = self.target();
        let line = RequestLineInfo {
            method: self.method,
            target: target.as_bytes(),
            scheme: self.scheme,
            host: &host,
            has_body: false,
            upgrade: false,
            country: None,
        };
        let mut info = RequestInfo::default();
        info.parse(&line, self.lines(), policy).ok()?;
        Some(info)
    }

    fn lines(&self) -> impl Iterator<Item = (&str, &[u8])> + Clone {
        self.fields
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_slice()))
    }
}

fn key(info: &RequestInfo) -> Vec<u8> {
    let mut out = Vec::new();
    write_key(info, &mut out);
    out
}

/// The CGI variables that PHP receives, with fixed values for those outside the key.
fn cgi_variables(request: &UpstreamRequest) -> Vec<(Vec<u8>, Vec<u8>)> {
    let script = Script {
        filename: b"/var/www/index.php".to_vec(),
        name: b"/index.php".to_vec(),
        path_info: None,
        document_root: b"/var/www".to_vec(),
    };
    let client = Client {
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: 1,
        request_id: "r",
    };
    cgi::variables(
        request,
        &script,
        &CgiConnection {
            client,
            server_address: None,
        },
    )
    .into_iter()
    .map(|(name, value)| (name.into_owned(), value.into_owned()))
    .collect()
}

fn paths() -> impl Strategy<Value = String> {
    let pieces = vec![
        "/", "/a", "/A", "/%61", "/%41", "/.", "/..", "/%2e%2e", "//", "%2f", "%7C", "|", ";b",
        "/x.css", "%",
    ];
    proptest::collection::vec(select(pieces), 0..3)
        .prop_map(|pieces| format!("/{}", pieces.concat()))
}

fn parameter() -> impl Strategy<Value = String> {
    let names = vec![
        "",
        "a",
        "a[]",
        "a%5B%5D",
        "a.b",
        "a_b",
        "a%20b",
        "b",
        "%62",
        "utm_source",
        "utm%5fsource",
        "%75tm_x",
        "utm.source",
        "utm_source[x]",
        "+utm_source",
        "fbclid",
        "FBCLID",
        "preview",
        "ref",
        "a%00b",
        "_%67a",
        "%",
        "utm_%00",
        "b;utm_id",
    ];
    let values = vec![
        "", "=", "=1", "=2", "=%31", "=1;b=2", "=a%26b", "==", "=%", "=\u{e9}", "=%c3%a9", "=<x>",
        "=+", "=%20",
    ];
    (select(names), select(values)).prop_map(|(name, value)| format!("{name}{value}"))
}

fn cookie() -> impl Strategy<Value = String> {
    let names = vec![
        "lang",
        "Lang",
        " lang ",
        "lang%67",
        "currency_a",
        "_ga",
        "PHPSESSID",
        "wordpress_test_cookie",
        "wp-settings-1",
        "wordpress_logged_in_1",
        "comment_author_1",
        "akm_mobile",
        "",
        "x",
    ];
    let values = vec![
        "",
        "=",
        "=1",
        "=2",
        "= 1 ",
        "=\"1;lang=3\"",
        "=1,lang=2",
        "=\u{1}",
        "=a=b",
        "=\u{e9}",
    ];
    let pair = (select(names), select(values)).prop_map(|(name, value)| format!("{name}{value}"));
    proptest::collection::vec(pair, 0..4).prop_map(|pairs| pairs.join("; "))
}

/// Fields that were used for cache poisoning.
const NOISE: &[&str] = &[
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Forwarded-For",
    "X-Forwarded-Port",
    "X_Forwarded_Host",
    "x.forwarded.host",
    "X-Forwarded",
    "Forwarded",
    "X-Real-IP",
    "X-Original-URL",
    "X-Rewrite-URL",
    "X-HTTP-Method-Override",
    "X-Host",
    "Proxy",
    "Accept-Language",
    "Accept-Encoding",
    "Accept-Charset",
    "Referer",
    "Origin",
    "X-WP-Nonce",
    "If-None-Match",
    "Range",
    "Cache-Control",
    "Pragma",
    "X-Request-ID",
    "Content-Type",
    "Content-Length",
    "X-Requested-With",
    "DNT",
    "Via",
    "PHP_VALUE",
    "HTTPS",
    "Save-Data",
    "Connection",
    "Purpose",
    "TE",
    "Keep-Alive",
];

fn noise() -> impl Strategy<Value = (String, Vec<u8>)> {
    let values = [
        &b"CANARY"[..],
        b"Cookie, Host",
        b"https://evil.example",
        b"1",
        b"",
        b"\xff",
        b"a\x01",
    ];
    (select(NOISE), select(values.to_vec()))
        .prop_map(|(name, value)| (name.to_owned(), value.to_vec()))
}

fn field() -> impl Strategy<Value = (String, Vec<u8>)> {
    let accepts = vec![
        "*/*",
        "text/html",
        "application/json",
        "application/ld+json;q=0.5, application/json",
        "",
    ];
    let agents = vec!["curl/8", "Mozilla/5.0 (iPhone) Mobile", "Android", ""];
    let hosts = vec![
        "example.com",
        "example.com:8080",
        "EXAMPLE.com:443",
        "other.com:9",
        "example.com:80",
        "",
    ];
    prop_oneof![
        3 => noise(),
        2 => cookie().prop_map(|line| ("Cookie".to_owned(), line.into_bytes())),
        1 => select(accepts).prop_map(|value| ("accept".to_owned(), value.into())),
        1 => select(agents).prop_map(|value| ("User-Agent".to_owned(), value.into())),
        1 => select(&["?0", "?1"][..]).prop_map(|value| ("Sec-CH-UA-Mobile".to_owned(), value.into())),
        1 => select(hosts).prop_map(|value| ("Host".to_owned(), value.into())),
        1 => ("[a-zA-Z_.-]{1,12}", proptest::collection::vec(any::<u8>(), 0..8)),
    ]
}

fn head() -> impl Strategy<Value = RequestHead> {
    (
        select(&["GET", "HEAD", "POST"][..]),
        select(&[Scheme::Http, Scheme::Https][..]),
        select(
            &[
                "example.com",
                "Example.com:8080",
                "example.com.",
                "www.example.com",
            ][..],
        ),
        any::<bool>(),
        paths(),
        proptest::collection::vec(parameter(), 0..4),
        proptest::collection::vec(field(), 0..6),
    )
        .prop_map(
            |(method, scheme, host, absolute, path, query, fields)| RequestHead {
                method,
                scheme,
                host,
                absolute,
                path,
                query,
                fields,
            },
        )
}

fn site() -> impl Strategy<Value = Policy> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(device_variants, wordpress, ignore_cookie)| Policy {
            flags: SiteFlags {
                device_variants,
                litespeed: wordpress && ignore_cookie,
                ..SiteFlags::default()
            },
            vary_cookies: vec![NamePattern::parse("lang"), NamePattern::parse("currency_*")],
            harmless_cookies: vec![NamePattern::parse("_*")],
            ignore_query: vec![NamePattern::parse("ref")],
            rules: vec![Rule {
                path: "/a*".to_owned(),
                ignore: IgnoredParts {
                    cookie: ignore_cookie,
                    ..IgnoredParts::default()
                },
                ..Rule::default()
            }],
            ..if wordpress {
                Policy::wordpress()
            } else {
                Policy::rfc9111()
            }
        },
    )
}

/// An equivalent request of another client: additional fields, tracking parameters, ignored cookies.
fn equivalent(
    head: &RequestHead,
    tracking: &str,
    ignored: &str,
    noise: Vec<(String, Vec<u8>)>,
    at: Index,
) -> RequestHead {
    let mut other = head.clone();
    other.method = if head.method == "GET" {
        "HEAD"
    } else {
        head.method
    };
    other
        .query
        .insert(at.index(head.query.len() + 1), tracking.to_owned());
    let position = at.index(head.fields.len() + 1);
    other.fields.splice(position..position, noise);
    other
        .fields
        .insert(position, ("cookie".to_owned(), ignored.as_bytes().to_vec()));
    other
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// The alphabets are small, so that equal keys are generated by chance.
    #[test]
    fn equal_keys_give_equal_requests(site in site(), a in head(), mut b in head(), similar in any::<bool>()) {
        if similar {
            b = RequestHead { path: a.path.clone(), query: a.query.iter().rev().cloned().collect(), ..b };
            (b.host, b.absolute, b.scheme) = (a.host, a.absolute, a.scheme);
        }
        if let (Some(a), Some(b)) = (a.info(&site), b.info(&site)) {
            let (mut one, mut two) = (forward::trimmed(&a), forward::trimmed(&b));
            forward::capabilities(&mut one, &site);
            forward::capabilities(&mut two, &site);
            if key(&a) == key(&b) {
                prop_assert_eq!(&one, &two);
                prop_assert_eq!(cgi_variables(&one), cgi_variables(&two));
                prop_assert_eq!((a.url_id(), a.host_id()), (b.url_id(), b.host_id()));
            } else if one == two {
                // Different keys for equal requests would only waste memory, but every part of the key should have an effect.
                prop_assert!(a.accept() != b.accept() || a.device() != b.device());
            }
        }
    }

    /// Clients must not be able to create more variants of a page.
    #[test]
    fn noise_changes_neither_key_nor_request(
        head in head(),
        tracking in select(&["utm_source=CANARY", "utm%5fx=CANARY", "fbclid=CANARY", "gclid", "%5fga=CANARY", "ref=CANARY"][..]),
        ignored in select(&["_ga=CANARY", "PHPSESSID=CANARY", "x=CANARY", "wordpress_test_cookie=CANARY"][..]),
        noise in proptest::collection::vec(noise(), 0..6),
        at in any::<Index>(),
    ) {
        let site = Policy { ignore_query: vec![NamePattern::parse("ref")], ..Policy::default() };
        let other_head = equivalent(&head, tracking, ignored, noise, at);
        if let Some(plain) = head.info(&site) {
            let equivalent = other_head.info(&site).unwrap();
            prop_assert_eq!(key(&plain), key(&equivalent));
            prop_assert_eq!(forward::trimmed(&plain), forward::trimmed(&equivalent));
            let sent = format!("{:?}", cgi_variables(&forward::trimmed(&equivalent)).iter()
                .map(|(name, value)| format!("{}={}", name.escape_ascii(), value.escape_ascii())).collect::<Vec<_>>());
            prop_assert!(!sent.contains("CANARY"), "{}", sent);
        }
    }

    /// A trimmed request contains no tracking parameters, ignored cookies or unknown fields.
    #[test]
    fn a_trimmed_request_contains_only_permitted_fields(site in site(), head in head()) {
        let Some(info) = head.info(&site) else { return Ok(()) };
        let request = forward::trimmed(&info);
        prop_assert_eq!(&request.method, "GET");
        for (name, value) in &request.fields {
            prop_assert!(PERMITTED_FIELDS.contains(&name.as_str()), "{}", name);
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            prop_assert!(!value.contains("CANARY") && !value.contains("evil"), "{}: {}", name, value);
            if name == "cookie" {
                for pair in value.split("; ") {
                    let name = pair.split('=').next().unwrap();
                    prop_assert!(name == "lang" || name.starts_with("currency_") || name == "akm_mobile", "{}", pair);
                }
            }
        }
        if site.requests.authorization == AuthorizationPolicy::Bypass {
            for pair in request.query.as_deref().unwrap_or_default().split(|&b| b == b'&') {
                let name = pair.split(|&b| b == b'=').next().unwrap_or_default();
                prop_assert!(!name.starts_with(b"utm_") && name != b"fbclid" && name != b"_ga" && name != b"ref");
            }
        }
    }

    /// A whole request has no spoofed client or host fields, and no two fields map to the same variable.
    #[test]
    fn whole_requests_contain_no_spoofed_fields(site in site(), head in head()) {
        let Some(info) = head.info(&site) else { return Ok(()) };
        let client = Client { address: IpAddr::V4(Ipv4Addr::LOCALHOST), port: 1, request_id: "r" };
        let request = forward::whole(&info, head.lines(), &client, forward::BodyLength::None);
        let variables = cgi_variables(&request);
        for (at, (name, value)) in variables.iter().enumerate() {
            prop_assert!(!variables[at + 1..].iter().any(|(other, _)| other == name), "{}", name.escape_ascii());
            let value = value.as_slice();
            match name.as_slice() {
                b"HTTP_PROXY" | b"PHP_VALUE" => prop_assert!(false),
                b"HTTP_X_FORWARDED_FOR" | b"HTTP_X_REAL_IP" => prop_assert_eq!(value, b"127.0.0.1"),
                b"HTTP_X_FORWARDED_HOST" | b"HTTP_HOST" => prop_assert_eq!(value, info.authority().as_bytes()),
                b"HTTP_X_FORWARDED_PROTO" => prop_assert_eq!(value, info.scheme().as_str().as_bytes()),
                b"HTTP_X_REQUEST_ID" => prop_assert_eq!(value, b"r"),
                _ => {}
            }
        }
    }

    /// Arbitrary input never causes a panic.
    #[test]
    fn parsing_arbitrary_request_heads_never_panics(
        method in "\\PC{0,8}",
        target in proptest::collection::vec(any::<u8>(), 0..60),
        host in "\\PC{0,12}",
        fields in proptest::collection::vec((any::<Index>(), proptest::collection::vec(any::<u8>(), 0..40)), 0..8),
        site in site(),
    ) {
        let names = ["Cookie", "Accept", "Origin", "Host", "If-None-Match", "Connection", "Cache-Control", "\u{e9}", "", "a b"];
        let fields: Vec<_> = fields.iter().map(|(name, value)| (names[name.index(names.len())], value.as_slice())).collect();
        let mut path = b"/".to_vec();
        path.extend_from_slice(&target);
        for target in [&target, &path] {
            let line = RequestLineInfo { method: &method, target, scheme: Scheme::Http, host: &host, has_body: false, upgrade: false, country: None };
            let mut info = RequestInfo::default();
            let _ = info.parse(&line, fields.iter().copied(), &site);
            let client = Client { address: IpAddr::V4(Ipv4Addr::LOCALHOST), port: 1, request_id: "\n" };
            cgi_variables(&forward::trimmed(&info));
            cgi_variables(&forward::whole(&info, fields.iter().copied(), &client, forward::BodyLength::Known(1)));
            key(&info);
        }
    }
}

const PERMITTED_FIELDS: &[&str] = &[
    "galley-request",
    "accept",
    "accept-encoding",
    "cookie",
    "user-agent",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
];
