//! The results of a run by the second of the requests' intended starts, independent of when their responses arrived.

use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::Histogram;

/// The results of the requests with an intended start in one second of a run.
#[derive(Debug, Clone)]
pub struct LoadSlice {
    /// The number of requests that have ended, or will never be sent.
    pub requests: u64,
    /// The number of requests with another status than expected, or without a response.
    pub failures: u64,
    /// The latencies of all requests from their intended starts, in microseconds.
    pub latency: Histogram<u32>,
    /// Requests by status; 0: without a response.
    pub statuses: BTreeMap<u16, u64>,
}

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestResult {
    pub(crate) latency: Duration,
    /// The status; 0: no response.
    pub(crate) status: u16,
    pub(crate) is_failure: bool,
}

impl RequestResult {
    pub(crate) fn without_response(latency: Duration) -> Self {
        Self {
            latency,
            status: 0,
            is_failure: true,
        }
    }
}

impl LoadSlice {
    fn new() -> Self {
        Self {
            requests: 0,
            failures: 0,
            latency: Histogram::new(2).expect("2 digits are allowed"),
            statuses: BTreeMap::new(),
        }
    }

    /// The latency that this share of the requests did not exceed, in milliseconds.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub fn quantile_ms(&self, share: f64) -> f64 {
        self.latency.value_at_quantile(share) as f64 / 1000.0
    }
}

/// Counts a request whose intended start was `due` after the start of the run.
pub(crate) fn record(slices: &mut Vec<LoadSlice>, due: Duration, ended: RequestResult) {
    let at = usize::try_from(due.as_secs()).unwrap_or(usize::MAX);
    let at = at.min(MAX_SLICES - 1);
    if slices.len() <= at {
        slices.resize_with(at + 1, LoadSlice::new);
    }
    let Some(slice) = slices.get_mut(at) else {
        return;
    };
    slice.requests += 1;
    slice.failures += u64::from(ended.is_failure);
    let microseconds = u64::try_from(ended.latency.as_micros()).unwrap_or(u64::MAX);
    // The histogram grows with its values, so they are limited to an hour.
    let recorded = slice.latency.record(microseconds.min(MAX_US));
    debug_assert!(
        recorded.is_ok(),
        "a histogram that grows takes every number"
    );
    *slice.statuses.entry(ended.status).or_default() += 1;
}

/// Adds the requests of other slices.
pub(crate) fn merge(slices: &mut Vec<LoadSlice>, others: &[LoadSlice]) {
    if slices.len() < others.len() {
        slices.resize_with(others.len(), LoadSlice::new);
    }
    for (slice, other) in slices.iter_mut().zip(others) {
        slice.requests += other.requests;
        slice.failures += other.failures;
        slice
            .latency
            .add(&other.latency)
            .expect("a histogram that grows takes every number");
        for (status, count) in &other.statuses {
            *slice.statuses.entry(*status).or_default() += count;
        }
    }
}

/// The word in a Cache-Status (RFC 9211) that describes how the cache handled the request: `hit`, `stale`, the reason why it
/// forwarded the request, or its detail. The last member is that of the nearest cache.
pub(crate) fn cache_word(value: &str) -> &str {
    let member = value.rsplit(',').next().unwrap_or_default();
    let mut word = "other";
    for parameter in member.split(';').skip(1).map(str::trim) {
        match parameter.split_once('=') {
            None if parameter == "hit" => word = "hit",
            Some(("fwd", reason)) => word = reason,
            Some(("detail", "revalidating")) if word == "hit" => word = "stale",
            Some(("detail", detail)) if word == "other" => word = detail,
            _ => {}
        }
    }
    let is_word =
        word.len() <= MAX_WORD && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
    if is_word && !word.is_empty() {
        word
    } else {
        "other"
    }
}

/// An hour; the last slice has all later requests.
const MAX_SLICES: usize = 3600;
const MAX_US: u64 = 3_600_000_000;
const MAX_WORD: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_of_a_cache_status() {
        for (value, wanted) in [
            ("galley; hit", "hit"),
            ("galley; hit; ttl=-12; detail=revalidating", "stale"),
            ("galley; fwd=uri-miss; stored", "uri-miss"),
            ("galley; fwd=bypass; detail=cookie", "bypass"),
            ("galley; detail=file", "file"),
            ("Origin; hit, galley; fwd=stale", "stale"),
            ("galley; hit; detail=patched", "hit"),
            ("", "other"),
            ("galley; fwd=<script>", "other"),
            ("galley; fwd=", "other"),
        ] {
            assert_eq!(cache_word(value), wanted, "{value}");
        }
    }

    #[test]
    fn requests_count_in_the_second_in_which_they_were_due() {
        let mut slices = Vec::new();
        let ended = |ms, status, is_failure| RequestResult {
            latency: Duration::from_millis(ms),
            status,
            is_failure,
        };
        record(
            &mut slices,
            Duration::from_millis(900),
            ended(1500, 200, false),
        );
        record(
            &mut slices,
            Duration::from_millis(2100),
            ended(5, 503, true),
        );
        record(&mut slices, Duration::MAX, ended(5, 0, true));
        assert_eq!(slices.len(), MAX_SLICES);
        assert_eq!((slices[0].requests, slices[0].failures), (1, 0));
        assert!((slices[0].quantile_ms(0.99) - 1500.0).abs() < 15.0);
        assert_eq!(slices[1].requests, 0);
        assert_eq!(slices[2].statuses, BTreeMap::from([(503, 1)]));
        assert_eq!(slices[3599].statuses, BTreeMap::from([(0, 1)]));
        let mut all = vec![LoadSlice::new()];
        merge(&mut all, &slices);
        merge(&mut all, &slices);
        assert_eq!((all[0].requests, all[2].failures), (2, 2));
        assert_eq!((all[0].latency.len(), &all[2].statuses[&503]), (2, &2));
    }
}
