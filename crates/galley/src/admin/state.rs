//! What the handlers of the admin interface see.

use std::sync::{Arc, Mutex};

use super::listener::ListenerSites;
use super::listings::Listings;
use crate::doctor::RecentCounters;
use crate::fetch::Handle;
use crate::request::{Services, Site, Sites};
use crate::telemetry::access::AccessLog;
use crate::telemetry::counters::CounterReader;
use crate::telemetry::history::History;

/// What the handlers see.
pub(super) struct AdminState {
    pub(super) token: Option<String>,
    pub(super) sites: Arc<Vec<Arc<Site>>>,
    /// The same by host, of all listeners together.
    pub(super) hosts: Sites,
    /// The same by listener and host.
    pub(super) listeners: Vec<ListenerSites>,
    pub(super) services: Arc<Services>,
    pub(super) counters: Vec<CounterReader>,
    pub(super) fetch_threads: Vec<Handle>,
    pub(super) logs: Vec<AccessLog>,
    /// One for each site, in their order; written by [`super::history::keep`].
    pub(super) history: Mutex<Vec<History>>,
    /// Counters of the kernel and the spool over the last hour; written by [`super::history::keep`].
    pub(super) last_hour: Mutex<RecentCounters>,
    pub(super) listings: Listings,
}

impl AdminState {
    /// Every site that `host` reaches on some listener, in the order of the configuration. `host` is canonical.
    pub(super) fn sites_of(&self, host: &str) -> Vec<usize> {
        let found = self.listeners.iter().filter_map(|listener| {
            let site = listener.sites.find(host)?;
            usize::try_from(site.number).ok()
        });
        let mut found: Vec<usize> = found.collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}
