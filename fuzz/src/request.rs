//! Requests of clients: host, target, query, cookies, and the request as the cache and the upstream use it.

use std::net::{IpAddr, Ipv4Addr};

use galley_http::head::{HeadBuffer, HeadLimits, ParsedHead, parse};
use galley_policy::access::{AccessRules, AccessSetting};
use galley_policy::forward::{self, BodyLength, Client};
use galley_policy::key::{read_key, write_key};
use galley_policy::purge::Dialect;
use galley_policy::request_info::{Cacheability, RequestInfo, RequestLineInfo, Scheme};
use galley_policy::site::{AuthorizationPolicy, Policy, Rule, TtlTable};
use galley_policy::{cookie, query, route, uri};

/// An accepted host is canonical: lower case, and unchanged when it is parsed again.
pub fn host(data: &[u8]) {
    if let Ok(host) = route::canonical_host(data) {
        assert!(!host.is_empty() && !host.bytes().any(|byte| byte.is_ascii_uppercase()));
        assert!(host.bytes().all(|byte| byte.is_ascii_graphic()));
        assert_eq!(route::canonical_host(host.as_bytes()).as_ref(), Ok(&host));
        assert!(route::is_same_host(data, &host));
        let _ = route::named_port(data, &host);
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = route::HostPattern::parse(text);
    }
}

/// Canonicalizing an accepted path again does not change it. Decoded, it contains no `..` and no control characters.
pub fn target(data: &[u8]) {
    let Ok(target) = uri::split(data) else {
        return;
    };
    let (mut once, mut twice, mut decoded) = (Vec::new(), Vec::new(), Vec::new());
    if uri::canonical_path(target.path, &mut once).is_err() {
        return;
    }
    uri::canonical_path(&once, &mut twice).expect("a canonical path is accepted");
    assert_eq!(once, twice);
    if uri::decoded_path(&once, &mut decoded).is_err() {
        return;
    }
    assert!(decoded.starts_with(b"/"));
    assert!(
        !decoded
            .iter()
            .any(|byte| *byte < b' ' || matches!(byte, 0x7f | b'\\'))
    );
    let mut segments = decoded.split(|byte| *byte == b'/');
    assert!(!segments.any(|segment| matches!(segment, b"." | b"..")));
}

/// Normalizing a query again does not change it.
pub fn query(data: &[u8]) {
    for site in sites() {
        let (mut once, mut twice) = (Vec::new(), Vec::new());
        query::normalize(data, &site, &mut once);
        assert!(once.iter().all(u8::is_ascii_graphic));
        query::normalize(&once, &site, &mut twice);
        assert_eq!(once, twice);
    }
}

/// Cookie names are not empty and have no surrounding whitespace. Login cookies bypass the cache.
pub fn cookie(data: &[u8]) {
    let site = Policy::default();
    for pair in cookie::pairs(data) {
        assert!(!pair.name.is_empty());
        assert_eq!(pair.name, pair.name.trim_ascii());
        let class = cookie::classify(pair.name, &site);
        if galley_policy::wordpress::is_login_cookie(pair.name) {
            assert_eq!(class, cookie::Class::Bypass);
        }
    }
}

/// A complete head: the parts of the key can be read back, requests with a session are not cacheable, and upstream requests contain no
/// forbidden fields.
pub fn whole(data: &[u8]) {
    let mut buffer = HeadBuffer::new();
    let Ok(ParsedHead::Whole { head, .. }) = parse(data, &HeadLimits::default(), &mut buffer)
    else {
        return;
    };
    for site in sites() {
        let mut info = RequestInfo::default();
        let line = RequestLineInfo {
            method: head.method,
            target: head.target,
            scheme: Scheme::Http,
            host: "site.test",
            has_body: false,
            upgrade: false,
            country: None,
        };
        if info.parse(&line, head.fields(), &site).is_err() {
            continue;
        }
        let mut key = Vec::new();
        write_key(&info, &mut key);
        let parts = read_key(&key).expect("a written key can be read");
        assert_eq!(parts.path, info.path());
        assert_eq!(parts.query, info.query());
        assert_eq!(parts.authority, info.authority().as_bytes());
        assert!(parts.rest.is_empty());
        let client = Client {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 1,
            request_id: "id",
        };
        let trimmed = forward::trimmed(&info);
        let whole = forward::whole(&info, head.fields(), &client, BodyLength::None);
        for (name, _) in &whole.fields {
            assert!(
                !["connection", "transfer-encoding", "content-length", "host"]
                    .contains(&name.as_str())
            );
        }
        if site.requests.authorization == AuthorizationPolicy::Bypass
            && info.cacheability() == Cacheability::Cacheable
        {
            assert!(!info.has_session());
            assert!(
                trimmed
                    .fields
                    .iter()
                    .all(|(name, _)| *name != "authorization")
            );
        }
    }
}

/// A purge request results in at least one purge or an error.
pub fn purge_request(data: &[u8]) {
    let mut buffer = HeadBuffer::new();
    let Ok(ParsedHead::Whole { head, length }) = parse(data, &HeadLimits::default(), &mut buffer)
    else {
        return;
    };
    let site = Policy::default();
    let mut info = RequestInfo::default();
    let line = RequestLineInfo {
        method: head.method,
        target: head.target,
        scheme: Scheme::Http,
        host: "site.test",
        has_body: length < data.len(),
        upgrade: false,
        country: None,
    };
    if info.parse(&line, head.fields(), &site).is_err() {
        return;
    }
    if let Some(dialect) = Dialect::of(&info, head.fields(), &site)
        && let Ok(purges) = dialect.purges(&info, head.fields(), &data[length..], &site)
    {
        assert!(!purges.is_empty());
    }
}

/// Whether a form selects a page does not depend on how its body is split.
pub fn form(data: &[u8]) {
    let [_, _, guarded] = sites();
    let (size, body) = data.split_first().unwrap_or((&1, data));
    for kind in [
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=b",
    ] {
        let mut whole = guarded.guard.form(kind.as_bytes());
        whole.push(body);
        let mut pieces = guarded.guard.form(kind.as_bytes());
        for piece in body.chunks(usize::from(*size).max(1)) {
            pieces.push(piece);
        }
        assert_eq!(whole.finish(), pieces.finish(), "{kind}");
    }
}

fn sites() -> [Policy; 3] {
    let bare = Policy {
        ttl: TtlTable::default(),
        ..Policy::rfc9111()
    };
    let denied = Rule {
        path: "/internal/*".to_owned(),
        access: AccessRules {
            deny: AccessSetting::Is(vec!["192.0.2.0/24".parse().expect("a network")]),
            ..AccessRules::default()
        },
        ..Rule::default()
    };
    let with_rule = Policy {
        rules: vec![denied],
        ..Policy::default()
    };
    [Policy::default(), bare, with_rule.guarded()]
}
