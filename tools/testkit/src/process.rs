//! A child process that never outlives its owner.
//!
//! Each service is the leader of its own process group: Ctrl-C at the terminal reaches the owner alone, and the whole
//! group (workers, CGI scripts) can be ended at once. Beside each service runs a watcher, a few lines of shell that read
//! from a pipe whose other end only the owner holds: when the owner dies, however it dies, the pipe closes and the watcher
//! ends the group. So statics that are never dropped, a killed test runner and a crash all leave nothing behind.

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

/// How a part is asked to end when its handle is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Farewell {
    /// SIGTERM, and SIGKILL when it has not ended after this long.
    Ask(Duration),
    /// SIGKILL at once: nothing it holds is wanted any more.
    Kill,
}

/// A running program with its log.
#[derive(Debug)]
pub(crate) struct Service {
    name: &'static str,
    child: Child,
    watcher: Child,
    log: Option<PathBuf>,
    farewell: Farewell,
    status: Option<ExitStatus>,
}

impl Service {
    /// Starts `command` with both its outputs appended to the file `log`.
    pub(crate) fn spawn(
        name: &'static str,
        command: &mut Command,
        log: &Path,
        farewell: Farewell,
    ) -> Result<Self, TestkitError> {
        let out = appending(log)?;
        let err = out.try_clone().context("share a log file")?;
        command.stdout(out).stderr(err);
        let mut service = Self::spawn_as_is(name, command, farewell)?;
        service.log = Some(log.to_owned());
        Ok(service)
    }

    /// Starts `command`, whose outputs the caller has set.
    pub(crate) fn spawn_as_is(
        name: &'static str,
        command: &mut Command,
        farewell: Farewell,
    ) -> Result<Self, TestkitError> {
        command.stdin(Stdio::null()).process_group(0);
        let mut child = command.spawn().context(format_args!(
            "start {name} ({})",
            command.get_program().display()
        ))?;
        let watcher = watch(child.id()).inspect_err(|_| {
            // Without a watcher it must not run at all.
            let _ = child.kill();
            let _ = child.wait();
        })?;
        Ok(Self {
            name,
            child,
            watcher,
            log: None,
            farewell,
            status: None,
        })
    }

    /// The child's streams, for a caller that set them to pipes.
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `condition`; fails early if the program ends meanwhile.
    pub(crate) fn wait_until(
        &mut self,
        what: &str,
        timeout: Duration,
        mut condition: impl FnMut() -> bool,
    ) -> Result<(), TestkitError> {
        let mut ended = false;
        let came = poll_until(timeout, || {
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
        if came {
            return Ok(());
        }
        Err(TestkitError::Late {
            what: format!("{} ({})", what, self.name),
            timeout,
            log: self.log_tail(),
        })
    }

    /// True once the program has ended, by itself or not. Does not reap it: its group stays addressable.
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

    /// Sends a signal to the program itself, not to its group. Nothing happens when it has ended.
    pub(crate) fn signal(&self, signal: Signal) {
        if !self.has_ended() {
            let _ = rustix::process::kill_process(self.group(), signal);
        }
    }

    /// SIGTERM; returns how it ended.
    ///
    /// # Errors
    /// [`TestkitError::Late`] when it did not end in time; it is killed then.
    pub(crate) fn stop(&mut self, timeout: Duration) -> Result<ExitStatus, TestkitError> {
        self.signal(Signal::TERM);
        let in_time = poll_until(timeout, || self.has_ended());
        let log = self.log_tail();
        let status = self.reap()?;
        if in_time {
            Ok(status)
        } else {
            Err(TestkitError::Late {
                what: format!("{} to end after SIGTERM", self.name),
                timeout,
                log,
            })
        }
    }

    /// SIGKILL for the whole group; returns when it has ended.
    pub(crate) fn kill(&mut self) {
        let _ = self.reap();
    }

    /// The last lines of the log.
    pub(crate) fn log_tail(&self) -> String {
        self.log.as_deref().map(tail).unwrap_or_default()
    }

    /// Kills what is left of the group, then takes the exit status. The order matters: while the leader is not reaped, its
    /// number cannot be given to a stranger.
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
        // Workers still hold sockets and files for a moment after the signal.
        let group = self.child.id();
        poll_until(GROUP_PATIENCE, || !group_lives(group));
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
        let _ = match self.farewell {
            Farewell::Ask(timeout) => self.stop(timeout).map(drop),
            Farewell::Kill => self.reap().map(drop),
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

/// Ends process group $1 when standard input closes without a line: politely first, so that a database writes its pages.
const WATCHER: &str = r#"
read -r line && exit 0
kill -TERM "$1"
tries=0
while kill -0 "$1" && [ $tries -lt 50 ]; do sleep 0.1; tries=$((tries + 1)); done
kill -KILL "-$1"
"#;

/// Runs a program to its end, with a deadline for nothing: for short, known tools only.
///
/// # Errors
/// [`TestkitError::Ended`] with both outputs when it fails.
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

/// Writes an executable file without ever holding it open for writing in this process: a thread that forks at that
/// moment would take the descriptor along, and the kernel refuses to run a file that somebody may write ("text file busy").
pub(crate) fn write_executable(path: &Path, text: &str) -> Result<(), TestkitError> {
    let mut writer = Command::new("/bin/sh")
        .args(["-c", r#"cat > "$0" && chmod 755 "$0""#])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .context("start a shell")?;
    if let Some(mut pipe) = writer.stdin.take() {
        pipe.write_all(text.as_bytes())
            .context(format_args!("write {}", path.display()))?;
    }
    let status = writer.wait().context("wait for a shell")?;
    if status.success() {
        return Ok(());
    }
    Err(TestkitError::Ended {
        program: format!("writing {}", path.display()),
        status: status.to_string(),
        log: String::new(),
    })
}

fn appending(path: &Path) -> Result<fs::File, TestkitError> {
    let result: io::Result<fs::File> = OpenOptions::new().create(true).append(true).open(path);
    result.context(format_args!("open {}", path.display()))
}

/// The last lines of a file; empty when it cannot be read.
pub(crate) fn tail(path: &Path) -> String {
    let text = fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(TAIL_LINES);
    lines.get(from..).unwrap_or_default().join("\n")
}

/// True while a process of this group runs. Dead ones that nobody has reaped do not count: in a container without an init
/// they stay for ever.
fn group_lives(group: u32) -> bool {
    let Ok(entries) = fs::read_dir("/proc") else {
        return false;
    };
    entries.flatten().any(|entry| {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        group_of_running(&stat) == Some(group)
    })
}

/// The group of a process that runs, from its `/proc/PID/stat`.
fn group_of_running(stat: &str) -> Option<u32> {
    // "pid (name) state ppid pgrp ...", and the name may contain anything.
    let mut fields = stat.rsplit(") ").next()?.split(' ');
    let state = fields.next()?;
    let group = fields.nth(1)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(group)
}

const TAIL_LINES: usize = 40;
const GROUP_PATIENCE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::Scratch;

    const TIMEOUT: Duration = Duration::from_secs(60);

    fn shell(script: &str, log: &Path, farewell: Farewell) -> Service {
        Service::spawn(
            "shell",
            Command::new("/bin/sh").args(["-c", script]),
            log,
            farewell,
        )
        .unwrap()
    }

    fn lives(pid: &str) -> bool {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        group_of_running(&stat).is_some()
    }

    #[test]
    fn the_whole_group_ends_with_the_handle() {
        let scratch = Scratch::new().unwrap();
        let note = scratch.join("grandchild");
        let script = format!("sleep 600 & echo $! > {}; wait", note.display());
        let mut service = shell(&script, &scratch.join("log"), Farewell::Kill);
        let read = || {
            fs::read_to_string(&note)
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        service
            .wait_until("the grandchild", TIMEOUT, || !read().is_empty())
            .unwrap();
        let grandchild = read();
        assert!(lives(&grandchild));
        drop(service);
        assert!(!lives(&grandchild), "gone at once, not a moment later");
    }

    #[test]
    fn a_deaf_program_is_killed_after_its_time() {
        let scratch = Scratch::new().unwrap();
        let mut service = shell(
            "trap '' TERM; echo up; while :; do sleep 0.05; done",
            &scratch.join("log"),
            Farewell::Kill,
        );
        service
            .wait_until("its first word", TIMEOUT, || {
                tail(&scratch.join("log")) == "up"
            })
            .unwrap();
        let began = Instant::now();
        let trouble = service.stop(Duration::from_millis(50)).unwrap_err();
        assert!(trouble.is_timeout(), "{trouble}");
        assert!(began.elapsed() < TIMEOUT);
        assert!(service.has_ended());
    }

    #[test]
    fn a_program_that_ends_while_starting_shows_its_log() {
        let scratch = Scratch::new().unwrap();
        let mut service = shell(
            "echo out of paper; exit 3",
            &scratch.join("log"),
            Farewell::Kill,
        );
        let trouble = service
            .wait_until("readiness", TIMEOUT, || false)
            .unwrap_err()
            .to_string();
        assert!(
            trouble.contains("out of paper") && trouble.contains('3'),
            "{trouble}"
        );
    }

    #[test]
    fn the_watcher_ends_a_group_whose_owner_is_gone() {
        let mut orphan = Command::new("/bin/sleep")
            .arg("600")
            .process_group(0)
            .spawn()
            .unwrap();
        let mut watcher = watch(orphan.id()).unwrap();
        // What the kernel does when the owner dies: the pipe closes without a word.
        drop(watcher.stdin.take());
        assert!(!orphan.wait().unwrap().success());
        watcher.wait().unwrap();
    }
}
