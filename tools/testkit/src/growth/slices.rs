//! Pairs of slices of hits: one of a server as it is, and one of a server that something was added to. First the one and then the other,
//! so that what the machine does meanwhile falls on both.

use std::time::{Duration, Instant};

use super::amount;
use super::asker::{Asker, ask_all};
use super::stage::Stage;
use crate::TestkitError;

/// Hits without a pause.
#[derive(Clone, Copy, Default)]
pub(super) struct Slice {
    pub(super) requests: u64,
    pub(super) missed: u64,
    pub(super) wrong: u64,
    processor: Duration,
    took: Duration,
}

impl Slice {
    /// Of so long.
    pub(super) fn of_hits(
        stage: &Stage,
        askers: &mut [Asker],
        length: Duration,
    ) -> Result<Self, TestkitError> {
        let (began, before) = (Instant::now(), stage.processor());
        let mut slice = Self::default();
        while began.elapsed() < length {
            let asked = ask_all(askers, 500, &mut path)?;
            slice.requests += asked.answers;
            slice.missed += asked.answers - asked.hits;
            slice.wrong += asked.wrong;
        }
        slice.processor = stage.processor().saturating_sub(before);
        slice.took = began.elapsed();
        Ok(slice)
    }

    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.missed += other.missed;
        self.wrong += other.wrong;
    }

    /// In seconds, of all threads of the server.
    pub(super) fn processor_of_a_hit(&self) -> f64 {
        self.processor.as_secs_f64() / amount(self.requests.max(1))
    }

    /// From one hit to the next, in seconds.
    pub(super) fn time_of_a_hit(&self) -> f64 {
        self.took.as_secs_f64() / amount(self.requests.max(1))
    }
}

/// Which server, or which state of a server.
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

/// What pairs of slices came to.
pub(super) struct SlicePairs(Vec<SlicePair>);

impl SlicePairs {
    /// So many pairs.
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

    /// What was counted in all of them.
    pub(super) fn all(&self) -> Slice {
        let mut all = Slice::default();
        for pair in &self.0 {
            all.add(&pair.plain);
            all.add(&pair.changed);
        }
        all
    }

    /// How much more of something the changed side has, in the median of the pairs.
    pub(super) fn more_percent(&self, figure: impl Fn(&Slice) -> f64) -> f64 {
        let more = |pair: &SlicePair| (figure(&pair.changed) / figure(&pair.plain) - 1.0) * 100.0;
        let mut all: Vec<f64> = self.0.iter().map(more).collect();
        all.sort_unstable_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or_default()
    }
}

/// Fetches what the slices ask for.
pub(super) fn warm(askers: &mut [Asker]) -> Result<(), TestkitError> {
    ask_all(askers, 2_000, &mut path).map(drop)
}

fn path(number: u64) -> String {
    format!("/e/{}", number % 100)
}

/// Enough that the server never waits for a client.
pub(super) const CLIENTS: usize = 8;
