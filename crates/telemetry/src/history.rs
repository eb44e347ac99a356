//! The last 24 hours of each site by minute, for graphs without another program.
//!
//! The sums of the metrics are read once a minute and the difference is stored; a minute without any request takes no space. The
//! history is in memory, so it is empty after a restart. Rows have the minute of the wall clock, and keep the order in which
//! they were added, even if that clock is set back.

use std::collections::VecDeque;

use super::totals::Totals;

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
    /// Requests that needed the upstream, by client.
    pub clients: ByClient,
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
}

impl History {
    /// Creates a history that begins now.
    pub fn new(minute: u64, totals: &Totals, clients: ByClient) -> Self {
        Self {
            rows: VecDeque::new(),
            began: Minute::of(minute, totals, clients),
        }
    }

    /// Compares the minute with the last call; if it is another one, the previous minute is completed with the current sums.
    pub fn turn(&mut self, minute: u64, totals: &Totals, clients: ByClient) {
        if minute == self.began.minute {
            return;
        }
        let now = Minute::of(minute, totals, clients);
        let row = now.since(&self.began);
        if row.requests > 0 {
            self.rows.push_back(row);
        }
        let is_old = |row: &Minute| row.minute.saturating_add(MINUTES as u64) <= minute;
        while self.rows.len() > MINUTES || self.rows.front().is_some_and(is_old) {
            self.rows.pop_front();
        }
        self.began = now;
    }

    /// The minutes with requests from `from` on, the oldest first. The last one is the current, incomplete minute, even without
    /// requests.
    pub fn since(
        &self,
        from: u64,
        totals: &Totals,
        clients: ByClient,
    ) -> impl Iterator<Item = Minute> {
        let current = Minute::of(self.began.minute, totals, clients).since(&self.began);
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
        self.clients = self.clients.plus(&other.clients);
        self
    }

    /// The share of responses from the cache among those from the cache or the upstream; `None` without any.
    pub fn hit_ratio(&self) -> Option<f64> {
        let from_memory = self.hits + self.stale;
        let all = from_memory + self.misses + self.passes;
        #[expect(
            clippy::cast_precision_loss,
            reason = "a ratio for people; exact up to 2^53 requests"
        )]
        (all > 0).then(|| from_memory as f64 / all as f64)
    }

    /// The sums since the start as one row.
    pub fn all(totals: &Totals) -> Self {
        Self::of(0, totals, ByClient::default())
    }
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
