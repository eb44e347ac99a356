//! The end of the process that keeps root, and whether it runs.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Child;

use rustix::net::sockopt::socket_peercred;
use rustix::process::{PidfdFlags, pidfd_open};
use tokio::net::unix::pipe;
use tokio::task::JoinHandle;

use super::KeeperChannel;
use crate::php::master::END_TIMEOUT;

/// Ends the process that keeps root.
#[derive(Debug)]
pub struct KeeperShutdown {
    line: KeeperChannel,
    task: JoinHandle<()>,
}

impl KeeperShutdown {
    /// Of a process that this one has started. Call within a runtime.
    pub(super) fn of_child(line: &KeeperChannel, mut child: Child) -> Self {
        Self::after(line, async move {
            // Only its number is left, or it cleans up.
            let waited = tokio::task::spawn_blocking(move || child.wait()).await;
            if let Ok(Ok(status)) = waited {
                tracing::info!(%status, "the privileged process has ended");
            }
        })
    }

    /// Of a process that a Galley before this one has started. Call within a runtime.
    pub(super) fn of_inherited(line: &KeeperChannel, process: pipe::Receiver) -> Self {
        Self::after(line, async move {
            let _ = process.readable().await;
            tracing::info!("the privileged process has ended");
        })
    }

    /// Reads the reports of the process, and then waits for its end.
    fn after(line: &KeeperChannel, end: impl Future<Output = ()> + Send + 'static) -> Self {
        let read = line.clone();
        let task = tokio::spawn(async move {
            read.read().await;
            if !read.is_closed() {
                tracing::error!(
                    "the privileged process has ended, and with it the PHP of all other users: their sites fail until Galley is restarted"
                );
            }
            end.await;
        });
        Self {
            line: line.clone(),
            task,
        }
    }

    /// Tells it to end and waits for that; it ends its programs. If another Galley has it, that one continues with both.
    pub async fn end(self) {
        self.line.close();
        if !self.line.ownership().is_ours() {
            return;
        }
        if tokio::time::timeout(END_TIMEOUT * 2, self.task)
            .await
            .is_err()
        {
            tracing::error!("the privileged process did not end in time");
        }
    }
}

/// Becomes readable when the process at the other end of a socket that it has made has ended. Call within a runtime.
pub(super) fn end_of_peer(socket: &OwnedFd) -> io::Result<pipe::Receiver> {
    let process = socket_peercred(socket)?.pid;
    pipe::Receiver::from_owned_fd_unchecked(pidfd_open(process, PidfdFlags::NONBLOCK)?)
}

/// Whether there is such a process.
#[derive(Clone, Debug, Default)]
pub struct KeeperState(Option<KeeperChannel>);

impl KeeperState {
    /// Of the process at the other end.
    pub fn of(line: Option<&KeeperChannel>) -> Self {
        Self(line.cloned())
    }

    /// `running` or `gone`; `None`: there is none, because none is needed.
    pub fn word(&self) -> Option<&'static str> {
        let line = self.0.as_ref()?;
        Some(if line.is_up() { "running" } else { "gone" })
    }
}
