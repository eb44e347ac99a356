//! A control group of memory: a machine of a given size for what is started in it.
//!
//! Groups of both versions are tried, and only root can make them on most machines; the reason why there is none is printed. What is
//! started while this process is inside stays inside.

use std::fs;
use std::path::{Path, PathBuf};

/// A group, which goes with this value.
#[derive(Debug)]
pub(crate) struct Group {
    dir: PathBuf,
    /// Where this process was before.
    home: PathBuf,
}

impl Group {
    /// A group of so many bytes, named after `name` and this process. Errors say why there is none to be had.
    pub(crate) fn make(name: &str, bytes: u64) -> Result<Self, String> {
        let name = format!("galley-{name}-{}", std::process::id());
        let roots = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory"),
            ("/sys/fs/cgroup", "memory.max", ""),
        ];
        let mut why = String::new();
        for (root, file, controller) in roots {
            let root = Path::new(root);
            let group = Self {
                dir: root.join(&name),
                home: home(root, controller),
            };
            let made = fs::create_dir(&group.dir)
                .and_then(|()| fs::write(group.dir.join(file), bytes.to_string()));
            match made {
                Ok(()) => return Ok(group),
                Err(error) => {
                    why = format!(
                        "no control group can be made here: {}: {error}",
                        root.display()
                    );
                }
            }
        }
        Err(why)
    }

    /// A shell that joins the group and becomes another program.
    pub(crate) fn through(&self) -> Vec<String> {
        let join = format!(
            "echo $$ > {}/cgroup.procs && exec \"$@\"",
            self.dir.display()
        );
        ["sh", "-c", &join, "sh"].map(str::to_owned).into()
    }

    /// Runs `start` with this whole process inside, so that what it starts stays there.
    pub(crate) fn inside<T>(&self, start: impl FnOnce() -> T) -> Result<T, String> {
        enter(&self.dir)?;
        let started = start();
        enter(&self.home)?;
        Ok(started)
    }

    /// The most memory that it has had at one time, page cache included, in bytes.
    pub(crate) fn peak(&self) -> Option<u64> {
        let files = ["memory.max_usage_in_bytes", "memory.peak"];
        let mut read = files
            .iter()
            .filter_map(|file| fs::read_to_string(self.dir.join(file)).ok());
        read.next()?.trim().parse().ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // It can go when its last process has.
        crate::wait::poll_until(std::time::Duration::from_secs(10), || {
            fs::remove_dir(&self.dir).is_ok() || !self.dir.exists()
        });
    }
}

fn enter(dir: &Path) -> Result<(), String> {
    fs::write(dir.join("cgroup.procs"), std::process::id().to_string())
        .map_err(|error| format!("cannot enter the control group {}: {error}", dir.display()))
}

/// The group that this process is in, by `/proc/self/cgroup`; the root where that is not to be seen from here.
fn home(root: &Path, controller: &str) -> PathBuf {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next()?;
        let path = parts.next()?;
        let is_it = controllers.split(',').any(|one| one == controller);
        is_it.then(|| path.trim_start_matches('/').to_owned())
    });
    let found = root.join(path.unwrap_or_default());
    if found.is_dir() {
        found
    } else {
        root.to_owned()
    }
}
