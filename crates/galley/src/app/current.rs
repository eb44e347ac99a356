//! The sites of the current configuration, for tasks that run as long as the process: sweeping the memory, maintaining the
//! disk.

use std::sync::{Arc, Weak};

use galley_request::{Services, Site};
use galley_sys::Lock;

/// The current services and sites. The control thread writes them at each change of the configuration.
pub(super) struct CurrentConfiguration(Lock<ActiveConfiguration>);

struct ActiveConfiguration {
    services: Weak<Services>,
    sites: Weak<Vec<Arc<Site>>>,
}

impl CurrentConfiguration {
    /// Starts with the services and sites of the first configuration.
    pub(super) fn new(services: &Arc<Services>, sites: &Arc<Vec<Arc<Site>>>) -> Arc<Self> {
        Arc::new(Self(Lock::new(ActiveConfiguration::of(services, sites))))
    }

    /// Replaces the services and sites.
    pub(super) fn replace(&self, services: &Arc<Services>, sites: &Arc<Vec<Arc<Site>>>) {
        let mut now = self.0.lock();
        *now = ActiveConfiguration::of(services, sites);
    }

    /// All current sites; `None` when the server has dropped them.
    pub(super) fn sites(&self) -> Option<Arc<Vec<Arc<Site>>>> {
        let now = self.0.lock();
        now.sites.upgrade()
    }

    /// The services that the exchanges of these sites share.
    pub(super) fn services(&self) -> Option<Arc<Services>> {
        let now = self.0.lock();
        now.services.upgrade()
    }
}

impl ActiveConfiguration {
    fn of(services: &Arc<Services>, sites: &Arc<Vec<Arc<Site>>>) -> Self {
        Self {
            services: Arc::downgrade(services),
            sites: Arc::downgrade(sites),
        }
    }
}
