//! A response to be evaluated, and the result.

use std::time::{Duration, SystemTime};

use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};

use crate::outcome::NotStored;

/// What to do with a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storability {
    /// Keep it, this long.
    Store(Lifetime),
    /// Do not, and why.
    Skip(NotStored),
}

/// How long an entry lives. Lifetimes count from the generation, so the age that it arrived with is part of its age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetime {
    /// As long as its age is below, it is fresh.
    pub fresh: Duration,
    /// From the end of freshness: how long it may answer while one refresh runs.
    pub stale_while_revalidate: Duration,
    /// From the end of freshness: how long it may answer when the upstream fails.
    pub stale_if_error: Duration,
    /// Its age when it was received (RFC 9111 §4.2.3, `corrected_initial_age`).
    pub initial_age: Duration,
}

/// A response's head, as the upstream sent it.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    /// Its status.
    pub status: StatusCode,
    /// Its fields, none removed.
    pub fields: &'a HeaderMap,
    /// From the first byte of the request to the head of the response.
    pub response_delay: Duration,
    /// When the head was received.
    pub now: SystemTime,
}

pub(super) fn is_html(fields: &HeaderMap) -> bool {
    let media_type = media_type(fields);
    media_type.eq_ignore_ascii_case(b"text/html")
        || media_type.eq_ignore_ascii_case(b"application/xhtml+xml")
}

/// `Content-Type` without its parameters; empty if there is none.
pub(super) fn media_type(fields: &HeaderMap) -> &[u8] {
    let value = fields
        .get(CONTENT_TYPE)
        .map_or(&b""[..], |value| value.as_bytes());
    value
        .split(|&byte| byte == b';')
        .next()
        .unwrap_or_default()
        .trim_ascii()
}
