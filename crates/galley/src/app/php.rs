//! What Galley runs for its sites: PHP-FPM and other FastCGI programs, started before anything else and ended last. What runs as
//! other users than a Galley that gives up root is gathered before it does.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use galley_config::{Config, Program, SiteConfig, UpstreamConfig};
use galley_policy::site::Rule;

use super::ServerStartError;
use crate::php::privileged::{KeeperShutdown, KeeperState, KeptPool, PrivilegeSplit, Privileged};
use crate::php::{self, MachineMemory, Managed, MemoryDivision, PhpSettings};
use crate::sys;

/// All of it.
pub(super) struct Php {
    /// In the order of the sites.
    pub(super) sites: Vec<SitePhp>,
    /// Whether a process keeps root for some of it.
    pub(super) state: KeeperState,
    ending: Option<KeeperShutdown>,
}

/// What runs for one site.
pub(super) struct SitePhp {
    /// What composes its pages.
    pub(super) primary: Option<Managed>,
    /// The programs of its rules, in the order of `SiteConfig::further`.
    pub(super) further: Vec<Option<Managed>>,
}

/// What is to run as other users than Galley will be, and who is to start it.
pub(super) struct Apart {
    privileged: Privileged,
    /// By the number of the site, and of its upstream: 0 is what composes its pages, then `SiteConfig::further`.
    pools: HashMap<(usize, usize), KeptPool>,
}

/// Starts the process that keeps root, where Galley is about to give it up and some site's `php_user` is somebody else. To be
/// called while Galley is root and has one thread.
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
            && upstreams.any(|(index, upstream)| {
                is_own(index, upstream)
                    && matches!(
                        upstream,
                        UpstreamConfig::Managed | UpstreamConfig::Program(_)
                    )
            })
    };
    config.sites.iter().filter(is_apart).count()
}

/// Starts all of it, in the order of the sites.
pub(super) async fn start(config: &Config, apart: Option<Apart>) -> Result<Php, ServerStartError> {
    let budget = budget(config);
    let (mut pools, line, ending) = match apart {
        Some(Apart { privileged, pools }) => {
            tracing::info!(
                pid = privileged.id(),
                pools = pools.len(),
                "another process keeps root, to start PHP of other users"
            );
            let (line, ending) = privileged.open()?;
            (pools, Some(line), Some(ending))
        }
        None => (HashMap::new(), None, None),
    };
    let mut sites = Vec::with_capacity(config.sites.len());
    for (number, site) in config.sites.iter().enumerate() {
        let mut all = Vec::with_capacity(1 + site.further.len());
        for (index, upstream) in upstreams(site).enumerate() {
            let started = match (pools.remove(&(number, index)), &line) {
                (Some(kept), Some(line)) => Managed::start_kept(kept, line).await.map(Some),
                _ if is_own(index, upstream) => run(site, upstream, budget).await,
                _ => Ok(None),
            };
            all.push(started.map_err(|cause| at(site, cause))?);
        }
        let mut all = all.into_iter();
        sites.push(SitePhp {
            primary: all.next().flatten(),
            further: all.collect(),
        });
    }
    Ok(Php {
        sites,
        state: KeeperState::of(line.as_ref()),
        ending,
    })
}

/// Ends all of it.
pub(super) async fn stop(php: Php) {
    for site in php.sites {
        for managed in site
            .primary
            .into_iter()
            .chain(site.further.into_iter().flatten())
        {
            managed.stop().await;
        }
    }
    if let Some(ending) = php.ending {
        ending.end().await;
    }
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

async fn run(
    site: &SiteConfig,
    upstream: &UpstreamConfig,
    budget: MemoryDivision,
) -> Result<Option<Managed>, php::PhpStartError> {
    match settings(site, upstream, budget) {
        Some(settings) => Managed::start(settings).await.map(Some),
        None => Ok(None),
    }
}

/// `None` for what somebody else runs.
fn settings(
    site: &SiteConfig,
    upstream: &UpstreamConfig,
    budget: MemoryDivision,
) -> Option<PhpSettings> {
    let (command, workers) = match upstream {
        UpstreamConfig::Managed => (Vec::new(), site.managed.workers),
        UpstreamConfig::Program(Program { command, workers }) => (command.clone(), *workers),
        UpstreamConfig::Php(_) | UpstreamConfig::Http(_) | UpstreamConfig::Files => return None,
    };
    let root = site.root.as_ref()?;
    Some(PhpSettings {
        binary: site.managed.binary.clone(),
        command,
        workers,
        budget,
        first_byte_timeout: of_rules(site, |rule| rule.patience.first_byte)
            .fold(site.limits.first_byte_timeout, Duration::max),
        timeout: site.managed.timeout,
        memory_limit: site.managed.memory_limit,
        user: site.managed.user.clone().or_else(|| sys::owner(root)),
        runtime_dir: galley_config::runtime_dir(),
        site_name: site.name.clone(),
        request_body: of_rules(site, |rule| rule.request_body).fold(site.request_body, u64::max),
        root: root.clone(),
    })
}

/// What the rules of a site say about something.
fn of_rules<T>(site: &SiteConfig, what: impl Fn(&Rule) -> Option<T>) -> impl Iterator<Item = T> {
    site.rules.rules.iter().filter_map(what)
}
