//! Requests that ask a WordPress for the names of its users.
//!
//! `/?author=1` redirects to an address with the login name in it, the REST API lists users, and so does a sitemap. Pages
//! of authors under their own address stay: who links them has told the name already.
//! A login cookie is not verified here, so that editors can go on working: who forges one gets what WordPress tells a
//! stranger. WordPress's own variables may come by the body too, so the body of what a page may answer is looked at.

use super::admin::is_urlencoded;
use crate::facts::{Facts, Method};
use crate::query::{Decoded, split_pair};

/// Whether the head asks for names. Does not allocate.
pub fn asks_in_head(facts: &Facts) -> bool {
    let path = facts.decoded_path();
    let raw = facts.raw_query().unwrap_or_default();
    let by_query = !is_own_business(path) && has_author(raw);
    let by_route = || rest_route(raw).any(is_users_route);
    let by_path = || {
        let route = memchr::memmem::find(path, b"/wp-json/").and_then(|at| path.get(at + 8..));
        route.is_some_and(|route| is_users_route(route.iter().copied()))
    };
    let by_map = || memchr::memmem::find(path, b"/wp-sitemap-users-").is_some();
    by_query || (!facts.has_login() && (by_route() || by_path())) || by_map()
}

/// Whether a body may ask: one that a page of the site answers. Forms of comments have a field of the same name, and go
/// to a script of their own.
pub(super) fn may_ask_in_body(facts: &Facts) -> bool {
    facts.method() == Method::Post && !is_own_business(facts.decoded_path())
}

/// Whether an urlencoded body, or one in parts, asks for names.
pub fn asks_in_body(content_type: &[u8], body: &[u8]) -> bool {
    if is_urlencoded(content_type) {
        return has_author(body);
    }
    let is_multipart = content_type
        .get(..10)
        .is_some_and(|start| start.eq_ignore_ascii_case(b"multipart/"));
    is_multipart && has_part(body)
}

/// Scripts and interfaces that have parameters of this name for themselves.
fn is_own_business(path: &[u8]) -> bool {
    let is_script = |segment: &[u8]| segment.ends_with(b".php") && segment != b"index.php";
    path.split(|&b| b == b'/')
        .any(|segment| segment == b"wp-admin" || segment == b"wp-json" || is_script(segment))
}

/// Whether a parameter sets PHP's `author` or a part of it.
fn has_author(raw: &[u8]) -> bool {
    raw.split(|&b| b == b'&').any(|part| {
        let mut name = Decoded(split_pair(part).0).skip_while(|&byte| byte == b' ');
        let is_it = b"author".iter().all(|wanted| name.next() == Some(*wanted));
        is_it && matches!(name.next(), None | Some(b'[' | 0))
    })
}

/// Whether a part has the name. Broader than PHP's own reading, which knows several quotes.
fn has_part(body: &[u8]) -> bool {
    memchr::memmem::find_iter(body, b"author").any(|at| {
        let before = body.get(..at).unwrap_or_default();
        let before = before.trim_ascii_end();
        let before = before.strip_suffix(b"\"").unwrap_or(before);
        let before = before.strip_suffix(b"'").unwrap_or(before).trim_ascii_end();
        let behind = body.get(at + 6).copied().unwrap_or(b' ');
        before.ends_with(b"=") && !(behind.is_ascii_alphanumeric() || matches!(behind, b'_' | b'-'))
    })
}

/// Values of `rest_route`.
fn rest_route(raw: &[u8]) -> impl Iterator<Item = Decoded<'_>> {
    raw.split(|&b| b == b'&').filter_map(|part| {
        let (name, value) = split_pair(part);
        let mut name = Decoded(name).skip_while(|&byte| byte == b' ');
        let is_it = b"rest_route"
            .iter()
            // PHP makes these three of the same letter.
            .all(|wanted| match name.next() {
                Some(b'.' | b' ' | b'[') => *wanted == b'_',
                other => other == Some(*wanted),
            });
        (is_it && matches!(name.next(), None | Some(0 | b'['))).then_some(Decoded(value))
    })
}

/// Whether a route of the REST API is that of users: `/wp/v2/users` and what is below. Letters count alike in any case, as
/// they do to WordPress.
fn is_users_route(route: impl Iterator<Item = u8>) -> bool {
    let mut route = route
        .skip_while(|&byte| byte == b'/')
        .map(|byte| byte.to_ascii_lowercase());
    let is_it = b"wp/v2/users"
        .iter()
        .all(|wanted| route.next() == Some(*wanted));
    is_it && matches!(route.next(), None | Some(b'/'))
}
