//! What a process holds, by `/proc`.

use std::fs;
use std::time::Duration;

use crate::Galley;
use crate::wait::came_true;

/// Memory and descriptors at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// Resident memory in bytes.
    pub memory: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Bytes of stored pages in that memory, by the server's own count; 0 where nobody asked.
    pub stored: u64,
}

impl Held {
    pub(super) fn by(pid: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kb = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        let open = fs::read_dir(format!("/proc/{pid}/fd"));
        Self {
            memory: kb.unwrap_or_default() * 1024,
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
        came_true(PATIENCE, || {
            held = Self::by(pid);
            held.descriptors <= first.descriptors
        });
        held
    }
}

/// For the ends of thousands of connections on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);
