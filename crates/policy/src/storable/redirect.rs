//! The target of a `Location` or `Content-Location`, and whether it is the requested URL.
//!
//! A redirect to itself is right for one visitor at one moment (a cookie is set, or the upstream misread the scheme), but a
//! redirect loop for everybody when it is stored. URLs are compared as keys are, without the parameters that Galley
//! ignores, but regardless of scheme and port. An invalid target of a redirect counts as the requested URL, because its
//! effect is unknown.

use http::HeaderMap;
use http::header::LOCATION;

use crate::query;
use crate::request_info::RequestInfo;
use crate::route::canonical_host;
use crate::site::Policy;
use crate::uri;

/// The target of a reference, in the form of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceUrl {
    /// The canonical host; `None`: the requested host.
    pub host: Option<String>,
    /// The canonical path.
    pub path: Vec<u8>,
    /// The normalized query.
    pub query: Option<Vec<u8>>,
}

impl ReferenceUrl {
    /// Whether the target is on the requested host.
    pub fn is_on_host_of(&self, info: &RequestInfo) -> bool {
        self.host.as_deref().is_none_or(|host| host == info.host())
    }

    /// Whether the target is the requested URL.
    pub fn is_of(&self, info: &RequestInfo) -> bool {
        self.is_on_host_of(info)
            && self.path == info.path()
            && self.query.as_deref() == info.query()
    }
}

/// Resolves a reference against the requested URL (RFC 3986 §5.2, as far as references occur in practice). `None`: the
/// reference is invalid, or its scheme is neither `http` nor `https`.
pub fn resolve(info: &RequestInfo, reference: &[u8], policy: &Policy) -> Option<ReferenceUrl> {
    match resolve_any(info, reference, policy) {
        ResolvedReference::Url(address) => Some(address),
        ResolvedReference::OtherScheme | ResolvedReference::Invalid => None,
    }
}

/// Whether any `Location` names the requested URL. False without a `Location`.
pub(super) fn redirects_to_itself(info: &RequestInfo, fields: &HeaderMap, policy: &Policy) -> bool {
    fields
        .get_all(LOCATION)
        .iter()
        .any(|value| match resolve_any(info, value.as_bytes(), policy) {
            ResolvedReference::Url(address) => address.is_of(info),
            ResolvedReference::OtherScheme => false,
            ResolvedReference::Invalid => true,
        })
}

enum ResolvedReference {
    Url(ReferenceUrl),
    /// The reference has another scheme.
    OtherScheme,
    Invalid,
}

fn resolve_any(info: &RequestInfo, reference: &[u8], policy: &Policy) -> ResolvedReference {
    let reference = reference
        .split(|&byte| byte == b'#')
        .next()
        .unwrap_or_default()
        .trim_ascii();
    if let Some(scheme) = scheme(reference) {
        let is_http = scheme.eq_ignore_ascii_case(b"http") || scheme.eq_ignore_ascii_case(b"https");
        return if is_http {
            parse_absolute(reference, policy)
        } else {
            ResolvedReference::OtherScheme
        };
    }
    let mut absolute = Vec::with_capacity(
        reference
            .len()
            .saturating_add(info.path().len())
            .saturating_add(8),
    );
    if reference.starts_with(b"//") {
        absolute.extend_from_slice(b"http:");
    } else if reference.is_empty() {
        return ResolvedReference::Url(ReferenceUrl {
            host: None,
            path: info.path().to_vec(),
            query: info.query().map(<[u8]>::to_vec),
        });
    } else if reference.starts_with(b"?") {
        absolute.extend_from_slice(info.path());
    } else if !reference.starts_with(b"/") {
        let directory =
            memchr::memrchr(b'/', info.path()).map_or(0, |slash| slash.saturating_add(1));
        absolute.extend_from_slice(info.path().get(..directory).unwrap_or_default());
    }
    absolute.extend_from_slice(reference);
    parse_absolute(&absolute, policy)
}

fn parse_absolute(absolute: &[u8], policy: &Policy) -> ResolvedReference {
    let Ok(target) = uri::split(absolute) else {
        return ResolvedReference::Invalid;
    };
    let Ok(host) = target.authority.map(canonical_host).transpose() else {
        return ResolvedReference::Invalid;
    };
    let mut path = Vec::with_capacity(target.path.len());
    if uri::canonical_path(target.path, &mut path).is_err() {
        return ResolvedReference::Invalid;
    }
    let mut normal = Vec::new();
    if let Some(raw) = target.query {
        query::normalize(raw, policy, &mut normal);
    }
    ResolvedReference::Url(ReferenceUrl {
        host,
        path,
        query: (!normal.is_empty()).then_some(normal),
    })
}

/// The scheme of an absolute reference: `http` of `http://..`. A colon after a slash or in a query does not count.
fn scheme(reference: &[u8]) -> Option<&[u8]> {
    let end = reference
        .iter()
        .position(|byte| matches!(byte, b':' | b'/' | b'?'))?;
    let (scheme, rest) = reference.split_at(end);
    (rest.starts_with(b":") && !scheme.is_empty()).then_some(scheme)
}
