//! One generation: the threads that serve one configuration, with everything else that only this configuration uses.
//!
//! A process has one current generation. A reload starts the next one on the same sockets. The previous one stops accepting
//! connections, and ends with its last exchange. State that outlives generations is in [`super::process_state`] and on the control
//! thread.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use galley_config::{Config, SiteConfig};
use galley_policy::route::HostPattern;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use super::ServerStartError;
use super::build::{self, BuiltParts};
use super::health::CheckedServer;
use super::listeners::HeldListeners;
use super::open_listener::Removals;
use super::php::{RunningPool, SitePhp, stop_pools};
use super::process_state::ProcessState;
use super::signals::Signals;
use super::tls::{self, CertificateCheckTask, PreviousTls};
use super::{acme, audit, canary, countries, cron, health, reach};
use galley_access::Countries;
use galley_fetch::Handle;
use galley_purging::purge_forward::{ForwardTarget, ForwardingSite};
use galley_request::{Services, Site, Sites};
use galley_server::Phase;
use galley_telemetry::access::AccessLog;
use galley_telemetry::counters::{self, CounterReader};
use galley_telemetry::fields::LoggedHeaders;
use galley_tls::acme::{Acme, AcmeReady};

/// A generation, current or retiring.
pub(super) struct Generation {
    pub(super) config: Arc<Config>,
    pub(super) services: Arc<Services>,
    pub(super) sites: Arc<Vec<Arc<Site>>>,
    pub(super) fetch_threads: Vec<Handle>,
    /// The URL of each listener with its sites.
    pub(super) reached: Vec<(String, Arc<Sites>)>,
    /// The UDP addresses of HTTP/3.
    pub(super) quic: Vec<SocketAddr>,
    pub(super) removals: Removals,
    pub(super) tls: PreviousTls,
    /// The token of the admin interface.
    pub(super) token: Option<String>,
    acme: Option<Arc<Acme>>,
    checked: Vec<CheckedServer>,
    countries: Option<Arc<Countries>>,
    threads: GenerationThreads,
    /// The tasks end when this is dropped.
    tasks: Tasks,
}

/// The input for starting a generation.
pub(super) struct GenerationParts<'p> {
    pub(super) config: Config,
    pub(super) php: &'p [SitePhp],
    pub(super) tls: tls::Tls,
    pub(super) logs: &'p [AccessLog],
    /// The token of the admin interface.
    pub(super) token: Option<String>,
    /// Connections per core.
    pub(super) connections: usize,
    /// The automatic certificates of the previous generation.
    pub(super) acme: Option<&'p Acme>,
}

/// The threads of a generation.
pub(super) struct GenerationThreads {
    phase: watch::Sender<Phase>,
    /// One receiver for each front thread; closed when the thread has stopped accepting.
    accepting: Vec<oneshot::Receiver<()>>,
    fronts: Vec<JoinHandle<()>>,
    fetchers: Vec<JoinHandle<()>>,
    pub(super) counters: Vec<CounterReader>,
    drain: Duration,
}

/// The background tasks of a generation.
#[derive(Default)]
struct Tasks {
    _canaries: JoinSet<()>,
    audits: JoinSet<()>,
    schedules: JoinSet<()>,
    health_checks: JoinSet<()>,
    reach: JoinSet<()>,
    countries: JoinSet<()>,
    keepers: Option<JoinSet<()>>,
    certificates: Option<CertificateCheckTask>,
    /// The tasks for certificates, until they are started.
    ready: Option<(Option<AcmeReady>, galley_tls::CertificateWatch)>,
}

impl Generation {
    /// Starts the threads of a generation on the sockets that `held` has for its configuration. They accept connections
    /// immediately.
    pub(super) fn start(
        parts: GenerationParts<'_>,
        process_state: &mut ProcessState,
        held: &HeldListeners,
    ) -> Result<Self, ServerStartError> {
        let (config, tls) = (parts.config, parts.tls);
        let (clock, cluster) = (process_state.clock, process_state.cluster.as_ref());
        let ready = acme::open(&config, &tls.certificates, clock, parts.acme, cluster)?;
        let acme = ready.as_ref().map(AcmeReady::acme);
        let certificates = Arc::clone(&tls.certificates);
        let built = build::build(
            &held.with_alternatives(&config),
            parts.php,
            process_state,
            certificates,
            acme.clone(),
        )?;
        let open = held.open(&config, &built.sites, tls.acceptor.as_ref())?;
        // A purge may arrive as soon as the threads run.
        let forwarding = forwarding(&config, &built.sites);
        process_state.forwarder.begin(forwarding)?;
        let canaries = canary::start(&config, &built.sites)?;
        let mut threads = GenerationThreads::new(config.server.drain_timeout);
        let cores = open.per_core.into_iter().zip(open.quic);
        for (index, (listeners, quic)) in cores.enumerate() {
            let limits = build::front_limits(&config, parts.connections);
            let spec = galley_server::CoreSpec {
                index,
                listeners,
                quic,
                limits,
                services: Arc::clone(&built.services),
                logs: parts.logs.iter().map(AccessLog::writer).collect(),
                logged: LoggedHeaders::of(&config.log.fields),
                countries: countries::for_logs(&config, built.countries.as_ref()),
                counters: threads.add_counters(process_state.states.rows()),
                id_prefix: build::id_prefix(),
                phase: threads.phase.subscribe(),
                accepting: threads.add_accepting(),
                sandbox: built.sandbox.clone(),
            };
            threads.fronts.push(galley_server::start(spec)?);
        }
        let BuiltParts {
            services,
            sites,
            fetch_threads,
            checked,
            countries,
            threads: fetchers,
            ..
        } = built;
        threads.fetchers = fetchers;
        Ok(Self {
            config: Arc::new(config),
            services,
            sites,
            fetch_threads,
            reached: open.reached,
            quic: open.addresses,
            removals: open.removals,
            tls: PreviousTls {
                known: tls.known,
                acceptor: tls.acceptor,
            },
            token: parts.token,
            acme,
            checked,
            countries,
            threads,
            tasks: Tasks {
                _canaries: canaries,
                ready: Some((ready, tls.watch)),
                ..Tasks::default()
            },
        })
    }

    /// Starts the tasks of the current generation.
    pub(super) fn take_over(&mut self, process_state: &ProcessState) {
        self.forward_purges(process_state);
        self.tasks.health_checks = health::start(&self.checked);
        self.tasks.reach = reach::start(&self.checked);
        self.tasks.countries = countries::watch(self.countries.as_ref());
        let folder = self.config.cache.disk.as_ref();
        let folder = folder.map(|disk| disk.path.as_path());
        self.tasks.audits = audit::start(&self.sites, &self.services, folder);
        self.tasks.schedules = cron::start(&self.sites, process_state.clock);
        // After the listeners, because the authority connects to them. Nothing waits for a certificate.
        if let Some((acme, watch)) = self.tasks.ready.take() {
            self.tasks.certificates = tls::check_regularly(watch, process_state.clock);
            self.tasks.keepers = acme.map(AcmeReady::start);
        }
    }

    /// Sets the caches that get the purges of the sites.
    fn forward_purges(&self, process_state: &ProcessState) {
        let sites = forwarding(&self.config, &self.sites);
        if let Err(cause) = process_state.forwarder.configure(sites) {
            tracing::error!(%cause, "purges cannot be forwarded: no thread can be started");
        }
    }

    /// Ends the tasks of the current generation.
    pub(super) fn hand_over(&mut self) {
        self.tasks = Tasks::default();
    }

    /// The automatic certificates.
    pub(super) fn acme(&self) -> Option<&Acme> {
        self.acme.as_deref()
    }

    /// The counters of the front threads.
    pub(super) fn counters(&self) -> &[CounterReader] {
        &self.threads.counters
    }

    /// Stops accepting, because another process accepts. Returns when the last exchange has ended, or when `drain_timeout` has
    /// expired. A signal to stop cuts the drain short.
    pub(super) async fn drained(&mut self, signals: &mut Signals) {
        self.threads.retire().await;
        let drain = tokio::time::sleep(self.threads.drain);
        let threads = &self.threads;
        tokio::select! {
            () = threads.all_ended() => return,
            () = drain => {}
            () = signals.stop() => {}
        }
        threads.phase.send_replace(Phase::Stopping);
        // Time for the remaining threads to end: `GenerationThreads::ended` allows no more.
        let _ = tokio::time::timeout(DRAIN_SLACK, threads.all_ended()).await;
    }

    /// Drops everything except the threads, which end as soon as nothing else uses their data.
    pub(super) fn into_threads(self) -> GenerationThreads {
        self.threads
    }
}

/// The sites with the caches that get their purges.
fn forwarding(config: &Config, sites: &[Arc<Site>]) -> Vec<ForwardingSite> {
    let sites = config.sites.iter().zip(sites);
    let sites = sites.map(|(config, site)| ForwardingSite {
        purges: Arc::clone(&site.core.purges),
        targets: targets(config),
    });
    sites.collect()
}

/// The caches that get the purges of a site.
fn targets(site: &SiteConfig) -> Vec<ForwardTarget> {
    let hosts = site.hosts.iter().filter_map(HostPattern::exact);
    let hosts: Vec<String> = hosts.map(str::to_owned).collect();
    let has_other_hosts = hosts.len() < site.hosts.len();
    let targets = site.purge_forward.iter().map(|one| ForwardTarget {
        cache: one.clone(),
        hosts: hosts.clone(),
        has_other_hosts,
    });
    targets.collect()
}

impl GenerationThreads {
    fn new(drain: Duration) -> Self {
        Self {
            phase: watch::channel(Phase::Running).0,
            accepting: Vec::new(),
            fronts: Vec::new(),
            fetchers: Vec::new(),
            counters: Vec::new(),
            drain,
        }
    }

    fn add_counters(&mut self, rows: usize) -> counters::CoreCounters {
        let (writer, reader) = counters::counters(rows);
        self.counters.push(reader);
        writer
    }

    fn add_accepting(&mut self) -> oneshot::Sender<()> {
        let (accepting, ended) = oneshot::channel();
        self.accepting.push(ended);
        accepting
    }

    /// A handle that can change the phase of the threads while they drain.
    pub(super) fn phase(&self) -> watch::Sender<Phase> {
        self.phase.clone()
    }

    /// Makes the threads stop accepting, and returns when they have stopped.
    pub(super) async fn retire(&mut self) {
        self.phase.send_replace(Phase::Retiring);
        let ends = async {
            for accepting in self.accepting.drain(..) {
                // Nothing is ever sent: the channel closes.
                let _ = accepting.await;
            }
        };
        if tokio::time::timeout(MAX_ACCEPT, ends).await.is_err() {
            tracing::warn!("a front thread of the previous configuration has not ended yet");
        }
    }

    /// Returns when no front thread runs.
    async fn all_ended(&self) {
        while !self.fronts.iter().all(JoinHandle::is_finished) {
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }

    /// Waits for exchanges in progress, then for the threads. When the server stops, waits only a little longer than the drain
    /// allows. `between` is called when the front threads have ended.
    pub(super) async fn ended(self, between: impl FnOnce()) {
        let (phase, fronts, fetchers) = (self.phase, self.fronts, self.fetchers);
        let drain = self.drain;
        let mut stopping = phase.subscribe();
        let over = async {
            // This function owns the sender, so that the wait cannot fail.
            let _ = stopping.wait_for(|phase| *phase == Phase::Stopping).await;
            tokio::time::sleep(drain + DRAIN_SLACK).await;
        };
        let threads = async {
            join(fronts).await;
            between();
            join(fetchers).await;
        };
        tokio::select! {
            () = threads => {}
            () = over => {
                tracing::warn!("stopped with requests in progress: `drain_timeout` has expired");
            }
        }
        drop(phase);
    }
}

/// A generation that has stopped accepting, with the pools and logs that end after it.
pub(super) struct RetiredGeneration {
    pub(super) threads: GenerationThreads,
    pub(super) pools: Vec<RunningPool>,
    pub(super) logs: Vec<AccessLog>,
}

impl RetiredGeneration {
    /// Returns when everything has ended.
    pub(super) async fn ended(self) {
        self.threads.ended(|| ()).await;
        stop_pools(self.pools).await;
        for log in self.logs {
            let closed = tokio::task::spawn_blocking(move || log.close()).await;
            if closed.is_err() {
                tracing::error!("closing an access log ended in a panic");
            }
        }
    }
}

async fn join(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        if !matches!(
            tokio::task::spawn_blocking(move || thread.join()).await,
            Ok(Ok(()))
        ) {
            tracing::error!("a thread ended in a panic");
        }
    }
}

/// The interval between two checks whether threads have ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The time for ending threads after the drain.
const DRAIN_SLACK: Duration = Duration::from_secs(2);

/// The time limit for a front thread to stop accepting.
const MAX_ACCEPT: Duration = Duration::from_secs(2);
