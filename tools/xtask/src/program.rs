//! A server program: Galley, nginx or any other server of a run, all started in the same way.
//!
//! It runs below `xtask hold`, which leads a separate process group and remains the parent of all processes of the program. Its output
//! goes to one log file. Dropping the handle stops it; if this process is killed, the kernel signals `xtask hold`.

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

use crate::error::CommandError;

/// A running program with its log.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts it in `dir`, with the affinity of this thread.
    pub(crate) fn start(line: &[String], dir: &Path) -> Result<Self, CommandError> {
        let (program, arguments) = line.split_first().ok_or("no program is given")?;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(dir);
        command.env("RUNTIME_DIRECTORY", dir);
        Self::spawn(&command, dir.join("program.log"))
    }

    /// Starts a command; its streams are ignored.
    pub(crate) fn spawn(command: &Command, log: PathBuf) -> Result<Self, CommandError> {
        let out = File::create(&log)?;
        let child = hold_command(command)?
            .stdin(Stdio::null())
            .stderr(out.try_clone()?)
            .stdout(out)
            .process_group(0)
            .spawn()?;
        Ok(Self { child, log })
    }

    /// The root of its process tree.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `addr` accepts connections.
    ///
    /// # Errors
    /// When the program exits or does not listen in time. The message has its log.
    pub(crate) fn wait_until_listening(&mut self, addr: SocketAddr) -> Result<(), CommandError> {
        let deadline = Instant::now() + START_TIMEOUT;
        while TcpStream::connect(addr).is_err() {
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("it exited with {status}:\n{}", self.log()).into());
            }
            if Instant::now() > deadline {
                return Err(format!("it does not listen on {addr}:\n{}", self.log()).into());
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// The text that it has written to stdout and stderr.
    pub(crate) fn log(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // `xtask hold` stops all processes below it, then itself.
        let pid = Pid::from_child(&self.child);
        let _ = kill_process(pid, Signal::TERM);
        let deadline = Instant::now() + STOP_TIMEOUT;
        // NOWAIT: the process is not reaped before its group is killed, so that the kernel does not reuse the process id.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::Pid(pid), options), Ok(None)) && Instant::now() < deadline {
            thread::sleep(PAUSE);
        }
        let _ = kill_process_group(pid, Signal::KILL);
        let _ = self.child.wait();
    }
}

/// A command that the kernel terminates when this thread exits.
pub(crate) fn with_parent_death_signal(line: &[String]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "--"]).args(line);
    command.env("PATH", path_with_sbin());
    command
}

/// The command `xtask hold`, which remains the parent of all processes that the program starts.
fn hold_command(held: &Command) -> Result<Command, CommandError> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["hold", "--"]).arg(held.get_program());
    command.args(held.get_args()).env("PATH", path_with_sbin());
    for (name, value) in held.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    if let Some(dir) = held.get_current_dir() {
        command.current_dir(dir);
    }
    Ok(command)
}

/// `PATH` with the sbin folders, which have the servers, but which Debian omits for ordinary users.
pub(crate) fn path_with_sbin() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{path}:/usr/local/sbin:/usr/sbin:/sbin")
}

const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Longer than `xtask hold` waits for the processes below it.
const STOP_TIMEOUT: Duration = Duration::from_secs(8);
const PAUSE: Duration = Duration::from_millis(5);
