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
    /// The rest of the lifetime of an entry of this age.
    #[must_use]
    pub fn left(self, age: Duration) -> Self {
        let left = |end: Duration| end.saturating_sub(age);
        Self::ending(
            left(self.fresh),
            left(self.usable()),
            left(self.usable_on_error()),
        )
    }

    /// The same lifetime with another end of freshness. The stale windows end when they did, unless freshness ends later.
    #[must_use]
    pub fn fresh_for(self, fresh: Duration) -> Self {
        Self::ending(fresh, self.usable(), self.usable_on_error())
    }

    /// The lifetime of an entry, now of this age, that contains a part. The entry is fresh as long as both are, and may be sent stale as
    /// long as both may be: the window of a part that time alone makes wrong is zero.
    #[must_use]
    pub fn with_part(self, age: Duration, part: Self, part_age: Duration) -> Self {
        let part = part.left(part_age);
        let until = |own: Duration, end: Duration| own.min(age.saturating_add(end));
        let ends = Self::ending(
            until(self.fresh, part.fresh),
            until(self.usable(), part.usable()),
            until(self.usable_on_error(), part.usable_on_error()),
        );
        Self {
            initial_age: self.initial_age,
            ..ends
        }
    }

    fn usable(self) -> Duration {
        self.fresh.saturating_add(self.stale_while_revalidate)
    }

    fn usable_on_error(self) -> Duration {
        self.fresh.saturating_add(self.stale_if_error)
    }

    /// From the ends of freshness and of both stale windows, counted from now.
    fn ending(fresh: Duration, usable: Duration, usable_on_error: Duration) -> Self {
        Self {
            fresh,
            stale_while_revalidate: usable.saturating_sub(fresh),
            stale_if_error: usable_on_error.saturating_sub(fresh),
            initial_age: Duration::ZERO,
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

    #[test]
    fn no_stale_window_reaches_beyond_that_of_a_part() {
        // Page: fresh, windows; its age; part: fresh, windows; the age of the part; expected.
        let rows = [
            ([100, 50, 500], 10, [20, 0, 0], 5, [25, 0, 0]),
            ([100, 50, 500], 10, [20, 0, 300], 5, [25, 0, 300]),
            ([100, 50, 500], 10, [20, 30, 9_000], 5, [25, 30, 575]),
            ([100, 0, 0], 0, [9_000, 9_000, 9_000], 0, [100, 0, 0]),
            // A part that is stale already, and may be sent.
            ([100, 50, 500], 10, [20, 10, 90], 25, [10, 5, 85]),
        ];
        let lifetime = |[fresh, while_revalidate, if_error]: [u64; 3]| Lifetime {
            stale_if_error: Duration::from_secs(if_error),
            ..lifetime(fresh, while_revalidate)
        };
        for (page, age, part, part_age, expected) in rows {
            let [age, part_age] = [age, part_age].map(Duration::from_secs);
            let page = lifetime(page).with_part(age, lifetime(part), part_age);
            assert_eq!(page, lifetime(expected));
        }
        let retried = lifetime([20, 30, 90]).left(Duration::from_secs(25));
        assert_eq!(retried, lifetime([0, 25, 85]));
        assert_eq!(
            retried.fresh_for(Duration::from_secs(10)),
            lifetime([10, 15, 75])
        );
        assert_eq!(
            retried.fresh_for(Duration::from_secs(90)),
            lifetime([90, 0, 0])
        );
    }
}
