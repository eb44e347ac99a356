//! What Galley runs for its sites: PHP-FPM and other FastCGI programs, started before anything else and ended last.

use std::path::Path;
use std::time::Duration;

use galley_config::{Config, Program, Site, Upstream};
use galley_rules::site::Rule;

use super::StartError;
use crate::supervise::{Budget, Machine, Managed, PhpSettings};
use crate::sys;

/// What runs for one site.
pub(super) struct SitePhp {
    /// What composes its pages.
    pub(super) primary: Option<Managed>,
    /// The programs of its rules, in the order of `Site::further`.
    pub(super) further: Vec<Option<Managed>>,
}

/// Starts all of it, in the order of the sites.
pub(super) async fn start(config: &Config) -> Result<Vec<SitePhp>, StartError> {
    let budget = budget(config);
    let mut all = Vec::with_capacity(config.sites.len());
    for site in &config.sites {
        let primary = run(site, &site.upstream, budget).await?;
        let mut further = Vec::with_capacity(site.further.len());
        for upstream in &site.further {
            further.push(match upstream {
                Upstream::Program(_) => run(site, upstream, budget).await?,
                // A rule's `managed` is the site's own.
                Upstream::Managed | Upstream::Php(_) | Upstream::Http(_) | Upstream::Files => None,
            });
        }
        all.push(SitePhp { primary, further });
    }
    Ok(all)
}

/// Ends all of it.
pub(super) async fn stop(all: Vec<SitePhp>) {
    for site in all {
        for managed in site
            .primary
            .into_iter()
            .chain(site.further.into_iter().flatten())
        {
            managed.stop().await;
        }
    }
}

/// The memory of this machine, divided for a configuration.
fn budget(config: &Config) -> Budget {
    let pools = config.managed_pools();
    Budget::of(Machine::at(Path::new("/"), config.cache.memory, pools))
}

async fn run(
    site: &Site,
    upstream: &Upstream,
    budget: Budget,
) -> Result<Option<Managed>, StartError> {
    let Some(settings) = settings(site, upstream, budget) else {
        return Ok(None);
    };
    let started = Managed::start(settings).await;
    started.map(Some).map_err(|cause| StartError::Php {
        site: site.name.clone(),
        cause,
    })
}

/// `None` for what somebody else runs.
fn settings(site: &Site, upstream: &Upstream, budget: Budget) -> Option<PhpSettings> {
    let (command, workers) = match upstream {
        Upstream::Managed => (Vec::new(), site.managed.workers),
        Upstream::Program(Program { command, workers }) => (command.clone(), *workers),
        Upstream::Php(_) | Upstream::Http(_) | Upstream::Files => return None,
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
fn of_rules<T>(site: &Site, what: impl Fn(&Rule) -> Option<T>) -> impl Iterator<Item = T> {
    site.rules.rules.iter().filter_map(what)
}
