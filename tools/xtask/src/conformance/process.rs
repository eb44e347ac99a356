//! A server process of a run, with its log in a file. It is stopped when its handle is dropped, or when this process exits.

use std::{
    fs::{self, File},
    net::{SocketAddr, TcpStream},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::demo::CommandError;

/// A running process in a separate process group.
pub(super) struct SuiteProcess {
    child: Child,
    log: PathBuf,
}

impl SuiteProcess {
    /// Starts `command`. The kernel terminates it if this process is killed.
    pub(super) fn start(command: &Command, log: &Path) -> Result<Self, CommandError> {
        let out = File::create(log)?;
        let mut line = Command::new("setpriv");
        line.args(["--pdeathsig", "TERM", "--"])
            .arg(command.get_program())
            .args(command.get_args());
        for (name, value) in command.get_envs() {
            line.env(name, value.unwrap_or_default());
        }
        if let Some(dir) = command.get_current_dir() {
            line.current_dir(dir);
        }
        // Debian has servers in sbin, and omits sbin from the PATH of ordinary users.
        let path = std::env::var("PATH").unwrap_or_default();
        let child = line
            .env("PATH", format!("{path}:/usr/local/sbin:/usr/sbin:/sbin"))
            .stdin(Stdio::null())
            .stderr(out.try_clone()?)
            .stdout(out)
            .process_group(0)
            .spawn()?;
        Ok(Self {
            child,
            log: log.to_owned(),
        })
    }

    /// Waits until `addr` accepts connections.
    pub(super) fn wait_until_listening(mut self, addr: SocketAddr) -> Result<Self, CommandError> {
        let deadline = Instant::now() + START_TIMEOUT;
        while TcpStream::connect(addr).is_err() {
            let exited = self.child.try_wait()?;
            if exited.is_some() || Instant::now() > deadline {
                let log = fs::read_to_string(&self.log).unwrap_or_default();
                return Err(
                    format!("nothing listens on {addr}; exit status {exited:?}\n{log}").into(),
                );
            }
            thread::sleep(PAUSE);
        }
        Ok(self)
    }
}

impl Drop for SuiteProcess {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.child);
        let _ = kill_process_group(group, Signal::TERM);
        let deadline = Instant::now() + STOP_TIMEOUT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(PAUSE);
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill_process_group(group, Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

const START_TIMEOUT: Duration = Duration::from_secs(30);
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);
