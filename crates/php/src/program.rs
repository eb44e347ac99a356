//! Runs a FastCGI program other than PHP-FPM: `php-cgi`, `fcgiwrap`, and any program that gets its listening
//! socket as standard input, like from `spawn-fcgi` (FastCGI specification 1.0, section 2.2).
//!
//! Galley holds the socket. While one process ends and another starts, connections wait in the socket's queue, and
//! visitors do not notice: `php-cgi` regularly ends after `PHP_FCGI_MAX_REQUESTS`. Each process handles one request at a time.
//!
//! All processes are in the group of a shell that waits for Galley's end, for the reasons in `master`. Processes of the
//! privileged process are not: it holds the socket for them, and ends each with its children.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use galley_privileged::KillSignal;
use rustix::process::{Pid, Signal};
use tokio::io::AsyncRead;
use tokio::process::{Child, Command};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::backoff::Backoff;
use super::handover::ManagedEnd;
use super::log::{self, LogSource, RecentLines};
use super::master::END_TIMEOUT;
use super::master_state::MasterState;
use super::numbers::{PoolNumbers, count};
use super::prepare;
use super::privileged::KeeperChannel;
use super::process::MasterProcess;
use super::profile::{ProgramProfile, SEARCH_PATH, requests};
use super::watcher::SHELL;
use super::{PhpSettings, PhpStartError};
use galley_sys::account::{self, Account};

/// A program with running processes.
pub(super) struct RunningProgram {
    pub(super) socket: PathBuf,
    pub(super) workers: usize,
    pub(super) numbers: Arc<PoolNumbers>,
    pub(super) state: watch::Receiver<MasterState>,
    pub(super) stop: oneshot::Sender<ManagedEnd>,
    pub(super) task: JoinHandle<()>,
}

/// Starts the program. Its processes start within a moment; connections are accepted from now on.
pub(super) async fn start(settings: PhpSettings) -> Result<RunningProgram, PhpStartError> {
    run(ProgramSpawner::own(settings)?).await
}

/// Starts the program with the privileged process.
pub(super) async fn start_privileged(
    profile: ProgramProfile,
    line: KeeperChannel,
    pool: u32,
) -> Result<RunningProgram, PhpStartError> {
    let launcher = ProgramLauncher::Kept { line, pool };
    run(ProgramSpawner::new(profile, launcher)).await
}

async fn run(spawner: ProgramSpawner) -> Result<RunningProgram, PhpStartError> {
    let spawner = Arc::new(spawner);
    // The first process is started here, so that a missing program is reported immediately.
    let first = spawner.spawn(0).await?;
    let ProgramProfile {
        workers, socket, ..
    } = &spawner.profile;
    let (workers, socket) = (*workers, socket.clone());
    tracing::info!(
        site = spawner.profile.site,
        workers,
        program = spawner.name(),
        "a FastCGI program is running"
    );
    let numbers = Arc::clone(&spawner.numbers);
    let master = match &spawner.launcher {
        ProgramLauncher::Own(own) => own.group.as_raw_nonzero().get().unsigned_abs(),
        ProgramLauncher::Kept { .. } => first.id(),
    };
    let (state_tx, state) = watch::channel(MasterState::Running { master });
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(supervise(spawner, first, workers, state_tx, stopped));
    Ok(RunningProgram {
        socket,
        workers,
        numbers,
        state,
        stop,
        task,
    })
}

/// Supervises all processes until `stopped` is sent or dropped.
async fn supervise(
    spawner: Arc<ProgramSpawner>,
    first: MasterProcess,
    workers: usize,
    state: watch::Sender<MasterState>,
    stopped: oneshot::Receiver<ManagedEnd>,
) {
    let (end, ending) = watch::channel(false);
    let mut slots = JoinSet::new();
    let mut first = Some(first);
    for slot in 0..workers {
        let spawner = Arc::clone(&spawner);
        slots.spawn(run_slot(spawner, slot, first.take(), ending.clone()));
    }
    if stopped.await == Ok(ManagedEnd::Leave) {
        return;
    }
    let _ = end.send(true);
    if let ProgramLauncher::Own(own) = &spawner.launcher {
        // On failure they have just ended.
        let _ = rustix::process::kill_process_group(own.group, Signal::TERM);
    }
    let all = async { while slots.join_next().await.is_some() {} };
    if tokio::time::timeout(END_TIMEOUT, all).await.is_err() {
        slots.shutdown().await;
    }
    tracing::info!(site = spawner.profile.site, "{} has ended", spawner.name());
    // Kills the rest of the group, and removes the files, before the end is reported.
    drop(slots);
    drop(spawner);
    state.send_replace(MasterState::Ended);
}

/// Runs the processes of one slot one after another, until `ending` is set.
async fn run_slot(
    spawner: Arc<ProgramSpawner>,
    slot: usize,
    mut ready: Option<MasterProcess>,
    mut ending: watch::Receiver<bool>,
) {
    let mut pauses = RestartPauses::new();
    while !*ending.borrow() {
        let since = Instant::now();
        let started = match ready.take() {
            Some(process) => Ok(process),
            None => spawner.spawn(slot).await,
        };
        let ended = match started {
            Ok(mut process) => {
                spawner.numbers.workers.fetch_add(1, Ordering::Relaxed);
                let status = tokio::select! {
                    status = process.wait() => status,
                    _ = ending.changed() => {
                        // Galley's own children were signalled as a group.
                        if matches!(process, MasterProcess::Kept(_)) {
                            process.signal(KillSignal::Terminate);
                        }
                        process.wait().await
                    }
                };
                spawner.numbers.workers.fetch_sub(1, Ordering::Relaxed);
                status
            }
            Err(error) => Err(io::Error::other(error)),
        };
        if *ending.borrow() {
            return;
        }
        count(&spawner.numbers.restarts);
        let pause = pauses.after(&spawner, ended, since.elapsed());
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = ending.changed() => {}
        }
    }
}

/// Computes the pause before the next process.
struct RestartPauses {
    backoff: Backoff,
    /// The number of consecutive processes that ended successfully in less than a second.
    brief: u32,
}

impl RestartPauses {
    fn new() -> Self {
        Self {
            backoff: Backoff::new(),
            brief: 0,
        }
    }

    /// No pause after a process that has served its requests; a growing pause after a failure.
    fn after(
        &mut self,
        spawner: &ProgramSpawner,
        ended: io::Result<ExitStatus>,
        lived: Duration,
    ) -> Duration {
        let (site, name) = (&spawner.profile.site, spawner.name());
        let status = match ended {
            Ok(status) if status.success() => return self.after_success(spawner, lived),
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        tracing::warn!(site, "{name} ended ({status}); restarting it");
        self.backoff.pause(lived)
    }

    fn after_success(&mut self, spawner: &ProgramSpawner, lived: Duration) -> Duration {
        if lived >= BRIEF {
            self.brief = 0;
            return Duration::ZERO;
        }
        self.brief = self.brief.saturating_add(1);
        if self.brief >= SUSPICIOUS && self.brief.is_power_of_two() {
            tracing::warn!(
                site = spawner.profile.site,
                "{} ended by itself within a second, {} times in a row: it may need an option that keeps it in the foreground, or a higher number of requests for each process",
                spawner.name(),
                self.brief
            );
        }
        AFTER_BRIEF
    }
}

/// The state that all processes share. When it is dropped, they are killed and their files removed.
struct ProgramSpawner {
    profile: ProgramProfile,
    launcher: ProgramLauncher,
    numbers: Arc<PoolNumbers>,
}

/// The process that starts them.
enum ProgramLauncher {
    /// Galley starts them.
    Own(Box<ProgramCommand>),
    /// The privileged process starts them, and knows the parameters.
    Kept { line: KeeperChannel, pool: u32 },
}

/// The parameters with which Galley starts the processes.
struct ProgramCommand {
    account: Option<Account>,
    root: PathBuf,
    /// Removed when this is dropped.
    _directory: tempfile::TempDir,
    listener: UnixListener,
    /// The shell that waits for Galley's end. All processes are in its group.
    watcher: Child,
    group: Pid,
}

impl ProgramSpawner {
    fn new(profile: ProgramProfile, launcher: ProgramLauncher) -> Self {
        let numbers = Arc::new(PoolNumbers::new(profile.workers, profile.share));
        Self {
            profile,
            launcher,
            numbers,
        }
    }

    fn own(settings: PhpSettings) -> Result<Self, PhpStartError> {
        let directory = prepare::directory(&settings)?;
        let profile = ProgramProfile::new(&settings, directory.path());
        let listener =
            UnixListener::bind(&profile.socket).map_err(|source| PhpStartError::Files {
                path: profile.socket.clone(),
                source,
            })?;
        let user = prepare::user(&settings);
        let unknown = |user: &str| PhpStartError::Setting {
            what: "user",
            value: user.to_owned(),
            why: "there is no such user",
        };
        let account = user
            .map(|user| account::named(user).ok_or_else(|| unknown(user)))
            .transpose()?;
        if account.as_ref().is_some_and(|account| account.uid == 0) {
            return Err(PhpStartError::Setting {
                what: "user",
                value: user.unwrap_or_default().to_owned(),
                why: "it is root, and PHP never runs as root",
            });
        }
        let no_shell = |source| PhpStartError::Spawn {
            program: PathBuf::from(SHELL),
            source,
        };
        let watcher = watcher(directory.path()).map_err(no_shell)?;
        let group = watcher
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw)
            .ok_or_else(|| no_shell(io::Error::other("it ended before it was checked")))?;
        let own = ProgramCommand {
            account,
            root: settings.root,
            _directory: directory,
            listener,
            watcher,
            group,
        };
        Ok(Self::new(profile, ProgramLauncher::Own(Box::new(own))))
    }

    /// The file name of the program.
    fn name(&self) -> &str {
        let program = self.profile.command.first().map_or("", String::as_str);
        program.rsplit('/').next().unwrap_or(program)
    }

    /// Starts one process with the socket as its standard input.
    async fn spawn(&self, slot: usize) -> Result<MasterProcess, PhpStartError> {
        let program = self.profile.command.first();
        let program = program.map(PathBuf::from).unwrap_or_default();
        let failed = |source| PhpStartError::Spawn {
            program: program.clone(),
            source,
        };
        match &self.launcher {
            ProgramLauncher::Own(own) => {
                let mut child = own.spawn(&self.profile, slot).map_err(failed)?;
                if let Some(pipe) = child.stderr.take() {
                    self.listen(pipe);
                }
                let id = child.id().and_then(|id| i32::try_from(id).ok());
                let id = id.and_then(Pid::from_raw);
                let id = id.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
                Ok(MasterProcess::Own(child, id))
            }
            ProgramLauncher::Kept { line, pool } => {
                let place = u32::try_from(slot).unwrap_or(u32::MAX);
                let (process, pipe) = line.start(*pool, place).await.map_err(failed)?;
                if let Some(pipe) = pipe {
                    self.listen(pipe);
                }
                Ok(MasterProcess::Kept(process))
            }
        }
    }

    /// Logs the output of a process. The task ends when the process has closed the pipe.
    fn listen(&self, pipe: impl AsyncRead + Unpin + Send + 'static) {
        let source = LogSource {
            site: self.profile.site.clone(),
            program: self.name().to_owned(),
            numbers: Arc::clone(&self.numbers),
        };
        tokio::spawn(log::forward(pipe, source, RecentLines::default()));
    }
}

impl ProgramCommand {
    fn spawn(&self, profile: &ProgramProfile, slot: usize) -> io::Result<Child> {
        let socket: OwnedFd = self.listener.try_clone()?.into();
        let mut words = profile.command.iter();
        let mut command = Command::new(words.next().map_or("", String::as_str));
        command
            .args(words)
            .env_clear()
            .env("PATH", SEARCH_PATH)
            .env("PHP_FCGI_MAX_REQUESTS", requests(slot).to_string())
            .current_dir(&self.root)
            .stdin(Stdio::from(socket))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(self.group.as_raw_nonzero().get())
            .kill_on_drop(true);
        if let Some(Account { uid, gid, .. }) = self.account {
            command.uid(uid).gid(gid);
        }
        command.spawn()
    }
}

impl Drop for ProgramCommand {
    fn drop(&mut self) {
        // The group's id cannot be reused until the shell is reaped.
        if self.watcher.id().is_some() {
            let _ = rustix::process::kill_process_group(self.group, Signal::KILL);
        }
    }
}

/// Starts the shell that ends the group when Galley has ended.
fn watcher(directory: &Path) -> io::Result<Child> {
    let mut command = Command::new(SHELL);
    command
        .args(["-c", WATCH, "galley-program-watcher"])
        .arg(directory)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    command.spawn()
}

/// As in `master`: `read` ends when Galley does. The shell leads the group, so it must ignore its own signal.
const WATCH: &str = r#"
trap '' TERM
read -r line
kill -s TERM 0
sleep 5
rm -f -- "$1/program.sock"
rmdir -- "$1"
kill -s KILL 0
"#;

/// The duration below which a successful process counts as brief.
const BRIEF: Duration = Duration::from_secs(1);

/// The pause after a brief process, so that a program that ends immediately does not occupy a core.
const AFTER_BRIEF: Duration = Duration::from_millis(50);

/// The number of consecutive brief processes after which a warning is logged.
const SUSPICIOUS: u32 = 64;
