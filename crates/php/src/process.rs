//! A main process, started by Galley itself or by the privileged process.
//!
//! The process leads a process group. When this value is dropped, the process is killed, and also its group if it is not a child of
//! Galley.

use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitStatus;

use galley_privileged::KillSignal;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, pidfd_send_signal};
use tokio::net::unix::pipe;
use tokio::process::Child;

use super::privileged;

#[derive(Debug)]
pub(super) enum MasterProcess {
    /// A child of Galley, and its group.
    Own(Child, Pid),
    /// A child of the privileged process.
    Kept(privileged::PrivilegedProcess),
    /// A child of the previous Galley process.
    Adopted(AdoptedProcess),
}

/// A process that another Galley has started, and that leads its group.
#[derive(Debug)]
pub(super) struct AdoptedProcess {
    /// Becomes readable when the process ends, like a pipe; tokio has no separate type for it.
    descriptor: pipe::Receiver,
    group: Pid,
    has_ended: bool,
}

impl AdoptedProcess {
    /// Must be called within a runtime.
    pub(super) fn new(id: u32, descriptor: OwnedFd) -> io::Result<Self> {
        let group = i32::try_from(id).ok().and_then(Pid::from_raw);
        Ok(Self {
            descriptor: pipe::Receiver::from_owned_fd_unchecked(descriptor)?,
            group: group.ok_or_else(|| io::Error::other("it has no process id"))?,
            has_ended: false,
        })
    }

    /// Waits for the end. Returns an error instead of the status, which only the parent can read.
    async fn wait(&mut self) -> io::Result<ExitStatus> {
        if !self.has_ended {
            self.descriptor.readable().await?;
            self.has_ended = true;
        }
        Err(io::Error::other("the previous process started it"))
    }

    fn signal(&self, signal: Signal) {
        let _ = pidfd_send_signal(&self.descriptor, signal);
    }
}

impl MasterProcess {
    /// The process id.
    pub(super) fn id(&self) -> u32 {
        match self {
            Self::Own(_, group) => group.as_raw_nonzero().get().unsigned_abs(),
            Self::Kept(process) => process.id(),
            Self::Adopted(process) => process.group.as_raw_nonzero().get().unsigned_abs(),
        }
    }

    /// Whether the process has not been reaped, so that its id cannot have been reused.
    pub(super) fn is_running(&self) -> bool {
        match self {
            Self::Own(child, _) => child.id().is_some(),
            Self::Kept(process) => process.is_running(),
            Self::Adopted(process) => !process.has_ended,
        }
    }

    /// Waits for the end of the process. Cancel-safe.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        match self {
            Self::Own(child, _) => child.wait().await,
            Self::Kept(process) => process.wait().await,
            Self::Adopted(process) => process.wait().await,
        }
    }

    /// Signals the process to end, but not its group. On failure it has just ended.
    pub(super) fn signal(&self, how: KillSignal) {
        let signal = match how {
            KillSignal::Quit => Signal::QUIT,
            KillSignal::Terminate => Signal::TERM,
            KillSignal::Kill => return self.kill_group(),
        };
        match self {
            Self::Own(child, group) => {
                if child.id().is_some() {
                    let _ = kill_process(*group, signal);
                }
            }
            Self::Kept(process) => process.signal(how),
            Self::Adopted(process) => process.signal(signal),
        }
    }

    /// Kills the group, even if its leader has ended: the id belongs to the group as long as a member exists. If none
    /// is left, the kernel reports that, and the id cannot have been reused in such a short time. A process whose end the
    /// privileged process has reported has no group any more.
    pub(super) fn kill_group(&self) {
        match self {
            Self::Own(_, group) | Self::Adopted(AdoptedProcess { group, .. }) => {
                let _ = kill_process_group(*group, Signal::KILL);
            }
            Self::Kept(process) => process.signal(KillSignal::Kill),
        }
    }
}
