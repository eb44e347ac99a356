//! Turns a configuration into the parts of one generation: its sites, their pools and fetch threads.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use galley_cache::memory::SiteQuota;
use galley_certs::file;
use galley_config::{Config, MAX_TOKEN_FILE, RunInterval, SiteConfig};
use galley_files::{Options, Root, SentFiles};
use galley_policy::headers::HeadChanges;
use galley_policy::route::HostPattern;

use super::ServerStartError;
use super::confine;
use super::health::CheckedServer;
use super::php::SitePhp;
use super::pools::{self, BackendKind, PlannedPools};
use super::process_state::ProcessState;
use super::site_states::SiteIdentity;
use galley_access::{Countries, CrawlPace, Passwords, Visits};
use galley_fetch::Handle;
use galley_php::PoolNumbers;
use galley_purging::{FolderOwner, PageMarkers};
use galley_request::{
    AccessControl, ClientLists, ErrorPage, ErrorPages, PoolHandle, RefreshedPages, Services, Site,
    SiteCron, SiteDashboard, SiteFiles, SiteIncludes, SlowRequests, Upstream,
};
use galley_server::{ClientLimits, MinRate};
use galley_sys::sandbox::Sandbox;
use galley_tls::Certificates;
use galley_tls::acme::Acme;

/// The parts that were built.
pub(super) struct BuiltParts {
    pub(super) services: Arc<Services>,
    pub(super) sites: Arc<Vec<Arc<Site>>>,
    pub(super) fetch_threads: Vec<Handle>,
    /// All servers of all upstreams.
    pub(super) checked: Vec<CheckedServer>,
    /// The countries of clients.
    pub(super) countries: Option<Arc<Countries>>,
    /// The sandbox of the threads that communicate with clients and upstreams.
    pub(super) sandbox: Option<Sandbox>,
    /// The join handles of `fetch_threads`.
    pub(super) threads: Vec<JoinHandle<()>>,
}

/// Builds the pools and sites of a configuration. `php`: the programs that Galley runs for the sites, in the order of the sites.
pub(super) fn build(
    config: &Config,
    php: &[SitePhp],
    process_state: &mut ProcessState,
    certificates: Arc<Certificates>,
    acme: Option<Arc<Acme>>,
) -> Result<BuiltParts, ServerStartError> {
    let (sandbox, level) = confine::sandbox(config, process_state.spools.folder());
    let services = process_state.services(config, level, certificates, acme);
    let countries = countries(config)?;
    let planned = pools::plan(config, php, &process_state.servers)?;
    let (fetch_threads, threads) =
        pools::start_fetch_threads(planned.pools, process_state, sandbox.as_ref())?;
    let mut sites = Vec::with_capacity(config.sites.len());
    let mut next_log = 1;
    let planned_sites = config.sites.iter().zip(planned.sites).zip(php);
    for (number, ((site, planned), own_php)) in (0..).zip(planned_sites) {
        let log = if site.access.is_some() { next_log } else { 0 };
        next_log += usize::from(site.access.is_some());
        let pages = process_state.compressing(&process_state.memory, site);
        let (mut core, identity) = process_state.states.fetch_site(site, pages);
        core.markers = markers(site, &core)?;
        let parts = SiteParts {
            folder: folder(site, &planned, identity.file_mark, process_state)?,
            php: own_php
                .primary
                .as_ref()
                .map(|pool| Arc::clone(&pool.numbers)),
            number,
            identity,
            log,
            visits: visits(site, &services, identity.mark),
            lists: ClientLists {
                countries: countries.clone(),
                crawlers: Arc::clone(&config.server.crawlers.ranges),
            },
        };
        let built = Arc::new(build_site(site, &planned, &fetch_threads, core, parts)?);
        SiteIncludes::enable(&services, &built);
        sites.push(built);
    }
    process_state.memory.share_among(&quotas(config, &sites));
    Ok(BuiltParts {
        services,
        sites: Arc::new(sites),
        fetch_threads,
        checked: planned.checked,
        countries,
        sandbox,
        threads,
    })
}

/// The visitors of a site that asks for a proof of visit.
fn visits(site: &SiteConfig, services: &Services, mark: u32) -> Option<Arc<Visits>> {
    let is_asked = site.policy.flags.crawl_shield && site.policy.urls.has_wordpress_paths;
    is_asked.then(|| services.clients.visits(mark))
}

/// The files of a site that plugins remove to purge pages.
fn markers(
    site: &SiteConfig,
    core: &galley_fetch::FetchSite,
) -> Result<Option<PageMarkers>, ServerStartError> {
    let Some(path) = &site.nginx_cache_path else {
        return Ok(None);
    };
    FolderOwner::of_root(site.root.as_deref())
        .and_then(|owner| PageMarkers::start(path, owner, &core.policy, &core.purges))
        .map(Some)
        .map_err(|cause| ServerStartError::MarkerFolder {
            site: site.name.clone(),
            path: path.clone(),
            cause,
        })
}

/// The countries of clients, where the configuration names a database.
fn countries(config: &Config) -> Result<Option<Arc<Countries>>, ServerStartError> {
    let Some(path) = &config.server.geoip else {
        return Ok(None);
    };
    let countries = Countries::open(path).map_err(|cause| ServerStartError::Countries {
        path: path.clone(),
        cause,
    })?;
    Ok(Some(Arc::new(countries)))
}

/// The memory quotas of the sites.
fn quotas(config: &Config, sites: &[Arc<Site>]) -> Vec<SiteQuota> {
    let quotas = sites.iter().map(|site| SiteQuota {
        mark: site.mark,
        most_bytes: config.cache.memory_per_site,
    });
    quotas.collect()
}

fn build_site(
    site: &SiteConfig,
    planned: &PlannedPools,
    fetch_threads: &[Handle],
    core: galley_fetch::FetchSite,
    own: SiteParts,
) -> Result<Site, ServerStartError> {
    let upstream = |kind: BackendKind| match (kind, fetch_threads.get(planned.fetch_thread)) {
        (BackendKind::Php(index), Some(c)) => Upstream::Php(PoolHandle {
            fetch_thread: c.clone(),
            index,
        }),
        (BackendKind::Http(index), Some(c)) => Upstream::Http(PoolHandle {
            fetch_thread: c.clone(),
            index,
        }),
        (BackendKind::Files, _) | (_, None) => Upstream::Files,
    };
    Ok(Site {
        config: Arc::new(site.clone()),
        purges: Arc::clone(&core.purges),
        core: Arc::new(core),
        folder: own.folder,
        sent_files: Arc::new(SentFiles::open(&site.internal, site.root.as_deref())),
        upstream: upstream(planned.primary),
        further: planned.further.iter().map(|kind| upstream(*kind)).collect(),
        error_pages: error_pages(site)?,
        heads: HeadChanges::new(&site.policy),
        access: AccessControl::new(&site.policy, &own.lists, crawl_pace(site)),
        purge_secret: token(site.purge_secret_file.as_ref())?,
        dashboard: dashboard(site),
        token: token(site.token_file.as_ref())?,
        refreshed_pages: RefreshedPages::default(),
        slow_requests: SlowRequests::default(),
        visits: own.visits,
        cron: cron(site, planned, fetch_threads),
        number: own.number,
        row: own.identity.row,
        mark: own.identity.mark,
        log: own.log,
        includes: OnceLock::new(),
        php: own.php,
    })
}

/// The dashboard on the site's own address.
fn dashboard(site: &SiteConfig) -> Option<SiteDashboard> {
    Some(SiteDashboard {
        path: site.policy.dashboard.clone()?,
        passwords: Arc::new(Passwords::of(site.dashboard_auth.as_ref()?)),
    })
}

/// The settings for the site's scheduled tasks. Internal requests name the first host that is not a pattern.
fn cron(site: &SiteConfig, planned: &PlannedPools, fetch_threads: &[Handle]) -> Option<SiteCron> {
    let (RunInterval::Every(every), Some(index)) = (site.cron, planned.cron) else {
        return None;
    };
    let host = site.hosts.iter().find_map(HostPattern::exact);
    let fetch_thread = fetch_threads.get(planned.fetch_thread)?.clone();
    Some(SiteCron {
        every,
        host: host?.to_owned(),
        pool: PoolHandle {
            fetch_thread,
            index,
        },
    })
}

/// The parts of one site.
struct SiteParts {
    folder: Option<Arc<SiteFiles>>,
    php: Option<Arc<PoolNumbers>>,
    number: u32,
    identity: SiteIdentity,
    /// The index of the site's access log.
    log: usize,
    visits: Option<Arc<Visits>>,
    lists: ClientLists,
}

/// How often crawlers may request pages of a site.
fn crawl_pace(site: &SiteConfig) -> CrawlPace {
    match (site.crawl_delay, &site.root) {
        (Some(RunInterval::Every(delay)), _) => CrawlPace::fixed(Some(delay)),
        (None, Some(root)) => CrawlPace::of_folder(root),
        (Some(RunInterval::Off), _) | (None, None) => CrawlPace::fixed(None),
    }
}

fn error_pages(site: &SiteConfig) -> Result<ErrorPages, ServerStartError> {
    let read = |path: &PathBuf| {
        ErrorPage::read(path).map_err(|cause| ServerStartError::ErrorPage {
            path: path.clone(),
            cause,
        })
    };
    let by_status = site.error_pages.iter();
    Ok(ErrorPages {
        of_outages: site.error_page.as_ref().map(read).transpose()?,
        by_status: by_status
            .map(|(status, path)| Ok((*status, read(path)?)))
            .collect::<Result<_, ServerStartError>>()?,
    })
}

/// A site's files.
fn folder(
    site: &SiteConfig,
    planned: &PlannedPools,
    mark: u32,
    process_state: &ProcessState,
) -> Result<Option<Arc<SiteFiles>>, ServerStartError> {
    let Some(path) = &site.root else {
        return Ok(None);
    };
    let options = Options {
        php: matches!(planned.primary, BackendKind::Php(_)),
        multisite: site.policy.flags.multisite,
        wordpress: site.policy.urls.has_wordpress_paths,
        allowed: site.allow_files.clone(),
        images: site.image_siblings,
        link_targets: site.link_targets.clone(),
    };
    let root = Root::open(path, options).map_err(|cause| ServerStartError::Root {
        site: site.name.clone(),
        path: path.clone(),
        cause,
    })?;
    let small = process_state.small_files.clone();
    let memory = small.as_ref().map_or(&process_state.memory, |s| s.memory());
    let compressing = process_state.compressing(memory, site);
    Ok(Some(Arc::new(SiteFiles::new(
        root,
        mark,
        small,
        compressing,
    ))))
}

/// The limits for client connections.
pub(super) fn front_limits(config: &Config, connections: usize) -> ClientLimits {
    let server = &config.server;
    ClientLimits {
        head_bytes: server.head_size,
        head_timeout: server.head_timeout,
        idle_timeout: server.idle_timeout,
        body_speed: MinRate::new(server.body_timeout, server.min_rate),
        response_speed: MinRate::new(server.write_timeout, server.min_rate),
        drain_timeout: server.drain_timeout,
        connections,
        fast_path: server.fast_path,
        h2c: server.h2c,
    }
}

/// The content of a token file without the line end.
pub(super) fn token(path: Option<&PathBuf>) -> Result<Option<String>, ServerStartError> {
    path.map(|path| {
        file::read_text(path, MAX_TOKEN_FILE)
            .map(|text| text.trim().to_owned())
            .map_err(|cause| ServerStartError::Token {
                path: path.clone(),
                cause,
            })
    })
    .transpose()
}

/// The start of all request ids of one core: random, so that ids from different runs differ.
pub(super) fn id_prefix() -> String {
    let random = u64::from_ne_bytes(galley_sys::random_bytes());
    format!("{:010x}", random & 0xff_ffff_ffff)
}
