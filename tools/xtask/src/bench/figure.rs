//! The figures that the benchmark measures: their names in scenarios, results and tables, and their units.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A measured quantity. The serialized names are those in scenarios.toml and in the JSON files of earlier runs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Figure {
    /// Processor time of all processes of the contender per response, in microseconds.
    #[default]
    CpuUs,
    /// Responses per second.
    PerSecond,
    /// Megabytes (10^6) of responses per second.
    MegabytesPerSecond,
    /// Latency measured by the client, in microseconds.
    P50Us,
    P99Us,
    P999Us,
    MaxUs,
    /// Memory of all processes of the contender, in megabytes (10^6).
    MemoryMb,
    /// Share of one core that the contender used.
    ServerBusy,
    ClientBusy,
    /// Share of the whole machine that was used by neither contender, database nor client.
    OthersBusy,
    /// Requests that PHP received.
    UpstreamRequests,
    /// Time that PHP needed to generate the page, in milliseconds.
    UpstreamMs,
    /// The slowest response, in milliseconds.
    WorstMs,
    /// The slowest response minus the time of PHP, in milliseconds.
    LateMs,
    /// Rate and latency of the background load.
    #[serde(rename = "beside-per-second")]
    BackgroundPerSecond,
    #[serde(rename = "beside-p99-us")]
    BackgroundP99Us,
}

/// The figures of one measurement.
pub(super) type Figures = BTreeMap<Figure, f64>;

impl Figure {
    /// The description in charts, with the unit.
    pub(super) fn description(self) -> &'static str {
        match self {
            Self::CpuUs => "server CPU per request, microseconds",
            Self::PerSecond => "requests per second",
            Self::MegabytesPerSecond => "megabytes per second",
            Self::P50Us => "median latency, microseconds",
            Self::P99Us => "99th percentile of latency, microseconds",
            Self::P999Us => "99.9th percentile of latency, microseconds",
            Self::MaxUs => "slowest response, microseconds",
            Self::MemoryMb => "memory, megabytes",
            Self::ServerBusy => "share of a core, server",
            Self::ClientBusy => "share of a core, client",
            Self::OthersBusy => "share of the machine, others",
            Self::UpstreamRequests => "requests at PHP",
            Self::UpstreamMs => "PHP time, milliseconds",
            Self::WorstMs => "slowest response, milliseconds",
            Self::LateMs => "slowest response minus PHP's time, milliseconds",
            Self::BackgroundPerSecond => "background requests per second",
            Self::BackgroundP99Us => "99th percentile of background latency, microseconds",
        }
    }

    /// The heading of the column in tables.
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
            Self::BackgroundPerSecond => "beside/s",
            Self::BackgroundP99Us => "beside p99 us",
        }
    }
}

/// Formats a value with three significant digits, but without decimals from 100 on.
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
    fn figures_are_serialized_in_kebab_case() {
        let text = serde_json::to_string(&Figure::MegabytesPerSecond).unwrap();
        assert_eq!(text, "\"megabytes-per-second\"");
        let figures = Figures::from([(Figure::P999Us, 1.5)]);
        let text = serde_json::to_string(&figures).unwrap();
        assert_eq!(serde_json::from_str::<Figures>(&text).unwrap(), figures);
    }

    #[test]
    fn values_are_rounded_to_three_digits() {
        for (value, expected) in [
            (1234.5, "1234"),
            (12.34, "12.3"),
            (1.234, "1.23"),
            (-50.0, "-50.0"),
        ] {
            assert_eq!(rounded(value), expected);
        }
    }
}
