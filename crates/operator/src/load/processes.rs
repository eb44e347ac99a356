//! Processor time and network traffic from the kernel's counters. Values that cannot be read are absent.

use std::fs;
use std::path::Path;

/// Processor time since the machine started, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ProcessorTicks {
    /// The time of all processors, including idle time.
    pub(super) all: u64,
    pub(super) idle: u64,
    /// The time of database processes.
    pub(super) database: u64,
    /// The time of PHP processes.
    pub(super) php: u64,
}

impl ProcessorTicks {
    pub(super) fn read() -> Option<Self> {
        let mut counters = machine(&fs::read_to_string("/proc/stat").ok()?)?;
        let entries = fs::read_dir("/proc").ok()?.flatten();
        for entry in entries.filter(|entry| is_number(&entry.file_name().to_string_lossy())) {
            let stat = fs::read_to_string(entry.path().join("stat")).ok();
            let Some(process) = stat.as_deref().and_then(process) else {
                continue;
            };
            if DATABASES.iter().any(|name| process.name.starts_with(name)) {
                counters.database += process.ticks;
            } else if process.name.starts_with("php") {
                counters.php += process.ticks;
            }
        }
        Some(counters)
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Parses `cpu  user nice system idle iowait irq softirq steal ...`
fn machine(stat: &str) -> Option<ProcessorTicks> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line
        .split_whitespace()
        .take(8)
        .map_while(|word| word.parse().ok())
        .collect();
    Some(ProcessorTicks {
        all: ticks.iter().sum(),
        idle: ticks.get(3)?.saturating_add(*ticks.get(4)?),
        ..ProcessorTicks::default()
    })
}

struct ProcessTicks<'s> {
    name: &'s str,
    ticks: u64,
}

/// Parses `pid (name) state ppid ...`: user and system time are the 14th and 15th field; a name may contain spaces and brackets.
fn process(stat: &str) -> Option<ProcessTicks<'_>> {
    let (head, rest) = stat.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let mut fields = rest.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    let ticks = next()?.saturating_add(next()?);
    Some(ProcessTicks { name, ticks })
}

/// The speed and the traffic of a network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InterfaceCounter {
    name: String,
    bytes: u64,
    bits_per_s: u64,
}

/// All interfaces with a known speed.
pub(super) fn interfaces() -> Vec<InterfaceCounter> {
    let number = |path: &Path, name: &str| {
        let text = fs::read_to_string(path.join(name)).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let entries = fs::read_dir("/sys/class/net")
        .into_iter()
        .flatten()
        .flatten();
    let interfaces = entries.filter_map(|entry| {
        let path = entry.path();
        let megabits = number(&path, "speed").filter(|speed| *speed > 0)?;
        let received = number(&path, "statistics/rx_bytes")?;
        let sent = number(&path, "statistics/tx_bytes")?;
        Some(InterfaceCounter {
            name: entry.file_name().to_string_lossy().into_owned(),
            bytes: received.max(sent),
            bits_per_s: megabits.saturating_mul(1_000_000),
        })
    });
    interfaces.collect()
}

/// The traffic between two readings as a fraction of the interface's speed, for the busiest interface.
#[expect(clippy::cast_precision_loss, reason = "a share")]
pub(super) fn network_share(
    before: &[InterfaceCounter],
    now: &[InterfaceCounter],
    seconds: f64,
) -> Option<f64> {
    let shares = now.iter().filter_map(|now| {
        let before = before.iter().find(|before| before.name == now.name)?;
        let bits = now.bytes.saturating_sub(before.bytes) as f64 * 8.0;
        Some(bits / seconds / now.bits_per_s as f64)
    });
    shares.reduce(f64::max)
}

/// The process names of databases.
const DATABASES: [&str; 3] = ["mariadbd", "mysqld", "postgres"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_counters_are_parsed() {
        let found = machine("cpu  10 1 5 100 20 1 1 2 0 0\ncpu0 1 1\n").unwrap();
        assert_eq!((found.all, found.idle), (140, 120));
        assert_eq!(machine("intr 1\n"), None);
        assert_eq!(machine("cpu  1 2\n"), None);
        let found = process("12 (php-fpm: (p) x) S 1 2 3 4 5 6 7 8 9 10 40 2 0 0").unwrap();
        assert_eq!((found.name, found.ticks), ("php-fpm: (p) x", 42));
        assert!(process("12 (cut) S 1").is_none());
        assert!(ProcessorTicks::read().unwrap().all > 0);
    }

    #[test]
    fn the_busiest_interface_counts() {
        let counter = |name: &str, bytes| InterfaceCounter {
            name: name.to_owned(),
            bytes,
            bits_per_s: 1000,
        };
        let before = [counter("a", 0), counter("b", 100)];
        let now = [counter("a", 25), counter("b", 200), counter("new", 900)];
        assert_eq!(network_share(&before, &now, 1.0), Some(0.8));
        assert_eq!(network_share(&[], &now, 1.0), None);
    }
}
