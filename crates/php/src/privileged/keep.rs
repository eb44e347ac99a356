//! The privileged process. It reads commands from its standard input, and its plan from its standard output.
//!
//! Every byte of a command is untrusted. `galley_privileged::PrivilegedPools` checks it, except whether a worker is a child of the
//! pool, which is checked here. A process that has ended is reaped and removed from the pools in one step, so that no signal
//! reaches another process to which the same id was assigned in the meantime.
//!
//! A Galley that takes over from another gets a separate connection. The privileged process ends with the last connection.

use std::collections::HashMap;
use std::io::{self, stdin, stdout};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use galley_privileged::{KillSignal, PrivilegedCommand, PrivilegedPools, Report, Running};
use rustix::fs::{AtFlags, chownat};
use rustix::io::Errno;
use rustix::process::{
    Gid, Pid, PidfdFlags, Signal, Uid, kill_process, kill_process_group, pidfd_open,
    pidfd_send_signal,
};
use tokio::net::unix::pipe;
use tokio::signal::unix::{Signal as Listening, SignalKind, signal};
use tokio::task::JoinSet;

use super::COMMAND;
use super::connections::{ConnectionId, IncomingPacket, KeeperConnections};
use super::plan::{LaunchPlan, PlannedPool, ProgramKind};
use crate::master::END_TIMEOUT;
use galley_sys::privileges;

/// Runs the privileged process until Galley has ended. Only Galley can start it: it hands over the plan and the socket.
pub fn keep() -> io::Result<()> {
    let plan = LaunchPlan::read(stdout())?;
    let socket = stdin().as_fd().try_clone_to_owned()?;
    let listeners = plan.pools.iter().map(|pool| listener(pool, &plan));
    let listeners = listeners.collect::<io::Result<Vec<_>>>()?;
    // Otherwise process lists would show `exe`, the name of the path by which it was started.
    let _ = rustix::thread::set_name(c"galley");
    privileges::keep_starting()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        // Signals are for the serving process, which ends this one when PHP has ended.
        let _ignored = ignored_signals()?;
        let slots = plan.pools.iter().map(|pool| pool.slots);
        let mut keeper = PrivilegedKeeper {
            connections: KeeperConnections::new(slots.clone().fold(0, usize::saturating_add)),
            pools: PrivilegedPools::new(slots),
            plan,
            listeners,
            children: HashMap::new(),
            ends: JoinSet::new(),
            refusals: 0,
        };
        let outcome = keeper.serve(socket).await;
        keeper.end().await;
        outcome
    })
}

struct PrivilegedKeeper {
    plan: LaunchPlan,
    pools: PrivilegedPools,
    /// The listeners of the pools that get theirs as standard input.
    listeners: Vec<Option<UnixListener>>,
    connections: KeeperConnections,
    /// The children in the pools, none of them reaped.
    children: HashMap<u32, KeptChild>,
    /// One task per child, which returns its process id when it has ended.
    ends: JoinSet<u32>,
    refusals: u32,
}

/// A child process.
struct KeptChild {
    child: Child,
    started_by: ConnectionId,
}

impl PrivilegedKeeper {
    /// Serves until all connections are closed, which means that Galley has ended.
    async fn serve(&mut self, socket: OwnedFd) -> io::Result<()> {
        let galley = self.connections.add(socket)?;
        self.connections.send(galley, Report::Ready, None);
        while !self.connections.is_empty() {
            tokio::select! {
                Some(IncomingPacket { from, packet }) = self.connections.receive() => {
                    if packet.is_empty() {
                        self.connections.remove(from);
                    } else if self.connections.is_open(from) {
                        self.execute(from, &packet);
                    }
                }
                Some(Ok(process)) = self.ends.join_next() => {
                    if let Some(report) = self.reap(process) {
                        self.connections.send_all(report);
                    }
                }
            }
        }
        Ok(())
    }

    fn execute(&mut self, from: ConnectionId, packet: &[u8]) {
        match self.pools.judge(packet) {
            Ok(PrivilegedCommand::Start { pool, slot }) => self.start(from, pool, slot),
            Ok(PrivilegedCommand::Signal { process, how, .. }) => send_signal(process, how),
            Ok(PrivilegedCommand::Replace { pool, worker }) => {
                if self.replace(pool, worker).is_none() {
                    self.refuse(from, "the worker is not the pool's");
                }
            }
            Ok(PrivilegedCommand::Connect) => self.connect(from),
            Err(refusal) => {
                let Some(PrivilegedCommand::Start { pool, slot }) = PrivilegedCommand::read(packet)
                else {
                    return self.refuse(from, refusal.text());
                };
                self.end_unknown(pool, slot);
                // A Galley waits for the reply; the previous process may still be ending.
                let errno = Errno::BUSY.raw_os_error().unsigned_abs();
                let failed = Report::Failed { pool, slot, errno };
                self.connections.send(from, failed, None);
            }
        }
    }

    /// Kills the process of a slot that is about to be started, if the Galley that started it has ended: the other one does not
    /// know it.
    fn end_unknown(&self, pool: u32, slot: u32) {
        if let Some(process) = self.pools.process(pool, slot)
            && let Some(kept) = self.children.get(&process)
            && !self.connections.is_open(kept.started_by)
        {
            send_signal(process, KillSignal::Kill);
        }
    }

    /// Creates a connection for another Galley, and reports the running processes on it.
    fn connect(&mut self, from: ConnectionId) {
        let (another, socket) = match self.connections.add_pair() {
            Ok(added) => added,
            Err(error) => {
                let errno = errno_of(&error).max(1);
                let refused = Report::Connected { errno };
                return self.connections.send(from, refused, None);
            }
        };
        for Running {
            pool,
            slot,
            process,
        } in self.pools.all()
        {
            let started = Report::Started {
                pool,
                slot,
                process,
            };
            self.connections.send(another, started, None);
        }
        self.connections.send(another, Report::Ready, None);
        let connected = Report::Connected { errno: 0 };
        self.connections.send(from, connected, Some(socket));
    }

    /// Starts the process of a slot, and reports it.
    fn start(&mut self, from: ConnectionId, pool: u32, slot: u32) {
        let (report, output) = match self.spawn(from, pool, slot) {
            Ok((process, output)) => {
                let started = Report::Started {
                    pool,
                    slot,
                    process,
                };
                (started, Some(output))
            }
            Err(error) => {
                let errno = errno_of(&error);
                (Report::Failed { pool, slot, errno }, None)
            }
        };
        self.connections.send(from, report, output);
    }

    /// Starts the process of a slot; returns its id, and the read end of the pipe for its output.
    fn spawn(
        &mut self,
        started_by: ConnectionId,
        pool: u32,
        slot: u32,
    ) -> io::Result<(u32, OwnedFd)> {
        let index = usize::try_from(pool).unwrap_or(usize::MAX);
        let planned = self.plan.pools.get(index);
        let planned = planned.ok_or(io::ErrorKind::NotFound)?;
        let input = match self.listeners.get(index).and_then(Option::as_ref) {
            Some(listener) => Stdio::from(OwnedFd::from(listener.try_clone()?)),
            None => Stdio::null(),
        };
        let (reader, writer) = io::pipe()?;
        // PHP-FPM reopens the pipe by its descriptor.
        privileges::chown_open(&writer, &planned.account)?;
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("galley")
            .args([COMMAND, &pool.to_string(), &slot.to_string()])
            .stdin(input)
            .stdout(Stdio::inherit())
            .stderr(writer)
            .process_group(0);
        let mut child = command.spawn()?;
        let process = child.id();
        match wait_for(process) {
            Ok(pidfd) => self.ends.spawn(async move {
                let _ = pidfd.readable().await;
                process
            }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(error);
            }
        };
        self.pools.started(pool, slot, process);
        self.children
            .insert(process, KeptChild { child, started_by });
        Ok((process, reader.into()))
    }

    /// Ends a worker after its request; `None` if it is not a child of the pool.
    fn replace(&self, pool: u32, worker: u32) -> Option<()> {
        // From here on the descriptor refers to this process alone, even if its id is reused.
        let process = pidfd_open(pid(worker)?, PidfdFlags::empty()).ok()?;
        let parent = parent(worker)?;
        self.pools
            .processes(pool)
            .any(|main| main == parent)
            .then_some(())?;
        // On failure the worker has just ended.
        let _ = pidfd_send_signal(process, Signal::QUIT);
        Some(())
    }

    /// Kills the rest of the group of a process that has ended, and removes it from the pools.
    fn reap(&mut self, process: u32) -> Option<Report> {
        let KeptChild { mut child, .. } = self.children.remove(&process)?;
        // Its id is not reused before it is reaped.
        send_signal(process, KillSignal::Kill);
        let status = child.wait().map_or(0, ExitStatusExt::into_raw);
        let pool = self.pools.ended(process)?;
        Some(Report::Ended {
            pool,
            process,
            status: status.cast_unsigned(),
        })
    }

    fn refuse(&mut self, from: ConnectionId, why: &str) {
        self.refusals = self.refusals.saturating_add(1);
        if self.refusals <= MAX_LOGGED_REFUSALS {
            log_line(&format!("rejected a command: {why}"));
        }
        self.connections.send(from, Report::Refused, None);
    }

    /// Ends everything: workers have some time to finish their requests. Then removes the files.
    async fn end(mut self) {
        for Running { pool, process, .. } in self.pools.all() {
            let planned = usize::try_from(pool)
                .ok()
                .and_then(|at| self.plan.pools.get(at));
            let signal = match planned.map(|pool| &pool.kind) {
                Some(ProgramKind::Fpm { .. }) => KillSignal::Quit,
                Some(ProgramKind::Program { .. }) | None => KillSignal::Terminate,
            };
            send_signal(process, signal);
        }
        let _ = tokio::time::timeout(END_TIMEOUT, self.reap_all()).await;
        for running in self.pools.all() {
            send_signal(running.process, KillSignal::Kill);
        }
        self.reap_all().await;
        for pool in &self.plan.pools {
            remove_folder(&pool.folder);
        }
    }

    async fn reap_all(&mut self) {
        while let Some(ended) = self.ends.join_next().await {
            if let Ok(process) = ended {
                self.reap(process);
            }
        }
    }
}

/// Creates the socket of a program, to which only Galley may connect.
fn listener(pool: &PlannedPool, plan: &LaunchPlan) -> io::Result<Option<UnixListener>> {
    let ProgramKind::Program { socket, .. } = &pool.kind else {
        return Ok(None);
    };
    // Uses descriptors, because the outer folder belongs to Galley's user, and that account may be compromised.
    let folder = privileges::own_folder(&pool.folder)?;
    let name = socket.file_name().unwrap_or_default();
    let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
    let listener = UnixListener::bind(Path::new(&path).join(name))?;
    let (uid, gid) = (
        Uid::from_raw(plan.galley.uid),
        Gid::from_raw(plan.galley.gid),
    );
    chownat(
        &folder,
        name,
        Some(uid),
        Some(gid),
        AtFlags::SYMLINK_NOFOLLOW,
    )?;
    privileges::chown_open(&folder, &plan.galley)?;
    Ok(Some(listener))
}

/// A receiver that becomes readable when the process has ended. A process descriptor shares nothing else with a pipe.
fn wait_for(process: u32) -> io::Result<pipe::Receiver> {
    let pid = pid(process).ok_or(io::ErrorKind::NotFound)?;
    let pidfd = pidfd_open(pid, PidfdFlags::NONBLOCK)?;
    pipe::Receiver::from_owned_fd_unchecked(pidfd)
}

/// The system's number of an error; 0 if there is none.
fn errno_of(error: &io::Error) -> u32 {
    error.raw_os_error().map_or(0, i32::unsigned_abs)
}

fn remove_folder(path: &Path) {
    if let Err(error) = std::fs::remove_dir_all(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        log_line(&format!("cannot remove `{}`: {error}", path.display()));
    }
}

fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

/// Signals a process that has not been reaped, or its group. On failure the process has just ended.
fn send_signal(process: u32, signal: KillSignal) {
    let Some(process) = pid(process) else {
        return;
    };
    let _ = match signal {
        KillSignal::Quit => kill_process(process, Signal::QUIT),
        KillSignal::Terminate => kill_process(process, Signal::TERM),
        // The process may have left its group.
        KillSignal::Kill => {
            let _ = kill_process(process, Signal::KILL);
            kill_process_group(process, Signal::KILL)
        }
    };
}

/// The parent of a process: the second field of `/proc/PID/stat` after the name, which may contain any character.
fn parent(process: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(1)?.parse().ok()
}

/// Installs handlers that ignore signals: service managers and terminals send them to all processes at once.
fn ignored_signals() -> io::Result<Vec<Listening>> {
    let kinds = [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
        SignalKind::quit(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
    ];
    kinds.into_iter().map(signal).collect()
}

/// Writes to standard error, which is Galley's: this process has no log.
fn log_line(line: &str) {
    use std::io::Write;
    let _ = writeln!(io::stderr(), "galley: privileged process: {line}");
}

/// The maximum number of rejected commands that are logged: enough to detect a problem, too few to fill a disk.
const MAX_LOGGED_REFUSALS: u32 = 8;
