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

impl Lifetime {
    /// The lifetime of an entry, now of this age, in which a part was replaced. The entry is fresh as long as both are, and may be sent
    /// while a refresh runs as long as both may be: the window of a part that time alone makes wrong is zero.
    #[must_use]
    pub fn with_part(self, age: Duration, part: Self, part_age: Duration) -> Self {
        let until = |end: Duration| age.saturating_add(end.saturating_sub(part_age));
        let usable = |it: Self| it.fresh.saturating_add(it.stale_while_revalidate);
        let fresh = self.fresh.min(until(part.fresh));
        Self {
            fresh,
            stale_while_revalidate: usable(self).min(until(usable(part))).saturating_sub(fresh),
            ..self
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn lifetime(fresh: u64, while_revalidate: u64) -> Lifetime {
        Lifetime {
            fresh: Duration::from_secs(fresh),
            stale_while_revalidate: Duration::from_secs(while_revalidate),
            ..Lifetime::default()
        }
    }

    #[test]
    fn a_page_is_used_no_longer_than_each_of_its_parts() {
        // The page and its age, the part and its age, the page with the part.
        let rows = [
            ((100, 50), 10, (100, 50), 0, (100, 50)),
            ((100, 50), 10, (20, 0), 0, (30, 0)),
            ((100, 50), 10, (20, 30), 5, (25, 30)),
            ((100, 50), 10, (20, 500), 0, (30, 120)),
            ((100, 50), 10, (5, 0), 9, (10, 0)),
            ((100, 0), 10, (500, 500), 0, (100, 0)),
        ];
        for ((fresh, window), age, (part_fresh, part_window), part_age, expected) in rows {
            let page = lifetime(fresh, window).with_part(
                Duration::from_secs(age),
                lifetime(part_fresh, part_window),
                Duration::from_secs(part_age),
            );
            assert_eq!(page, lifetime(expected.0, expected.1));
        }
    }
}
