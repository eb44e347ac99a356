//! Processor time and memory of process trees, of this thread and of the machine, from /proc.
//!
//! A tree consists of all descendants of its roots, and of all processes in the process groups of the roots. Its time is that of
//! its running processes plus that of their exited and reaped children (`cutime`, `cstime`), so a worker that exits between two
//! readings is counted, and no time is counted twice.
//!
//! The kernel reports these times in ticks, usually of 10 ms, and rounds down: too coarse for twenty PHP processes that share a
//! few hundred requests. If the kernel also reports nanoseconds of each running thread (`schedstat`), the larger value is used:
//! the ticks include threads that have exited, `schedstat` does not.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};

/// The fields of /proc/PID/stat that are used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    pid: u32,
    parent: u32,
    group: u32,
    /// utime and stime.
    own_ticks: u64,
    /// cutime and cstime.
    children_ticks: u64,
}

/// The processes below a list of roots.
#[derive(Debug)]
pub(crate) struct ProcessTree;

impl ProcessTree {
    /// Processor time that they have used since they started. A root that has exited counts as zero.
    pub(crate) fn cpu_time(roots: &[u32]) -> Duration {
        let of = |stat: &Stat| {
            let own = from_ticks(stat.own_ticks).max(threads_cpu_time(stat.pid));
            own + from_ticks(stat.children_ticks)
        };
        members(&all(), roots).iter().map(of).sum()
    }

    /// What their running threads have used: for differences that are shorter than a tick. The time of threads that exit is lost.
    pub(crate) fn threads(roots: &[u32]) -> ThreadTimes {
        let members = members(&all(), roots);
        ThreadTimes(members.iter().flat_map(|stat| threads(stat.pid)).collect())
    }

    /// Their memory in bytes; shared memory is divided among the processes that share it (PSS).
    pub(crate) fn memory(roots: &[u32]) -> u64 {
        let of = |stat: &Stat| {
            let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", stat.pid)).ok()?;
            pss_bytes(&text)
        };
        members(&all(), roots).iter().filter_map(of).sum()
    }

    /// Process ids below the roots, without the roots.
    pub(crate) fn descendants(roots: &[u32]) -> Vec<u32> {
        let members = members(&all(), roots);
        let pids = members.iter().map(|stat| stat.pid);
        pids.filter(|pid| !roots.contains(pid)).collect()
    }

    /// Process ids of the children of a process.
    pub(crate) fn children(pid: u32) -> Vec<u32> {
        let stats = all();
        let children = stats.iter().filter(|stat| stat.parent == pid);
        children.map(|stat| stat.pid).collect()
    }
}

/// Processor time that this thread has used.
pub(crate) fn this_thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Processor time that exited children of this process have used.
pub(crate) fn ended_children_cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").ok();
    let stat = stat.and_then(|text| Stat::parse(&text));
    from_ticks(stat.map_or(0, |stat| stat.children_ticks))
}

/// Busy time of all cores since the machine started.
pub(crate) fn machine_cpu_time() -> Duration {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    from_ticks(busy_ticks(&text))
}

fn all() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| {
            entry
                .file_name()
                .as_encoded_bytes()
                .first()
                .is_some_and(u8::is_ascii_digit)
        })
        .filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok())
        .filter_map(|text| Stat::parse(&text))
        .collect()
}

/// Nanoseconds of processor time of running threads, by their ids; none if the kernel does not report it. More exact than
/// [`ProcessTree::cpu_time`], which counts whole ticks once a thread has exited.
#[derive(Debug, PartialEq)]
pub(crate) struct ThreadTimes(BTreeMap<u32, u64>);

impl ThreadTimes {
    /// What these threads have used since `before`.
    pub(crate) fn since(&self, before: &Self) -> Duration {
        let used = |(thread, time): (&u32, &u64)| {
            time.saturating_sub(before.0.get(thread).copied().unwrap_or_default())
        };
        Duration::from_nanos(self.0.iter().map(used).sum::<u64>())
    }
}

/// Processor time of the running threads of a process; zero if the kernel does not report it.
fn threads_cpu_time(pid: u32) -> Duration {
    Duration::from_nanos(threads(pid).map(|(_, used)| used).sum())
}

/// The running threads of a process, and the nanoseconds that each has used.
fn threads(pid: u32) -> impl Iterator<Item = (u32, u64)> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    threads
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|thread| {
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            let used = text.split_whitespace().next()?.parse().ok()?;
            Some((thread.file_name().to_str()?.parse().ok()?, used))
        })
}

/// The roots' descendants, the processes of the roots' groups, and the descendants of these.
fn members(stats: &[Stat], roots: &[u32]) -> Vec<Stat> {
    let mut existing_program: BTreeSet<u32> = roots.iter().copied().collect();
    loop {
        let before = existing_program.len();
        for stat in stats {
            if existing_program.contains(&stat.parent) || roots.contains(&stat.group) {
                existing_program.insert(stat.pid);
            }
        }
        if existing_program.len() == before {
            break;
        }
    }
    let stats = stats
        .iter()
        .filter(|stat| existing_program.contains(&stat.pid));
    stats.copied().collect()
}

impl Stat {
    /// Parses `pid (name) state ppid pgrp ...`. The name can contain any character, including parentheses and spaces.
    fn parse(text: &str) -> Option<Self> {
        let (pid, _) = text.split_once(" (")?;
        let (_, rest) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Self {
            pid: pid.parse().ok()?,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            own_ticks: number(11)?.checked_add(number(12)?)?,
            // These fields are signed, and old kernels had a bug that made them negative.
            children_ticks: number(13)
                .unwrap_or(0)
                .saturating_add(number(14).unwrap_or(0)),
        })
    }
}

/// Parses the line `Pss:  1234 kB`.
fn pss_bytes(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// Sums up `cpu user nice system idle iowait irq softirq steal ...` without idle and iowait.
fn busy_ticks(text: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "));
    let numbers = line.unwrap_or_default().split_whitespace();
    numbers
        .take(8)
        .enumerate()
        .filter(|(at, _)| !matches!(at, 3 | 4))
        .filter_map(|(_, number)| number.parse::<u64>().ok())
        .sum()
}

fn from_ticks(ticks: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_micros(ticks.saturating_mul(1_000_000) / per_second)
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read,
        os::unix::process::CommandExt,
        process::{Command, Stdio},
    };

    use super::*;

    #[test]
    fn proc_stat_is_parsed() {
        let real = "812 (nginx) S 809 810 810 0 -1 4194368 1520 0 3 0 117 254 7 2 20 0 1 0 30918 74 \
                    1823 18446744073709551615 1 1 0 0 0 0 0 1073746048 402745863 0 0 0 17 1 0 0 0";
        let expected = Stat {
            pid: 812,
            parent: 809,
            group: 810,
            own_ticks: 371,
            children_ticks: 9,
        };
        assert_eq!(Stat::parse(real), Some(expected));
        let hostile = real.replace("(nginx)", "(a) S 1 2 3) R ) ");
        assert_eq!(Stat::parse(&hostile), Some(expected));
        for broken in [
            "",
            "812 (nginx",
            "812 (nginx) S 809 810",
            "812 (nginx) S 809 x 1 2",
        ] {
            assert_eq!(Stat::parse(broken), None, "{broken}");
        }
    }

    proptest::proptest! {
        #[test]
        fn parsing_never_panics(text in "[0-9]{1,20} \\(\\PC{0,8}\\) [SRZ]( -?[0-9]{1,20}){0,20}") {
            let _ = Stat::parse(&text);
            let _ = pss_bytes(&text);
        }
    }

    #[test]
    fn a_tree_has_the_descendants_and_the_process_group_of_its_roots() {
        let stat = |pid, parent, group| Stat {
            pid,
            parent,
            group,
            own_ticks: 0,
            children_ticks: 0,
        };
        // 13 has another parent but the same group; 14 has another group but its parent is in the tree.
        let stats = [
            stat(15, 14, 15),
            stat(10, 1, 10),
            stat(13, 1, 10),
            stat(14, 13, 14),
            stat(20, 1, 20),
        ];
        let pids = |roots: &[u32]| -> Vec<u32> {
            let members = members(&stats, roots);
            members.iter().map(|stat| stat.pid).collect()
        };
        assert_eq!(pids(&[10]), [15, 10, 13, 14]);
        assert_eq!(pids(&[20]), [20]);
        assert_eq!(pids(&[99]), [0; 0]);
    }

    #[test]
    fn idle_time_is_not_busy() {
        let text = "cpu  100 20 3000 50000 600 7 80 9 1000 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(busy_ticks(text), 100 + 20 + 3000 + 7 + 80 + 9);
        assert_eq!(busy_ticks(""), 0);
    }

    #[test]
    fn running_threads_are_measured_in_nanoseconds() {
        // Not every kernel has it.
        if fs::exists("/proc/self/schedstat").unwrap() {
            let none = ProcessTree::threads(&[u32::MAX]);
            let threads = ProcessTree::threads(&[std::process::id()]);
            let used = threads.since(&none);
            assert!(used > Duration::ZERO);
            assert_eq!(threads.since(&threads), Duration::ZERO);
            assert!(ProcessTree::cpu_time(&[std::process::id()]) >= used);
        }
    }

    #[test]
    fn memory_is_the_proportional_set_size() {
        assert_eq!(
            pss_bytes("Rss: 9 kB\nPss:     1234 kB\n"),
            Some(1234 * 1024)
        );
        assert_eq!(pss_bytes("Rss: 9 kB\n"), None);
        assert!(ProcessTree::memory(&[std::process::id()]) > 100_000);
    }

    #[test]
    fn a_tree_includes_the_time_of_exited_children() {
        // The inner shell uses processor time, exits and is reaped by the outer shell, which then waits for the end of its input.
        let script =
            "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; echo done; read line";
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut word = [0; 5];
        shell
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut word)
            .unwrap();
        let used = ProcessTree::cpu_time(&[shell.id()]);
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert!(used >= Duration::from_millis(20), "{used:?}");
        assert_eq!(ProcessTree::cpu_time(&[shell.id()]), Duration::ZERO);
        // These values are whole ticks, for the shell and for its child; `used` is exact.
        let used = used.saturating_sub(from_ticks(2));
        assert!(ended_children_cpu_time() >= used);
        assert!(machine_cpu_time() >= used);
    }
}
