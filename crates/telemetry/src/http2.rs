//! Counters of HTTP/2 and HTTP/3 connections: their number, resets, and why Galley closed some.
//!
//! There is one set per front thread, which only that thread writes; see [`super::counters`].

use std::sync::atomic::{AtomicU64, Ordering};

use galley_policy::outcome::words;

words! {
    /// Why Galley closed a connection that its client would have kept.
    Http2EndReason {
        /// More resets or control frames than a legitimate client sends.
        Flood = "flood",
        /// The client violated the protocol.
        Protocol = "protocol",
        /// The client did not send a head in time, or did not read any output.
        Slow = "slow",
    }
}

/// The counts of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Http2ConnectionCounts {
    /// Streams that the client opened.
    pub streams: u64,
    /// Streams that the client reset.
    pub resets_by_client: u64,
    /// Streams that Galley reset.
    pub resets_by_galley: u64,
}

/// The sums of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Http2Totals {
    /// The number of closed connections.
    pub connections: u64,
    /// The sums of their counts.
    pub counts: Http2ConnectionCounts,
    /// Connections that Galley closed, in the order of [`Http2EndReason::ALL`].
    pub ended: [u64; 3],
}

/// The counters of one front thread.
#[derive(Debug, Default)]
pub(super) struct Http2Counters {
    slots: [AtomicU64; 7],
}

impl Http2Counters {
    /// Counts a connection at its end.
    pub(super) fn count(&self, counts: &Http2ConnectionCounts, ended: Option<Http2EndReason>) {
        let is = |why| u64::from(ended == Some(why));
        let Http2ConnectionCounts {
            streams,
            resets_by_client,
            resets_by_galley,
        } = *counts;
        let more = [
            1,
            streams,
            resets_by_client,
            resets_by_galley,
            is(Http2EndReason::Flood),
            is(Http2EndReason::Protocol),
            is(Http2EndReason::Slow),
        ];
        for (slot, more) in self.slots.iter().zip(more) {
            let sum = slot.load(Ordering::Relaxed).wrapping_add(more);
            slot.store(sum, Ordering::Relaxed);
        }
    }

    /// Adds the current counts of another set.
    pub(super) fn add(&self, other: &Self) {
        for (slot, more) in self.slots.iter().zip(&other.slots) {
            slot.fetch_add(more.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Adds the current counts to `totals`.
    pub(super) fn add_to(&self, totals: &mut Http2Totals) {
        let [connections, streams, by_client, by_galley, ended @ ..] = self
            .slots
            .each_ref()
            .map(|slot| slot.load(Ordering::Relaxed));
        totals.connections += connections;
        totals.counts.streams += streams;
        totals.counts.resets_by_client += by_client;
        totals.counts.resets_by_galley += by_galley;
        for (sum, more) in totals.ended.iter_mut().zip(ended) {
            *sum += more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_summed() {
        let (one, two) = (Http2Counters::default(), Http2Counters::default());
        let counts = Http2ConnectionCounts {
            streams: 5,
            resets_by_client: 2,
            resets_by_galley: 1,
        };
        one.count(&counts, None);
        one.count(&counts, Some(Http2EndReason::Slow));
        two.count(
            &Http2ConnectionCounts::default(),
            Some(Http2EndReason::Flood),
        );
        let mut totals = Http2Totals::default();
        one.add_to(&mut totals);
        two.add_to(&mut totals);
        assert_eq!(totals.connections, 3);
        assert_eq!(totals.counts.streams, 10);
        assert_eq!(totals.counts.resets_by_client, 4);
        assert_eq!(totals.counts.resets_by_galley, 2);
        assert_eq!(totals.ended, [1, 0, 1]);
    }
}
