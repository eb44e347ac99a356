//! The counters of one site, read once for all metric families.

use std::sync::Arc;

use galley_cache::private::PrivateCounts;

use crate::acme::StatusFields as Certificate;
use crate::fetch::audits::ResultCounts;
use crate::fetch::counters::Fills;
use crate::fetch::cron::CronState;
use crate::php::PoolNumbers;
use crate::telemetry::totals::Totals;
use crate::upstream::UpstreamStats;

/// The counters of one site.
pub(super) struct SiteCounters {
    /// The value of the label.
    pub(super) site: String,
    pub(super) totals: Totals,
    /// `None` for requests without a site.
    pub(super) own: Option<ProcessCounters>,
    /// The automatic certificates.
    pub(super) certificates: Vec<Certificate>,
    /// The state of managed PHP, if Galley runs it.
    pub(super) php: Option<Arc<PoolNumbers>>,
    /// When the first certificate expires, in seconds since 1970, if the site is served over TLS.
    pub(super) certificate_ends: Option<u64>,
}

pub(super) struct ProcessCounters {
    /// The memory of the stored pages, in bytes.
    pub(super) memory_bytes: u64,
    /// The size of the stored pages on disk, in bytes.
    pub(super) disk_bytes: Option<u64>,
    pub(super) purges: u64,
    pub(super) healed: u64,
    /// The pages that were audited, if they can be.
    pub(super) audited: Option<ResultCounts>,
    pub(super) fills: Fills,
    /// The number of fragments that change without a purge.
    pub(super) switched_off: usize,
    /// The number of fragments whose last rendering failed.
    pub(super) failed: usize,
    /// The counts of members, if they get stored pages.
    pub(super) private: Option<PrivateCounts>,
    pub(super) upstreams: Vec<Arc<UpstreamStats>>,
    pub(super) cron: Option<CronState>,
}
