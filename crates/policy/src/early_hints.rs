//! The `Link` fields of a stored page that may be sent before its next version, as `103 Early Hints` (RFC 8297).
//!
//! Hints name files that a page needs, never its content: style sheets, scripts and fonts of the site, and servers to
//! connect to. Images belong to one version of the page, and other relations (`canonical`, `next`, `shortlink`)
//! describe the page, so they are omitted. Link-values are parsed by RFC 8288 section 3. Any bytes are accepted, and the
//! result is limited in size.

use http::HeaderMap;
use http::header::{HeaderValue, LINK};

use crate::fields;

/// The `Link` of an interim response for a page whose last version had the fields `stored`; `None` if there are no hints. `host`:
/// the host of the request.
pub fn hints(stored: &HeaderMap, host: &[u8]) -> Option<HeaderValue> {
    let mut joined = Vec::new();
    let lines = stored.get_all(LINK).iter().map(HeaderValue::as_bytes);
    let links = lines.flat_map(Links::of).filter(|link| is_hint(link, host));
    for link in links.take(MAX_LINKS) {
        if joined.len() + link.len() > MAX_BYTES {
            break;
        }
        if !joined.is_empty() {
            joined.extend_from_slice(b", ");
        }
        joined.extend_from_slice(link);
    }
    if joined.is_empty() {
        return None;
    }
    HeaderValue::from_bytes(&joined).ok()
}

/// The link-values of a field. A comma in `<...>` or in quotes does not separate.
struct Links<'a>(&'a [u8]);

impl<'a> Links<'a> {
    fn of(value: &'a [u8]) -> Self {
        Self(value)
    }
}

impl<'a> Iterator for Links<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while !self.0.is_empty() {
            let (link, rest) = match end_of_link(self.0) {
                Some(at) => (self.0.get(..at)?, self.0.get(at + 1..)?),
                None => (self.0, &b""[..]),
            };
            self.0 = rest;
            let link = link.trim_ascii();
            if !link.is_empty() {
                return Some(link);
            }
        }
        None
    }
}

/// The position of the comma after the first link-value.
fn end_of_link(value: &[u8]) -> Option<usize> {
    let mut until = None;
    let mut is_escaped = false;
    value.iter().position(|&byte| {
        match (until, byte) {
            _ if is_escaped => is_escaped = false,
            (Some(b'"'), b'\\') => is_escaped = true,
            (Some(end), _) if end == byte => until = None,
            (Some(_), _) => {}
            (None, b'<') => until = Some(b'>'),
            (None, b'"') => until = Some(b'"'),
            (None, _) => return byte == b',',
        }
        false
    })
}

fn is_hint(link: &[u8], host: &[u8]) -> bool {
    let is_text = link.iter().all(|byte| (b' '..=b'~').contains(byte));
    let inner = link.strip_prefix(b"<").filter(|_| is_text);
    let Some((inner, end)) = inner.and_then(|inner| Some((inner, memchr::memchr(b'>', inner)?)))
    else {
        return false;
    };
    let (target, parameters) = inner.split_at(end);
    let parameters = parameters.get(1..).unwrap_or_default();
    let mut rel = None;
    let mut kind = None;
    for part in fields::parts(parameters) {
        let (name, value) = fields::name_value(part);
        // Of repeated parameters the first counts (RFC 8288 section 3.3).
        if name.eq_ignore_ascii_case(b"rel") {
            rel = rel.or(value);
        } else if name.eq_ignore_ascii_case(b"as") {
            kind = kind.or(value);
        }
    }
    let is_one_of = |value: Option<&[u8]>, words: &[&str]| {
        value.is_some_and(|value| {
            words
                .iter()
                .any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
        })
    };
    if is_one_of(rel, &["preconnect"]) {
        return !target.is_empty();
    }
    let is_file = is_one_of(rel, &["modulepreload"])
        || (is_one_of(rel, &["preload"]) && is_one_of(kind, FILES));
    is_file && is_of_site(target, host)
}

/// Whether a target is a path of the site, or a URL with its host.
fn is_of_site(target: &[u8], host: &[u8]) -> bool {
    let authority = match target {
        [b'/', b'/', rest @ ..] => rest,
        [b'/', ..] => return true,
        _ => {
            let rest = target.strip_prefix(b"https://");
            match rest.or_else(|| target.strip_prefix(b"http://")) {
                Some(rest) => rest,
                None => return false,
            }
        }
    };
    let end = memchr::memchr(b'/', authority).unwrap_or(authority.len());
    authority
        .get(..end)
        .is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

/// The values of `as` for files that the pages of a theme share.
const FILES: &[&str] = &["style", "script", "font"];

/// The maximum number of links. More would not fit into the first packets of a connection.
const MAX_LINKS: usize = 10;
const MAX_BYTES: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(lines: &[&str]) -> Option<String> {
        let mut stored = HeaderMap::new();
        for line in lines {
            stored.append(LINK, HeaderValue::from_bytes(line.as_bytes()).unwrap());
        }
        let hints = hints(&stored, b"example.com")?;
        Some(hints.to_str().unwrap().to_owned())
    }

    #[test]
    fn only_files_and_servers_are_hints() {
        for kept in [
            "</a.css>; rel=preload; as=style",
            "</a.css?x=1,2>; rel=\"preload\"; as=\"style\"",
            "</a.js>;rel=PRELOAD;as=Script;nopush",
            "<https://example.com/f.woff2>; rel=preload; as=font; crossorigin",
            "<//example.com/f.woff2>; rel=preload; as=font",
            "<https://fonts.example.net>; rel=preconnect; crossorigin",
            "</m.js>; rel=modulepreload",
            "</a.css>; rel=preload; as=style; title=\"a, b\"",
        ] {
            assert_eq!(of(&[kept]).as_deref(), Some(kept));
        }
        for dropped in [
            "<https://example.com/wp-json/>; rel=\"https://api.w.org/\"",
            "<https://example.com/?p=1>; rel=shortlink",
            "</a.jpg>; rel=preload; as=image",
            "</a>; rel=preload",
            "</a>; as=style",
            "<https://elsewhere.test/a.css>; rel=preload; as=style",
            "<//elsewhere.test/a.css>; rel=preload; as=style",
            "<https://example.com.elsewhere.test/a.css>; rel=preload; as=style",
            "<a.css>; rel=preload; as=style",
            "<>; rel=preconnect",
            "</a.css; rel=preload; as=style",
            "/a.css; rel=preload; as=style",
            "</a.css>; rel=next; rel=preload; as=style",
            "</a\u{e9}.css>; rel=preload; as=style",
            "",
            ",,",
        ] {
            assert_eq!(of(&[dropped]), None, "{dropped}");
        }
    }

    #[test]
    fn links_of_all_lines_are_joined_up_to_the_limits() {
        let both = of(&[
            "</a.css>; rel=preload; as=style, </p>; rel=next, </b,c.css>; rel=preload; as=style",
            "</d.js>; rel=preload; as=script",
        ]);
        let wanted = "</a.css>; rel=preload; as=style, </b,c.css>; rel=preload; as=style, </d.js>; rel=preload; as=script";
        assert_eq!(both.as_deref(), Some(wanted));
        let one = "</a.css>; rel=preload; as=style";
        let many = of(&[one; 50]).unwrap();
        assert_eq!(many.matches("preload").count(), MAX_LINKS);
        let long = format!("</{}.css>; rel=preload; as=style", "a".repeat(1500));
        assert_eq!(of(&[&long, &long]).as_deref(), Some(long.as_str()));
    }

    proptest! {
        #[test]
        fn hints_are_parts_of_the_field(line in proptest::collection::vec(any::<u8>(), 0..120)) {
            if let Ok(value) = HeaderValue::from_bytes(&line) {
                let mut stored = HeaderMap::new();
                stored.insert(LINK, value);
                if let Some(hints) = hints(&stored, b"example.com") {
                    let text = hints.to_str().unwrap().to_ascii_lowercase();
                    prop_assert!(text.starts_with('<') && text.contains("rel"));
                    prop_assert!(text.len() <= MAX_BYTES + 2 * MAX_LINKS);
                }
            }
        }
    }
}
