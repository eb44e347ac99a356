//! The site as fetching needs it.

use std::sync::Arc;
use std::time::Duration;

use galley_cache::fragment_table::FragmentTable;
use galley_cache::private::PrivateStore;
use galley_policy::site::{Policy, ValidationPolicy, VaryPolicy};

use super::acknowledged::AcknowledgedPurges;
use super::counters::FetchCounters;
use super::cron_runs::CronRuns;
use crate::compress::Compressing;
use crate::durable::{PageMarkers, SiteDiskCache, SitePurges};

/// What fetching needs to know of a site.
pub struct FetchSite {
    /// The site's name: its first host.
    pub name: String,
    /// Its caching rules.
    pub rules: Policy,
    /// Its purges, which outlive the configuration.
    pub purges: Arc<SitePurges>,
    /// Its pages on the disk, if there is one.
    pub disk: Option<SiteDiskCache>,
    /// Its pages in other codings.
    pub compressing: Compressing,
    /// The response for it.
    pub counters: Arc<FetchCounters>,
    /// What its fetches may do.
    pub limits: FetchLimits,
    /// The plugin's purges that were acknowledged.
    pub acknowledged: Arc<AcknowledgedPurges>,
    /// What became of its scheduled tasks.
    pub cron: Arc<CronRuns>,
    /// The parts that its pages share.
    pub fragments: Arc<FragmentTable>,
    /// The private fragments of members, if they get stored pages.
    pub private: Option<Arc<PrivateStore>>,
    /// Its files that plugins remove to purge pages.
    pub markers: Option<PageMarkers>,
}

impl FetchSite {
    /// Whether what answers one request answers every other one with its key.
    pub fn keys_say_all(&self) -> bool {
        let storage = &self.rules.storage;
        storage.vary == VaryPolicy::CoveredByKey && storage.validation == ValidationPolicy::Galley
    }
}

/// What a site allows its fetches.
#[derive(Clone, Copy, Debug)]
pub struct FetchLimits {
    /// How long the first fetch for a page may show no sign of life.
    pub lock_age: Duration,
    /// Requests that may wait for or read from one fetch.
    pub waiters: usize,
}
