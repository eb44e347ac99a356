//! What a stream has seen in one run: how many answers, how late, which of them wrong.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use hdrhistogram::Histogram;

use super::{Coding, Wanted, answer::Answer};

/// One stream in one run.
#[derive(Debug)]
pub(in super::super) struct Seen {
    /// Answers that came whole, right or wrong.
    pub(in super::super) answers: u64,
    /// On the wire.
    pub(in super::super) bytes: u64,
    /// From the first request to the last answer.
    pub(in super::super) took: Duration,
    latency: Histogram<u64>,
    pub(in super::super) wrong_status: u64,
    /// Answers of another length than wanted, by length.
    pub(in super::super) odd_lengths: Vec<(u64, u64)>,
    /// Connections that broke in the middle, answers that were none, requests never answered.
    pub(in super::super) broken: u64,
    /// What the first of them was.
    pub(in super::super) first_trouble: Option<String>,
    /// Connections made anew because the server closed them in order.
    pub(in super::super) reconnects: u64,
    /// Different answers that were kept.
    pub(in super::super) samples: Vec<Sampled>,
    hasher: RandomState,
}

/// An answer that was kept.
#[derive(Debug)]
pub(in super::super) struct Sampled {
    /// The number of its request.
    pub(in super::super) ask: usize,
    pub(in super::super) coding: Coding,
    pub(in super::super) body: Vec<u8>,
    hash: u64,
}

impl Seen {
    pub(super) fn new() -> Self {
        Self {
            answers: 0,
            bytes: 0,
            took: Duration::ZERO,
            latency: Histogram::new_with_bounds(1, LONGEST_NS, 3)
                .expect("the bounds are in order and 3 digits are allowed"),
            wrong_status: 0,
            odd_lengths: Vec::new(),
            broken: 0,
            first_trouble: None,
            reconnects: 0,
            samples: Vec::new(),
            hasher: RandomState::new(),
        }
    }

    /// Notes an answer; returns whether the next one to the same request should be kept.
    pub(super) fn note(
        &mut self,
        ask: usize,
        wanted: Wanted,
        answer: &mut Answer,
        latency: Duration,
    ) -> bool {
        self.answers += 1;
        self.bytes += answer.bytes;
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.latency.saturating_record(nanoseconds);
        if answer.status != wanted.status {
            self.wrong_status += 1;
            let status = answer.status;
            self.trouble(|| format!("status {status}"));
            return false;
        }
        let length = answer.length;
        let is_odd = wanted.length.is_some_and(|wanted| wanted != length);
        let mut is_new = false;
        if is_odd {
            is_new = !self.has_sample_of(length) && answer.body.is_none();
            self.odd(length);
        }
        if let Some(body) = answer.body.take() {
            self.keep(ask, answer.coding, body);
        }
        is_new
    }

    /// Notes something that went wrong, in words if it is the first.
    pub(super) fn trouble(&mut self, what: impl FnOnce() -> String) {
        self.first_trouble.get_or_insert_with(what);
    }

    /// True if an answer of that length was kept.
    fn has_sample_of(&self, length: u64) -> bool {
        self.samples
            .iter()
            .any(|sample| sample.body.len() as u64 == length)
    }

    fn odd(&mut self, length: u64) {
        let mut known = self.odd_lengths.iter_mut();
        if let Some((_, count)) = known.find(|(other, _)| *other == length) {
            *count += 1;
        } else if self.odd_lengths.len() < MOST_LENGTHS {
            self.odd_lengths.push((length, 1));
        } else {
            // So many different lengths are not one page any more.
            self.wrong_status += 1;
        }
    }

    fn keep(&mut self, ask: usize, coding: Coding, body: Vec<u8>) {
        let hash = self.hasher.hash_one(&body);
        let is_known = self
            .samples
            .iter()
            .any(|other| (other.ask, other.coding, other.hash) == (ask, coding, hash));
        if !is_known && self.samples.len() < MOST_SAMPLES {
            self.samples.push(Sampled {
                ask,
                coding,
                body,
                hash,
            });
        }
    }

    /// The latency that this share of the answers did not exceed; `share` from 0 to 1.
    pub(in super::super) fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.latency.value_at_quantile(share))
    }

    pub(in super::super) fn slowest(&self) -> Duration {
        Duration::from_nanos(self.latency.max())
    }
}

/// What takes longer counts as this long: ten minutes.
const LONGEST_NS: u64 = 600_000_000_000;
/// Bodies kept in one run: each is decoded by another program afterwards.
const MOST_SAMPLES: usize = 12;
const MOST_LENGTHS: usize = 8;
