//! Purges in the format of the APIs of other caches: Souin and Fastly.
//!
//! Paths and fields are those of the original APIs. A body is JSON of Souin's batch, which follows an Internet draft
//! (draft-nottingham-http-invalidation).

use serde_json::Value;

use super::dialect_request::DialectRequest;
use super::error::{MAX_PATTERNS, MAX_PURGES, PurgeError};
use super::path::{host_url_scope, means_several_pages, pattern_path, text, wide_scope};
use super::scope::{Scope, prefix_scope, tag_scope, url_scope};
use crate::route::canonical_host;
use crate::uri;

/// The default path of Souin's API.
pub(super) const SOUIN: &[u8] = b"/souin-api/souin";

/// Parses `PURGE /souin-api/souin/GET-https-example.com-/a/`: the key of one page, or a pattern for keys. A pattern that begins
/// like a key is one for the path. Any other is read as the whole site, since Galley has no such keys.
pub(super) fn souin_key(request: &DialectRequest<'_>) -> Result<Scope, PurgeError> {
    let path = request.info.path();
    let rest = path.strip_prefix(SOUIN).unwrap_or_default();
    let key = pattern_path(text(rest)?).replace(".+", ".*");
    let key = key.trim_start_matches(['/', '^']);
    let Some((host, path)) = host_and_path(key) else {
        return Ok(Scope::Site);
    };
    let query = request.info.raw_query();
    if means_several_pages(&path, query) {
        wide_scope(host, &path, query, None)
    } else {
        host_url_scope(&host, path.as_bytes(), query, request.policy)
    }
}

/// `METHOD-scheme-host-/path`.
fn host_and_path(key: &str) -> Option<(String, String)> {
    let (method, rest) = key.split_once('-')?;
    let (scheme, rest) = rest.split_once('-')?;
    let (host, path) = rest.split_once("-/")?;
    let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
    let host = canonical_host(host.as_bytes()).ok()?;
    (is_method && matches!(scheme, "http" | "https")).then(|| (host, format!("/{path}")))
}

/// Parses `{"type": "uri", "selectors": ["https://example.com/a/"]}`, also with `uri-prefix`, `origin` and `group`. The member
/// `purge` makes no difference: without it, a stored response must be validated before use, which a hard purge achieves too.
pub(super) fn souin_batch(request: &DialectRequest<'_>) -> Result<Vec<Scope>, PurgeError> {
    let purge: Value = serde_json::from_slice(request.body).map_err(|_| PurgeError::Body)?;
    let list = |name: &str| match purge.get(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) => list
            .iter()
            .map(|one| one.as_str().ok_or(PurgeError::Body))
            .collect::<Result<Vec<_>, _>>(),
        Some(_) => Err(PurgeError::Body),
    };
    let (selectors, groups) = (list("selectors")?, list("groups")?);
    if selectors.len() + groups.len() > MAX_PURGES {
        return Err(PurgeError::TooMany);
    }
    let each = |scope: &dyn Fn(&str) -> Result<Scope, PurgeError>| {
        selectors.iter().map(|text| scope(text)).collect()
    };
    match purge.get("type").and_then(Value::as_str) {
        Some("uri") => each(&|text| url_scope(text, request.policy)),
        Some("uri-prefix") => {
            let patterns = selectors.iter().filter(|text| !text.ends_with('/'));
            if patterns.count() > MAX_PATTERNS {
                return Err(PurgeError::TooManyPatterns);
            }
            each(&prefix_of)
        }
        Some("origin") => each(&|text| Ok(Scope::Host(host_of(text)?))),
        Some("group") => selectors.iter().chain(&groups).flat_map(of_group).collect(),
        _ => Err(PurgeError::Body),
    }
}

/// A prefix has no host in Galley. The draft's prefix need not end with a segment: then it becomes a pattern.
fn prefix_of(url: &str) -> Result<Scope, PurgeError> {
    if url.ends_with('/') {
        return prefix_scope(url);
    }
    let mut path = Vec::new();
    uri::canonical_path(uri::split(url.trim().as_bytes())?.path, &mut path)?;
    super::path::pattern_scope(&format!("^{}", regex::escape(text(&path)?)))
}

fn host_of(origin: &str) -> Result<String, PurgeError> {
    let host = uri::split(origin.as_bytes())?
        .authority
        .ok_or(PurgeError::Body)?;
    Ok(canonical_host(host)?)
}

/// A group may have been set as a tag, or as a group (RFC 9875).
fn of_group(group: &&str) -> [Result<Scope, PurgeError>; 2] {
    [tag_scope(group), tag_scope(&format!("cache-group:{group}"))]
}

/// The part after the service id: `/service/<id>/purge_all` gives `purge_all`.
pub(super) fn fastly_request<'a>(request: &DialectRequest<'a>) -> Option<&'a [u8]> {
    let rest = request.info.path().strip_prefix(FASTLY)?;
    let slash = memchr::memchr(b'/', rest).filter(|&at| at > 0)?;
    rest.get(slash + 1..)
}

/// The key of `/service/<id>/purge/<key>`.
pub(super) fn fastly_key<'a>(request: &DialectRequest<'a>) -> Option<&'a [u8]> {
    fastly_request(request)?
        .strip_prefix(b"purge/")
        .filter(|key| !key.is_empty())
}

/// The path prefix of requests to a service of Fastly.
pub(super) const FASTLY: &[u8] = b"/service/";
