//! The running server: builds its parts, wires them, watches signals, drains.
//!
//! The control thread (this one) owns what outlives a request: managed PHP, the log's threads, the admin thread, the front and
//! fetch thread threads. It answers nothing itself, so no load can keep it from ending the process.

mod acme;
mod build;
mod canary;
mod cluster;
mod confine;
mod cron;
mod durable;
mod listeners;
mod logs;
mod php;
mod preflight;
mod refusal;
mod signals;
mod spools;
mod sweep;
mod tls;
mod upkeep;

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use galley_config::Config;
use tokio::sync::watch;

pub use self::acme::files as kept_certificates;
pub use self::php::sites_apart;
pub use self::preflight::{Foretold, RunningGalley, preflight};
pub use self::refusal::{ServerStartError, of_php};
use crate::acme::AcmeReady;
use crate::admin;
use crate::clock::Clock;
use crate::durable::Durable;
use crate::fetch;
use crate::server;
use crate::sys;
use crate::sys::sockets::SocketFile;
use crate::telemetry::access::AccessLog;
use crate::telemetry::errors;
use crate::tls::Acceptor;
use build::Built;
use listeners::Doors;
use logs::Logs;
use upkeep::Upkeep;

/// Runs the server until it is told to end. `tell` gets one line per listener, for people and scripts.
pub fn run(config: &Config, tell: &dyn Fn(&str)) -> Result<(), ServerStartError> {
    if galley_config::memory(Path::new("/")).is_some_and(|bytes| bytes <= SMALL_MACHINE) {
        sys::use_small_pages();
    }
    let clock = Clock::start();
    let share = ConnectionShare::new(config, sys::raise_descriptor_limit());
    let doors = Doors::bind(config, share.cores)?;
    // Their keys are root's alone, as a rule.
    let tls = tls::open(config)?;
    confine::make_folders(config)?;
    let apart = php::apart(config)?;
    confine::give_up_root(config, &doors)?;
    let error_log = errors::start(&config.log.error, config.log.level).map_err(|cause| {
        ServerStartError::Log {
            target: config.log.error.clone(),
            cause,
        }
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(async {
        let signals = signals::Signals::new()?;
        let logs = Logs::open(config)?;
        let php = php::start(config, apart).await?;
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        tls.tell_what_is_out_of_reach();
        let acme = acme::open(config, &tls.certificates, clock)?;
        let shown = (Arc::clone(&tls.certificates), acme.as_ref());
        let node = cluster::Node::prepare(config)?;
        let built = build::build(config, &php, shown, node.publisher(), clock)?;
        let node = node.start(config, &built.sites, clock)?;
        let (stop, stopped) = watch::channel(false);
        let durable = built.services.durable.clone();
        let upkeep = upkeep::start(durable.clone(), &built.sites)?;
        let canaries = canary::start(config, &built.sites)?;
        let schedules = cron::start(&built.sites, clock);
        let running = RunningServer::start(
            config,
            &built,
            &logs,
            (&stopped, tls.acceptor.as_ref()),
            (share, doors),
        )?;
        let certificates = tls::look_after(tls, clock);
        for url in &running.urls {
            tell(&format!("listening on {url}"));
        }
        if let Some(address) = running.admin.address() {
            tell(&format!("admin on {address}"));
        }
        // The authority asks the listeners, so they come first; who waits for a certificate holds nobody up.
        let keepers = acme.map(AcmeReady::start);
        tell("ready");
        let reopen = || {
            logs.reopen();
            error_log.reopen();
        };
        tokio::select! {
            () = signals.until_stop(reopen) => {}
            () = sweep::run(Arc::clone(&built.services), &built.sites) => {}
        }
        tracing::info!("draining");
        let _ = stop.send(true);
        drop((certificates, canaries, schedules, keepers, built));
        running.end(config.server.drain_timeout).await;
        drop(node);
        let disk = (upkeep, durable);
        close(disk, php::stop(php)).await;
        logs.close();
        Ok(())
    });
    // Threads that are still waited for must not hold the end up: the drain is over.
    runtime.shutdown_background();
    result
}

/// Closes the disk cache while PHP ends.
async fn close((upkeep, durable): (Upkeep, Durable), php_ends: impl Future<Output = ()>) {
    let closing = tokio::task::spawn_blocking(move || {
        upkeep.stop();
        durable.close(DISK_PATIENCE);
    });
    php_ends.await;
    let in_time = tokio::time::timeout(DISK_PATIENCE * 2, closing).await;
    if in_time.is_err() {
        tracing::warn!("ended while the disk cache was busy; the next start counts it");
    }
}

/// Connections per core, from the configuration or from the descriptors there are.
struct ConnectionShare {
    cores: usize,
    connections: usize,
}

impl ConnectionShare {
    fn new(config: &Config, descriptors: u64) -> Self {
        let cores = match config.server.workers {
            0 => sys::cores(),
            workers => workers,
        };
        let all = match config.server.max_connections {
            0 => connections_within(usize::try_from(descriptors).unwrap_or(usize::MAX)),
            connections => connections,
        };
        Self {
            cores,
            connections: (all / cores).max(1),
        }
    }
}

/// How many connections so many descriptors are enough for: each takes one for itself and, while it is answered, one for
/// its file or for PHP.
fn connections_within(descriptors: usize) -> usize {
    (descriptors - RESERVED_DESCRIPTORS.min(descriptors / 2)) / 2
}

struct RunningServer {
    /// Where each listener is reached.
    urls: Vec<String>,
    /// Sockets in the file system, which leave with this.
    files: Vec<SocketFile>,
    fronts: Vec<JoinHandle<()>>,
    admin: admin::AdminThread,
    fetch_threads: Vec<JoinHandle<()>>,
}

impl RunningServer {
    fn start(
        config: &Config,
        built: &Built,
        logs: &Logs,
        (stop, tls): (&watch::Receiver<bool>, Option<&Acceptor>),
        (share, doors): (ConnectionShare, Doors),
    ) -> Result<Self, ServerStartError> {
        let open = doors.open(config, &built.sites, tls, share.cores)?;
        let mut fronts = Vec::with_capacity(share.cores);
        let mut counters = Vec::with_capacity(share.cores);
        for (index, listeners) in open.per_core.into_iter().enumerate() {
            let (writer, reader) = crate::telemetry::counters::counters(built.sites.len());
            counters.push(reader);
            fronts.push(server::start(server::CoreSpec {
                index,
                listeners,
                limits: build::front_limits(config, share.connections),
                services: Arc::clone(&built.services),
                logs: logs.all.iter().map(AccessLog::writer).collect(),
                counters: writer,
                id_prefix: build::id_prefix(),
                stop: stop.clone(),
                sandbox: built.sandbox.clone(),
            })?);
        }
        let urls = open.reached.iter().map(|(url, _)| url.clone()).collect();
        let admin = admin::start(admin::AdminSpec {
            listen: config.admin.listen.clone(),
            token: build::token(config.admin.token_file.as_ref())?,
            sites: Arc::clone(&built.sites),
            services: Arc::clone(&built.services),
            counters,
            fetch_threads: built.fetch_threads.clone(),
            logs: logs.all.clone(),
            listeners: open.reached,
        })
        .map_err(|cause| ServerStartError::Admin {
            address: config.admin.listen.to_string(),
            cause,
        })?;
        let fetch_threads = built.take_threads();
        Ok(Self {
            urls,
            files: open.files,
            fronts,
            admin,
            fetch_threads,
        })
    }

    /// Waits for exchanges under way, then for the threads; never longer than the drain allows and a little.
    async fn end(self, drain: Duration) {
        let Self {
            fronts,
            admin,
            fetch_threads,
            files,
            ..
        } = self;
        let all = async move {
            join(fronts).await;
            admin.end();
            join(fetch_threads).await;
        };
        if tokio::time::timeout(drain + DRAIN_SLACK, all)
            .await
            .is_err()
        {
            tracing::warn!("ended with exchanges still under way: `drain_timeout` was over");
        }
        drop(files);
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

/// Handles to the fetch threads, for `status`.
pub type FetchThreads = Vec<fetch::Handle>;

/// Descriptors that are not for clients: files, upstreams, logs.
const RESERVED_DESCRIPTORS: usize = 256;

/// Bytes of memory up to which it goes before speed.
const SMALL_MACHINE: u64 = 1 << 30;

/// How long what is waiting for the disk may take at the end.
const DISK_PATIENCE: Duration = Duration::from_secs(5);

/// What ending may take beyond the drain itself.
const DRAIN_SLACK: Duration = Duration::from_secs(2);
