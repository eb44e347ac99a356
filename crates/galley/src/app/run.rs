//! Runs the server: builds the parts, starts the first generation, and ends when the last one has drained.

use std::path::Path;
use std::sync::Arc;

use galley_config::{Config, ConfigSource};
use tokio::sync::mpsc;
use tokio::sync::oneshot;

use super::cluster::{self, Node};
use super::connections::ConnectionShare;
use super::control::{self, ControlThread, RunEnd};
use super::current::CurrentConfiguration;
use super::generation::{Generation, GenerationParts};
use super::listeners::{HeldListeners, NewListeners};
use super::logs::AccessLogs;
use super::object_cache::{ClusterObjects, ObjectCaches};
use super::other_users::{self, OtherUserPrograms};
use super::php::{self, Php};
use super::predecessor::{Handover, Inheritance, PredecessorState};
use super::process_state::ProcessState;
use super::refusal::ServerStartError;
use super::tls::{self, PreviousTls, Tls};
use super::{build, confine, maintenance, retired, service_manager, signals, successor, watch};
use crate::binary_upgrade::Predecessor;
use galley_admin::{AdminSpec, AdminThread, InheritedAdmin};
use galley_object_cache::ObjectHandover;
use galley_sys::clock::Clock;
use galley_telemetry::errors::{self, ErrorLog, ErrorTargets};

/// Runs the server until it is stopped. `source`: the source from which `config` is read again. `announce` is called with one
/// line per listener, for people and scripts.
///
/// `before`: the process that has started this one, to take over from it. `inheritance`: the parts that that process has
/// handed over.
pub fn run(
    config: &Config,
    source: ConfigSource,
    before: Option<&Predecessor>,
    mut inheritance: Inheritance,
    announce: &dyn Fn(&str),
) -> Result<(), ServerStartError> {
    if galley_config::memory(Path::new("/")).is_some_and(|bytes| bytes <= SMALL_MACHINE) {
        galley_sys::use_small_pages();
    }
    let clock = Clock::start();
    let share = ConnectionShare::new(config, galley_sys::raise_descriptor_limit());
    let mut held = HeldListeners::new(share.cores, cluster::quic_secret(config)?)?;
    let sockets = std::mem::take(&mut inheritance.sockets);
    held.inherit(sockets, inheritance.quic.take())?;
    let listeners = held.bind(config)?;
    // Before root is given up: usually only root can read the keys.
    let tls = tls::open(
        config,
        &PreviousTls::inherited(config, &inheritance.certificates),
    )?;
    confine::make_folders(config)?;
    let other_users = other_users::prepare(config, inheritance.keeper.take())?;
    confine::delegate_group(config);
    confine::drop_root(config, &listeners)?;
    let error_log = errors::start(&ErrorTargets::of(config), config.log.level)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(async {
        let mut signals = signals::Signals::new()?;
        let first = FirstParts {
            source,
            held,
            listeners,
            tls,
            other_users,
            error_log,
            connections: share.connections,
            before,
            inheritance,
        };
        let mut control = start(config.clone(), first, clock).await?;
        for (url, _) in &control.generation.reached {
            announce(&format!("listening on {url}"));
        }
        for address in &control.generation.quic {
            announce(&format!("HTTP/3 on {address}"));
        }
        if let Some(address) = control.admin.address() {
            announce(&format!("admin on {address}"));
        }
        control.generation.take_over(&control.process_state);
        announce("ready");
        // A process that takes over is announced by the previous one, the only one whose messages systemd accepts.
        if before.is_none() {
            service_manager::ready();
        }
        while let RunEnd::Replaced(successor) = control.run(&mut signals).await {
            if control
                .drain_for_successor(*successor, &mut signals)
                .await
                .is_break()
            {
                Box::pin(control.end_replaced()).await;
                return Ok(());
            }
        }
        tracing::info!("draining");
        control.end().await;
        Ok(())
    });
    // The drain is over, so the end does not wait for blocking threads.
    runtime.shutdown_background();
    result
}

/// The parts that are created before the runtime, while the process still has the rights to create them.
struct FirstParts<'b> {
    source: ConfigSource,
    held: HeldListeners,
    listeners: NewListeners,
    tls: Tls,
    other_users: Option<OtherUserPrograms>,
    error_log: ErrorLog,
    /// The maximum number of connections per core.
    connections: usize,
    before: Option<&'b Predecessor>,
    inheritance: Inheritance,
}

/// Starts the first generation and everything that outlives it.
async fn start(
    config: Config,
    first: FirstParts<'_>,
    clock: Clock,
) -> Result<ControlThread, ServerStartError> {
    let mut held = first.held;
    let logs = AccessLogs::open(&config)?;
    let inheritance = first.inheritance;
    let (php, pools) = php::start(&config, first.other_users, inheritance.pools).await?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    first.tls.forget_readable();
    first.tls.warn_of_unreadable();
    let node = Node::prepare(&config)?;
    held.add(first.listeners)?;
    let mut handover = match first.before {
        Some(before) => Some(Handover::begin(before, php.inherited()).await?),
        None => None,
    };
    let mut process_state = ProcessState::open(&config, php.keeper(), node.publisher(), clock)?;
    let inherited_pages = handover
        .as_mut()
        .map(|handover| handover.take_pages(&process_state));
    let parts = GenerationParts {
        token: build::token(config.admin.token_file.as_ref())?,
        config,
        php: &pools,
        tls: first.tls,
        logs: &logs.all(),
        connections: first.connections,
        acme: None,
    };
    let generation = Generation::start(parts, &mut process_state, &held)?;
    let inherited = handover.as_mut().map(Handover::inherited_node);
    let purges = process_state.states.purges();
    let inherited = inherited.unwrap_or_default();
    let objects = node.objects(clock);
    let nodes = objects.clone();
    let node = node.start(&generation.config, purges, nodes, clock, &inherited)?;
    let current = CurrentConfiguration::new(&generation.services, &generation.sites);
    let maintenance = maintenance::start(process_state.durable.clone(), Arc::clone(&current))?;
    let requests = mpsc::channel(MAX_REQUESTS);
    let last_reload = Arc::default();
    let (object_caches, to_objects) = start_objects(&generation, objects, first.before.is_none());
    let spec = control::admin_spec(
        &generation,
        &logs,
        generation.counters().to_vec(),
        &requests.0,
        &last_reload,
        &object_caches,
    );
    let admin = start_admin(spec, inheritance.admin, &generation)?;
    let predecessor = handover.zip(inherited_pages).map(|(handover, pages)| {
        tokio::spawn(handover.serve(pages, taken(&php, &process_state, to_objects)))
    });
    Ok(ControlThread {
        watch: watch::ConfigWatch::new(&generation.config),
        source: first.source,
        process_state,
        held,
        logs,
        error_log: first.error_log,
        php,
        generation,
        current,
        admin,
        requests,
        last_reload,
        program: successor::Program::this(),
        left_pools: Vec::new(),
        predecessor,
        retired: retired::RetiredGenerations::default(),
        maintenance,
        object_caches,
        node,
    })
}

/// Starts the object cache. Unless this process is the first one, it waits for that of the previous process.
fn start_objects(
    generation: &Generation,
    nodes: Option<Arc<ClusterObjects>>,
    is_first: bool,
) -> (ObjectCaches, oneshot::Sender<ObjectHandover>) {
    let (sender, arriving) = oneshot::channel();
    let mut object_caches = ObjectCaches::default();
    object_caches.join(nodes);
    object_caches.wait_for(Some(arriving).filter(|_| !is_first));
    object_caches.configure(&generation.config, &generation.sites);
    if is_first {
        object_caches.announce_start();
    }
    (object_caches, sender)
}

fn start_admin(
    spec: AdminSpec,
    inherited: Option<InheritedAdmin>,
    generation: &Generation,
) -> Result<AdminThread, ServerStartError> {
    galley_admin::start(spec, inherited).map_err(|cause| ServerStartError::Admin {
        address: generation.config.admin.listen.to_string(),
        cause,
    })
}

/// What this process shares with the previous one.
fn taken(
    php: &Php,
    process_state: &ProcessState,
    objects: oneshot::Sender<ObjectHandover>,
) -> PredecessorState {
    PredecessorState {
        folders: php.inherited_folders(),
        keeper: php.line().cloned(),
        relay: process_state.durable.relay().clone(),
        purges: process_state.states.purges(),
        objects,
    }
}

/// The amount of memory in bytes up to which saving memory is more important than speed.
const SMALL_MACHINE: u64 = 1 << 30;

/// The maximum number of requests to the control thread that may wait while a reload is in progress.
const MAX_REQUESTS: usize = 8;
