//! One master process of PHP-FPM from its start to its end, with its workers and its watcher process.
//!
//! The master leads a separate process group, in which its workers stay. One signal therefore reaches all of them, even after the
//! master has ended (its workers would wait for connections forever), and an interrupt from the terminal does not reach them
//! before Galley has drained.
//!
//! If Galley is killed, only another process can clean up: the `watcher`, a shell that waits on a pipe whose other end only
//! Galley holds. The kernel closes that end however Galley ends; the shell then kills the group and removes the files. A
//! parent-death signal would need code between fork and exec, which is unsafe, and it would be sent when the thread that
//! started the master ends, not the process. Programs that the privileged process has started need no shell: see
//! `privileged`.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use galley_privileged::KillSignal;
use rustix::process::Pid;
use tokio::io::AsyncRead;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::PhpStartError;
use super::handover::{CurrentMaster, MasterHandles, Ownership, PoolFolder, copy};
use super::log::{self, LogSource, RecentLines};
use super::numbers::PoolNumbers;
use super::privileged::{KeeperChannel, SocketPath};
use super::process::{AdoptedProcess, MasterProcess};
use super::watcher::{Watcher, pidfd};
use galley_sys::cgroup::{GroupState, ProgramGroup};
use galley_sys::sandbox::Sandbox;

/// Everything that is needed to start a master repeatedly.
#[derive(Debug)]
pub(super) struct MasterPlan {
    pub(super) launcher: MasterLauncher,
    pub(super) binary: PathBuf,
    /// The address to connect to.
    pub(super) socket: PathBuf,
    pub(super) site: String,
    pub(super) numbers: Arc<PoolNumbers>,
    /// The handles of the running master, for another process.
    pub(super) current: Arc<CurrentMaster>,
    /// The control group, if the kernel limits the master.
    pub(super) group: Option<ProgramGroup>,
}

impl MasterPlan {
    /// Applies the control group's limits to a new master. If that fails, the master serves without them.
    fn limit(&self, master: u32) {
        let Some(group) = &self.group else {
            return;
        };
        if let Err(error) = group.take(master) {
            tracing::warn!(site = self.site, %error, "PHP runs without `php_memory_high` and `php_pids_max`");
            self.numbers
                .set_limits(GroupState::Failed(error.to_string()));
        }
    }

    fn ownership(&self) -> Ownership {
        match &self.launcher {
            MasterLauncher::Own(own) => own.directory.ownership.clone(),
            MasterLauncher::Kept { line, .. } => line.ownership().clone(),
        }
    }
}

/// The process that starts the master, and its parameters.
#[derive(Debug)]
pub(super) enum MasterLauncher {
    /// Galley starts it.
    Own(MasterCommand),
    /// The privileged process starts it, and knows the parameters.
    Kept {
        line: KeeperChannel,
        pool: u32,
        socket_path: SocketPath,
    },
}

/// The parameters with which Galley starts a master.
#[derive(Debug)]
pub(super) struct MasterCommand {
    /// The arguments before those for the configuration file.
    pub(super) arguments: Vec<String>,
    /// Removed when the plan is dropped.
    pub(super) directory: PoolFolder,
    pub(super) config: PathBuf,
    pub(super) root: PathBuf,
    pub(super) sandbox: Option<Sandbox>,
}

/// A running master. When this is dropped, the master and its group are killed.
#[derive(Debug)]
pub(super) struct Master {
    process: MasterProcess,
    /// The watcher of a master that Galley has started.
    watcher: Option<Watcher>,
    log: JoinHandle<()>,
    output: RecentLines,
    ownership: Ownership,
}

impl Master {
    /// Starts a master and waits until its socket accepts. If the future is dropped, no process remains.
    pub(super) async fn start(plan: &MasterPlan) -> Result<Master, PhpStartError> {
        let mut master = match &plan.launcher {
            MasterLauncher::Own(own) => {
                // A killed master leaves its socket behind, and the next one would assume that another master uses it.
                match tokio::fs::remove_file(&plan.socket).await {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(PhpStartError::Files {
                            path: plan.socket.clone(),
                            source: error,
                        });
                    }
                    _ => {}
                }
                Master::spawn(plan, own)?
            }
            MasterLauncher::Kept { line, pool, .. } => {
                let (process, pipe) = line.start(*pool, 0).await.map_err(failed(&plan.binary))?;
                plan.limit(process.id());
                Master::new(plan, MasterProcess::Kept(process), None, pipe)
            }
        };
        tokio::select! {
            () = accepts(plan) => Ok(master),
            status = master.process.wait() => {
                // The pipe holds the whole output; it ends with the last process of the group.
                master.process.kill_group();
                let _ = tokio::time::timeout(LOG_TIMEOUT, &mut master.log).await;
                let status = status.map_err(failed(&plan.binary))?;
                Err(PhpStartError::Exited { status, output: master.output.text() })
            }
            () = tokio::time::sleep(START_TIMEOUT) => {
                Err(PhpStartError::NotReady { timeout: START_TIMEOUT, output: master.output.text() })
            }
        }
    }

    /// The process id of the master.
    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Waits for the end of the master. Cancel-safe.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.process.wait().await
    }

    /// Ends the master: SIGQUIT, after which workers finish their requests, then SIGKILL for the rest.
    pub(super) async fn end(mut self) {
        if self.process.is_running() {
            self.process.signal(KillSignal::Quit);
            let _ = tokio::time::timeout(END_TIMEOUT, self.process.wait()).await;
        }
        self.reap().await;
    }

    /// Takes over a master that another process has started.
    pub(super) fn adopt(plan: &MasterPlan, handles: MasterHandles) -> io::Result<Master> {
        plan.current.set(None);
        let watched = MasterHandles {
            master: handles.master,
            process: copy(handles.process.as_fd())?,
            watcher: copy(handles.watcher.as_fd())?,
            pipe: copy(handles.pipe.as_fd())?,
            output: copy(handles.output.as_fd())?,
        };
        let output = pipe::Receiver::from_owned_fd(handles.output)?;
        let process = AdoptedProcess::new(handles.master, handles.process)?;
        let watcher = Watcher::adopt(handles.watcher, handles.pipe, plan.ownership());
        plan.current.set(Some(watched));
        Ok(Master::new(
            plan,
            MasterProcess::Adopted(process),
            Some(watcher),
            Some(output),
        ))
    }

    /// Leaves the master to another process, which has its handles.
    pub(super) fn leave(self) {
        self.ownership.leave();
    }

    /// Cleans up after a dead or dying master: workers, process table entry, watcher.
    pub(super) async fn reap(mut self) {
        self.process.kill_group();
        let _ = self.process.wait().await;
        if let Some(watcher) = self.watcher.take() {
            watcher.end().await;
        }
        // Waits briefly for the last lines of the log.
        let _ = tokio::time::timeout(LOG_TIMEOUT, &mut self.log).await;
    }

    fn spawn(plan: &MasterPlan, own: &MasterCommand) -> Result<Master, PhpStartError> {
        let mut command = Command::new(&plan.binary);
        command
            .args(&own.arguments)
            .args(["--nodaemonize", "--fpm-config"])
            .arg(&own.config)
            .current_dir(&own.root);
        for name in NOT_FOR_PHP {
            command.env_remove(name);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child =
            confined(own.sandbox.as_ref(), || command.spawn()).map_err(failed(&plan.binary))?;
        if let Some(master) = child.id() {
            plan.limit(master);
        }
        let handles = Self::handles(&child, own);
        let pipe = child.stderr.take();
        let (process, (watcher, handles)) = match (leader(&child), handles) {
            (Ok(group), Ok(handles)) => (MasterProcess::Own(child, group), handles),
            (Err(error), _) | (_, Err(error)) => {
                // The master has no workers yet.
                let _ = child.start_kill();
                return Err(failed(&plan.binary)(error));
            }
        };
        plan.current.set(Some(handles));
        Ok(Master::new(plan, process, Some(watcher), pipe))
    }

    /// Starts the watcher of a new master, and returns the handles for another process.
    fn handles(child: &Child, own: &MasterCommand) -> io::Result<(Watcher, MasterHandles)> {
        let missing = || io::Error::other("it ended before it was checked");
        let master = child.id().ok_or_else(missing)?;
        let output = child.stderr.as_ref().ok_or_else(missing)?;
        let process = pidfd(Some(master))?;
        let watcher = Watcher::start(master, &own.directory)?;
        let handles = MasterHandles {
            master,
            process,
            watcher: copy(watcher.process())?,
            pipe: copy(watcher.pipe())?,
            output: copy(output.as_fd())?,
        };
        Ok((watcher, handles))
    }

    fn new(
        plan: &MasterPlan,
        process: MasterProcess,
        watcher: Option<Watcher>,
        pipe: Option<impl AsyncRead + Unpin + Send + 'static>,
    ) -> Master {
        let output = RecentLines::default();
        let recent = output.clone();
        let source = LogSource {
            site: plan.site.clone(),
            program: "php-fpm".to_owned(),
            numbers: Arc::clone(&plan.numbers),
        };
        let log = tokio::spawn(async move {
            if let Some(pipe) = pipe {
                log::forward(pipe, source, recent).await;
            }
        });
        Master {
            process,
            watcher,
            log,
            output,
            ownership: plan.ownership(),
        }
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        // After `reap` no process has the master's id, and the group is empty.
        if self.process.is_running() && self.ownership.is_ours() {
            self.process.kill_group();
        }
        self.log.abort();
    }
}

/// Calls `start`, on a sandboxed thread if there is a sandbox, so that the started process inherits it.
fn confined(
    sandbox: Option<&Sandbox>,
    mut start: impl FnMut() -> io::Result<Child> + Send,
) -> io::Result<Child> {
    let Some(sandbox) = sandbox else {
        return start();
    };
    let runtime = Handle::current();
    let (_, child) = sandbox.within(|| {
        let _entered = runtime.enter();
        start()
    })?;
    child
}

/// The process group that a child leads.
fn leader(child: &Child) -> io::Result<Pid> {
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    let group = id.and_then(Pid::from_raw);
    group.ok_or_else(|| io::Error::other("it ended before it was checked"))
}

fn failed(program: &Path) -> impl FnOnce(io::Error) -> PhpStartError + use<> {
    let program = program.to_owned();
    |source| PhpStartError::Spawn { program, source }
}

/// Returns when a connection is accepted. Connecting is the only test that does not depend on the wording of a log.
async fn accepts(plan: &MasterPlan) {
    loop {
        // On failure there is no socket yet; the previous one does not accept any more.
        if let MasterLauncher::Kept { socket_path, .. } = &plan.launcher {
            let _ = socket_path.look();
        }
        if UnixStream::connect(&plan.socket).await.is_ok() {
            return;
        }
        tokio::time::sleep(CONNECT_INTERVAL).await;
    }
}

/// Variables that are meant for Galley, most of them from the service manager: PHP-FPM would report readiness in Galley's
/// name, or use Galley's sockets.
pub(super) const NOT_FOR_PHP: [&str; 8] = [
    "GALLEY_UPGRADE_FROM",
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "FPM_SOCKETS",
];

/// The time limit for a start: 50 ms on an idle machine, seconds with opcache preloading or slow disks.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Longer than twice the pool's `process_control_timeout`, so that PHP-FPM's own escalation is first.
pub(super) const END_TIMEOUT: Duration = Duration::from_secs(12);

const CONNECT_INTERVAL: Duration = Duration::from_millis(10);

const LOG_TIMEOUT: Duration = Duration::from_secs(1);
