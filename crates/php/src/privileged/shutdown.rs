//! Ends the privileged process, and reports whether it runs.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Child;

use rustix::net::sockopt::socket_peercred;
use rustix::process::{PidfdFlags, pidfd_open};
use tokio::net::unix::pipe;
use tokio::task::JoinHandle;

use super::KeeperChannel;
use crate::master::END_TIMEOUT;

/// Ends the privileged process.
#[derive(Debug)]
pub struct KeeperShutdown {
    line: KeeperChannel,
    task: JoinHandle<()>,
}

impl KeeperShutdown {
    /// For a privileged process that this process has started. Must be called within a runtime.
    pub(super) fn of_child(line: &KeeperChannel, mut child: Child) -> Self {
        Self::after(line, async move {
            // After the end of the connection, the process has ended or is cleaning up.
            let waited = tokio::task::spawn_blocking(move || child.wait()).await;
            if let Ok(Ok(status)) = waited {
                tracing::info!(%status, "the privileged process has ended");
            }
        })
    }

    /// For a privileged process that a previous Galley has started. Must be called within a runtime.
    pub(super) fn of_inherited(line: &KeeperChannel, process: pipe::Receiver) -> Self {
        Self::after(line, async move {
            let _ = process.readable().await;
            tracing::info!("the privileged process has ended");
        })
    }

    /// Reads the reports of the privileged process, and then waits for its end.
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

    /// Makes the privileged process end itself and its programs, and waits for that. If another Galley owns it, it continues for
    /// that one.
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

/// A receiver that becomes readable when the process that created the other end of a socket has ended. Must be called within
/// a runtime.
pub(super) fn end_of_peer(socket: &OwnedFd) -> io::Result<pipe::Receiver> {
    let process = socket_peercred(socket)?.pid;
    pipe::Receiver::from_owned_fd_unchecked(pidfd_open(process, PidfdFlags::NONBLOCK)?)
}

/// Whether the privileged process runs.
#[derive(Clone, Debug, Default)]
pub struct KeeperState(Option<KeeperChannel>);

impl KeeperState {
    /// The state of the process at the other end of a connection.
    pub fn of(line: Option<&KeeperChannel>) -> Self {
        Self(line.cloned())
    }

    /// `running` or `gone`; `None` if no privileged process is needed.
    pub fn word(&self) -> Option<&'static str> {
        let line = self.0.as_ref()?;
        Some(if line.is_up() { "running" } else { "gone" })
    }
}
