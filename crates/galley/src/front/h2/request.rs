//! From what the library read to the head that everybody else works with.

use galley_wire::framing::{self, Framing};
use galley_wire::h2::{self, Line, Room};
use galley_wire::head::{self, Head, Refusal};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, header};

/// The pseudo-header fields. `#` and what follows it in a path are gone: the library takes it for a fragment.
pub(super) fn line(parts: &Parts) -> Line<'_> {
    let authority = parts.uri.authority().map(http::uri::Authority::as_str);
    let target = match &parts.method {
        &Method::CONNECT => authority,
        _ => parts
            .uri
            .path_and_query()
            .map(http::uri::PathAndQuery::as_str),
    };
    Line {
        method: parts.method.as_str(),
        scheme: parts.uri.scheme_str(),
        authority,
        target: target.unwrap_or_default(),
    }
}

/// The head and its framing; `is_end`: there is no body. `crumbs` comes from [`join_crumbs`].
pub(super) fn head<'b, 'r>(
    parts: &'b Parts,
    crumbs: &'b [u8],
    head_bytes: usize,
    room: &'r mut Room<'b>,
    is_end: bool,
) -> Result<(Head<'b, 'r>, Framing<'b>), Refusal> {
    let limits = head::Limits {
        head_bytes,
        ..head::Limits::default()
    };
    let joined = (!crumbs.is_empty()).then_some(("cookie", crumbs));
    let fields = parts
        .headers
        .iter()
        .filter(|(name, _)| crumbs.is_empty() || *name != header::COOKIE)
        .map(|(name, value)| (name.as_str(), value.as_bytes()));
    let head = h2::head(&line(parts), fields.chain(joined), &limits, room)?;
    let framing = framing::frame_h2(&head, is_end)?;
    Ok((head, framing))
}

/// Joins what a browser has cut its cookies into (RFC 9113 section 8.2.3); nothing where they are whole.
pub(super) fn join_crumbs(fields: &HeaderMap, crumbs: &mut Vec<u8>) {
    crumbs.clear();
    let mut all = fields.get_all(header::COOKIE).iter();
    if all.nth(1).is_none() {
        return;
    }
    for crumb in fields
        .get_all(header::COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
    {
        if !crumbs.is_empty() {
            crumbs.extend_from_slice(b"; ");
        }
        crumbs.extend_from_slice(crumb);
    }
}

/// How urgent it is, from 0 to 7, by its `priority` (RFC 9218 section 4.1); 3 where it does not say.
pub(super) fn urgency(fields: &HeaderMap) -> u8 {
    let Some(value) = fields.get("priority") else {
        return USUAL_URGENCY;
    };
    let mut members = value.as_bytes().split(|byte| *byte == b',');
    members
        .find_map(|member| match member.trim_ascii() {
            [b'u', b'=', digit @ b'0'..=b'7'] => Some(digit - b'0'),
            _ => None,
        })
        .unwrap_or(USUAL_URGENCY)
}

/// RFC 9218 section 4.1.
pub(super) const USUAL_URGENCY: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crumbs_become_one_cookie() {
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
        let mut room = Room::new();
        let (head, _) = head(&parts, &crumbs, 1000, &mut room, true).unwrap();
        let fields: Vec<_> = head.fields().collect();
        assert_eq!(
            fields,
            [("host", &b"a.test"[..]), ("cookie", b"a=1; b=2; c=3")]
        );
        assert_eq!(head.target, b"/x");
    }

    #[test]
    fn urgency_is_what_the_field_says() {
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
        assert_eq!(urgency(&HeaderMap::new()), USUAL_URGENCY);
    }
}
