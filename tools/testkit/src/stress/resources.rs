//! What a process holds, by `/proc`.

use std::fs;
use std::time::Duration;

use crate::Galley;
use crate::wait::poll_until;

/// Memory and descriptors at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// Resident memory in bytes.
    pub memory: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Threads.
    pub threads: u64,
    /// Bytes of stored pages in that memory, by the server's own count; 0 where nobody asked.
    pub stored: u64,
}

impl Held {
    pub(super) fn by(pid: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        let open = fs::read_dir(format!("/proc/{pid}/fd"));
        Self {
            memory: of("VmRSS:").unwrap_or_default() * 1024,
            threads: of("Threads:").unwrap_or_default(),
            descriptors: open.map_or(0, |open| open.count() as u64),
            stored: 0,
        }
    }

    /// With what the server says of its store.
    pub(super) fn with_store(self, galley: &Galley) -> Self {
        let status = galley.cli(&["status", "--json"]).ok();
        let status = status.and_then(|output| serde_json::from_slice(&output.stdout).ok());
        let stored =
            status.and_then(|status: serde_json::Value| status["memory"]["bytes"].as_u64());
        Self {
            stored: stored.unwrap_or_default(),
            ..self
        }
    }

    /// The same, when the connections that have been closed are gone; as it is after ten seconds otherwise.
    pub(super) fn settled(pid: u32, first: Self) -> Self {
        let mut held = Self::by(pid);
        poll_until(TIMEOUT, || {
            held = Self::by(pid);
            held.descriptors <= first.descriptors
        });
        held
    }
}

/// What a process has done since it began.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Effort {
    /// How often one of its threads gave a processor to another, or lost it.
    pub(super) switches: u64,
    /// Microseconds of processor time.
    pub(super) us: u64,
}

impl Effort {
    pub(super) fn by(pid: u32) -> Self {
        let threads = fs::read_dir(format!("/proc/{pid}/task"))
            .into_iter()
            .flatten();
        let mut effort = Self::default();
        for thread in threads.flatten() {
            let read = |name| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
            let status = read("status");
            let switches = status
                .lines()
                .filter_map(|line| line.split_once("ctxt_switches:"));
            effort.switches += switches
                .filter_map(|(_, count)| count.trim().parse::<u64>().ok())
                .sum::<u64>();
            // Nanoseconds on a processor come first (`Documentation/scheduler/sched-stats.rst`).
            let ran = read("schedstat");
            let ran = ran.split_whitespace().next();
            effort.us += ran.and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0) / 1000;
        }
        effort
    }
}

/// For the ends of thousands of connections on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(10);
