//! Writes a query in normal form, and finds the parameters that make the request bypass the cache.

use super::pairs::{
    Disposition, FormDecoded, MAX_PARAMETERS, Parameter, rename, split_at, split_pair,
};
use crate::classes;
use crate::site::{NamePattern, ParameterOrder, Policy};
use crate::span::Span;
use crate::uri;
use crate::wordpress;

/// Writes the normalized query to `out`, which is cleared first; empty means that the URL has none.
///
/// Ignored parameters are removed, the others sorted by name. Escapes are in upper case, unreserved characters are decoded, and
/// a lone `%` and all bytes that RFC 3986 forbids are escaped. `raw` is the text after the `?`.
pub fn normalize(raw: &[u8], policy: &Policy, out: &mut Vec<u8>) {
    out.clear();
    let (mut pairs, mut work) = (Vec::new(), Vec::new());
    scan(raw, policy, &mut pairs, &mut work);
    write_kept(raw, &mut pairs, &work, policy, out);
}

/// Whether a query permits the use of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryCacheability {
    Cacheable,
    MustPass,
}

/// Parses the parameters of `raw` into `pairs`, their names into `work`; both are cleared first.
///
/// A site's own `ignore_query` overrides the preset's reasons to pass: the site's owner knows the names.
pub(crate) fn scan(
    raw: &[u8],
    policy: &Policy,
    pairs: &mut Vec<Parameter>,
    work: &mut Vec<u8>,
) -> QueryCacheability {
    pairs.clear();
    work.clear();
    let mut reading = QueryCacheability::Cacheable;
    let mut start = 0;
    while let Some(rest) = raw.get(start..) {
        let part = match memchr::memchr(b'&', rest) {
            Some(end) => rest.get(..end).unwrap_or_default(),
            None => rest,
        };
        let span = Span {
            start,
            end: start + part.len(),
        };
        start = span.end + 1;
        if part.is_empty() {
            continue;
        }
        let first = memchr::memchr3(b'=', b'%', b'+', part);
        let is_plain = first.is_none_or(|at| part.get(at) == Some(&b'='));
        let (name, value) = if is_plain {
            split_at(part, first)
        } else {
            split_pair(part)
        };
        let named = work.len();
        let disposition = if is_plain && is_ignored(name, policy) {
            Disposition::Drop
        } else if !is_plain && is_ignored(decoded(name, named, work), policy) {
            work.truncate(named);
            Disposition::Drop
        } else if !needs_variables(policy) {
            work.truncate(named);
            Disposition::Keep
        } else {
            if is_plain {
                work.extend_from_slice(name);
            }
            rename(work, named);
            let variable = work.get(named..).unwrap_or_default();
            if policy.urls.has_wordpress_paths
                && wordpress::is_bypass_parameter(variable, FormDecoded(value))
            {
                reading = QueryCacheability::MustPass;
            }
            Disposition::Keep
        };
        pairs.push(Parameter {
            disposition,
            name: Span::since(named, work),
            raw: span,
        });
    }
    if pairs.len() > MAX_PARAMETERS {
        QueryCacheability::MustPass
    } else {
        reading
    }
}

/// Whether the variables that parameters set are needed: for their order, or for their meaning in WordPress.
fn needs_variables(policy: &Policy) -> bool {
    policy.urls.has_wordpress_paths || policy.urls.parameter_order == ParameterOrder::WithinVariable
}

/// Sorts `pairs` (not without a preset) and appends the kept ones to `out` in canonical form. Returns whether there were any.
pub(crate) fn write_kept(
    raw: &[u8],
    pairs: &mut [Parameter],
    work: &[u8],
    policy: &Policy,
    out: &mut Vec<u8>,
) -> bool {
    if pairs
        .iter()
        .all(|pair| pair.disposition == Disposition::Drop)
    {
        return false;
    }
    match policy.urls.parameter_order {
        // The position in the query breaks ties, which makes the sort stable without the buffer that a stable sort would allocate.
        ParameterOrder::WithinVariable => pairs.sort_unstable_by(|a, b| {
            let by_name = a.name.of(work).cmp(b.name.of(work));
            by_name.then(a.raw.start.cmp(&b.raw.start))
        }),
        // Only for PHP it is known that the order of different names does not matter. The pairs are in their original order.
        ParameterOrder::Exact => {}
    }
    let before = out.len();
    for pair in pairs
        .iter()
        .filter(|pair| pair.disposition == Disposition::Keep)
    {
        separate(before, out);
        append_canonical(pair.raw.of(raw), out);
    }
    out.len() > before
}

/// Whether the query consists of ignored parameters only, as in campaigns, so that all of it can be dropped at once.
pub(crate) fn drops_all(raw: &[u8], pairs: &[Parameter]) -> bool {
    let mut end = 0;
    for pair in pairs {
        if pair.disposition != Disposition::Drop || pair.raw.start != end {
            return false;
        }
        end = pair.raw.end + 1;
    }
    !pairs.is_empty() && end == raw.len() + 1
}

/// Appends the ignored parameters as they were sent, in their order. Returns whether there were any.
pub(crate) fn write_dropped(raw: &[u8], pairs: &mut [Parameter], out: &mut Vec<u8>) -> bool {
    if pairs
        .iter()
        .all(|pair| pair.disposition == Disposition::Keep)
    {
        return false;
    }
    pairs.sort_unstable_by_key(|pair| pair.raw.start);
    let before = out.len();
    for pair in pairs
        .iter()
        .filter(|pair| pair.disposition == Disposition::Drop)
    {
        separate(before, out);
        out.extend_from_slice(pair.raw.of(raw));
    }
    out.len() > before
}

fn separate(before: usize, out: &mut Vec<u8>) {
    if out.len() > before {
        out.push(b'&');
    }
}

/// Appends the decoded name to `work`, and returns it.
fn decoded<'w>(name: &[u8], named: usize, work: &'w mut Vec<u8>) -> &'w [u8] {
    work.extend(FormDecoded(name));
    work.get(named..).unwrap_or_default()
}

fn is_ignored(name: &[u8], policy: &Policy) -> bool {
    let is_listed = |list: &[NamePattern]| list.iter().any(|pattern| pattern.matches(name));
    is_listed(&policy.ignore_query) || (policy.urls.ignore_tracking && wordpress::is_tracking(name))
}

/// Appends the canonical form of one pair, which PHP decodes to the same.
fn append_canonical(pair: &[u8], out: &mut Vec<u8>) {
    // Most pairs are canonical.
    if !classes::has(pair, |byte| (byte == b'%') | is_forbidden(byte)) {
        out.extend_from_slice(pair);
        return;
    }
    let mut rest = pair;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        match byte {
            b'%' => match uri::escape(tail) {
                Some((value, tail)) => {
                    rest = tail;
                    uri::push_normal(value, out);
                }
                // Unescaped, it could join with decoded characters after it: `%%34%31` would become `%41`.
                None => uri::push_escape(b'%', out),
            },
            _ if is_forbidden(byte) => uri::push_escape(byte, out),
            _ => out.push(byte),
        }
    }
}

/// Bytes that RFC 3986 forbids in a query, and `#`, which would end it.
#[expect(
    clippy::needless_bitwise_bool,
    reason = "without branches the compiler tests sixteen bytes at a time"
)]
fn is_forbidden(byte: u8) -> bool {
    (byte <= b' ')
        | (byte >= 0x7f)
        | (byte == b'"')
        | (byte == b'#')
        | (byte == b'<')
        | (byte == b'>')
        | (byte == b'\\')
        | (byte == b'^')
        | (byte == b'`')
        | (byte == b'{')
        | (byte == b'|')
        | (byte == b'}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn normal(raw: &str) -> String {
        let mut out = Vec::new();
        normalize(raw.as_bytes(), &Policy::default(), &mut out);
        String::from_utf8(out).unwrap()
    }

    fn passes(raw: &str) -> bool {
        scan(
            raw.as_bytes(),
            &Policy::default(),
            &mut Vec::new(),
            &mut Vec::new(),
        ) == QueryCacheability::MustPass
    }

    #[test]
    fn queries_have_one_canonical_form() {
        for (raw, expected) in [
            ("", ""),
            ("&&", ""),
            ("b=2&a=1", "a=1&b=2"),
            ("a=2&b&a=1", "a=2&a=1&b"),
            ("a[]=2&a%5B%5D=1&a[x]=0", "a[]=2&a%5B%5D=1&a[x]=0"),
            ("utm_source=x&s=1", "s=1"),
            ("utm%5Fsource=x&%75tm_x&s=1&fbclid", "s=1"),
            ("utm_source=x", ""),
            ("utm_source[a]=x&fbclid[]=y", "fbclid[]=y"),
            // Not ignored, because PHP has other names for them: kept in the key and in the upstream request.
            ("utm.source=1&+utm_source=2", "utm.source=1&+utm_source=2"),
            ("%c3%a9=%7e%2f", "%C3%A9=~%2F"),
            ("a=\u{e9}", "a=%C3%A9"),
            ("a=100%&b=%4&c=%%34%31", "a=100%25&b=%254&c=%2541"),
            ("a=b;c=d", "a=b;c=d"),
            ("a=1;utm_source=2", "a=1;utm_source=2"),
            ("=x&a", "=x&a"),
            ("a=+%20", "a=+%20"),
            ("a={|}", "a=%7B%7C%7D"),
        ] {
            assert_eq!(normal(raw), expected, "{raw}");
        }
    }

    #[test]
    fn the_order_of_values_of_a_variable_is_kept() {
        // All of these set `$_GET['a_b']`, so their order matters.
        assert_eq!(
            normal("z=0&a_b=1&a.b=2&a%20b[x]=3&a+b=4&a[b=5"),
            "a_b=1&a.b=2&a%20b[x]=3&a+b=4&a[b=5&z=0"
        );
    }

    #[test]
    fn the_order_of_equal_names_is_kept() {
        let pairs = |names: &[&str]| {
            let pair = |(at, name): (usize, &str)| format!("{name}={at}");
            let cycle = names.iter().copied().cycle().take(300).enumerate();
            cycle.map(pair).collect::<Vec<_>>()
        };
        let sent = pairs(&["b", "a", "c"]);
        let mut expected = sent.clone();
        expected.sort_by_key(|pair| pair.split('=').next().map(str::to_owned));
        assert_eq!(normal(&sent.join("&")), expected.join("&"));
    }

    #[test]
    fn names_cannot_be_disguised() {
        for raw in [
            "preview=true",
            "x=1&preview",
            "pre%76iew=1",
            "preview[]=1",
            "preview%5Bx%5D=1",
            "+preview=1",
            "%20%20preview=1",
            "preview%00x=1",
            "preview.id=1",
            "preview+id=1",
            "preview[id=1",
            "utm_source=1&preview_nonce=2",
            "action=element%6Fr",
            "rest_route=%2Fwc%2Fstore/v1/cart",
            "customize_changeset_uuid=1",
            "_method=DELETE",
        ] {
            assert!(passes(raw), "{raw}");
        }
        // `;` does not separate, and an escaped `&` or `=` is text.
        for raw in [
            "",
            "s=preview",
            "a=1;preview=1",
            "a=1%26preview=1",
            "preview%3D1",
            "[preview]=1",
            "previews=1",
        ] {
            assert!(!passes(raw), "{raw}");
        }
        assert!(passes(&"a&".repeat(MAX_PARAMETERS + 1)) && !passes(&"a&".repeat(MAX_PARAMETERS)));
    }

    #[test]
    fn the_configuration_adds_ignored_names() {
        let site = Policy {
            ignore_query: vec![
                NamePattern::parse("ref"),
                NamePattern::parse("x_*"),
                NamePattern::parse("logout"),
            ],
            ..Policy::default()
        };
        let mut out = Vec::new();
        normalize(b"ref=1&x_y&logout=1&b&gclid=2&Ref=3", &site, &mut out);
        assert_eq!(out, b"Ref=3&b");
        let reading = scan(b"logout=1", &site, &mut Vec::new(), &mut Vec::new());
        assert_eq!(reading, QueryCacheability::Cacheable);
        let site = Policy::rfc9111();
        normalize(b"utm_source=1&preview=2", &site, &mut out);
        assert_eq!(out, b"utm_source=1&preview=2");
    }

    /// The variables that PHP sets from a query, each with its values in order.
    fn meaning(raw: &[u8]) -> Vec<(Vec<u8>, Vec<u8>, Vec<u8>)> {
        let mut all: Vec<_> = raw
            .split(|&b| b == b'&')
            .filter(|part| !part.is_empty())
            .map(|part| {
                let (name, value) = split_pair(part);
                let decoded: Vec<u8> = FormDecoded(name).collect();
                let mut variable = decoded.clone();
                rename(&mut variable, 0);
                (variable, decoded, FormDecoded(value).collect())
            })
            .filter(|(_, decoded, _)| !is_ignored(decoded, &Policy::default()))
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    proptest! {
        #[test]
        fn php_reads_the_same_from_both(raw in "([abu&=+;%]|%4|%41|%5[bB]|%00|\\[|\\]|\\.|utm_|%26){0,24}") {
            let mut out = Vec::new();
            normalize(raw.as_bytes(), &Policy::default(), &mut out);
            prop_assert_eq!(meaning(raw.as_bytes()), meaning(&out));
            let mut again = Vec::new();
            normalize(&out, &Policy::default(), &mut again);
            prop_assert_eq!(out, again);
        }

        #[test]
        fn any_bytes_are_accepted(raw in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut out = Vec::new();
            normalize(&raw, &Policy::default(), &mut out);
            prop_assert!(out.iter().all(u8::is_ascii_graphic));
        }
    }
}
