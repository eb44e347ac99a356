//! The last day in minutes, for each site: the data of a graph, without another program.
//!
//! Sums are read once a minute and the difference is kept; a minute without any request takes no space. Nothing is counted
//! for it alone: the sums are those of the metrics. It is in memory, so a restart begins it anew. Rows carry the wall
//! clock's minute, and keep the order in which they were made, also when that clock is set back.

use std::collections::VecDeque;

use super::totals::Totals;

/// What happened in one minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Minute {
    /// Minutes since the epoch.
    pub minute: u64,
    /// All requests.
    pub requests: u64,
    /// Fresh responses from memory.
    pub hits: u64,
    /// Stale responses from memory.
    pub stale: u64,
    /// Pages that were not in memory.
    pub misses: u64,
    /// Requests that travelled whole.
    pub passes: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Bytes of bodies.
    pub bytes: u64,
    /// Milliseconds that requests waited for the upstream's heads, together.
    pub upstream_ms: u64,
}

/// One site's minutes. It has one owner, which calls [`Self::turn`].
#[derive(Debug, Default)]
pub struct History {
    /// The oldest first; at most [`MINUTES`].
    rows: VecDeque<Minute>,
    /// The sums when the current minute began.
    began: Minute,
}

impl History {
    /// A history that begins now.
    pub fn new(minute: u64, totals: &Totals) -> Self {
        Self {
            rows: VecDeque::new(),
            began: Minute::of(minute, totals),
        }
    }

    /// Takes the sums of now; when it is another minute than the last time, the minute before is complete.
    pub fn turn(&mut self, minute: u64, totals: &Totals) {
        if minute == self.began.minute {
            return;
        }
        let now = Minute::of(minute, totals);
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

    /// The minutes with requests from `from` on, the oldest first; the last one is the current one, unfinished, even without
    /// requests.
    pub fn since(&self, from: u64, totals: &Totals) -> impl Iterator<Item = Minute> {
        let current = Minute::of(self.began.minute, totals).since(&self.began);
        let rows = self.rows.iter().copied();
        rows.filter(move |row| row.minute >= from).chain([current])
    }
}

impl Minute {
    fn of(minute: u64, totals: &Totals) -> Self {
        Self {
            minute,
            requests: totals.requests(),
            hits: totals.of("hit"),
            stale: totals.of("stale"),
            misses: totals.of("miss"),
            passes: totals.of("pass"),
            refused: totals.of("refused"),
            bytes: totals.bytes(),
            upstream_ms: totals.upstream_time().sum_us() / 1_000,
        }
    }

    /// The difference since `began`, named after its minute.
    fn since(&self, began: &Self) -> Self {
        Self {
            minute: began.minute,
            requests: self.requests.wrapping_sub(began.requests),
            hits: self.hits.wrapping_sub(began.hits),
            stale: self.stale.wrapping_sub(began.stale),
            misses: self.misses.wrapping_sub(began.misses),
            passes: self.passes.wrapping_sub(began.passes),
            refused: self.refused.wrapping_sub(began.refused),
            bytes: self.bytes.wrapping_sub(began.bytes),
            upstream_ms: self.upstream_ms.wrapping_sub(began.upstream_ms),
        }
    }

    /// Both together, under this one's minute.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        self.requests = self.requests.wrapping_add(other.requests);
        self.hits = self.hits.wrapping_add(other.hits);
        self.stale = self.stale.wrapping_add(other.stale);
        self.misses = self.misses.wrapping_add(other.misses);
        self.passes = self.passes.wrapping_add(other.passes);
        self.refused = self.refused.wrapping_add(other.refused);
        self.bytes = self.bytes.wrapping_add(other.bytes);
        self.upstream_ms = self.upstream_ms.wrapping_add(other.upstream_ms);
        self
    }

    /// Of the requests that memory or the upstream answered, the share that memory answered; `None` without any.
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
        Self::of(0, totals)
    }
}

/// A day.
pub const MINUTES: usize = 1_440;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::counters::{CoreCounters, CountedResponse, CounterReader, counters};
    use galley_policy::outcome::{Outcome, PassWhy};
    use std::time::Duration;

    struct Bench {
        writer: CoreCounters,
        readers: [CounterReader; 1],
        history: History,
    }

    impl Bench {
        fn new(minute: u64) -> Self {
            let (writer, reader) = counters(1);
            let readers = [reader];
            let history = History::new(minute, &CounterReader::all(&readers));
            Self {
                writer,
                readers,
                history,
            }
        }

        fn count(&self, outcome: Outcome) {
            self.writer.count(&CountedResponse {
                site: Some(0),
                status: 200,
                outcome,
                body_bytes: 10,
                total_time: Duration::ZERO,
                upstream_time: Some(Duration::from_millis(5)),
            });
        }

        fn turn(&mut self, minute: u64) {
            let totals = CounterReader::all(&self.readers);
            self.history.turn(minute, &totals);
        }

        fn rows(&self, from: u64) -> Vec<Minute> {
            let totals = CounterReader::all(&self.readers);
            self.history.since(from, &totals).collect()
        }
    }

    #[test]
    fn each_minute_has_what_came_in_it() {
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
    fn a_day_is_kept_and_no_more() {
        let mut bench = Bench::new(0);
        for minute in 1..=3_000 {
            bench.count(Outcome::Hit);
            bench.turn(minute);
        }
        let rows = bench.rows(0);
        assert_eq!(rows.len(), MINUTES);
        assert_eq!(rows.first().unwrap().minute, 3_001 - MINUTES as u64);
        // A quiet day empties it, and a clock that is set back does not make it grow.
        bench.turn(9_000);
        assert_eq!(bench.rows(0).len(), 1);
        for minute in (0..3_000).rev() {
            bench.count(Outcome::Hit);
            bench.turn(minute);
        }
        assert!(bench.rows(0).len() <= MINUTES + 1);
    }
}
