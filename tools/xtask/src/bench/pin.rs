//! Pins server and client to separate cores, so that they do not compete for processor time.
//!
//! A process inherits the affinity of the thread that starts it, so a program is pinned by pinning this thread while it starts.
//! On a machine with a single core nothing is pinned, and the report says so.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

use crate::error::CommandError;

/// The cores of server and client; `None` if they are not pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cores {
    pub(crate) server: Option<usize>,
    pub(crate) client: Option<usize>,
}

impl Cores {
    /// The first two cores that this process may use.
    pub(crate) fn choose() -> Self {
        let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
        match (cores.next(), cores.next()) {
            (Some(server), Some(client)) => Self {
                server: Some(server),
                client: Some(client),
            },
            _ => Self {
                server: None,
                client: None,
            },
        }
    }
}

/// Runs `work` with this thread pinned to `core`, then restores the thread's affinity.
pub(crate) fn on_core<T>(core: Option<usize>, work: impl FnOnce() -> T) -> Result<T, CommandError> {
    let Some(core) = core else {
        return Ok(work());
    };
    let before = sched_getaffinity(None)?;
    let mut only = CpuSet::new();
    only.set(core);
    sched_setaffinity(None, &only)?;
    let result = work();
    sched_setaffinity(None, &before)?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_child_process_is_pinned_and_the_affinity_of_the_thread_is_restored() {
        let before = sched_getaffinity(None).unwrap();
        let core = (0..CpuSet::MAX_CPU)
            .find(|core| before.is_set(*core))
            .unwrap();
        let status = on_core(Some(core), || {
            Command::new("cat").arg("/proc/self/status").output()
        });
        let text = String::from_utf8(status.unwrap().unwrap().stdout).unwrap();
        let line = text
            .lines()
            .find(|line| line.starts_with("Cpus_allowed_list"));
        assert_eq!(
            line.unwrap().split_whitespace().nth(1),
            Some(core.to_string().as_str())
        );
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
