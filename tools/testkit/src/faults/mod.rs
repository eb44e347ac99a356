//! Injects real faults into a running server and counts wrong responses and broken promises.
//!
//! Each [`FaultTest`] starts the given binary with a disk cache in a scratch directory and a scripted upstream, repeats one
//! kind of fault, and compares every response byte for byte with the upstream's content. The code does not depend on
//! the file formats of the cache. `cargo test` runs the short tests, `make faults` the long ones; they differ only in
//! the number of rounds and in sizes. The tests do not change clocks, file systems or processes that they did not create.

mod broken_upstream;
mod clock;
mod damage;
mod disk_full;
mod kill;
mod mount;
mod permission_denied;
mod purge_sync;
mod purge_trace;
mod purges;
pub(crate) mod random;
mod report;
mod site_content;
mod startup;
mod test_site;
mod upstream;
pub(crate) mod wall_clock;

use std::path::PathBuf;

pub use self::report::FaultReport;
use crate::TestkitError;

/// Settings of a fault test.
#[derive(Debug, Clone)]
pub struct FaultSettings {
    /// The server binary.
    pub galley: PathBuf,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Number and size of the rounds.
    pub length: TestLength,
}

/// How long a fault test runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestLength {
    /// Seconds per test, for `cargo test`.
    Short,
    /// Minutes for all tests together, for `make faults`.
    Long,
}

/// A test of one kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultTest {
    /// `kill -9` while the server fetches, purges and responds.
    Kill,
    /// Whether a purge is acknowledged only after it is on the disk.
    Sync,
    /// A full file system.
    Full,
    /// Cache files with flipped bits, truncated, swapped or restored from a backup.
    Damage,
    /// Cache directories that the server's user may not access.
    Denied,
    /// The wall clock set back and forward.
    Clock,
    /// Upstreams that hang, abort, or send truncated, oversized or invalid responses.
    Upstream,
    /// Startup with many entries on the disk.
    Start,
}

impl FaultTest {
    /// All tests, in the order in which they run.
    pub const ALL: [Self; 8] = [
        Self::Kill,
        Self::Sync,
        Self::Full,
        Self::Damage,
        Self::Denied,
        Self::Clock,
        Self::Upstream,
        Self::Start,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Sync => "sync",
            Self::Full => "full",
            Self::Damage => "damage",
            Self::Denied => "denied",
            Self::Clock => "clock",
            Self::Upstream => "upstream",
            Self::Start => "start",
        }
    }

    /// The title of its table row.
    pub fn title(self) -> &'static str {
        match self {
            Self::Kill => "kill -9 while fetching, purging, reading",
            Self::Sync => "purge on disk before its response",
            Self::Full => "full file system of 20 MB",
            Self::Damage => "damaged, swapped, restored files",
            Self::Denied => "permissions removed while running",
            Self::Clock => "clock set back and forward",
            Self::Upstream => "broken upstream responses",
            Self::Start => "start with many entries on disk",
        }
    }

    /// Runs the test and returns what it counted.
    ///
    /// # Errors
    /// When the test's tools fail or the server does not start. All other failures of the server are in the report.
    pub fn run(self, settings: &FaultSettings) -> Result<FaultReport, TestkitError> {
        match self {
            Self::Kill => kill::run(settings),
            Self::Sync => purge_sync::run(settings),
            Self::Full => disk_full::run(settings),
            Self::Damage => damage::run(settings),
            Self::Denied => permission_denied::run(settings),
            Self::Clock => clock::run(settings),
            Self::Upstream => broken_upstream::run(settings),
            Self::Start => startup::run(settings),
        }
    }
}
