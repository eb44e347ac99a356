//! Programs that run as a user other than Galley's: prepared before Galley gives up root, or taken over from the
//! previous process.

use std::collections::HashMap;

use galley_config::{Config, SiteConfig};

use super::ServerStartError;
use super::php_wanted::{at, is_own, upstreams, wanted};
use super::predecessor::{InheritedKeeper, InheritedPrivileged};
use galley_php::privileged::{
    KeeperChannel, KeeperShutdown, PrivilegeSplit, Privileged, PrivilegedPool,
};
use galley_php::{PhpSettings, PhpStartError};

/// The programs of users other than Galley's, and the process that starts them.
pub(super) enum OtherUserPrograms {
    /// The process was started by this Galley.
    Own(Privileged, PrivilegedPools),
    /// The process was started by an earlier Galley.
    Inherited(InheritedKeeper),
}

/// Pools by the index of the site and of its upstream: 0 generates its pages, then `SiteConfig::further`.
type PrivilegedPools = HashMap<(usize, usize), PrivilegedPool>;

/// Takes over the privileged process of the previous Galley process. If there is none, starts one, provided that Galley is
/// about to give up root and some site's `php_user` is another user. Must be called while Galley is root and has one thread.
pub(super) fn prepare(
    config: &Config,
    inherited: Option<InheritedKeeper>,
) -> Result<Option<OtherUserPrograms>, ServerStartError> {
    if let Some(inherited) = inherited {
        return Ok(Some(OtherUserPrograms::Inherited(inherited)));
    }
    let Some(user) = &config.server.process.user else {
        return Ok(None);
    };
    let of_other_users = other_user_pools(config);
    if of_other_users.is_empty() {
        return Ok(None);
    }
    let failed = |cause| ServerStartError::Privileged { cause };
    let group = config.server.process.group.as_deref();
    let mut split = PrivilegeSplit::new(user, group).map_err(failed)?;
    let mut pools = HashMap::new();
    for pool in of_other_users {
        let other = pool.site.managed.user.as_deref().unwrap_or_default();
        let kept = split.add(&pool.settings, other);
        pools.insert(pool.place, kept.map_err(|cause| at(pool.site, cause))?);
    }
    let privileged = split.start().map_err(failed)?;
    Ok(Some(OtherUserPrograms::Own(privileged, pools)))
}

impl OtherUserPrograms {
    /// Returns the pools, the channel to the privileged process, and the handle that ends it. Must be called within a runtime.
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
    /// Whether a process that takes over cannot apply the configuration, but a restart can.
    pub fn needs_restart(&self) -> bool {
        let cause = match self {
            Self::Php { cause, .. } => Some(cause),
            _ => None,
        };
        matches!(cause, Some(PhpStartError::Apart))
    }
}

/// The pools of the previous process, for the sites that want them with the same settings. The privileged process starts only
/// the programs in the plan of the first Galley.
fn inherited_pools(
    config: &Config,
    mut inherited: Vec<InheritedPrivileged>,
) -> Result<PrivilegedPools, ServerStartError> {
    let mut pools = HashMap::new();
    for pool in other_user_pools(config) {
        let position = inherited.iter().position(|before| {
            before.site == pool.site.name && before.settings == pool.settings.likeness()
        });
        let before = position.map(|position| inherited.swap_remove(position));
        let kept = before
            .ok_or(PhpStartError::Apart)
            .and_then(|before| before.offer.accept(&pool.settings));
        pools.insert(pool.place, kept.map_err(|cause| at(pool.site, cause))?);
    }
    Ok(pools)
}

/// A program that the privileged process starts.
struct OtherUserPool<'c> {
    site: &'c SiteConfig,
    place: (usize, usize),
    settings: PhpSettings,
}

fn other_user_pools(config: &Config) -> Vec<OtherUserPool<'_>> {
    let mut pools = Vec::new();
    for (number, wanted) in wanted(config).into_iter().enumerate() {
        if !has_other_user(config, wanted.site) {
            continue;
        }
        for (index, settings) in wanted.pools.into_iter().enumerate() {
            pools.extend(settings.map(|settings| OtherUserPool {
                site: wanted.site,
                place: (number, index),
                settings,
            }));
        }
    }
    pools
}

/// Whether the programs of a site run as another user than a Galley that gives up root.
pub(super) fn has_other_user(config: &Config, site: &SiteConfig) -> bool {
    let (own, other) = (&config.server.process.user, &site.managed.user);
    own.is_some() && other.is_some() && own != other
}

/// The number of sites that run a program as a user other than that of a Galley that gives up root.
pub fn sites_of_other_users(config: &Config) -> usize {
    let has_program = |site: &&SiteConfig| {
        let mut upstreams = upstreams(site).enumerate();
        upstreams.any(|(index, upstream)| is_own(index, upstream) && upstream.is_managed())
    };
    let other_users = config
        .sites
        .iter()
        .filter(|site| has_other_user(config, site));
    other_users.filter(has_program).count()
}
