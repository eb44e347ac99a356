//! Default lifetimes of responses that state none.

use std::time::Duration;

/// `[site.ttl]`: lifetimes of responses that state none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TtlTable {
    /// Statuses and their lifetimes, as the configuration file names them.
    pub by_status: Vec<(u16, Duration)>,
    /// The lifetime for heuristically cacheable statuses that `by_status` does not name.
    pub default: Duration,
    /// How long a stale entry may be sent while one refresh runs.
    pub stale_while_revalidate: Duration,
    /// How long a stale entry may be sent when the upstream fails.
    pub stale_if_error: Duration,
}

impl TtlTable {
    /// A table without default lifetimes.
    pub fn none() -> Self {
        Self {
            by_status: Vec::new(),
            default: Duration::ZERO,
            stale_while_revalidate: Duration::ZERO,
            stale_if_error: Duration::ZERO,
        }
    }
}

impl Default for TtlTable {
    /// The lifetimes for a WordPress without exact purges: 60 s fresh, also for 404, ten minutes stale while a refresh runs, and a
    /// day when the upstream fails.
    fn default() -> Self {
        Self {
            by_status: vec![(404, Duration::from_secs(60))],
            default: Duration::from_secs(60),
            stale_while_revalidate: Duration::from_secs(600),
            stale_if_error: Duration::from_secs(86_400),
        }
    }
}
