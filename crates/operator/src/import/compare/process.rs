//! A process with its children. All of them are killed when this value is dropped.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

/// A server process with its workers.
pub(super) struct ProcessGroup {
    child: Child,
    /// The process group, whose id is that of the child.
    group: Option<Pid>,
    log: PathBuf,
}

impl ProcessGroup {
    /// Starts `command` in a separate group, so that an interrupt from the terminal does not reach it. The output is written to
    /// `log`.
    pub(super) fn start(mut command: Command, log: &Path) -> io::Result<Self> {
        let out = std::fs::File::create(log)?;
        command
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .process_group(0)
            .kill_on_drop(true);
        let child = command.spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Ok(Self {
            child,
            group: id.and_then(Pid::from_raw),
            log: log.to_owned(),
        })
    }

    /// Whether the process has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)) | Err(_))
    }

    /// The last lines of the output.
    pub(super) fn last_output(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let from = lines.len().saturating_sub(MAX_LINES);
        lines.get(from..).unwrap_or_default().join("\n")
    }

    /// Terminates the group, and kills the processes that remain.
    pub(super) async fn stop(mut self) {
        self.signal(Signal::TERM);
        let _ = tokio::time::timeout(TIMEOUT, self.child.wait()).await;
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // On failure the group is empty.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

const TIMEOUT: Duration = Duration::from_secs(5);
const MAX_LINES: usize = 20;
