//! The upstream pools of a configuration, and the fetch threads that own them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread::JoinHandle;

use galley_config::{
    Config, HttpUpstream, PhpAddress, RunInterval, ServerShare, SiteConfig,
    UpstreamConfig as Configured, UpstreamLimits,
};
use galley_policy::route::HostPattern;

use super::ServerStartError;
use super::health::CheckedServer;
use super::php::{PhpPool, SitePhp};
use super::process_state::ProcessState;
use super::tls::UpstreamTlsClients;
use galley_fetch::Handle;
use galley_sys::sandbox::Sandbox;
use galley_upstream::{
    BalancedServer, CheckTarget, ExchangeEnd, HealthCheck, HttpServer, PoolSpec, ServerStates,
    UpstreamAddress,
};

/// Plans the pools that the sites need, for each fetch thread, and the pools that each site uses.
pub(super) fn plan(
    config: &Config,
    php: &[SitePhp],
    states: &ServerStates,
) -> Result<PoolsOfSites, ServerStartError> {
    let count = galley_sys::cores().div_ceil(CORES_PER_FETCH_THREAD);
    let mut plan = PoolPlan {
        pools: vec![Vec::new(); count],
        idle: HashMap::new(),
        clients: UpstreamTlsClients::of(&config.sites)?,
        states,
        checked: Vec::new(),
    };
    let sites = config.sites.iter().zip(php).enumerate();
    let sites = sites.map(|(index, (site, php))| plan.site(index % count, site, php));
    Ok(PoolsOfSites {
        sites: sites.collect(),
        pools: plan.pools,
        checked: plan.checked,
    })
}

/// The pools of all sites.
pub(super) struct PoolsOfSites {
    /// The pools of each site, in the order of the sites.
    pub(super) sites: Vec<PlannedPools>,
    /// The pools of each fetch thread.
    pub(super) pools: Vec<Vec<PoolSpec>>,
    /// All servers, with their health checks.
    pub(super) checked: Vec<CheckedServer>,
}

/// Starts one fetch thread for each list of pools. Returns the handles for requests and those for joining.
pub(super) fn start_fetch_threads(
    pools: Vec<Vec<PoolSpec>>,
    process_state: &ProcessState,
    sandbox: Option<&Sandbox>,
) -> Result<(Vec<Handle>, Vec<JoinHandle<()>>), ServerStartError> {
    let (mut fetch_threads, mut threads) = (Vec::new(), Vec::new());
    for (index, pools) in pools.into_iter().enumerate() {
        let (memory, spools) = (
            Arc::clone(&process_state.memory),
            Arc::clone(&process_state.spools),
        );
        let (handle, thread) = galley_fetch::start(
            index,
            pools,
            memory,
            spools,
            process_state.clock,
            process_state.cluster.as_ref(),
            sandbox.cloned(),
        )?;
        fetch_threads.push(handle);
        threads.push(thread);
    }
    Ok((fetch_threads, threads))
}

/// The pools of each fetch thread, while they are being planned.
struct PoolPlan<'p> {
    pools: Vec<Vec<PoolSpec>>,
    /// The number of idle connections of each HTTP server, by host and port: sites with the same server share its idle connections.
    idle: HashMap<(String, u16), Arc<AtomicUsize>>,
    /// The TLS clients for `https` servers.
    clients: UpstreamTlsClients,
    states: &'p ServerStates,
    checked: Vec<CheckedServer>,
}

/// The indexes of a site's pools.
pub(super) struct PlannedPools {
    pub(super) fetch_thread: usize,
    pub(super) primary: BackendKind,
    pub(super) further: Vec<BackendKind>,
    /// The index of the scheduler's pool.
    pub(super) cron: Option<usize>,
}

#[derive(Clone, Copy)]
pub(super) enum BackendKind {
    Files,
    Php(usize),
    Http(usize),
}

impl PoolPlan<'_> {
    fn site(&mut self, fetch_thread: usize, site: &SiteConfig, php: &SitePhp) -> PlannedPools {
        let primary = self.pool(fetch_thread, site, &site.upstream, php.primary.as_ref());
        let further = site
            .further
            .iter()
            .zip(&php.further)
            .map(|(upstream, program)| match upstream {
                // The same PHP, and therefore the same limit.
                Configured::Managed => primary,
                other => self.pool(fetch_thread, site, other, program.as_ref()),
            })
            .collect();
        let cron = match site.cron {
            RunInterval::Every(_) => self.cron_pool(fetch_thread, primary),
            RunInterval::Off => None,
        };
        PlannedPools {
            fetch_thread,
            primary,
            further,
            cron,
        }
    }

    /// Adds a separate pool for the scheduler, to the upstream of `primary`.
    fn cron_pool(&mut self, fetch_thread: usize, primary: BackendKind) -> Option<usize> {
        let (BackendKind::Php(index) | BackendKind::Http(index)) = primary else {
            return None;
        };
        let pools = self.pools.get_mut(fetch_thread)?;
        let spec = pools.get(index)?.for_cron(galley_fetch::cron::MAX_RUN_TIME);
        pools.push(spec);
        Some(pools.len() - 1)
    }

    fn pool(
        &mut self,
        fetch_thread: usize,
        site: &SiteConfig,
        upstream: &Configured,
        php: Option<&PhpPool>,
    ) -> BackendKind {
        let limits = &site.limits;
        let (mut places, mut shares) = (None, Vec::new());
        let (target, in_flight) = match upstream {
            Configured::Files => return BackendKind::Files,
            Configured::Php(servers) => {
                let addresses = servers.iter().map(|one| one.address.clone());
                shares.extend(servers.iter().map(|one| one.share));
                let target = UpstreamAddress::FastCgi(addresses.collect());
                (target, limits.in_flight)
            }
            Configured::Managed | Configured::Program(_) => match php {
                Some(php) => {
                    places = Some(php.numbers.slots());
                    let most = php.most_workers;
                    let in_flight = match limits.in_flight {
                        0 => most,
                        less => less.min(most),
                    };
                    let address = PhpAddress::Unix(php.socket.clone());
                    shares.push(ServerShare::default());
                    (UpstreamAddress::FastCgi(vec![address]), in_flight)
                }
                None => return BackendKind::Files,
            },
            Configured::Http(servers) => {
                shares.extend(servers.iter().map(|one| one.share));
                let servers = servers.iter().map(|s| self.server(site, s)).collect();
                (UpstreamAddress::Http(servers), limits.in_flight)
            }
        };
        let kind: fn(usize) -> BackendKind = match target {
            UpstreamAddress::FastCgi { .. } => BackendKind::Php,
            UpstreamAddress::Http(_) => BackendKind::Http,
        };
        let servers = self.balanced(site, &target, shares);
        let Some(pools) = self.pools.get_mut(fetch_thread) else {
            return BackendKind::Files;
        };
        pools.push(PoolSpec {
            site: site.name.clone(),
            target,
            servers,
            balancing: site.balancing.clone(),
            limits: UpstreamLimits {
                in_flight,
                ..site.limits
            },
            slots: places,
            end: ExchangeEnd::Response,
        });
        kind(pools.len() - 1)
    }

    /// The states and shares of the servers of a pool. Records the health check of each server.
    fn balanced(
        &mut self,
        site: &SiteConfig,
        target: &UpstreamAddress,
        shares: Vec<ServerShare>,
    ) -> Vec<BalancedServer> {
        let check = health_check(site);
        let targets: Vec<(String, CheckTarget)> = match target {
            UpstreamAddress::FastCgi(servers) => {
                let servers = servers.iter();
                servers
                    .map(|one| (one.to_string(), CheckTarget::FastCgi(one.clone())))
                    .collect()
            }
            UpstreamAddress::Http(servers) => {
                let servers = servers.iter();
                servers
                    .map(|one| (one.to_string(), CheckTarget::Http(one.clone())))
                    .collect()
            }
        };
        let servers = targets.into_iter().zip(shares);
        servers
            .map(|((address, target), share)| {
                let state = self.states.of(&site.name, &address);
                self.checked.push(CheckedServer {
                    site: site.name.clone(),
                    target,
                    state: Arc::clone(&state),
                    check: check.clone(),
                });
                BalancedServer { state, share }
            })
            .collect()
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

/// The health check for the servers of a site.
fn health_check(site: &SiteConfig) -> Option<Arc<HealthCheck>> {
    let check = site.balancing.check.as_ref()?;
    let exact = site.hosts.iter().find_map(HostPattern::exact);
    Some(Arc::new(HealthCheck {
        host: exact.unwrap_or("localhost").to_owned(),
        root: site.root.clone(),
        config: check.clone(),
    }))
}

/// The number of cores per fetch thread. A fetch thread moves PHP's responses, which arrive a thousand times more slowly than
/// hits are sent.
const CORES_PER_FETCH_THREAD: usize = 4;
