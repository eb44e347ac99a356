//! `galley doctor` finds what is wrong with a machine, its PHP and its WordPress. The kernel's own numbers come from a
//! stand-in below a folder; PHP, the database and WordPress are real.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use galley_testkit::{Scratch, wait_for};
use serde_json::Value;

use super::stack::{HOST, HOUR, Kind, SiteBuilder, Stack, TIMEOUT};

/// A machine on which nothing is wrong.
const FINE: &[(&str, &str)] = &[
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
        // Long ago: what counts is the last hour, which the running server reports.
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

/// What is put wrong: the check that must find it, the file, its text.
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
    // Twenty requests at a time, each of 200 MB, do not fit into 2 GB.
    ("pool", "proc/10/smaps_rollup", "Pss: 200000 kB\n"),
];

/// What the stand-in decides; room and speed of the disk are this machine's own.
const JUDGED: &[&str] = &[
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

/// Asks the doctor: its exit code and its findings.
fn examine(stack: &Stack, machine: &Path) -> (i32, Vec<Value>) {
    let machine = machine.to_str().unwrap();
    let arguments = ["doctor", "--json", "--machine", machine];
    let output = stack.galley.cli(&arguments).unwrap();
    let mut value: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let findings = value["findings"].as_array_mut().unwrap();
    (output.status.code().unwrap(), std::mem::take(findings))
}

fn of<'a>(findings: &'a [Value], check: &str) -> &'a Value {
    let found = findings.iter().find(|finding| finding["check"] == check);
    found.unwrap_or_else(|| panic!("no {check} in {findings:?}"))
}

fn put(machine: &Scratch, name: &str, text: &str) {
    fs::create_dir_all(machine.join(name).parent().unwrap()).unwrap();
    machine.write(name, text).unwrap();
}

#[test]
fn each_fault_of_the_machine_is_found_and_nothing_else() {
    let stack = Stack::start(Kind::Fpm, &SiteBuilder::new([(HOST, HOUR.to_owned())]));
    let machine = Scratch::new().unwrap();
    for (name, text) in FINE {
        put(&machine, name, text);
    }
    let (_, found) = examine(&stack, machine.path());
    for check in JUDGED {
        assert_eq!(of(&found, check)["level"], "fine", "{check}");
    }
    for (check, name, text) in FAULTS {
        put(&machine, name, text);
        let (code, found) = examine(&stack, machine.path());
        assert_eq!(code, 1, "{check}");
        for other in JUDGED {
            let wanted = if other == check { "wrong" } else { "fine" };
            let level = &of(&found, other)["level"];
            assert_eq!(level, wanted, "{other}, with {check} put wrong");
        }
        let remedy = of(&found, check)["remedy"].as_str().unwrap();
        assert!(!remedy.is_empty(), "{check}");
        let (_, fine) = FINE.iter().find(|(fine, _)| fine == name).unwrap();
        put(&machine, name, fine);
    }
}

/// A Redis at the usual socket is recommended until WordPress uses an object cache.
fn assert_object_cache(stack: &Stack, machine: &Scratch) {
    let socket = machine.join("run/redis/redis-server.sock");
    fs::create_dir_all(socket.parent().unwrap()).unwrap();
    let mut redis = Command::new("redis-server");
    redis.args(["--port", "0", "--save", "", "--unixsocket"]);
    let mut redis = redis.arg(&socket).stdout(Stdio::null()).spawn().unwrap();
    wait_for("the doctor to find Redis", TIMEOUT, || {
        let (_, found) = examine(stack, machine.path());
        let found = of(&found, "object cache");
        let names_it = |text: &Value| {
            text.as_str()
                .unwrap()
                .contains("/run/redis/redis-server.sock")
        };
        found["level"] == "notice" && names_it(&found["seen"]) && names_it(&found["remedy"])
    });
    let drop_in = stack.wordpress.root.join("wp-content/object-cache.php");
    fs::write(&drop_in, "<?php require ABSPATH . WPINC . '/cache.php';").unwrap();
    let (_, found) = examine(stack, machine.path());
    assert_eq!(of(&found, "object cache")["level"], "fine");
    fs::remove_file(drop_in).unwrap();
    redis.kill().unwrap();
    redis.wait().unwrap();
}

#[test]
fn faults_of_wordpress_and_its_database_are_found() {
    let mut stack = Stack::start(Kind::Fpm, &SiteBuilder::new([(HOST, HOUR.to_owned())]));
    let machine = Scratch::new().unwrap();
    let assert_levels = |stack: &Stack, checks: &[&str], wanted: &str| {
        let (_, found) = examine(stack, machine.path());
        for check in checks {
            assert_eq!(of(&found, check)["level"], wanted, "{check}");
        }
    };
    // The site may have been made hours ago.
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
    // PHP looks at a file that it has compiled every two seconds.
    wait_for("PHP to read the new configuration", TIMEOUT, || {
        of(&examine(&stack, machine.path()).1, "page cache")["level"] == "notice"
    });
    assert_levels(&stack, &["errors"], "notice");
    assert_object_cache(&stack, &machine);
    stack.database.kill();
    assert_levels(&stack, &["wordpress"], "wrong");
    stack.upstream.kill();
    assert_levels(&stack, &["php"], "unknown");
}
