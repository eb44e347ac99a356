//! The last 24 hours of each site by minute, for graphs without another program.
//!
//! The sums of the metrics are read once a minute and the difference is stored; a minute without any request takes no space. The
//! history is in memory, so it is empty after a restart. Rows have the minute of the wall clock, and keep the order in which
//! they were added, even if that clock is set back.

use std::collections::VecDeque;

use super::totals::{Histogram, Totals};

/// The counts of one minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Minute {
    /// Minutes since the epoch.
    pub minute: u64,
    /// All requests.
    pub requests: u64,
    /// Fresh responses from the cache.
    pub hits: u64,
    /// Stale responses from the cache.
    pub stale: u64,
    /// Requests for pages that were not in the cache.
    pub misses: u64,
    /// Requests that bypassed the cache.
    pub passes: u64,
    /// Requests that were rejected.
    pub refused: u64,
    /// Requests that were rejected because the upstream had too many.
    pub overloaded: u64,
    /// Responses with a status of 5xx.
    pub errors: u64,
    /// Bytes of response bodies.
    pub bytes: u64,
    /// The total time that requests waited for the upstream's response heads, in milliseconds.
    pub upstream_ms: u64,
    /// How long responses from the cache took; zero in sums since the start.
    pub cache_latency: Latency,
    /// How long the upstream took for its response heads; zero in sums since the start.
    pub upstream_latency: Latency,
    /// Requests that needed the upstream, by client.
    pub clients: ByClient,
}

/// The bounds below which half and 95 % of the times are, in microseconds; zero without any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// The bound of half of the times.
    pub p50_us: u32,
    /// The bound of 95 % of the times.
    pub p95_us: u32,
}

impl Latency {
    fn of(times: &Histogram) -> Self {
        let bound = |percent| {
            let us = times.quantile_us(percent).unwrap_or(0);
            u32::try_from(us).unwrap_or(u32::MAX)
        };
        Self {
            p50_us: bound(50),
            p95_us: bound(95),
        }
    }

    /// The worse of both: quantiles have no sum.
    fn worse(self, other: Self) -> Self {
        Self {
            p50_us: self.p50_us.max(other.p50_us),
            p95_us: self.p95_us.max(other.p95_us),
        }
    }
}

/// Requests that needed the upstream, by what their clients are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByClient {
    /// People, and clients that may be.
    pub people: u64,
    /// Crawlers that have proved their names.
    pub bots: u64,
    /// Clients without proof that requested pages with a query, or guessed passwords.
    pub unseen: u64,
    /// Those of them that were refused.
    pub refused: u64,
}

impl ByClient {
    /// The difference since `began`. The counts begin anew with each configuration.
    fn since(&self, began: &Self) -> Self {
        let of = |now: u64, then: u64| now.checked_sub(then).unwrap_or(now);
        Self {
            people: of(self.people, began.people),
            bots: of(self.bots, began.bots),
            unseen: of(self.unseen, began.unseen),
            refused: of(self.refused, began.refused),
        }
    }

    fn plus(self, other: &Self) -> Self {
        Self {
            people: self.people.wrapping_add(other.people),
            bots: self.bots.wrapping_add(other.bots),
            unseen: self.unseen.wrapping_add(other.unseen),
            refused: self.refused.wrapping_add(other.refused),
        }
    }
}

/// The minutes of one site. The owner calls [`Self::turn`].
#[derive(Debug, Default)]
pub struct History {
    /// The minutes, the oldest first; at most [`MINUTES`].
    rows: VecDeque<Minute>,
    /// The sums at the start of the current minute.
    began: Minute,
    /// The times at the start of the current minute: of the cache and of the upstream.
    began_times: [Histogram; 2],
}

impl History {
    /// Creates a history that begins now.
    pub fn new(minute: u64, totals: &Totals, clients: ByClient) -> Self {
        Self {
            rows: VecDeque::new(),
            began: Minute::of(minute, totals, clients),
            began_times: times(totals),
        }
    }

    /// Compares the minute with the last call; if it is another one, the previous minute is completed with the current sums.
    pub fn turn(&mut self, minute: u64, totals: &Totals, clients: ByClient) {
        if minute == self.began.minute {
            return;
        }
        let now = Minute::of(minute, totals, clients);
        let row = self.row(&now, totals);
        if row.requests > 0 {
            self.rows.push_back(row);
        }
        let is_old = |row: &Minute| row.minute.saturating_add(MINUTES as u64) <= minute;
        while self.rows.len() > MINUTES || self.rows.front().is_some_and(is_old) {
            self.rows.pop_front();
        }
        self.began = now;
        self.began_times = times(totals);
    }

    /// The current minute until `now`.
    fn row(&self, now: &Minute, totals: &Totals) -> Minute {
        let [cache, upstream] = times(totals);
        let [began_cache, began_upstream] = &self.began_times;
        Minute {
            cache_latency: Latency::of(&cache.since(began_cache)),
            upstream_latency: Latency::of(&upstream.since(began_upstream)),
            ..now.since(&self.began)
        }
    }

    /// The minutes with requests from `from` on, the oldest first. The last one is the current, incomplete minute, even without
    /// requests.
    pub fn since(
        &self,
        from: u64,
        totals: &Totals,
        clients: ByClient,
    ) -> impl Iterator<Item = Minute> {
        let current = self.row(&Minute::of(self.began.minute, totals, clients), totals);
        let rows = self.rows.iter().copied();
        rows.filter(move |row| row.minute >= from).chain([current])
    }
}

impl Minute {
    fn of(minute: u64, totals: &Totals, clients: ByClient) -> Self {
        Self {
            minute,
            requests: totals.requests(),
            hits: totals.of("hit"),
            stale: totals.of("stale"),
            misses: totals.of("miss"),
            passes: totals.of("pass"),
            refused: totals.of("refused"),
            overloaded: totals.overloaded(),
            errors: totals.server_errors(),
            bytes: totals.bytes(),
            upstream_ms: totals.upstream_time().sum_us() / 1_000,
            cache_latency: Latency::default(),
            upstream_latency: Latency::default(),
            clients,
        }
    }

    /// The difference since `began`, with its minute.
    fn since(&self, began: &Self) -> Self {
        Self {
            minute: began.minute,
            requests: self.requests.wrapping_sub(began.requests),
            hits: self.hits.wrapping_sub(began.hits),
            stale: self.stale.wrapping_sub(began.stale),
            misses: self.misses.wrapping_sub(began.misses),
            passes: self.passes.wrapping_sub(began.passes),
            refused: self.refused.wrapping_sub(began.refused),
            overloaded: self.overloaded.wrapping_sub(began.overloaded),
            errors: self.errors.wrapping_sub(began.errors),
            bytes: self.bytes.wrapping_sub(began.bytes),
            upstream_ms: self.upstream_ms.wrapping_sub(began.upstream_ms),
            cache_latency: Latency::default(),
            upstream_latency: Latency::default(),
            clients: self.clients.since(&began.clients),
        }
    }

    /// The sums of both, with the minute of `self`.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        self.requests = self.requests.wrapping_add(other.requests);
        self.hits = self.hits.wrapping_add(other.hits);
        self.stale = self.stale.wrapping_add(other.stale);
        self.misses = self.misses.wrapping_add(other.misses);
        self.passes = self.passes.wrapping_add(other.passes);
        self.refused = self.refused.wrapping_add(other.refused);
        self.overloaded = self.overloaded.wrapping_add(other.overloaded);
        self.errors = self.errors.wrapping_add(other.errors);
        self.bytes = self.bytes.wrapping_add(other.bytes);
        self.upstream_ms = self.upstream_ms.wrapping_add(other.upstream_ms);
        self.cache_latency = self.cache_latency.worse(other.cache_latency);
        self.upstream_latency = self.upstream_latency.worse(other.upstream_latency);
        self.clients = self.clients.plus(&other.clients);
        self
    }

    /// The share of responses from the cache among those from the cache or the upstream; `None` without any.
    pub fn hit_ratio(&self) -> Option<f64> {
        let from_memory = self.hits + self.stale;
        let requests = from_memory + self.misses + self.passes;
        #[expect(
            clippy::cast_precision_loss,
            reason = "a ratio for people; exact up to 2^53 requests"
        )]
        (requests > 0).then(|| from_memory as f64 / requests as f64)
    }

    /// The sums since the start as one row.
    pub fn all(totals: &Totals) -> Self {
        Self::of(0, totals, ByClient::default())
    }
}

fn times(totals: &Totals) -> [Histogram; 2] {
    [totals.cache_time(), totals.upstream_time()]
}

/// The number of minutes in a day.
pub const MINUTES: usize = 1_440;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::AccessRecord;
    use crate::counters::{CoreCounters, CounterReader, counters};
    use crate::line::tests::record;
    use galley_policy::outcome::{Outcome, PassWhy};
    use std::time::Duration;

    struct Bench {
        writer: CoreCounters,
        readers: [CounterReader; 1],
        history: History,
        clients: ByClient,
    }

    impl Bench {
        fn new(minute: u64) -> Self {
            let (writer, reader) = counters(1);
            let readers = [reader];
            let clients = ByClient::default();
            let history = History::new(minute, &CounterReader::all(&readers), clients);
            Self {
                writer,
                readers,
                history,
                clients,
            }
        }

        fn count(&self, outcome: Outcome) {
            let response = AccessRecord {
                outcome,
                body_bytes: 10,
                total_time: Duration::ZERO,
                upstream_time: Some(Duration::from_millis(5)),
                ..record()
            };
            self.writer.count(Some(0), &response);
        }

        fn turn(&mut self, minute: u64) {
            let totals = CounterReader::all(&self.readers);
            self.history.turn(minute, &totals, self.clients);
        }

        fn rows(&self, from: u64) -> Vec<Minute> {
            let totals = CounterReader::all(&self.readers);
            self.history.since(from, &totals, self.clients).collect()
        }
    }

    #[test]
    fn each_minute_has_its_counts() {
        let mut bench = Bench::new(100);
        bench.count(Outcome::Hit);
        bench.count(Outcome::Pass(PassWhy::Cookie));
        bench.turn(100);
        bench.turn(101);
        bench.turn(103);
        bench.count(Outcome::Hit);
        bench.turn(104);
        bench.count(Outcome::Hit);
        let rows = bench.rows(0);
        let told: Vec<_> = rows
            .iter()
            .map(|r| (r.minute, r.requests, r.hits))
            .collect();
        assert_eq!(told, [(100, 2, 1), (103, 1, 1), (104, 1, 1)]);
        let first = rows.first().unwrap();
        assert_eq!((first.passes, first.bytes, first.upstream_ms), (1, 20, 10));
        let bounds = |of: Latency| (of.p50_us, of.p95_us);
        assert_eq!(bounds(first.upstream_latency), (5_000, 5_000));
        assert_eq!(bounds(first.cache_latency), (100, 100));
        assert_eq!(first.hit_ratio(), Some(0.5));
        assert_eq!(bench.rows(104).len(), 1);
        let sum = rows.iter().fold(Minute::default(), Minute::plus);
        assert_eq!((sum.requests, sum.hits), (4, 3));
        assert_eq!(Minute::default().hit_ratio(), None);
    }

    #[test]
    fn clients_are_counted_over_a_reload() {
        let mut bench = Bench::new(0);
        for (minute, refused) in [(1, 5), (2, 9), (3, 2)] {
            bench.count(Outcome::Hit);
            bench.clients.refused = refused;
            bench.turn(minute);
        }
        let refused: Vec<_> = bench
            .rows(0)
            .iter()
            .map(|row| row.clients.refused)
            .collect();
        assert_eq!(refused, [5, 4, 2, 0]);
    }

    #[test]
    fn minutes_older_than_a_day_are_dropped() {
        let mut bench = Bench::new(0);
        for minute in 1..=3_000 {
            bench.count(Outcome::Hit);
            bench.turn(minute);
        }
        let rows = bench.rows(0);
        assert_eq!(rows.len(), MINUTES);
        assert_eq!(rows.first().unwrap().minute, 3_001 - MINUTES as u64);
        // Minutes without requests empty the history, and setting the clock back does not make it grow.
        bench.turn(9_000);
        assert_eq!(bench.rows(0).len(), 1);
        for minute in (0..3_000).rev() {
            bench.count(Outcome::Hit);
            bench.turn(minute);
        }
        assert!(bench.rows(0).len() <= MINUTES + 1);
    }
}
