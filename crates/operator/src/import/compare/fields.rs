//! Compares the header fields of two responses, as far as they matter to visitors and their browsers.

use std::collections::BTreeSet;

use super::body::OwnErrorPages;
use super::difference::{ComparedResponses, DifferenceKind};
use super::seen::SeenResponse;

/// Compares the fields of two responses with the same status.
pub(super) fn compare(
    old: &SeenResponse,
    galley: &SeenResponse,
    own: OwnErrorPages,
    found: &mut ComparedResponses,
) {
    lifetime(old, galley, found);
    coding(old, galley, found);
    content_type(old, galley, own, found);
    let names: BTreeSet<&str> = [old, galley]
        .into_iter()
        .flat_map(|seen| seen.fields.keys())
        .map(http::HeaderName::as_str)
        .collect();
    for name in names {
        let [was, is] = [old, galley].map(|seen| seen.field(name));
        if was == is || SEPARATE_FIELDS.contains(&name) {
            continue;
        }
        let why = if old.is_redirect() && !REDIRECT_FIELDS.contains(&name) {
            Some("header fields of redirects")
        } else {
            harmless(name)
        };
        if let Some(why) = why {
            found.is_harmless(why);
            continue;
        }
        if name == "x-content-type-options" && was.is_none() {
            found.is_harmless("X-Content-Type-Options, which Galley sends with files");
            continue;
        }
        let is_of_error_page = was.is_none() && name != "set-cookie" || name == "retry-after";
        if own == OwnErrorPages::Both && is_of_error_page {
            found.is_harmless("header fields of each server's own error page");
            continue;
        }
        let [was, is] = [was, is].map(|value| value.map(|value| visible(name, &value, old)));
        if was.as_deref().unwrap_or_default() == is.as_deref().unwrap_or_default() {
            found.is_harmless("the form of a header field");
            continue;
        }
        let text = |value: Option<String>| {
            value
                .filter(|text| !text.is_empty())
                .unwrap_or_else(|| ABSENT.to_owned())
        };
        found.differs(DifferenceKind::Field(name.to_owned()), text(was), text(is));
    }
}

fn lifetime(old: &SeenResponse, galley: &SeenResponse, found: &mut ComparedResponses) {
    let (was, is) = (old.lifetime(), galley.lifetime());
    // The servers may have computed the remaining time at different moments.
    let is_same = match (was, is) {
        (Some(was), Some(is)) => was.abs_diff(is) <= 2,
        (was, is) => was == is,
    };
    let is_error = old.status.is_some_and(|status| status >= 400);
    // Without `Last-Modified`, browsers do not use a heuristic lifetime (RFC 9111 section 4.2.2).
    let is_asked_again = was.is_none() && is == Some(0) && old.field("last-modified").is_none();
    if is_asked_again && !is_error {
        found.is_harmless("pages that browsers ask for each time");
    } else if old.is_redirect() && !is_same {
        found.is_harmless("header fields of redirects");
    } else if is_error && !is_same && [was, is].iter().all(|time| time.unwrap_or(0) == 0) {
        found.is_harmless("error pages that browsers do not keep");
    } else if !is_same {
        let text = |time: Option<u64>| {
            time.map_or_else(|| ABSENT.to_owned(), |seconds| format!("{seconds} s"))
        };
        found.differs(DifferenceKind::Lifetime, text(was), text(is));
    }
}

/// Compares the content coding. A response that only Galley compresses is an improvement.
fn coding(old: &SeenResponse, galley: &SeenResponse, found: &mut ComparedResponses) {
    let [was, is] = [old, galley].map(|seen| seen.field("content-encoding"));
    match (was, is) {
        (Some(_), None) if old.body.len() < SMALL => {
            found.is_harmless("small bodies without compression");
        }
        (Some(was), None) => found.differs(DifferenceKind::Coding, was, ABSENT),
        (None, Some(_)) => found.is_harmless("compressed by Galley only"),
        (was, is) if was != is => found.is_harmless("another compression"),
        _ => {}
    }
}

fn content_type(
    old: &SeenResponse,
    galley: &SeenResponse,
    own: OwnErrorPages,
    found: &mut ComparedResponses,
) {
    let [was, is] = [old, galley].map(|seen| seen.field("content-type"));
    if was == is || old.is_redirect() || old.status == Some(304) || own == OwnErrorPages::Both {
        return;
    }
    let is_text = std::str::from_utf8(&old.body).is_ok();
    let [first, second] =
        [&was, &is].map(|value| MediaType::of(value.as_deref().unwrap_or_default()));
    let is_same_charset = first.charset == second.charset
        || is_text
            && [&first.charset, &second.charset]
                .iter()
                .all(|name| matches!(name.as_str(), "" | "utf-8"));
    if first.name == second.name && is_same_charset {
        found.is_harmless("the form of a media type");
    } else {
        let text = |value: Option<String>| value.unwrap_or_else(|| ABSENT.to_owned());
        found.differs(
            DifferenceKind::Field("content-type".to_owned()),
            text(was),
            text(is),
        );
    }
}

/// A media type in the form in which it is compared.
struct MediaType {
    name: String,
    charset: String,
}

impl MediaType {
    fn of(value: &str) -> Self {
        let lower = value.to_ascii_lowercase();
        let mut parts = lower.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let known = SAME_TYPES.iter().find(|names| names.contains(&name));
        let charset = parts
            .find_map(|part| part.strip_prefix("charset="))
            .unwrap_or_default();
        Self {
            name: known.map_or(name, |names| names[0]).to_owned(),
            charset: charset.trim_matches('"').to_owned(),
        }
    }
}

/// The part of a field's value that is compared.
fn visible(name: &str, value: &str, old: &SeenResponse) -> String {
    let lower = value.to_ascii_lowercase();
    match name {
        "set-cookie" => cookie_names(value),
        "vary" => sorted(
            lower
                .split(',')
                .filter(|one| one.trim() != "accept-encoding"),
        ),
        "allow" | "access-control-allow-methods" | "access-control-allow-headers" => {
            sorted(lower.split(','))
        }
        "cache-control" => {
            let is_error = old.status.is_some_and(|status| status >= 400);
            let is_compared = |one: &&str| {
                let one = one.trim();
                let is_lifetime = one.starts_with("max-age=") || one == "no-cache";
                !(is_lifetime || is_error && one == "no-store")
            };
            sorted(lower.split(',').filter(is_compared))
        }
        // Browsers do not show the rest of the value.
        "www-authenticate" => lower
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned(),
        _ => value.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

/// The names of cookies; the values differ for each visitor.
fn cookie_names(value: &str) -> String {
    // Excludes parts of dates, which contain commas.
    sorted(value.split(", ").filter_map(|one| {
        let (name, rest) = one.split_once('=')?;
        (!rest.is_empty() && !name.contains(' ')).then_some(name)
    }))
}

fn sorted<'v>(values: impl Iterator<Item = &'v str>) -> String {
    let all: BTreeSet<&str> = values
        .map(str::trim)
        .filter(|one| !one.is_empty())
        .collect();
    all.into_iter().collect::<Vec<_>>().join(", ")
}

/// The reason why visitors do not notice a difference in this field.
fn harmless(name: &str) -> Option<&'static str> {
    let is_of_cache = name.starts_with("x-cache")
        || [
            "x-fastcgi-cache",
            "x-proxy-cache",
            "x-varnish",
            "x-vinyl",
            "x-srcache",
            "x-nginx-cache",
            "cache-status",
            "age",
            "via",
        ]
        .contains(&name);
    if is_of_cache {
        return Some("header fields about the cache");
    }
    match name {
        "server" | "x-powered-by" | "x-pingback" | "x-generator" => {
            Some("header fields that name software")
        }
        "etag" | "last-modified" | "accept-ranges" | "pragma" => {
            Some("validators (ETag, Last-Modified)")
        }
        // Caddy forwards PHP's `Status`, which no browser reads.
        "alt-svc" | "x-request-id" | "keep-alive" | "upgrade" | "status" => {
            Some("header fields of the connection")
        }
        _ => None,
    }
}

/// The size in bytes up to which compression has no benefit: the body fits into one packet.
const SMALL: usize = 1_200;

/// The fields of a redirect that browsers process.
const REDIRECT_FIELDS: &[&str] = &[
    "set-cookie",
    "strict-transport-security",
    "www-authenticate",
];

/// Fields that are compared separately, or that differ in every response.
const SEPARATE_FIELDS: &[&str] = &[
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "expires",
    "location",
    "transfer-encoding",
];

/// Media types that browsers treat equally, the current name first.
const SAME_TYPES: &[&[&str]] = &[
    &[
        "text/javascript",
        "application/javascript",
        "application/x-javascript",
    ],
    &["text/xml", "application/xml"],
    &["image/vnd.microsoft.icon", "image/x-icon"],
    &["image/bmp", "image/x-ms-bmp"],
    &["audio/wav", "audio/x-wav"],
    &[
        "font/woff",
        "application/font-woff",
        "application/x-font-woff",
    ],
    &[
        "font/woff2",
        "application/font-woff2",
        "application/x-font-woff2",
    ],
    &[
        "font/ttf",
        "application/x-font-ttf",
        "application/x-font-truetype",
    ],
    &[
        "font/otf",
        "application/x-font-otf",
        "application/x-font-opentype",
    ],
    &[
        "application/manifest+json",
        "application/x-web-app-manifest+json",
    ],
];

const ABSENT: &str = "none";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::compare::seen::tests::seen;

    type Fields = &'static [[&'static str; 2]];

    fn found(old: &[[&'static str; 2]], galley: &[[&'static str; 2]]) -> Vec<String> {
        let mut found = ComparedResponses::default();
        compare(
            &seen(200, old, "a"),
            &seen(200, galley, "a"),
            OwnErrorPages::No,
            &mut found,
        );
        let lines = found.differences.iter();
        lines
            .map(|one| format!("{}: {} -> {}", one.kind.title(), one.old, one.galley))
            .collect()
    }

    #[test]
    fn differences_that_matter_to_browsers_are_listed() {
        let rows: &[(Fields, Fields, &str)] = &[
            (
                &[["x-frame-options", "DENY"]],
                &[],
                "header field x-frame-options: DENY -> none",
            ),
            (
                &[["cache-control", "max-age=60"]],
                &[["cache-control", "max-age=90"]],
                "lifetime in browsers: 60 s -> 90 s",
            ),
            (
                &[["cache-control", "public"]],
                &[["cache-control", "private"]],
                "header field cache-control: public -> private",
            ),
            (
                &[["content-type", "text/css"]],
                &[["content-type", "text/plain"]],
                "header field content-type: text/css -> text/plain",
            ),
            (
                &[["content-type", "text/html"]],
                &[["content-type", "text/html; charset=iso-8859-1"]],
                "header field content-type: text/html -> text/html; charset=iso-8859-1",
            ),
            (
                &[["set-cookie", "a=1; path=/"]],
                &[["set-cookie", "b=1"]],
                "header field set-cookie: a -> b",
            ),
            (
                &[["vary", "Accept-Encoding, Origin"]],
                &[["vary", "accept-encoding"]],
                "header field vary: origin -> none",
            ),
        ];
        for (old, galley, wanted) in rows {
            assert_eq!(found(old, galley), [*wanted]);
        }
    }

    #[test]
    fn differences_without_effect_are_not_listed() {
        let rows: &[(Fields, Fields)] = &[
            (
                &[["server", "nginx"], ["etag", "\"a\""]],
                &[["cache-status", "galley; hit"], ["etag", "W/\"b\""]],
            ),
            (
                &[["content-type", "application/javascript"]],
                &[["content-type", "text/javascript; charset=UTF-8"]],
            ),
            (&[["vary", "Accept-Encoding"]], &[]),
            (&[], &[["content-encoding", "br"]]),
            (&[["content-encoding", "gzip"]], &[]),
            (
                &[["set-cookie", "a=1"]],
                &[["set-cookie", "a=2; expires=Thu, 01 Jan 2026 00:00:00 GMT"]],
            ),
            (
                &[["www-authenticate", "Basic realm=\"x\""]],
                &[["www-authenticate", "Basic realm=\"y\""]],
            ),
        ];
        for (old, galley) in rows {
            assert_eq!(found(old, galley), Vec::<String>::new());
        }
    }
}
