//! One master process of PHP-FPM from its start to its end, with its workers and with the watcher beside it.
//!
//! The master leads a process group of its own, in which its workers stay. So one signal reaches all that belongs to it,
//! also when the master is gone (its workers would wait for connections for ever), and an interrupt typed at the terminal
//! does not reach it before Galley has drained.
//!
//! If Galley is killed, nobody can clean up in its place but another process: a shell waits on a pipe whose other end
//! only Galley holds. The kernel closes that end however Galley dies; the shell then ends the group and removes the files.
//! A parent-death signal would need code between fork and exec, which is unsafe, and it would fire when the thread that
//! started the master ends, not the process. What the process that keeps root has started needs no shell: see `privileged`.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use galley_privileged::How;
use rustix::process::Pid;
use tokio::io::AsyncRead;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use super::PhpStartError;
use super::log::{self, RecentLines, Speaker};
use super::numbers::PoolNumbers;
use super::privileged::{KeeperChannel, SocketPath};
use super::process::MasterProcess;

/// What it takes to start a master, again and again.
#[derive(Debug)]
pub(super) struct MasterPlan {
    pub(super) means: MasterLauncher,
    pub(super) binary: PathBuf,
    /// Where it is reached.
    pub(super) socket: PathBuf,
    pub(super) site: String,
    pub(super) numbers: Arc<PoolNumbers>,
}

/// Who starts it, and with what.
#[derive(Debug)]
pub(super) enum MasterLauncher {
    /// Galley.
    Own(MasterCommand),
    /// The process that keeps root, which knows the rest.
    Kept {
        line: KeeperChannel,
        pool: u32,
        door: SocketPath,
    },
}

/// What Galley starts one with.
#[derive(Debug)]
pub(super) struct MasterCommand {
    /// Before those that name the configuration.
    pub(super) arguments: Vec<String>,
    /// Holds the configuration and the socket and nothing else; removed with the plan.
    pub(super) directory: tempfile::TempDir,
    pub(super) config: PathBuf,
    pub(super) root: PathBuf,
}

/// A running master. Dropped, it and its group are killed.
#[derive(Debug)]
pub(super) struct Master {
    process: MasterProcess,
    /// The shell that ends what Galley has started, when Galley is gone.
    watcher: Option<Child>,
    log: JoinHandle<()>,
    output: RecentLines,
}

impl Master {
    /// Starts one and waits until its socket accepts. Dropped midway, nothing is left.
    pub(super) async fn start(plan: &MasterPlan) -> Result<Master, PhpStartError> {
        let mut master = match &plan.means {
            MasterLauncher::Own(own) => {
                // A master that was killed leaves its socket, and the next would take it for that of a living one.
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
                let (process, said) = line.start(*pool, 0).await.map_err(failed(&plan.binary))?;
                Master::new(plan, MasterProcess::Kept(process), None, Some(said))
            }
        };
        tokio::select! {
            () = accepts(plan) => Ok(master),
            status = master.process.wait() => {
                // All it said is in the pipe; the pipe ends with the last process of the group.
                master.process.kill_group();
                let _ = tokio::time::timeout(LOG_PATIENCE, &mut master.log).await;
                let status = status.map_err(failed(&plan.binary))?;
                Err(PhpStartError::Exited { status, said: master.output.text() })
            }
            () = tokio::time::sleep(START_PATIENCE) => {
                Err(PhpStartError::NotReady { patience: START_PATIENCE, said: master.output.text() })
            }
        }
    }

    /// Process id of the master.
    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Waits for its end. Cancel-safe.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.process.wait().await
    }

    /// Ends it: SIGQUIT, on which workers finish their requests, then SIGKILL for whatever is left.
    pub(super) async fn end(mut self) {
        if self.process.is_running() {
            self.process.signal(How::Quit);
            let _ = tokio::time::timeout(END_TIMEOUT, self.process.wait()).await;
        }
        self.bury().await;
    }

    /// Removes what a dead or dying master leaves: workers, process table entry, watcher.
    pub(super) async fn bury(mut self) {
        self.process.kill_group();
        let _ = self.process.wait().await;
        if let Some(watcher) = &mut self.watcher {
            let _ = watcher.kill().await;
        }
        // What its last words were is worth a moment.
        let _ = tokio::time::timeout(LOG_PATIENCE, &mut self.log).await;
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
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(failed(&plan.binary))?;
        let missing = || io::Error::other("it ended before it was looked at");
        let id = child
            .id()
            .ok_or_else(missing)
            .map_err(failed(&plan.binary))?;
        let group = i32::try_from(id)
            .ok()
            .and_then(Pid::from_raw)
            .ok_or_else(missing)
            .map_err(failed(&plan.binary))?;
        // From here on an early return must not leave a group: `kill_on_drop` ends a master that has no workers yet.
        let watcher = watcher(id, own.directory.path()).map_err(failed(Path::new(SHELL)))?;
        let pipe = child.stderr.take();
        let process = MasterProcess::Own(child, group);
        Ok(Master::new(plan, process, Some(watcher), pipe))
    }

    fn new(
        plan: &MasterPlan,
        process: MasterProcess,
        watcher: Option<Child>,
        pipe: Option<impl AsyncRead + Unpin + Send + 'static>,
    ) -> Master {
        let said = RecentLines::default();
        let kept = said.clone();
        let speaker = Speaker {
            site: plan.site.clone(),
            program: "php-fpm".to_owned(),
            numbers: Arc::clone(&plan.numbers),
        };
        let log = tokio::spawn(async move {
            if let Some(pipe) = pipe {
                log::forward(pipe, speaker, kept).await;
            }
        });
        Master {
            process,
            watcher,
            log,
            output: said,
        }
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        // After `bury` nothing answers to the id of the master, and the group is empty.
        if self.process.is_running() {
            self.process.kill_group();
        }
        self.log.abort();
    }
}

/// Starts the shell that ends `group` when Galley is gone. Its own group, for the terminal's interrupt again.
fn watcher(group: u32, directory: &Path) -> io::Result<Child> {
    let mut command = Command::new(SHELL);
    command
        .args(["-c", WATCH, "galley-php-watcher"])
        .arg(group.to_string())
        .arg(directory)
        .current_dir("/");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    command.spawn()
}

fn failed(program: &Path) -> impl FnOnce(io::Error) -> PhpStartError + use<> {
    let program = program.to_owned();
    |source| PhpStartError::Spawn { program, source }
}

/// Returns when a connection is accepted. Asking is the only sign that does not depend on the wording of a log.
async fn accepts(plan: &MasterPlan) {
    loop {
        // An error says that there is none yet; what was there before does not accept any more.
        if let MasterLauncher::Kept { door, .. } = &plan.means {
            let _ = door.look();
        }
        if UnixStream::connect(&plan.socket).await.is_ok() {
            return;
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

pub(super) const SHELL: &str = "/bin/sh";

/// Nothing is ever written into the pipe, so `read` ends when Galley does. `$1`: the group, `$2`: the directory. SIGQUIT to
/// the master alone: it lets its workers finish what they are writing to the database. Only commands that every POSIX
/// shell has built in, and `sleep` and `rm`.
const WATCH: &str = r#"
read -r line
kill -s QUIT "$1"
left=15
while [ "$left" -gt 0 ] && kill -s 0 -- "-$1"; do sleep 1; left=$((left - 1)); done
kill -s KILL -- "-$1"
rm -f -- "$2/fpm.sock" "$2/fpm.conf"
rmdir -- "$2"
"#;

/// Galley's place with the service manager: PHP-FPM would report readiness in our name, or take our sockets for its own.
pub(super) const NOT_FOR_PHP: [&str; 7] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "FPM_SOCKETS",
];

/// Starting takes 50 ms on an idle machine; opcache preloading and slow disks take seconds.
const START_PATIENCE: Duration = Duration::from_secs(30);

/// Longer than twice `process_control_timeout` of the pool, so that PHP-FPM's own escalation comes first.
pub(super) const END_TIMEOUT: Duration = Duration::from_secs(12);

const ASK_AGAIN: Duration = Duration::from_millis(10);

const LOG_PATIENCE: Duration = Duration::from_secs(1);
