//! The public handle of a PHP-FPM, or of another program, that runs from [`Managed::start`] to [`Managed::stop`] and is restarted
//! whenever it dies.
//!
//! One task owns the master and its files, watches the master and restarts it. The task ends on [`Managed::stop`], or when
//! [`Managed`] is dropped. If the runtime shuts down first, dropping the master kills its processes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::backoff::Backoff;
use super::handover::{CurrentMaster, ManagedEnd, ManagedOffer, Ownership, PoolFolder};
use super::master::{Master, MasterLauncher, MasterPlan};
use super::master_state::MasterState;
use super::numbers::{PoolNumbers, count};
use super::prepare::{self, Prepared, prepare};
use super::privileged::{KeeperChannel, PrivilegedPool, PrivilegedPoolOffer, SplitItem};
use super::program;
use super::watch::PoolWatch;
use super::{PhpSettings, PhpStartError, modules};

/// A PHP-FPM or another FastCGI program that Galley runs.
#[derive(Debug)]
pub struct Managed {
    socket: PathBuf,
    most: usize,
    numbers: Arc<PoolNumbers>,
    state: watch::Receiver<MasterState>,
    stop: oneshot::Sender<ManagedEnd>,
    task: JoinHandle<()>,
    current: Arc<CurrentMaster>,
    /// The offer for another process, if the privileged process has started the program.
    privileged: Option<PrivilegedPoolOffer>,
}

impl Managed {
    /// Writes the pool's configuration, starts PHP-FPM or the program, and returns when its socket accepts. If it dies later,
    /// this is logged and it is restarted. If the future is dropped, no process or file remains. Must be called within a tokio
    /// runtime that lives as long.
    pub async fn start(settings: PhpSettings) -> Result<Managed, PhpStartError> {
        if !settings.command.is_empty() {
            return program::start(settings).await.map(Self::of_program);
        }
        Self::run(prepare(settings)?).await
    }

    /// Like [`Managed::start`] for a pool that was prepared before Galley gave up root, using the privileged process.
    pub async fn start_privileged(
        kept: PrivilegedPool,
        line: &KeeperChannel,
    ) -> Result<Managed, PhpStartError> {
        let privileged = PrivilegedPoolOffer::of(&kept);
        let (pool, line) = (kept.pool, line.clone());
        let managed = match kept.what {
            SplitItem::Fpm { parts, socket_path } => {
                Self::run(prepare::privileged(*parts, line, pool, socket_path)?).await
            }
            SplitItem::Program(program) => program::start_privileged(program, line, pool)
                .await
                .map(Self::of_program),
        };
        Ok(Managed {
            privileged,
            ..managed?
        })
    }

    /// Takes over a program that another process has started with the same settings. Must be called within a tokio runtime that
    /// lives as long.
    pub fn adopt(settings: PhpSettings, offer: ManagedOffer) -> Result<Managed, PhpStartError> {
        let prepared =
            prepare::in_folder(settings, PoolFolder::new(offer.folder, offer.ownership))?;
        let master = Master::adopt(&prepared.plan, offer.handles).map_err(|source| {
            PhpStartError::Spawn {
                program: prepared.plan.binary.clone(),
                source,
            }
        })?;
        Ok(Self::supervised(prepared, master))
    }

    async fn run(prepared: Prepared) -> Result<Managed, PhpStartError> {
        let plan = &prepared.plan;
        let (master, lacks) = tokio::join!(Master::start(plan), modules::lacks(Some(&plan.binary)));
        let master = master?;
        // PHP-FPM runs, so that a failed check cannot be serious.
        for lack in lacks.unwrap_or_default() {
            tracing::warn!(site = plan.site, "{lack}");
        }
        Ok(Self::supervised(prepared, master))
    }

    fn supervised(prepared: Prepared, master: Master) -> Managed {
        let Prepared { plan, watch, most } = prepared;
        let numbers = Arc::clone(&plan.numbers);
        tracing::info!(
            site = plan.site,
            pid = master.pid(),
            program = %plan.binary.display(),
            places = numbers.slots().load(std::sync::atomic::Ordering::Relaxed),
            share_mib = watch.budget.share >> 20,
            opcache_mib = watch.budget.opcache >> 20,
            memory_limit_mib = watch.memory_limit >> 20,
            "php-fpm is running"
        );
        let socket = plan.socket.clone();
        let (state_tx, state) = watch::channel(MasterState::Running {
            master: master.pid(),
        });
        let (stop, stopped) = oneshot::channel();
        let line = match &plan.launcher {
            MasterLauncher::Own(_) => None,
            MasterLauncher::Kept { line, pool, .. } => Some((line.clone(), *pool)),
        };
        let watch = PoolWatch::new(watch, Arc::clone(&numbers), line);
        let current = Arc::clone(&plan.current);
        let task = tokio::spawn(supervise(plan, master, watch, state_tx, stopped));
        Managed {
            socket,
            most,
            numbers,
            state,
            stop,
            task,
            current,
            privileged: None,
        }
    }

    fn of_program(running: program::RunningProgram) -> Self {
        Managed {
            socket: running.socket,
            most: running.workers,
            numbers: running.numbers,
            state: running.state,
            stop: running.stop,
            task: running.task,
            current: Arc::default(),
            privileged: None,
        }
    }

    /// The unix socket, which never changes. Connecting to it fails while the master is down.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The maximum number of worker processes. [`PoolNumbers::slots`] limits the number of concurrent requests.
    pub fn most_workers(&self) -> usize {
        self.most
    }

    /// The figures of the pool.
    pub fn numbers(&self) -> Arc<PoolNumbers> {
        Arc::clone(&self.numbers)
    }

    /// The state of the master, to read or to wait on.
    pub fn state(&self) -> watch::Receiver<MasterState> {
        self.state.clone()
    }

    /// Ends the program, and returns when all its processes and files are gone: immediately if no request is running, after 12 s
    /// at most. Close idle connections first, because a worker does not close an open one. If the future is dropped, the program
    /// still ends.
    pub async fn stop(self) {
        self.end(ManagedEnd::Stop).await;
    }

    /// The folder of the socket.
    pub fn folder(&self) -> Option<&Path> {
        match &self.privileged {
            Some(privileged) => Some(&privileged.folder),
            None => self.socket.parent(),
        }
    }

    /// The offer of a program that the privileged process has started, for another process; `None` for other programs, or if it
    /// cannot be handed over.
    pub fn privileged_offer(&self) -> Option<PrivilegedPoolOffer> {
        self.privileged.as_ref()?.copy()
    }

    /// The offer for another process; `None` if the program cannot be handed over or does not run.
    pub fn offer(&self) -> Option<ManagedOffer> {
        Some(ManagedOffer {
            folder: self.folder()?.to_owned(),
            handles: self.current.copy()?,
            ownership: Ownership::ours(),
        })
    }

    /// Leaves the program to another process, which has accepted the offer.
    pub async fn leave(self) {
        self.end(ManagedEnd::Leave).await;
    }

    async fn end(self, how: ManagedEnd) {
        // The task has ended already only if it panicked; then the master has been killed.
        let _ = self.stop.send(how);
        if let Err(error) = self.task.await {
            tracing::error!("supervising php-fpm failed: {error}");
        }
    }
}

/// Supervises the master until `stop` is sent or dropped.
async fn supervise(
    plan: MasterPlan,
    first: Master,
    mut watch: PoolWatch,
    state: watch::Sender<MasterState>,
    mut stop: oneshot::Receiver<ManagedEnd>,
) {
    let site = plan.site.clone();
    let mut backoff = Backoff::new();
    let mut master = first;
    loop {
        let since = Instant::now();
        let pid = master.pid();
        let status = tokio::select! {
            status = master.ended() => status,
            never = watch.run(pid) => match never {},
            how = &mut stop => {
                if how == Ok(ManagedEnd::Leave) {
                    master.leave();
                    return;
                }
                master.end().await;
                break;
            }
        };
        plan.current.set(None);
        count(&plan.numbers.restarts);
        watch.forget();
        state.send_replace(MasterState::Restarting);
        match status {
            Ok(status) => tracing::warn!(site, "php-fpm ended ({status}); restarting it"),
            Err(error) => tracing::warn!(
                site,
                "php-fpm ended with an unknown status ({error}); restarting it"
            ),
        }
        master.reap().await;
        // Stopping takes precedence over a start in progress, which cleans up when it is dropped.
        master = tokio::select! {
            master = again(&plan, &mut backoff, since.elapsed()) => master,
            _ = &mut stop => break,
        };
        tracing::info!(site, pid = master.pid(), "php-fpm is running again");
        state.send_replace(MasterState::Running {
            master: master.pid(),
        });
    }
    tracing::info!(site, "php-fpm has ended");
    // Removes the folder before the end is reported.
    drop(plan);
    state.send_replace(MasterState::Ended);
}

/// Starts a master, with growing pauses between the attempts.
async fn again(plan: &MasterPlan, backoff: &mut Backoff, mut lived: Duration) -> Master {
    loop {
        tokio::time::sleep(backoff.pause(lived)).await;
        match Master::start(plan).await {
            Ok(master) => return master,
            Err(error) => {
                let cause = std::error::Error::source(&error)
                    .map(|cause| format!(": {cause}"))
                    .unwrap_or_default();
                tracing::error!(site = plan.site, "cannot restart php-fpm: {error}{cause}");
            }
        }
        lived = Duration::ZERO;
    }
}
