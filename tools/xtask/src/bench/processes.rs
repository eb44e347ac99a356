//! What processes have used, from /proc: processor time and memory of whole trees of processes, of this thread, of the
//! machine.
//!
//! A tree is what descends from its roots, and what shares a process group with one of them. Its time is what its living
//! members have used plus what their ended and reaped children had used (`cutime`, `cstime`), so a worker that ends
//! between two readings is not lost and nothing is counted twice.
//!
//! The kernel shows that in ticks, usually of 10 ms, and cuts off what is left: too coarse for twenty PHP processes that
//! share some hundred requests. Where it also shows the nanoseconds of each living thread (`schedstat`), these are
//! taken if they are more; they lack threads that have ended, which the ticks have.

use std::{collections::BTreeSet, fs, time::Duration};

use rustix::time::{ClockId, clock_gettime};

/// One line of /proc/PID/stat, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    pid: u32,
    parent: u32,
    group: u32,
    /// utime and stime.
    own: u64,
    /// cutime and cstime.
    children: u64,
}

/// All processes that hang below some roots.
#[derive(Debug)]
pub(crate) struct Tree;

impl Tree {
    /// Time that they have used since they began. A root that is gone counts nothing.
    pub(crate) fn time(roots: &[u32]) -> Duration {
        let of = |stat: &Stat| {
            let own = from_ticks(stat.own).max(of_threads(stat.pid));
            own + from_ticks(stat.children)
        };
        members(&all(), roots).iter().map(of).sum()
    }

    /// Memory that they hold, in bytes; what several share is divided among them (PSS).
    pub(crate) fn memory(roots: &[u32]) -> u64 {
        let of = |stat: &Stat| {
            let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", stat.pid)).ok()?;
            pss_bytes(&text)
        };
        members(&all(), roots).iter().filter_map(of).sum()
    }

    /// Process ids below the roots, without these.
    pub(crate) fn below(roots: &[u32]) -> Vec<u32> {
        let members = members(&all(), roots);
        let pids = members.iter().map(|stat| stat.pid);
        pids.filter(|pid| !roots.contains(pid)).collect()
    }

    /// Process ids right below a process.
    pub(crate) fn children(pid: u32) -> Vec<u32> {
        let stats = all();
        let children = stats.iter().filter(|stat| stat.parent == pid);
        children.map(|stat| stat.pid).collect()
    }
}

/// Time that this thread has used.
pub(crate) fn of_this_thread() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Time that ended children of this process have used.
pub(crate) fn of_ended_children() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").ok();
    let stat = stat.and_then(|text| Stat::parse(&text));
    from_ticks(stat.map_or(0, |stat| stat.children))
}

/// Time that all cores together were not idle since the machine started.
pub(crate) fn of_machine() -> Duration {
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

/// Time of a process's living threads; nothing where the kernel does not tell.
fn of_threads(pid: u32) -> Duration {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Duration::ZERO;
    };
    threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok())
        .filter_map(|text| text.split_whitespace().next()?.parse().ok())
        .map(Duration::from_nanos)
        .sum()
}

/// Those below the roots or in their groups, and what descends from these.
fn members(stats: &[Stat], roots: &[u32]) -> Vec<Stat> {
    let mut found: BTreeSet<u32> = roots.iter().copied().collect();
    loop {
        let before = found.len();
        for stat in stats {
            if found.contains(&stat.parent) || roots.contains(&stat.group) {
                found.insert(stat.pid);
            }
        }
        if found.len() == before {
            break;
        }
    }
    let stats = stats.iter().filter(|stat| found.contains(&stat.pid));
    stats.copied().collect()
}

impl Stat {
    /// `pid (name) state ppid pgrp ...`: the name may contain anything, also brackets and spaces.
    fn parse(text: &str) -> Option<Self> {
        let (pid, _) = text.split_once(" (")?;
        let (_, rest) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Self {
            pid: pid.parse().ok()?,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            own: number(11)?.checked_add(number(12)?)?,
            // They are signed, and a kernel bug of old made them negative.
            children: number(13)
                .unwrap_or(0)
                .saturating_add(number(14).unwrap_or(0)),
        })
    }
}

/// The line `Pss:  1234 kB`.
fn pss_bytes(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// `cpu user nice system idle iowait irq softirq steal ...`: all but idle and iowait.
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
    fn lines_of_stat() {
        let real = "812 (nginx) S 809 810 810 0 -1 4194368 1520 0 3 0 117 254 7 2 20 0 1 0 30918 74 \
                    1823 18446744073709551615 1 1 0 0 0 0 0 1073746048 402745863 0 0 0 17 1 0 0 0";
        let wanted = Stat {
            pid: 812,
            parent: 809,
            group: 810,
            own: 371,
            children: 9,
        };
        assert_eq!(Stat::parse(real), Some(wanted));
        let hostile = real.replace("(nginx)", "(a) S 1 2 3) R ) ");
        assert_eq!(Stat::parse(&hostile), Some(wanted));
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
        fn no_line_panics(text in "[0-9]{1,20} \\(\\PC{0,8}\\) [SRZ]( -?[0-9]{1,20}){0,20}") {
            let _ = Stat::parse(&text);
            let _ = pss_bytes(&text);
        }
    }

    #[test]
    fn trees_hold_what_descends_and_what_shares_a_group() {
        let stat = |pid, parent, group| Stat {
            pid,
            parent,
            group,
            own: 0,
            children: 0,
        };
        // 13 has left its parent, but not its group; 14 has left the group, but not its parent.
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
    fn threads_that_live_are_counted_finer_than_ticks() {
        // Not every kernel shows it.
        if fs::exists("/proc/self/schedstat").unwrap() {
            let threads = of_threads(std::process::id());
            assert!(threads > Duration::ZERO);
            assert!(Tree::time(&[std::process::id()]) >= threads);
        }
        assert_eq!(of_threads(u32::MAX), Duration::ZERO);
    }

    #[test]
    fn memory_is_read() {
        assert_eq!(
            pss_bytes("Rss: 9 kB\nPss:     1234 kB\n"),
            Some(1234 * 1024)
        );
        assert_eq!(pss_bytes("Rss: 9 kB\n"), None);
        assert!(Tree::memory(&[std::process::id()]) > 100_000);
    }

    #[test]
    fn a_tree_keeps_the_time_of_its_ended_children() {
        // The inner shell works, ends and is reaped by the outer one, which then waits for its input to end.
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
        let used = Tree::time(&[shell.id()]);
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert!(used >= Duration::from_millis(20), "{used:?}");
        assert_eq!(Tree::time(&[shell.id()]), Duration::ZERO);
        // These are in whole ticks, for the shell as for its child; what was used is known to the nanosecond.
        let used = used.saturating_sub(from_ticks(2));
        assert!(of_ended_children() >= used);
        assert!(of_machine() >= used);
    }
}
