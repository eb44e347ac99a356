//! The fields of a response that are stored, and the cache directives that browsers get.
//!
//! A stored head is sent to every client, so it contains nothing that was meant for one connection (RFC 9111 §3.1), for one
//! visitor, or for shared caches. Framing is not stored either: each response is framed again.

use http::header::{CACHE_CONTROL, CONNECTION, EXPIRES, SET_COOKIE, VARY};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::litespeed::{self, LSC_COOKIE};
use super::response::{Lifetime, is_html, media_type};
use crate::appointments::APPOINTMENTS_FIELD;
use crate::cache_control::CacheControl;
use crate::fields::is_hop_by_hop;
use crate::fragments;
use crate::headers::HIDDEN;
use crate::purge::PURGE_FIELDS;
use crate::request_info::RequestInfo;
use crate::site::{AddressedFields, Policy, UnnamedCookies, ValidationPolicy};
use crate::tags::{self, TAG_FIELDS, Tags};

/// Removes from a head what must not be stored: hop-by-hop and `Connection`-listed fields, every `Set-Cookie`, `Age`,
/// `Content-Length`, proxy authentication, tags, purges, and fields for surrogates. Also `Vary` if the request's rule
/// ignores it, and fields that name software if the site hides them.
///
/// Without a preset the fields of other products are ordinary fields and stay. So do cookies, because a response with other
/// than harmless cookies is not stored (RFC 9111 §7.3), unless a rule ignores them. Fields that `no-cache="a"` names are
/// removed.
pub fn stored_fields(fields: &HeaderMap, policy: &Policy, rule: Option<usize>) -> HeaderMap {
    let ignore = rule
        .and_then(|index| policy.rules.get(index))
        .map(|rule| rule.ignore)
        .unwrap_or_default();
    let keeps_other_products = policy.storage.fields == AddressedFields::Standard;
    let from_origin = policy.storage.validation == ValidationPolicy::Origin;
    let keeps_cookies = policy.unnamed_cookies == UnnamedCookies::Bypass && !ignore.set_cookie;
    let confined = if from_origin {
        confined(fields)
    } else {
        Vec::new()
    };
    let listed = listed(fields);
    let mut kept = HeaderMap::with_capacity(fields.keys_len());
    for (name, value) in fields {
        let is_dropped = is_hop_by_hop(name.as_str(), listed.iter().copied())
            || NEVER_STORED.contains(&name.as_str())
            || (!keeps_cookies && COOKIES.contains(&name.as_str()))
            || (!keeps_other_products && *name == "cdn-cache-control")
            || confined.contains(name)
            || TAG_FIELDS.contains(&name.as_str())
            || (!keeps_other_products && OTHER_PRODUCTS.contains(&name.as_str()))
            || (ignore.vary && *name == VARY)
            || (HIDDEN.contains(&name.as_str()) && policy.changes.remove.contains(name));
        if !is_dropped {
            kept.append(name.clone(), value.clone());
        }
    }
    if policy.flags.litespeed {
        litespeed::add_cookies(fields, &mut kept);
    }
    if let Some(name) = &policy.tag_field {
        add_tags(name, fields, &mut kept);
    }
    kept
}

/// Adds the tags of a page for caches in front: those of the page and those of its fragments, which these caches do not know.
fn add_tags(name: &HeaderName, fields: &HeaderMap, kept: &mut HeaderMap) {
    let mut tags = tags::collect(fields);
    match fragments::parse(fields) {
        Ok(parts) => parts.iter().for_each(|part| tags.add(&part.tags)),
        Err(_) => tags = Tags::everything(),
    }
    let length: usize = tags.names.iter().map(|tag| tag.len() + 1).sum();
    let are_portable = tags.names.iter().all(|tag| tags::is_portable(tag));
    if length > MAX_TAG_BYTES || !are_portable {
        tags = Tags::everything();
    }
    let separator = if *name == "surrogate-key" { " " } else { "," };
    if !tags.names.is_empty()
        && let Ok(value) = HeaderValue::try_from(tags.names.join(separator))
    {
        kept.insert(name.clone(), value);
    }
}

/// The maximum that Cloudflare and Fastly accept, in bytes.
const MAX_TAG_BYTES: usize = 16_000;

/// Adds back the fields that `no-cache="a"` and `private="a"` name: only the client of the fetch gets them (RFC 9111
/// §5.2.2.4). Returns whether there were any.
pub fn add_confined(fields: &HeaderMap, kept: &mut HeaderMap) -> bool {
    let names = confined(fields);
    let before = kept.len();
    for name in &names {
        for value in fields.get_all(name) {
            kept.append(name.clone(), value.clone());
        }
    }
    kept.len() > before
}

fn confined(fields: &HeaderMap) -> Vec<HeaderName> {
    let lines = fields.get_all(CACHE_CONTROL).into_iter();
    CacheControl::parse(lines.map(HeaderValue::as_bytes)).confined_to
}

/// Returns the head for the one client that it is meant for: without hop-by-hop fields (RFC 9110 §7.6.1).
pub fn forwarded_fields(fields: &HeaderMap) -> HeaderMap {
    forwarded(fields, |_| true)
}

fn forwarded(fields: &HeaderMap, is_kept: impl Fn(&str) -> bool) -> HeaderMap {
    let listed = listed(fields);
    let mut kept = HeaderMap::with_capacity(fields.keys_len());
    for (name, value) in fields {
        let is_hop_by_hop = is_hop_by_hop(name.as_str(), listed.iter().copied());
        if !is_hop_by_hop && is_kept(name.as_str()) {
            kept.append(name.clone(), value.clone());
        }
    }
    kept
}

/// As [`forwarded_fields`], for a site with the WordPress preset, whose plugins send fields for caches with every page: also
/// without tags, purges and fields for this cache or the caches of other products. The client gets cookies for everybody, too.
pub fn passed_fields(fields: &HeaderMap, policy: &Policy) -> HeaderMap {
    // Searches the lists for each existing field: looking up each listed name in the head takes ten times as long.
    let is_for_caches = |name: &str| {
        let mut lists = [PURGE_FIELDS, TAG_FIELDS, READ_BY_CACHES].into_iter();
        lists.any(|list: &[&str]| list.contains(&name))
    };
    let is_cookie = |name: &str| policy.flags.litespeed && LSC_COOKIE == *name;
    let mut kept = forwarded(fields, |name| !is_for_caches(name) && !is_cookie(name));
    if policy.flags.litespeed {
        litespeed::add_cookies(fields, &mut kept);
    }
    kept
}

/// The names that `Connection` lists.
fn listed(fields: &HeaderMap) -> Vec<&[u8]> {
    fields
        .get_all(CONNECTION)
        .iter()
        .flat_map(|line| line.as_bytes().split(|&byte| byte == b','))
        .map(<[u8]>::trim_ascii)
        .collect()
}

/// Adds cache directives for browsers if the upstream sent none: pages must be revalidated each time, so that a purge reaches
/// browsers too; with a strong `ETag` that costs a 304. Never overwrites, and does nothing without a preset. Besides HTML
/// this applies to feeds and JSON, for which browsers would otherwise use a heuristic.
pub fn browser_fields(fields: &mut HeaderMap, policy: &Policy) {
    let is_silent = !fields.contains_key(CACHE_CONTROL) && !fields.contains_key(EXPIRES);
    if policy.storage.validation == ValidationPolicy::Galley
        && is_silent
        && changes_with_content(fields)
    {
        fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
}

/// Adds the lifetime for caches in front (RFC 9213), if the site enables it: no longer than Galley's own. Pages that vary by
/// cookie get none, because other caches do not know these variants.
pub fn outer_fields(
    fields: &mut HeaderMap,
    policy: &Policy,
    info: &RequestInfo,
    lifetime: &Lifetime,
) {
    let Some(most) = policy.outer_ttl else {
        return;
    };
    let seconds = most.min(lifetime.fresh).as_secs();
    if !info.vary_cookies().is_empty() || seconds == 0 {
        return;
    }
    if let Ok(value) = HeaderValue::try_from(format!("max-age={seconds}")) {
        fields.insert(CDN_CACHE_CONTROL, value);
    }
}

const CDN_CACHE_CONTROL: HeaderName = HeaderName::from_static("cdn-cache-control");

/// The names of the cookies that a response sets. With `Lsc-Cookie` the plugin of `LiteSpeed` sets one on cached responses: if
/// the plugin controls the cache, such a cookie is for everybody and does not count.
pub(super) fn cookies_set<'a>(
    fields: &'a HeaderMap,
    policy: &'a Policy,
) -> impl Iterator<Item = &'a [u8]> {
    [SET_COOKIE, SET_COOKIE2, LSC_COOKIE]
        .into_iter()
        .flat_map(|name| fields.get_all(name).into_iter())
        .filter(|line| !litespeed::is_for_everybody(line, fields, policy))
        .map(|value| {
            value
                .as_bytes()
                .split(|byte| matches!(byte, b'=' | b';'))
                .next()
                .unwrap_or_default()
                .trim_ascii()
        })
}

/// Whether the media type is a kind of document: HTML, XML, JSON.
fn changes_with_content(fields: &HeaderMap) -> bool {
    let media_type = media_type(fields).to_ascii_lowercase();
    is_html(fields)
        || [&b"application/json"[..], b"application/xml", b"text/xml"]
            .contains(&media_type.as_slice())
        || (media_type.starts_with(b"application/")
            && (media_type.ends_with(b"+json") || media_type.ends_with(b"+xml")))
}

/// Fields that are not stored, besides hop-by-hop fields. Lower case, as names of a `HeaderMap` are.
const NEVER_STORED: &[&str] = &[
    "age",
    "content-length",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-authentication-info",
    APPOINTMENTS_FIELD,
    "galley-cache-control",
    "galley-fragment",
    "galley-fragment-except",
    "galley-member",
    "galley-plugin",
    "galley-purge",
];

const SET_COOKIE2: HeaderName = HeaderName::from_static("set-cookie2");

/// The fields that set cookies.
const COOKIES: &[&str] = &["set-cookie", "set-cookie2", "lsc-cookie"];

/// Instructions to the caches of other products.
const OTHER_PRODUCTS: &[&str] = &[
    "surrogate-control",
    "x-accel-buffering",
    "x-accel-charset",
    "x-accel-expires",
    "x-accel-limit-rate",
    "x-accel-redirect",
    "x-litespeed-cache-control",
    "x-litespeed-purge",
    "x-litespeed-purge2",
    "x-litespeed-vary",
    "x-vc-cacheable",
    "x-vc-debug",
    "x-vc-enabled",
    "x-vc-ttl",
];

/// Fields that only caches read; a passed page is sent without them.
const READ_BY_CACHES: &[&str] = &[
    APPOINTMENTS_FIELD,
    "galley-cache-control",
    "galley-fragment",
    "galley-fragment-except",
    "galley-member",
    "galley-plugin",
    "x-litespeed-cache-control",
    "x-litespeed-vary",
    "x-vc-cacheable",
    "x-vc-debug",
    "x-vc-enabled",
    "x-vc-ttl",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::{IgnoredParts, Rule};

    fn map(rows: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in rows {
            map.append(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        map
    }

    fn none() -> Policy {
        Policy::rfc9111()
    }

    fn names(fields: &HeaderMap) -> Vec<&str> {
        let mut names: Vec<&str> = fields.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn a_stored_head_has_no_personal_fields() {
        let rows = map(&[
            ("content-type", "text/html"),
            ("content-length", "5"),
            ("date", "x"),
            ("age", "3"),
            ("connection", "close, X-Once,X-Twice"),
            ("x-once", "1"),
            ("x-twice", "1"),
            ("keep-alive", "1"),
            ("proxy-connection", "1"),
            ("proxy-authenticate", "1"),
            ("proxy-authentication-info", "1"),
            ("te", "1"),
            ("trailer", "1"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "1"),
            ("set-cookie", "a=b"),
            ("set-cookie", "c=d"),
            ("lsc-cookie", "e=f"),
            ("galley-cache-control", "max-age=1"),
            ("cdn-cache-control", "max-age=1"),
            ("galley-tags", "a"),
            ("surrogate-key", "a"),
            ("x-litespeed-tag", "a"),
            ("link", "1"),
            ("link", "2"),
            ("x-wp-total", "7"),
            ("etag", "\"x\""),
        ]);
        let kept = stored_fields(&rows, &Policy::default(), None);
        assert_eq!(
            names(&kept),
            ["content-type", "date", "etag", "link", "x-wp-total"]
        );
        assert_eq!(kept.get_all("link").iter().count(), 2);
        assert_eq!(
            names(&stored_fields(&rows, &none(), None)),
            [
                "cdn-cache-control",
                "content-type",
                "date",
                "etag",
                "link",
                "lsc-cookie",
                "set-cookie",
                "x-wp-total"
            ]
        );
    }

    #[test]
    fn fields_of_other_products_stay_without_a_preset() {
        let rows = map(&[
            ("x-accel-expires", "1"),
            ("surrogate-control", "1"),
            ("x-litespeed-purge", "*"),
        ]);
        assert!(stored_fields(&rows, &Policy::default(), None).is_empty());
        assert_eq!(stored_fields(&rows, &none(), None).len(), 3);
    }

    #[test]
    fn an_ignored_vary_is_not_stored() {
        let ignore = IgnoredParts {
            vary: true,
            ..IgnoredParts::default()
        };
        let site = Policy {
            rules: vec![Rule {
                ignore,
                ..Rule::default()
            }],
            ..Policy::default()
        };
        let rows = map(&[("vary", "Accept-Language")]);
        assert!(stored_fields(&rows, &site, Some(0)).is_empty());
        assert_eq!(stored_fields(&rows, &site, None).len(), 1);
        assert_eq!(stored_fields(&rows, &site, Some(7)).len(), 1);
    }

    #[test]
    fn browsers_revalidate_without_explicit_freshness() {
        type Rows = &'static [(&'static str, &'static str)];
        let table: &[(Rows, Option<&str>)] = &[
            (
                &[("content-type", "text/html; charset=UTF-8")],
                Some("no-cache"),
            ),
            (
                &[("content-type", "Application/XHTML+xml")],
                Some("no-cache"),
            ),
            (&[("content-type", "application/rss+xml")], Some("no-cache")),
            (&[("content-type", "application/json")], Some("no-cache")),
            (
                &[
                    ("content-type", "text/html"),
                    ("cache-control", "max-age=5"),
                ],
                Some("max-age=5"),
            ),
            (&[("content-type", "text/html"), ("expires", "0")], None),
            (&[("content-type", "image/svg+xml")], None),
            (&[("content-type", "text/css")], None),
            (&[], None),
        ];
        for (rows, wanted) in table {
            let mut fields = map(rows);
            browser_fields(&mut fields, &Policy::default());
            assert_eq!(
                fields.get(CACHE_CONTROL).map(HeaderValue::as_bytes),
                wanted.map(str::as_bytes),
                "{rows:?}"
            );
            let mut fields = map(rows);
            browser_fields(&mut fields, &none());
            assert_eq!(fields, map(rows));
        }
    }

    #[test]
    fn names_of_set_cookies_are_found() {
        let rows = map(&[
            ("set-cookie", " a=b; Path=/"),
            ("set-cookie", "c"),
            ("set-cookie", "d; e=f"),
            ("lsc-cookie", "g=h"),
        ]);
        let plain = Policy::default();
        let found: Vec<&[u8]> = cookies_set(&rows, &plain).collect();
        assert_eq!(found, [&b"a"[..], b"c", b"d", b"g"]);
    }

    #[test]
    fn tags_for_caches_in_front_include_those_of_fragments() {
        let with = |name: &'static str, lines: &[(&'static str, &str)]| {
            let policy = Policy {
                tag_field: Some(HeaderName::from_static(name)),
                ..Policy::default()
            };
            let fields = lines.iter().map(|(name, value)| {
                let value = HeaderValue::from_str(value).unwrap();
                (HeaderName::from_static(name), value)
            });
            let kept = stored_fields(&fields.collect(), &policy, None);
            kept.get(name)
                .map(|value| value.to_str().unwrap().to_owned())
        };
        let tags = ("galley-tags", "p1,t2");
        let fragment = ("galley-fragment", "widget:a 0 5 b d posts,p1");
        assert_eq!(with("cache-tag", &[tags]).as_deref(), Some("p1,t2"));
        assert_eq!(
            with("surrogate-key", &[tags, fragment]).as_deref(),
            Some("p1 t2 posts")
        );
        let broken = ("galley-fragment", "widget:a x");
        assert_eq!(with("cache-tag", &[tags, broken]).as_deref(), Some("*"));
        let foreign = ("galley-tags", "caf\u{e9}");
        assert_eq!(with("cache-tag", &[foreign]).as_deref(), Some("*"));
        let long = "x".repeat(200);
        let many: Vec<String> = (0..100).map(|n| format!("{long}{n}")).collect();
        let many = many.join(",");
        assert_eq!(
            with("cache-tag", &[("galley-tags", &many)]).as_deref(),
            Some("*")
        );
        assert_eq!(with("cache-tag", &[]), None);
    }
}
