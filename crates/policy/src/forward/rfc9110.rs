//! Upstream requests of sites without a preset, as RFC 9110 requires of a gateway.
//!
//! The origin states with `Vary` what a response depends on, so a fetch carries the client's fields. Exceptions are the
//! conditions and the range, which Galley evaluates with the fetched response, and cookies, which are in the key or make
//! the request pass. Claims about addresses and hosts are never forwarded.
//!
//! Departs from the promise that unkeyed input does not reach the upstream: without a preset it is not known which fields may
//! be omitted.

use http::header::{ACCEPT_ENCODING, AUTHORIZATION, COOKIE, ETAG, LAST_MODIFIED, VIA};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::request::{
    SURROGATE_CAPABILITY, UpstreamRequest, may_forward, push, push_forwarded, trimmed,
};
use crate::fields::{self, connection_tokens, is_hop_by_hop};
use crate::request_info::RequestInfo;
use crate::site::Policy;

/// The credentials of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// The client's, if it sent any: the fetch is for this client's request.
    OfClient,
    /// None: the fetch is in the background, for all clients.
    None,
}

/// Builds the request for a fetch whose response may be stored; always `GET`.
pub fn fetch<'a>(
    info: &RequestInfo,
    fields: impl Iterator<Item = (&'a str, &'a [u8])> + Clone,
    credentials: Credentials,
) -> UpstreamRequest {
    let mut request = trimmed(info);
    request.fields.clear();
    let lines = fields.clone();
    let connection = lines
        .filter(|(name, _)| name.eq_ignore_ascii_case("connection"))
        .map(|(_, value)| value);
    let tokens = connection_tokens(connection);
    for (name, value) in fields {
        let is_withheld = NOT_FORWARDED
            .iter()
            .any(|held| name.eq_ignore_ascii_case(held));
        if is_withheld || !may_forward(name, info.method()) || is_hop_by_hop(name, tokens.clone()) {
            continue;
        }
        let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else {
            continue;
        };
        if name != AUTHORIZATION || credentials == Credentials::OfClient {
            push(&mut request, name, value);
        }
    }
    push(&mut request, ACCEPT_ENCODING, b"identity");
    if !info.vary_cookies().is_empty() {
        push(&mut request, COOKIE, info.vary_cookies());
    }
    push_forwarded(&mut request, info);
    request
}

/// Adds the conditions for a 304 response: the stored validators, never those of a client. Returns whether there were any.
pub fn revalidate(request: &mut UpstreamRequest, stored: &HeaderMap) -> bool {
    let mut is_conditional = false;
    for (validator, condition) in [
        (ETAG, http::header::IF_NONE_MATCH),
        (LAST_MODIFIED, http::header::IF_MODIFIED_SINCE),
    ] {
        if let Some(value) = stored.get(validator) {
            request.fields.push((condition, value.clone()));
            is_conditional = true;
        }
    }
    is_conditional
}

/// Adds the fields that identify Galley: `Via` (RFC 9110 §7.6.3), `CDN-Loop` (RFC 8586) with the `identity` of this process,
/// and `Surrogate-Capability` (Edge Architecture 1.0), which announces ESI if `site` enables it.
pub fn announce(request: &mut UpstreamRequest, identity: &str, policy: &Policy) {
    request.fields.push((VIA, BY_GALLEY));
    push(request, CDN_LOOP, identity.as_bytes());
    let capability: &[u8] = match policy.esi {
        Some(_) => b"galley=\"Surrogate/1.0 ESI/1.0\"",
        None => b"galley=\"Surrogate/1.0\"",
    };
    push(request, SURROGATE_CAPABILITY, capability);
}

/// Whether this process has forwarded the request before.
pub fn is_loop<'a>(fields: impl Iterator<Item = (&'a str, &'a [u8])>, identity: &str) -> bool {
    fields
        .filter(|(name, _)| name.eq_ignore_ascii_case(CDN_LOOP.as_str()))
        .flat_map(|(_, value)| fields::members(value))
        .filter_map(|member| fields::parts(member).next())
        .any(|id| id == identity.as_bytes())
}

/// The `Via` of requests and responses.
pub const BY_GALLEY: HeaderValue = HeaderValue::from_static("1.1 galley");

const CDN_LOOP: HeaderName = HeaderName::from_static("cdn-loop");

/// Fields that Galley evaluates with the whole response, or sets itself.
const NOT_FORWARDED: &[&str] = &[
    "accept-encoding",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "range",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_info::RequestLineInfo;
    use crate::site::Policy;
    use crate::testing::{LINE, parsed};

    fn info(rows: &[(&str, &str)]) -> RequestInfo {
        let site = Policy::rfc9111();
        let line = RequestLineInfo {
            target: b"/a?b=1",
            ..LINE
        };
        parsed(&line, rows, &site)
    }

    #[test]
    fn a_fetch_carries_the_fields_of_the_client_without_conditions() {
        let rows = [
            ("Foo", "1"),
            ("foo", "2"),
            ("Accept-Language", "de"),
            ("User-Agent", "x"),
            ("Authorization", "Basic x"),
            ("If-None-Match", "\"a\""),
            ("If-Range", "\"a\""),
            ("Range", "bytes=0-1"),
            ("Accept-Encoding", "br"),
            ("X-Forwarded-For", "1.2.3.4"),
            ("Connection", "close, x-once"),
            ("X-Once", "1"),
        ];
        let lines = || rows.iter().map(|(name, value)| (*name, value.as_bytes()));
        let sent = |credentials| {
            let request = fetch(&info(&rows), lines(), credentials);
            assert_eq!(
                (request.method.as_str(), &request.path[..]),
                ("GET", &b"/a"[..])
            );
            let pairs = request.fields.iter();
            pairs
                .map(|(name, value)| format!("{name}={}", value.to_str().unwrap()))
                .filter(|pair| !pair.starts_with("x-forwarded-"))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            sent(Credentials::OfClient),
            [
                "foo=1",
                "foo=2",
                "accept-language=de",
                "user-agent=x",
                "authorization=Basic x",
                "accept-encoding=identity"
            ]
        );
        assert!(!sent(Credentials::None).contains(&"authorization=Basic x".to_owned()));
    }

    #[test]
    fn conditions_use_stored_validators() {
        let mut request = fetch(&info(&[]), std::iter::empty(), Credentials::None);
        let before = request.fields.len();
        let mut stored = HeaderMap::new();
        assert!(!revalidate(&mut request, &stored));
        stored.insert(ETAG, HeaderValue::from_static("W/\"a\""));
        assert!(revalidate(&mut request, &stored));
        let (name, value) = &request.fields[before];
        assert_eq!(
            (name.as_str(), value.as_bytes()),
            ("if-none-match", &b"W/\"a\""[..])
        );
    }

    #[test]
    fn only_requests_through_this_process_are_loops() {
        let is_loop =
            |value: &str| is_loop(std::iter::once(("CDN-Loop", value.as_bytes())), "galley-1");
        assert!(is_loop("galley-1"));
        assert!(is_loop("other; v=1, galley-1;x=y"));
        assert!(!is_loop("galley-2, galley"));
        assert!(!is_loop("x=\"galley-1\""));
    }
}
