//! Another FastCGI program than PHP-FPM, kept alive: `php-cgi`, `fcgiwrap`, and whatever takes its listening socket as standard
//! input, as `spawn-fcgi` gives it (FastCGI specification 1.0, section 2.2).
//!
//! Galley holds the socket itself. While a process ends and another begins, connections wait in the socket's queue, and no
//! visitor sees it: `php-cgi` ends by itself after `PHP_FCGI_MAX_REQUESTS`. Each process works at one request.
//!
//! All processes are in the group of a shell that waits for Galley's end, for the reasons told in `master`.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tokio::process::{Child, Command};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::backoff::Backoff;
use super::log::{self, Said, Speaker};
use super::managed::{self, Life};
use super::master::{END_PATIENCE, SHELL};
use super::numbers::{Numbers, count};
use super::{PhpSettings, StartError};
use crate::sys::account::{self, Account};

/// A program whose processes run.
pub(super) struct Running {
    pub(super) socket: PathBuf,
    pub(super) workers: usize,
    pub(super) numbers: Arc<Numbers>,
    pub(super) life: watch::Receiver<Life>,
    pub(super) stop: oneshot::Sender<()>,
    pub(super) task: JoinHandle<()>,
}

/// Starts it. Its processes begin within a moment; connections are taken from now on.
pub(super) fn start(settings: PhpSettings) -> Result<Running, StartError> {
    let workers = match settings.workers {
        0 => settings.budget.places_at_start(),
        named => named,
    };
    let troop = Arc::new(Troop::new(settings, workers)?);
    // One is started here, so that a program that is not there is told at once.
    let first = troop.spawn(0)?;
    tracing::info!(
        site = troop.site,
        workers,
        program = troop.name(),
        "a FastCGI program is running"
    );
    let socket = troop.directory.path().join(SOCKET);
    let numbers = Arc::clone(&troop.numbers);
    let (life_tx, life) = watch::channel(Life::Running {
        master: troop.group.as_raw_nonzero().get().unsigned_abs(),
    });
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(keep(troop, first, workers, (life_tx, stopped)));
    Ok(Running {
        socket,
        workers,
        numbers,
        life,
        stop,
        task,
    })
}

/// Keeps all of them until the second of `ends` is sent or dropped.
async fn keep(
    troop: Arc<Troop>,
    first: Child,
    workers: usize,
    ends: (watch::Sender<Life>, oneshot::Receiver<()>),
) {
    let (life, stopped) = ends;
    let (end, ending) = watch::channel(false);
    let mut slots = JoinSet::new();
    let mut first = Some(first);
    for slot in 0..workers {
        slots.spawn(one(Arc::clone(&troop), slot, first.take(), ending.clone()));
    }
    let _ = stopped.await;
    let _ = end.send(true);
    // An error says that they have just ended.
    let _ = rustix::process::kill_process_group(troop.group, Signal::TERM);
    let all = async { while slots.join_next().await.is_some() {} };
    if tokio::time::timeout(END_PATIENCE, all).await.is_err() {
        slots.shutdown().await;
    }
    tracing::info!(site = troop.site, "{} has ended", troop.name());
    // Kills what is left of the group, and removes the files, before anybody hears of the end.
    drop(slots);
    drop(troop);
    life.send_replace(Life::Ended);
}

/// One process after another, until `ending` says so.
async fn one(
    troop: Arc<Troop>,
    slot: usize,
    mut ready: Option<Child>,
    mut ending: watch::Receiver<bool>,
) {
    let mut rest = Rest::new();
    while !*ending.borrow() {
        let since = Instant::now();
        let started = ready.take().map_or_else(|| troop.spawn(slot), Ok);
        let ended = match started {
            Ok(mut child) => {
                troop.numbers.workers.fetch_add(1, Ordering::Relaxed);
                let status = child.wait().await;
                troop.numbers.workers.fetch_sub(1, Ordering::Relaxed);
                status
            }
            Err(error) => Err(io::Error::other(error)),
        };
        if *ending.borrow() {
            return;
        }
        count(&troop.numbers.restarts);
        let pause = rest.after(&troop, ended, since.elapsed());
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = ending.changed() => {}
        }
    }
}

/// How long to wait before the next process.
struct Rest {
    backoff: Backoff,
    /// Processes in a row that ended well and lived for less than a second.
    brief: u32,
}

impl Rest {
    fn new() -> Self {
        Self {
            backoff: Backoff::new(),
            brief: 0,
        }
    }

    /// One that has done its requests is followed at once; one that failed, after a pause that grows.
    fn after(&mut self, troop: &Troop, ended: io::Result<ExitStatus>, lived: Duration) -> Duration {
        let (site, name) = (&troop.site, troop.name());
        let status = match ended {
            Ok(status) if status.success() => return self.after_success(troop, lived),
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        tracing::warn!(site, "{name} ended ({status}); it is started again");
        self.backoff.pause(lived)
    }

    fn after_success(&mut self, troop: &Troop, lived: Duration) -> Duration {
        if lived >= BRIEF {
            self.brief = 0;
            return Duration::ZERO;
        }
        self.brief = self.brief.saturating_add(1);
        if self.brief >= SUSPICIOUS && self.brief.is_power_of_two() {
            tracing::warn!(
                site = troop.site,
                "{} ended by itself within a second, {} times in a row: it may want an option that keeps it in the foreground, or more requests for each process",
                troop.name(),
                self.brief
            );
        }
        AFTER_BRIEF
    }
}

/// What the processes have in common. Dropped, they are killed and their files removed.
struct Troop {
    site: String,
    command: Vec<String>,
    account: Option<Account>,
    root: PathBuf,
    directory: tempfile::TempDir,
    listener: UnixListener,
    /// The shell that waits for Galley's end, and its group, which is that of all processes.
    watcher: Child,
    group: Pid,
    numbers: Arc<Numbers>,
}

impl Troop {
    fn new(settings: PhpSettings, workers: usize) -> Result<Self, StartError> {
        let directory = managed::directory(&settings)?;
        let socket = directory.path().join(SOCKET);
        let listener = UnixListener::bind(&socket).map_err(|source| StartError::Files {
            path: socket,
            source,
        })?;
        let user = managed::user(&settings);
        let unknown = |user: &str| StartError::Setting {
            what: "user",
            value: user.to_owned(),
            why: "there is no such user",
        };
        let account = user
            .map(|user| account::named(user).ok_or_else(|| unknown(user)))
            .transpose()?;
        let no_shell = |source| StartError::Spawn {
            program: PathBuf::from(SHELL),
            source,
        };
        let watcher = watcher(directory.path()).map_err(no_shell)?;
        let group = watcher
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw)
            .ok_or_else(|| no_shell(io::Error::other("it ended before it was looked at")))?;
        Ok(Self {
            site: settings.site_name,
            command: settings.command,
            account,
            root: settings.root,
            directory,
            listener,
            watcher,
            group,
            numbers: Arc::new(Numbers::new(workers, settings.budget.share)),
        })
    }

    /// The program without its folder.
    fn name(&self) -> &str {
        let program = self.command.first().map_or("", String::as_str);
        program.rsplit('/').next().unwrap_or(program)
    }

    /// One process with the socket as its standard input.
    fn spawn(&self, slot: usize) -> Result<Child, StartError> {
        let program = self.command.first().map(PathBuf::from).unwrap_or_default();
        let failed = |source| StartError::Spawn {
            program: program.clone(),
            source,
        };
        let socket: OwnedFd = self.listener.try_clone().map_err(failed)?.into();
        let mut command = Command::new(&program);
        command
            .args(self.command.iter().skip(1))
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
        let mut child = command.spawn().map_err(failed)?;
        if let Some(pipe) = child.stderr.take() {
            let speaker = Speaker {
                site: self.site.clone(),
                program: self.name().to_owned(),
                numbers: Arc::clone(&self.numbers),
            };
            // Ends with the process, whose end of the pipe it waits for.
            tokio::spawn(log::forward(pipe, speaker, Said::default()));
        }
        Ok(child)
    }
}

impl Drop for Troop {
    fn drop(&mut self) {
        // As long as the shell has not been waited for, the group's number is no one else's.
        if self.watcher.id().is_some() {
            let _ = rustix::process::kill_process_group(self.group, Signal::KILL);
        }
    }
}

/// Requests after which a process of `php-cgi` ends: as many as PHP-FPM's workers answer, and not the same for all.
fn requests(slot: usize) -> usize {
    750 + slot * 191 % 500
}

/// Starts the shell that ends the group when Galley is gone.
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

/// As the one of `master`: `read` ends when Galley does. The shell leads the group, so it has to outlive its own signals.
const WATCH: &str = r#"
trap '' TERM
read -r line
kill -s TERM 0
sleep 5
rm -f -- "$1/program.sock"
rmdir -- "$1"
kill -s KILL 0
"#;

/// In its directory, and in the shell's script. Not the name of PHP-FPM's: `socket_of` looks for that one.
const SOCKET: &str = "program.sock";

/// For scripts that call other programs.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A process that ends well sooner than this is looked at twice.
const BRIEF: Duration = Duration::from_secs(1);

/// Keeps a program that ends at once from taking a core.
const AFTER_BRIEF: Duration = Duration::from_millis(50);

/// Brief lives in a row that are worth a line.
const SUSPICIOUS: u32 = 64;
