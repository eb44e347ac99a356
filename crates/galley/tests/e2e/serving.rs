//! The process that serves a test site, also after upgrades.

use std::cell::Cell;
use std::fs;
use std::time::{Duration, Instant};

use galley_testkit::Galley;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

use crate::support::{TIMEOUT, TestSite, output_text};

/// The process that serves the site after upgrades; ended on drop.
pub(crate) struct Serving<'s> {
    galley: &'s Galley,
    pub(crate) pid: Cell<u32>,
}

impl<'s> Serving<'s> {
    pub(crate) fn new(site: &'s TestSite) -> Self {
        Self::of(&site.galley)
    }

    pub(crate) fn of(galley: &'s Galley) -> Self {
        Self {
            galley,
            pid: Cell::new(galley.pid()),
        }
    }

    /// Upgrades the server; returns the output of the command.
    #[track_caller]
    pub(crate) fn upgrade(&self) -> Value {
        let output = self.galley.cli(&["upgrade", "--json"]).unwrap();
        let log = self.galley.log();
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}\n{log}",
            output_text(&output)
        );
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let pid = report["pid"].as_u64().unwrap();
        self.pid.set(u32::try_from(pid).unwrap());
        report
    }

    fn signal(&self, signal: Signal) {
        let _ = kill_process(pid(self.pid.get()), signal);
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        let first = self.galley.pid();
        if self.pid.get() == first {
            return;
        }
        self.signal(Signal::TERM);
        let deadline = Instant::now() + TIMEOUT;
        while is_alive(self.pid.get()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.signal(Signal::KILL);
    }
}

pub(crate) fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).unwrap()).unwrap()
}

/// True if a process runs; a zombie does not.
pub(crate) fn is_alive(number: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(')')
        .next()
        .and_then(|rest| rest.split_whitespace().next());
    test_kill_process(pid(number)).is_ok() && state.is_some_and(|state| state != "Z")
}
