//! The layout of the counters, and the meaning of their sums.
//!
//! The slots follow the words of `galley_policy::outcome`: a new word there is a new counter here, without a second list.
//! Times are counted in fixed buckets, so that histograms of many machines can be added.

use std::time::Duration;

use galley_policy::outcome::{
    MissWhy, NotStored, Outcome, PassWhy, RefusedWhy, StaleWhy, StoreOutcome,
};

/// The index of each counter.
pub(super) mod slots {
    use super::{
        BOUNDS_US, Duration, MissWhy, NotStored, OUTCOMES, Outcome, PassWhy, RefusedWhy, StaleWhy,
        StoreOutcome,
    };

    pub(super) const REQUESTS: usize = 0;
    pub(super) const BYTES: usize = REQUESTS + OUTCOMES.len();
    pub(super) const STORED: usize = BYTES + OUTCOMES.len();
    pub(super) const COLLAPSED: usize = STORED + 1;
    /// Responses with a status of 5xx.
    pub(crate) const SERVER_ERRORS: usize = COLLAPSED + 1;
    pub(super) const MISS: usize = SERVER_ERRORS + 1;
    pub(super) const NOT_STORED: usize = MISS + MissWhy::ALL.len();
    pub(super) const STALE: usize = NOT_STORED + NotStored::ALL.len();
    pub(super) const PASS: usize = STALE + StaleWhy::ALL.len();
    pub(super) const REFUSED: usize = PASS + PassWhy::ALL.len();
    /// The first bucket of the total time of requests that were answered from the cache.
    pub(super) const CACHE_TIME: usize = REFUSED + RefusedWhy::ALL.len();
    /// The first bucket of the total time of all others.
    pub(super) const OTHER_TIME: usize = CACHE_TIME + TIMES;
    /// The first bucket of the time until the upstream's response head.
    pub(crate) const UPSTREAM_TIME: usize = OTHER_TIME + TIMES;
    /// The sums of the upstream's time by reason, in microseconds.
    pub(super) const NOT_STORED_US: usize = UPSTREAM_TIME + TIMES;
    pub(super) const PASS_US: usize = NOT_STORED_US + NotStored::ALL.len();
    pub(super) const STORED_US: usize = PASS_US + PassWhy::ALL.len();
    /// The number of slots.
    pub(crate) const COUNT: usize = STORED_US + 1;

    /// The offset of the sum from the first bucket of a histogram, in microseconds.
    pub(crate) const SUM: usize = BOUNDS_US.len() + 1;
    /// The slots of one histogram: the buckets, the one above all bounds, and the sum.
    pub(crate) const TIMES: usize = SUM + 1;

    /// The slots of an outcome's requests and bytes.
    pub(crate) fn of_outcome(outcome: Outcome) -> (usize, usize) {
        let index = match outcome {
            Outcome::Hit
            | Outcome::HitOfIncludes
            | Outcome::HitByDictionary
            | Outcome::Patched
            | Outcome::Shared
            | Outcome::Assembled => 0,
            Outcome::Stale(_) => 1,
            Outcome::Miss { .. } => 2,
            Outcome::Pass(_) => 3,
            Outcome::File => 4,
            Outcome::Redirect => 5,
            Outcome::Purge => 6,
            Outcome::Dashboard => 7,
            Outcome::Refused(_) => 8,
        };
        (REQUESTS + index, BYTES + index)
    }

    /// The histogram of a response's total time.
    pub(crate) fn of_total_time(outcome: Outcome) -> usize {
        let (requests, _) = of_outcome(outcome);
        if requests <= REQUESTS + 1 {
            CACHE_TIME
        } else {
            OTHER_TIME
        }
    }

    /// The slot of the upstream's time by reason. A request that waited for the fetch of another one cost no time of its own.
    pub(crate) fn of_upstream_us(outcome: Outcome) -> Option<usize> {
        match outcome {
            Outcome::Pass(why) => Some(PASS_US + why as usize),
            Outcome::Miss {
                outcome: stored,
                collapsed: false,
                ..
            } => Some(match stored {
                StoreOutcome::NotStored(why) => NOT_STORED_US + why as usize,
                StoreOutcome::Stored | StoreOutcome::StoredIncludes | StoreOutcome::Undecided => {
                    STORED_US
                }
            }),
            Outcome::Miss { .. }
            | Outcome::Hit
            | Outcome::HitOfIncludes
            | Outcome::HitByDictionary
            | Outcome::Patched
            | Outcome::Shared
            | Outcome::Assembled
            | Outcome::Stale(_)
            | Outcome::File
            | Outcome::Redirect
            | Outcome::Purge
            | Outcome::Dashboard
            | Outcome::Refused(_) => None,
        }
    }

    /// The slots of an outcome's reasons.
    pub(crate) fn of_reasons(outcome: Outcome) -> [Option<usize>; 3] {
        match outcome {
            Outcome::Hit
            | Outcome::HitOfIncludes
            | Outcome::HitByDictionary
            | Outcome::Patched
            | Outcome::Shared
            | Outcome::Assembled
            | Outcome::File
            | Outcome::Redirect
            | Outcome::Purge
            | Outcome::Dashboard => [None; 3],
            Outcome::Stale(why) => [Some(STALE + why as usize), None, None],
            Outcome::Pass(why) => [Some(PASS + why as usize), None, None],
            Outcome::Refused(why) => [Some(REFUSED + why as usize), None, None],
            Outcome::Miss {
                why,
                outcome: stored,
                collapsed,
            } => {
                let stored = match stored {
                    StoreOutcome::Stored | StoreOutcome::StoredIncludes => Some(STORED),
                    StoreOutcome::Undecided => None,
                    StoreOutcome::NotStored(why) => Some(NOT_STORED + why as usize),
                };
                [
                    Some(MISS + why as usize),
                    stored,
                    collapsed.then_some(COLLAPSED),
                ]
            }
        }
    }

    /// The bucket of a time, and the amount to add to the sum. Most times are in the first buckets.
    pub(crate) fn of_time(time: Duration) -> (usize, u64) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.iter().position(|bound| us <= *bound);
        (bucket.unwrap_or(BOUNDS_US.len()), us)
    }
}

/// The sums of one site or of all, since the start.
#[derive(Clone, Debug)]
pub struct Totals([u64; slots::COUNT]);

impl Totals {
    pub(super) fn sum(rows: impl Iterator<Item = [u64; slots::COUNT]>) -> Self {
        let mut sums = [0_u64; slots::COUNT];
        for row in rows {
            for (sum, count) in sums.iter_mut().zip(row) {
                *sum = sum.wrapping_add(count);
            }
        }
        Self(sums)
    }

    /// The main sums by word, always the same words in the same order: `requests`, `bytes` (of bodies), the first word of each
    /// outcome, of the misses `stored` and `collapsed`, and `server_errors`.
    pub fn words(&self) -> Vec<(&'static str, u64)> {
        let mut words = vec![("requests", self.requests()), ("bytes", self.bytes())];
        words.extend(self.outcomes().map(|(word, requests, _)| (word, requests)));
        words.push(("stored", self.stored()));
        words.push(("collapsed", self.collapsed()));
        words.push(("server_errors", self.server_errors()));
        words
    }

    /// The number of requests.
    pub fn requests(&self) -> u64 {
        self.outcomes().map(|(_, requests, _)| requests).sum()
    }

    /// The bytes of all bodies.
    pub fn bytes(&self) -> u64 {
        self.outcomes().map(|(_, _, bytes)| bytes).sum()
    }

    /// Requests and bytes by the first word of the outcome.
    pub fn outcomes(&self) -> impl Iterator<Item = (&'static str, u64, u64)> {
        let outcomes = OUTCOMES.iter().enumerate();
        outcomes.map(|(index, word)| {
            let requests = self.at(slots::REQUESTS + index);
            (*word, requests, self.at(slots::BYTES + index))
        })
    }

    /// The number of requests with one outcome.
    pub fn of(&self, word: &str) -> u64 {
        let mut outcomes = self.outcomes();
        outcomes
            .find(|(known, ..)| *known == word)
            .map_or(0, |(_, requests, _)| requests)
    }

    /// Misses whose response was stored.
    pub fn stored(&self) -> u64 {
        self.at(slots::STORED)
    }

    /// Misses that waited for the fetch of another request.
    pub fn collapsed(&self) -> u64 {
        self.at(slots::COLLAPSED)
    }

    /// Responses with a status of 5xx, of any origin.
    pub fn server_errors(&self) -> u64 {
        self.at(slots::SERVER_ERRORS)
    }

    /// Misses by reason.
    pub fn misses(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.reasons(slots::MISS, MissWhy::ALL.iter().map(|why| why.word()))
    }

    /// Misses that were not stored, by reason.
    pub fn not_stored(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let words = NotStored::ALL.iter().map(|why| why.word());
        self.reasons(slots::NOT_STORED, words)
    }

    /// The upstream's time for all misses and passes, in microseconds.
    pub fn generated_us(&self) -> u64 {
        let times = (slots::NOT_STORED_US..slots::COUNT).map(|slot| self.at(slot));
        times.fold(0, u64::wrapping_add)
    }

    /// The upstream's time for misses that were not stored for this reason, in microseconds.
    pub fn not_stored_us(&self, why: NotStored) -> u64 {
        self.at(slots::NOT_STORED_US + why as usize)
    }

    /// The upstream's time for passes for this reason, in microseconds.
    pub fn pass_us(&self, why: PassWhy) -> u64 {
        self.at(slots::PASS_US + why as usize)
    }

    /// Stale responses by reason.
    pub fn stale(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.reasons(slots::STALE, StaleWhy::ALL.iter().map(|why| why.word()))
    }

    /// Passes by reason.
    pub fn passes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.reasons(slots::PASS, PassWhy::ALL.iter().map(|why| why.word()))
    }

    /// Rejected requests by reason.
    pub fn refused(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let words = RefusedWhy::ALL.iter().map(|why| why.word());
        self.reasons(slots::REFUSED, words)
    }

    /// Requests that were rejected because the upstream's queue was full.
    pub fn overloaded(&self) -> u64 {
        self.at(slots::REFUSED + RefusedWhy::Overload as usize)
    }

    /// The times from request heads to the ends of responses.
    pub fn total_time(&self) -> Histogram {
        let mut times = self.times(slots::OTHER_TIME);
        for (sum, more) in times.0.iter_mut().zip(self.cache_time().0) {
            *sum = sum.wrapping_add(more);
        }
        times
    }

    /// The times from request heads to the ends of responses from the cache, fresh or stale.
    pub fn cache_time(&self) -> Histogram {
        self.times(slots::CACHE_TIME)
    }

    /// The times from requests to the upstream to its response heads, including the time in the queue.
    pub fn upstream_time(&self) -> Histogram {
        self.times(slots::UPSTREAM_TIME)
    }

    fn reasons(
        &self,
        first: usize,
        words: impl Iterator<Item = &'static str>,
    ) -> impl Iterator<Item = (&'static str, u64)> {
        words
            .enumerate()
            .map(move |(index, word)| (word, self.at(first + index)))
    }

    fn times(&self, first: usize) -> Histogram {
        Histogram(std::array::from_fn(|index| self.at(first + index)))
    }

    fn at(&self, slot: usize) -> u64 {
        self.0.get(slot).copied().unwrap_or(0)
    }
}

/// A histogram of times with fixed buckets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Histogram([u64; slots::TIMES]);

impl Histogram {
    /// The upper bounds of the buckets except the last, in microseconds.
    pub const BOUNDS_US: &'static [u64] = &BOUNDS_US;

    /// The number of times in each bucket.
    pub fn counts(&self) -> &[u64] {
        self.0.get(..slots::SUM).unwrap_or_default()
    }

    /// The number of measured times.
    pub fn count(&self) -> u64 {
        self.0.iter().take(slots::SUM).sum()
    }

    /// The sum of the times, in microseconds.
    pub fn sum_us(&self) -> u64 {
        self.0.get(slots::SUM).copied().unwrap_or(0)
    }

    /// The times since `began`, an earlier state of the same histogram.
    #[must_use]
    pub fn since(&self, began: &Self) -> Self {
        let [now, then] = [self.0, began.0];
        Self(std::array::from_fn(|index| {
            match (now.get(index), then.get(index)) {
                (Some(now), Some(then)) => now.wrapping_sub(*then),
                _ => 0,
            }
        }))
    }

    /// The bound in microseconds below which this many percent of the times are; `None` without times. Times above all bounds
    /// count as the last bound.
    pub fn quantile_us(&self, percent: u64) -> Option<u64> {
        let rank = (self.count() * percent).div_ceil(100);
        let mut sums = self.cumulative();
        let bucket = sums.find(|(_, sum)| rank > 0 && *sum >= rank);
        bucket.map(|(bound, _)| bound.unwrap_or(LAST_BOUND_US))
    }

    /// The number of times up to each bound, in microseconds; the last bound is `None`, above all.
    pub fn cumulative(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        let bounds = BOUNDS_US.iter().copied().map(Some).chain([None]);
        let sums = self.0.iter().scan(0_u64, |sum, count| {
            *sum = sum.wrapping_add(*count);
            Some(*sum)
        });
        bounds.zip(sums)
    }
}

/// The first words of the outcomes, in the order of their slots.
const OUTCOMES: [&str; 9] = [
    "hit",
    "stale",
    "miss",
    "pass",
    "file",
    "redirect",
    "purge",
    "dashboard",
    "refused",
];

/// The upper bounds of the buckets, in microseconds: hits are in the first, PHP in the middle, problems in the last ones.
const BOUNDS_US: [u64; 14] = [
    100,
    500,
    1_000,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    LAST_BOUND_US,
];

const LAST_BOUND_US: u64 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_bounds_of_buckets() {
        let of = |counts: &[(usize, u64)]| {
            let mut all = Histogram::default();
            for (bucket, count) in counts {
                all.0[*bucket] = *count;
            }
            all
        };
        for (counts, p50, p95) in [
            (&[][..], None, None),
            (&[(0, 1)], Some(100), Some(100)),
            (&[(0, 95), (7, 5)], Some(100), Some(100)),
            (&[(0, 94), (7, 6)], Some(100), Some(100_000)),
            // Above all bounds.
            (&[(14, 1)], Some(LAST_BOUND_US), Some(LAST_BOUND_US)),
        ] {
            let times = of(counts);
            let seen = (times.quantile_us(50), times.quantile_us(95));
            assert_eq!(seen, (p50, p95), "{counts:?}");
            assert_eq!(times.since(&times).quantile_us(50), None);
        }
    }
}
