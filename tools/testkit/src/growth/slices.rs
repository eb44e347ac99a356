//! Pairs of slices of hits: one slice of a server as it is, and one of a server with something added. The two follow each other directly,
//! so that other load on the machine affects both.

use std::time::{Duration, Instant};

use super::count_as_f64;
use super::load::{ResponseCounts, send_all};
use super::site::GrowthSite;
use crate::TestkitError;
use crate::client::Connection;

/// Hits without a pause during a fixed time.
#[derive(Clone, Copy, Default)]
pub(super) struct Slice {
    pub(super) counts: ResponseCounts,
    processor: Duration,
    elapsed: Duration,
}

impl Slice {
    pub(super) fn of_hits(
        site: &GrowthSite,
        connections: &mut [Connection],
        length: Duration,
    ) -> Result<Self, TestkitError> {
        let (started, processor_before) = (Instant::now(), site.processor_time());
        let mut slice = Self::default();
        while started.elapsed() < length {
            slice.counts.merge(send_all(connections, 500, &mut path)?);
        }
        slice.processor = site.processor_time().saturating_sub(processor_before);
        slice.elapsed = started.elapsed();
        Ok(slice)
    }

    /// Processor time of all threads of the server per hit, in seconds.
    pub(super) fn processor_per_hit(&self) -> f64 {
        self.processor.as_secs_f64() / count_as_f64(self.counts.responses.max(1))
    }

    /// Time from one hit to the next, in seconds.
    pub(super) fn time_per_hit(&self) -> f64 {
        self.elapsed.as_secs_f64() / count_as_f64(self.counts.responses.max(1))
    }
}

/// The server, or the state of a server, that a slice measures.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Plain,
    Changed,
}

/// One slice of each side.
struct SlicePair {
    plain: Slice,
    changed: Slice,
}

/// The measured pairs of slices.
pub(super) struct SlicePairs(Vec<SlicePair>);

impl SlicePairs {
    /// Measures `count` pairs; every second pair starts with the plain side.
    pub(super) fn measure(
        count: usize,
        progress: fn(&str),
        mut slice: impl FnMut(Side) -> Result<Slice, TestkitError>,
    ) -> Result<Self, TestkitError> {
        let mut pairs = Vec::with_capacity(count);
        for pair in 0..count {
            progress(&format!("pair {} of slices", pair + 1));
            pairs.push(if pair % 2 == 0 {
                let changed = slice(Side::Changed)?;
                let plain = slice(Side::Plain)?;
                SlicePair { plain, changed }
            } else {
                let plain = slice(Side::Plain)?;
                let changed = slice(Side::Changed)?;
                SlicePair { plain, changed }
            });
        }
        Ok(Self(pairs))
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// The responses of all slices.
    pub(super) fn total(&self) -> ResponseCounts {
        let mut total = ResponseCounts::default();
        for pair in &self.0 {
            total.merge(pair.plain.counts);
            total.merge(pair.changed.counts);
        }
        total
    }

    /// The median over all pairs of the percentage by which `value` is higher on the changed side.
    pub(super) fn increase_percent(&self, value: impl Fn(&Slice) -> f64) -> f64 {
        let increase = |pair: &SlicePair| (value(&pair.changed) / value(&pair.plain) - 1.0) * 100.0;
        let mut increases: Vec<f64> = self.0.iter().map(increase).collect();
        increases.sort_unstable_by(f64::total_cmp);
        increases
            .get(increases.len() / 2)
            .copied()
            .unwrap_or_default()
    }
}

/// Stores the pages that the slices request.
pub(super) fn warm_up(connections: &mut [Connection]) -> Result<(), TestkitError> {
    send_all(connections, 2_000, &mut path).map(drop)
}

fn path(number: u64) -> String {
    format!("/e/{}", number % 100)
}

/// Enough connections that the server never waits for a client.
pub(super) const CLIENTS: usize = 8;
