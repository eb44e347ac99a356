//! Connections: the kernel's table of tracked ones, ports for our own, and those it drops before we see them.

use super::{Finding, Level, Machine, percent};

pub(super) fn findings(machine: &Machine) -> Vec<Finding> {
    vec![conntrack(machine), ports(machine), backlog(machine)]
}

/// A full table drops packets of every new connection, of ssh too (`nf_conntrack: table full, dropping packet`).
fn conntrack(machine: &Machine) -> Finding {
    const CHECK: &str = "conntrack";
    let read = |name: &str| machine.number(&format!("proc/sys/net/netfilter/{name}"));
    let (Some(count), Some(limit)) = (read("nf_conntrack_count"), read("nf_conntrack_max")) else {
        return Finding::fine(CHECK, "connections are not tracked");
    };
    let seen = format!("{count} of {limit} tracked connections");
    let level = match percent(count, limit) {
        80.. => Level::Wrong,
        50.. => Level::Notice,
        _ => return Finding::fine(CHECK, seen),
    };
    let larger = limit.saturating_mul(4).max(262_144);
    Finding::bad(
        level,
        CHECK,
        seen,
        "when the firewall's table is full, the kernel drops every new connection without a word; each takes about 300 bytes",
        format!(
            "sysctl -w net.netfilter.nf_conntrack_max={larger}   # and a line in /etc/sysctl.d/"
        ),
    )
}

/// A connection that we end keeps its port for a minute; those to the upstream and to the database take local ports.
fn ports(machine: &Machine) -> Finding {
    const CHECK: &str = "ports";
    let range = machine.text("proc/sys/net/ipv4/ip_local_port_range");
    let range = range.and_then(|text| {
        let mut ends = text.split_whitespace().map(str::parse::<u64>);
        let (first, last) = (ends.next()?.ok()?, ends.next()?.ok()?);
        last.checked_sub(first)?.checked_add(1)
    });
    let waiting = machine.word("proc/net/sockstat", "TCP:", "tw");
    let (Some(range), Some(waiting)) = (range, waiting) else {
        return Finding::unknown(CHECK, "the kernel does not tell");
    };
    let seen = format!("{waiting} connections in TIME_WAIT, {range} local ports");
    let level = match percent(waiting, range) {
        80.. => Level::Wrong,
        50.. => Level::Notice,
        _ if range < FEW_PORTS => Level::Notice,
        _ => return Finding::fine(CHECK, seen),
    };
    Finding::bad(
        level,
        CHECK,
        seen,
        "each connection to an upstream or database over TCP takes a port and keeps it for a minute after its end; without a free port connecting fails",
        "sysctl -w net.ipv4.ip_local_port_range='10240 65535' net.ipv4.tcp_tw_reuse=1   # better: reach PHP and the database over unix sockets",
    )
}

/// Connections that waited for us longer than the queue.
fn backlog(machine: &Machine) -> Finding {
    const CHECK: &str = "backlog";
    let Some(limit) = machine.number("proc/sys/net/core/somaxconn") else {
        return Finding::unknown(CHECK, "the kernel does not tell");
    };
    let dropped = machine.counter("proc/net/netstat", "TcpExt", "ListenDrops");
    let taken = machine.counter("proc/net/snmp", "Tcp", "PassiveOpens");
    let (dropped, taken) = (dropped.unwrap_or(0), taken.unwrap_or(0));
    let seen = format!(
        "queues of {limit}; {dropped} connections dropped and {taken} taken since the machine started"
    );
    // One in a thousand is a storm at some time, not an accident.
    let level = match (dropped, limit) {
        (dropped, _) if dropped.saturating_mul(1000) > taken && dropped > 0 => Level::Wrong,
        (_, limit) if limit < SHORT_QUEUE => Level::Notice,
        _ => return Finding::fine(CHECK, seen),
    };
    Finding::bad(
        level,
        CHECK,
        seen,
        "connections that come in a burst wait in a queue of the kernel; beyond its end they are dropped, and their visitors wait for seconds. The count is of all programs of this machine",
        "sysctl -w net.core.somaxconn=4096   # and a line in /etc/sysctl.d/; for PHP-FPM also listen.backlog in its pool",
    )
}

/// Fewer local ports than this are a range that somebody has narrowed.
const FEW_PORTS: u64 = 10_000;

/// The kernel's value before 5.4 was 128.
const SHORT_QUEUE: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::super::machine::stand_in::StandIn;
    use super::*;

    #[test]
    fn tracked_connections() {
        for (count, level) in [
            ("100", Level::Fine),
            ("600", Level::Notice),
            ("801", Level::Wrong),
        ] {
            let stand_in = StandIn::new(&[
                ("proc/sys/net/netfilter/nf_conntrack_count", count),
                ("proc/sys/net/netfilter/nf_conntrack_max", "1000\n"),
            ]);
            assert_eq!(conntrack(&stand_in.machine()).level, level, "{count}");
        }
        assert_eq!(conntrack(&StandIn::new(&[]).machine()).level, Level::Fine);
    }

    #[test]
    fn ports_in_waiting() {
        for (range, waiting, level) in [
            ("32768\t60999", "1000", Level::Fine),
            ("32768 60999", "15000", Level::Notice),
            ("32768 60999", "28000", Level::Wrong),
            ("60000 60999", "0", Level::Notice),
            ("60999 32768", "0", Level::Unknown),
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
    fn dropped_connections() {
        for (limit, dropped, taken, level) in [
            ("4096", "0", "0", Level::Fine),
            ("4096", "9", "10000", Level::Fine),
            ("4096", "11", "10000", Level::Wrong),
            ("128", "0", "10000", Level::Notice),
        ] {
            let stand_in = StandIn::new(&[
                ("proc/sys/net/core/somaxconn", limit),
                (
                    "proc/net/netstat",
                    &format!("TcpExt: A ListenDrops\nTcpExt: 5 {dropped}\n"),
                ),
                (
                    "proc/net/snmp",
                    &format!("Tcp: ActiveOpens PassiveOpens\nTcp: 5 {taken}\n"),
                ),
            ]);
            assert_eq!(
                backlog(&stand_in.machine()).level,
                level,
                "{limit} {dropped}"
            );
        }
    }
}
