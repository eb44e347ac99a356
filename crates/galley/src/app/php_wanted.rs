//! The programs that the sites of a configuration want Galley to run, and their settings.

use std::path::Path;
use std::time::Duration;

use galley_config::{Config, PhpSandbox, Program, SiteConfig, UpstreamConfig};
use galley_policy::site::Rule;

use super::ServerStartError;
use galley_php::{MachineMemory, MemoryDivision, PhpSettings};
use galley_sys::cgroup::GroupLimits;

/// The programs of a site. `pools` has one element for each upstream: the settings of its program, if Galley runs one for it alone.
pub(super) struct WantedPools<'c> {
    pub(super) site: &'c SiteConfig,
    pub(super) pools: Vec<Option<PhpSettings>>,
}

pub(super) fn wanted(config: &Config) -> Vec<WantedPools<'_>> {
    let budget = budget(config);
    let of_sites = config.sites.iter().map(|site| {
        let pools = upstreams(site).enumerate().map(|(index, upstream)| {
            let settings = settings(site, upstream, budget);
            settings.filter(|_| is_own(index, upstream))
        });
        WantedPools {
            site,
            pools: pools.collect(),
        }
    });
    of_sites.collect()
}

pub(super) fn upstreams(site: &SiteConfig) -> impl Iterator<Item = &UpstreamConfig> {
    std::iter::once(&site.upstream).chain(&site.further)
}

/// Whether Galley runs a program for this upstream alone: `managed` in a rule means the site's own PHP.
pub(super) fn is_own(index: usize, upstream: &UpstreamConfig) -> bool {
    index == 0 || matches!(upstream, UpstreamConfig::Program(_))
}

pub(super) fn at(site: &SiteConfig, cause: galley_php::PhpStartError) -> ServerStartError {
    ServerStartError::Php {
        site: site.name.clone(),
        cause,
    }
}

/// Divides the memory of this machine for a configuration.
fn budget(config: &Config) -> MemoryDivision {
    let pools = config.managed_pools();
    MemoryDivision::of(MachineMemory::at(
        Path::new("/"),
        config.cache.memory,
        pools,
    ))
}

/// The program of an upstream, with an empty command for PHP-FPM; `None` if Galley does not run one.
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
        user: site
            .managed
            .user
            .clone()
            .or_else(|| galley_sys::owner(root)),
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

/// The sandbox of a site's program, including the folders in which plugins remove files to purge pages.
fn sandbox(site: &SiteConfig) -> Option<PhpSandbox> {
    let mut sandbox = site.managed.sandbox.clone()?;
    let folders = [&site.nginx_cache_path, &site.purge_directory];
    sandbox.paths.extend(folders.into_iter().flatten().cloned());
    Some(sandbox)
}

/// The values that a site's rules set for one option.
fn of_rules<T>(site: &SiteConfig, what: impl Fn(&Rule) -> Option<T>) -> impl Iterator<Item = T> {
    site.policy.rules.iter().filter_map(what)
}
