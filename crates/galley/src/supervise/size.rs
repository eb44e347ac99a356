//! How many workers this machine carries: one per 64 MiB of half the memory (what a WordPress request takes, with the
//! other half for the database, the cache and the kernel) and four per core (a worker waits for the database much of its
//! time), between 2 and 32. Memory is that of the machine or of the tightest control group around us, whichever is less.

use std::path::{Path, PathBuf};

/// Workers for this machine.
pub(super) fn workers() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    fitting(memory(), cores)
}

/// `memory` in bytes, `None` if unknown.
fn fitting(memory: Option<u64>, cores: usize) -> usize {
    let by_memory = memory.map_or(usize::MAX, |bytes| {
        usize::try_from(bytes / 2 / WORKER_BYTES).unwrap_or(usize::MAX)
    });
    by_memory
        .min(cores.saturating_mul(WORKERS_PER_CORE))
        .clamp(LEAST, MOST)
}

fn memory() -> Option<u64> {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| total(&text));
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let limits = limit_files(&groups)
        .into_iter()
        .filter_map(|path| read(&path)?.trim().parse().ok());
    machine.into_iter().chain(limits).min()
}

/// `MemTotal` of `/proc/meminfo` in bytes.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

/// The files that may limit us, from `/proc/self/cgroup` (lines `id:controllers:path`): of our group and of all above it,
/// version 2 (`max` for no limit, which is no number) or version 1 (a huge number). In a container the path may be one
/// that only the host sees; the mount's top then is our group.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else {
            continue;
        };
        let (top, file) = if controllers.is_empty() {
            ("/sys/fs/cgroup", "memory.max")
        } else if controllers
            .split(',')
            .any(|controller| controller == "memory")
        {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        } else {
            continue;
        };
        let above = Path::new(group)
            .ancestors()
            .filter_map(|group| group.strip_prefix("/").ok());
        files.extend(above.map(|group| Path::new(top).join(group).join(file)));
    }
    files
}

const WORKER_BYTES: u64 = 64 * 1024 * 1024;
const WORKERS_PER_CORE: usize = 4;
const LEAST: usize = 2;
const MOST: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_follow_memory_and_cores() {
        const MIB: u64 = 1 << 20;
        for (memory, cores, workers) in [
            (Some(256 * MIB), 1, 2),
            (Some(64 * MIB), 4, 2),
            (Some(512 * MIB), 2, 4),
            (Some(1024 * MIB), 2, 8),
            (Some(2048 * MIB), 2, 8),
            (Some(4096 * MIB), 16, 32),
            (Some(u64::MAX), 64, 32),
            (Some(0), 64, 2),
            (None, 1, 4),
        ] {
            assert_eq!(
                fitting(memory, cores),
                workers,
                "{memory:?} bytes, {cores} cores"
            );
        }
    }

    #[test]
    fn memory_is_read() {
        assert_eq!(
            total("MemTotal:        1024 kB\nMemFree: 3 kB\n"),
            Some(1 << 20)
        );
        assert_eq!(total("MemFree: 3 kB\n"), None);
        assert_eq!(total("MemTotal: x kB\n"), None);
        assert!(memory().is_some_and(|bytes| bytes > 0));
    }

    #[test]
    fn control_groups_are_walked_upward() {
        let paths = |groups: &str| -> Vec<String> {
            limit_files(groups)
                .iter()
                .map(|path| path.display().to_string())
                .collect()
        };
        assert_eq!(
            paths("0::/system.slice/galley.service\n"),
            [
                "/sys/fs/cgroup/system.slice/galley.service/memory.max",
                "/sys/fs/cgroup/system.slice/memory.max",
                "/sys/fs/cgroup/memory.max"
            ]
        );
        assert_eq!(
            paths("12:cpu,cpuacct:/a\n5:memory:/docker\nnonsense\n"),
            [
                "/sys/fs/cgroup/memory/docker/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes"
            ]
        );
    }
}
