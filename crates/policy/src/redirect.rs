//! Redirects that the site's file asks for: to TLS, to the one host, and those of rules.
//!
//! Decided from a request alone, before anything stored is looked at: a stored page never carries the redirect of another
//! scheme or host, and no redirect made here is ever stored. A place to go to is a path of the same host, or an address
//! whose host the file names: what a client sends ends up in the path and the query only, escaped, so that neither a line
//! of the head nor another host can be made of it (CWE-601, CWE-113).
//!
//! WordPress redirects too (`redirect_canonical`), to the host and scheme of its own address. The two agree when the file
//! names the same, which the manual says; nothing here knows that address.

use crate::request_info::{Method, RequestInfo, Scheme};
use crate::site::{Rule, SiteRules};

/// The one address of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Home {
    /// The port of TLS, where what comes in the clear is sent there.
    pub https: Option<u16>,
    /// The host that all others of the site are sent to, canonical.
    pub host: Option<String>,
    /// Whether the way to TLS keeps the host, as a host must that is to be remembered as one for TLS alone: a browser
    /// notes what it is told over TLS for the host that said so (RFC 6797 section 8.1).
    pub secure_first: bool,
}

/// A redirect, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirection {
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// For `Location`: no byte in it ends a line.
    pub location: Vec<u8>,
}

/// `redirect = ...` of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// Where it leads.
    pub target: RedirectTarget,
    /// Its status; `None`: 301, or 308 where the method has to stay.
    pub status: Option<u16>,
    /// Whether the query goes along.
    pub keeps_query: bool,
}

/// A place to go to, with what is filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectTarget(Vec<TargetPiece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum TargetPiece {
    Text(String),
    /// Counted from 0.
    Group(usize),
}

impl RedirectTarget {
    /// Reads `/new/$1` or `https://example.org/$1`; `groups`: how many there are to be filled in.
    ///
    /// Errors: why it cannot be gone to, as the end of a sentence.
    pub fn parse(text: &str, groups: usize) -> Result<Self, &'static str> {
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("which holds a space or another character that has to be percent-encoded");
        }
        let path = match text.split_once("://") {
            Some(("http" | "https", rest)) => of_address(rest)?,
            _ => text,
        };
        let is_path = path.starts_with('/') && !path.starts_with("//") && !path.starts_with("/\\");
        if !is_path {
            return Err("which is neither a path nor an address with http:// or https://");
        }
        pieces(text, groups).map(Self)
    }

    /// The place, with groups filled in and escaped.
    fn fill(&self, groups: &[Option<&[u8]>]) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in &self.0 {
            match piece {
                TargetPiece::Text(text) => out.extend_from_slice(text.as_bytes()),
                TargetPiece::Group(at) => {
                    let group = groups.get(*at).copied().flatten();
                    let plain = if out.contains(&b'?') {
                        IN_QUERY
                    } else {
                        IN_PATH
                    };
                    escape(group.unwrap_or_default(), plain, &mut out);
                }
            }
        }
        // `//host/` would be another host.
        while out.starts_with(b"//") {
            out.remove(0);
        }
        out
    }
}

/// What follows the host of an address, which must be there in full.
fn of_address(rest: &str) -> Result<&str, &'static str> {
    let (host, path) = match rest.find(['/', '?', '#']) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let is_named =
        !host.contains(['$', '@', '\\']) && crate::route::canonical_host(host.as_bytes()).is_ok();
    match (is_named, path) {
        (false, _) => Err("whose host is not named in full: a client could choose it"),
        (true, "") => Ok("/"),
        (true, path) => Ok(path),
    }
}

fn pieces(text: &str, groups: usize) -> Result<Vec<TargetPiece>, &'static str> {
    let mut pieces = Vec::new();
    let mut parts = text.split('$');
    pieces.extend(
        parts
            .next()
            .map(|first| TargetPiece::Text(first.to_owned())),
    );
    for part in parts {
        let group = part.bytes().next().filter(u8::is_ascii_digit);
        let Some(number) = group.map(|digit| usize::from(digit - b'0')) else {
            return Err("where a `$` is not followed by the number of a group, `$1` to `$9`");
        };
        if number == 0 || number > groups {
            return Err("which names a group that the path does not have");
        }
        pieces.push(TargetPiece::Group(number - 1));
        let rest = part.get(1..).unwrap_or_default();
        pieces.push(TargetPiece::Text(rest.to_owned()));
    }
    Ok(pieces)
}

/// Whether [`of`] may redirect a request. Does not allocate; may say so of one that then goes on as it is.
pub fn may_apply(facts: &RequestInfo, site: &SiteRules) -> bool {
    let rule = facts.rule().and_then(|index| site.rules.get(index));
    let home = &site.home;
    rule.is_some_and(|rule| rule.redirect.is_some()) || is_away(facts, home, home.https)
}

/// Where a request has to be sent to; `None`: it is answered where it is. `has_tls`: whether the site can speak TLS by now;
/// nobody is sent to where no certificate is held yet.
pub fn of(facts: &RequestInfo, site: &SiteRules, has_tls: bool) -> Option<Redirection> {
    let https = site.home.https.filter(|_| has_tls);
    if is_away(facts, &site.home, https)
        && let Some(found) = home(facts, &site.home, https)
    {
        return Some(found);
    }
    let rule = facts.rule().and_then(|index| site.rules.get(index))?;
    of_rule(facts, rule, rule.redirect.as_ref()?)
}

/// Whether a request came to another address than the site's one. Orders come from this machine, in the clear; the proof that
/// a host is ours is asked for in the clear too, also from servers that answer it out of a folder (RFC 8555 section 8.3).
fn is_away(facts: &RequestInfo, home: &Home, https: Option<u16>) -> bool {
    let is_elsewhere = (https.is_some() && facts.scheme() == Scheme::Http)
        || home.host.as_ref().is_some_and(|host| host != facts.host());
    is_elsewhere
        && !matches!(facts.method(), Method::Purge | Method::Ban)
        && !facts.path().starts_with(CHALLENGES)
}

fn home(facts: &RequestInfo, home: &Home, https: Option<u16>) -> Option<Redirection> {
    let goes_to_tls = https.filter(|_| facts.scheme() == Scheme::Http);
    let host = match &home.host {
        Some(host) if !(goes_to_tls.is_some() && home.secure_first) => host,
        _ => facts.host(),
    };
    // HTTP/1.0 without a host: there is no address to send it to.
    if host.is_empty() {
        return None;
    }
    let (scheme, port) = match goes_to_tls {
        Some(port) => (Scheme::Https, Some(port)),
        None => (facts.scheme(), facts.port()),
    };
    let mut location = format!("{}://{host}", scheme.as_str()).into_bytes();
    if let Some(port) = port.filter(|port| *port != scheme.default_port()) {
        location.extend_from_slice(format!(":{port}").as_bytes());
    }
    location.extend_from_slice(facts.path());
    if let Some(query) = facts.raw_query() {
        location.push(b'?');
        location.extend_from_slice(query);
    }
    let status = lasting(facts.method());
    Some(Redirection { status, location })
}

fn of_rule(facts: &RequestInfo, rule: &Rule, redirect: &Redirect) -> Option<Redirection> {
    let mut location = redirect.target.fill(&rule.groups(facts.decoded_path()));
    let query = facts.raw_query().filter(|query| !query.is_empty());
    if redirect.keeps_query
        && let Some(query) = query
    {
        location.push(if location.contains(&b'?') { b'&' } else { b'?' });
        location.extend_from_slice(query);
    }
    // What leads to itself would go round for ever.
    let here = format!("{}://{}", facts.scheme().as_str(), facts.authority());
    let target = location.strip_prefix(here.as_bytes()).unwrap_or(&location);
    let (path, asked) = match target.iter().position(|byte| *byte == b'?') {
        Some(at) => target.split_at(at),
        None => (target, &b""[..]),
    };
    let is_same =
        path == facts.path() && asked.get(1..).unwrap_or_default() == query.unwrap_or_default();
    let status = redirect.status.unwrap_or_else(|| lasting(facts.method()));
    (!is_same).then_some(Redirection { status, location })
}

/// For good: with 301 browsers turn a `POST` into a `GET`, with 308 they do not (RFC 9110 sections 15.4.2, 15.4.9).
fn lasting(method: Method) -> u16 {
    match method {
        Method::Get | Method::Head => 301,
        Method::Post
        | Method::Put
        | Method::Delete
        | Method::Patch
        | Method::Options
        | Method::Purge
        | Method::Ban
        | Method::Trace
        | Method::Connect
        | Method::Other => 308,
    }
}

/// Writes bytes of a decoded path so that they are nothing but part of what they stand in.
fn escape(bytes: &[u8], plain: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || plain.contains(&byte) {
            out.push(byte);
        } else {
            let digit = |nibble: u8| HEX.get(usize::from(nibble)).copied();
            out.push(b'%');
            out.extend(digit(byte >> 4).into_iter().chain(digit(byte & 15)));
        }
    }
}

/// Beside letters and digits: what a path may hold (RFC 3986 section 3.3).
const IN_PATH: &[u8] = b"-._~!$&'()*+,;=:@/";
/// What a value in a query may hold and remain one.
const IN_QUERY: &[u8] = b"-._~/";

const CHALLENGES: &[u8] = b"/.well-known/acme-challenge/";

#[cfg(test)]
mod tests;
