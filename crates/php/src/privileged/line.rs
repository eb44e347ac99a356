//! Galley's end of the connection to the privileged process: its children are started, signalled and awaited here as if
//! they were Galley's children.
//!
//! One task reads the reports and passes them to the waiting tasks. When the connection ends, all waiting and later calls
//! fail, because processes can no longer be started or signalled.
//!
//! A Galley that takes over gets a separate connection from the previous one ([`KeeperChannel::connect`]).
//! [`KeeperChannel::start`] then returns the processes that run for the previous Galley as if they had just been started.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, MutexGuard};

use galley_privileged::{BYTES, KillSignal, PrivilegedCommand, Report};
use tokio::io::Interest;
use tokio::net::UnixDatagram;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;

use crate::handover::{Ownership, copy};
use galley_sys::Lock;
use galley_sys::packets;

/// The connection; clones share it.
#[derive(Clone, Debug)]
pub struct KeeperChannel(Arc<ChannelShared>);

#[derive(Debug)]
struct ChannelShared {
    socket: UnixDatagram,
    waiting: Lock<PendingReplies>,
    /// Whether this process must end the running programs.
    ownership: Ownership,
}

/// The waiting tasks. The lock is held for a few lines only.
#[derive(Debug, Default)]
struct PendingReplies {
    /// This side has closed the connection.
    is_closed: bool,
    /// The other side no longer reads.
    is_gone: bool,
    /// Waiting starts, by pool and slot.
    starts: HashMap<(u32, u32), oneshot::Sender<io::Result<Started>>>,
    /// Waiting ends, by process id.
    ends: HashMap<u32, oneshot::Sender<ExitStatus>>,
    /// The pipes with the output of running processes, by process id, for another Galley.
    outputs: HashMap<u32, OwnedFd>,
    /// The processes that run for the previous Galley, by pool and slot.
    inherited: HashMap<(u32, u32), Started>,
    connections: VecDeque<oneshot::Sender<io::Result<OwnedFd>>>,
}

/// A process, and the pipe with its output; `None` if the pipe was lost with a Galley that has ended.
type Started = (PrivilegedProcess, Option<pipe::Receiver>);

/// A main process of a pool. If this is dropped before the process ends, the process and its group are killed.
#[derive(Debug)]
pub(crate) struct PrivilegedProcess {
    line: KeeperChannel,
    pool: u32,
    id: u32,
    end: oneshot::Receiver<ExitStatus>,
    has_ended: bool,
}

impl KeeperChannel {
    /// The connection over this socket, whose other end has reported that it is ready. Must be called within a runtime.
    pub(super) fn new(socket: OwnedFd) -> io::Result<Self> {
        Self::over(socket, Ownership::ours())
    }

    /// Takes over the connection of the previous Galley, over a socket that that Galley has created with
    /// [`KeeperChannel::connect`]. `outputs`: the pipes with the output of its processes. Must be called within a runtime.
    pub(super) async fn inherit(
        socket: OwnedFd,
        mut outputs: HashMap<u32, OwnedFd>,
    ) -> io::Result<Self> {
        let line = Self::over(socket, Ownership::not_yet())?;
        loop {
            let mut packet = [0; BYTES + 1];
            let (length, _) = line.receive(&mut packet).await?;
            match packet.get(..length).and_then(Report::read) {
                Some(Report::Ready) => return Ok(line),
                Some(Report::Started {
                    pool,
                    slot,
                    process,
                }) => {
                    let started = line.started(pool, process, outputs.remove(&process))?;
                    line.waiting().inherited.insert((pool, slot), started);
                }
                _ => return Err(io::Error::other("it does not say what runs")),
            }
        }
    }

    fn over(socket: OwnedFd, ownership: Ownership) -> io::Result<Self> {
        Ok(Self(Arc::new(ChannelShared {
            socket: packets::waited_for(socket)?,
            waiting: Lock::default(),
            ownership,
        })))
    }

    /// Starts the process of a pool for one of its slots; also returns the pipe with its output. If the future is dropped, the
    /// process is killed as soon as it runs.
    pub(crate) async fn start(&self, pool: u32, slot: u32) -> io::Result<Started> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut waiting = self.waiting();
            if waiting.is_gone {
                return Err(connection_lost());
            }
            if let Some(inherited) = waiting.inherited.remove(&(pool, slot)) {
                return Ok(inherited);
            }
            self.send(PrivilegedCommand::Start { pool, slot })?;
            waiting.starts.insert((pool, slot), sender);
        }
        receiver.await.unwrap_or_else(|_| Err(connection_lost()))
    }

    /// Makes a worker of a pool end after its request.
    pub(crate) fn replace(&self, pool: u32, worker: u32) -> io::Result<()> {
        self.send(PrivilegedCommand::Replace { pool, worker })
    }

    /// Requests another socket to the privileged process, for a Galley that takes over from this one. Cancel-safe.
    pub(super) async fn connect(&self) -> io::Result<OwnedFd> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut waiting = self.waiting();
            if waiting.is_gone {
                return Err(connection_lost());
            }
            self.send(PrivilegedCommand::Connect)?;
            waiting.connections.push_back(sender);
        }
        receiver.await.unwrap_or_else(|_| Err(connection_lost()))
    }

    /// Copies of the pipes with the output of running processes, by process id.
    pub(super) fn outputs(&self) -> Vec<(u32, OwnedFd)> {
        let waiting = self.waiting();
        let copies = waiting.outputs.iter();
        copies
            .filter_map(|(process, output)| Some((*process, copy(output.as_fd()).ok()?)))
            .collect()
    }

    /// Whether this process must end the running programs.
    pub fn ownership(&self) -> &Ownership {
        &self.0.ownership
    }

    /// Takes ownership after the previous Galley has ended. Its processes that this Galley does not use are killed.
    pub fn take_over(&self) {
        self.0.ownership.take();
        let unused = std::mem::take(&mut self.waiting().inherited);
        drop(unused);
    }

    /// Leaves all running programs to the Galley that takes over.
    pub fn leave(&self) {
        self.0.ownership.leave();
    }

    /// Whether the other side still accepts commands.
    pub(super) fn is_up(&self) -> bool {
        !self.waiting().is_gone
    }

    /// Whether this side has closed the connection.
    pub(super) fn is_closed(&self) -> bool {
        self.waiting().is_closed
    }

    /// Passes reports to the waiting tasks until the connection ends. Must run only once.
    pub(super) async fn read(&self) {
        loop {
            let mut packet = [0; BYTES + 1];
            let Ok((length, carried)) = self.receive(&mut packet).await else {
                break;
            };
            let packet = packet.get(..length).unwrap_or_default();
            if packet.is_empty() {
                break;
            }
            if let Some(report) = Report::read(packet) {
                self.handle(report, carried);
            } else {
                tracing::error!("the privileged process sent an invalid report");
            }
        }
        // Dropping these wakes the waiting tasks.
        let left = {
            let mut waiting = self.waiting();
            waiting.is_gone = true;
            let PendingReplies {
                starts,
                ends,
                connections,
                ..
            } = &mut *waiting;
            let starts = std::mem::take(starts);
            (starts, std::mem::take(ends), std::mem::take(connections))
        };
        drop(left);
    }

    /// Closes the connection: the privileged process then ends all its programs, and itself.
    pub(super) fn close(&self) {
        self.waiting().is_closed = true;
        let _ = self.0.socket.shutdown(Shutdown::Both);
    }

    fn handle(&self, report: Report, carried: Option<OwnedFd>) {
        match report {
            Report::Started {
                pool,
                slot,
                process,
            } => {
                let caller = self.waiting().starts.remove(&(pool, slot));
                let started = carried
                    .ok_or_else(|| io::Error::other("it arrived without its pipe"))
                    .and_then(|output| self.started(pool, process, Some(output)));
                // If the caller no longer waits, the process is dropped here and thereby killed.
                if let Some(caller) = caller {
                    let _ = caller.send(started);
                }
            }
            Report::Failed { pool, slot, errno } => {
                let error = errno_error(errno).unwrap_or_else(|| {
                    io::Error::other("the privileged process could not start it")
                });
                if let Some(caller) = self.waiting().starts.remove(&(pool, slot)) {
                    let _ = caller.send(Err(error));
                }
            }
            Report::Ended {
                process, status, ..
            } => {
                let mut waiting = self.waiting();
                waiting.outputs.remove(&process);
                if let Some(end) = waiting.ends.remove(&process) {
                    let _ = end.send(ExitStatus::from_raw(status.cast_signed()));
                }
            }
            Report::Connected { errno } => {
                let socket = match errno_error(errno) {
                    Some(error) => Err(error),
                    None => carried.ok_or_else(|| io::Error::other("it arrived without a socket")),
                };
                if let Some(caller) = self.waiting().connections.pop_front() {
                    let _ = caller.send(socket);
                }
            }
            // Usually the process had just ended.
            Report::Refused => tracing::debug!("the privileged process rejected a command"),
            Report::Ready => {}
        }
    }

    /// Registers a running process. The lock must not be held.
    fn started(&self, pool: u32, process: u32, output: Option<OwnedFd>) -> io::Result<Started> {
        let (sender, end) = oneshot::channel();
        let kept = output.as_ref().map(|output| copy(output.as_fd()));
        {
            let mut waiting = self.waiting();
            waiting.ends.insert(process, sender);
            // Without a copy of the pipe, another Galley only misses the output.
            if let Some(Ok(kept)) = kept {
                waiting.outputs.insert(process, kept);
            }
        }
        let process = PrivilegedProcess {
            line: self.clone(),
            pool,
            id: process,
            end,
            has_ended: false,
        };
        let output = output.map(pipe::Receiver::from_owned_fd).transpose()?;
        Ok((process, output))
    }

    async fn receive(&self, packet: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
        let socket = &self.0.socket;
        let receive = || packets::receive(socket, packet);
        socket.async_io(Interest::READABLE, receive).await
    }

    /// Never waits: the other side reads each command immediately, and there are few.
    fn send(&self, command: PrivilegedCommand) -> io::Result<()> {
        packets::send(&self.0.socket, &command.bytes(), None)
    }

    fn waiting(&self) -> MutexGuard<'_, PendingReplies> {
        self.0.waiting.lock()
    }
}

impl PrivilegedProcess {
    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Whether the process may still run.
    pub(crate) fn is_running(&self) -> bool {
        !self.has_ended
    }

    /// Signals the process to end. On failure it has just ended.
    pub(crate) fn signal(&self, how: KillSignal) {
        if self.is_running() {
            let _ = self.line.send(PrivilegedCommand::Signal {
                pool: self.pool,
                process: self.id,
                how,
            });
        }
    }

    /// Waits for the end of the process, once. Cancel-safe. Errors: its end can no longer be determined.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        if self.has_ended {
            return Err(io::Error::other("its end was reported before"));
        }
        let status = (&mut self.end).await;
        self.has_ended = true;
        status.map_err(|_| connection_lost())
    }
}

impl Drop for PrivilegedProcess {
    fn drop(&mut self) {
        if self.line.ownership().is_ours() {
            self.signal(KillSignal::Kill);
        }
    }
}

/// The error of this number; `None` for 0.
fn errno_error(errno: u32) -> Option<io::Error> {
    let errno = i32::try_from(errno).ok().filter(|errno| *errno != 0);
    errno.map(io::Error::from_raw_os_error)
}

fn connection_lost() -> io::Error {
    io::Error::other("the privileged process has ended; restart Galley")
}
