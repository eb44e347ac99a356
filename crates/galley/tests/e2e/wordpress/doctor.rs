//! `galley doctor` reports faults of the machine, PHP and WordPress. The kernel's figures come from a fake `/proc` in a directory;
//! PHP, the database and WordPress are real.

use std::fs;
use std::path::Path;

use galley_testkit::{Scratch, wait_for};
use serde_json::Value;

use super::stack::{HOST, HOUR, StackOptions, TIMEOUT, UpstreamKind, WordPressStack};

/// Files of a machine without faults.
const HEALTHY: &[(&str, &str)] = &[
    ("proc/sys/net/netfilter/nf_conntrack_count", "100\n"),
    ("proc/sys/net/netfilter/nf_conntrack_max", "65536\n"),
    ("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
    (
        "proc/net/sockstat",
        "sockets: used 9\nTCP: inuse 1 orphan 0 tw 20 alloc 2 mem 1\n",
    ),
    ("proc/sys/net/core/somaxconn", "4096\n"),
    (
        "proc/net/netstat",
        // Old overflows: the check uses those of the last hour, which the running server reports.
        "TcpExt: ListenOverflows ListenDrops\nTcpExt: 90000 90000\n",
    ),
    (
        "proc/net/snmp",
        "Tcp: ActiveOpens PassiveOpens\nTcp: 5 100000\n",
    ),
    ("proc/sys/fs/file-nr", "2000\t0\t1000000\n"),
    (
        "proc/meminfo",
        "MemTotal: 2000000 kB\nMemAvailable: 1000000 kB\nSwapTotal: 1000000 kB\nSwapFree: 1000000 kB\n",
    ),
    ("proc/vmstat", "oom_kill 7\n"),
    (
        "proc/pressure/memory",
        "some avg10=0.00 avg60=0.00 avg300=0.10 total=1\n",
    ),
    ("proc/10/comm", "php-fpm8.2\n"),
    ("proc/10/smaps_rollup", "Pss: 50000 kB\n"),
    ("proc/11/comm", "chronyd\n"),
];

/// Faults: the check that must report it, the changed file, its content.
const FAULTS: &[(&str, &str, &str)] = &[
    (
        "conntrack",
        "proc/sys/net/netfilter/nf_conntrack_count",
        "65000\n",
    ),
    (
        "ports",
        "proc/net/sockstat",
        "TCP: inuse 1 orphan 0 tw 27500 alloc 2 mem 1\n",
    ),
    ("files", "proc/sys/fs/file-nr", "990000\t0\t1000000\n"),
    (
        "memory",
        "proc/meminfo",
        "MemTotal: 2000000 kB\nMemAvailable: 50000 kB\nSwapTotal: 1000 kB\nSwapFree: 1000 kB\n",
    ),
    (
        "swap",
        "proc/meminfo",
        "MemTotal: 2000000 kB\nMemAvailable: 1000000 kB\nSwapTotal: 1000 kB\nSwapFree: 10 kB\n",
    ),
    (
        "pressure",
        "proc/pressure/memory",
        "some avg10=0.00 avg60=0.00 avg300=55.00 total=1\n",
    ),
    // Twenty concurrent requests of 200 MB each do not fit into 2 GB.
    ("pool", "proc/10/smaps_rollup", "Pss: 200000 kB\n"),
];

/// Checks that depend only on the fake files. Free space and speed of the disk are those of the real machine.
const CHECKS: &[&str] = &[
    "conntrack",
    "ports",
    "backlog",
    "files",
    "memory",
    "pool",
    "oom",
    "swap",
    "pressure",
    "clock",
];

/// Runs `galley doctor` and returns its exit code and findings.
fn run_doctor(stack: &WordPressStack, machine: &Path) -> (i32, Vec<Value>) {
    let machine = machine.to_str().unwrap();
    let arguments = ["doctor", "--json", "--machine", machine];
    let output = stack.galley.cli(&arguments).unwrap();
    let mut value: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let findings = value["findings"].as_array_mut().unwrap();
    (output.status.code().unwrap(), std::mem::take(findings))
}

fn finding<'a>(findings: &'a [Value], check: &str) -> &'a Value {
    let found = findings.iter().find(|finding| finding["check"] == check);
    found.unwrap_or_else(|| panic!("no {check} in {findings:?}"))
}

fn write_file(machine: &Scratch, name: &str, text: &str) {
    fs::create_dir_all(machine.join(name).parent().unwrap()).unwrap();
    machine.write(name, text).unwrap();
}

#[test]
fn each_system_fault_is_reported_by_exactly_one_check() {
    let stack = WordPressStack::start(
        UpstreamKind::Fpm,
        &StackOptions::new([(HOST, HOUR.to_owned())]),
    );
    let machine = Scratch::new().unwrap();
    for (name, text) in HEALTHY {
        write_file(&machine, name, text);
    }
    let (_, found) = run_doctor(&stack, machine.path());
    for check in CHECKS {
        assert_eq!(finding(&found, check)["level"], "fine", "{check}");
    }
    for (check, name, text) in FAULTS {
        write_file(&machine, name, text);
        let (code, found) = run_doctor(&stack, machine.path());
        assert_eq!(code, 1, "{check}");
        for other in CHECKS {
            let expected = if other == check { "wrong" } else { "fine" };
            let level = &finding(&found, other)["level"];
            assert_eq!(level, expected, "{other}, with a fault in {check}");
        }
        let remedy = finding(&found, check)["remedy"].as_str().unwrap();
        assert!(!remedy.is_empty(), "{check}");
        let (_, healthy) = HEALTHY.iter().find(|(file, _)| file == name).unwrap();
        write_file(&machine, name, healthy);
    }
}

#[test]
fn faults_in_wordpress_and_its_database_are_reported() {
    let mut stack = WordPressStack::start(
        UpstreamKind::Fpm,
        &StackOptions::new([(HOST, HOUR.to_owned())]),
    );
    let machine = Scratch::new().unwrap();
    let assert_levels = |stack: &WordPressStack, checks: &[&str], expected: &str| {
        let (_, found) = run_doctor(stack, machine.path());
        for check in checks {
            assert_eq!(finding(&found, check)["level"], expected, "{check}");
        }
    };
    // The template of the site may be hours old, with overdue tasks.
    stack.php("update_option('cron', ['version' => 2]);");
    let all = ["autoload", "cron", "page cache", "object cache", "errors"];
    assert_levels(&stack, &all, "fine");
    stack.php("update_option('galley_test_large', str_repeat('x', 4000000), true);");
    stack.php("wp_schedule_single_event(time() - 90000, 'galley_test_task');");
    assert_levels(&stack, &["autoload", "cron"], "wrong");
    let root = stack.wordpress.root.clone();
    fs::write(root.join("wp-content/advanced-cache.php"), "<?php ").unwrap();
    let config = fs::read_to_string(root.join("wp-config.php")).unwrap();
    let with = "<?php define('WP_CACHE', true); define('WP_DEBUG', true);";
    fs::write(
        root.join("wp-config.php"),
        config.replacen("<?php", with, 1),
    )
    .unwrap();
    // OPcache checks a compiled file for changes every two seconds.
    wait_for("PHP to read the new configuration", TIMEOUT, || {
        finding(&run_doctor(&stack, machine.path()).1, "page cache")["level"] == "notice"
    });
    assert_levels(&stack, &["errors"], "notice");
    stack.database.kill();
    assert_levels(&stack, &["wordpress"], "wrong");
    stack.upstream.kill();
    assert_levels(&stack, &["upstream"], "wrong");
}
