//! A site as the configuration describes it.

use std::sync::Arc;

use crate::figures::Figures;

/// What the object cache takes from the configuration.
#[derive(Clone, Debug, Default)]
pub struct ObjectCacheSettings {
    /// The sites.
    pub sites: Vec<ObjectCacheSite>,
    /// The memory for the values of all sites together, in bytes.
    pub limit: usize,
}

/// A site with an object cache.
#[derive(Clone)]
pub struct ObjectCacheSite {
    /// The name of the site.
    pub name: String,
    /// The token of the site.
    pub token: String,
    /// The memory for values, in bytes.
    pub limit: usize,
    /// The counters.
    pub figures: Arc<Figures>,
}

impl std::fmt::Debug for ObjectCacheSite {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("ObjectCacheSite");
        shown.field("name", &self.name).finish_non_exhaustive()
    }
}
