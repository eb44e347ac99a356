//! One second of a run in figures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::slices::LoadSlice;

/// One second of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReportedSecond {
    /// Requests that were due.
    pub requests: u64,
    /// Those that failed.
    pub failures: u64,
    /// Median of their latency in milliseconds.
    pub p50_ms: f64,
    /// 95 % took no longer.
    pub p95_ms: f64,
    /// 99 % took no longer.
    pub p99_ms: f64,
    /// By status; 0: without a response.
    pub statuses: BTreeMap<u16, u64>,
}

impl ReportedSecond {
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
