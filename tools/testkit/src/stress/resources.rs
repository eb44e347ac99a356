//! The resource usage of a process, from `/proc`.

use std::fs;
use std::time::Duration;

use crate::Galley;
use crate::wait::poll_until;

/// Memory, descriptors and threads of a process at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResourceUsage {
    /// Resident memory in bytes.
    pub memory: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Threads.
    pub threads: u64,
    /// Bytes of stored pages in memory, as the server reports them; 0 if not read.
    pub stored: u64,
}

impl ResourceUsage {
    pub(super) fn of(pid: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        let open = fs::read_dir(format!("/proc/{pid}/fd"));
        Self {
            memory: number("VmRSS:").unwrap_or_default() * 1024,
            threads: number("Threads:").unwrap_or_default(),
            descriptors: open.map_or(0, |open| open.count() as u64),
            stored: 0,
        }
    }

    /// Adds the bytes of stored pages.
    pub(super) fn with_stored(self, galley: &Galley) -> Self {
        let status = galley.cli(&["status", "--json"]).ok();
        let status = status.and_then(|output| serde_json::from_slice(&output.stdout).ok());
        let stored =
            status.and_then(|status: serde_json::Value| status["memory"]["bytes"].as_u64());
        Self {
            stored: stored.unwrap_or_default(),
            ..self
        }
    }

    /// Waits up to ten seconds until the server has closed the descriptors of ended connections, and returns the usage then.
    pub(super) fn settled(pid: u32, first: Self) -> Self {
        let mut usage = Self::of(pid);
        poll_until(TIMEOUT, || {
            usage = Self::of(pid);
            usage.descriptors <= first.descriptors
        });
        usage
    }
}

/// Processor usage of a process since its start.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ProcessorUsage {
    /// Context switches of all threads, voluntary or not.
    pub(super) switches: u64,
    /// Processor time in microseconds.
    pub(super) us: u64,
}

impl ProcessorUsage {
    pub(super) fn of(pid: u32) -> Self {
        let threads = fs::read_dir(format!("/proc/{pid}/task"))
            .into_iter()
            .flatten();
        let mut usage = Self::default();
        for thread in threads.flatten() {
            let read = |name| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
            let status = read("status");
            let switches = status
                .lines()
                .filter_map(|line| line.split_once("ctxt_switches:"));
            usage.switches += switches
                .filter_map(|(_, count)| count.trim().parse::<u64>().ok())
                .sum::<u64>();
            // The first number is the time on a processor in nanoseconds (`Documentation/scheduler/sched-stats.rst`).
            let schedstat = read("schedstat");
            let ns = schedstat.split_whitespace().next();
            usage.us += ns.and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0) / 1000;
        }
        usage
    }
}

/// For the end of thousands of connections on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(10);
