//! Requests that are never [`Class::Unseen`](crate::class::Class::Unseen): what programs of the site's own visitors request without having
//! loaded a page first.
//!
//! A refusal would break them for good, since they load no style sheets: feed readers, clients of the REST API, payment providers,
//! monitors, embeds. Each kind is recognized by its address alone, so a crawler may choose these addresses too. It then waits as
//! an unproven visitor, and WordPress answers most of them with less work than a page with filters.

use crate::query::variables;
use crate::request_info::RequestInfo;

/// Whether the address of a request is excepted.
pub(crate) fn is_excepted(info: &RequestInfo) -> bool {
    let path = info.decoded_path();
    is_rest(path) || is_script(path) || is_feed(path) || is_file(path) || has_parameter(info)
}

/// WordPress routes `/wp-json/` below its own folder, which may be any.
fn is_rest(path: &[u8]) -> bool {
    path.ends_with(b"/wp-json") || memchr::memmem::find(path, b"/wp-json/").is_some()
}

/// Scripts that WordPress does not route pages through: `admin-ajax.php`, `wp-login.php` with the link of a mail, `wp-cron.php`.
fn is_script(path: &[u8]) -> bool {
    path.ends_with(b".php") && !path.ends_with(b"/index.php")
}

/// A feed of the site, or of any page of it.
fn is_feed(path: &[u8]) -> bool {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    FEEDS.iter().any(|kind| {
        let folder = path.strip_suffix(*kind);
        let folder = folder.and_then(|folder| folder.strip_suffix(b"/"));
        folder.is_some_and(|folder| *kind == b"feed" || folder.ends_with(b"/feed"))
    })
}

/// A file, by its extension. Those below the root never come this far; an HTTP upstream may have others.
fn is_file(path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next();
    let extension = name.and_then(|name| Some(&name[memchr::memrchr(b'.', name)? + 1..]));
    extension.is_some_and(|extension| FILES.contains(&extension))
}

fn has_parameter(info: &RequestInfo) -> bool {
    let parameters = variables(info.query().unwrap_or_default());
    // The first ones decide, so that a long query costs no more.
    let mut names = parameters.map(|(name, _)| name).take(MAX_PARAMETERS);
    names.any(|name| PARAMETERS.contains(&name.as_slice()))
}

/// The kinds of feeds (`WP_Rewrite::$feeds`).
const FEEDS: [&[u8]; 5] = [b"feed", b"rdf", b"rss", b"rss2", b"atom"];

/// The REST API, feeds, and requests of scripts: `admin-ajax.php` of WooCommerce, and answers of payment providers.
const PARAMETERS: [&[u8]; 4] = [b"rest_route", b"feed", b"wc-ajax", b"wc-api"];

/// The extensions of files that pages load, and of those that programs fetch.
const FILES: [&[u8]; 22] = [
    b"css", b"js", b"mjs", b"map", b"json", b"xml", b"txt", b"ico", b"svg", b"png", b"jpg",
    b"jpeg", b"gif", b"webp", b"avif", b"woff", b"woff2", b"ttf", b"pdf", b"mp3", b"mp4", b"webm",
];

/// The most parameters that are compared.
const MAX_PARAMETERS: usize = 32;
