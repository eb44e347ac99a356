//! The public handle: a PHP-FPM, or another program, that runs from [`Managed::start`] to [`Managed::stop`], however often
//! it dies.
//!
//! One task owns the master and the files, watches it and starts it again. It ends on [`Managed::stop`], or when [`Managed`]
//! is dropped; if the runtime shuts down first, dropping the master kills its processes.

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

/// A PHP-FPM or another FastCGI program of our own.
#[derive(Debug)]
pub struct Managed {
    socket: PathBuf,
    most: usize,
    numbers: Arc<PoolNumbers>,
    life: watch::Receiver<MasterState>,
    stop: oneshot::Sender<ManagedEnd>,
    task: JoinHandle<()>,
    current: Arc<CurrentMaster>,
    /// If the privileged process has started it.
    privileged: Option<PrivilegedPoolOffer>,
}

impl Managed {
    /// Writes the pool's configuration, starts PHP-FPM or the program and returns when its socket accepts. Later deaths are
    /// logged and repaired automatically. Dropped midway, nothing is left. Call within a tokio runtime that lives as long.
    pub async fn start(settings: PhpSettings) -> Result<Managed, PhpStartError> {
        if !settings.command.is_empty() {
            return program::start(settings).await.map(Self::of_program);
        }
        Self::run(prepare(settings)?).await
    }

    /// The same for a pool that was prepared before root was given up, by way of the privileged process.
    pub async fn start_privileged(
        kept: PrivilegedPool,
        line: &KeeperChannel,
    ) -> Result<Managed, PhpStartError> {
        let privileged = PrivilegedPoolOffer::of(&kept);
        let (pool, line) = (kept.pool, line.clone());
        let managed = match kept.what {
            SplitItem::Fpm { pieces, door } => {
                Self::run(prepare::privileged(*pieces, line, pool, door)?).await
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

    /// Takes over a program that another process has started with the same settings. Call within a tokio runtime that lives as
    /// long.
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
        // It runs, so a missing report cannot be serious.
        for lack in lacks.unwrap_or_default() {
            tracing::warn!(site = plan.site, "{lack}");
        }
        Ok(Self::supervised(prepared, master))
    }

    fn supervised(prepared: Prepared, master: Master) -> Managed {
        let Prepared { plan, post, most } = prepared;
        let numbers = Arc::clone(&plan.numbers);
        tracing::info!(
            site = plan.site,
            pid = master.pid(),
            program = %plan.binary.display(),
            places = numbers.slots().load(std::sync::atomic::Ordering::Relaxed),
            share_mib = post.budget.share >> 20,
            opcache_mib = post.budget.opcache >> 20,
            memory_limit_mib = post.memory_limit >> 20,
            "php-fpm is running"
        );
        let socket = plan.socket.clone();
        let (life_tx, life) = watch::channel(MasterState::Running {
            master: master.pid(),
        });
        let (stop, stopped) = oneshot::channel();
        let line = match &plan.means {
            MasterLauncher::Own(_) => None,
            MasterLauncher::Kept { line, pool, .. } => Some((line.clone(), *pool)),
        };
        let watch = PoolWatch::new(post, Arc::clone(&numbers), line);
        let current = Arc::clone(&plan.current);
        let task = tokio::spawn(supervise(plan, master, watch, life_tx, stopped));
        Managed {
            socket,
            most,
            numbers,
            life,
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
            life: running.life,
            stop: running.stop,
            task: running.task,
            current: Arc::default(),
            privileged: None,
        }
    }

    /// The unix socket; the same for the whole life. While the master is down, connecting to it fails.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Worker processes at most. How many requests it may work at is [`PoolNumbers::slots`].
    pub fn most_workers(&self) -> usize {
        self.most
    }

    /// Its figures.
    pub fn numbers(&self) -> Arc<PoolNumbers> {
        Arc::clone(&self.numbers)
    }

    /// Whether it runs, to be read or waited on.
    pub fn life(&self) -> watch::Receiver<MasterState> {
        self.life.clone()
    }

    /// Ends it and returns when all its processes and files are gone: at once when no request is running, after 12 s at most.
    /// Close kept connections first, since a worker does not close one that is open. Dropped midway, the end continues.
    pub async fn stop(self) {
        self.end(ManagedEnd::Stop).await;
    }

    /// The folder of its socket.
    pub fn folder(&self) -> Option<&Path> {
        match &self.privileged {
            Some(privileged) => Some(&privileged.folder),
            None => self.socket.parent(),
        }
    }

    /// What another process needs to go on with it, if the privileged process has started it; `None`: it has not, or it cannot
    /// be handed over.
    pub fn privileged_offer(&self) -> Option<PrivilegedPoolOffer> {
        self.privileged.as_ref()?.copy()
    }

    /// What another process needs to go on with it; `None`: it cannot be handed over, or does not run.
    pub fn offer(&self) -> Option<ManagedOffer> {
        Some(ManagedOffer {
            folder: self.folder()?.to_owned(),
            handles: self.current.copy()?,
            ownership: Ownership::ours(),
        })
    }

    /// Leaves it to another process, which has an offer of it.
    pub async fn leave(self) {
        self.end(ManagedEnd::Leave).await;
    }

    async fn end(self, how: ManagedEnd) {
        // The task may have ended by itself only if it panicked; then the master has been killed.
        let _ = self.stop.send(how);
        if let Err(error) = self.task.await {
            tracing::error!("supervising php-fpm failed: {error}");
        }
    }
}

/// Runs until `stop` is sent or dropped.
async fn supervise(
    plan: MasterPlan,
    first: Master,
    mut watch: PoolWatch,
    life: watch::Sender<MasterState>,
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
        life.send_replace(MasterState::Restarting);
        match status {
            Ok(status) => tracing::warn!(site, "php-fpm ended ({status}); restarting it"),
            Err(error) => tracing::warn!(
                site,
                "php-fpm ended with an unknown status ({error}); restarting it"
            ),
        }
        master.bury().await;
        // Stopping takes precedence over a start in progress, which leaves nothing behind when it is dropped.
        master = tokio::select! {
            master = again(&plan, &mut backoff, since.elapsed()) => master,
            _ = &mut stop => break,
        };
        tracing::info!(site, pid = master.pid(), "php-fpm is running again");
        life.send_replace(MasterState::Running {
            master: master.pid(),
        });
    }
    tracing::info!(site, "php-fpm has ended");
    // The directory is removed before the end is reported.
    drop(plan);
    life.send_replace(MasterState::Ended);
}

/// Tries until one runs; the pauses grow.
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
