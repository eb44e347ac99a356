//! What a client says of itself: host, target, query, cookies, and the request as the cache and the upstream see it.

use std::net::{IpAddr, Ipv4Addr};

use galley_http::head::{HeadBuffer, HeadLimits, ParsedHead, parse};
use galley_policy::access::{AccessRules, AccessSetting};
use galley_policy::forward::{self, BodyLength, Client};
use galley_policy::key::{read_key, write_key};
use galley_policy::purge::Dialect;
use galley_policy::request_info::{Cacheability, RequestInfo, RequestLineInfo, Scheme};
use galley_policy::site::{AuthorizationPolicy, Policy, Rule, TtlTable};
use galley_policy::{cookie, query, route, uri};

/// A host that is taken is canonical: lower case, and the same when it is read again.
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

/// A path that is taken is its own canonical form, and nothing in it climbs or ends a string once it is decoded.
pub fn target(data: &[u8]) {
    let Ok(target) = uri::split(data) else {
        return;
    };
    let (mut once, mut twice, mut decoded) = (Vec::new(), Vec::new(), Vec::new());
    if uri::canonical_path(target.path, &mut once).is_err() {
        return;
    }
    uri::canonical_path(&once, &mut twice).expect("what is canonical is taken");
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

/// A query's normal form is its own normal form.
pub fn query(data: &[u8]) {
    for site in sites() {
        let (mut once, mut twice) = (Vec::new(), Vec::new());
        query::normalise(data, &site, &mut once);
        assert!(once.iter().all(u8::is_ascii_graphic));
        query::normalise(&once, &site, &mut twice);
        assert_eq!(once, twice);
    }
}

/// Cookies have names, and a name without its blanks is one of the same class.
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

/// A whole head: the key is read back as what it was made of, a session keeps the gate closed, and what goes up for a page
/// that may be shared is a closed list.
pub fn whole(data: &[u8]) {
    let mut room = HeadBuffer::new();
    let Ok(ParsedHead::Whole { head, .. }) = parse(data, &HeadLimits::default(), &mut room) else {
        return;
    };
    for site in sites() {
        let mut facts = RequestInfo::default();
        let line = RequestLineInfo {
            method: head.method,
            target: head.target,
            scheme: Scheme::Http,
            host: "site.test",
            has_body: false,
            upgrade: false,
            country: None,
        };
        if facts.parse(&line, head.fields(), &site).is_err() {
            continue;
        }
        let mut key = Vec::new();
        write_key(&facts, &mut key);
        let parts = read_key(&key).expect("a key is read back");
        assert_eq!(parts.path, facts.path());
        assert_eq!(parts.query, facts.query());
        assert_eq!(parts.authority, facts.authority().as_bytes());
        assert!(parts.rest.is_empty());
        let client = Client {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 1,
            request_id: "id",
        };
        let trimmed = forward::trimmed(&facts);
        let whole = forward::whole(&facts, head.fields(), &client, BodyLength::None);
        for (name, _) in &whole.fields {
            assert!(
                !["connection", "transfer-encoding", "content-length", "host"]
                    .contains(&name.as_str())
            );
        }
        if site.requests.authorization == AuthorizationPolicy::Bypass
            && facts.cacheability() == Cacheability::Cacheable
        {
            assert!(!facts.has_session());
            assert!(
                trimmed
                    .fields
                    .iter()
                    .all(|(name, _)| *name != "authorization")
            );
        }
    }
}

/// An order to purge: whatever is asked, it is orders or a refusal.
pub fn purge_order(data: &[u8]) {
    let mut room = HeadBuffer::new();
    let Ok(ParsedHead::Whole { head, length }) = parse(data, &HeadLimits::default(), &mut room)
    else {
        return;
    };
    let site = Policy::default();
    let mut facts = RequestInfo::default();
    let line = RequestLineInfo {
        method: head.method,
        target: head.target,
        scheme: Scheme::Http,
        host: "site.test",
        has_body: length < data.len(),
        upgrade: false,
        country: None,
    };
    if facts.parse(&line, head.fields(), &site).is_err() {
        return;
    }
    if let Some(dialect) = Dialect::of(&facts, head.fields(), &site)
        && let Ok(orders) = dialect.purges(&facts, head.fields(), &data[length..], &site)
    {
        assert!(!orders.is_empty());
    }
}

/// The body of a form: whether it selects a page does not depend on how it was cut.
pub fn form(data: &[u8]) {
    let [_, _, closing] = sites();
    let (cut, body) = data.split_first().unwrap_or((&1, data));
    for kind in [
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=b",
    ] {
        let mut whole = closing.guard.form(kind.as_bytes());
        whole.push(body);
        let mut pieces = closing.guard.form(kind.as_bytes());
        for piece in body.chunks(usize::from(*cut).max(1)) {
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
    let closed = Rule {
        path: "/internal/*".to_owned(),
        access: AccessRules {
            deny: AccessSetting::Is(vec!["192.0.2.0/24".parse().expect("a network")]),
            ..AccessRules::default()
        },
        ..Rule::default()
    };
    let closing = Policy {
        rules: vec![closed],
        ..Policy::default()
    };
    [Policy::default(), bare, closing.guarded()]
}
