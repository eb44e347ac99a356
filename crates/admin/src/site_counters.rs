//! The counters of one site, read once for all metric families.

use std::sync::Arc;

use galley_cache::private::PrivateCounts;

use galley_fetch::audits::ResultCounts;
use galley_fetch::counters::Fills;
use galley_fetch::cron::CronState;
use galley_object_cache::Reading;
use galley_php::PoolNumbers;
use galley_telemetry::totals::Totals;
use galley_tls::acme::StatusFields as Certificate;
use galley_upstream::UpstreamStats;

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
    /// The object cache of WordPress, if there is one.
    pub(super) objects: Option<Reading>,
    pub(super) upstreams: Vec<Arc<UpstreamStats>>,
    pub(super) cron: Option<CronState>,
}
