//! Detection of requests for the names of a WordPress's users.
//!
//! `/?author=1` redirects to a URL that contains the login name, the REST API lists users and embeds them into posts,
//! oEmbed returns the URL of a post's author, and a sitemap lists all users. The pages of authors under their own URL stay
//! accessible: a link to one has already published the name.
//!
//! A login cookie is not verified here, so that editors can continue to work: a client that forges one gets what WordPress
//! shows to anonymous visitors. WordPress also reads its own variables from the body, so the body of a request for a page
//! is checked.

use crate::query::{FormDecoded, split_pair};
use crate::request_info::{Method, RequestInfo};
use crate::spellings::{FormScanner, is_own_script, is_rest};

/// Whether the head requests names of users. Does not allocate.
pub fn requests_user_names(info: &RequestInfo) -> bool {
    let path = info.decoded_path();
    let raw = info.raw_query().unwrap_or_default();
    let by_query = !has_separate_parameters(info) && (has_author(raw) || has_sitemap(raw));
    let route = || {
        let starts = memchr::memmem::find_iter(path, b"/wp-json/");
        starts.filter_map(|at| path.get(at + 8..))
    };
    let by_path = || route().any(|route| names_users(&route.iter().copied()));
    let by_route = || rest_route(raw).any(|route| names_users(&route));
    let is_api = || route().next().is_some() || rest_route(raw).next().is_some();
    let by_embedding = || is_api() && embeds_author(raw);
    let by_sitemap = || memchr::memmem::find(path, b"/wp-sitemap-users-").is_some();
    by_query || (!info.has_login() && (by_route() || by_path() || by_embedding())) || by_sitemap()
}

/// Whether the body may request names of users: that of a `POST` to a page. Forms for comments have a field of the same name,
/// but are sent to a script with separate parameters.
pub(super) fn may_request_in_body(info: &RequestInfo) -> bool {
    info.method() == Method::Post && !has_separate_parameters(info)
}

/// A scanner that finds whether a body requests names of users.
pub fn form(content_type: &[u8]) -> FormScanner<'static> {
    FormScanner::new(VARIABLES, content_type)
}

/// Whether a request is for a script or API in which parameters of these names mean something else. The directory of a
/// WordPress is not known here, so the administration of one in a directory needs a login cookie.
fn has_separate_parameters(info: &RequestInfo) -> bool {
    let path = info.decoded_path();
    let inner = |start: &[u8]| {
        let at = memchr::memmem::find(path, start)?;
        path.get(at..)
    };
    let is_inner =
        || inner(b"/wp-admin/").is_some_and(is_own_script) || inner(b"/wp-json/").is_some();
    is_own_script(path) || is_rest(path) || (info.has_login() && is_inner())
}

/// Whether a parameter sets PHP's variable `author` or a part of it.
fn has_author(raw: &[u8]) -> bool {
    values(raw, b"author").next().is_some()
}

/// Whether the sitemap of users is requested, or one whose name WordPress would sanitize first.
fn has_sitemap(raw: &[u8]) -> bool {
    values(raw, b"sitemap").any(|value| {
        let is_odd = |byte: u8| !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        value.clone().any(is_odd) || value.eq(*b"users")
    })
}

/// Whether `_embed` includes the author: it names the author, or is empty, which means all.
fn embeds_author(raw: &[u8]) -> bool {
    values(raw, b"_embed").any(|value| {
        let text: Vec<u8> = value.collect();
        let is_all = matches!(text.trim_ascii(), b"" | b"1" | b"true");
        let mut names = text.split(|&b| b == b',' || b.is_ascii_whitespace());
        let only_separators = || text.iter().all(|&b| b == b',' || b.is_ascii_whitespace());
        is_all || only_separators() || names.any(|name| name == b"author")
    })
}

/// The values of parameters that set a PHP variable or a part of it.
fn values<'r>(raw: &'r [u8], wanted: &'static [u8]) -> impl Iterator<Item = FormDecoded<'r>> {
    raw.split(|&b| b == b'&').filter_map(move |part| {
        let (name, value) = split_pair(part);
        let mut name = FormDecoded(name).skip_while(|&byte| byte == b' ');
        // PHP replaces each of these three by `_`.
        let is_match = wanted.iter().all(|wanted| match name.next() {
            Some(b'.' | b' ' | b'[') => *wanted == b'_',
            other => other == Some(*wanted),
        });
        (is_match && matches!(name.next(), None | Some(b'[' | 0))).then_some(FormDecoded(value))
    })
}

/// The values of `rest_route`.
fn rest_route(raw: &[u8]) -> impl Iterator<Item = FormDecoded<'_>> {
    values(raw, b"rest_route")
}

/// Whether a route of the REST API reveals names of users: `/wp/v2/users` and everything below, and oEmbed, which names the
/// author of a page. Case-insensitive, as in WordPress.
fn names_users(route: &(impl Iterator<Item = u8> + Clone)) -> bool {
    let begins = |wanted: &[u8]| {
        let mut route = route
            .clone()
            .skip_while(|&byte| byte == b'/')
            .map(|byte| byte.to_ascii_lowercase());
        let is_match = wanted.iter().all(|wanted| route.next() == Some(*wanted));
        is_match && matches!(route.next(), None | Some(b'/'))
    };
    begins(b"wp/v2/users") || begins(b"oembed/1.0/embed")
}

/// The variables of WordPress that select pages with names of users.
const VARIABLES: &[&[u8]] = &[b"author", b"rest_route", b"sitemap"];
