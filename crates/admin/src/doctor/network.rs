//! Checks connections: the kernel's connection tracking table, local ports, and connections that the kernel drops before Galley
//! sees them.

use super::recent::{RecentChanges, listen_drops};
use super::{DoctorFinding, ProcFs, Severity, percent};

pub(super) fn findings(machine: &ProcFs, recent: Option<&RecentChanges>) -> Vec<DoctorFinding> {
    vec![conntrack(machine), ports(machine), backlog(machine, recent)]
}

/// A full table drops the packets of every new connection, including ssh (`nf_conntrack: table full, dropping packet`).
fn conntrack(machine: &ProcFs) -> DoctorFinding {
    const CHECK: &str = "conntrack";
    let read = |name: &str| machine.number(&format!("proc/sys/net/netfilter/{name}"));
    let (Some(count), Some(limit)) = (read("nf_conntrack_count"), read("nf_conntrack_max")) else {
        return DoctorFinding::fine(CHECK, "connections are not tracked");
    };
    let seen = format!("{count} of {limit} tracked connections");
    let level = match percent(count, limit) {
        80.. => Severity::Wrong,
        50.. => Severity::Notice,
        _ => return DoctorFinding::fine(CHECK, seen),
    };
    let larger = limit.saturating_mul(4).max(262_144);
    DoctorFinding::bad(
        level,
        CHECK,
        seen,
        "when the firewall's table is full, the kernel silently drops new connections; each entry takes about 300 bytes",
        format!(
            "sysctl -w net.netfilter.nf_conntrack_max={larger}   # and a line in /etc/sysctl.d/"
        ),
    )
}

/// A connection that this side closes occupies its port for a minute; connections to the upstream and to the database need
/// local ports.
fn ports(machine: &ProcFs) -> DoctorFinding {
    const CHECK: &str = "ports";
    let waiting = machine.word("proc/net/sockstat", "TCP:", "tw");
    let (Some(range), Some(waiting)) = (local_ports(machine), waiting) else {
        return DoctorFinding::unknown(CHECK, "the kernel does not report it");
    };
    let seen = format!("{waiting} connections in TIME_WAIT, {range} local ports");
    let level = match percent(waiting, range) {
        80.. => Severity::Wrong,
        50.. => Severity::Notice,
        _ if range < FEW_PORTS => Severity::Notice,
        _ => return DoctorFinding::fine(CHECK, seen),
    };
    DoctorFinding::bad(
        level,
        CHECK,
        seen,
        "each TCP connection to an upstream or database uses a port until a minute after its end; without a free port, connecting fails",
        more_ports(machine, range),
    )
}

/// The number of local ports for outgoing connections.
fn local_ports(machine: &ProcFs) -> Option<u64> {
    let range = machine.text("proc/sys/net/ipv4/ip_local_port_range")?;
    let mut ends = range.split_whitespace().map(str::parse::<u64>);
    let (first, last) = (ends.next()?.ok()?, ends.next()?.ok()?);
    last.checked_sub(first)?.checked_add(1)
}

fn more_ports(machine: &ProcFs, range: u64) -> String {
    let sockets = "connect to PHP and the database over unix sockets, which use no ports";
    let mut settings = Vec::new();
    if range < MANY_PORTS {
        settings.push("net.ipv4.ip_local_port_range='10240 65535'");
    }
    if machine.number("proc/sys/net/ipv4/tcp_tw_reuse") != Some(1) {
        settings.push("net.ipv4.tcp_tw_reuse=1");
    }
    match settings.as_slice() {
        [] => sockets.to_owned(),
        settings => format!("sysctl -w {}   # better: {sockets}", settings.join(" ")),
    }
}

/// Checks the connections that were dropped because the queue of a listener was full.
fn backlog(machine: &ProcFs, recent: Option<&RecentChanges>) -> DoctorFinding {
    const CHECK: &str = "backlog";
    let Some(limit) = machine.number("proc/sys/net/core/somaxconn") else {
        return DoctorFinding::unknown(CHECK, "the kernel does not report it");
    };
    let (level, seen) = match recent {
        Some(recent) => {
            let seen = format!(
                "queues of {limit}; {} connections dropped and {} accepted {}",
                recent.counts.listen_drops,
                recent.counts.accepted,
                recent.period()
            );
            // One in a thousand is a burst that clients noticed, not an accident.
            let is_many = recent.counts.listen_drops.saturating_mul(1000) > recent.counts.accepted;
            let level = (is_many && recent.counts.listen_drops > 0).then_some(Severity::Wrong);
            (level, seen)
        }
        None => match listen_drops(machine) {
            0 => (
                None,
                format!("queues of {limit}; no connection was dropped"),
            ),
            dropped => {
                let seen = format!(
                    "queues of {limit}; {dropped} connections dropped since the machine started. Only a running Galley knows whether that was in the last hour"
                );
                return match short_queue(limit) {
                    Some(remedy) => {
                        DoctorFinding::bad(Severity::Notice, CHECK, seen, BACKLOG_REASON, remedy)
                    }
                    None => DoctorFinding::unknown(CHECK, seen),
                };
            }
        },
    };
    let level = match (level, short_queue(limit)) {
        (None, None) => return DoctorFinding::fine(CHECK, seen),
        (None, Some(_)) => Severity::Notice,
        (Some(level), _) => level,
    };
    let remedy = short_queue(limit).unwrap_or(
        "ss -ltn   # shows each listener's queue (Recv-Q) and its limit (Send-Q): a limit below 4096 is that program's own backlog setting, a full queue a program that is too slow",
    );
    DoctorFinding::bad(level, CHECK, seen, BACKLOG_REASON, remedy)
}

/// The remedy for short queues; `None` if the kernel permits the queue that Galley requests.
fn short_queue(limit: u64) -> Option<&'static str> {
    (limit < WANTED_QUEUE).then_some(
        "sysctl -w net.core.somaxconn=4096   # and a line in /etc/sysctl.d/, then systemctl restart galley",
    )
}

const BACKLOG_REASON: &str = "a burst of connections waits in a queue of the kernel; if the queue is full, connections are dropped and their visitors wait for seconds. The count includes all programs on this machine";

/// The queue that Galley requests, which is also the kernel's default since 5.4; before, it was 128.
const WANTED_QUEUE: u64 = 4096;

/// Above this, a wider range gains little: 10240 to 65535 has 55,296 ports.
const MANY_PORTS: u64 = 50_000;

/// With fewer local ports than this, an administrator has narrowed the range.
const FEW_PORTS: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::super::machine::stand_in::StandIn;
    use super::super::recent::tests::quiet;
    use super::*;

    #[test]
    fn tracked_connections_are_judged() {
        for (count, level) in [
            ("100", Severity::Fine),
            ("600", Severity::Notice),
            ("801", Severity::Wrong),
        ] {
            let stand_in = StandIn::new(&[
                ("proc/sys/net/netfilter/nf_conntrack_count", count),
                ("proc/sys/net/netfilter/nf_conntrack_max", "1000\n"),
            ]);
            assert_eq!(conntrack(&stand_in.machine()).level, level, "{count}");
        }
        assert_eq!(
            conntrack(&StandIn::new(&[]).machine()).level,
            Severity::Fine
        );
    }

    #[test]
    fn used_ports_are_judged() {
        for (range, waiting, level) in [
            ("32768\t60999", "1000", Severity::Fine),
            ("32768 60999", "15000", Severity::Notice),
            ("32768 60999", "28000", Severity::Wrong),
            ("60000 60999", "0", Severity::Notice),
            ("60999 32768", "0", Severity::Unknown),
        ] {
            let stand_in = StandIn::new(&[
                ("proc/sys/net/ipv4/ip_local_port_range", range),
                (
                    "proc/net/sockstat",
                    &format!("TCP: inuse 3 orphan 0 tw {waiting} alloc 4 mem 1\n"),
                ),
            ]);
            assert_eq!(ports(&stand_in.machine()).level, level, "{range} {waiting}");
        }
    }

    #[test]
    fn advice_on_ports_changes_something() {
        let remedy = |range: &str, reuse: &str| {
            let stand_in = StandIn::new(&[
                ("proc/sys/net/ipv4/ip_local_port_range", range),
                ("proc/sys/net/ipv4/tcp_tw_reuse", reuse),
                (
                    "proc/net/sockstat",
                    "TCP: inuse 3 orphan 0 tw 60000 alloc 4\n",
                ),
            ]);
            ports(&stand_in.machine()).remedy
        };
        let both = remedy("32768 60999", "2\n");
        assert!(both.contains("port_range='10240 65535' net.ipv4.tcp_tw_reuse=1"));
        let reuse = remedy("10240 65535", "2\n");
        assert!(reuse.contains("tw_reuse=1") && !reuse.contains("port_range"));
        let none = remedy("10240 65535", "1\n");
        assert!(none.contains("unix sockets") && !none.contains("sysctl"));
    }

    /// A machine with queues of `limit` that has dropped `dropped` connections since it started.
    fn queues(limit: &str, dropped: &str) -> StandIn {
        StandIn::new(&[
            ("proc/sys/net/core/somaxconn", limit),
            (
                "proc/net/netstat",
                &format!("TcpExt: A ListenDrops\nTcpExt: 5 {dropped}\n"),
            ),
        ])
    }

    #[test]
    fn dropped_connections_of_the_last_hour_count() {
        for (limit, listen_drops, level) in [
            ("4096", 0, Severity::Fine),
            ("4096", 9, Severity::Fine),
            ("4096", 11, Severity::Wrong),
            ("128", 0, Severity::Notice),
            ("128", 11, Severity::Wrong),
        ] {
            let mut recent = quiet();
            recent.counts.listen_drops = listen_drops;
            // Earlier drops do not count.
            let finding = backlog(&queues(limit, "99999").machine(), Some(&recent));
            assert_eq!(finding.level, level, "{limit} {listen_drops}");
            assert_eq!(
                finding.remedy.contains("somaxconn=4096"),
                limit == "128",
                "{finding:?}"
            );
            assert_eq!(finding.remedy.is_empty(), level == Severity::Fine);
        }
    }

    #[test]
    fn old_drops_are_not_judged_without_a_server() {
        for (limit, dropped, level) in [
            ("4096", "0", Severity::Fine),
            ("4096", "99999", Severity::Unknown),
            ("128", "99999", Severity::Notice),
            ("128", "0", Severity::Notice),
        ] {
            let finding = backlog(&queues(limit, dropped).machine(), None);
            assert_eq!(finding.level, level, "{limit} {dropped}");
        }
    }
}
