//! The programs that Galley runs for its sites: PHP-FPM and other FastCGI programs, started before anything else and ended
//! last. If Galley gives up root, the programs of other users are collected before it does.
//!
//! A pool outlives a configuration: the next one with the same settings for its site continues to use it, with the same
//! processes and the same opcode cache. Only its share of the memory stays that of its start.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use galley_config::{Config, PhpSandbox, Program, SiteConfig, UpstreamConfig};
use galley_policy::site::Rule;

use super::predecessor::InheritedPool;
use super::{ServerStartError, site_states};
use crate::php::privileged::{
    KeeperChannel, KeeperShutdown, KeeperState, PrivilegeSplit, Privileged, PrivilegedPool,
};
use crate::php::{
    self, MachineMemory, Managed, MemoryDivision, Ownership, PhpSettings, PoolNumbers,
};
use crate::sys;
use crate::sys::cgroup::GroupLimits;

/// All of it.
pub(super) struct Php {
    running: Vec<RunningPool>,
    line: Option<KeeperChannel>,
    ending: Option<KeeperShutdown>,
}

/// A PHP-FPM or another program that runs.
pub(super) struct RunningPool {
    /// As [`super::site_states::names`] calls it.
    site: String,
    settings: PhpSettings,
    /// Whether the process that keeps root has started it.
    is_apart: bool,
    managed: Managed,
    /// Of one that the process before has started.
    inherited: Option<Ownership>,
}

/// A pool, as the sites of a configuration use it.
#[derive(Clone)]
pub(super) struct PhpPool {
    pub(super) socket: PathBuf,
    pub(super) most_workers: usize,
    pub(super) numbers: Arc<PoolNumbers>,
}

/// What runs for one site.
#[derive(Default)]
pub(super) struct SitePhp {
    /// What generates its pages.
    pub(super) primary: Option<PhpPool>,
    /// The programs of its rules, in the order of `SiteConfig::further`.
    pub(super) further: Vec<Option<PhpPool>>,
}

/// Pools for another configuration, beside those that run.
pub(super) struct PhpChange {
    /// In the order of the sites.
    pub(super) sites: Vec<SitePhp>,
    /// Sites whose pools run as they were, because only a restart can change them.
    pub(super) restart: Vec<String>,
    started: Vec<RunningPool>,
    /// Those that run and stay, by their place.
    stays: Vec<bool>,
}

/// The programs of other users than Galley's, and the process that starts them.
pub(super) struct Apart {
    privileged: Privileged,
    /// By the number of the site, and of its upstream: 0 generates its pages, then `SiteConfig::further`.
    pools: HashMap<(usize, usize), PrivilegedPool>,
}

/// Starts the privileged process, if Galley is about to give up root and some site's `php_user` is another user. To be called
/// while Galley is root and has one thread.
pub(super) fn apart(config: &Config) -> Result<Option<Apart>, ServerStartError> {
    let Some(user) = &config.server.user else {
        return Ok(None);
    };
    let failed = |cause| ServerStartError::Privileged { cause };
    let budget = budget(config);
    let mut split = None;
    let mut pools = HashMap::new();
    for (number, site) in config.sites.iter().enumerate() {
        let Some(other) = site.managed.user.as_ref().filter(|other| *other != user) else {
            continue;
        };
        for (index, upstream) in upstreams(site).enumerate() {
            let settings = settings(site, upstream, budget);
            let Some(settings) = settings.filter(|_| is_own(index, upstream)) else {
                continue;
            };
            let split = match &mut split {
                Some(split) => split,
                empty => {
                    let group = config.server.group.as_deref();
                    empty.insert(PrivilegeSplit::new(user, group).map_err(failed)?)
                }
            };
            let kept = split
                .add(&settings, other)
                .map_err(|cause| at(site, cause))?;
            pools.insert((number, index), kept);
        }
    }
    let Some(split) = split else {
        return Ok(None);
    };
    let privileged = split.start().map_err(failed)?;
    Ok(Some(Apart { privileged, pools }))
}

/// How many sites have something that runs as another user than a Galley that gives up root.
pub fn sites_apart(config: &Config) -> usize {
    let Some(user) = &config.server.user else {
        return 0;
    };
    let is_apart = |site: &&SiteConfig| {
        let mut upstreams = upstreams(site).enumerate();
        let is_other = site.managed.user.as_ref().is_some_and(|own| own != user);
        is_other
            && upstreams.any(|(index, upstream)| is_own(index, upstream) && upstream.is_managed())
    };
    config.sites.iter().filter(is_apart).count()
}

/// Starts all of it, in the order of the sites.
pub(super) async fn start(
    config: &Config,
    apart: Option<Apart>,
    mut inherited: Vec<InheritedPool>,
) -> Result<(Php, Vec<SitePhp>), ServerStartError> {
    let (mut pools, line, ending) = match apart {
        Some(Apart { privileged, pools }) => {
            tracing::info!(
                pid = privileged.id(),
                pools = pools.len(),
                "another process keeps root privileges, to start PHP as other users"
            );
            let (line, ending) = privileged.open()?;
            (pools, Some(line), Some(ending))
        }
        None => (HashMap::new(), None, None),
    };
    let mut php = Php {
        running: Vec::new(),
        line,
        ending,
    };
    let mut change = PhpChange::beside(&php);
    for (number, wanted) in wanted(config).into_iter().enumerate() {
        let mut all = Vec::with_capacity(wanted.pools.len());
        for (index, settings) in wanted.pools.into_iter().enumerate() {
            let Some(settings) = settings else {
                all.push(None);
                continue;
            };
            let kept = pools.remove(&(number, index)).zip(php.line.as_ref());
            let is_apart = kept.is_some();
            let before = inherited.iter().position(|before| {
                before.site == wanted.name
                    && settings.command.is_empty()
                    && before.settings == settings.likeness()
            });
            let before = before.map(|at| inherited.swap_remove(at));
            let mut ownership = None;
            let managed = match (kept, before) {
                (Some((kept, line)), _) => Managed::start_privileged(kept, line).await,
                (None, Some(before)) => {
                    ownership = Some(before.offer.ownership.clone());
                    Managed::adopt(settings.clone(), before.offer)
                }
                (None, None) => Managed::start(settings.clone()).await,
            };
            let managed = managed.map_err(|cause| at(wanted.site, cause))?;
            let site = wanted.name.clone();
            all.push(Some(change.add(RunningPool {
                site,
                settings,
                is_apart,
                managed,
                inherited: ownership,
            })));
        }
        change.sites.push(SitePhp::of(all));
    }
    let sites = std::mem::take(&mut change.sites);
    php.replace(change);
    Ok((php, sites))
}

impl Php {
    /// Whether a process keeps root for some of it.
    pub(super) fn keeper(&self) -> KeeperState {
        KeeperState::of(self.line.as_ref())
    }

    /// What another process may go on with.
    pub(super) fn offers(&self) -> Vec<InheritedPool> {
        let own = self.running.iter().filter(|pool| !pool.is_apart);
        let offers = own.filter_map(|pool| {
            Some(InheritedPool {
                site: pool.site.clone(),
                settings: pool.settings.likeness(),
                offer: pool.managed.offer()?,
            })
        });
        offers.collect()
    }

    /// Of the programs of the process before.
    pub(super) fn inherited(&self) -> Vec<Ownership> {
        let inherited = self
            .running
            .iter()
            .filter_map(|pool| pool.inherited.clone());
        inherited.collect()
    }

    /// The folders of those.
    pub(super) fn inherited_folders(&self) -> Vec<PathBuf> {
        let inherited = self.running.iter().filter(|pool| pool.inherited.is_some());
        inherited.filter_map(RunningPool::folder).collect()
    }

    /// Leaves the contents of these folders to another process.
    pub(super) async fn leave(&mut self, folders: &[PathBuf]) {
        for pool in std::mem::take(&mut self.running) {
            if pool.folder().is_some_and(|own| folders.contains(&own)) {
                pool.managed.leave().await;
            } else {
                self.running.push(pool);
            }
        }
    }

    /// Starts what another configuration needs and does not run yet. What runs is not touched.
    pub(super) async fn prepare(&self, config: &Config) -> Result<PhpChange, ServerStartError> {
        let mut change = PhpChange::beside(self);
        for wanted in wanted(config) {
            let mut all = Vec::with_capacity(wanted.pools.len());
            for settings in &wanted.pools {
                let pool = match settings {
                    Some(settings) => self.pool(&wanted, settings, config, &mut change).await,
                    None => Ok(None),
                };
                match pool {
                    Ok(pool) => all.push(pool),
                    Err(cause) => {
                        change.abandon().await;
                        return Err(at(wanted.site, cause));
                    }
                }
            }
            change.sites.push(SitePhp::of(all));
        }
        Ok(change)
    }

    /// The pool for `settings`: the one that runs with the same, or a new one.
    async fn pool(
        &self,
        wanted: &WantedPools<'_>,
        settings: &PhpSettings,
        config: &Config,
        change: &mut PhpChange,
    ) -> Result<Option<PhpPool>, php::PhpStartError> {
        let (own, other) = (&config.server.user, &wanted.site.managed.user);
        let is_apart = own.is_some() && other.is_some() && own != other;
        let candidates = self.running.iter().zip(&mut change.stays);
        let mut free = candidates.filter(|(pool, stays)| !**stays && pool.site == wanted.name);
        let found = if is_apart {
            // The privileged process starts only the programs in its plan.
            let is_program = !settings.command.is_empty();
            let found = free
                .find(|(pool, _)| pool.is_apart && pool.settings.command.is_empty() != is_program);
            let (pool, stays) = found.ok_or(php::PhpStartError::Apart)?;
            if !pool.settings.is_like(settings) {
                change.restart.push(wanted.site.name.clone());
            }
            Some((pool, stays))
        } else {
            free.find(|(pool, _)| !pool.is_apart && pool.settings.is_like(settings))
        };
        if let Some((pool, stays)) = found {
            *stays = true;
            return Ok(Some(pool.shown()));
        }
        let managed = Managed::start(settings.clone()).await?;
        Ok(Some(change.add(RunningPool {
            site: wanted.name.clone(),
            settings: settings.clone(),
            is_apart: false,
            managed,
            inherited: None,
        })))
    }

    /// The current programs; returns those to be stopped when nobody uses them any more.
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
    fn beside(php: &Php) -> Self {
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

    /// Ends the programs that were started for it.
    pub(super) async fn abandon(&mut self) {
        stop_pools(std::mem::take(&mut self.started)).await;
    }
}

impl RunningPool {
    fn folder(&self) -> Option<PathBuf> {
        self.managed.socket().parent().map(Path::to_owned)
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
        let mut all = all.into_iter();
        Self {
            primary: all.next().flatten(),
            further: all.collect(),
        }
    }
}

/// Ends all of it.
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

/// The programs of a site: for each upstream its settings, if Galley runs a program for it alone.
struct WantedPools<'c> {
    site: &'c SiteConfig,
    name: String,
    pools: Vec<Option<PhpSettings>>,
}

fn wanted(config: &Config) -> Vec<WantedPools<'_>> {
    let budget = budget(config);
    let names = site_states::names(&config.sites).into_iter();
    let all = config.sites.iter().zip(names).map(|(site, name)| {
        let pools = upstreams(site).enumerate().map(|(index, upstream)| {
            let settings = settings(site, upstream, budget);
            settings.filter(|_| is_own(index, upstream))
        });
        WantedPools {
            site,
            name,
            pools: pools.collect(),
        }
    });
    all.collect()
}

fn upstreams(site: &SiteConfig) -> impl Iterator<Item = &UpstreamConfig> {
    std::iter::once(&site.upstream).chain(&site.further)
}

/// Whether something runs for this upstream alone: a rule's `managed` is the site's own.
fn is_own(index: usize, upstream: &UpstreamConfig) -> bool {
    index == 0 || matches!(upstream, UpstreamConfig::Program(_))
}

fn at(site: &SiteConfig, cause: php::PhpStartError) -> ServerStartError {
    ServerStartError::Php {
        site: site.name.clone(),
        cause,
    }
}

/// The memory of this machine, divided for a configuration.
fn budget(config: &Config) -> MemoryDivision {
    let pools = config.managed_pools();
    MemoryDivision::of(MachineMemory::at(
        Path::new("/"),
        config.cache.memory,
        pools,
    ))
}

/// `None` for a program that Galley does not run. The program of an upstream; an empty command: PHP-FPM. `None`: nothing.
fn program(site: &SiteConfig, upstream: &UpstreamConfig) -> Option<Program> {
    match upstream {
        UpstreamConfig::Managed => Some(Program {
            command: Vec::new(),
            workers: site.managed.workers,
        }),
        UpstreamConfig::Program(program) => Some(program.clone()),
        UpstreamConfig::Php(_) | UpstreamConfig::Http(_) | UpstreamConfig::Files => None,
    }
}

fn settings(
    site: &SiteConfig,
    upstream: &UpstreamConfig,
    budget: MemoryDivision,
) -> Option<PhpSettings> {
    let Program { command, workers } = program(site, upstream)?;
    let root = site.root.as_ref()?;
    Some(PhpSettings {
        binary: site.managed.binary.clone(),
        command,
        workers,
        budget,
        first_byte_timeout: of_rules(site, |rule| rule.timeouts.first_byte)
            .fold(site.limits.first_byte_timeout, Duration::max),
        timeout: site.managed.timeout,
        memory_limit: site.managed.memory_limit,
        user: site.managed.user.clone().or_else(|| sys::owner(root)),
        runtime_dir: galley_config::runtime_dir(),
        site_name: site.name.clone(),
        request_body: of_rules(site, |rule| rule.request_body).fold(site.request_body, u64::max),
        root: root.clone(),
        sandbox: sandbox(site),
        limits: GroupLimits {
            memory_high: site.managed.memory_high,
            pids_max: site.managed.pids_max,
        },
    })
}

/// With the folders in which plugins remove files to purge pages.
fn sandbox(site: &SiteConfig) -> Option<PhpSandbox> {
    let mut sandbox = site.managed.sandbox.clone()?;
    let folders = [&site.nginx_cache_path, &site.purge_directory];
    sandbox.paths.extend(folders.into_iter().flatten().cloned());
    Some(sandbox)
}

/// What the rules of a site say about something.
fn of_rules<T>(site: &SiteConfig, what: impl Fn(&Rule) -> Option<T>) -> impl Iterator<Item = T> {
    site.rules.rules.iter().filter_map(what)
}
