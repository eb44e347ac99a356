//! The programs that Galley runs for its sites: PHP-FPM and other FastCGI programs, started first and ended
//! last. Programs of other users are started in `other_users`.
//!
//! A pool outlives a configuration: the next one with the same settings for its site continues to use it, with the same
//! processes and the same opcode cache. Only its share of the memory stays as it was at its start.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use galley_config::Config;

use super::ServerStartError;
use super::other_users::{OtherUserPrograms, has_other_user};
use super::php_wanted::{WantedPools, at, wanted};
use super::predecessor::{InheritedPool, InheritedPrivileged};
use galley_php::privileged::{KeeperChannel, KeeperShutdown, KeeperState};
use galley_php::{Managed, Ownership, PhpSettings, PoolNumbers};

/// All programs that Galley runs.
pub(super) struct Php {
    running: Vec<RunningPool>,
    line: Option<KeeperChannel>,
    ending: Option<KeeperShutdown>,
}

/// A running PHP-FPM or other program.
pub(super) struct RunningPool {
    /// The site's name.
    site: String,
    settings: PhpSettings,
    /// Whether the privileged process has started it.
    has_other_user: bool,
    managed: Managed,
    /// The ownership of a pool that the previous process has started.
    inherited: Option<Ownership>,
}

/// A pool, as the sites of a configuration use it.
#[derive(Clone)]
pub(super) struct PhpPool {
    pub(super) socket: PathBuf,
    pub(super) most_workers: usize,
    pub(super) numbers: Arc<PoolNumbers>,
}

/// The programs of one site.
#[derive(Default)]
pub(super) struct SitePhp {
    /// The program that generates the site's pages.
    pub(super) primary: Option<PhpPool>,
    /// The programs of the site's rules, in the order of `SiteConfig::further`.
    pub(super) further: Vec<Option<PhpPool>>,
}

/// The pools of another configuration, prepared while the current pools run.
pub(super) struct PhpChange {
    /// The pools of each site, in the order of the sites.
    pub(super) sites: Vec<SitePhp>,
    /// Sites whose pools keep their settings, because only a restart can change them.
    pub(super) restart: Vec<String>,
    started: Vec<RunningPool>,
    /// Whether each running pool continues, by its index.
    stays: Vec<bool>,
}

/// Starts all programs, in the order of the sites. `inherited`: the pools of the previous process.
pub(super) async fn start(
    config: &Config,
    other_users: Option<OtherUserPrograms>,
    mut inherited: Vec<InheritedPool>,
) -> Result<(Php, Vec<SitePhp>), ServerStartError> {
    let (mut pools, line, ending) = match other_users {
        Some(other_users) => {
            let (pools, line, ending) = other_users.open(config).await?;
            (pools, Some(line), Some(ending))
        }
        None => (HashMap::new(), None, None),
    };
    let mut php = Php {
        running: Vec::new(),
        line,
        ending,
    };
    let mut change = PhpChange::new(&php);
    for (number, wanted) in wanted(config).into_iter().enumerate() {
        let mut of_site = Vec::with_capacity(wanted.pools.len());
        for (index, settings) in wanted.pools.into_iter().enumerate() {
            let Some(settings) = settings else {
                of_site.push(None);
                continue;
            };
            let kept = pools.remove(&(number, index)).zip(php.line.as_ref());
            let has_other_user = kept.is_some();
            let before = inherited.iter().position(|before| {
                before.site == wanted.site.name
                    && settings.command.is_empty()
                    && before.settings == settings.likeness()
            });
            let before = before.map(|at| inherited.swap_remove(at));
            let mut ownership = None;
            let managed = match (kept, before) {
                (Some((kept, line)), _) => {
                    let of_line = line.ownership();
                    ownership = (!of_line.is_ours()).then(|| of_line.clone());
                    Managed::start_privileged(kept, line).await
                }
                (None, Some(before)) => {
                    ownership = Some(before.offer.ownership.clone());
                    Managed::adopt(settings.clone(), before.offer)
                }
                (None, None) => Managed::start(settings.clone()).await,
            };
            let managed = managed.map_err(|cause| at(wanted.site, cause))?;
            let site = wanted.site.name.clone();
            of_site.push(Some(change.add(RunningPool {
                site,
                settings,
                has_other_user,
                managed,
                inherited: ownership,
            })));
        }
        change.sites.push(SitePhp::of(of_site));
    }
    let sites = std::mem::take(&mut change.sites);
    php.replace(change);
    Ok((php, sites))
}

impl Php {
    /// Whether a privileged process starts some of the programs.
    pub(super) fn keeper(&self) -> KeeperState {
        KeeperState::of(self.line.as_ref())
    }

    /// The channel to the privileged process.
    pub(super) fn line(&self) -> Option<&KeeperChannel> {
        self.line.as_ref()
    }

    /// The site, the settings and the offer of each program of another user, for another process that continues with it.
    pub(super) fn privileged_offers(&self) -> Vec<InheritedPrivileged> {
        let offers = self.running.iter().filter_map(|pool| {
            Some(InheritedPrivileged {
                site: pool.site.clone(),
                settings: pool.settings.likeness(),
                offer: pool.managed.privileged_offer()?,
            })
        });
        offers.collect()
    }

    /// The pools that another process may continue with.
    pub(super) fn offers(&self) -> Vec<InheritedPool> {
        let of_galley_user = self.running.iter().filter(|pool| !pool.has_other_user);
        let offers = of_galley_user.filter_map(|pool| {
            Some(InheritedPool {
                site: pool.site.clone(),
                settings: pool.settings.likeness(),
                offer: pool.managed.offer()?,
            })
        });
        offers.collect()
    }

    /// The ownership of the pools that were taken over from the previous process.
    pub(super) fn inherited(&self) -> Vec<Ownership> {
        let inherited = self
            .running
            .iter()
            .filter_map(|pool| pool.inherited.clone());
        inherited.collect()
    }

    /// The folders of the pools that were taken over from the previous process.
    pub(super) fn inherited_folders(&self) -> Vec<PathBuf> {
        let inherited = self.running.iter().filter(|pool| pool.inherited.is_some());
        inherited.filter_map(RunningPool::folder).collect()
    }

    /// Leaves the contents of these folders to another process.
    pub(super) async fn leave(&mut self, folders: &[PathBuf]) {
        if let Some(line) = &self.line {
            line.leave();
        }
        for pool in std::mem::take(&mut self.running) {
            if pool.folder().is_some_and(|own| folders.contains(&own)) {
                pool.managed.leave().await;
            } else {
                self.running.push(pool);
            }
        }
    }

    /// Starts the programs that another configuration needs and that do not run yet. Running programs are not touched.
    pub(super) async fn prepare(&self, config: &Config) -> Result<PhpChange, ServerStartError> {
        let mut change = PhpChange::new(self);
        for wanted in wanted(config) {
            let mut pools = Vec::with_capacity(wanted.pools.len());
            for settings in &wanted.pools {
                let pool = match settings {
                    Some(settings) => self.pool(&wanted, settings, config, &mut change).await,
                    None => Ok(None),
                };
                match pool {
                    Ok(pool) => pools.push(pool),
                    Err(cause) => {
                        change.abandon().await;
                        return Err(at(wanted.site, cause));
                    }
                }
            }
            change.sites.push(SitePhp::of(pools));
        }
        Ok(change)
    }

    /// The pool for `settings`: a running one with the same settings, or a new one.
    async fn pool(
        &self,
        wanted: &WantedPools<'_>,
        settings: &PhpSettings,
        config: &Config,
        change: &mut PhpChange,
    ) -> Result<Option<PhpPool>, galley_php::PhpStartError> {
        let has_other_user = has_other_user(config, wanted.site);
        let candidates = self.running.iter().zip(&mut change.stays);
        let mut free = candidates.filter(|(pool, stays)| !**stays && pool.site == wanted.site.name);
        let found = if has_other_user {
            // The privileged process starts only the programs in its plan.
            let is_program = !settings.command.is_empty();
            let free_pool = free.find(|(pool, _)| {
                pool.has_other_user && pool.settings.command.is_empty() != is_program
            });
            let (pool, stays) = free_pool.ok_or(galley_php::PhpStartError::Apart)?;
            if !pool.settings.is_like(settings) {
                change.restart.push(wanted.site.name.clone());
            }
            Some((pool, stays))
        } else {
            free.find(|(pool, _)| !pool.has_other_user && pool.settings.is_like(settings))
        };
        if let Some((pool, stays)) = found {
            *stays = true;
            return Ok(Some(pool.shown()));
        }
        let managed = Managed::start(settings.clone()).await?;
        Ok(Some(change.add(RunningPool {
            site: wanted.site.name.clone(),
            settings: settings.clone(),
            has_other_user: false,
            managed,
            inherited: None,
        })))
    }

    /// Replaces the current programs; returns those to stop when no generation uses them any more.
    pub(super) fn replace(&mut self, change: PhpChange) -> Vec<RunningPool> {
        let (mut stay, mut leave) = (Vec::new(), Vec::new());
        let running = std::mem::take(&mut self.running);
        for (pool, stays) in running.into_iter().zip(change.stays) {
            if stays { &mut stay } else { &mut leave }.push(pool);
        }
        stay.extend(change.started);
        self.running = stay;
        leave
    }
}

impl PhpChange {
    fn new(php: &Php) -> Self {
        Self {
            sites: Vec::new(),
            restart: Vec::new(),
            started: Vec::new(),
            stays: vec![false; php.running.len()],
        }
    }

    fn add(&mut self, pool: RunningPool) -> PhpPool {
        let shown = pool.shown();
        self.started.push(pool);
        shown
    }

    /// Ends the programs that were started for this change.
    pub(super) async fn abandon(&mut self) {
        stop_pools(std::mem::take(&mut self.started)).await;
    }
}

impl RunningPool {
    fn folder(&self) -> Option<PathBuf> {
        self.managed.folder().map(Path::to_owned)
    }

    fn shown(&self) -> PhpPool {
        PhpPool {
            socket: self.managed.socket().to_path_buf(),
            most_workers: self.managed.most_workers(),
            numbers: self.managed.numbers(),
        }
    }
}

impl SitePhp {
    fn of(all: Vec<Option<PhpPool>>) -> Self {
        let mut pools = all.into_iter();
        Self {
            primary: pools.next().flatten(),
            further: pools.collect(),
        }
    }
}

/// Ends all programs.
pub(super) async fn stop(php: Php) {
    stop_pools(php.running).await;
    if let Some(ending) = php.ending {
        ending.end().await;
    }
}

/// Ends unused pools, one after the other.
pub(super) async fn stop_pools(pools: Vec<RunningPool>) {
    for pool in pools {
        pool.managed.stop().await;
    }
}
