//! Runs `strace`: records the system calls of all threads of a process, one per line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::error::{Context, TestkitError};
use crate::process::{Service, StopMode, tail};
use crate::wait::poll_until;

/// A trace of a process from [`Strace::attach`] to [`Strace::finish`].
pub struct Strace {
    tracer: Service,
    trace: PathBuf,
}

impl Strace {
    /// Attaches to a process, with these additional arguments of strace; the trace is a file in `dir`. Errors: the output of
    /// strace.
    pub fn attach(pid: u32, dir: &Path, arguments: &[&str]) -> Result<Self, String> {
        let (trace, log) = (dir.join("trace"), dir.join("strace.log"));
        let mut command = Command::new("strace");
        command
            .arg("-f")
            .args(arguments)
            .arg("-o")
            .arg(&trace)
            .args(["-p", &pid.to_string()])
            .stdin(Stdio::null());
        let mut tracer = Service::spawn("strace", &mut command, &log, StopMode::Terminate(TIMEOUT))
            .map_err(|error| error.to_string())?;
        let attached = poll_until(TIMEOUT, || {
            tail(&log).contains("attached") || tracer.has_ended()
        });
        if attached && !tracer.has_ended() {
            return Ok(Self { tracer, trace });
        }
        tracer.kill();
        Err(tail(&log))
    }

    /// Detaches and returns the trace. Each line begins with the thread id.
    pub fn finish(mut self) -> Result<String, TestkitError> {
        self.tracer.stop(TIMEOUT)?;
        fs::read_to_string(&self.trace).context("read the trace")
    }
}

const TIMEOUT: Duration = Duration::from_secs(60);
