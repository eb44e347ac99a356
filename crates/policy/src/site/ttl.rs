//! Default lifetimes of responses without one.

use std::time::Duration;

/// `[site.ttl]`: lifetimes for responses that name none themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TtlTable {
    /// Status and lifetime, as the file names them.
    pub by_status: Vec<(u16, Duration)>,
    /// For heuristically cacheable statuses that `by_status` does not name.
    pub default: Duration,
    /// How long a stale entry may answer while one refresh runs.
    pub stale_while_revalidate: Duration,
    /// How long a stale entry may answer when the upstream fails.
    pub stale_if_error: Duration,
}

impl TtlTable {
    /// No lifetimes but those of responses.
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
    /// 60 s fresh, 404 for 60 s, ten minutes of refresh, a day of grace: what a WordPress without exact purges needs.
    fn default() -> Self {
        Self {
            by_status: vec![(404, Duration::from_secs(60))],
            default: Duration::from_secs(60),
            stale_while_revalidate: Duration::from_secs(600),
            stale_if_error: Duration::from_secs(86_400),
        }
    }
}
