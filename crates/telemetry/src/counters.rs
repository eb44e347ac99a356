//! Counters of responses: one set per front thread, with one row per site.
//!
//! Each set has one writer, the thread that owns it, which therefore needs no atomic addition: a plain load and store, on cache
//! lines that no other thread writes. A hit costs four of them. Readers sum all sets into [`Totals`]; a sum may miss the counts
//! of the last moment.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use galley_policy::outcome::{Outcome, RefusedWhy, words};

use super::http2;
use super::record::AccessRecord;
use super::totals::{Totals, slots};

/// The writing side of one thread's counters; may be moved to the thread, but not shared.
#[derive(Debug)]
pub struct CoreCounters {
    set: Arc<CounterSet>,
    /// Keeps the type from being `Sync`: two writers would lose counts.
    one_writer: PhantomData<Cell<()>>,
}

/// The reading side of one thread's counters.
#[derive(Clone, Debug)]
pub struct CounterReader {
    set: Arc<CounterSet>,
}

/// The result of a TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// Completed with a new session.
    Full,
    /// Completed with a resumed session.
    Resumed,
    /// Failed.
    Failed,
}

words! {
    /// Why Galley closed a connection that its client would have kept.
    Closed {
        /// The connection was idle, and others needed its slot.
        GaveWay = "gave-way",
        /// The client had too many connections.
        TooMany = "too-many",
        /// The client was too slow with a head or a body.
        TooSlow = "too-slow",
    }
}

/// Creates both sides of a set with this number of sites; all counters are zero.
pub fn counters(sites: usize) -> (CoreCounters, CounterReader) {
    let set = Arc::new(CounterSet {
        rows: (0..=sites).map(|_| CounterRow::default()).collect(),
        connections: AtomicU64::new(0),
        handshakes: Default::default(),
        http2: http2::Http2Counters::default(),
        http3: http2::Http2Counters::default(),
        closed: Default::default(),
    });
    (
        CoreCounters {
            set: Arc::clone(&set),
            one_writer: PhantomData,
        },
        CounterReader { set },
    )
}

impl CoreCounters {
    /// Counts a response. `site`: the site's row; `None` for a request without a site.
    pub fn count(&self, site: Option<u32>, response: &AccessRecord<'_>) {
        let Some(row) = self.set.row(site) else {
            return;
        };
        let (requests, bytes) = slots::of_outcome(response.outcome);
        row.add(requests, 1);
        row.add(bytes, response.body_bytes);
        // A client that invents methods is no error of the server.
        let is_claim = response.outcome == Outcome::Refused(RefusedWhy::UnknownMethod);
        if response.status >= 500 && !is_claim {
            row.add(slots::SERVER_ERRORS, 1);
        }
        for slot in slots::of_reasons(response.outcome).into_iter().flatten() {
            row.add(slot, 1);
        }
        row.time(slots::of_total_time(response.outcome), response.total_time);
        if let Some(time) = response.upstream_time {
            let us = row.time(slots::UPSTREAM_TIME, time);
            if let Some(slot) = slots::of_upstream_us(response.outcome) {
                row.add(slot, us);
            }
        }
    }

    /// Counts a TLS handshake.
    pub fn handshake(&self, ended: Handshake) {
        let [full, resumed, failed] = &self.set.handshakes;
        let count = match ended {
            Handshake::Full => full,
            Handshake::Resumed => resumed,
            Handshake::Failed => failed,
        };
        let now = count.load(Ordering::Relaxed).wrapping_add(1);
        count.store(now, Ordering::Relaxed);
    }

    /// Sets the number of open connections of this thread.
    pub fn connections(&self, open: usize) {
        self.set.connections.store(open as u64, Ordering::Relaxed);
    }

    /// Counts a connection that Galley closed.
    pub fn closed(&self, why: Closed) {
        if let Some(count) = self.set.closed.get(why as usize) {
            let before = count.load(Ordering::Relaxed);
            count.store(before.wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Counts an HTTP/2 connection at its end.
    pub fn http2(
        &self,
        counts: &http2::Http2ConnectionCounts,
        ended: Option<http2::Http2EndReason>,
    ) {
        self.set.http2.count(counts, ended);
    }

    /// Counts an HTTP/3 connection at its end.
    pub fn http3(
        &self,
        counts: &http2::Http2ConnectionCounts,
        ended: Option<http2::Http2EndReason>,
    ) {
        self.set.http3.count(counts, ended);
    }
}

impl CounterReader {
    /// A set without a writer, with the sums of `cores`, whose writers have ended.
    pub fn sum(cores: &[CounterReader]) -> CounterReader {
        let rows = cores.iter().map(|core| core.set.rows.len()).max();
        let (_, reader) = counters(rows.unwrap_or(1).saturating_sub(1));
        for core in cores {
            reader.set.add(&core.set);
        }
        reader
    }

    /// The sums of HTTP/2 connections over all threads.
    pub fn http2(cores: &[CounterReader]) -> http2::Http2Totals {
        let mut totals = http2::Http2Totals::default();
        for core in cores {
            core.set.http2.add_to(&mut totals);
        }
        totals
    }

    /// The sums of HTTP/3 connections over all threads.
    pub fn http3(cores: &[CounterReader]) -> http2::Http2Totals {
        let mut totals = http2::Http2Totals::default();
        for core in cores {
            core.set.http3.add_to(&mut totals);
        }
        totals
    }

    /// The sums of one site over all threads; `None`: of requests without a site.
    pub fn site(cores: &[CounterReader], site: Option<u32>) -> Totals {
        Totals::sum(
            cores
                .iter()
                .filter_map(|core| core.set.row(site))
                .map(CounterRow::now),
        )
    }

    /// The sums over all sites and threads.
    pub fn all(cores: &[CounterReader]) -> Totals {
        Totals::sum(
            cores
                .iter()
                .flat_map(|core| &core.set.rows)
                .map(CounterRow::now),
        )
    }

    /// TLS handshakes over all threads: with a new session, with a resumed session, failed.
    pub fn handshakes(cores: &[CounterReader]) -> [u64; 3] {
        let mut sums = [0; 3];
        for core in cores {
            for (sum, count) in sums.iter_mut().zip(&core.set.handshakes) {
                *sum += count.load(Ordering::Relaxed);
            }
        }
        sums
    }

    /// The number of open connections of all threads.
    pub fn connections(cores: &[CounterReader]) -> u64 {
        let open = |core: &CounterReader| core.set.connections.load(Ordering::Relaxed);
        cores.iter().map(open).sum()
    }

    /// Connections that Galley closed, by reason, over all threads.
    pub fn closed(cores: &[CounterReader]) -> impl Iterator<Item = (&'static str, u64)> {
        Closed::ALL.iter().map(|&why| {
            let counts = cores
                .iter()
                .filter_map(|core| core.set.closed.get(why as usize));
            let counts = counts.map(|count| count.load(Ordering::Relaxed));
            (why.word(), counts.fold(0, u64::wrapping_add))
        })
    }
}

#[derive(Debug)]
struct CounterSet {
    /// The row of requests without a site, then one for each site; so a site has the same row in sets of different sizes.
    rows: Box<[CounterRow]>,
    /// Written by the owning thread only.
    connections: AtomicU64,
    /// With a new session, with a resumed session, failed. Written by the owning thread only.
    handshakes: [AtomicU64; 3],
    http2: http2::Http2Counters,
    http3: http2::Http2Counters,
    /// Connections that Galley closed, by [`Closed`]. Written by the owning thread only.
    closed: [AtomicU64; Closed::ALL.len()],
}

impl CounterSet {
    /// Adds the counts of another set. Open connections are not added: those of threads that have ended are closed.
    fn add(&self, other: &Self) {
        for (row, more) in self.rows.iter().zip(&other.rows) {
            for (slot, count) in more.now().into_iter().enumerate() {
                row.add(slot, count);
            }
        }
        let pairs = self.handshakes.iter().zip(&other.handshakes);
        for (sum, more) in pairs.chain(self.closed.iter().zip(&other.closed)) {
            sum.fetch_add(more.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.http2.add(&other.http2);
        self.http3.add(&other.http3);
    }

    fn row(&self, site: Option<u32>) -> Option<&CounterRow> {
        match site {
            None => self.rows.first(),
            Some(site) => self.rows.get(usize::try_from(site).ok()?.checked_add(1)?),
        }
    }
}

/// Aligned to two cache lines of 64 bytes: the hardware prefetches them in pairs, so that the sets of two threads would otherwise
/// interfere.
#[derive(Debug)]
#[repr(align(128))]
struct CounterRow {
    /// Written by the owning thread only.
    counts: [AtomicU64; slots::COUNT],
}

impl Default for CounterRow {
    fn default() -> Self {
        Self {
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl CounterRow {
    fn add(&self, slot: usize, count: u64) {
        if let Some(counter) = self.counts.get(slot) {
            counter.store(
                counter.load(Ordering::Relaxed).wrapping_add(count),
                Ordering::Relaxed,
            );
        }
    }

    /// Adds a time to a histogram and returns it in microseconds.
    fn time(&self, first: usize, time: Duration) -> u64 {
        let (bucket, us) = slots::of_time(time);
        self.add(first + bucket, 1);
        self.add(first + slots::SUM, us);
        us
    }

    fn now(&self) -> [u64; slots::COUNT] {
        self.counts
            .each_ref()
            .map(|count| count.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::tests::record;
    use galley_policy::outcome::{MissWhy, NotStored, PassWhy, RefusedWhy, StaleWhy, StoreOutcome};

    fn miss(kept: StoreOutcome, collapsed: bool) -> Outcome {
        Outcome::Miss {
            why: MissWhy::Uri,
            outcome: kept,
            collapsed,
        }
    }

    fn response(outcome: Outcome, body_bytes: u64) -> AccessRecord<'static> {
        AccessRecord {
            outcome,
            body_bytes,
            total_time: Duration::from_micros(300),
            upstream_time: None,
            ..record()
        }
    }

    #[test]
    fn each_outcome_is_counted_under_its_word() {
        let all = [
            Outcome::Hit,
            Outcome::Stale(StaleWhy::Overload),
            miss(StoreOutcome::NotStored(NotStored::Vary), false),
            Outcome::Pass(PassWhy::Path),
            Outcome::File,
            Outcome::Redirect,
            Outcome::Purge,
            Outcome::Dashboard,
            Outcome::Refused(RefusedWhy::Denied),
        ];
        for outcome in all {
            let (writer, reader) = counters(1);
            writer.count(Some(0), &response(outcome, 7));
            let counted: Vec<_> = CounterReader::all(&[reader])
                .words()
                .into_iter()
                .filter(|(_, count)| *count > 0)
                .collect();
            assert_eq!(
                counted,
                [("requests", 1), ("bytes", 7), (outcome.word(), 1)]
            );
        }
    }

    #[test]
    fn sums_of_different_sets_keep_the_rows_of_sites() {
        let ((old, old_reader), (new, new_reader)) = (counters(1), counters(2));
        for writer in [&old, &new] {
            writer.count(None, &response(Outcome::Hit, 1));
            writer.count(Some(0), &response(Outcome::Hit, 1));
            writer.handshake(Handshake::Failed);
            writer.closed(Closed::TooSlow);
            writer.connections(3);
        }
        new.count(Some(1), &response(Outcome::Hit, 1));
        let past = CounterReader::sum(&[old_reader]);
        let past = CounterReader::sum(&[past, new_reader]);
        let (_, fresh) = counters(3);
        let all = [past, fresh];
        let of = |site| CounterReader::site(&all, site).requests();
        assert_eq!(
            [of(None), of(Some(0)), of(Some(1)), of(Some(2))],
            [2, 2, 1, 0]
        );
        assert_eq!(CounterReader::handshakes(&all), [0, 0, 2]);
        assert_eq!(CounterReader::connections(&all), 0);
        assert!(CounterReader::closed(&all).any(|(why, count)| why == "too-slow" && count == 2));
    }

    #[test]
    fn each_site_has_its_row() {
        let (writer, reader) = counters(2);
        let cores = [reader];
        for (site, times) in [(Some(0), 1), (Some(1), 2), (None, 3), (Some(9), 4)] {
            for _ in 0..times {
                writer.count(site, &response(Outcome::Hit, 1));
            }
        }
        let requests = |site| CounterReader::site(&cores, site).requests();
        assert_eq!((requests(Some(0)), requests(Some(1))), (1, 2));
        assert_eq!(
            requests(None),
            3,
            "a number that no site has is no request of another"
        );
        assert_eq!(CounterReader::all(&cores).requests(), 6);
    }

    #[test]
    fn reasons_and_times_are_counted() {
        let (writer, reader) = counters(1);
        let cores = [reader];
        for (outcome, upstream_ms) in [
            (Outcome::Pass(PassWhy::Cookie), Some(20)),
            (Outcome::Pass(PassWhy::Cookie), Some(11_000)),
            (
                miss(StoreOutcome::NotStored(NotStored::SetCookie), true),
                Some(20),
            ),
            (Outcome::Hit, None),
        ] {
            let upstream_time = upstream_ms.map(Duration::from_millis);
            let response = response(outcome, 0);
            writer.count(
                Some(0),
                &AccessRecord {
                    upstream_time,
                    ..response
                },
            );
        }
        let totals = CounterReader::site(&cores, Some(0));
        let counted = |all: Vec<(&'static str, u64)>| all.into_iter().find(|(_, count)| *count > 0);
        assert_eq!(counted(totals.passes().collect()), Some(("cookie", 2)));
        assert_eq!(counted(totals.misses().collect()), Some(("uri-miss", 1)));
        let not_stored = counted(totals.not_stored().collect());
        assert_eq!(not_stored, Some(("set-cookie", 1)));
        assert_eq!(totals.collapsed(), 1);
        let upstream = totals.upstream_time();
        assert_eq!(upstream.count(), 3);
        assert_eq!(upstream.sum_us(), 11_040_000);
        let sums: Vec<_> = upstream.cumulative().skip(4).take(2).collect();
        assert_eq!(sums, [(Some(10_000), 0), (Some(25_000), 2)]);
        assert_eq!(upstream.cumulative().last(), Some((None, 3)));
        assert_eq!(totals.total_time().count(), 4);
        assert_eq!(totals.total_time().sum_us(), 1_200);
        assert_eq!(totals.cache_time().count(), 1);
        assert_eq!(totals.pass_us(PassWhy::Cookie), 11_020_000);
        // This one waited for another one's fetch.
        assert_eq!(totals.not_stored_us(NotStored::SetCookie), 0);
    }

    #[test]
    fn counters_of_threads_are_summed() {
        let (one, one_reader) = counters(1);
        let (two, two_reader) = counters(1);
        one.connections(2);
        two.connections(3);
        let thread = std::thread::spawn(move || {
            for _ in 0..1_000 {
                two.count(Some(0), &response(miss(StoreOutcome::Stored, true), 10));
            }
        });
        for _ in 0..500 {
            one.count(Some(0), &response(Outcome::Hit, 1));
        }
        thread.join().unwrap();
        let cores = [one_reader, two_reader];
        let sums = CounterReader::site(&cores, Some(0)).words();
        let of = |word: &str| {
            sums.iter()
                .find(|(name, _)| *name == word)
                .map(|(_, count)| *count)
        };
        assert_eq!(of("requests"), Some(1_500));
        assert_eq!(of("bytes"), Some(10_500));
        assert_eq!(
            (of("hit"), of("miss"), of("stored"), of("collapsed")),
            (Some(500), Some(1_000), Some(1_000), Some(1_000))
        );
        assert_eq!(of("pass"), Some(0));
        assert_eq!(CounterReader::connections(&cores), 5);
    }
}
