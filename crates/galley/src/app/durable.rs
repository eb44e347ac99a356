//! The state that survives a restart, from the configuration: the folder, and the settings of a site on which its stored pages
//! depend.
//!
//! Pages belong to the name of their site and to its [`KeyShape`]: pages that were written under another one are never used. The
//! position of the site in the configuration does not matter.

use std::hash::Hasher;
use std::sync::Arc;

use galley_cache::disk::DiskLimits;
use galley_cache::memory::Memory;
use galley_config::{Config, SiteConfig};
use galley_policy::site::KeyShape;
use siphasher::sip::SipHasher13;

use super::ServerStartError;
use galley_purging::{Durable, Settings};
use galley_sys::clock::Clock;

/// Opens the folder that the configuration names, or none.
pub(super) fn open(
    config: &Config,
    memory: &Arc<Memory>,
    clock: Clock,
) -> Result<Durable, ServerStartError> {
    let Some(disk) = &config.cache.disk else {
        return Ok(Durable::nothing(clock));
    };
    let settings = Settings {
        path: disk.path.clone(),
        limits: DiskLimits {
            bytes: disk.bytes,
            site_bytes: disk.site_bytes,
            object_bytes: config.cache.max_object,
            inactive: disk.inactive,
            in_memory_bytes: memory.max_object(),
        },
    };
    Durable::open(&settings, Arc::clone(memory), clock).map_err(|cause| ServerStartError::Disk {
        path: disk.path.clone(),
        cause,
    })
}

/// The settings of a site on which its stored pages depend.
pub(super) fn key_shape(site: &SiteConfig) -> KeyShape {
    KeyShape::of(
        &site.policy,
        site.nginx_cache_path.as_deref(),
        &site.internal,
    )
}

/// A hash that is the same in every run.
pub(super) fn hash(text: &str) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}
