//! Child processes that never outlive this process.
//!
//! Each service is the leader of a separate process group. So Ctrl-C at the terminal reaches only this process, and the whole
//! group (workers, CGI scripts) can be killed together. A watcher, which is a short shell script, runs for each service. It
//! reads from a pipe whose other end only this process has open. If this process ends for any reason, the pipe closes and the
//! watcher ends the group. So no process remains after a crash, if the test runner is killed, or if a static is never dropped.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use crate::{
    error::{Context, TestkitError},
    wait::poll_until,
};

/// How dropping the handle of a service ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopMode {
    /// SIGTERM, followed by SIGKILL if the service has not ended after this time.
    Terminate(Duration),
    /// SIGKILL, for services without state that must be saved.
    Kill,
}

/// A running program with its log.
#[derive(Debug)]
pub(crate) struct Service {
    name: &'static str,
    child: Child,
    watcher: Child,
    log: Option<PathBuf>,
    stop_mode: StopMode,
    status: Option<ExitStatus>,
}

impl Service {
    /// Starts `command` and appends its stdout and stderr to the file `log`.
    pub(crate) fn spawn(
        name: &'static str,
        command: &mut Command,
        log: &Path,
        stop_mode: StopMode,
    ) -> Result<Self, TestkitError> {
        let out = open_for_append(log)?;
        let err = out.try_clone().context("share a log file")?;
        command.stdout(out).stderr(err);
        let mut service = Self::spawn_with_outputs(name, command, stop_mode)?;
        service.log = Some(log.to_owned());
        Ok(service)
    }

    /// Starts `command`, with stdout and stderr as set by the caller.
    pub(crate) fn spawn_with_outputs(
        name: &'static str,
        command: &mut Command,
        stop_mode: StopMode,
    ) -> Result<Self, TestkitError> {
        command.stdin(Stdio::null()).process_group(0);
        let mut child = command.spawn().context(format_args!(
            "start {name} ({})",
            command.get_program().display()
        ))?;
        let watcher = watch(child.id()).inspect_err(|_| {
            // The service must not run without a watcher.
            let _ = child.kill();
            let _ = child.wait();
        })?;
        Ok(Self {
            name,
            child,
            watcher,
            log: None,
            stop_mode,
            status: None,
        })
    }

    /// The child process, for access to its pipes.
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `condition` is true; fails immediately if the program ends.
    pub(crate) fn wait_until(
        &mut self,
        what: &str,
        timeout: Duration,
        mut condition: impl FnMut() -> bool,
    ) -> Result<(), TestkitError> {
        let mut ended = false;
        let is_true = poll_until(timeout, || {
            ended = self.has_ended();
            ended || condition()
        });
        if ended {
            let status = self.reap()?;
            return Err(TestkitError::Ended {
                program: self.name.to_owned(),
                status: status.to_string(),
                log: self.log_tail(),
            });
        }
        if is_true {
            return Ok(());
        }
        Err(TestkitError::Timeout {
            what: format!("{} ({})", what, self.name),
            timeout,
            log: self.log_tail(),
        })
    }

    /// True once the program has ended, for any reason. Does not reap it, so that its group can still be signaled.
    pub(crate) fn has_ended(&self) -> bool {
        if self.status.is_some() {
            return true;
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match rustix::process::waitid(WaitId::Pid(self.group()), options) {
            Ok(state) => state.is_some(),
            Err(_) => true,
        }
    }

    /// Sends a signal to the program, not to its group. Does nothing if the program has ended.
    pub(crate) fn signal(&self, signal: Signal) {
        if !self.has_ended() {
            let _ = rustix::process::kill_process(self.group(), signal);
        }
    }

    /// Sends SIGTERM and returns the exit status.
    ///
    /// # Errors
    /// [`TestkitError::Timeout`] if the program does not end in time; it is killed first.
    pub(crate) fn stop(&mut self, timeout: Duration) -> Result<ExitStatus, TestkitError> {
        self.signal(Signal::TERM);
        let in_time = poll_until(timeout, || self.has_ended());
        let log = self.log_tail();
        let status = self.reap()?;
        if in_time {
            Ok(status)
        } else {
            Err(TestkitError::Timeout {
                what: format!("{} to end after SIGTERM", self.name),
                timeout,
                log,
            })
        }
    }

    /// Sends SIGKILL to the whole group and waits until it has ended.
    pub(crate) fn kill(&mut self) {
        let _ = self.reap();
    }

    /// The last lines of the log.
    pub(crate) fn log_tail(&self) -> String {
        self.log.as_deref().map(tail).unwrap_or_default()
    }

    /// Kills the rest of the group, then reaps the leader. The order matters: the kernel cannot reuse the process id before
    /// the leader is reaped.
    fn reap(&mut self) -> Result<ExitStatus, TestkitError> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        let _ = rustix::process::kill_process_group(self.group(), Signal::KILL);
        let status = self
            .child
            .wait()
            .context(format_args!("wait for {}", self.name))?;
        self.status = Some(status);
        // Workers have sockets and files open until they have ended.
        let group = self.child.id();
        poll_until(GROUP_TIMEOUT, || !group_is_running(group));
        if let Some(mut pipe) = self.watcher.stdin.take() {
            let _ = pipe.write_all(b"done\n");
        }
        let _ = self.watcher.wait();
        Ok(status)
    }

    fn group(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = match self.stop_mode {
            StopMode::Terminate(timeout) => self.stop(timeout).map(drop),
            StopMode::Kill => self.reap().map(drop),
        };
    }
}

fn watch(pid: u32) -> Result<Child, TestkitError> {
    Command::new("/bin/sh")
        .args(["-c", WATCHER, "galley-testkit-watcher", &pid.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .context("start a watcher")
}

/// Ends process group $1 when stdin closes without a line. Starts with SIGTERM, so that a database writes its pages.
const WATCHER: &str = r#"
read -r line && exit 0
kill -TERM "$1"
attempts=0
while kill -0 "$1" && [ $attempts -lt 50 ]; do sleep 0.1; attempts=$((attempts + 1)); done
kill -KILL "-$1"
"#;

/// Runs a program and returns its stdout. There is no deadline, so it is only for known tools that end soon.
///
/// # Errors
/// [`TestkitError::Ended`] with stdout and stderr if the program fails.
pub(crate) fn run(name: &str, command: &mut Command) -> Result<String, TestkitError> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .context(format_args!("start {name}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let log = format!("{text}{}", String::from_utf8_lossy(&output.stderr));
    Err(TestkitError::Ended {
        program: name.to_owned(),
        status: output.status.to_string(),
        log,
    })
}

/// Writes an executable file without opening it for writing in this process. Otherwise a concurrent fork of another thread
/// could inherit the descriptor, and the kernel refuses to execute a file that is open for writing ("text file busy").
pub(crate) fn write_executable(path: &Path, text: &str) -> Result<(), TestkitError> {
    let mut shell = Command::new("/bin/sh")
        .args(["-c", r#"cat > "$0" && chmod 755 "$0""#])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .context("start a shell")?;
    if let Some(mut pipe) = shell.stdin.take() {
        pipe.write_all(text.as_bytes())
            .context(format_args!("write {}", path.display()))?;
    }
    let status = shell.wait().context("wait for a shell")?;
    if status.success() {
        return Ok(());
    }
    Err(TestkitError::Ended {
        program: format!("writing {}", path.display()),
        status: status.to_string(),
        log: String::new(),
    })
}

fn open_for_append(path: &Path) -> Result<fs::File, TestkitError> {
    let result: io::Result<fs::File> = OpenOptions::new().create(true).append(true).open(path);
    result.context(format_args!("open {}", path.display()))
}

/// The last lines of a file; empty if it cannot be read.
pub(crate) fn tail(path: &Path) -> String {
    let text = fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(TAIL_LINES);
    lines.get(from..).unwrap_or_default().join("\n")
}

/// True while a process of this group runs. Zombies do not count, because without an init process, as in containers, they are
/// never reaped.
fn group_is_running(group: u32) -> bool {
    let Ok(entries) = fs::read_dir("/proc") else {
        return false;
    };
    entries.flatten().any(|entry| {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        group_of_running(&stat) == Some(group)
    })
}

/// The group of a process from its `/proc/PID/stat`, if it is not a zombie.
fn group_of_running(stat: &str) -> Option<u32> {
    // "pid (name) state ppid pgrp ...", and the name may contain any characters.
    let mut fields = stat.rsplit(") ").next()?.split(' ');
    let state = fields.next()?;
    let group = fields.nth(1)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(group)
}

const TAIL_LINES: usize = 40;
const GROUP_TIMEOUT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::Scratch;

    const TIMEOUT: Duration = Duration::from_secs(60);

    fn shell(script: &str, log: &Path, stop_mode: StopMode) -> Service {
        Service::spawn(
            "shell",
            Command::new("/bin/sh").args(["-c", script]),
            log,
            stop_mode,
        )
        .unwrap()
    }

    fn is_running(pid: &str) -> bool {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        group_of_running(&stat).is_some()
    }

    #[test]
    fn dropping_the_handle_ends_the_whole_group() {
        let scratch = Scratch::new().unwrap();
        let pid_file = scratch.join("grandchild");
        let script = format!("sleep 600 & echo $! > {}; wait", pid_file.display());
        let mut service = shell(&script, &scratch.join("log"), StopMode::Kill);
        let read = || {
            fs::read_to_string(&pid_file)
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        service
            .wait_until("the grandchild", TIMEOUT, || !read().is_empty())
            .unwrap();
        let grandchild = read();
        assert!(is_running(&grandchild));
        drop(service);
        assert!(!is_running(&grandchild), "still running after the drop");
    }

    #[test]
    fn a_program_that_ignores_sigterm_is_killed_after_the_timeout() {
        let scratch = Scratch::new().unwrap();
        let mut service = shell(
            "trap '' TERM; echo up; while :; do sleep 0.05; done",
            &scratch.join("log"),
            StopMode::Kill,
        );
        service
            .wait_until("the first output", TIMEOUT, || {
                tail(&scratch.join("log")) == "up"
            })
            .unwrap();
        let start = Instant::now();
        let error = service.stop(Duration::from_millis(50)).unwrap_err();
        assert!(error.is_timeout(), "{error}");
        assert!(start.elapsed() < TIMEOUT);
        assert!(service.has_ended());
    }

    #[test]
    fn the_log_of_a_program_that_fails_to_start_is_reported() {
        let scratch = Scratch::new().unwrap();
        let mut service = shell(
            "echo out of paper; exit 3",
            &scratch.join("log"),
            StopMode::Kill,
        );
        let error = service
            .wait_until("readiness", TIMEOUT, || false)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("out of paper") && error.contains('3'),
            "{error}"
        );
    }

    #[test]
    fn the_watcher_ends_the_group_when_its_pipe_closes() {
        let mut orphan = Command::new("/bin/sleep")
            .arg("600")
            .process_group(0)
            .spawn()
            .unwrap();
        let mut watcher = watch(orphan.id()).unwrap();
        // As when the owner ends: the kernel closes the pipe without a line.
        drop(watcher.stdin.take());
        assert!(!orphan.wait().unwrap().success());
        watcher.wait().unwrap();
    }
}
