//! Speculation rules in the head of a stored page: the pages that visitors most often open from it, which browsers load in advance.
//!
//! A page names only pages to which it links itself. Whoever forges visits therefore chooses among the links of the page, and no address
//! is told to anybody who does not have it. Links with a query are left out, and so are links that the author excludes (`nofollow`,
//! `no-prefetch`).
//!
//! The rules are a `data:` URL in `Speculation-Rules`, so that they are a part of the stored page and cost no request of their own.

use std::borrow::Cow;

use http::HeaderName;
use http::header::{HeaderMap, HeaderValue};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::request_info::{Method, RequestInfo, Scheme};
use crate::uri::canonical_path;

/// The path of the page from which a visitor came, if a navigation to another page without a query is to be counted; as the browser
/// sent it. Requests of browsers in advance do not count, and neither do those with a session.
pub fn previous_path(info: &RequestInfo) -> Option<&[u8]> {
    let referer = info.referer()?;
    if info.method() != Method::Get
        || info.is_prefetch()
        || info.has_session()
        || info.query().is_some()
    {
        return None;
    }
    own_path(referer, info.scheme(), info.authority().as_bytes())
}

/// The path of a URL, if it is of this origin and has neither query nor fragment.
fn own_path<'a>(url: &'a [u8], scheme: Scheme, authority: &[u8]) -> Option<&'a [u8]> {
    let rest = url.strip_prefix(scheme.as_str().as_bytes())?;
    let path = rest.strip_prefix(b"://")?.strip_prefix(authority)?;
    let is_path = path.first() == Some(&b'/') && !path.iter().any(|byte| b"?#".contains(byte));
    is_path.then_some(path)
}

/// The canonical paths to which a page links, in their order. At most `MAX_LINKS` links are looked at. A path may occur several times.
pub fn linked_paths(body: &[u8], scheme: Scheme, authority: &[u8]) -> Vec<Vec<u8>> {
    let tags = memchr::memmem::find_iter(body, b"<a ").take(MAX_LINKS);
    let mut paths = Vec::new();
    for start in tags {
        let tag = body.get(start..).unwrap_or_default();
        let tag = tag.get(..tag.len().min(MAX_TAG)).unwrap_or_default();
        let Some(end) = memchr::memchr(b'>', tag) else {
            continue;
        };
        let tag = tag.get(..end).unwrap_or_default();
        let names = |word: &[u8]| memchr::memmem::find(tag, word).is_some();
        if names(b"nofollow") || names(b"no-prefetch") {
            continue;
        }
        let mut path = Vec::new();
        if let Some(link) = attribute(tag).and_then(|url| path_of_link(url, scheme, authority))
            && canonical_path(link, &mut path).is_ok()
            && path.iter().copied().all(is_plain)
        {
            paths.push(path);
        }
    }
    paths
}

/// The quoted value of `href`.
fn attribute(tag: &[u8]) -> Option<&[u8]> {
    let start = memchr::memmem::find(tag, b" href=")? + b" href=".len();
    let (quote, rest) = tag.get(start..)?.split_first()?;
    let end = matches!(quote, b'"' | b'\'').then(|| memchr::memchr(*quote, rest))??;
    rest.get(..end)
}

/// The path of a link to this origin, without its fragment. Relative links have none: WordPress writes whole URLs.
fn path_of_link<'a>(url: &'a [u8], scheme: Scheme, authority: &[u8]) -> Option<&'a [u8]> {
    let end = memchr::memchr(b'#', url).unwrap_or(url.len());
    let url = url.get(..end)?;
    let is_own = url.starts_with(b"/") && !url.starts_with(b"//") && !url.contains(&b'?');
    if is_own {
        Some(url)
    } else {
        own_path(url, scheme, authority)
    }
}

/// Whether a byte of a path means itself in JSON and in a URL.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/-_.~%".contains(&byte)
}

/// Names these pages in the head of a page, or none of them. Returns whether the head changed. Rules of the site itself stay.
pub fn name_pages(fields: &mut HeaderMap, origin: &str, paths: &[Cow<'_, str>]) -> bool {
    let urls: Vec<String> = paths
        .iter()
        .map(|path| format!("\"{origin}{path}\""))
        .collect();
    let rules = format!(
        "{{\"prefetch\":[{{\"urls\":[{}],\"eagerness\":\"immediate\"}}]}}",
        urls.join(",")
    );
    let value = format!(
        "{PREFIX}{}\"",
        utf8_percent_encode(&rules, NON_ALPHANUMERIC)
    );
    let new_value = (!paths.is_empty())
        .then(|| HeaderValue::try_from(value).ok())
        .flatten();
    let is_own = |value: &HeaderValue| value.as_bytes().starts_with(PREFIX.as_bytes());
    let values: Vec<HeaderValue> = fields.get_all(SPECULATION_RULES).iter().cloned().collect();
    let own_values: Vec<&HeaderValue> = values.iter().filter(|value| is_own(value)).collect();
    if own_values == new_value.iter().collect::<Vec<_>>() {
        return false;
    }
    fields.remove(SPECULATION_RULES);
    for value in values
        .into_iter()
        .filter(|value| !is_own(value))
        .chain(new_value)
    {
        fields.append(SPECULATION_RULES, value);
    }
    true
}

const SPECULATION_RULES: HeaderName = HeaderName::from_static("speculation-rules");
const PREFIX: &str = "\"data:application/speculationrules+json,";

/// The links of a page that are looked at: large menus have hundreds.
const MAX_LINKS: usize = 1000;

/// The bytes of a tag that are looked at.
const MAX_TAG: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_info::RequestLineInfo;
    use crate::site::Policy;
    use crate::testing::{LINE, parsed};

    #[test]
    fn only_navigations_within_the_site_are_counted() {
        let previous = |fields: &[(&str, &str)]| {
            let line = RequestLineInfo {
                scheme: Scheme::Https,
                ..LINE
            };
            let info = parsed(&line, fields, &Policy::wordpress());
            previous_path(&info).map(<[u8]>::to_vec)
        };
        let own = ("referer", "https://example.com/from/");
        assert_eq!(previous(&[own]).as_deref(), Some(&b"/from/"[..]));
        for other in [
            "http://example.com/from/",
            "https://example.com",
            "https://example.com.evil.test/",
            "https://example.com:8443/",
            "https://x@example.com/",
            "https://example.com/?s=a",
            "https://example.com/a#b",
            "/from/",
            "",
        ] {
            assert_eq!(previous(&[("referer", other)]), None, "{other}");
        }
        assert_eq!(
            previous(&[own, ("sec-purpose", "prefetch;prerender")]),
            None
        );
        assert_eq!(
            previous(&[own, ("cookie", "wordpress_logged_in_1=a")]),
            None
        );
    }

    #[test]
    fn links_within_the_site_are_found() {
        let links = |body: &str| -> Vec<String> {
            let found = linked_paths(body.as_bytes(), Scheme::Https, b"example.com");
            found
                .into_iter()
                .map(|path| String::from_utf8(path).unwrap())
                .collect()
        };
        let body = "<a href=\"https://example.com/a/#top\">1</a><a class='x' href='/b/'>2</a><a href=\"/%e3%81/\">";
        assert_eq!(links(body), ["/a/", "/b/", "/%E3%81/"]);
        for none in [
            "<a href=\"https://other.test/a/\">",
            "<a href=\"//other.test/a/\">",
            "<a href=\"http://example.com/a/\">",
            "<a href=\"/a/?add-to-cart=1\">",
            "<a href=\"/a/\" rel=\"nofollow\">",
            "<a class=\"no-prefetch\" href=\"/a/\">",
            "<a href=\"javascript:alert(1)\">",
            "<a href=\"/a&quot;b/\">",
            "<a href=\"/../%2f..\\\\\">",
            "<a href=/a/>",
            "<a href=\"/a/",
            "<a >",
        ] {
            assert!(links(none).is_empty(), "{none}");
        }
        assert_eq!(links(&"<a href=\"/a/\">".repeat(5000)).len(), MAX_LINKS);
    }

    #[test]
    fn rules_replace_those_before_and_no_others() {
        let mut fields = HeaderMap::new();
        fields.append(SPECULATION_RULES, HeaderValue::from_static("\"/own.json\""));
        let mut name = |paths: &[&str]| {
            let paths: Vec<Cow<'_, str>> = paths.iter().map(|path| Cow::Borrowed(*path)).collect();
            let has_changed = name_pages(&mut fields, "https://example.com", &paths);
            let values = fields.get_all(SPECULATION_RULES).iter();
            let values: Vec<String> = values
                .map(|value| value.to_str().unwrap().to_owned())
                .collect();
            (has_changed, values)
        };
        assert_eq!(name(&[]), (false, vec!["\"/own.json\"".to_owned()]));
        let (has_changed, values) = name(&["/a/", "/%E3/"]);
        assert!(has_changed);
        let text = values[1]
            .strip_prefix(PREFIX)
            .unwrap()
            .strip_suffix('"')
            .unwrap();
        let rules = percent_encoding::percent_decode_str(text)
            .decode_utf8()
            .unwrap();
        assert_eq!(
            rules,
            "{\"prefetch\":[{\"urls\":[\"https://example.com/a/\",\"https://example.com/%E3/\"],\"eagerness\":\"immediate\"}]}"
        );
        assert_eq!(name(&["/a/", "/%E3/"]), (false, values));
        assert_eq!(name(&["/b/"]).1.len(), 2);
        assert_eq!(name(&[]), (true, vec!["\"/own.json\"".to_owned()]));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_give_plain_paths(body in proptest::collection::vec(proptest::num::u8::ANY, 0..200), link in ".{0,40}") {
            let body = [&body[..], b"<a href=\"/", link.as_bytes(), b"\">"].concat();
            for path in linked_paths(&body, Scheme::Https, b"example.com") {
                proptest::prop_assert!(path.starts_with(b"/") && path.iter().copied().all(is_plain));
            }
        }
    }
}
