//! Decides when a certificate is renewed, and when a failed order is repeated. Pure: `now` and the random number are
//! arguments.

use std::time::{Duration, SystemTime};

/// The validity period of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ValidityPeriod {
    pub(super) from: SystemTime,
    pub(super) to: SystemTime,
}

impl ValidityPeriod {
    fn length(self) -> Duration {
        self.to.duration_since(self.from).unwrap_or_default()
    }
}

/// The period in which the directory suggests the renewal (RFC 9773 section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RenewalWindow {
    pub(super) start: SystemTime,
    pub(super) end: SystemTime,
}

/// The time of the renewal: a point in the directory's window that depends on the certificate (RFC 9773 section 4.2
/// requires it to be random and the same each time), otherwise slightly more than a third of the lifetime before the end. Never
/// later than a sixth of the lifetime before the end, whatever the window is, so that there is time for failures.
pub(super) fn renewal(
    validity: ValidityPeriod,
    window: Option<RenewalWindow>,
    random: u64,
) -> SystemTime {
    let length = validity.length();
    let before_end = |time| validity.to.checked_sub(time).unwrap_or(validity.from);
    match window {
        None => before_end(length / 3 + part(length / 30, random)),
        Some(window) => {
            let span = window.end.duration_since(window.start).unwrap_or_default();
            let point = window.start.checked_add(part(span, random));
            point.map_or(window.start, |point| point.min(before_end(length / 6)))
        }
    }
}

/// The minimum time between an issued certificate and its renewal: a directory whose window is always in the past would otherwise
/// cause endless orders.
pub(super) fn rest(validity: ValidityPeriod) -> Duration {
    (validity.length() / 3).min(MIN_REST)
}

/// A failed order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RenewalFailure {
    /// The number of consecutive failures, including this one.
    pub(super) in_a_row: u32,
    /// The pause that the directory requested (RFC 9110 section 10.2.3).
    pub(super) retry_after: Option<Duration>,
    /// Whether a rate limit was exceeded (RFC 8555 section 6.6).
    pub(super) is_rate_limit: bool,
}

/// The pause after a failure: `first`, doubled each time up to half a day, plus up to a quarter at random, so
/// that many machines do not try again at the same time. Never shorter than the directory requests.
pub(super) fn pause(failure: RenewalFailure, first: Duration, random: u64) -> Duration {
    let doublings = failure.in_a_row.saturating_sub(1).min(16);
    let pause = first.saturating_mul(1 << doublings).min(MAX_PAUSE);
    let least = match failure.retry_after {
        Some(requested) => requested.min(MAX_RETRY_AFTER),
        None if failure.is_rate_limit => RATE_LIMITED,
        None => Duration::ZERO,
    };
    let pause = pause.max(least);
    pause + part(pause / 4, random)
}

/// The time that a node waits for the engine of its cluster before it orders a certificate for itself: without a certificate
/// between one and two times `first`, otherwise a quarter to a half of the time that is `left`. It is random, because
/// authorities issue only a few certificates a week for the same names, and all nodes wait for the same engine.
pub(super) fn engine_wait(left: Duration, first: Duration, random: u64) -> Duration {
    let least = (left / 4).max(first);
    least + part(least, random)
}

/// The time until the next query for a window: as the directory requests, within the bounds of RFC 9773 section 4.3.2.
pub(super) fn query_interval(requested: Duration) -> Duration {
    requested.clamp(Duration::from_secs(60), Duration::from_secs(86_400))
}

/// The fraction of a time that a random number selects: 0 for nothing, the largest number for all of it.
fn part(time: Duration, random: u64) -> Duration {
    // Limited to more than five hundred years.
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let nanos = (u128::from(random) * u128::from(nanos)) >> 64;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The time until the next query if the directory has no window or the query failed: RFC 9773 section 4.3.3.
pub(super) const DEFAULT_QUERY_INTERVAL: Duration = Duration::from_secs(6 * 3_600);

const MAX_PAUSE: Duration = Duration::from_secs(43_200);
/// The pause after a rate limit. Let's Encrypt counts by the hour and by the week.
const RATE_LIMITED: Duration = Duration::from_secs(3_600);
/// The maximum pause that a directory can request: no single field may delay the renewal longer than a week.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(7 * 86_400);
const MIN_REST: Duration = Duration::from_secs(3_600);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: u64 = 86_400;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn days(from: u64, to: u64) -> ValidityPeriod {
        ValidityPeriod {
            from: at(from * DAY),
            to: at(to * DAY),
        }
    }

    #[test]
    fn without_a_window_a_third_of_the_lifetime_remains() {
        assert_eq!(renewal(days(0, 90), None, 0), at(60 * DAY));
        assert!(renewal(days(0, 90), None, u64::MAX) >= at(57 * DAY));
        assert_eq!(renewal(days(100, 106), None, 0), at(104 * DAY));
        // A certificate with an empty validity period is renewed immediately.
        assert_eq!(renewal(days(5, 5), None, 7), at(5 * DAY));
        assert_eq!(renewal(days(5, 3), None, 7), at(3 * DAY));
    }

    #[test]
    fn a_window_of_the_directory_counts() {
        let window = |start, end| {
            Some(RenewalWindow {
                start: at(start * DAY),
                end: at(end * DAY),
            })
        };
        let half = 1 << 63;
        for (window, random, want) in [
            (window(58, 60), 0, 58),
            (window(58, 60), half, 59),
            (window(1, 1), half, 1),
            // The end is before the start: the start counts.
            (window(7, 6), half, 7),
            // Too late: a sixth of the lifetime must remain.
            (window(89, 90), half, 75),
        ] {
            let point = renewal(days(0, 90), window, random);
            assert_eq!(point, at(want * DAY), "{window:?}");
        }
    }

    #[test]
    fn pauses_after_failures_grow() {
        let minutes = |in_a_row| {
            let failure = RenewalFailure {
                in_a_row,
                retry_after: None,
                is_rate_limit: false,
            };
            pause(failure, Duration::from_secs(300), 0).as_secs() / 60
        };
        assert_eq!(
            [1, 2, 3, 4, 8, 9, 40].map(minutes),
            [5, 10, 20, 40, 640, 720, 720]
        );
    }

    #[test]
    fn the_directory_may_request_a_longer_pause() {
        let secs = |retry_after: Option<u64>, is_rate_limit| {
            let failure = RenewalFailure {
                in_a_row: 1,
                retry_after: retry_after.map(Duration::from_secs),
                is_rate_limit,
            };
            pause(failure, Duration::from_secs(300), 0).as_secs()
        };
        for (retry_after, is_rate_limit, want) in [
            (Some(10), false, 300),
            (Some(5_000), false, 5_000),
            (Some(5_000), true, 5_000),
            (None, true, 3_600),
            (Some(u64::MAX), true, 7 * DAY),
        ] {
            assert_eq!(secs(retry_after, is_rate_limit), want, "{retry_after:?}");
        }
    }

    #[test]
    fn the_wait_for_the_engine_depends_on_the_remaining_validity() {
        let hours = |left: u64, random| {
            let (left, first) = (
                Duration::from_secs(left * 3_600),
                Duration::from_secs(3_600),
            );
            engine_wait(left, first, random).as_secs() / 3_600
        };
        assert_eq!([hours(0, 0), hours(2, 0), hours(400, 0)], [1, 1, 100]);
        assert_eq!(hours(0, 1 << 63), 1);
        assert_eq!(hours(400, u64::MAX), 199);
    }

    proptest! {
        #[test]
        fn times_stay_within_bounds_for_any_input(
            from in 0..u64::MAX >> 1, to in 0..u64::MAX >> 1, start in 0..u64::MAX >> 1, end in 0..u64::MAX >> 1,
            random: u64, in_a_row: u32, first: u64, requested: Option<u64>, has_window: bool,
        ) {
            let moment = |seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
            let (Some(from), Some(to), Some(start), Some(end)) = (moment(from), moment(to), moment(start), moment(end)) else {
                return Ok(());
            };
            let validity = ValidityPeriod { from, to };
            let window = has_window.then_some(RenewalWindow { start, end });
            let point = renewal(validity, window, random);
            prop_assert!(point <= to.max(from));
            prop_assert!(rest(validity) <= MIN_REST);
            let failure = RenewalFailure { in_a_row, retry_after: requested.map(Duration::from_secs), is_rate_limit: has_window };
            let pause = pause(failure, Duration::from_secs(first), random);
            prop_assert!(pause <= MAX_RETRY_AFTER * 5 / 4);
        }
    }
}
