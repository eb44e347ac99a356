//! The load of a comparison, and the figures that are compared.

/// The load of all generators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LoadSettings {
    /// Requests per second.
    pub(super) rate: u32,
    pub(super) seconds: u32,
    pub(super) connections: u32,
}

/// The result of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LatencyPercentiles {
    pub(super) requests: u64,
    /// The 50th, 90th and 99th percentile in milliseconds.
    pub(super) ms: [f64; 3],
}
