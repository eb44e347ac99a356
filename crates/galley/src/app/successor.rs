//! Starts the process that takes over from this one, and sends messages to it.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use galley_config::write_duration;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::binary_upgrade::{
    ENVIRONMENT, QuicHeritage, ReceivedMessage, UpgradeChannel, UpgradeMessage,
};
use galley_admin::UpgradeError;
use galley_purging::RelayedPurges;
use galley_server::QuicRouter;
use galley_sys::packets;

/// The path and arguments with which this process was started. The file may have been replaced by another version since then.
pub(super) struct Program {
    path: Option<PathBuf>,
    arguments: Vec<OsString>,
}

/// A process that serves visitors while this one drains.
pub(super) struct Successor {
    pub(super) starting: StartingProcess,
    pub(super) purges: RelayedPurges,
    /// The folders of the PHP-FPMs that it takes over.
    pub(super) pools: Vec<PathBuf>,
    pub(super) pages: u64,
}

/// A process that has not yet reported that it serves. Killed when this is dropped.
pub(super) struct StartingProcess {
    child: Child,
    pub(super) channel: UpgradeChannel,
    pub(super) serves: bool,
}

impl Program {
    pub(super) fn this() -> Self {
        let mut arguments = std::env::args_os();
        let name = arguments.next().map(PathBuf::from);
        // The path as it was given, which may be a link to another version by now.
        let program = name.filter(|name| name.components().count() > 1);
        let program = program.and_then(|name| std::path::absolute(name).ok());
        Self {
            path: program.or_else(|| std::env::current_exe().ok()),
            arguments: arguments.collect(),
        }
    }

    /// Starts the program, with one end of a channel as standard input.
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
        for name in SOCKET_VARIABLES {
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
    /// The process id; 0 if the process has ended.
    pub(super) fn id(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    /// Waits for the next message, at most as long as `limit`.
    pub(super) async fn receive(
        &mut self,
        limit: Duration,
    ) -> Result<UpgradeMessage, UpgradeError> {
        let Ok(received) = timeout(limit, self.channel.receive()).await else {
            let why = format!("the new process sent nothing for {}", write_duration(limit));
            return Err(UpgradeError::Failed(why));
        };
        let why = match received {
            Ok(ReceivedMessage {
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
                match timeout(END_TIMEOUT, self.child.wait()).await {
                    Ok(Ok(status)) => format!("the new process ended ({status})"),
                    _ => "the new process does not respond".to_owned(),
                }
            }
            Err(error) => format!("the new process sent an invalid message: {error}"),
        };
        Err(UpgradeError::Failed(why))
    }

    /// Sends a message. The error is the reason why it cannot be sent.
    pub(super) async fn send(
        &self,
        message: UpgradeMessage,
        carried: &[BorrowedFd<'_>],
    ) -> Result<(), String> {
        let sent = timeout(SEND_TIMEOUT, self.channel.send(message, carried)).await;
        match sent {
            Ok(Ok(())) => Ok(()),
            // An earlier message from the new process is more precise.
            Ok(Err(error)) => Err(format!("cannot reach the new process: {error}")),
            Err(_) => Err("the new process accepts no message".to_owned()),
        }
    }

    /// Sends the keys of HTTP/3, and a line over which the other process returns the datagrams of this one's connections.
    pub(super) async fn send_quic(&self, router: &Arc<QuicRouter>) -> Result<(), String> {
        let (secret, epoch) = router.heritage();
        let heritage = QuicHeritage {
            secret: secret.bytes(),
            epoch,
        };
        let line = galley_server::forwarding_line();
        let (here, there) = line.map_err(|error| error.to_string())?;
        self.send(UpgradeMessage::Quic(heritage), &[there.as_fd()])
            .await?;
        let router = Arc::clone(router);
        // It ends when the other process has closed its end, or with this process.
        let serving = std::thread::Builder::new().name("quic-forward".to_owned());
        let serving = serving.spawn(move || router.serve_successor(&here));
        serving.map(|_| ()).map_err(|error| error.to_string())
    }

    /// Kills the process and waits for its end, so that its locks are free.
    pub(super) async fn kill(mut self) {
        let _ = timeout(END_TIMEOUT, self.child.kill()).await;
    }
}

impl Drop for StartingProcess {
    fn drop(&mut self) {
        if !self.serves {
            let _ = self.child.start_kill();
        }
    }
}

/// Variables of systemd that apply to one process only.
const SOCKET_VARIABLES: [&str; 3] = ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"];

/// The time limit for sending a message. A new process that does not read by then is faulty.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);

/// The time limit for the end of a killed process.
const END_TIMEOUT: Duration = Duration::from_secs(5);
