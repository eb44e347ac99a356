//! Checks the memory: how much is free, how much PHP may use, and whether the kernel had to kill processes.
//!
//! A PHP pool that is larger than the memory works for months, until one busy hour: then the kernel kills the largest process,
//! which is the database or the web server. So the check calculates how much all workers together *may* use, from the largest one
//! that is running.

use std::path::PathBuf;

use super::recent::RecentChanges;
use super::{DoctorFinding, ProcFs, Severity, percent, size};

/// The resources that the configuration permits or requires.
#[derive(Clone, Debug, Default)]
pub struct MemoryPlan {
    /// The memory of this machine or control group, in bytes.
    pub memory: u64,
    /// The maximum size of the cache, in bytes.
    pub cache: u64,
    /// The configuration file.
    pub file: PathBuf,
    /// The number of sites whose PHP runs as another user, under a server that gives up root.
    pub other_users: usize,
    /// The maximum number of concurrent requests at PHP or Apache, for all sites together.
    pub in_flight: u64,
    /// Folders that need free space.
    pub folders: Vec<PathBuf>,
    /// The folder on the disk that each purge waits for.
    pub synced: Option<PathBuf>,
}

pub(super) fn findings(
    machine: &ProcFs,
    plan: &MemoryPlan,
    recent: Option<&RecentChanges>,
) -> Vec<DoctorFinding> {
    let mut findings = vec![
        left(machine),
        pool(machine, plan),
        killed(machine, recent),
        swap(machine, recent),
    ];
    findings.extend(pressure(machine));
    findings
}

fn left(machine: &ProcFs) -> DoctorFinding {
    const CHECK: &str = "memory";
    let read = |name| machine.line("proc/meminfo", name);
    let (Some(total), Some(available)) = (read("MemTotal"), read("MemAvailable")) else {
        return DoctorFinding::unknown(CHECK, "the kernel does not report it");
    };
    let seen = format!("{} of {} are available", size(available), size(total));
    let level = match percent(available, total) {
        0..5 => Severity::Wrong,
        5..10 => Severity::Notice,
        _ => return DoctorFinding::fine(CHECK, seen),
    };
    DoctorFinding::bad(
        level,
        CHECK,
        seen,
        "below this the kernel evicts cached files, everything becomes slow, and finally it kills a process",
        "find the largest processes: ps -eo rss,comm --sort -rss | head; lower the number of PHP's workers, or [cache] memory",
    )
}

fn pool(machine: &ProcFs, plan: &MemoryPlan) -> DoctorFinding {
    const CHECK: &str = "pool";
    let processes =
        machine.processes(|name| is_worker(name) || is_database(name) || name == "galley");
    let workers = processes.iter().filter(|process| is_worker(&process.name));
    let Some(largest) = workers
        .map(|process| process.bytes)
        .max()
        .filter(|bytes| *bytes > 0)
    else {
        return DoctorFinding::unknown(CHECK, "no PHP-FPM and no Apache runs here");
    };
    let database: u64 = processes
        .iter()
        .filter(|p| is_database(&p.name))
        .map(|p| p.bytes)
        .sum();
    let workers = largest.saturating_mul(plan.in_flight);
    let needed = workers.saturating_add(plan.cache).saturating_add(database);
    let seen = format!(
        "{} requests at a time x {} (the largest worker now) + {} of cache + {} of database = {} of {}",
        plan.in_flight,
        size(largest),
        size(plan.cache),
        size(database),
        size(needed),
        size(plan.memory)
    );
    let level = match percent(needed, plan.memory) {
        100.. => Severity::Wrong,
        90.. => Severity::Notice,
        _ => return DoctorFinding::fine(CHECK, seen),
    };
    DoctorFinding::bad(
        level,
        CHECK,
        seen,
        "under load all of them run at once, and the kernel kills the largest process: the database or the web server",
        smaller_pool(plan, largest, database),
    )
}

/// The remedy that makes workers of `largest` bytes, the cache and a database of `database` bytes fit into nine tenths of the
/// memory.
fn smaller_pool(plan: &MemoryPlan, largest: u64, database: u64) -> String {
    let room = plan.memory / 10 * 9;
    let left = room.saturating_sub(plan.cache).saturating_sub(database);
    match left.checked_div(largest).unwrap_or(0) {
        0 => format!(
            "not one worker fits beside cache and database: in [cache]: memory = \"{}MiB\" or less, or give the machine more memory",
            (plan.cache / 2) >> 20
        ),
        fitting => format!(
            "in the sites' sections together: in_flight = {fitting}; the same in PHP-FPM's pool: pm.max_children (Apache: MaxRequestWorkers)"
        ),
    }
}

fn killed(machine: &ProcFs, recent: Option<&RecentChanges>) -> DoctorFinding {
    const CHECK: &str = "oom";
    let Some(count) = machine.word("proc/vmstat", "oom_kill ", "oom_kill") else {
        return DoctorFinding::unknown(CHECK, "the kernel does not report it");
    };
    let seen = match recent {
        _ if count == 0 => {
            return DoctorFinding::fine(
                CHECK,
                "no process was killed for memory since the machine started",
            );
        }
        None => {
            let seen = format!(
                "{count} processes were killed for memory since the machine started. Only a running Galley knows whether that was in the last hour"
            );
            return DoctorFinding::unknown(CHECK, seen);
        }
        Some(recent) if recent.counts.oom_kills == 0 => {
            let seen = format!(
                "no process was killed for memory {}; {count} since the machine started",
                recent.period()
            );
            return DoctorFinding::fine(CHECK, seen);
        }
        Some(recent) => format!(
            "{} processes were killed for memory {}",
            recent.counts.oom_kills,
            recent.period()
        ),
    };
    DoctorFinding::bad(
        Severity::Wrong,
        CHECK,
        seen,
        "each of them interrupted a page, a database or a server",
        "find out which and when: journalctl -k | grep -i 'killed process'",
    )
}

/// Swap in use is not a problem: the kernel moves memory there that was unused for long. A problem is memory that it reads back, or
/// swap that is nearly full.
fn swap(machine: &ProcFs, recent: Option<&RecentChanges>) -> DoctorFinding {
    const CHECK: &str = "swap";
    let read = |name| machine.line("proc/meminfo", name);
    let (Some(total), Some(free)) = (read("SwapTotal"), read("SwapFree")) else {
        return DoctorFinding::unknown(CHECK, "the kernel does not report it");
    };
    let used = total.saturating_sub(free);
    let mut seen = format!("{} of {} in use", size(used), size(total));
    let bytes = recent.map_or(0, |recent| {
        let page = rustix::param::page_size() as u64;
        recent.counts.swapped_in.saturating_mul(page)
    });
    if let Some(recent) = recent.filter(|_| total > 0) {
        seen = format!("{seen}, {} read back {}", size(bytes), recent.period());
    }
    let level = match percent(used, total) {
        80.. => Severity::Wrong,
        _ if bytes > MUCH_SWAPPED => Severity::Notice,
        25.. if recent.is_none() => return DoctorFinding::unknown(CHECK, seen),
        _ => return DoctorFinding::fine(CHECK, seen),
    };
    DoctorFinding::bad(level, CHECK, seen, SWAP_REASON, FIND_SWAPPED)
}

const SWAP_REASON: &str =
    "swapped memory must be read from the disk before it can be used: a page takes seconds";

const FIND_SWAPPED: &str = "find the swapped processes: grep -H VmSwap /proc/[0-9]*/status | sort -k2 -n | tail; lower the number of PHP's workers";

/// Pressure stall information (Linux 4.20): the share of time in which some process waited for memory.
fn pressure(machine: &ProcFs) -> Option<DoctorFinding> {
    const CHECK: &str = "pressure";
    let text = machine.text("proc/pressure/memory")?;
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let average = line
        .split_whitespace()
        .find_map(|word| word.strip_prefix("avg300="))?;
    let average: f64 = average.parse().ok()?;
    let seen = format!("processes waited for memory in {average} % of the last five minutes");
    if average < 5.0 {
        return Some(DoctorFinding::fine(CHECK, seen));
    }
    Some(DoctorFinding::bad(
        if average < 20.0 {
            Severity::Notice
        } else {
            Severity::Wrong
        },
        CHECK,
        seen,
        "the machine repeatedly reads back what it has just evicted from memory",
        "lower the number of PHP's workers or [cache] memory, or give the machine more memory",
    ))
}

fn is_worker(name: &str) -> bool {
    ["php-fpm", "php-cgi", "apache2", "httpd"]
        .iter()
        .any(|known| name.starts_with(known))
}

fn is_database(name: &str) -> bool {
    ["mariadbd", "mysqld"].contains(&name)
}

/// Bytes read back from swap within an hour that clients may notice: over two seconds at the 100 MB/s of a slow disk.
const MUCH_SWAPPED: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::super::machine::stand_in::StandIn;
    use super::super::recent::tests::quiet;
    use super::*;

    fn meminfo(available: u32, swap_free: u32) -> StandIn {
        let text = format!(
            "MemTotal: 1000 kB\nMemAvailable: {available} kB\nSwapTotal: 100 kB\nSwapFree: {swap_free} kB\n"
        );
        StandIn::new(&[("proc/meminfo", &text)])
    }

    #[test]
    fn available_memory_is_judged() {
        for (available, level) in [
            (500, Severity::Fine),
            (80, Severity::Notice),
            (49, Severity::Wrong),
        ] {
            assert_eq!(
                left(&meminfo(available, 0).machine()).level,
                level,
                "{available}"
            );
        }
        assert_eq!(left(&StandIn::new(&[]).machine()).level, Severity::Unknown);
    }

    #[test]
    fn swap_counts_when_it_is_read_back_or_nearly_full() {
        let pages = MUCH_SWAPPED / rustix::param::page_size() as u64;
        for (free, swapped_in, level) in [
            (100, 0, Severity::Fine),
            // In use for long, and not read back recently.
            (30, 0, Severity::Fine),
            (30, pages, Severity::Fine),
            (30, pages + 1, Severity::Notice),
            (10, 0, Severity::Wrong),
        ] {
            let mut recent = quiet();
            recent.counts.swapped_in = swapped_in;
            let stand_in = meminfo(500, free);
            let finding = swap(&stand_in.machine(), Some(&recent));
            assert_eq!(finding.level, level, "{free} {swapped_in}");
        }
        assert_eq!(
            swap(&meminfo(500, 30).machine(), None).level,
            Severity::Unknown
        );
        let none = StandIn::new(&[("proc/meminfo", "SwapTotal: 0 kB\nSwapFree: 0 kB\n")]);
        assert_eq!(swap(&none.machine(), None).level, Severity::Fine);
    }

    #[test]
    fn a_pool_larger_than_the_memory_is_reported() {
        let mib = |count: u64| count << 20;
        let worker = |kib: u64| {
            StandIn::new(&[
                ("proc/3/comm", "php-fpm8.2\n"),
                ("proc/3/smaps_rollup", &format!("Pss: {kib} kB\n")),
                ("proc/4/comm", "mariadbd\n"),
                ("proc/4/smaps_rollup", "Pss: 102400 kB\n"),
            ])
        };
        let plan = MemoryPlan {
            memory: mib(1024),
            cache: mib(256),
            in_flight: 10,
            ..MemoryPlan::default()
        };
        for (kib, level) in [
            (40 << 10, Severity::Fine),
            (60 << 10, Severity::Notice),
            (80 << 10, Severity::Wrong),
        ] {
            let finding = pool(&worker(kib).machine(), &plan);
            assert_eq!(finding.level, level, "{finding:?}");
        }
        let finding = pool(&worker(80 << 10).machine(), &plan);
        // Nine tenths of 1024 MiB, minus 256 and 100, divided by 80 MiB.
        assert!(
            finding.remedy.contains("in_flight = 7"),
            "{}",
            finding.remedy
        );
        assert_eq!(
            pool(&StandIn::new(&[]).machine(), &plan).level,
            Severity::Unknown
        );
    }

    #[test]
    fn advice_on_the_pool_makes_it_smaller() {
        let mib = |count: u64| count << 20;
        let plan = |cache, in_flight| MemoryPlan {
            memory: mib(1000),
            cache: mib(cache),
            in_flight,
            ..MemoryPlan::default()
        };
        // With nine tenths in use, the advised number must be smaller than the current one.
        assert!(smaller_pool(&plan(500, 4), mib(80), mib(100)).contains("in_flight = 3;"));
        let no_room = smaller_pool(&plan(800, 2), mib(80), mib(100));
        assert!(no_room.contains("memory = \"400MiB\""), "{no_room}");
    }

    #[test]
    fn kills_of_the_last_hour_count() {
        let recent = |oom_kills| {
            let mut recent = quiet();
            recent.counts.oom_kills = oom_kills;
            Some(recent)
        };
        for (kills, recent, level) in [
            (0, None, Severity::Fine),
            (3, None, Severity::Unknown),
            (3, recent(0), Severity::Fine),
            (3, recent(1), Severity::Wrong),
        ] {
            let stand_in = StandIn::new(&[("proc/vmstat", &format!("a 1\noom_kill {kills}\n"))]);
            let finding = killed(&stand_in.machine(), recent.as_ref());
            assert_eq!(finding.level, level, "{kills} {recent:?}");
        }
    }

    #[test]
    fn memory_pressure_is_judged() {
        for (average, level) in [
            ("0.00", Severity::Fine),
            ("7.1", Severity::Notice),
            ("40.00", Severity::Wrong),
        ] {
            let text =
                format!("some avg10=0.00 avg60=0.00 avg300={average} total=8\nfull avg10=0\n");
            let stand_in = StandIn::new(&[("proc/pressure/memory", &text)]);
            assert_eq!(
                pressure(&stand_in.machine()).map(|f| f.level),
                Some(level),
                "{average}"
            );
        }
    }
}
