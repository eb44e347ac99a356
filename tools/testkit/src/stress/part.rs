//! The parts of the stress test.

use super::{
    PartReport, StressSettings, crawl, killed_php, many_misses, slow_clients, soak, swarm,
};
use crate::TestkitError;

/// One kind of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StressPart {
    /// Millions of requests, a tenth of them uncached.
    Soak,
    /// Thousands of connections, hundreds of which request pages that are not stored.
    ManyMisses,
    /// Slow uploads and slow readers.
    SlowClients,
    /// PHP killed at random.
    KilledPhp,
    /// A crawler with one address that requests pages that are not stored.
    Crawl,
    /// The same crawl from hundreds of addresses.
    DistributedCrawl,
    /// A crawl from 70,000 addresses with one request each, beside people of each kind.
    Swarm,
}

impl StressPart {
    /// All parts except the soak test, in the order in which they run.
    pub const STRESS: [Self; 6] = [
        Self::ManyMisses,
        Self::SlowClients,
        Self::KilledPhp,
        Self::Crawl,
        Self::DistributedCrawl,
        Self::Swarm,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Soak => "soak",
            Self::ManyMisses => "crowd",
            Self::SlowClients => "slow",
            Self::KilledPhp => "killed",
            Self::Crawl => "crawl",
            Self::DistributedCrawl => "clients",
            Self::Swarm => "swarm",
        }
    }

    /// Runs the part.
    ///
    /// # Errors
    /// When a tool fails, or a part of the test site does not start.
    pub fn run(self, settings: &StressSettings) -> Result<PartReport, TestkitError> {
        match self {
            Self::Soak => soak::run(settings),
            Self::ManyMisses => many_misses::run(settings),
            Self::SlowClients => slow_clients::run(settings),
            Self::KilledPhp => killed_php::run(settings),
            Self::Crawl => crawl::run(settings, crawl::ClientAddresses::One),
            Self::DistributedCrawl => crawl::run(settings, crawl::ClientAddresses::Many),
            Self::Swarm => swarm::run(settings),
        }
    }
}
