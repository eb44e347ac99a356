//! A main process of what Galley runs, whoever started it: Galley itself, or the process that keeps root for it.
//!
//! It leads a process group. Dropped, it is killed, and with it the group where it is not Galley's child.

use std::io;
use std::process::ExitStatus;

use galley_privileged::How;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::Child;

use super::privileged;

#[derive(Debug)]
pub(super) enum MasterProcess {
    /// A child of Galley, of this group.
    Own(Child, Pid),
    /// A child of the process that keeps root.
    Kept(privileged::PrivilegedProcess),
}

impl MasterProcess {
    /// Process id.
    pub(super) fn id(&self) -> u32 {
        match self {
            Self::Own(_, group) => group.as_raw_nonzero().get().unsigned_abs(),
            Self::Kept(process) => process.id(),
        }
    }

    /// Whether its number is its own still.
    pub(super) fn is_running(&self) -> bool {
        match self {
            Self::Own(child, _) => child.id().is_some(),
            Self::Kept(process) => process.is_running(),
        }
    }

    /// Waits for its end. Cancel-safe.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        match self {
            Self::Own(child, _) => child.wait().await,
            Self::Kept(process) => process.wait().await,
        }
    }

    /// Tells it, and nobody else of its group, to end. An error would say that it has just ended.
    pub(super) fn signal(&self, how: How) {
        match self {
            Self::Own(child, group) => {
                let signal = match how {
                    How::Quit => Signal::QUIT,
                    How::Terminate => Signal::TERM,
                    How::Kill => return self.kill_group(),
                };
                if child.id().is_some() {
                    let _ = kill_process(*group, signal);
                }
            }
            Self::Kept(process) => process.signal(how),
        }
    }

    /// Also reaches what is left of a group whose leader is gone; the number is theirs as long as one of them lives. With
    /// none left the kernel says so, and the number cannot have been given out anew within the moment since. What the process
    /// that keeps root has told the end of has no group any more.
    pub(super) fn kill_group(&self) {
        match self {
            Self::Own(_, group) => {
                let _ = kill_process_group(*group, Signal::KILL);
            }
            Self::Kept(process) => process.signal(How::Kill),
        }
    }
}
