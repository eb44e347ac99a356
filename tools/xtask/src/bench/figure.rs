//! What is measured: the names of figures in scenarios, results and tables, with their units.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Kinds of figures.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Figure {
    /// Processor time of all the contender's processes for each answer, in microseconds.
    #[default]
    CpuUs,
    /// Answers in a second.
    PerSecond,
    /// Megabytes (10^6) of answers in a second.
    MegabytesPerSecond,
    /// Latency by the client's clock, in microseconds.
    P50Us,
    P99Us,
    P999Us,
    MaxUs,
    /// Memory of all the contender's processes, in megabytes (10^6).
    MemoryMb,
    /// Share of a core that the contender had.
    ServerBusy,
    ClientBusy,
    /// Share of the whole machine that neither contender, database nor client had.
    OthersBusy,
    /// Requests that PHP saw.
    UpstreamRequests,
    /// How long PHP took, in milliseconds.
    UpstreamMs,
    /// The slowest answer, in milliseconds.
    WorstMs,
    /// How much longer than PHP it took, in milliseconds.
    LateMs,
    /// Of the requests beside those that are measured.
    BesidePerSecond,
    BesideP99Us,
}

/// One value of each kind that a measurement has.
pub(super) type Figures = BTreeMap<Figure, f64>;

impl Figure {
    /// What it is, for people, with its unit.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::CpuUs => "server CPU per request, microseconds",
            Self::PerSecond => "requests per second",
            Self::MegabytesPerSecond => "megabytes per second",
            Self::P50Us => "median latency, microseconds",
            Self::P99Us => "99th percentile of latency, microseconds",
            Self::P999Us => "99.9th percentile of latency, microseconds",
            Self::MaxUs => "slowest answer, microseconds",
            Self::MemoryMb => "memory, megabytes",
            Self::ServerBusy => "share of a core, server",
            Self::ClientBusy => "share of a core, client",
            Self::OthersBusy => "share of the machine, others",
            Self::UpstreamRequests => "requests at PHP",
            Self::UpstreamMs => "time of PHP, milliseconds",
            Self::WorstMs => "slowest answer, milliseconds",
            Self::LateMs => "slowest answer less PHP's time, milliseconds",
            Self::BesidePerSecond => "requests per second of what went on beside",
            Self::BesideP99Us => "99th percentile of what went on beside, microseconds",
        }
    }

    /// The head of a column.
    pub(super) fn column(self) -> &'static str {
        match self {
            Self::CpuUs => "CPU us/request",
            Self::PerSecond => "requests/s",
            Self::MegabytesPerSecond => "MB/s",
            Self::P50Us => "p50 us",
            Self::P99Us => "p99 us",
            Self::P999Us => "p99.9 us",
            Self::MaxUs => "max us",
            Self::MemoryMb => "memory MB",
            Self::ServerBusy => "server core",
            Self::ClientBusy => "client core",
            Self::OthersBusy => "others",
            Self::UpstreamRequests => "PHP requests",
            Self::UpstreamMs => "PHP ms",
            Self::WorstMs => "slowest ms",
            Self::LateMs => "after PHP ms",
            Self::BesidePerSecond => "beside/s",
            Self::BesideP99Us => "beside p99 us",
        }
    }
}

/// A figure with as many decimals as it deserves.
pub(crate) fn rounded(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_files_are_those_of_the_results() {
        let text = serde_json::to_string(&Figure::MegabytesPerSecond).unwrap();
        assert_eq!(text, "\"megabytes-per-second\"");
        let figures = Figures::from([(Figure::P999Us, 1.5)]);
        let text = serde_json::to_string(&figures).unwrap();
        assert_eq!(serde_json::from_str::<Figures>(&text).unwrap(), figures);
    }

    #[test]
    fn decimals() {
        for (value, wanted) in [
            (1234.5, "1234"),
            (12.34, "12.3"),
            (1.234, "1.23"),
            (-50.0, "-50.0"),
        ] {
            assert_eq!(rounded(value), wanted);
        }
    }
}
