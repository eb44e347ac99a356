//! A site, as the fetch threads use it.

use std::sync::Arc;
use std::time::Duration;

use galley_cache::fragment_table::FragmentTable;
use galley_cache::private::PrivateStore;
use galley_policy::site::{Policy, ValidationPolicy, VaryPolicy};

use super::acknowledged::AcknowledgedPurges;
use super::audits::Audits;
use super::counters::FetchCounters;
use super::cron_runs::CronRuns;
use galley_codec::compress::Compressing;
use galley_codec::dictionaries::Dictionaries;
use galley_purging::{PageMarkers, SiteDiskCache, SitePurges};

/// The properties of a site that fetches need.
pub struct FetchSite {
    /// The site's name.
    pub name: String,
    /// The site's caching rules.
    pub policy: Policy,
    /// The site's purges, which outlive the configuration.
    pub purges: Arc<SitePurges>,
    /// The site's pages on the disk, if it has a disk cache.
    pub disk: Option<SiteDiskCache>,
    /// The compressed forms of the site's pages.
    pub compressing: Compressing,
    /// The dictionaries by which the site's pages are sent.
    pub dictionaries: Arc<Dictionaries>,
    /// The site's fetch counters.
    pub counters: Arc<FetchCounters>,
    /// The limits of the site's fetches.
    pub limits: FetchLimits,
    /// The acknowledged purges of the plugin.
    pub acknowledged: Arc<AcknowledgedPurges>,
    /// The results of the site's scheduled tasks.
    pub cron: Arc<CronRuns>,
    /// The audits of the site's stored pages.
    pub audits: Arc<Audits>,
    /// The fragments that the site's pages share.
    pub fragments: Arc<FragmentTable>,
    /// The private fragments of members, if members get stored pages.
    pub private: Option<Arc<PrivateStore>>,
    /// The files of the site that plugins remove to purge pages.
    pub markers: Option<PageMarkers>,
}

impl FetchSite {
    /// Whether a response to one request answers every other request with the same key.
    pub fn keys_identify_responses(&self) -> bool {
        let storage = &self.policy.storage;
        storage.vary == VaryPolicy::CoveredByKey && storage.validation == ValidationPolicy::Galley
    }
}

/// The limits of a site's fetches.
#[derive(Clone, Copy, Debug)]
pub struct FetchLimits {
    /// The longest time that the first fetch of a page may make no progress.
    pub lock_age: Duration,
    /// The maximum number of requests that may wait for or read from one fetch.
    pub waiters: usize,
}
