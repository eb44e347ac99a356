//! A running `strace`: the system calls of all threads of a process, one a line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::error::{Context, TestkitError};
use crate::process::{Farewell, Service, tail};
use crate::wait::poll_until;

/// Traces from [`Strace::attach`] to [`Strace::finish`].
pub struct Strace {
    tracer: Service,
    trace: PathBuf,
}

impl Strace {
    /// Attaches to a process; `arguments` say what is traced, and the trace is written below `dir`. Errors: why it cannot.
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
        let mut tracer = Service::spawn("strace", &mut command, &log, Farewell::Ask(TIMEOUT))
            .map_err(|trouble| trouble.to_string())?;
        let attached = poll_until(TIMEOUT, || {
            tail(&log).contains("attached") || tracer.has_ended()
        });
        if attached && !tracer.has_ended() {
            return Ok(Self { tracer, trace });
        }
        tracer.kill();
        Err(tail(&log))
    }

    /// Detaches; the trace. Each line begins with the number of its thread.
    pub fn finish(mut self) -> Result<String, TestkitError> {
        self.tracer.stop(TIMEOUT)?;
        fs::read_to_string(&self.trace).context("read the trace")
    }
}

const TIMEOUT: Duration = Duration::from_secs(60);
