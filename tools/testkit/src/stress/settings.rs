//! The settings of a run.

use std::path::PathBuf;
use std::time::Duration;

use super::RunLength;

/// Settings of a run.
#[derive(Debug, Clone)]
pub struct StressSettings {
    /// The server binary.
    pub galley: PathBuf,
    /// Amount of work.
    pub length: RunLength,
    /// Requests of the soak test, instead of those for `length`.
    pub requests: Option<u64>,
    /// Connections of the soak test, instead of 250.
    pub connections: Option<usize>,
    /// Time during which PHP is killed, instead of the one for `length`.
    pub killed_for: Option<Duration>,
    /// Receives progress messages.
    pub progress: fn(&str),
}
