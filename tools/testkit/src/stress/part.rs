//! The parts of the stress test.

use super::{Row, Setting, crawl, crowd, killed, slow, soak};
use crate::TestkitError;

/// One kind of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Millions of requests, a tenth of them uncached.
    Soak,
    /// Thousands of connections, hundreds of which miss.
    Crowd,
    /// Slow uploads and slow readers.
    Slow,
    /// PHP killed at random.
    Killed,
    /// A crawler that asks for what nobody has asked for.
    Crawl,
    /// The same from hundreds of addresses.
    Swarm,
}

impl Part {
    /// All but the soak, in the order in which they are run.
    pub const STRESS: [Self; 5] = [
        Self::Crowd,
        Self::Slow,
        Self::Killed,
        Self::Crawl,
        Self::Swarm,
    ];

    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Soak => "soak",
            Self::Crowd => "crowd",
            Self::Slow => "slow",
            Self::Killed => "killed",
            Self::Crawl => "crawl",
            Self::Swarm => "swarm",
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// When the tools fail, or a part of the stage does not start.
    pub fn run(self, setting: &Setting) -> Result<Row, TestkitError> {
        match self {
            Self::Soak => soak::run(setting),
            Self::Crowd => crowd::run(setting),
            Self::Slow => slow::run(setting),
            Self::Killed => killed::run(setting),
            Self::Crawl => crawl::run(setting, crawl::From::One),
            Self::Swarm => crawl::run(setting, crawl::From::Many),
        }
    }
}
