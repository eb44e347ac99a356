//! Which responses are worth a content coding, and the heads of coded responses.
//!
//! A coded response is a separate representation (RFC 9110 §8.4): it has its own validator, and `Vary` states that
//! `Accept-Encoding` selected it. Responses that the origin has coded, with `no-transform` (RFC 9111 §5.2.2.6), partial
//! ones and event streams are not changed. Stored responses have strong validators; [`live`] is about responses that are
//! coded while they are sent.

pub mod live;

use http::header::{self, HeaderMap, HeaderValue};
use http::{HeaderName, StatusCode};

use crate::encoding::Coding;

/// The compression settings of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compress {
    /// Codings that are stored in addition to the plain body, and used for responses that are coded while they are sent.
    pub codings: Vec<Coding>,
    /// Media types, in lower case; `text/*` is every type of text.
    pub types: Vec<String>,
    /// The minimum size of a body, in bytes.
    pub min_bytes: u64,
    /// The level of gzip, 1 to 9, for a page that was just stored.
    pub gzip_level: u32,
    /// The level of br, 0 to 11, for a page that was just stored.
    pub brotli_level: u32,
    /// The level of zstd, 1 to 9, for a page that was just stored.
    pub zstd_level: u32,
    /// The number of hits after which a page is compressed again at a high level; 0: never.
    pub dense_after: u64,
}

impl Compress {
    /// Whether a response may be coded, and is worth it.
    pub fn is_for(&self, status: StatusCode, fields: &HeaderMap, length: u64) -> bool {
        length >= self.min_bytes
            && matches!(status.as_u16(), 200 | 203 | 404 | 410)
            && self.is_for_fields(fields)
    }

    /// Whether a response whose body is about to arrive may be coded while it is sent. `length`: the size of the body in bytes,
    /// if it is known; an unknown size counts as worth it.
    pub fn is_for_live(&self, status: StatusCode, fields: &HeaderMap, length: Option<u64>) -> bool {
        let has_content = !(status.is_informational()
            || status.is_redirection()
            || matches!(status.as_u16(), 204..=206));
        has_content
            && length.is_none_or(|length| length >= self.min_bytes)
            && self.is_for_fields(fields)
    }

    fn is_for_fields(&self, fields: &HeaderMap) -> bool {
        !self.codings.is_empty()
            && !fields.contains_key(header::CONTENT_ENCODING)
            && !fields.contains_key(header::CONTENT_RANGE)
            && !forbids_transforming(fields)
            && fields
                .get(header::CONTENT_TYPE)
                .is_some_and(|value| self.is_of_types(value.as_bytes()))
    }

    fn is_of_types(&self, content_type: &[u8]) -> bool {
        let end = content_type.iter().position(|byte| *byte == b';');
        let media_type = content_type.get(..end.unwrap_or(content_type.len()));
        let media_type = media_type.unwrap_or_default().trim_ascii();
        // Each event must arrive when it is sent, and the stream has no end.
        if media_type.eq_ignore_ascii_case(b"text/event-stream") {
            return false;
        }
        self.types
            .iter()
            .any(|listed| match listed.strip_suffix('*') {
                Some(prefix) => media_type
                    .get(..prefix.len())
                    .is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes())),
                None => media_type.eq_ignore_ascii_case(listed.as_bytes()),
            })
    }
}

fn forbids_transforming(fields: &HeaderMap) -> bool {
    let lines = fields.get_all(header::CACHE_CONTROL).iter();
    lines
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .any(|directive| directive.trim_ascii().eq_ignore_ascii_case(b"no-transform"))
}

/// The head of a response in `coding`.
pub fn coded_fields(plain: &HeaderMap, coding: Coding) -> HeaderMap {
    let mut fields = plain.clone();
    remove_byte_fields(&mut fields);
    fields.insert(
        header::CONTENT_ENCODING,
        HeaderValue::from_static(coding.token()),
    );
    if let Some(etag) = plain
        .get(header::ETAG)
        .and_then(|etag| etag_of(etag, coding))
    {
        fields.insert(header::ETAG, etag);
    } else {
        fields.remove(header::ETAG);
    }
    vary_on_coding(&mut fields);
    fields
}

/// Removes fields that describe other bytes than the sent ones. This includes `Repr-Digest`, since the bytes of a representation
/// are those of its coding (RFC 9530 §3).
pub(crate) fn remove_byte_fields(fields: &mut HeaderMap) {
    fields.remove(header::CONTENT_LENGTH);
    fields.remove(header::ACCEPT_RANGES);
    for digest in DIGESTS {
        fields.remove(digest);
    }
}

/// Adds `Accept-Encoding` to `Vary`; the plain response needs it as well as the coded one.
pub fn vary_on_coding(fields: &mut HeaderMap) {
    let names = fields.get_all(header::VARY).iter();
    let is_named = names
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .any(|name| {
            let name = name.trim_ascii();
            name == b"*" || name.eq_ignore_ascii_case(b"accept-encoding")
        });
    if !is_named {
        fields.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    }
}

/// The entity tag in a coding: `"x"` becomes `"x-gzip"`; weak tags stay weak. `None` if it is not an entity tag.
fn etag_of(plain: &HeaderValue, coding: Coding) -> Option<HeaderValue> {
    let opaque = plain.as_bytes().strip_suffix(b"\"")?;
    HeaderValue::from_bytes(&[opaque, b"-", coding.token().as_bytes(), b"\""].concat()).ok()
}

/// Digests of the plain content, which are wrong for coded content (RFC 9530).
const DIGESTS: [HeaderName; 4] = [
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("digest"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Compress {
        Compress {
            codings: vec![Coding::Brotli, Coding::Gzip],
            types: vec!["text/*".to_owned(), "application/json".to_owned()],
            min_bytes: 100,
            gzip_level: 5,
            brotli_level: 4,
            zstd_level: 3,
            dense_after: 0,
        }
    }

    fn fields(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            })
            .collect()
    }

    #[test]
    fn responses_worth_a_coding_are_selected() {
        const HTML: (&str, &str) = ("content-type", "Text/HTML; charset=utf-8");
        type Lines = &'static [(&'static str, &'static str)];
        let table: &[(u16, Lines, u64, bool)] = &[
            (200, &[HTML], 100, true),
            (200, &[HTML], 99, false),
            (404, &[HTML], 100, true),
            (206, &[HTML], 100, false),
            (302, &[HTML], 100, false),
            (200, &[("content-type", "application/json")], 100, true),
            (200, &[("content-type", "application/jsonp")], 100, false),
            (200, &[("content-type", "image/png")], 100, false),
            (200, &[("content-type", "tex")], 100, false),
            (
                200,
                &[("content-type", "Text/Event-Stream; x=y")],
                100,
                false,
            ),
            (200, &[], 100, false),
            (200, &[HTML, ("content-encoding", "gzip")], 100, false),
            (200, &[HTML, ("content-range", "bytes 0-1/2")], 100, false),
            (
                200,
                &[HTML, ("cache-control", "max-age=1, No-Transform")],
                100,
                false,
            ),
            (200, &[HTML, ("cache-control", "max-age=1")], 100, true),
        ];
        for (status, lines, length, expected) in table {
            let status = StatusCode::from_u16(*status).unwrap();
            assert_eq!(
                settings().is_for(status, &fields(lines), *length),
                *expected,
                "{status} {lines:?} {length}"
            );
        }
        let off = Compress {
            codings: Vec::new(),
            ..settings()
        };
        assert!(!off.is_for(StatusCode::OK, &fields(&[HTML]), 1000));
    }

    #[test]
    fn responses_to_code_while_sending_are_selected() {
        let html = fields(&[("content-type", "text/html")]);
        let table = [
            (200, None, true),
            (200, Some(100), true),
            (200, Some(99), false),
            (403, None, true),
            (500, None, true),
            (201, None, true),
            (204, None, false),
            (205, None, false),
            (206, None, false),
            (302, None, false),
            (304, None, false),
            (103, None, false),
        ];
        for (status, length, expected) in table {
            let status = StatusCode::from_u16(status).unwrap();
            let is_for = settings().is_for_live(status, &html, length);
            assert_eq!(is_for, expected, "{status} {length:?}");
        }
        let events = fields(&[("content-type", "text/event-stream")]);
        assert!(!settings().is_for_live(StatusCode::OK, &events, None));
    }

    #[test]
    fn a_coded_head_has_its_own_validator_and_vary() {
        let plain = fields(&[
            ("etag", "\"x\""),
            ("vary", "Cookie"),
            ("content-length", "5"),
            ("content-md5", "abc"),
            ("content-type", "text/html"),
        ]);
        let coded = coded_fields(&plain, Coding::Gzip);
        assert_eq!(coded["etag"], "\"x-gzip\"");
        assert_eq!(coded["content-encoding"], "gzip");
        assert_eq!(coded["content-type"], "text/html");
        assert!(!coded.contains_key("content-length") && !coded.contains_key("content-md5"));
        let vary: Vec<_> = coded.get_all("vary").iter().collect();
        assert_eq!(vary, ["Cookie", "Accept-Encoding"]);
        let weak = coded_fields(&fields(&[("etag", "W/\"x\"")]), Coding::Brotli);
        assert_eq!(weak["etag"], "W/\"x-br\"");
        let odd = coded_fields(&fields(&[("etag", "x")]), Coding::Brotli);
        assert!(!odd.contains_key("etag"));
        let named = fields(&[("vary", "cookie, accept-encoding")]);
        assert_eq!(
            coded_fields(&named, Coding::Gzip)
                .get_all("vary")
                .iter()
                .count(),
            1
        );
    }
}
