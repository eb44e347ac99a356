//! A program that runs for the length of a run: its log in a file, its end with its handle, or with us.

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

/// A running program; leads its own process group.
pub(super) struct Program {
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts `command`; the kernel ends it should this process die without a word.
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
        // Ordinary users of Debian have no sbin in their PATH, and servers are there.
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

    /// The same, when something accepts connections at `addr`.
    pub(super) fn listening(mut self, addr: SocketAddr) -> Result<Self, CommandError> {
        let deadline = Instant::now() + TIMEOUT;
        while TcpStream::connect(addr).is_err() {
            let ended = self.child.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                let log = fs::read_to_string(&self.log).unwrap_or_default();
                return Err(format!("nothing listens on {addr}; {ended:?}\n{log}").into());
            }
            thread::sleep(PAUSE);
        }
        Ok(self)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.child);
        let _ = kill_process_group(group, Signal::TERM);
        let deadline = Instant::now() + FAREWELL;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(PAUSE);
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill_process_group(group, Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

const TIMEOUT: Duration = Duration::from_secs(30);
const FAREWELL: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);
