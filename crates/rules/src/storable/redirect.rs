//! Whether a redirect leads back to the address that was asked for.
//!
//! Such a redirect is right for one visitor in one moment (a cookie to be set, a scheme that the upstream misread) and a
//! trap when stored: everybody would be sent round in circles. Addresses are compared as keys are, with the parameters
//! that Galley ignores left out, but regardless of scheme and port. What cannot be read counts as leading back, because
//! then nobody knows.

use http::HeaderMap;
use http::header::LOCATION;

use crate::facts::Facts;
use crate::query;
use crate::route::canonical_host;
use crate::site::SiteRules;
use crate::uri;

/// Whether any `Location` names the request's own address. None at all leads nowhere.
pub(super) fn leads_back(facts: &Facts, fields: &HeaderMap, site: &SiteRules) -> bool {
    fields
        .get_all(LOCATION)
        .iter()
        .any(|value| is_same_address(facts, value.as_bytes(), site))
}

/// RFC 3986 §5.2, as far as references occur in practice.
fn is_same_address(facts: &Facts, location: &[u8], site: &SiteRules) -> bool {
    let reference = location
        .split(|&byte| byte == b'#')
        .next()
        .unwrap_or_default()
        .trim_ascii();
    if let Some(scheme) = scheme(reference) {
        return (scheme.eq_ignore_ascii_case(b"http") || scheme.eq_ignore_ascii_case(b"https"))
            && is_same_target(facts, reference, site);
    }
    let mut absolute = Vec::with_capacity(
        reference
            .len()
            .saturating_add(facts.path().len())
            .saturating_add(8),
    );
    if reference.starts_with(b"//") {
        absolute.extend_from_slice(b"http:");
    } else if reference.is_empty() {
        return true;
    } else if reference.starts_with(b"?") {
        absolute.extend_from_slice(facts.path());
    } else if !reference.starts_with(b"/") {
        let directory =
            memchr::memrchr(b'/', facts.path()).map_or(0, |slash| slash.saturating_add(1));
        absolute.extend_from_slice(facts.path().get(..directory).unwrap_or_default());
    }
    absolute.extend_from_slice(reference);
    is_same_target(facts, &absolute, site)
}

fn is_same_target(facts: &Facts, absolute: &[u8], site: &SiteRules) -> bool {
    let Ok(target) = uri::split(absolute) else {
        return true;
    };
    if let Some(authority) = target.authority {
        match canonical_host(authority) {
            Ok(host) if host != facts.host() => return false,
            Ok(_) => {}
            Err(_) => return true,
        }
    }
    let mut path = Vec::with_capacity(target.path.len());
    if uri::canonical_path(target.path, &mut path).is_err() {
        return true;
    }
    let mut normal_query = Vec::new();
    if let Some(raw) = target.query {
        query::normalise(raw, site, &mut normal_query);
    }
    path == facts.path() && normal_query == facts.query().unwrap_or_default()
}

/// `http` of `http://..`; a colon behind a slash or in a query is none.
fn scheme(reference: &[u8]) -> Option<&[u8]> {
    let end = reference
        .iter()
        .position(|byte| matches!(byte, b':' | b'/' | b'?'))?;
    let (scheme, rest) = reference.split_at(end);
    (rest.starts_with(b":") && !scheme.is_empty()).then_some(scheme)
}
