//! The shell that ends the managed processes when Galley has ended.
//!
//! The shell waits on a pipe to which nothing is written, so that `read` ends when the last process that holds the other end does.
//! During an upgrade two processes hold it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Stdio;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::process::{Child, Command};

use super::handover::{Ownership, PoolFolder};

/// A running watcher. Killed when this is dropped.
#[derive(Debug)]
pub(super) struct Watcher {
    process: OwnedFd,
    /// The pipe whose end signals Galley's end to the watcher.
    pipe: OwnedFd,
    /// The child, if this process has started the watcher.
    child: Option<Child>,
    ownership: Ownership,
}

impl Watcher {
    /// Starts the shell that ends `group` when Galley has ended. It has a separate group, so that an interrupt from the terminal
    /// does not reach it.
    pub(super) fn start(group: u32, directory: &PoolFolder) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let mut command = Command::new(SHELL);
        command
            .args(["-c", WATCH, "galley-php-watcher"])
            .arg(group.to_string())
            .arg(directory.path())
            .current_dir("/");
        command
            .stdin(reader)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let child = command.spawn()?;
        Ok(Self {
            process: pidfd(child.id())?,
            pipe: writer.into(),
            child: Some(child),
            ownership: directory.ownership.clone(),
        })
    }

    /// Takes over a watcher that another process has started.
    pub(super) fn adopt(process: OwnedFd, pipe: OwnedFd, ownership: Ownership) -> Self {
        Self {
            process,
            pipe,
            child: None,
            ownership,
        }
    }

    /// The process descriptor, for the next Galley.
    pub(super) fn process(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }

    /// The pipe, for the next Galley.
    pub(super) fn pipe(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Ends only the watcher, not the group.
    pub(super) async fn end(mut self) {
        self.kill();
        if let Some(child) = &mut self.child {
            let _ = child.wait().await;
        }
    }

    fn kill(&self) {
        // On failure it has ended already.
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if self.ownership.is_ours() {
            self.kill();
        }
    }
}

/// A process descriptor for a child of this process.
pub(super) fn pidfd(id: Option<u32>) -> io::Result<OwnedFd> {
    let pid = id.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let pid = pid.ok_or_else(|| io::Error::other("it ended before it was checked"))?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

pub(super) const SHELL: &str = "/bin/sh";

/// `$1`: the group, `$2`: the folder. SIGQUIT is sent to the master only, which lets its workers finish what they are writing
/// to the database. Uses only built-in commands of every POSIX shell, `sleep` and `rm`.
const WATCH: &str = r#"
read -r line
kill -s QUIT "$1"
left=15
while [ "$left" -gt 0 ] && kill -s 0 -- "-$1"; do sleep 1; left=$((left - 1)); done
kill -s KILL -- "-$1"
rm -f -- "$2/fpm.sock" "$2/fpm.conf"
rmdir -- "$2"
"#;
