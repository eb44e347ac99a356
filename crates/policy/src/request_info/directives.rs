//! `Cache-Control` of requests (RFC 9111 section 5.2.1).

use std::time::Duration;

use crate::fields;

/// The directives of a client for caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Directives {
    /// A stored response must be validated before it is sent.
    pub no_cache: bool,
    /// The response must not be stored.
    pub no_store: bool,
    /// The response is a stored one, or 504.
    pub only_if_cached: bool,
    /// The maximum age of the response.
    pub max_age: Option<Duration>,
    /// The remaining freshness that the response must have.
    pub min_fresh: Option<Duration>,
    /// The acceptable staleness; [`Duration::MAX`] if the client states no limit.
    pub max_stale: Option<Duration>,
}

impl Directives {
    /// Adds the directives of one `Cache-Control` line. Of repeated directives the stricter one counts; an invalid number
    /// counts as the strictest.
    pub(super) fn read(&mut self, line: &[u8]) {
        for member in fields::members(line) {
            let (name, value) = fields::name_value(member);
            if name.eq_ignore_ascii_case(b"no-cache") {
                self.no_cache = true;
            } else if name.eq_ignore_ascii_case(b"no-store") {
                self.no_store = true;
            } else if name.eq_ignore_ascii_case(b"only-if-cached") {
                self.only_if_cached = true;
            } else if name.eq_ignore_ascii_case(b"max-age") {
                let age = value.and_then(delta).unwrap_or(Duration::ZERO);
                self.max_age = Some(self.max_age.map_or(age, |other| other.min(age)));
            } else if name.eq_ignore_ascii_case(b"min-fresh") {
                let fresh = value.and_then(delta).unwrap_or(MAX_DELTA);
                self.min_fresh = Some(self.min_fresh.map_or(fresh, |other| other.max(fresh)));
            } else if name.eq_ignore_ascii_case(b"max-stale") {
                let stale = value.map_or(Duration::MAX, |value| {
                    delta(value).unwrap_or(Duration::ZERO)
                });
                self.max_stale = Some(self.max_stale.map_or(stale, |other| other.min(stale)));
            }
        }
    }

    /// The directives that count if the application, not the visitor, decides about freshness.
    pub(super) fn without_freshness(self) -> Self {
        Self {
            no_store: self.no_store,
            only_if_cached: self.only_if_cached,
            ..Self::default()
        }
    }
}

/// A number of seconds, at most 2^31 (RFC 9111 section 1.2.2).
fn delta(value: &[u8]) -> Option<Duration> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let seconds = std::str::from_utf8(value)
        .ok()
        .and_then(|text| text.parse().ok());
    Some(seconds.map_or(MAX_DELTA, |seconds| {
        Duration::from_secs(seconds).min(MAX_DELTA)
    }))
}

const MAX_DELTA: Duration = Duration::from_secs(1 << 31);

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Directives {
        let mut directives = Directives::default();
        for line in lines {
            directives.read(line.as_bytes());
        }
        directives
    }

    #[test]
    fn directives_are_read() {
        let some = |seconds| Some(Duration::from_secs(seconds));
        let none = Directives::default();
        for (lines, expected) in [
            (
                &["No-Store, x"][..],
                Directives {
                    no_store: true,
                    ..none
                },
            ),
            (
                &["only-if-cached"],
                Directives {
                    only_if_cached: true,
                    ..none
                },
            ),
            (&["x-no-store", "xno-cache"], none),
            (&["a=\"no-store, no-cache\""], none),
            (
                &["max-age=5", "max-age=3"],
                Directives {
                    max_age: some(3),
                    ..none
                },
            ),
            (
                &["max-age=-1"],
                Directives {
                    max_age: some(0),
                    ..none
                },
            ),
            (
                &["max-age=99999999999999999999"],
                Directives {
                    max_age: some(1 << 31),
                    ..none
                },
            ),
            (
                &["min-fresh=1, min-fresh=2"],
                Directives {
                    min_fresh: some(2),
                    ..none
                },
            ),
            (
                &["max-stale"],
                Directives {
                    max_stale: Some(Duration::MAX),
                    ..none
                },
            ),
            (
                &["max-stale, max-stale=\"7\""],
                Directives {
                    max_stale: some(7),
                    ..none
                },
            ),
            (
                &["no-cache"],
                Directives {
                    no_cache: true,
                    ..none
                },
            ),
        ] {
            assert_eq!(read(lines), expected, "{lines:?}");
        }
    }
}
