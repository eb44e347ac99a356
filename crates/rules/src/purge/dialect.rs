//! How plugins say it: which method, path and fields mean which scope.
//!
//! Known: Proxy Cache Purge, WP Rocket, W3 Total Cache, `VCaching` and its fork, nginx-helper, the `BAN` of
//! `GoDaddy`, xkey,
//! Fastly's soft purge, the tag fields of the CDNs, and `X-LiteSpeed-Purge` of the `LiteSpeed` plugin in answers.

use http::HeaderMap;

use super::{BadOrder, MAX_ORDERS, MAX_PATTERN_BYTES, Order, Scope, Strength, url_scope};
use crate::facts::{Facts, Method};
use crate::route::canonical_host;
use crate::site::SiteRules;
use crate::tags;

/// The fields of an upstream's answer that carry orders; they never travel on.
pub const PURGE_FIELDS: &[&str] = &["galley-purge", "x-litespeed-purge", "x-litespeed-purge2"];

/// The one order of a request. Several tags at once become an order for the whole site, since they touch more than any
/// one of them: use [`orders_from_request`] to obey each.
pub fn from_request<'a>(
    facts: &Facts,
    fields: impl Iterator<Item = (&'a str, &'a [u8])> + Clone,
    site: &SiteRules,
) -> Result<Order, BadOrder> {
    let mut orders = orders_from_request(facts, fields, site)?;
    match (orders.pop(), orders.first()) {
        (Some(only), None) => Ok(only),
        (Some(last), Some(_)) => Ok(Order {
            scope: Scope::Site,
            strength: last.strength,
        }),
        (None, _) => Err(BadOrder::NoOrder),
    }
}

/// The orders of a request, at least one. More than one only for a list of tags.
///
/// `PURGE` of a path is that URL; with `.*` or `*` at its end, all below; with tag fields, whatever depends on them.
/// `BAN` of a path is all that begins with it. `GET /purge/path` is that path. The caller has checked who asks.
pub fn orders_from_request<'a>(
    facts: &Facts,
    fields: impl Iterator<Item = (&'a str, &'a [u8])> + Clone,
    site: &SiteRules,
) -> Result<Vec<Order>, BadOrder> {
    let said = Said::read(fields)?;
    let strength = if said.is_soft {
        Strength::Soft
    } else {
        Strength::Hard
    };
    let scopes = match facts.method() {
        Method::Get => vec![below_purge(facts, site)?],
        Method::Purge | Method::Ban if said.by_tags => tag_scopes(said.tags)?,
        Method::Purge | Method::Ban => vec![path_scope(facts, &said, site)?],
        _ => return Err(BadOrder::NoOrder),
    };
    Ok(scopes
        .into_iter()
        .map(|scope| Order { scope, strength })
        .collect())
}

/// The orders in an upstream's answer to a request of this site, strongest reading. Malformed ones are left out.
///
/// `X-LiteSpeed-Purge: [public,][stale,]tag,tag2[;private,..]`, `*`, `tag=x`, `/path`; `Galley-Purge` is read alike.
pub fn from_answer(fields: &HeaderMap, site: &SiteRules) -> Vec<Order> {
    let mut orders = Vec::new();
    for value in PURGE_FIELDS.iter().flat_map(|name| fields.get_all(*name)) {
        for group in value.as_bytes().split(|&byte| byte == b';') {
            let mut strength = Strength::Hard;
            for word in tags::split(group) {
                match word {
                    b"public" => continue,
                    // Private copies are never stored here.
                    b"private" => break,
                    b"stale" => strength = Strength::Soft,
                    _ => orders.extend(answered(word, site).map(|scope| Order { scope, strength })),
                }
                if orders.len() > MAX_ORDERS {
                    return vec![Order {
                        scope: Scope::Site,
                        strength: Strength::Hard,
                    }];
                }
            }
        }
    }
    orders
}

fn answered(word: &[u8], site: &SiteRules) -> Option<Scope> {
    let text = std::str::from_utf8(word).ok()?;
    if text == tags::EVERYTHING {
        Some(Scope::Site)
    } else if text.starts_with('/') {
        url_scope(text, site).ok()
    } else {
        let tag = text.strip_prefix("tag=").unwrap_or(text);
        (!tag.is_empty()).then(|| Scope::Tag(tag.to_owned()))
    }
}

/// How a path is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// By its looks.
    Unsaid,
    /// One URL with its query.
    Exact,
    /// One path with any query.
    AnyQuery,
    /// A pattern.
    Regex,
}

/// What the fields of an order say.
struct Said<'a> {
    reading: Reading,
    by_tags: bool,
    tags: Vec<&'a [u8]>,
    is_soft: bool,
    /// The pattern of `X-Purge-Regex`, which stands for the end of the path.
    ending: Option<&'a [u8]>,
    host: Option<&'a [u8]>,
}

impl<'a> Said<'a> {
    fn read(fields: impl Iterator<Item = (&'a str, &'a [u8])>) -> Result<Self, BadOrder> {
        let mut said = Self {
            reading: Reading::Unsaid,
            by_tags: false,
            tags: Vec::new(),
            is_soft: false,
            ending: None,
            host: None,
        };
        for (name, value) in fields {
            let is = |known: &str| name.eq_ignore_ascii_case(known);
            let value = value.trim_ascii();
            if is("x-purge-method") || is("x-vc-purge-method") {
                said.method(value, is("x-vc-purge-method"));
            } else if is("x-purge-regex") {
                said.reading = Reading::Regex;
                said.ending = Some(value);
            } else if is("x-vc-purge-host") {
                said.host = Some(value);
            } else if is("fastly-soft-purge") || is("x-purge-soft") || is("galley-soft-purge") {
                said.is_soft = value == b"1" || value.eq_ignore_ascii_case(b"true");
            } else if ORDER_TAG_FIELDS
                .iter()
                .chain(tags::TAG_FIELDS)
                .any(|known| is(known))
            {
                said.by_tags = true;
                said.is_soft |= is("xkey-softpurge");
                said.tags.push(value);
                if said.tags.len() > MAX_ORDERS {
                    return Err(BadOrder::TooMany);
                }
            }
        }
        Ok(said)
    }

    fn method(&mut self, value: &[u8], is_vc: bool) {
        let is = |known: &str| value.eq_ignore_ascii_case(known.as_bytes());
        if is("tags") {
            self.by_tags = true;
        } else if is("regex") {
            self.reading = Reading::Regex;
        } else if is("exact") {
            self.reading = Reading::Exact;
        } else if is("default") && is_vc && self.reading == Reading::Unsaid {
            // In VCaching's dialect the default leaves the query out of account; elsewhere it means nothing.
            self.reading = Reading::AnyQuery;
        }
    }
}

/// Beyond the fields that carry tags in answers.
const ORDER_TAG_FIELDS: &[&str] = &["x-cache-tags-pattern", "xkey-purge", "xkey-softpurge"];

/// `a,b c|d`, also as an alternation of a pattern: `(a|b)`, `^a$`, with escapes. A tag that is a pattern itself means
/// the whole site, since tags are kept as hashes and cannot be searched.
fn tag_scopes(lists: Vec<&[u8]>) -> Result<Vec<Scope>, BadOrder> {
    let mut scopes = Vec::new();
    for part in lists
        .into_iter()
        .flat_map(tags::split)
        .flat_map(|part| part.split(|&byte| byte == b'|'))
    {
        let part = part.strip_prefix(b"^").unwrap_or(part);
        let part = part.strip_prefix(b"(").unwrap_or(part);
        let part = part.strip_suffix(b"$").unwrap_or(part);
        let part = part.strip_suffix(b")").unwrap_or(part);
        let Some(tag) = unescaped(part) else {
            return Ok(vec![Scope::Site]);
        };
        let tag = String::from_utf8(tag).map_err(|_| BadOrder::NotText)?;
        let scope = Scope::Tag(tag);
        if scope == Scope::Tag(String::new()) || scopes.contains(&scope) {
            continue;
        }
        if scopes.len() == MAX_ORDERS {
            return Err(BadOrder::TooMany);
        }
        scopes.push(scope);
    }
    if scopes.is_empty() {
        Err(BadOrder::NoTags)
    } else {
        Ok(scopes)
    }
}

/// A tag without the backslashes before its punctuation; `None` if it is a pattern. A dot is taken for a dot: the tags
/// of `LiteSpeed` have them.
fn unescaped(tag: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(tag.len());
    let mut bytes = tag.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'\\' => plain.push(*bytes.next().filter(|next| next.is_ascii_punctuation())?),
            b'*' | b'+' | b'?' | b'[' | b']' | b'(' | b')' | b'{' | b'}' | b'^' | b'$' => {
                return None;
            }
            _ => plain.push(byte),
        }
    }
    Some(plain)
}

/// nginx-helper: `GET /purge/a/b?q` is `/a/b?q`, `/purge` is `/`, `/purgeall` is all of the host.
fn below_purge(facts: &Facts, site: &SiteRules) -> Result<Scope, BadOrder> {
    match facts.path().strip_prefix(b"/purge") {
        Some(b"all") => Ok(Scope::Host(facts.host().to_owned())),
        Some(b"") => named(facts.host(), b"/", facts.raw_query(), site),
        Some(rest) if rest.starts_with(b"/") => named(facts.host(), rest, facts.raw_query(), site),
        _ => Err(BadOrder::NoOrder),
    }
}

fn path_scope(facts: &Facts, said: &Said<'_>, site: &SiteRules) -> Result<Scope, BadOrder> {
    let host = said
        .host
        .map_or_else(|| Ok(facts.host().to_owned()), canonical_host)?;
    let (path, query) = (facts.path(), facts.raw_query());
    if path == b"/purgeall" && facts.method() == Method::Purge {
        return Ok(Scope::Host(host));
    }
    let as_pattern = pattern_path(text(path)?);
    match said.reading {
        Reading::AnyQuery => pattern(format!("^{}(?:\\?|$)", regex::escape(text(path)?))),
        Reading::Regex => wide(host, &as_pattern, query, said.ending),
        Reading::Unsaid if facts.method() == Method::Ban || looks_wide(&as_pattern, query) => {
            wide(host, &as_pattern, query, None)
        }
        Reading::Exact | Reading::Unsaid => named(&host, path, query, site),
    }
}

fn named(
    host: &str,
    path: &[u8],
    raw_query: Option<&[u8]>,
    site: &SiteRules,
) -> Result<Scope, BadOrder> {
    let mut url = text(path)?.to_owned();
    if let Some(raw) = raw_query {
        url.push('?');
        url.push_str(text(raw)?);
    }
    match url_scope(&url, site)? {
        Scope::Url { path, query, .. } => Ok(Scope::Url {
            host: Some(host.to_owned()),
            path,
            query,
        }),
        other => Ok(other),
    }
}

/// A canonical path as its sender wrote it: the punctuation of patterns that URLs have to escape comes back. Some write
/// `^` before the path, which by then stands behind the first slash.
fn pattern_path(path: &str) -> String {
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

const ESCAPED_PUNCTUATION: &[(&str, &str)] = &[
    ("%7C", "|"),
    ("%5E", "^"),
    ("%5B", "["),
    ("%5D", "]"),
    ("%7B", "{"),
    ("%7D", "}"),
];

/// Whether a path without a word about its reading is meant for more than one page.
fn looks_wide(path: &str, query: Option<&[u8]>) -> bool {
    let is_wide = |part: &[u8]| part.ends_with(b"*") || memchr::memmem::find(part, b".*").is_some();
    is_wide(path.as_bytes())
        || query.is_some_and(is_wide)
        || query.unwrap_or(path.as_bytes()).ends_with(b"$")
}

/// All that begins with a path, or matches it as a pattern. The usual ones are recognised as what costs nothing: `/.*`
/// as the host, `/shop/.*` as a prefix. Prefixes and patterns hold for all hosts of the site.
fn wide(
    host: String,
    path: &str,
    query: Option<&[u8]>,
    ending: Option<&[u8]>,
) -> Result<Scope, BadOrder> {
    let mut wanted = path.to_owned();
    match query {
        // `/a?.*` may be meant as an optional letter, or as any query: the path with anything behind it is both.
        Some(b".*" | b"*") => wanted.push_str(".*"),
        Some(query) => {
            wanted.push_str("\\?");
            wanted.push_str(text(query)?);
        }
        None => {}
    }
    if let Some(ending) = ending {
        wanted.push_str(text(ending)?);
    }
    let open = wanted.strip_suffix('$').unwrap_or(&wanted);
    // A star without a dot is a wildcard as people write them; in a pattern it would repeat what is before it.
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
        pattern(format!("^{beginning}"))
    } else {
        pattern(format!("^{wanted}"))
    }
}

fn pattern(text: String) -> Result<Scope, BadOrder> {
    if text.len() > MAX_PATTERN_BYTES {
        return Err(BadOrder::PatternTooLong);
    }
    Ok(Scope::Pattern(text))
}

fn text(bytes: &[u8]) -> Result<&str, BadOrder> {
    std::str::from_utf8(bytes).map_err(|_| BadOrder::NotText)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tag(name: &str) -> Scope {
        Scope::Tag(name.to_owned())
    }

    #[test]
    fn lists_of_tags() {
        type Row<'a> = (&'a [&'a str], Result<Vec<Scope>, BadOrder>);
        let table: &[Row<'_>] = &[
            (&["a"], Ok(vec![tag("a")])),
            (&["a|b"], Ok(vec![tag("a"), tag("b")])),
            (&["a, b c", "a"], Ok(vec![tag("a"), tag("b"), tag("c")])),
            (&["(p\\-1|t\\-2)"], Ok(vec![tag("p-1"), tag("t-2")])),
            (&["^(p-1)$"], Ok(vec![tag("p-1")])),
            (&["b5f_Po.12"], Ok(vec![tag("b5f_Po.12")])),
            (&["a\\.b"], Ok(vec![tag("a.b")])),
            (&["p-1|p-.*"], Ok(vec![Scope::Site])),
            (&["*"], Ok(vec![Scope::Site])),
            (&["a\\d"], Ok(vec![Scope::Site])),
            (&["", " , |"], Err(BadOrder::NoTags)),
            (&[], Err(BadOrder::NoTags)),
        ];
        for (lists, wanted) in table {
            assert_eq!(
                tag_scopes(lists.iter().map(|list| list.as_bytes()).collect()),
                *wanted,
                "{lists:?}"
            );
        }
    }

    #[test]
    fn wide_orders() {
        let host = || Scope::Host("example.com".to_owned());
        let pattern = |text: &str| Scope::Pattern(text.to_owned());
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
            ("/a.b$", None, None, pattern("^/a.b$")),
            ("/a(.*", None, None, pattern("^/a(")),
        ];
        for (path, query, ending, wanted) in table {
            let found = wide(
                "example.com".to_owned(),
                path,
                query.map(str::as_bytes),
                ending.map(str::as_bytes),
            );
            assert_eq!(found.as_ref(), Ok(wanted), "{path}");
        }
    }

    #[test]
    fn punctuation_of_patterns_comes_back() {
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
            let _ = wide(String::new(), &pattern_path(&path), Some(&list), None);
            let _ = tag_scopes(vec![&list]);
            let _ = looks_wide(&path, Some(&list));
        }
    }
}
