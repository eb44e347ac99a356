//! From a configuration to the parts that run: pools, fetch threads, sites, listeners, logs.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use galley_cache::budget::MemoryBudget;
use galley_cache::memory::{Memory, MemoryLimits};
use galley_certs::file;
use galley_cluster::ClusterPublisher;
use galley_config::{
    Config, HttpUpstream, MOST_OF_TOKEN, Pace, PhpAddress, SiteConfig, UpstreamConfig as Configured,
};
use galley_files::{Options, Root};
use galley_policy::headers::HeadChanges;
use galley_policy::route::HostPattern;

use super::ServerStartError;
use super::confine;
use super::durable::{self, Identities};
use super::php::{Php, SitePhp};
use super::spools;
use super::tls::UpstreamTlsClients;
use crate::access;
use crate::acme::AcmeReady;
use crate::body::spools::Spools;
use crate::clock::Clock;
use crate::compress::{Compressing, Compressor};
use crate::fetch::{self, Handle};
use crate::php::{Managed, PoolNumbers};
use crate::request::{
    AccessControl, ErrorPage, ErrorPages, Healing, PoolHandle, Services, Site, SiteCron, SiteFiles,
    SmallFiles, Upstream, UpstreamWarnings,
};
use crate::server::{ClientLimits, Speed};
use crate::sys;
use crate::sys::sandbox::Sandbox;
use crate::telemetry::errors::Seldom;
use crate::tls::Certificates;
use crate::upstream::switch::Tunnels;
use crate::upstream::{ExchangeEnd, FastCgiAddress, HttpServer, PoolSpec, UpstreamAddress};

/// What was built.
pub(super) struct Built {
    pub(super) services: Arc<Services>,
    pub(super) sites: Arc<Vec<Arc<Site>>>,
    pub(super) fetch_threads: Vec<Handle>,
    /// What confines the threads that deal with clients and upstreams.
    pub(super) sandbox: Option<Sandbox>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Built {
    pub(super) fn take_threads(&self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Pools and sites of a configuration; `php` is what Galley runs for them, in the order of the sites.
pub(super) fn build(
    config: &Config,
    php: &Php,
    (certificates, acme): (Arc<Certificates>, Option<&AcmeReady>),
    cluster: Option<ClusterPublisher>,
    clock: Clock,
) -> Result<Built, ServerStartError> {
    let (memory, small_files) = memory(config, clock);
    let durable = durable::open(config, &memory, clock)?.with_cluster(cluster.clone());
    let compressor = Compressor::start(sys::cores().div_ceil(CORES_PER_COMPRESSOR))?;
    let spools = spools::open(&config.server)?;
    let (sandbox, held) = confine::sandbox(config, spools.folder());
    let services = Arc::new(Services {
        memory: Arc::clone(&memory),
        clock,
        identity: format!("galley-{:016x}", u64::from_ne_bytes(sys::random_bytes())),
        clients: access::ClientState::new(
            config.server.connections_per_address,
            config.server.limit_exempt.clone(),
        ),
        upstream_warnings: UpstreamWarnings::new(UPSTREAM_WARNINGS_PER_S),
        http2_memory: MemoryBudget::new(
            (config.cache.memory / SHARE_OF_STREAMS).max(LEAST_FOR_STREAMS),
        ),
        http2_floods: Seldom::new(FLOOD_WARNING_EVERY_S),
        durable: durable.clone(),
        lease: ClusterPublisher::lease(cluster.as_ref()),
        cluster,
        spools: Arc::clone(&spools),
        sandbox: held,
        privileged: php.state.clone(),
        tunnels: Tunnels::new(config.server.max_upgrades, config.server.upgrade_timeout),
        compressor: Arc::clone(&compressor),
        acme: acme.map(AcmeReady::acme),
        small_files: small_files.clone(),
        certificates,
    });
    let identities = Identities::of(&config.sites);
    let (planned, pools) = plan(config, php)?;
    let (fetch_threads, threads) =
        start_fetch_threads(pools, &memory, &spools, clock, sandbox.as_ref())?;
    let mut sites = Vec::with_capacity(config.sites.len());
    let mut next_log = 1;
    for (number, ((site, planned), own_php)) in
        (0..).zip(config.sites.iter().zip(planned).zip(&php.sites))
    {
        let log = site.access.as_ref().map_or(0, |_| next_log);
        next_log += usize::from(log > 0);
        let compressing = |memory: &Arc<Memory>| {
            let settings = site.compress.clone();
            Compressing::new(Arc::clone(&compressor), Arc::clone(memory), settings)
        };
        let (core, mark) = identities.core(number, site, &durable, compressing(&memory));
        let small = small_files
            .as_ref()
            .map(|files| (Arc::clone(files), compressing(files.memory())));
        let own = SiteParts {
            folder: folder(site, &planned, mark, small)?,
            php: own_php.primary.as_ref().map(Managed::numbers),
            number,
            mark,
            log,
        };
        sites.push(Arc::new(build_site(
            site,
            &planned,
            &fetch_threads,
            (core, own),
        )?));
    }
    Ok(Built {
        services,
        sites: Arc::new(sites),
        fetch_threads,
        sandbox,
        threads: Mutex::new(threads),
    })
}

/// The pools that the sites need, for each fetch thread, and which of them each site uses.
fn plan(
    config: &Config,
    php: &Php,
) -> Result<(Vec<Planned>, Vec<Vec<PoolSpec>>), ServerStartError> {
    let count = sys::cores().div_ceil(CORES_PER_COMPOSITOR);
    let mut plan = PoolPlan {
        pools: vec![Vec::new(); count],
        idle: HashMap::new(),
        clients: UpstreamTlsClients::of(&config.sites)?,
    };
    let planned = config
        .sites
        .iter()
        .zip(&php.sites)
        .enumerate()
        .map(|(index, (site, php))| plan.site(index % count, site, php))
        .collect();
    Ok((planned, plan.pools))
}

/// One fetch thread for each list of pools, and its thread.
fn start_fetch_threads(
    pools: Vec<Vec<PoolSpec>>,
    memory: &Arc<Memory>,
    spools: &Arc<Spools>,
    clock: Clock,
    sandbox: Option<&Sandbox>,
) -> Result<(Vec<Handle>, Vec<JoinHandle<()>>), ServerStartError> {
    let (mut fetch_threads, mut threads) = (Vec::new(), Vec::new());
    for (index, pools) in pools.into_iter().enumerate() {
        let (memory, spools) = (Arc::clone(memory), Arc::clone(spools));
        let (handle, thread) = fetch::start(index, pools, memory, spools, clock, sandbox.cloned())?;
        fetch_threads.push(handle);
        threads.push(thread);
    }
    Ok((fetch_threads, threads))
}

/// Which pools each fetch thread gets.
struct PoolPlan {
    pools: Vec<Vec<PoolSpec>>,
    /// The kept connections of each HTTP server, by host and port: sites that share one share what may be idle there.
    idle: HashMap<(String, u16), Arc<AtomicUsize>>,
    /// How `https` servers are spoken with.
    clients: UpstreamTlsClients,
}

/// A site's pools: where they are.
struct Planned {
    fetch_thread: usize,
    primary: BackendKind,
    further: Vec<BackendKind>,
    /// The pool of its scheduler.
    cron: Option<usize>,
}

#[derive(Clone, Copy)]
enum BackendKind {
    Files,
    Php(usize),
    Http(usize),
}

impl PoolPlan {
    fn site(&mut self, fetch_thread: usize, site: &SiteConfig, php: &SitePhp) -> Planned {
        let primary = self.pool(fetch_thread, site, &site.upstream, php.primary.as_ref());
        let further = site
            .further
            .iter()
            .zip(&php.further)
            .map(|(upstream, program)| match upstream {
                // The same PHP, so the same limit.
                Configured::Managed => primary,
                other => self.pool(fetch_thread, site, other, program.as_ref()),
            })
            .collect();
        let cron = match site.cron {
            Pace::Every(_) => self.cron_pool(fetch_thread, primary),
            Pace::Off => None,
        };
        Planned {
            fetch_thread,
            primary,
            further,
            cron,
        }
    }

    /// A pool of its own for the scheduler, to the upstream of `primary`.
    fn cron_pool(&mut self, fetch_thread: usize, primary: BackendKind) -> Option<usize> {
        let (BackendKind::Php(index) | BackendKind::Http(index)) = primary else {
            return None;
        };
        let pools = self.pools.get_mut(fetch_thread)?;
        let spec = pools.get(index)?.for_cron(fetch::cron::LONGEST_RUN);
        pools.push(spec);
        Some(pools.len() - 1)
    }

    fn pool(
        &mut self,
        fetch_thread: usize,
        site: &SiteConfig,
        upstream: &Configured,
        php: Option<&Managed>,
    ) -> BackendKind {
        let limits = &site.limits;
        let mut places = None;
        let (target, in_flight) = match upstream {
            Configured::Files => return BackendKind::Files,
            Configured::Php(address) => (
                UpstreamAddress::FastCgi(php_address(address)),
                limits.in_flight,
            ),
            Configured::Managed | Configured::Program(_) => match php {
                Some(php) => {
                    places = Some(php.numbers().places());
                    let most = php.most_workers();
                    let in_flight = match limits.in_flight {
                        0 => most,
                        less => less.min(most),
                    };
                    let address = FastCgiAddress::Unix(php.socket().to_path_buf());
                    (UpstreamAddress::FastCgi(address), in_flight)
                }
                None => return BackendKind::Files,
            },
            Configured::Http(servers) => {
                let servers = servers.iter().map(|s| self.server(site, s)).collect();
                (UpstreamAddress::Http(servers), limits.in_flight)
            }
        };
        let kind: fn(usize) -> BackendKind = match target {
            UpstreamAddress::FastCgi { .. } => BackendKind::Php,
            UpstreamAddress::Http(_) => BackendKind::Http,
        };
        let Some(pools) = self.pools.get_mut(fetch_thread) else {
            return BackendKind::Files;
        };
        pools.push(PoolSpec {
            site: site.name.clone(),
            target,
            in_flight,
            places,
            queue: limits.queue,
            queue_timeout: limits.queue_timeout,
            connect_timeout: limits.connect_timeout,
            first_byte_timeout: limits.first_byte_timeout,
            read_timeout: limits.read_timeout,
            idle_share: limits.idle_share,
            idle_age: limits.idle_age,
            end: ExchangeEnd::Answer,
        });
        kind(pools.len() - 1)
    }

    fn server(&mut self, site: &SiteConfig, server: &HttpUpstream) -> HttpServer {
        let (host, port) = (server.host.clone(), server.port);
        let idle = self.idle.entry((host.clone(), port)).or_default();
        HttpServer {
            host,
            port,
            idle: Arc::clone(idle),
            tls: self.clients.find(site, server),
        }
    }
}

fn php_address(address: &PhpAddress) -> FastCgiAddress {
    match address {
        PhpAddress::Unix(path) => FastCgiAddress::Unix(path.clone()),
        PhpAddress::Tcp(address) => FastCgiAddress::Tcp(address.clone()),
    }
}

fn build_site(
    site: &SiteConfig,
    planned: &Planned,
    fetch_threads: &[Handle],
    (core, own): (fetch::FetchSite, SiteParts),
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
        core: Arc::new(core),
        folder: own.folder,
        upstream: upstream(planned.primary),
        further: planned.further.iter().map(|kind| upstream(*kind)).collect(),
        error_pages: error_pages(site)?,
        heads: HeadChanges::new(&site.rules),
        speaks_tls: !site.listen_tls.is_empty(),
        door: AccessControl::new(&site.rules),
        request_body: site.request_body,
        purge_allow: site.purge_allow.clone(),
        purge_secret: token(site.purge_secret_file.as_ref())?,
        purge_get: site.purge_get,
        token: token(site.token_file.as_ref())?,
        healing: Healing::default(),
        cron: cron(site, planned, fetch_threads),
        upgrade: site.upgrade.clone(),
        hosts: site.hosts.clone(),
        number: own.number,
        mark: own.mark,
        log: own.log,
        php: own.php,
    })
}

/// How the site's scheduled tasks are run, by the first host that is one.
fn cron(site: &SiteConfig, planned: &Planned, fetch_threads: &[Handle]) -> Option<SiteCron> {
    let (Pace::Every(every), Some(index)) = (site.cron, planned.cron) else {
        return None;
    };
    let host = site.hosts.iter().find_map(|host| match host {
        HostPattern::Exact(name) => Some(name.clone()),
        HostPattern::Wildcard(_) | HostPattern::Any => None,
    });
    let fetch_thread = fetch_threads.get(planned.fetch_thread)?.clone();
    Some(SiteCron {
        every,
        host: host?,
        pool: PoolHandle {
            fetch_thread,
            index,
        },
    })
}

struct SiteParts {
    folder: Option<Arc<SiteFiles>>,
    php: Option<Arc<PoolNumbers>>,
    number: u32,
    mark: u32,
    log: usize,
}

/// The memory of pages, and that of small files where a site may have some.
fn memory(config: &Config, clock: Clock) -> (Arc<Memory>, Option<Arc<SmallFiles>>) {
    let cache = &config.cache;
    let has_files = cache.max_file > 0 && config.sites.iter().any(|site| site.root.is_some());
    if !has_files {
        return (Arc::new(Memory::new(cache.memory, cache.max_object)), None);
    }
    let all = MemoryLimits {
        bytes: cache.memory,
        object_bytes: cache.max_object,
    };
    let share = MemoryLimits {
        bytes: cache.memory / SHARE_OF_FILES,
        object_bytes: cache.max_file,
    };
    let (pages, files) = Memory::divided(all, share);
    let files = SmallFiles::new(files, cache.max_file, clock);
    (Arc::new(pages), Some(Arc::new(files)))
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

/// A site's files; `small`: where the small ones are kept.
fn folder(
    site: &SiteConfig,
    planned: &Planned,
    mark: u32,
    small: Option<(Arc<SmallFiles>, Compressing)>,
) -> Result<Option<Arc<SiteFiles>>, ServerStartError> {
    let Some(path) = &site.root else {
        return Ok(None);
    };
    let options = Options {
        php: matches!(planned.primary, BackendKind::Php(_)),
        multisite: site.multisite,
        wordpress: site.rules.urls.has_wordpress_paths,
        allowed: site.allow_files.clone(),
    };
    let root = Root::open(path, options).map_err(|cause| ServerStartError::Root {
        site: site.name.clone(),
        path: path.clone(),
        cause,
    })?;
    Ok(Some(Arc::new(SiteFiles::new(root, mark, small))))
}

/// Limits towards clients.
pub(super) fn front_limits(config: &Config, connections: usize) -> ClientLimits {
    let server = &config.server;
    ClientLimits {
        head_bytes: server.head_size,
        head_timeout: server.head_timeout,
        idle_timeout: server.idle_timeout,
        coming: Speed::new(server.body_timeout, server.min_rate),
        leaving: Speed::new(server.write_timeout, server.min_rate),
        drain_timeout: server.drain_timeout,
        connections,
        lane: server.lane,
        h2c: server.h2c,
    }
}

/// What a token file holds, without the line end.
pub(super) fn token(path: Option<&PathBuf>) -> Result<Option<String>, ServerStartError> {
    path.map(|path| {
        file::read_text(path, MOST_OF_TOKEN)
            .map(|text| text.trim().to_owned())
            .map_err(|cause| ServerStartError::Token {
                path: path.clone(),
                cause,
            })
    })
    .transpose()
}

/// The start of all request ids of one core: random, so that ids of several runs differ.
pub(super) fn id_prefix() -> String {
    let random = u64::from_ne_bytes(sys::random_bytes());
    format!("{:010x}", random & 0xff_ffff_ffff)
}

/// What part of the memory small files may have. A page costs a hundred times what a file costs to get again, so that
/// files must not push pages out, and are worth less room.
const SHARE_OF_FILES: u64 = 8;

/// The part of the memory for pages that streams of HTTP/2 may hold beside it, and how much it is at least.
const SHARE_OF_STREAMS: u64 = 8;
const LEAST_FOR_STREAMS: u64 = 16 * 1024 * 1024;

/// Pages are compressed once, so few threads suffice.
const CORES_PER_COMPRESSOR: usize = 4;

/// One fetch thread thread serves this many cores: it moves PHP's answers, which come a thousand times more slowly than hits go.
const CORES_PER_COMPOSITOR: usize = 4;

/// Lines about failing upstreams per second; an outage under load would otherwise fill the disk.
const UPSTREAM_WARNINGS_PER_S: u32 = 5;

/// One line of those that any client can cause.
const FLOOD_WARNING_EVERY_S: u32 = 60;
