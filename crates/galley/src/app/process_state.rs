//! The state that outlives every configuration of this process: memory and disk, the state of sites, the compression threads, the
//! clock.
//!
//! Its sizes and folders are those of the first configuration. `RESTART` names the options that are read only here; a
//! reload that changes one of them reports it and keeps the current value.

use std::sync::Arc;

use galley_cache::budget::MemoryBudget;
use galley_cache::memory::{Memory, MemoryLimits};
use galley_cluster::ClusterPublisher;
use galley_config::{Config, ServerConfig, SiteConfig};
use ipnet::IpNet;

use super::ServerStartError;
use super::durable;
use super::shared_limits;
use super::site_states::SiteStates;
use super::spools;
use super::tracing_export::Tracing;
use galley_access::ClientState;
use galley_codec::compress::{Compressing, Compressor};
use galley_php::privileged::KeeperState;
use galley_purging::Durable;
use galley_purging::purge_forward::PurgeForwarder;
use galley_request::{DashboardGateway, Services, SmallFiles, UpstreamWarnings};
use galley_sys::clock::Clock;
use galley_sys::sandbox::SandboxLevel;
use galley_telemetry::errors::LogInterval;
use galley_tls::Certificates;
use galley_tls::acme::Acme;
use galley_upstream::ServerStates;
use galley_upstream::body::body_spools::BodySpools;
use galley_upstream::switch::Tunnels;

/// The state that outlives configurations. Owned by the control thread.
pub(super) struct ProcessState {
    pub(super) clock: Clock,
    pub(super) memory: Arc<Memory>,
    pub(super) small_files: Option<Arc<SmallFiles>>,
    pub(super) durable: Durable,
    pub(super) spools: Arc<BodySpools>,
    pub(super) states: SiteStates,
    compressor: Arc<Compressor>,
    privileged: KeeperState,
    identity: String,
    http2_memory: MemoryBudget,
    pub(super) cluster: Option<ClusterPublisher>,
    /// The state of clients, with the limits that it was created with.
    clients: Option<(usize, Vec<IpNet>, Arc<ClientState>)>,
    tunnels: Tunnels,
    dashboards: Arc<DashboardGateway>,
    /// Health and load of the upstreams' servers.
    pub(super) servers: ServerStates,
    /// Forwards purges to caches on other machines.
    pub(super) forwarder: Arc<PurgeForwarder>,
    /// The export of spans.
    pub(super) tracing: Tracing,
}

impl ProcessState {
    /// Opens the state with the sizes and folders of the first configuration.
    pub(super) fn open(
        config: &Config,
        privileged: KeeperState,
        cluster: Option<ClusterPublisher>,
        clock: Clock,
    ) -> Result<Self, ServerStartError> {
        let (memory, small_files) = memory(config, clock);
        let durable = durable::open(config, &memory, clock)?.with_cluster(cluster.clone());
        let streams = (config.cache.memory / SHARE_OF_STREAMS).max(MIN_FOR_STREAMS);
        let private = (config.cache.memory / SHARE_OF_PRIVATE).max(MIN_FOR_PRIVATE);
        Ok(Self {
            clock,
            memory,
            small_files,
            spools: spools::open(&config.server.spool)?,
            states: SiteStates::new(durable.clone(), MemoryBudget::new(private)),
            forwarder: Arc::new(PurgeForwarder::new(durable.forward().clone())),
            durable,
            compressor: Compressor::start(galley_sys::cores().div_ceil(CORES_PER_COMPRESSOR))?,
            privileged,
            identity: format!(
                "galley-{:016x}",
                u64::from_ne_bytes(galley_sys::random_bytes())
            ),
            http2_memory: MemoryBudget::new(streams),
            cluster,
            clients: None,
            dashboards: Arc::default(),
            tunnels: Tunnels::new(config.server.max_upgrades, config.server.upgrade_timeout),
            servers: ServerStates::default(),
            tracing: Tracing::default(),
        })
    }

    /// The state of clients: the previous one, unless the limits have changed.
    fn clients(&mut self, server: &ServerConfig) -> Arc<ClientState> {
        let (most, exempt) = (server.connections_per_address, &server.limit_exempt);
        match &self.clients {
            Some((before, networks, known)) if *before == most && networks == exempt => {
                Arc::clone(known)
            }
            _ => {
                let new = Arc::new(ClientState::new(most, exempt.clone(), self.cluster.clone()));
                self.clients = Some((most, exempt.clone(), Arc::clone(&new)));
                new
            }
        }
    }

    /// The services that the exchanges of one generation share.
    pub(super) fn services(
        &mut self,
        config: &Config,
        sandbox: SandboxLevel,
        certificates: Arc<Certificates>,
        acme: Option<Arc<Acme>>,
    ) -> Arc<Services> {
        let server = &config.server;
        let clients = self.clients(server);
        if let Some(cluster) = &self.cluster {
            shared_limits::exchange(cluster, config, &clients, self.clock);
        }
        Arc::new(Services {
            memory: Arc::clone(&self.memory),
            clock: self.clock,
            identity: self.identity.clone(),
            clients,
            upstream_warnings: UpstreamWarnings::new(UPSTREAM_WARNINGS_PER_S),
            http2_memory: self.http2_memory.clone(),
            http2_floods: LogInterval::new(FLOOD_WARNING_EVERY_S),
            durable: self.durable.clone(),
            lease: ClusterPublisher::lease(self.cluster.as_ref()),
            cluster: self.cluster.clone(),
            forwarder: Arc::clone(&self.forwarder),
            spools: Arc::clone(&self.spools),
            sandbox,
            privileged: self.privileged.clone(),
            tunnels: self
                .tunnels
                .with(server.max_upgrades, server.upgrade_timeout),
            dashboards: Arc::clone(&self.dashboards),
            compressor: Arc::clone(&self.compressor),
            acme,
            small_files: self.small_files.clone(),
            certificates,
            tracer: self.tracing.tracer(config.log.otlp.as_ref()),
        })
    }

    /// The compression of a site's pages or files in `memory`.
    pub(super) fn compressing(&self, memory: &Arc<Memory>, site: &SiteConfig) -> Compressing {
        let settings = site.compress.clone();
        Compressing::new(Arc::clone(&self.compressor), Arc::clone(memory), settings)
    }
}

/// The memory for pages, and the memory for small files if a site may have some.
fn memory(config: &Config, clock: Clock) -> (Arc<Memory>, Option<Arc<SmallFiles>>) {
    let cache = &config.cache;
    let has_files = cache.max_file > 0 && config.sites.iter().any(|site| site.root.is_some());
    if !has_files {
        return (Arc::new(Memory::new(cache.memory, cache.max_object)), None);
    }
    let limits = MemoryLimits {
        bytes: cache.memory,
        object_bytes: cache.max_object,
    };
    let share = MemoryLimits {
        bytes: cache.memory / SHARE_OF_FILES,
        object_bytes: cache.max_file,
    };
    let (pages, files) = Memory::divided(limits, share);
    let files = SmallFiles::new(files, cache.max_file, clock);
    (Arc::new(pages), Some(Arc::new(files)))
}

/// The part of the memory for small files. Generating a page costs a hundred times as much as reading a file, so that
/// files must not evict pages, and get less memory.
const SHARE_OF_FILES: u64 = 8;

/// The memory for HTTP/2 streams, in addition to that for pages: a fraction of the memory for pages, with a minimum in bytes.
const SHARE_OF_STREAMS: u64 = 8;
const MIN_FOR_STREAMS: u64 = 16 * 1024 * 1024;

/// The memory for private fragments, in addition to that for pages: a fraction of the memory for pages, with a minimum in bytes.
const SHARE_OF_PRIVATE: u64 = 16;
const MIN_FOR_PRIVATE: u64 = 4 * 1024 * 1024;

/// Pages are compressed once, so few threads suffice.
const CORES_PER_COMPRESSOR: usize = 4;

/// The maximum number of log lines per second about failing upstreams; an outage under load would otherwise fill the disk.
const UPSTREAM_WARNINGS_PER_S: u32 = 5;

/// The minimum interval between log lines that any client can cause, in seconds.
const FLOOD_WARNING_EVERY_S: u32 = 60;
