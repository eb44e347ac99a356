//! Measures a server while it grows: the cost of a hit by number of entries and connections, and during other work.
//!
//! Each [`GrowthPart`] starts the given binary with one front thread and a scripted upstream that responds at once, sends requests as a
//! browser does, and returns [`Measurement`]s: counts, which must be right on any machine, and times, which only a long run compares
//! with the goals. Processor time is that of all threads of the server, from `/proc`. The test suite runs all parts in their short
//! version.

mod cluster;
mod concurrent_work;
mod connections;
mod dashboards;
mod entries;
pub(crate) mod load;
mod memory_limit;
mod pages;
mod random;
mod sample_page;
mod site;
mod slices;

use std::path::PathBuf;
use std::time::Duration;

use crate::TestkitError;

/// Settings of a run.
#[derive(Debug, Clone)]
pub struct GrowthSettings {
    /// The server binary.
    pub galley: PathBuf,
    /// Amount of work.
    pub length: RunLength,
    /// Receives progress messages.
    pub progress: fn(&str),
}

/// Amount of work in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunLength {
    /// Seconds for each part, for the test suite: counts are judged, times are not.
    Short,
    /// Minutes to hours: up to a million entries, 10,000 connections, 5,000,000 requests.
    Long,
}

impl RunLength {
    pub(crate) fn pick<T>(self, short: T, long: T) -> T {
        match self {
            Self::Short => short,
            Self::Long => long,
        }
    }
}

/// One kind of growth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrowthPart {
    /// Hits among more and more entries, their memory, and a purge among them.
    Entries,
    /// Hits over more and more connections, and the memory of idle ones.
    Connections,
    /// Hits during other work.
    ConcurrentWork,
    /// Hits while dashboards are open.
    Dashboards,
    /// Hits of a node of a cluster.
    Cluster,
    /// The default settings in 256 MB.
    MemoryLimit,
    /// Pages that compress like those of WordPress, and their memory.
    Pages,
}

impl GrowthPart {
    /// All parts, in the order in which they run.
    pub const ALL: [Self; 7] = [
        Self::Entries,
        Self::Connections,
        Self::ConcurrentWork,
        Self::Dashboards,
        Self::Cluster,
        Self::MemoryLimit,
        Self::Pages,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Entries => "entries",
            Self::Connections => "connections",
            Self::ConcurrentWork => "beside",
            Self::Dashboards => "dashboards",
            Self::Cluster => "cluster",
            Self::MemoryLimit => "limit",
            Self::Pages => "pages",
        }
    }

    /// Runs the part.
    ///
    /// # Errors
    /// When a tool fails, a connection breaks or the server sends malformed HTTP.
    pub fn run(self, settings: &GrowthSettings) -> Result<Vec<Measurement>, TestkitError> {
        match self {
            Self::Entries => entries::run(settings),
            Self::Connections => connections::run(settings),
            Self::ConcurrentWork => concurrent_work::run(settings),
            Self::Dashboards => dashboards::run(settings),
            Self::Cluster => cluster::run(settings),
            Self::MemoryLimit => memory_limit::run(settings),
            Self::Pages => pages::run(settings),
        }
    }
}

/// One measured value.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// Name of the value.
    pub what: String,
    /// Conditions of the measurement.
    pub case: String,
    /// The value, in `unit`.
    pub value: f64,
    /// Unit of `value`; empty for counts.
    pub unit: &'static str,
    /// What the value must be.
    pub goal: Goal,
}

/// What a measured value must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// No goal: the value is only reported.
    None,
    /// Exactly this count, on any machine.
    Exactly(f64),
    /// At most this size, on any machine.
    AtMost(f64),
    /// At most this time or percentage of a time, on an otherwise idle machine.
    TimeAtMost(f64),
    /// Not measured on this machine; `case` gives the reason.
    Skipped,
}

impl Measurement {
    fn new(what: &str, case: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self {
            what: what.to_owned(),
            case: case.into(),
            value,
            unit,
            goal: Goal::None,
        }
    }

    fn with_goal(self, goal: Goal) -> Self {
        Self { goal, ..self }
    }

    fn skipped(what: &str, why: impl Into<String>) -> Self {
        Self::new(what, why, 0.0, "").with_goal(Goal::Skipped)
    }

    fn wrong_responses(case: &str, count: u64) -> Self {
        let measurement = Self::new("wrong responses", case, count_as_f64(count), "");
        measurement.with_goal(Goal::Exactly(0.0))
    }

    fn misses(case: &str, count: u64) -> Self {
        let measurement = Self::new(
            "responses that were not hits",
            case,
            count_as_f64(count),
            "",
        );
        measurement.with_goal(Goal::Exactly(0.0))
    }

    fn processor_per_hit(case: &str, spent: Duration, hits: u64) -> Self {
        let each = spent.as_secs_f64() * 1e6 / count_as_f64(hits);
        Self::new("server's processor time for a hit", case, each, "us")
    }

    /// True if the value meets its goal; a short run ignores goals for times.
    pub fn meets_goal(&self, length: RunLength) -> bool {
        match self.goal {
            Goal::None | Goal::Skipped => true,
            Goal::Exactly(expected) => (self.value - expected).abs() < 0.5,
            Goal::AtMost(max) => self.value <= max,
            Goal::TimeAtMost(max) => length == RunLength::Short || self.value <= max,
        }
    }
}

/// Converts a count, which is far below the largest integer that an `f64` represents exactly.
#[expect(clippy::cast_precision_loss, reason = "counts of a measurement")]
fn count_as_f64(count: u64) -> f64 {
    count as f64
}

const MB: f64 = 1e6;
