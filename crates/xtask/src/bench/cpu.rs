//! Processor time from /proc: of process groups, of our own ended children, of the whole machine.
//!
//! A group's time is what its living members have used plus what their ended and reaped children had used (`cutime`,
//! `cstime`), so a worker that ends between two readings is not lost and nothing is counted twice. The kernel counts in
//! ticks, usually of 10 ms: readings are for measurements of seconds.

use std::{fs, time::Duration};

/// One line of /proc/PID/stat, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    group: u32,
    /// utime and stime.
    own: u64,
    /// cutime and cstime.
    children: u64,
}

/// Time that all processes of these groups have used since they began. A group that is gone counts nothing.
pub(super) fn of_groups(groups: &[u32]) -> Duration {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Duration::ZERO;
    };
    let ticks = entries
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok())
        .filter_map(|text| Stat::parse(&text))
        .filter(|stat| groups.contains(&stat.group))
        .map(|stat| stat.own + stat.children)
        .sum();
    from_ticks(ticks)
}

/// Time that ended children of this process have used.
pub(super) fn of_ended_children() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").ok();
    let stat = stat.and_then(|text| Stat::parse(&text));
    from_ticks(stat.map_or(0, |stat| stat.children))
}

/// Time that all cores together were not idle since the machine started.
pub(super) fn of_machine() -> Duration {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    from_ticks(busy_ticks(&text))
}

impl Stat {
    /// `pid (name) state ppid pgrp ...`: the name may contain anything, also brackets and spaces.
    fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Self {
            group: fields.get(2)?.parse().ok()?,
            own: number(11)?.checked_add(number(12)?)?,
            // They are signed, and a kernel bug of old made them negative.
            children: number(13)
                .unwrap_or(0)
                .saturating_add(number(14).unwrap_or(0)),
        })
    }
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
        os::unix::process::CommandExt,
        process::{Command, Stdio},
    };

    use super::*;

    #[test]
    fn lines_of_stat() {
        let real = "812 (nginx) S 810 810 810 0 -1 4194368 1520 0 3 0 117 254 7 2 20 0 1 0 30918 74 \
                    1823 18446744073709551615 1 1 0 0 0 0 0 1073746048 402745863 0 0 0 17 1 0 0 0";
        let wanted = Stat {
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
            "812 (nginx) S 810",
            "812 (nginx) S 810 x 1 2",
        ] {
            assert_eq!(Stat::parse(broken), None, "{broken}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_line_panics(text in "[0-9]{1,20} \\(\\PC{0,8}\\) [SRZ]( -?[0-9]{1,20}){0,20}") {
            let _ = Stat::parse(&text);
        }
    }

    #[test]
    fn idle_time_is_not_busy() {
        let text = "cpu  100 20 3000 50000 600 7 80 9 1000 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(busy_ticks(text), 100 + 20 + 3000 + 7 + 80 + 9);
        assert_eq!(busy_ticks(""), 0);
    }

    #[test]
    fn a_group_keeps_the_time_of_its_ended_children() {
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
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut word).unwrap();
        let used = of_groups(&[shell.id()]);
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert!(used >= Duration::from_millis(20), "{used:?}");
        assert_eq!(of_groups(&[shell.id()]), Duration::ZERO);
        assert!(of_ended_children() >= used);
        assert!(of_machine() >= used);
    }
}
