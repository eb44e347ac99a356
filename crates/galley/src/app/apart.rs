//! The programs of other users than that of a Galley that gives up root: collected before it does, or taken over from the
//! process before.

use std::collections::HashMap;

use galley_config::{Config, SiteConfig};

use super::ServerStartError;
use super::php_wanted::{at, is_own, upstreams, wanted};
use super::predecessor::{InheritedKeeper, InheritedPrivileged};
use crate::php::privileged::{
    KeeperChannel, KeeperShutdown, PrivilegeSplit, Privileged, PrivilegedPool,
};
use crate::php::{PhpSettings, PhpStartError};

/// The programs of other users than Galley's, and the process that starts them.
pub(super) enum Apart {
    /// It was started here.
    Own(Privileged, PrivilegedPools),
    /// It was started by an earlier Galley.
    Inherited(InheritedKeeper),
}

/// By the number of the site, and of its upstream: 0 generates its pages, then `SiteConfig::further`.
type PrivilegedPools = HashMap<(usize, usize), PrivilegedPool>;

/// Takes over the privileged process of the process before. If there is none, starts it, if Galley is about to give up root and
/// some site's `php_user` is another user. To be called while Galley is root and has one thread.
pub(super) fn prepare(
    config: &Config,
    inherited: Option<InheritedKeeper>,
) -> Result<Option<Apart>, ServerStartError> {
    if let Some(inherited) = inherited {
        return Ok(Some(Apart::Inherited(inherited)));
    }
    let Some(user) = &config.server.user else {
        return Ok(None);
    };
    let wanted = apart_pools(config);
    if wanted.is_empty() {
        return Ok(None);
    }
    let failed = |cause| ServerStartError::Privileged { cause };
    let group = config.server.group.as_deref();
    let mut split = PrivilegeSplit::new(user, group).map_err(failed)?;
    let mut pools = HashMap::new();
    for pool in wanted {
        let other = pool.site.managed.user.as_deref().unwrap_or_default();
        let kept = split.add(&pool.settings, other);
        pools.insert(pool.place, kept.map_err(|cause| at(pool.site, cause))?);
    }
    let privileged = split.start().map_err(failed)?;
    Ok(Some(Apart::Own(privileged, pools)))
}

impl Apart {
    /// Its pools, the line to the process, and its end. Call within a runtime.
    pub(super) async fn open(
        self,
        config: &Config,
    ) -> Result<(PrivilegedPools, KeeperChannel, KeeperShutdown), ServerStartError> {
        match self {
            Self::Own(privileged, pools) => {
                tracing::info!(
                    pid = privileged.id(),
                    pools = pools.len(),
                    "another process keeps root privileges, to start PHP as other users"
                );
                let (line, ending) = privileged.open()?;
                Ok((pools, line, ending))
            }
            Self::Inherited(InheritedKeeper { keeper, pools }) => {
                let pools = inherited_pools(config, pools)?;
                let (line, ending) = keeper
                    .accept()
                    .await
                    .map_err(|cause| ServerStartError::Privileged { cause })?;
                Ok((pools, line, ending))
            }
        }
    }
}

impl ServerStartError {
    /// Whether a process that takes over cannot do what a restart can.
    pub fn needs_restart(&self) -> bool {
        let cause = match self {
            Self::Php { cause, .. } => Some(cause),
            _ => None,
        };
        matches!(cause, Some(PhpStartError::Apart))
    }
}

/// The pools of the process before, for the sites that want them with the same settings. The privileged process starts only
/// what was planned for the first Galley.
fn inherited_pools(
    config: &Config,
    mut inherited: Vec<InheritedPrivileged>,
) -> Result<PrivilegedPools, ServerStartError> {
    let mut pools = HashMap::new();
    for pool in apart_pools(config) {
        let found = inherited.iter().position(|before| {
            before.site == pool.name && before.settings == pool.settings.likeness()
        });
        let before = found.map(|found| inherited.swap_remove(found));
        let kept = before
            .ok_or(PhpStartError::Apart)
            .and_then(|before| before.offer.accept(&pool.settings));
        pools.insert(pool.place, kept.map_err(|cause| at(pool.site, cause))?);
    }
    Ok(pools)
}

/// A program that the privileged process starts.
struct ApartPool<'c> {
    site: &'c SiteConfig,
    name: String,
    place: (usize, usize),
    settings: PhpSettings,
}

fn apart_pools(config: &Config) -> Vec<ApartPool<'_>> {
    let mut all = Vec::new();
    for (number, wanted) in wanted(config).into_iter().enumerate() {
        if !is_apart(config, wanted.site) {
            continue;
        }
        for (index, settings) in wanted.pools.into_iter().enumerate() {
            all.extend(settings.map(|settings| ApartPool {
                site: wanted.site,
                name: wanted.name.clone(),
                place: (number, index),
                settings,
            }));
        }
    }
    all
}

/// Whether the programs of a site run as another user than a Galley that gives up root.
pub(super) fn is_apart(config: &Config, site: &SiteConfig) -> bool {
    let (own, other) = (&config.server.user, &site.managed.user);
    own.is_some() && other.is_some() && own != other
}

/// How many sites have something that runs as another user than a Galley that gives up root.
pub fn sites_apart(config: &Config) -> usize {
    let has_program = |site: &&SiteConfig| {
        let mut upstreams = upstreams(site).enumerate();
        upstreams.any(|(index, upstream)| is_own(index, upstream) && upstream.is_managed())
    };
    let apart = config.sites.iter().filter(|site| is_apart(config, site));
    apart.filter(has_program).count()
}
