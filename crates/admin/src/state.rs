//! The state that the handlers of the admin interface use: that of the current configuration, and that which survives a reload.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arc_swap::ArcSwap;
use axum::extract::FromRef;
use galley_config::Config;
use galley_policy::route::canonical_host;
use tokio::sync::mpsc;

use super::health_problem::Beginnings;
use super::listener::ListenerSites;
use super::listings::Listings;
use super::reload_result::{ControlRequest, LastReload};
use super::site_login::SiteLogins;
use crate::doctor::RecentCounters;
use galley_fetch::Handle;
use galley_object_cache::Figures;
use galley_request::{Services, Site, Sites};
use galley_sys::Lock;
use galley_telemetry::access::AccessLog;
use galley_telemetry::counters::CounterReader;
use galley_telemetry::history::History;

/// The state that depends on the configuration.
pub(super) struct AdminState {
    pub(super) config: Arc<Config>,
    pub(super) token: Option<String>,
    pub(super) sites: Arc<Vec<Arc<Site>>>,
    /// The sites by host, over all listeners.
    pub(super) hosts: Sites,
    /// The sites by listener and host.
    pub(super) listeners: Vec<ListenerSites>,
    pub(super) services: Arc<Services>,
    pub(super) counters: Vec<CounterReader>,
    pub(super) fetch_threads: Vec<Handle>,
    pub(super) logs: Vec<AccessLog>,
    pub(super) object_caches: HashMap<String, Arc<Figures>>,
    pub(super) process_state: Arc<AdminProcessState>,
}

/// The state that survives a reload.
pub(super) struct AdminProcessState {
    /// The history of each site, by its row in the counters; written by [`super::history::keep`].
    pub(super) history: Lock<HashMap<u32, History>>,
    /// Counters of the kernel and the spool over the last hour; written by [`super::history::keep`].
    pub(super) last_hour: Lock<RecentCounters>,
    /// When the present problems began; written by [`super::verdict::watch`] and queries.
    pub(super) beginnings: Beginnings,
    pub(super) listings: Listings,
    /// The sessions of site dashboards, by the sites' rows in the counters.
    pub(super) logins: SiteLogins,
    /// The rows of sites whose upstream has sent a response. Locked while the other upstreams are probed.
    pub(super) ready_sites: tokio::sync::Mutex<HashSet<u32>>,
    /// Sends requests for reloads and upgrades.
    pub(super) control: mpsc::Sender<ControlRequest>,
    /// The result of the last reload, written by the control thread.
    pub(super) last_reload: Arc<LastReload>,
}

/// The current state, for new requests.
#[derive(Clone)]
pub(super) struct AdminShared(Arc<ArcSwap<AdminState>>);

impl AdminShared {
    pub(super) fn new(state: AdminState) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(state)))
    }

    pub(super) fn now(&self) -> Arc<AdminState> {
        self.0.load_full()
    }

    pub(super) fn replace(&self, state: AdminState) {
        self.0.store(Arc::new(state));
    }
}

impl FromRef<AdminShared> for Arc<AdminState> {
    fn from_ref(shared: &AdminShared) -> Self {
        shared.now()
    }
}

impl AdminState {
    /// The sites that `text` names, in the order of the configuration: by name or configured host, otherwise those that serve
    /// it on some listener.
    pub(super) fn named(&self, text: &str) -> Vec<usize> {
        let sites = self.sites.iter().enumerate();
        let by_name = sites.filter(|(_, site)| site.is_named(text));
        let by_name: Vec<usize> = by_name.map(|(index, _)| index).collect();
        if !by_name.is_empty() {
            return by_name;
        }
        canonical_host(text.as_bytes()).map_or_else(|_| Vec::new(), |host| self.sites_of(&host))
    }

    /// The sites that serve `host` on some listener, in the order of the configuration. `host` is canonical.
    pub(super) fn sites_of(&self, host: &str) -> Vec<usize> {
        let of_host = self.listeners.iter().filter_map(|listener| {
            let site = listener.sites.find(host)?;
            usize::try_from(site.number).ok()
        });
        let mut of_host: Vec<usize> = of_host.collect();
        of_host.sort_unstable();
        of_host.dedup();
        of_host
    }
}
