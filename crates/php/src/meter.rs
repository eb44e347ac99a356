//! The memory of PHP workers, read from `/proc`.
//!
//! The memory of a worker is its proportional set size without shared memory. Shared memory is the opcode cache, which all
//! workers of a pool share and the budget counts once. Pages that a worker shares with its master count proportionally. If
//! the kernel does not report the proportional size (before Linux 5.4, or without permission), the worker's anonymous memory
//! counts in full.
//!
//! A peak between two measurements is not missed: the kernel records the highest resident size of each process (`VmHWM`), and
//! its difference to the current size is added.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

/// A worker with its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Worker {
    pub(super) pid: u32,
    /// The current size, in bytes.
    pub(super) now: u64,
    /// The highest size since the worker's start, in bytes.
    pub(super) peak: u64,
}

/// Measures the children of a master, and remembers values that have not changed since.
#[derive(Debug)]
pub(super) struct WorkerMeter {
    proc: PathBuf,
    known: HashMap<u32, (Resident, Worker)>,
}

impl WorkerMeter {
    pub(super) fn new() -> Self {
        Self {
            proc: PathBuf::from("/proc"),
            known: HashMap::new(),
        }
    }

    /// Measures the workers of `master`. Reads at most two small files per worker.
    pub(super) fn workers(&mut self, master: u32) -> Vec<Worker> {
        let workers: Vec<Worker> = self
            .children(master)
            .into_iter()
            .filter_map(|pid| self.worker(pid))
            .collect();
        self.known
            .retain(|pid, _| workers.iter().any(|worker| worker.pid == *pid));
        workers
    }

    /// The CPU time that these processes have used, in clock ticks.
    pub(super) fn ticks(&self, workers: &[Worker]) -> u64 {
        workers
            .iter()
            .filter_map(|worker| {
                fs::read_to_string(self.proc.join(format!("{}/stat", worker.pid))).ok()
            })
            .map(|stat| cpu(&stat).unwrap_or(0))
            .sum()
    }

    /// The available memory of the machine, in bytes.
    pub(super) fn available(&self) -> Option<u64> {
        field(
            &fs::read_to_string(self.proc.join("meminfo")).ok()?,
            "MemAvailable:",
        )
    }

    /// The process ids of the workers.
    pub(super) fn children(&self, master: u32) -> Vec<u32> {
        let path = self.proc.join(format!("{master}/task/{master}/children"));
        let text = fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect()
    }

    fn worker(&mut self, pid: u32) -> Option<Worker> {
        let folder = self.proc.join(pid.to_string());
        let resident = Resident::read(&fs::read_to_string(folder.join("status")).ok()?)?;
        if let Some((before, worker)) = self.known.get(&pid)
            && *before == resident
        {
            return Some(*worker);
        }
        let rollup = fs::read_to_string(folder.join("smaps_rollup")).ok();
        let now = rollup
            .and_then(|text| own(&text))
            .unwrap_or(resident.anonymous);
        let worker = Worker {
            pid,
            now,
            peak: now + resident.highest.saturating_sub(resident.total),
        };
        self.known.insert(pid, (resident, worker));
        Some(worker)
    }
}

/// Values from `/proc/PID/status`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Resident {
    highest: u64,
    total: u64,
    anonymous: u64,
}

impl Resident {
    fn read(status: &str) -> Option<Self> {
        Some(Self {
            highest: field(status, "VmHWM:")?,
            total: field(status, "VmRSS:")?,
            anonymous: field(status, "RssAnon:")?,
        })
    }
}

/// The proportional size without shared memory, from `/proc/PID/smaps_rollup`.
fn own(rollup: &str) -> Option<u64> {
    let all = field(rollup, "Pss:")?;
    Some(all.saturating_sub(field(rollup, "Pss_Shmem:")?))
}

/// Reads a field `Name:  123 kB`, in bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// User and system time of `/proc/PID/stat`: the 14th and 15th field, counted after the name, which may contain any character.
fn cpu(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    user.checked_add(system)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tphp-fpm8.2\nVmHWM:\t   90000 kB\nVmRSS:\t   68656 kB\nRssAnon:\t   56104 kB\nRssFile:\t   11464 kB\nRssShmem:\t    1088 kB\n";

    fn meter(files: &[(&str, &str)]) -> (tempfile::TempDir, WorkerMeter) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let mut meter = WorkerMeter::new();
        meter.proc = dir.path().to_owned();
        (dir, meter)
    }

    #[test]
    fn workers_are_measured_without_the_opcode_cache() {
        let (dir, mut meter) = meter(&[
            ("7/task/7/children", "8 9 10 "),
            ("8/status", STATUS),
            (
                "8/smaps_rollup",
                "00-ff ---p 00 [rollup]\nRss: 1 kB\nPss: 54498 kB\nPss_Anon: 52928 kB\nPss_Shmem: 498 kB\n",
            ),
            ("9/status", STATUS),
            ("9/smaps_rollup", "Pss: 54498 kB\n"),
        ]);
        // 10 has just ended.
        let kib = |kib: u64| kib * 1024;
        let (eight, nine) = (
            Worker {
                pid: 8,
                now: kib(54_000),
                peak: kib(54_000 + 90_000 - 68_656),
            },
            Worker {
                pid: 9,
                now: kib(56_104),
                peak: kib(56_104 + 90_000 - 68_656),
            },
        );
        assert_eq!(meter.workers(7), [eight, nine]);
        // A process that has not changed is not measured again.
        fs::remove_file(dir.path().join("8/smaps_rollup")).unwrap();
        assert_eq!(meter.workers(7), [eight, nine]);
        assert_eq!(meter.workers(1), []);
        assert!(meter.known.is_empty());
    }

    #[test]
    fn malformed_texts_are_rejected() {
        for text in [
            "",
            "VmHWM: x kB",
            "VmHWM:\nVmRSS: 1",
            "VmHWM: 99999999999999999999 kB",
        ] {
            assert_eq!(Resident::read(text), None, "{text}");
            assert_eq!(own(text), None, "{text}");
        }
        assert_eq!(cpu("8 (a) b) S 7 8 9 0 -1 0 1 2 3 4 50 6 0 0"), Some(56));
        assert_eq!(cpu("8 (a"), None);
        let (_dir, meter) = meter(&[("meminfo", "MemTotal: 8 kB\nMemAvailable:  2 kB\n")]);
        assert_eq!(meter.available(), Some(2048));
    }
}
