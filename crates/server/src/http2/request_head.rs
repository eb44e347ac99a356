//! Converts a request that the library or the fast path has parsed to the request head that all other modules use.

use galley_http::framing::{self, Framing};
use galley_http::h2::{self, Http2HeadBuffer, PseudoFields};
use galley_http::head::{self, BadRequest, Head, Version};
use galley_http::hpack::Block;
use galley_http::priority::{self, DEFAULT_URGENCY};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, header};

/// The pseudo-header fields. A path is cut at `#`, which the library takes for the start of a fragment.
pub(super) fn line(parts: &Parts) -> PseudoFields<'_> {
    let authority = parts.uri.authority().map(http::uri::Authority::as_str);
    let target = match &parts.method {
        &Method::CONNECT => authority,
        _ => parts
            .uri
            .path_and_query()
            .map(http::uri::PathAndQuery::as_str),
    };
    PseudoFields {
        method: parts.method.as_str(),
        scheme: parts.uri.scheme_str(),
        authority,
        target: target.unwrap_or_default(),
        version: Version::H2,
    }
}

/// The head and its framing; `is_end`: there is no body. `crumbs` is the result of [`join_crumbs`].
pub(super) fn head<'b, 'r>(
    parts: &'b Parts,
    crumbs: &'b [u8],
    head_bytes: usize,
    buffer: &'r mut Http2HeadBuffer<'b>,
    is_end: bool,
) -> Result<(Head<'b, 'r>, Framing<'b>), BadRequest> {
    let limits = head::HeadLimits {
        head_bytes,
        ..head::HeadLimits::default()
    };
    let joined = (!crumbs.is_empty()).then_some((&b"cookie"[..], crumbs));
    let fields =
        bytes_of(&parts.headers).filter(|(name, _)| crumbs.is_empty() || *name != b"cookie");
    let head = h2::head(&line(parts), fields.chain(joined), &limits, buffer)?;
    let framing = framing::frame_h2(&head, is_end)?;
    Ok((head, framing))
}

/// The names and values of fields.
pub(super) fn bytes_of(fields: &HeaderMap) -> impl Iterator<Item = (&[u8], &[u8])> {
    let fields = fields.iter();
    fields.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
}

/// Joins the parts of a browser's cookies (RFC 9113 section 8.2.3); empty if there is nothing to join.
pub(super) fn join_crumbs(fields: &HeaderMap, crumbs: &mut Vec<u8>) {
    let all = fields.get_all(header::COOKIE).iter();
    h2::join_crumbs(all.map(HeaderValue::as_bytes), crumbs);
}

/// The pseudo-header fields of a block that has each of them once (RFC 9113 section 8.3.1).
pub(crate) struct Pseudo<'b> {
    method: &'b [u8],
    scheme: &'b [u8],
    authority: &'b [u8],
    path: &'b [u8],
}

impl<'b> Pseudo<'b> {
    /// `None`: one is missing, repeated, or unknown.
    pub(crate) fn of(block: &'b Block) -> Option<Self> {
        let (mut method, mut scheme, mut authority, mut path) = (None, None, None, None);
        for (name, value) in block.fields().take_while(|(name, _)| h2::is_pseudo(name)) {
            let slot = match name {
                b":method" => &mut method,
                b":scheme" => &mut scheme,
                b":authority" => &mut authority,
                b":path" => &mut path,
                _ => return None,
            };
            if slot.replace(value).is_some() {
                return None;
            }
        }
        Some(Self {
            method: method?,
            scheme: scheme?,
            authority: authority?,
            path: path?,
        })
    }

    /// The request line of a plain `GET` or `HEAD`. Anything that the library of HTTP/2 might parse differently is not plain.
    pub(crate) fn plain_line(&self, version: Version) -> Option<PseudoFields<'b>> {
        let method = match self.method {
            b"GET" => "GET",
            b"HEAD" => "HEAD",
            _ => return None,
        };
        let scheme = match self.scheme {
            b"http" => "http",
            b"https" => "https",
            _ => return None,
        };
        let is_plain = |&byte: &u8| {
            byte.is_ascii_graphic()
                & !matches!(
                    byte,
                    b'#' | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}'
                )
        };
        let is_visible = self
            .path
            .iter()
            .fold(true, |all, byte| all & is_plain(byte));
        if !self.path.starts_with(b"/") || !is_visible {
            return None;
        }
        Some(PseudoFields {
            method,
            scheme: Some(scheme),
            authority: Some(std::str::from_utf8(self.authority).ok()?),
            target: std::str::from_utf8(self.path).ok()?,
            version,
        })
    }
}

/// The urgency of a request, from 0 to 7, in its `priority` (RFC 9218 section 4.1); 3 if it has none.
pub(super) fn urgency(fields: &HeaderMap) -> u8 {
    let value = fields.get("priority");
    value.map_or(DEFAULT_URGENCY, |value| priority::urgency(value.as_bytes()))
}

#[cfg(test)]
mod tests {
    use galley_http::hpack;

    use super::*;

    #[test]
    fn cookie_crumbs_are_joined() {
        let mut fields = HeaderMap::new();
        let mut crumbs = Vec::new();
        fields.append(header::COOKIE, HeaderValue::from_static("a=1; b=2"));
        join_crumbs(&fields, &mut crumbs);
        assert!(crumbs.is_empty(), "there is nothing to join");
        fields.append(header::COOKIE, HeaderValue::from_static("c=3"));
        join_crumbs(&fields, &mut crumbs);
        assert_eq!(crumbs, b"a=1; b=2; c=3");
        let mut request = http::Request::new(());
        *request.headers_mut() = fields;
        *request.uri_mut() = "http://a.test/x".parse().unwrap();
        let (parts, ()) = request.into_parts();
        let mut buffer = Http2HeadBuffer::new();
        let (head, _) = head(&parts, &crumbs, 1000, &mut buffer, true).unwrap();
        let fields: Vec<_> = head.fields().collect();
        assert_eq!(
            fields,
            [("host", &b"a.test"[..]), ("cookie", b"a=1; b=2; c=3")]
        );
        assert_eq!(head.target, b"/x");
    }

    fn block(fields: &[(&str, &str)]) -> Block {
        let mut encoded = Vec::new();
        for (name, value) in fields {
            hpack::write_field(&mut encoded, name.as_bytes(), value.as_bytes());
        }
        let mut block = Block::default();
        let decoded = hpack::HpackDecoder::default().decode(&encoded, 10_000, &mut block);
        decoded.map(|()| block).unwrap()
    }

    #[test]
    fn requests_that_are_not_plain_are_passed_to_the_library() {
        const LINE: [(&str, &str); 4] = [
            (":method", "GET"),
            (":scheme", "https"),
            (":path", "/a?b"),
            (":authority", "a.test"),
        ];
        let line = |at: usize, value: &'static str| {
            let mut fields = LINE;
            fields[at].1 = value;
            fields.to_vec()
        };
        let is_plain = |fields: &[(&str, &str)]| {
            Pseudo::of(&block(fields))
                .is_some_and(|pseudo| pseudo.plain_line(Version::H2).is_some())
        };
        assert!(is_plain(&LINE) && is_plain(&line(0, "HEAD")));
        for fields in [
            line(0, "POST"),
            line(0, "get"),
            line(1, "ftp"),
            line(2, "*"),
            line(2, ""),
            line(2, "/a#b"),
            line(2, "/a b"),
            line(2, "/a\u{e4}"),
            LINE[1..].to_vec(),
            LINE[..3].to_vec(),
            [&LINE[..], &[(":path", "/b")]].concat(),
            [&LINE[..], &[(":protocol", "x")]].concat(),
            [&[("x", "y")][..], &LINE].concat(),
        ] {
            assert!(!is_plain(&fields), "{fields:?}");
        }
        let crumbled = [
            &LINE[..],
            &[("cookie", "a=1"), ("x", "y"), ("cookie", "b=2")],
        ]
        .concat();
        let crumbled = block(&crumbled);
        let mut crumbs = Vec::new();
        h2::join_crumbs(h2::crumbs_of(&crumbled), &mut crumbs);
        assert_eq!(crumbs, b"a=1; b=2");
        assert_eq!(h2::fields_of(&crumbled).count(), 3);
    }

    #[test]
    fn urgency_is_read_from_the_priority_field() {
        for (value, wanted) in [
            ("u=0", 0),
            ("i, u=7", 7),
            ("u=5,i", 5),
            ("u=8", 3),
            ("u=-1", 3),
            ("uu=1", 3),
            ("i", 3),
            ("", 3),
        ] {
            let mut fields = HeaderMap::new();
            fields.insert("priority", HeaderValue::from_static(value));
            assert_eq!(urgency(&fields), wanted, "{value}");
        }
        assert_eq!(urgency(&HeaderMap::new()), DEFAULT_URGENCY);
    }
}
