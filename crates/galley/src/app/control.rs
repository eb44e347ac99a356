//! The control thread while the server runs: owns the state that outlives generations, and changes from one generation to the next.
//!
//! A reload has two steps. [`ControlThread::prepare`] reads the configuration and does everything that may fail; if it fails,
//! nothing has changed. [`ControlThread::switch`] starts the next generation on the same sockets and retires the current one.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use galley_cluster::RunningCluster;
use galley_config::{Config, ConfigSource};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::connections::ConnectionShare;
use super::current::CurrentConfiguration;
use super::generation::{Generation, GenerationParts, RetiredGeneration};
use super::listeners::{HeldListeners, NewListeners};
use super::logs::{AccessLogs, LogChange};
use super::maintenance::MaintenanceThread;
use super::object_cache::ObjectCaches;
use super::php::{Php, PhpChange, RunningPool};
use super::preflight::{RunningGalley, preflight};
use super::process_state::ProcessState;
use super::retired::RetiredGenerations;
use super::signals::{SignalEvent, Signals};
use super::successor::{Program, Successor};
use super::tls::{self, Tls};
use super::watch::ConfigWatch;
use super::{ServerStartError, build, differences, php, sweep};
use galley_admin::{
    self, AdminSpec, AdminThread, ControlRequest, LastReload, ReloadAction, ReloadError,
    ReloadReport, ReloadResult,
};
use galley_purging::Durable;
use galley_server::Phase;
use galley_telemetry::access::AccessLog;
use galley_telemetry::counters::CounterReader;
use galley_telemetry::errors::{ErrorLog, ErrorTargets, OpenTargets};

/// The state of the control thread.
pub(super) struct ControlThread {
    pub(super) source: ConfigSource,
    pub(super) process_state: ProcessState,
    pub(super) held: HeldListeners,
    pub(super) logs: AccessLogs,
    pub(super) error_log: ErrorLog,
    pub(super) php: Php,
    pub(super) generation: Generation,
    pub(super) current: Arc<CurrentConfiguration>,
    pub(super) admin: AdminThread,
    pub(super) requests: (mpsc::Sender<ControlRequest>, mpsc::Receiver<ControlRequest>),
    pub(super) last_reload: Arc<LastReload>,
    pub(super) retired: RetiredGenerations,
    pub(super) maintenance: MaintenanceThread,
    pub(super) object_caches: ObjectCaches,
    /// The threads that read the purges of other nodes; they end when this is dropped.
    pub(super) node: Option<RunningCluster>,
    pub(super) watch: Option<ConfigWatch>,
    /// The program that an upgrade starts.
    pub(super) program: Program,
    /// The folders of the PHP-FPMs that another process takes over.
    pub(super) left_pools: Vec<PathBuf>,
    /// The task that serves the previous process. Ends when that process has ended.
    pub(super) predecessor: Option<JoinHandle<()>>,
}

/// The reason why [`ControlThread::run`] has returned.
pub(super) enum RunEnd {
    /// The server must end.
    Stopped,
    /// Another process has taken over.
    Replaced(Box<Successor>),
}

enum ControlEvent {
    Signal(SignalEvent),
    Request(ControlRequest),
    ConfigChanged,
}

/// The parts of another configuration whose preparation may fail.
struct Prepared {
    config: Config,
    report: ReloadReport,
    listeners: NewListeners,
    tls: Tls,
    logs: LogChange,
    /// The targets of the error logs, if they have changed.
    errors: Option<OpenTargets>,
    php: PhpChange,
    watch: Option<ConfigWatch>,
}

impl ControlThread {
    /// Runs until the server must end or another process has taken over.
    pub(super) async fn run(&mut self, signals: &mut Signals) -> RunEnd {
        let sweeping = sweep::run(Arc::clone(&self.current));
        tokio::pin!(sweeping);
        loop {
            let event = tokio::select! {
                event = signals.next() => ControlEvent::Signal(event),
                Some(request) = self.requests.1.recv() => ControlEvent::Request(request),
                () = changed(&mut self.watch) => ControlEvent::ConfigChanged,
                Some(ended) = self.retired.ending.join_next() => {
                    if let Ok(number) = ended {
                        self.retired.forget(number);
                        self.show();
                    }
                    continue;
                }
                () = &mut sweeping => return RunEnd::Stopped,
            };
            if let ControlFlow::Break(end) = self.handle(event, signals).await {
                return end;
            }
        }
    }

    async fn handle(&mut self, event: ControlEvent, signals: &mut Signals) -> ControlFlow<RunEnd> {
        let request = match event {
            ControlEvent::Signal(SignalEvent::Stop) => return ControlFlow::Break(RunEnd::Stopped),
            ControlEvent::Signal(SignalEvent::ReopenLogs) => {
                self.reopen_logs();
                return ControlFlow::Continue(());
            }
            ControlEvent::Signal(SignalEvent::Upgrade) => return self.upgrade(None, signals).await,
            ControlEvent::Signal(SignalEvent::Reload) => None,
            ControlEvent::ConfigChanged => {
                tracing::info!("reload: a configuration file has changed");
                None
            }
            ControlEvent::Request(ControlRequest::Upgrade(reply)) => {
                return self.upgrade(Some(reply), signals).await;
            }
            ControlEvent::Request(ControlRequest::Reload(request)) => Some(request),
        };
        let action = request
            .as_ref()
            .map_or(ReloadAction::Apply, |request| request.action);
        let Some(result) = self.reload(action, signals).await else {
            return ControlFlow::Break(RunEnd::Stopped);
        };
        if let Some(request) = request {
            // The requester may no longer wait.
            let _ = request.reply.send(result);
        }
        ControlFlow::Continue(())
    }

    fn reopen_logs(&self) {
        self.logs.reopen();
        self.error_log.reopen();
    }

    /// Reads the configuration again; `None` if the server must end instead.
    async fn reload(
        &mut self,
        action: ReloadAction,
        signals: &mut Signals,
    ) -> Option<ReloadResult> {
        let result = match action {
            ReloadAction::Compare => self.read().map(|(_, report)| report),
            ReloadAction::Apply => {
                let prepared = tokio::select! {
                    prepared = self.prepare() => prepared,
                    () = signals.stop() => return None,
                };
                let result = match prepared {
                    Ok(prepared) => self.switch(prepared).await,
                    Err(error) => Err(error),
                };
                self.last_reload
                    .note(self.process_state.clock.wall(), &result);
                log_result(&result);
                result
            }
        };
        Some(result)
    }

    /// Reads the configuration, and compares it with the current one.
    fn read(&self) -> Result<(Config, ReloadReport), ReloadError> {
        let certificates = self.generation.tls.known.iter();
        let certificates: Vec<_> = certificates.flat_map(|(files, _)| files.clone()).collect();
        let read = self.source.load(&certificates);
        let mut config = read.map_err(|wrong| ReloadError::Invalid(wrong.to_string()))?;
        let running = &self.generation.config;
        let options = differences::options(running, &config);
        let restart = config.keep_fixed(running);
        let changes = differences::changes(running, &config);
        let is_same = changes.is_empty() && restart.is_empty();
        let report = ReloadReport {
            // Without other changes, the values are only written in another way.
            options: if is_same { Vec::new() } else { options },
            changes,
            restart,
            warnings: config.warnings.iter().map(ToString::to_string).collect(),
            files: config
                .files
                .iter()
                .map(|file| file.display().to_string())
                .collect(),
        };
        Ok((config, report))
    }

    async fn prepare(&mut self) -> Result<Prepared, ReloadError> {
        let (config, mut report) = self.read()?;
        // Before everything else, so that a later change of the files is detected as another change.
        let watch = ConfigWatch::new(&config);
        self.check(&config).await?;
        let failed = |error: ServerStartError| failed(&config, &error);
        let listeners = self.held.bind(&config).map_err(failed)?;
        let tls = tls::open(&config, &self.generation.tls).map_err(failed)?;
        tls.forget_readable();
        let logs = self.logs.prepare(&config).map_err(failed)?;
        let errors = self.error_targets(&config).map_err(failed)?;
        let php = self.php.prepare(&config).await.map_err(failed)?;
        report.add_restart("PHP settings", &php.restart);
        report.add_restart("the certificate files", &tls.out_of_reach);
        Ok(Prepared {
            config,
            report,
            listeners,
            tls,
            logs,
            errors,
            php,
            watch,
        })
    }

    /// Checks whether the machine meets the requirements of a configuration.
    async fn check(&self, config: &Config) -> Result<(), ReloadError> {
        let urls = self.generation.reached.iter().map(|(url, _)| url.clone());
        let running = RunningGalley::At(urls.collect());
        // On a helper thread: the check reads the disk and queries the engine of a cluster.
        let tried = config.clone();
        let refusals = tokio::task::spawn_blocking(move || preflight(&tried, &running).all()).await;
        let refusals = refusals.map_err(|error| ReloadError::Failed(error.to_string()))?;
        if refusals.is_empty() {
            return Ok(());
        }
        Err(ReloadError::Failed(
            config.diagnostics(&refusals).to_string(),
        ))
    }

    /// Opens the error logs of another configuration, if they have changed.
    fn error_targets(&self, config: &Config) -> Result<Option<OpenTargets>, ServerStartError> {
        let targets = ErrorTargets::of(config);
        if targets == ErrorTargets::of(&self.generation.config) {
            return Ok(None);
        }
        Ok(Some(OpenTargets::open(&targets)?))
    }

    /// Applies another configuration.
    async fn switch(&mut self, prepared: Prepared) -> ReloadResult {
        let Prepared {
            config,
            report,
            listeners,
            tls,
            logs,
            errors,
            mut php,
            watch,
        } = prepared;
        let shown = config.clone();
        let next = match self.next_generation(config, listeners, tls, &logs, &php) {
            Ok(next) => next,
            Err(error) => {
                php.abandon().await;
                return Err(failed(&shown, &error));
            }
        };
        let pools = self.php.replace(php);
        let logs = self.logs.replace(logs);
        self.watch = watch;
        self.error_log.replace(errors, next.config.log.level);
        self.held.keep(&next.config, &self.generation.removals);
        self.replace_generation(next, pools, logs).await;
        Ok(report)
    }

    /// Makes a generation the current one, and retires the previous one with the pools and logs that end after it.
    pub(super) async fn replace_generation(
        &mut self,
        next: Generation,
        pools: Vec<RunningPool>,
        logs: Vec<AccessLog>,
    ) {
        let mut before = std::mem::replace(&mut self.generation, next);
        let now = &mut self.generation;
        self.current.replace(&now.services, &now.sites);
        self.object_caches.configure(&now.config, &now.sites);
        before.hand_over();
        now.take_over(&self.process_state);
        let mut threads = before.into_threads();
        let phase = threads.phase();
        let counters = threads.counters.clone();
        threads.retire().await;
        let retired = RetiredGeneration {
            threads,
            pools,
            logs,
        };
        self.retired.add(retired, phase, counters);
        self.show();
    }

    fn next_generation(
        &mut self,
        config: Config,
        listeners: NewListeners,
        tls: Tls,
        logs: &LogChange,
        php: &PhpChange,
    ) -> Result<Generation, ServerStartError> {
        let token = build::token(config.admin.token_file.as_ref())?;
        let added = self.held.add(listeners)?;
        let share = ConnectionShare::new(&config, galley_sys::raise_descriptor_limit());
        let same_directory = self.generation.config.acme == config.acme;
        let logs = logs.all();
        let parts = GenerationParts {
            config,
            php: &php.sites,
            tls,
            logs: &logs,
            token,
            connections: share.connections,
            acme: self.generation.acme().filter(|_| same_directory),
        };
        let started = Generation::start(parts, &mut self.process_state, &self.held);
        if started.is_err() {
            self.held.forget(&added);
        }
        started
    }

    /// Passes the current configuration to the admin interface.
    fn show(&self) {
        let spec = admin_spec(
            &self.generation,
            &self.logs,
            self.retired.counters(&self.generation),
            &self.requests.0,
            &self.last_reload,
            &self.object_caches,
        );
        self.admin.replace(spec);
    }

    /// Ends everything that the other process does not continue.
    pub(super) async fn end_replaced(mut self) {
        self.held.keep_files();
        self.php.leave(&self.left_pools).await;
        self.end().await;
    }

    /// Ends everything after the exchanges in progress.
    pub(super) async fn end(self) {
        let Self {
            mut generation,
            mut retired,
            admin,
            php,
            logs,
            mut process_state,
            maintenance,
            node,
            held,
            mut object_caches,
            ..
        } = self;
        object_caches.end();
        generation.hand_over();
        let threads = generation.into_threads();
        let phase = threads.phase();
        let files = held.close();
        retired.stop();
        phase.send_replace(Phase::Stopping);
        let ended = threads.ended(|| admin.end());
        let all_retired = async { while retired.ending.join_next().await.is_some() {} };
        tokio::join!(ended, all_retired);
        drop(files);
        if let Some(node) = node {
            // Sends the purges that wait for the engine, or writes them to the disk.
            let _ = tokio::task::spawn_blocking(|| node.leave()).await;
        }
        close(maintenance, process_state.durable.clone(), php::stop(php)).await;
        process_state.tracing.close();
        logs.close();
    }
}

/// The parts of a generation that the admin interface shows.
pub(super) fn admin_spec(
    generation: &Generation,
    logs: &AccessLogs,
    counters: Vec<CounterReader>,
    control: &mpsc::Sender<ControlRequest>,
    last_reload: &Arc<LastReload>,
    object_caches: &ObjectCaches,
) -> AdminSpec {
    AdminSpec {
        config: Arc::clone(&generation.config),
        listen: generation.config.admin.listen.clone(),
        token: generation.token.clone(),
        sites: Arc::clone(&generation.sites),
        services: Arc::clone(&generation.services),
        counters,
        fetch_threads: generation.fetch_threads.clone(),
        logs: logs.all(),
        control: control.clone(),
        last_reload: Arc::clone(last_reload),
        listeners: generation.reached.clone(),
        object_caches: object_caches.figures(),
    }
}

/// Waits like [`ConfigWatch::changed`]; never returns if nothing is watched.
async fn changed(watch: &mut Option<ConfigWatch>) {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}

/// An error of the machine, as a diagnostic about the responsible option if an option is responsible.
fn failed(config: &Config, error: &ServerStartError) -> ReloadError {
    let finding = error.finding(config);
    ReloadError::Failed(finding.map_or_else(
        || error.to_string(),
        |finding| config.diagnostics(&[finding]).to_string(),
    ))
}

fn log_result(result: &ReloadResult) {
    match result {
        Ok(report) => {
            for warning in &report.warnings {
                tracing::warn!("{warning}");
            }
            if report.changes.is_empty() {
                tracing::info!("reload: the configuration has not changed");
            }
            for change in &report.changes {
                tracing::info!("reload: {change}");
            }
            if !report.restart.is_empty() {
                let restart = report.restart.join(", ");
                tracing::warn!("reload: these changes need a restart: {restart}");
            }
        }
        Err(ReloadError::Invalid(why) | ReloadError::Failed(why)) => {
            tracing::error!("reload: the old configuration remains in use");
            for line in why.lines().filter(|line| !line.is_empty()) {
                tracing::error!("reload: {line}");
            }
        }
    }
}

/// Closes the disk cache while PHP ends.
async fn close(
    maintenance: MaintenanceThread,
    durable: Durable,
    php_ends: impl Future<Output = ()>,
) {
    let closing = tokio::task::spawn_blocking(move || {
        maintenance.stop();
        durable.close(DISK_TIMEOUT);
    });
    php_ends.await;
    let in_time = tokio::time::timeout(DISK_TIMEOUT * 2, closing).await;
    if in_time.is_err() {
        tracing::warn!("stopped while the disk cache was busy; the next start scans it");
    }
}

/// The time limit for pending writes to the disk when the server ends.
const DISK_TIMEOUT: Duration = Duration::from_secs(5);
