//! Responses that are compressed while they are sent: their coding and validators.
//!
//! The points at which a stream is flushed depend on when its pieces arrive, so its bytes differ each time: a strong
//! validator would be wrong (RFC 9110 §8.8.1). For a page that is being stored, the validator is the weak form of the one
//! that its stored coding will have. A passed response is validated by its upstream, which must get the tag that it sent: a
//! strong tag is sent as a weak one with a mark, and restored in the conditions of requests that bypass the cache.

use http::header::{self, HeaderMap, HeaderValue};

use super::{Compress, coded_fields};
use crate::conditional::split_tag;
use crate::encoding::{AcceptedCodings, Coding};

impl Compress {
    /// The coding for a response that is coded while it is sent; `None`: the plain body.
    ///
    /// Client weights decide first, then gzip is preferred. For pages of WordPress, gzip at level 5 takes half the work and a third
    /// of the memory of br at level 4, and its results are 2% larger. A stored page is coded once, so there br is worth its cost.
    pub fn choose_live(&self, accepted: AcceptedCodings) -> Option<Coding> {
        let mut order: smallvec::SmallVec<[Coding; 4]> = LIVE_ORDER
            .into_iter()
            .filter(|coding| self.codings.contains(coding))
            .collect();
        order.push(Coding::Identity);
        accepted
            .first_best(&order)
            .filter(|coding| *coding != Coding::Identity)
    }
}

/// The head of a page that is stored while it is sent in `coding`.
pub fn shared_fields(plain: &HeaderMap, coding: Coding) -> HeaderMap {
    let mut fields = coded_fields(plain, coding);
    let weak = fields
        .get(header::ETAG)
        .map(HeaderValue::as_bytes)
        .filter(|etag| etag.starts_with(b"\""))
        .and_then(|strong| HeaderValue::from_bytes(&[b"W/", strong].concat()).ok());
    if let Some(weak) = weak {
        fields.insert(header::ETAG, weak);
    }
    fields
}

/// The head of a response for one client that is sent in `coding`.
pub fn passed_fields(plain: &HeaderMap, coding: Coding) -> HeaderMap {
    let mut fields = coded_fields(plain, coding);
    if let Some(etag) = plain.get(header::ETAG) {
        let etag = marked(etag.as_bytes(), coding).unwrap_or_else(|| etag.clone());
        fields.insert(header::ETAG, etag);
    }
    fields
}

/// A list of tags (`If-None-Match`, `If-Match`) in which marked tags are replaced by those of the upstream; `None` if there is
/// no marked tag. Not for `If-Range`: parts of the plain body cannot be combined with a coded one.
pub fn plain_tags(list: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(list.len());
    let mut is_changed = false;
    let mut rest = list;
    while let Some((first, after_first)) = rest.split_first() {
        let Some((tag, after)) = split_tag(rest) else {
            plain.push(*first);
            rest = after_first;
            continue;
        };
        if let Some(opaque) = unmarked(tag) {
            is_changed = true;
            plain.push(b'"');
            plain.extend_from_slice(opaque);
            plain.push(b'"');
        } else {
            plain.extend_from_slice(tag);
        }
        rest = after;
    }
    is_changed.then_some(plain)
}

/// The tag of a 304 in the marked form, if the client sent that form. `sent`: the client's `If-None-Match`.
pub fn known_tag(etag: &HeaderValue, sent: &[u8]) -> Option<HeaderValue> {
    LIVE_ORDER
        .into_iter()
        .filter_map(|coding| marked(etag.as_bytes(), coding))
        .find(|marked| memchr::memmem::find(sent, marked.as_bytes()).is_some())
}

/// The marked form of a tag: `"x"` becomes `W/"x;br"`. `None` for a weak tag, which may already be that of several codings (RFC
/// 9110 §8.8.1).
fn marked(etag: &[u8], coding: Coding) -> Option<HeaderValue> {
    let opaque = etag.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let token = coding.token().as_bytes();
    HeaderValue::from_bytes(&[b"W/\"", opaque, MARK, token, b"\""].concat()).ok()
}

/// The inverse of [`marked`], without quotes.
fn unmarked(tag: &[u8]) -> Option<&[u8]> {
    let opaque = tag.strip_prefix(b"W/\"")?.strip_suffix(b"\"")?;
    LIVE_ORDER.into_iter().find_map(|coding| {
        opaque
            .strip_suffix(coding.token().as_bytes())?
            .strip_suffix(MARK)
    })
}

/// The preferred order of codings with equal weights.
const LIVE_ORDER: [Coding; 3] = [Coding::Gzip, Coding::Zstd, Coding::Brotli];

/// The separator of a mark. Upstreams use a hyphen in tags of coded bodies, so their tags cannot be mistaken for marked ones.
const MARK: &[u8] = b";";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn with_etag(etag: &str) -> HeaderMap {
        let mut fields = HeaderMap::new();
        fields.insert(header::ETAG, HeaderValue::from_str(etag).unwrap());
        fields
    }

    #[test]
    fn only_configured_codings_are_chosen() {
        let settings = |codings: &[Coding]| Compress {
            codings: codings.to_vec(),
            types: Vec::new(),
            min_bytes: 0,
            gzip_level: 5,
            brotli_level: 4,
            zstd_level: 3,
            dense_after: 0,
        };
        let usual = settings(&[Coding::Brotli, Coding::Gzip]);
        let table = [
            ("gzip, deflate, br, zstd", Some(Coding::Gzip)),
            ("gzip;q=0.9, br", Some(Coding::Brotli)),
            ("br, zstd", Some(Coding::Brotli)),
            ("zstd", None),
            ("*", Some(Coding::Gzip)),
            ("identity, gzip;q=0.5", None),
            ("", None),
        ];
        for (line, wanted) in table {
            let mut accepted = AcceptedCodings::default();
            accepted.read(line.as_bytes());
            assert_eq!(usual.choose_live(accepted), wanted, "{line}");
            assert_eq!(settings(&[]).choose_live(accepted), None, "{line}");
        }
        let mut accepted = AcceptedCodings::default();
        accepted.read(b"br, zstd");
        let all = settings(&[Coding::Zstd, Coding::Brotli]);
        assert_eq!(all.choose_live(accepted), Some(Coding::Zstd));
    }

    #[test]
    fn a_stream_has_no_strong_validator() {
        let table = [
            ("\"x\"", "W/\"x-br\"", "W/\"x;br\""),
            ("W/\"x\"", "W/\"x-br\"", "W/\"x\""),
            ("\"\"", "W/\"-br\"", "W/\";br\""),
        ];
        for (plain, shared, passed) in table {
            let plain = with_etag(plain);
            assert_eq!(shared_fields(&plain, Coding::Brotli)["etag"], shared);
            assert_eq!(passed_fields(&plain, Coding::Brotli)["etag"], passed);
        }
        let none = HeaderMap::new();
        assert!(!shared_fields(&none, Coding::Gzip).contains_key("etag"));
        assert!(!passed_fields(&none, Coding::Gzip).contains_key("etag"));
    }

    #[test]
    fn conditions_are_forwarded_with_the_tags_of_the_upstream() {
        let table: &[(&str, Option<&str>)] = &[
            ("W/\"x;br\"", Some("\"x\"")),
            (
                "\"a\", W/\"b;gzip\" ,W/\"c,d;zstd\"",
                Some("\"a\", \"b\" ,\"c,d\""),
            ),
            ("\"x;br\"", None),
            ("W/\"x-br\"", None),
            ("W/\"x;deflate\"", None),
            ("W/\"x;br", None),
            ("*", None),
            ("", None),
        ];
        for (sent, wanted) in table {
            let plain = plain_tags(sent.as_bytes());
            assert_eq!(plain.as_deref(), wanted.map(str::as_bytes), "{sent}");
        }
    }

    #[test]
    fn a_304_has_the_tag_that_the_client_sent() {
        let etag = HeaderValue::from_static("\"x\"");
        let known = |sent: &str| known_tag(&etag, sent.as_bytes());
        assert_eq!(known("\"y\", W/\"x;gzip\"").unwrap(), "W/\"x;gzip\"");
        assert_eq!(known("\"x\""), None);
        assert_eq!(known("W/\"y;gzip\""), None);
    }

    proptest! {
        #[test]
        fn marked_tags_are_restored(opaque in "[!#-~]{0,12}") {
            let etag = format!("\"{opaque}\"");
            for coding in LIVE_ORDER {
                let marked = marked(etag.as_bytes(), coding).unwrap();
                let plain = plain_tags(marked.as_bytes());
                prop_assert_eq!(plain.as_deref(), Some(etag.as_bytes()));
            }
        }

        #[test]
        fn never_panics(list in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = plain_tags(&list);
        }
    }
}
