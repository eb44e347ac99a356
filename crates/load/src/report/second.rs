//! The results of one second of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::slices::LoadSlice;

/// The results of the requests with an intended start in one second of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReportedSecond {
    /// The number of requests.
    pub requests: u64,
    /// The number of failed requests.
    pub failures: u64,
    /// The median of the latency, in milliseconds.
    pub p50_ms: f64,
    /// The 95th percentile of the latency, in milliseconds.
    pub p95_ms: f64,
    /// The 99th percentile of the latency, in milliseconds.
    pub p99_ms: f64,
    /// Requests by status; 0: without a response.
    pub statuses: BTreeMap<u16, u64>,
}

impl ReportedSecond {
    /// Whether requests failed, or more than 1 % of them took longer than the limit.
    pub(super) fn is_bad(&self, limit_ms: f64) -> bool {
        self.failures > 0 || self.p99_ms > limit_ms
    }

    pub(super) fn new(slice: &LoadSlice) -> Self {
        Self {
            requests: slice.requests,
            failures: slice.failures,
            p50_ms: slice.quantile_ms(0.5),
            p95_ms: slice.quantile_ms(0.95),
            p99_ms: slice.quantile_ms(0.99),
            statuses: slice.statuses.clone(),
        }
    }
}
