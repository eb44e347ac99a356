//! The shell that ends the processes of Galley when Galley is gone.
//!
//! It waits on a pipe into which nothing is written, so `read` ends when the last process that holds the other end does.
//! During an upgrade two processes hold it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Stdio;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::process::{Child, Command};

use super::handover::{Ownership, PoolFolder};

/// A running watcher. Dropped, it is killed.
#[derive(Debug)]
pub(super) struct Watcher {
    process: OwnedFd,
    /// Its end is the watcher's signal.
    pipe: OwnedFd,
    /// Where this process has started it.
    child: Option<Child>,
    ownership: Ownership,
}

impl Watcher {
    /// Starts the shell that ends `group` when Galley is gone. Its own group, so that the terminal's interrupt does not reach it.
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

    /// The watcher that another process has started.
    pub(super) fn adopt(process: OwnedFd, pipe: OwnedFd, ownership: Ownership) -> Self {
        Self {
            process,
            pipe,
            child: None,
            ownership,
        }
    }

    /// Its process, for the next.
    pub(super) fn process(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }

    /// Its pipe, for the next.
    pub(super) fn pipe(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Ends it, and nothing else.
    pub(super) async fn end(mut self) {
        self.kill();
        if let Some(child) = &mut self.child {
            let _ = child.wait().await;
        }
    }

    fn kill(&self) {
        // An error says that it has ended.
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

/// A descriptor for a child of this process.
pub(super) fn pidfd(id: Option<u32>) -> io::Result<OwnedFd> {
    let pid = id.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let pid = pid.ok_or_else(|| io::Error::other("it ended before it was checked"))?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

pub(super) const SHELL: &str = "/bin/sh";

/// `$1`: the group, `$2`: the directory. SIGQUIT to the master alone: it lets its workers finish what they are writing to the
/// database. Only built-in commands of every POSIX shell, and `sleep` and `rm`.
const WATCH: &str = r#"
read -r line
kill -s QUIT "$1"
left=15
while [ "$left" -gt 0 ] && kill -s 0 -- "-$1"; do sleep 1; left=$((left - 1)); done
kill -s KILL -- "-$1"
rm -f -- "$2/fpm.sock" "$2/fpm.conf"
rmdir -- "$2"
"#;
