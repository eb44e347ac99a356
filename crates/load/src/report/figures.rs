//! The results of one run as JSON: `galley load --json` writes them, and `--compare` reads them again.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    cause::{KneeCause, MachineSample},
    knee::Knee,
    second::ReportedSecond,
};
use crate::outcome::LoadOutcome;

/// The options of the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadSetup {
    /// The URL of the target.
    pub target: String,
    /// `constant`, `ramp`, `closed` or `replay`.
    pub mode: String,
    /// Protocol and connections, as text.
    pub client: String,
    /// The start of the run, in seconds of Unix time.
    pub began: u64,
    /// The first and the last rate of a ramp, or the constant rate twice; requests per second.
    pub rates: Option<[f64; 2]>,
    /// The planned duration of the run, in seconds.
    pub planned_s: Option<f64>,
}

/// The results of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadReport {
    /// The options of the run.
    pub setup: LoadSetup,
    /// Whether the run was stopped early.
    pub stopped: bool,
    /// The time from the start to the last response, in seconds.
    pub elapsed_s: f64,
    /// The number of complete responses.
    pub responses: u64,
    /// Responses per second.
    pub per_second: f64,
    /// The size of the responses, in bytes.
    pub bytes: u64,
    /// The number of responses with 429 or 5xx, broken connections, and requests that were never sent.
    pub failures: u64,
    /// Of the failures, the requests that were never sent because all connections were busy.
    pub unsent: u64,
    /// The first failure.
    pub first_failure: Option<String>,
    /// The latencies of all requests, from their intended starts.
    pub latency: Vec<Percentile>,
    /// The mean latency of the expected responses, in milliseconds.
    pub mean_ms: f64,
    /// Requests by status; `0`: without a response.
    pub statuses: BTreeMap<u16, u64>,
    /// Responses by the word of their Cache-Status.
    pub cache: BTreeMap<String, u64>,
    /// The results by the second of the intended starts.
    pub seconds: Vec<ReportedSecond>,
    /// Samples of the machine that runs the test, about once a second.
    pub machine: Vec<MachineSample>,
    /// The highest rate that the target could process, for a ramp.
    pub knee: Option<Knee>,
    /// The reason why it could not process more.
    pub cause: Option<KneeCause>,
}

/// A percentile of the latency.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// The percentage, from 0 to 100.
    pub percent: f64,
    /// The latency, in milliseconds.
    pub ms: f64,
}

impl Percentile {
    fn of(outcome: &LoadOutcome, percent: f64) -> Self {
        let time: Duration = outcome.quantile(percent / 100.0);
        Self {
            percent,
            ms: time.as_secs_f64() * 1000.0,
        }
    }
}

impl LoadReport {
    /// Calculates the report of an outcome.
    pub fn new(setup: LoadSetup, outcome: &LoadOutcome, machine: Vec<MachineSample>) -> Self {
        Self {
            setup,
            stopped: outcome.is_stopped,
            elapsed_s: outcome.elapsed.as_secs_f64(),
            responses: outcome.responses,
            per_second: outcome.per_second(),
            bytes: outcome.bytes,
            failures: outcome.unexpected_status + outcome.broken + outcome.unsent,
            unsent: outcome.unsent,
            first_failure: outcome.first_error.clone(),
            latency: PERCENTS
                .map(|percent| Percentile::of(outcome, percent))
                .to_vec(),
            mean_ms: outcome.latency.mean() / 1_000_000.0,
            statuses: outcome.statuses.clone(),
            cache: outcome.cache_words.clone(),
            seconds: outcome.slices.iter().map(ReportedSecond::new).collect(),
            machine,
            ..Self::default()
        }
    }

    /// The latency at one of the report's percentiles, in milliseconds.
    pub fn ms(&self, percent: f64) -> Option<f64> {
        let is_it = |it: &&Percentile| (it.percent - percent).abs() < 1e-9;
        self.latency.iter().find(is_it).map(|it| it.ms)
    }
}

/// The percentiles of the latency in a report.
const PERCENTS: [f64; 11] = [
    50.0, 66.0, 75.0, 80.0, 90.0, 95.0, 98.0, 99.0, 99.9, 99.99, 100.0,
];
