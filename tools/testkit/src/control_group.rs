//! A control group with a memory limit, which simulates a machine with this much memory for the processes in it.
//!
//! Supports both versions of control groups. On most machines only root can create one; the error says why it cannot be
//! created. Processes that are started while this process is in the group stay in it.

use std::fs;
use std::path::{Path, PathBuf};

/// A control group; dropping the value removes it.
#[derive(Debug)]
pub(crate) struct ControlGroup {
    dir: PathBuf,
    /// The group of this process before it enters.
    original: PathBuf,
}

impl ControlGroup {
    /// Creates a group with this memory limit; its name contains `name` and the id of this process. Errors: why no group can
    /// be created.
    pub(crate) fn create(name: &str, bytes: u64) -> Result<Self, String> {
        let name = format!("galley-{name}-{}", std::process::id());
        let roots = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory"),
            ("/sys/fs/cgroup", "memory.max", ""),
        ];
        let mut reason = String::new();
        for (root, file, controller) in roots {
            let root = Path::new(root);
            let group = Self {
                dir: root.join(&name),
                original: current_group(root, controller),
            };
            let created = fs::create_dir(&group.dir)
                .and_then(|()| fs::write(group.dir.join(file), bytes.to_string()));
            match created {
                Ok(()) => return Ok(group),
                Err(error) => {
                    reason = format!(
                        "no control group can be created: {}: {error}",
                        root.display()
                    );
                }
            }
        }
        Err(reason)
    }

    /// The words of a shell command that enters the group and executes the program given by further words.
    pub(crate) fn command_prefix(&self) -> Vec<String> {
        let enter = format!(
            "echo $$ > {}/cgroup.procs && exec \"$@\"",
            self.dir.display()
        );
        ["sh", "-c", &enter, "sh"].map(str::to_owned).into()
    }

    /// Runs `start` while this process is in the group, so that the processes that it starts stay in the group.
    pub(crate) fn run_inside<T>(&self, start: impl FnOnce() -> T) -> Result<T, String> {
        enter(&self.dir)?;
        let started = start();
        enter(&self.original)?;
        Ok(started)
    }

    /// The peak memory usage in bytes, including page cache.
    pub(crate) fn peak_bytes(&self) -> Option<u64> {
        let files = ["memory.max_usage_in_bytes", "memory.peak"];
        let mut read = files
            .iter()
            .filter_map(|file| fs::read_to_string(self.dir.join(file)).ok());
        read.next()?.trim().parse().ok()
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // The kernel refuses to remove a group with processes.
        crate::wait::poll_until(std::time::Duration::from_secs(10), || {
            fs::remove_dir(&self.dir).is_ok() || !self.dir.exists()
        });
    }
}

fn enter(dir: &Path) -> Result<(), String> {
    fs::write(dir.join("cgroup.procs"), std::process::id().to_string())
        .map_err(|error| format!("cannot enter the control group {}: {error}", dir.display()))
}

/// The group of this process, from `/proc/self/cgroup`; `root` if its directory is not visible in this namespace.
fn current_group(root: &Path, controller: &str) -> PathBuf {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next()?;
        let path = parts.next()?;
        let has_controller = controllers.split(',').any(|one| one == controller);
        has_controller.then(|| path.trim_start_matches('/').to_owned())
    });
    let found = root.join(path.unwrap_or_default());
    if found.is_dir() {
        found
    } else {
        root.to_owned()
    }
}
