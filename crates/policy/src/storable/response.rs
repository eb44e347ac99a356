//! A response head to be evaluated, and the result.

use std::time::{Duration, SystemTime};

use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};

use crate::outcome::NotStored;

/// Whether a response is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storability {
    /// The response is stored with this lifetime.
    Store(Lifetime),
    /// The response is not stored, for this reason.
    Skip(NotStored),
}

/// The lifetime of an entry. Durations count from the generation, so the age on arrival is part of the age of the entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetime {
    /// The entry is fresh while its age is below this.
    pub fresh: Duration,
    /// How long after the end of freshness the entry may be sent while a refresh runs.
    pub stale_while_revalidate: Duration,
    /// How long after the end of freshness the entry may be sent when the upstream fails.
    pub stale_if_error: Duration,
    /// The age when the response was received (RFC 9111 §4.2.3, `corrected_initial_age`).
    pub initial_age: Duration,
}

/// The head of a response, as the upstream sent it.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    /// The status.
    pub status: StatusCode,
    /// The fields; none are removed.
    pub fields: &'a HeaderMap,
    /// The time from the first byte of the request to the head of the response.
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
