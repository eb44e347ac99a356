//! The redirect of one request.

use super::target::{CanonicalAddress, Redirect};
use crate::request_info::{Method, RequestInfo, Scheme};
use crate::site::{Policy, Rule};

/// A redirect, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirection {
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// The value of `Location`; it contains no byte that ends a line.
    pub location: Vec<u8>,
}

/// Whether [`of`] may redirect a request. Does not allocate; may be true for a request that is then not redirected.
pub fn may_apply(info: &RequestInfo, policy: &Policy) -> bool {
    let rule = info.rule().and_then(|index| policy.rules.get(index));
    let home = &policy.home;
    rule.is_some_and(|rule| rule.redirect.is_some()) || is_other_address(info, home, home.https)
}

/// The redirect of a request; `None`: there is none. `has_tls`: whether the host can be reached over TLS; requests
/// are never redirected to a host without a certificate.
pub fn of(info: &RequestInfo, policy: &Policy, has_tls: bool) -> Option<Redirection> {
    let https = policy.home.https.filter(|_| has_tls);
    if is_other_address(info, &policy.home, https)
        && let Some(found) = home(info, &policy.home, https)
    {
        return Some(found);
    }
    let rule = info.rule().and_then(|index| policy.rules.get(index))?;
    of_rule(info, rule, rule.redirect.as_ref()?)
}

/// Whether a request used another address than the site's canonical one. Purges are exempt because they are sent from this
/// machine, without TLS. Challenges for a host are requested without TLS too, also from servers that serve them from a folder
/// (RFC 8555 section 8.3).
fn is_other_address(info: &RequestInfo, home: &CanonicalAddress, https: Option<u16>) -> bool {
    let is_other = (https.is_some() && info.scheme() == Scheme::Http)
        || home.host.as_ref().is_some_and(|host| host != info.host());
    is_other
        && !matches!(info.method(), Method::Purge | Method::Ban)
        && !info.path().starts_with(ACME_CHALLENGES)
}

fn home(info: &RequestInfo, home: &CanonicalAddress, https: Option<u16>) -> Option<Redirection> {
    let tls_port = https.filter(|_| info.scheme() == Scheme::Http);
    let host = match &home.host {
        Some(host) if !(tls_port.is_some() && home.secure_first) => host,
        _ => info.host(),
    };
    // An HTTP/1.0 request without a host has no address to redirect to.
    if host.is_empty() {
        return None;
    }
    let (scheme, port) = match tls_port {
        Some(port) => (Scheme::Https, Some(port)),
        None => (info.scheme(), info.port()),
    };
    let mut location = format!("{}://{host}", scheme.as_str()).into_bytes();
    if let Some(port) = port.filter(|port| *port != scheme.default_port()) {
        location.extend_from_slice(format!(":{port}").as_bytes());
    }
    location.extend_from_slice(info.path());
    if let Some(query) = info.raw_query() {
        location.push(b'?');
        location.extend_from_slice(query);
    }
    let status = permanent_status(info.method());
    Some(Redirection { status, location })
}

fn of_rule(info: &RequestInfo, rule: &Rule, redirect: &Redirect) -> Option<Redirection> {
    let mut location = redirect.target.fill(&rule.groups(info.decoded_path()));
    let query = info.raw_query().filter(|query| !query.is_empty());
    if redirect.keeps_query
        && let Some(query) = query
    {
        location.push(if location.contains(&b'?') { b'&' } else { b'?' });
        location.extend_from_slice(query);
    }
    // A redirect to the requested URL would loop.
    let here = format!("{}://{}", info.scheme().as_str(), info.authority());
    let target = location.strip_prefix(here.as_bytes()).unwrap_or(&location);
    let (path, target_query) = match target.iter().position(|byte| *byte == b'?') {
        Some(at) => target.split_at(at),
        None => (target, &b""[..]),
    };
    let is_same = path == info.path()
        && target_query.get(1..).unwrap_or_default() == query.unwrap_or_default();
    let status = redirect
        .status
        .unwrap_or_else(|| permanent_status(info.method()));
    (!is_same).then_some(Redirection { status, location })
}

/// The status of a permanent redirect. With 301 browsers turn a `POST` into a `GET`, with 308 they do not (RFC 9110 sections
/// 15.4.2, 15.4.9).
fn permanent_status(method: Method) -> u16 {
    match method {
        Method::Get | Method::Head => 301,
        Method::Post
        | Method::Put
        | Method::Delete
        | Method::Patch
        | Method::Options
        | Method::Query
        | Method::Purge
        | Method::Ban
        | Method::Trace
        | Method::Connect
        | Method::Other => 308,
    }
}

const ACME_CHALLENGES: &[u8] = b"/.well-known/acme-challenge/";
