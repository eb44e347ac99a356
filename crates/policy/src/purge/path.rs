//! Parsing of paths in the requests of plugins: one page, all pages below a path, or a pattern.
//!
//! A path is canonical on arrival, so that it names a stored response; if it is a pattern, its punctuation is restored. An
//! ambiguous path is read as the wider one.

use super::dialect_request::DialectRequest;
use super::error::PurgeError;
use super::pattern::PurgePattern;
use super::purge_fields::PathReading;
use super::scope::{Scope, url_scope};
use crate::request_info::RequestInfo;
use crate::site::Policy;

/// Parses the path of a `PURGE` or `BAN`, as its dialect specifies.
pub(super) fn path_scope(
    request: &DialectRequest<'_>,
    reading: PathReading,
) -> Result<Scope, PurgeError> {
    let host = request.host()?;
    let (path, query) = (request.info.path(), request.info.raw_query());
    let as_pattern = pattern_path(text(path)?);
    match reading {
        PathReading::AnyQuery => {
            pattern_scope(&format!("^{}(?:\\?|$)", regex::escape(text(path)?)))
        }
        PathReading::Regex => wide_scope(host, &as_pattern, query, request.fields.ending),
        PathReading::Prefix => wide_scope(host, &as_pattern, query, None),
        PathReading::Unspecified if means_several_pages(&as_pattern, query) => {
            wide_scope(host, &as_pattern, query, None)
        }
        PathReading::Exact | PathReading::Unspecified => {
            host_url_scope(&host, path, query, request.policy)
        }
    }
}

/// Whether a path is one of nginx-helper's requests: `/purge`, `/purgeall`, `/purge/...`.
pub fn is_below_purge(path: &[u8]) -> bool {
    let rest = path.strip_prefix(PURGE_PATH);
    rest.is_some_and(|rest| matches!(rest, b"" | b"all") || rest.first() == Some(&b'/'))
}

/// nginx-helper: `GET /purge/a/b?q` is `/a/b?q`, `/purge` is `/`, `/purgeall` is all of the host.
pub(super) fn below_purge(info: &RequestInfo, policy: &Policy) -> Result<Scope, PurgeError> {
    match info.path().strip_prefix(PURGE_PATH) {
        Some(b"all") => Ok(Scope::Host(info.host().to_owned())),
        Some(b"") => host_url_scope(info.host(), b"/", info.raw_query(), policy),
        Some(rest) if rest.starts_with(b"/") => {
            host_url_scope(info.host(), rest, info.raw_query(), policy)
        }
        _ => Err(PurgeError::NoPurge),
    }
}

/// One URL of a host.
pub(super) fn host_url_scope(
    host: &str,
    path: &[u8],
    raw_query: Option<&[u8]>,
    policy: &Policy,
) -> Result<Scope, PurgeError> {
    let mut url = text(path)?.to_owned();
    if let Some(raw) = raw_query {
        url.push('?');
        url.push_str(text(raw)?);
    }
    match url_scope(&url, policy)? {
        Scope::Url { path, query, .. } => Ok(Scope::Url {
            host: Some(host.to_owned()),
            path,
            query,
        }),
        other => Ok(other),
    }
}

/// A canonical path as its sender wrote it: the punctuation of patterns that URLs must escape is restored. Some plugins write
/// `^` before the path, which is after the first slash in the canonical form.
pub(super) fn pattern_path(path: &str) -> String {
    let mut plain = path.to_owned();
    for (escape, punctuation) in ESCAPED_PUNCTUATION {
        plain = plain.replace(escape, punctuation);
    }
    plain
        .strip_prefix("/^")
        .filter(|rest| rest.starts_with('/'))
        .map(str::to_owned)
        .unwrap_or(plain)
}

/// The prefix of nginx-helper's paths.
const PURGE_PATH: &[u8] = b"/purge";

const ESCAPED_PUNCTUATION: &[(&str, &str)] = &[
    ("%7C", "|"),
    ("%5E", "^"),
    ("%5B", "["),
    ("%5D", "]"),
    ("%7B", "{"),
    ("%7D", "}"),
    ("%5C", "\\"),
];

/// Whether a path without an explicit reading means more than one page.
pub(super) fn means_several_pages(path: &str, query: Option<&[u8]>) -> bool {
    let is_wide = |part: &[u8]| part.ends_with(b"*") || memchr::memmem::find(part, b".*").is_some();
    is_wide(path.as_bytes())
        || query.is_some_and(is_wide)
        || query.unwrap_or(path.as_bytes()).ends_with(b"$")
}

/// The scope of a prefix or pattern. The usual ones become cheaper scopes: `/.*` the host, `/shop/.*` a prefix. Prefixes and
/// patterns apply to all hosts of the site.
pub(super) fn wide_scope(
    host: String,
    path: &str,
    query: Option<&[u8]>,
    ending: Option<&[u8]>,
) -> Result<Scope, PurgeError> {
    let mut expression = path.to_owned();
    // Syntax that `regex` does not support, such as a look ahead, means the whole host; its `?` may have begun a query.
    let is_unsupported = |text: &str| {
        ["(?!", "(?=", "(?<"]
            .iter()
            .any(|start| text.contains(start))
    };
    if is_unsupported(path) || (path.ends_with('(') && query.is_some()) {
        return Ok(Scope::Host(host));
    }
    match query {
        // `/a?.*` may be meant as an optional letter or as any query. The path with any suffix covers both. A slash before the
        // `?` is an optional one.
        Some(b".*" | b"*") => {
            let open = expression.trim_end_matches('/').len();
            expression.truncate(open);
            expression.push_str(".*");
        }
        Some(query) => {
            expression.push_str("\\?");
            expression.push_str(text(query)?);
        }
        None => {}
    }
    if let Some(ending) = ending {
        expression.push_str(text(ending)?);
    }
    let open = expression.strip_suffix('$').unwrap_or(&expression);
    // A star without a dot is a wildcard as users write it; in a regular expression it would repeat the character before it.
    let start = open.strip_suffix(".*").or_else(|| open.strip_suffix('*'));
    let beginning = start.unwrap_or(open);
    let is_plain = beginning
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"/-_~%".contains(&byte));
    if is_plain && beginning.bytes().all(|byte| byte == b'/') {
        Ok(Scope::Host(host))
    } else if is_plain && beginning.ends_with('/') {
        Ok(Scope::Prefix(beginning.as_bytes().to_owned()))
    } else if is_plain || start.is_some() {
        pattern_scope(&format!("^{beginning}"))
    } else {
        pattern_scope(&format!("^{expression}"))
    }
}

pub(super) fn pattern_scope(text: &str) -> Result<Scope, PurgeError> {
    PurgePattern::parse(text).map(Scope::Pattern)
}

pub(super) fn text(bytes: &[u8]) -> Result<&str, PurgeError> {
    std::str::from_utf8(bytes).map_err(|_| PurgeError::NotText)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wide_paths_become_the_cheapest_scope() {
        let host = || Scope::Host("example.com".to_owned());
        let pattern = |text: &str| Scope::Pattern(PurgePattern::parse(text).unwrap());
        let prefix = |path: &str| Scope::Prefix(path.into());
        let table: &[(&str, Option<&str>, Option<&str>, Scope)] = &[
            ("/.*", None, None, host()),
            ("/*", None, None, host()),
            ("/", None, None, host()),
            ("/", None, Some(".*"), host()),
            ("/blog/.*", None, None, prefix("/blog/")),
            ("/blog/*", None, None, prefix("/blog/")),
            ("/blog/.*$", None, None, prefix("/blog/")),
            ("/blog/", None, None, prefix("/blog/")),
            ("/blog/", None, Some(".*"), prefix("/blog/")),
            ("/blog", None, None, pattern("^/blog")),
            ("/blog.*", None, None, pattern("^/blog")),
            ("/sitemap.*.xml", None, None, pattern("^/sitemap.*.xml")),
            ("/(de|fr)/.*", None, None, pattern("^/(de|fr)/")),
            ("/feed.xml*", None, None, pattern("^/feed.xml")),
            ("/a", Some("p=1.*"), None, pattern("^/a\\?p=1")),
            ("/a", Some(".*"), None, pattern("^/a")),
            ("/a/", Some(".*"), None, pattern("^/a")),
            ("/", Some(".*"), None, host()),
            ("/a.b$", None, None, pattern("^/a.b$")),
            ("/(?!wp-content/).*", None, None, host()),
            ("/(", Some("!wp-content/).*"), None, host()),
            ("/a(?:b|c).*", None, None, pattern("^/a(?:b|c)")),
        ];
        for (path, query, ending, wanted) in table {
            let found = wide_scope(
                "example.com".to_owned(),
                path,
                query.map(str::as_bytes),
                ending.map(str::as_bytes),
            );
            assert_eq!(found.as_ref(), Ok(wanted), "{path}");
        }
        let broken = wide_scope("example.com".to_owned(), "/a(.*", None, None);
        assert!(matches!(broken, Err(PurgeError::Pattern(_))));
    }

    #[test]
    fn punctuation_of_patterns_is_restored() {
        let table = [
            ("/%5E/blog/.*", "/blog/.*"),
            ("/(a%7Cb)/", "/(a|b)/"),
            ("/a%5B0-9%5D%7B2%7D", "/a[0-9]{2}"),
            ("/caf%C3%A9", "/caf%C3%A9"),
            ("/%5Ea", "/^a"),
        ];
        for (path, wanted) in table {
            assert_eq!(pattern_path(path), wanted);
        }
    }

    proptest! {
        #[test]
        fn never_panics(path in "/[ -~]{0,20}", list in proptest::collection::vec(any::<u8>(), 0..30)) {
            let _ = wide_scope(String::new(), &pattern_path(&path), Some(&list), None);
            let _ = means_several_pages(&path, Some(&list));
        }
    }
}
