//! What a server costs while it grows: entries, connections, and what goes on beside the hits.
//!
//! Each [`Part`] starts the given binary with one front core and a scripted upstream that answers at once, asks the way a
//! browser does, and notes [`Figure`]s: counts, which must be right on any machine, and times, which the long form holds
//! against the promises. Processor time is that of all threads of the server, from `/proc`. The short form belongs to the
//! tests and judges no time.

pub(crate) mod asker;
mod beside;
mod cluster;
mod connections;
mod dashboards;
mod dice;
mod entries;
mod limit;
mod pages;
mod sample_page;
mod slices;
mod stage;

use std::path::PathBuf;

use crate::TestkitError;

/// What is run, and how much of it.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The server.
    pub galley: PathBuf,
    /// How much.
    pub form: Form,
    /// Hears what is going on.
    pub progress: fn(&str),
}

/// How much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Seconds each, for the tests: counts are judged, times are not.
    Short,
    /// Minutes all together; up to a million entries and ten thousand connections.
    Long,
}

impl Form {
    fn pick<T>(self, short: T, long: T) -> T {
        match self {
            Self::Short => short,
            Self::Long => long,
        }
    }
}

/// One way of growing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Hits among more and more entries, their memory, and a purge among them.
    Entries,
    /// Hits over more and more connections, and what idle ones hold.
    Connections,
    /// Hits while other work goes on.
    Beside,
    /// Hits while dashboards are open.
    Dashboards,
    /// Hits of a node of a cluster.
    Cluster,
    /// All of it in 256 MB.
    Limit,
    /// Pages as WordPress makes them, and their memory.
    Pages,
}

impl Part {
    /// All, in the order in which they are run.
    pub const ALL: [Self; 7] = [
        Self::Entries,
        Self::Connections,
        Self::Beside,
        Self::Dashboards,
        Self::Cluster,
        Self::Limit,
        Self::Pages,
    ];

    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Entries => "entries",
            Self::Connections => "connections",
            Self::Beside => "beside",
            Self::Dashboards => "dashboards",
            Self::Cluster => "cluster",
            Self::Limit => "limit",
            Self::Pages => "pages",
        }
    }

    /// Measures.
    ///
    /// # Errors
    /// When the tools fail, or the server answers what is no answer at all.
    pub fn run(self, setting: &Setting) -> Result<Vec<Figure>, TestkitError> {
        match self {
            Self::Entries => entries::run(setting),
            Self::Connections => connections::run(setting),
            Self::Beside => beside::run(setting),
            Self::Dashboards => dashboards::run(setting),
            Self::Cluster => cluster::run(setting),
            Self::Limit => limit::run(setting),
            Self::Pages => pages::run(setting),
        }
    }
}

/// One thing that was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// What.
    pub what: String,
    /// Under which circumstances.
    pub case: String,
    /// How much, in `unit`.
    pub value: f64,
    /// Of `value`.
    pub unit: &'static str,
    /// What was promised about it.
    pub promise: Promise,
}

/// What must be true of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Promise {
    /// Nothing: it is there to be read.
    None,
    /// A count that must be exactly this, on any machine.
    Exactly(f64),
    /// A size that must not be above this, on any machine.
    AtMost(f64),
    /// A time or a share of one that must not be above this, on a machine that does nothing else.
    TimeAtMost(f64),
    /// It could not be measured here; `case` says why.
    LeftOut,
}

impl Figure {
    fn new(what: &str, case: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self {
            what: what.to_owned(),
            case: case.into(),
            value,
            unit,
            promise: Promise::None,
        }
    }

    fn promised(self, promise: Promise) -> Self {
        Self { promise, ..self }
    }

    fn left_out(what: &str, why: impl Into<String>) -> Self {
        Self::new(what, why, 0.0, "").promised(Promise::LeftOut)
    }

    /// Whether the promise was kept; times count in the long form only.
    pub fn is_kept(&self, form: Form) -> bool {
        match self.promise {
            Promise::None | Promise::LeftOut => true,
            Promise::Exactly(wanted) => (self.value - wanted).abs() < 0.5,
            Promise::AtMost(most) => self.value <= most,
            Promise::TimeAtMost(most) => form == Form::Short || self.value <= most,
        }
    }
}

/// A count as a figure: far below what a double holds exactly.
#[expect(clippy::cast_precision_loss, reason = "counts of a measurement")]
fn amount(count: u64) -> f64 {
    count as f64
}
