//! Pairs of slices of hits: one of a server as it is, and one of a server that something was added to. First the one and then the other,
//! so that what the machine does meanwhile falls on both.

use std::time::{Duration, Instant};

use super::asker::{Asker, ask_all};
use super::stage::Stage;
use super::{Setting, amount};
use crate::Trouble;

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
    ) -> Result<Self, Trouble> {
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

    /// Adds what was counted.
    pub(super) fn add(&mut self, other: &Self) {
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

/// What pairs of slices came to.
pub(super) struct SlicePairs {
    progress: fn(&str),
    length: Duration,
    wanted: usize,
    more: Vec<f64>,
}

impl SlicePairs {
    pub(super) fn new(setting: &Setting) -> Self {
        Self {
            progress: setting.progress,
            length: setting.form.pick(SHORT_SLICE, LONG_SLICE),
            wanted: setting.form.pick(1, PAIRS),
            more: Vec::new(),
        }
    }

    /// `measure`: a figure of one slice, of which less is better.
    pub(super) fn run(
        &mut self,
        mut measure: impl FnMut(Side, Duration) -> Result<f64, Trouble>,
    ) -> Result<(), Trouble> {
        for pair in 0..self.wanted {
            (self.progress)(&format!("pair {} of slices", pair + 1));
            let (plain, changed) = if pair % 2 == 0 {
                let changed = measure(Side::Changed, self.length)?;
                (measure(Side::Plain, self.length)?, changed)
            } else {
                let plain = measure(Side::Plain, self.length)?;
                (plain, measure(Side::Changed, self.length)?)
            };
            self.more.push((changed / plain - 1.0) * 100.0);
        }
        Ok(())
    }

    pub(super) fn count(&self) -> usize {
        self.more.len()
    }

    /// The median of the pairs.
    pub(super) fn more_percent(&mut self) -> f64 {
        self.more.sort_unstable_by(f64::total_cmp);
        let middle = self.more.get(self.more.len() / 2);
        middle.copied().unwrap_or_default()
    }
}

/// Fetches what the slices ask for.
pub(super) fn warm(askers: &mut [Asker]) -> Result<(), Trouble> {
    ask_all(askers, 2_000, &mut path).map(drop)
}

fn path(number: u64) -> String {
    format!("/e/{}", number % 100)
}

/// A long slice has three samples of dashboards, which come every two seconds.
const SHORT_SLICE: Duration = Duration::from_millis(500);
const LONG_SLICE: Duration = Duration::from_secs(6);
const PAIRS: usize = 11;

/// Enough that the server never waits for a client.
pub(super) const CLIENTS: usize = 8;
