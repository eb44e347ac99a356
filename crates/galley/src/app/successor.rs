//! The process that takes over from this one: how it is started, and the messages to it.

use std::ffi::OsString;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::admin::UpgradeError;
use crate::binary_upgrade::{ENVIRONMENT, Received, UpgradeChannel, UpgradeMessage};
use crate::durable::RelayedPurges;
use crate::sys::packets;

/// The program of this process, as it was started: another version may be there since.
pub(super) struct Program {
    path: Option<PathBuf>,
    arguments: Vec<OsString>,
}

/// A process that answers visitors beside this one.
pub(super) struct Successor {
    pub(super) starting: StartingProcess,
    pub(super) purges: RelayedPurges,
    /// Of the PHP-FPMs that it takes over.
    pub(super) pools: Vec<PathBuf>,
    pub(super) pages: u64,
}

/// A process that is not known to serve. Dropped, it is killed.
pub(super) struct StartingProcess {
    child: Child,
    pub(super) channel: UpgradeChannel,
    pub(super) serves: bool,
}

impl Program {
    pub(super) fn this() -> Self {
        let mut arguments = std::env::args_os();
        let name = arguments.next().map(PathBuf::from);
        // By the name that was given, which may be a link to another version by now.
        let named = name.filter(|name| name.components().count() > 1);
        let named = named.and_then(|name| std::path::absolute(name).ok());
        Self {
            path: named.or_else(|| std::env::current_exe().ok()),
            arguments: arguments.collect(),
        }
    }

    /// Starts it, with one end of a channel as standard input.
    pub(super) fn start(&self) -> Result<StartingProcess, String> {
        let path = self
            .path
            .as_deref()
            .ok_or("the path of the program is unknown")?;
        let failed = |error: io::Error| format!("cannot start `{}`: {error}", path.display());
        let (ours, theirs) = packets::pair().map_err(failed)?;
        let mut command = Command::new(path);
        let pid = std::process::id().to_string();
        command.args(&self.arguments).env(ENVIRONMENT, pid);
        for name in OF_SOCKETS {
            command.env_remove(name);
        }
        command.stdin(Stdio::from(theirs));
        let child = command.spawn().map_err(failed)?;
        Ok(StartingProcess {
            child,
            channel: UpgradeChannel::new(ours).map_err(failed)?,
            serves: false,
        })
    }
}

impl StartingProcess {
    /// Process id; 0 of one that has ended.
    pub(super) fn id(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    /// The next message within `patience`.
    pub(super) async fn receive(
        &mut self,
        patience: Duration,
    ) -> Result<UpgradeMessage, UpgradeError> {
        let Ok(received) = timeout(patience, self.channel.receive()).await else {
            let why = format!("the new process sent nothing for {patience:?}");
            return Err(UpgradeError::Failed(why));
        };
        let why = match received {
            Ok(Received {
                message: UpgradeMessage::Failed { why, needs_restart },
                ..
            }) => {
                return Err(if needs_restart {
                    UpgradeError::NeedsRestart(why)
                } else {
                    UpgradeError::Failed(why)
                });
            }
            Ok(received) => return Ok(received.message),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                match timeout(END_PATIENCE, self.child.wait()).await {
                    Ok(Ok(status)) => format!("the new process ended ({status})"),
                    _ => "the new process does not respond".to_owned(),
                }
            }
            Err(error) => format!("the new process sent an invalid message: {error}"),
        };
        Err(UpgradeError::Failed(why))
    }

    /// Sends a message. Errors say why it cannot be sent.
    pub(super) async fn send(
        &self,
        message: UpgradeMessage,
        carried: &[BorrowedFd<'_>],
    ) -> Result<(), String> {
        let sent = timeout(SEND_PATIENCE, self.channel.send(message, carried)).await;
        match sent {
            Ok(Ok(())) => Ok(()),
            // An earlier message of it is more precise.
            Ok(Err(error)) => Err(format!("cannot reach the new process: {error}")),
            Err(_) => Err("the new process accepts no message".to_owned()),
        }
    }

    /// Kills it, and waits for that: its locks are free then.
    pub(super) async fn kill(mut self) {
        let _ = timeout(END_PATIENCE, self.child.kill()).await;
    }
}

impl Drop for StartingProcess {
    fn drop(&mut self) {
        if !self.serves {
            let _ = self.child.start_kill();
        }
    }
}

/// What systemd says to one process alone.
const OF_SOCKETS: [&str; 3] = ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"];

/// A new process that reads nothing has a fault.
const SEND_PATIENCE: Duration = Duration::from_secs(30);

/// A process that was killed ends at once.
const END_PATIENCE: Duration = Duration::from_secs(5);
