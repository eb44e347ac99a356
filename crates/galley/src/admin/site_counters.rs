//! The numbers of one site, read once for all families of metrics.

use std::sync::Arc;

use galley_cache::private::PrivateCounts;

use crate::acme::StatusFields as Certificate;
use crate::fetch::counters::Fills;
use crate::fetch::cron::CronState;
use crate::php::PoolNumbers;
use crate::telemetry::totals::Totals;
use crate::upstream::UpstreamStats;

/// One site's numbers.
pub(super) struct SiteCounters {
    /// For the label.
    pub(super) site: String,
    pub(super) totals: Totals,
    /// `None` for what belongs to no site.
    pub(super) own: Option<ProcessCounters>,
    /// The automatic certificates.
    pub(super) certificates: Vec<Certificate>,
    /// Where Galley runs its PHP.
    pub(super) php: Option<Arc<PoolNumbers>>,
    /// Whether it is reached over TLS.
    pub(super) certificate_ends: Option<u64>,
}

pub(super) struct ProcessCounters {
    /// The memory of its stored pages.
    pub(super) memory_bytes: u64,
    /// Their size on the disk.
    pub(super) disk_bytes: Option<u64>,
    pub(super) purges: u64,
    pub(super) healed: u64,
    pub(super) fills: Fills,
    /// Fragments that change without a purge.
    pub(super) switched_off: usize,
    /// Fragments that could not be rendered the last time.
    pub(super) failed: usize,
    /// Where members get stored pages.
    pub(super) private: Option<PrivateCounts>,
    pub(super) upstreams: Vec<Arc<UpstreamStats>>,
    pub(super) cron: Option<CronState>,
}
