//! A program in front of the backend: nginx, Galley and any other contender, all started in the same way.
//!
//! It runs below `xtask hold`, which leads a process group of its own and stays the parent of all that it starts; its
//! outputs go to one log file, and it ends with its handle. Should this process die without a word, the kernel
//! tells the holder.

use std::{
    fs::{self, File},
    net::{SocketAddr, TcpStream},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};

use crate::demo::CommandError;

/// A running program with its log.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts it in `dir`, on the cores that this thread has.
    pub(crate) fn start(line: &[String], dir: &Path) -> Result<Self, CommandError> {
        let log = dir.join("front.log");
        let out = File::create(&log)?;
        let child = held(line)?
            .current_dir(dir)
            .env("RUNTIME_DIRECTORY", dir)
            .stdin(Stdio::null())
            .stderr(out.try_clone()?)
            .stdout(out)
            .process_group(0)
            .spawn()?;
        Ok(Self { child, log })
    }

    /// The process that all of its processes hang below.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until something accepts connections at `addr`.
    ///
    /// # Errors
    /// With its log when it ends instead, or does not listen in time.
    pub(crate) fn wait_until_listening(&mut self, addr: SocketAddr) -> Result<(), CommandError> {
        let deadline = Instant::now() + START_PATIENCE;
        while TcpStream::connect(addr).is_err() {
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("it ended with {status}:\n{}", self.log()).into());
            }
            if Instant::now() > deadline {
                return Err(format!("it does not listen on {addr}:\n{}", self.log()).into());
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// All that it has written to its outputs.
    pub(crate) fn log(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The holder ends all that it holds, and then itself.
        let pid = Pid::from_child(&self.child);
        let _ = kill_process(pid, Signal::TERM);
        let deadline = Instant::now() + STOP_PATIENCE;
        // Not reaped yet: until the group is killed its number must not go to a stranger.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::Pid(pid), options), Ok(None)) && Instant::now() < deadline {
            thread::sleep(PAUSE);
        }
        let _ = kill_process_group(pid, Signal::KILL);
        let _ = self.child.wait();
    }
}

/// A command that the kernel ends when this thread does.
pub(crate) fn ending_with_us(line: &[String]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "--"]).args(line);
    command.env("PATH", with_sbin());
    command
}

/// A command that stays the parent of all that the program starts: `xtask hold`.
fn held(line: &[String]) -> Result<Command, CommandError> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["hold", "--"]).args(line);
    command.env("PATH", with_sbin());
    Ok(command)
}

/// Ordinary users of Debian have no sbin in their PATH, and servers are there.
pub(crate) fn with_sbin() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{path}:/usr/local/sbin:/usr/sbin:/sbin")
}

const START_PATIENCE: Duration = Duration::from_secs(30);
/// More than the holder gives to what it holds.
const STOP_PATIENCE: Duration = Duration::from_secs(8);
const PAUSE: Duration = Duration::from_millis(5);
