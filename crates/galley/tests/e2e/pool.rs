//! The managed PHP-FPM fits itself to the memory: places follow what workers take, workers that grow or hang are ended, and
//! no request is lost by it.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use galley::php::{MachineMemory, MemoryDivision};
use galley_testkit::client::{Request, Response};
use galley_testkit::{runs_as_root, wait_for};

use crate::support::{Is, PATIENCE, Plan, Stage, number_in, said, together, words};

/// Keeps memory in its worker: each pattern takes some 48 KiB in the cache of compiled patterns, which lives as long as the
/// process and is not counted by `memory_limit`. Waits where a file says so.
pub const GROWS: &str = r#"<?php
ini_set('pcre.jit', '0');
$notes = __DIR__ . '/../notes';
for ($i = 0; $i < (int) ($_GET['patterns'] ?? 0); $i++) {
    preg_match('/' . str_repeat('a?', 10000) . uniqid('', true) . $i . '/', 'x');
}
if (isset($_GET['wait'])) {
    touch("$notes/held");
    for ($i = 0; $i < 10000 && !file_exists("$notes/go"); $i++) {
        usleep(2000);
        clearstatcache();
    }
}
echo 'pid=', getmypid(), "\n";
"#;

/// Memory of the machine, divided so that 200 MiB are left for PHP, whatever the machine has: the cache may take the rest.
fn small() -> (u64, MemoryDivision) {
    let machine = |cache| MachineMemory::at(Path::new("/"), cache, 1);
    let left = |cache| {
        let budget = MemoryDivision::of(machine(cache));
        budget.share + budget.opcache
    };
    let too_much = left(0).saturating_sub(200 << 20);
    // An eighth of it is for bookkeeping.
    let cache = too_much / 9 * 8;
    (cache, MemoryDivision::of(machine(cache)))
}

fn measured() -> (Stage, MemoryDivision) {
    let (cache, budget) = small();
    let stage = Plan::behind("php = \"managed\"")
        .cache(&format!("memory = {cache}"))
        .file("grows.php", GROWS)
        .start();
    (stage, budget)
}

/// Past the cache, always.
fn post(stage: &Stage, target: &str) -> Response {
    stage.ask(Request::form(target, &[("a", "b")]))
}

/// A number of what the status says of the PHP of the first site.
fn of_php(stage: &Stage, name: &str) -> u64 {
    let status = stage.status();
    number_in(status.split("\"php\":{").nth(1).unwrap_or_default(), name)
}

#[test]
fn places_follow_what_workers_take() {
    let (stage, budget) = measured();
    let at_start = budget.slots_at_start() as u64;
    assert!(at_start > 2, "{budget:?}");
    assert_eq!(of_php(&stage, "slots"), at_start);
    post(&stage, "/grows.php?patterns=1100").is(200);
    wait_for("fewer places", PATIENCE, || {
        of_php(&stage, "slots") < at_start
    });
    // The first look may have come while it grew.
    wait_for("what it holds to be seen", PATIENCE, || {
        (48 << 20..96 << 20).contains(&of_php(&stage, "worker_bytes"))
    });
    wait_for("as many as fit", PATIENCE, || {
        let status = stage.status();
        let number = |name| number_in(&status, name);
        number("slots") == budget.slots(number("worker_bytes"), number("largest_bytes")) as u64
    });
    stage
        .galley
        .wait_for_log("adjusted the number of concurrent requests", PATIENCE);
    // And no more than that are at PHP at a time, nor is anyone turned away.
    let answers = together(12, |_| post(&stage, "/grows.php").status);
    assert_eq!(answers, vec![200; 12]);
}

#[test]
fn a_worker_that_has_grown_is_replaced_after_its_request() {
    let (stage, _) = measured();
    let mut busy = stage.connect();
    busy.send(&crate::support::hosted(Request::form(
        "/grows.php?patterns=1700&wait",
        &[("a", "b")],
    )))
    .unwrap();
    stage.wait_for_note("held");
    stage
        .galley
        .wait_for_log("it has exceeded the memory limit", PATIENCE);
    wait_for("it to be counted", PATIENCE, || {
        of_php(&stage, "replaced") == 1
    });
    stage.note("go", "");
    let answer = busy.receive("POST").unwrap().expect_status(200);
    let grown: u32 = said(&answer.text(), "pid").parse().unwrap();
    wait_for("its end", PATIENCE, || {
        fs::read(format!("/proc/{grown}/cmdline")).map_or(true, |line| line.is_empty())
    });
    let answer = post(&stage, "/grows.php").expect_status(200).text();
    assert_ne!(said(&answer, "pid"), grown.to_string());
}

#[test]
fn workers_that_have_answered_many_requests_are_replaced_and_nobody_sees_it() {
    let stage = Plan::behind("php = \"managed\"\nphp_workers = 2")
        .file("grows.php", GROWS)
        .start();
    let pids = together(4, |_| {
        let mut connection = stage.connect();
        let request = crate::support::hosted(Request::form("/grows.php", &[("a", "b")]));
        let mut pids = std::collections::BTreeSet::new();
        for _ in 0..1000 {
            let answer = connection.exchange(&request).unwrap().expect_status(200);
            pids.insert(said(&answer.text(), "pid").to_owned());
        }
        pids
    });
    let all: std::collections::BTreeSet<String> = pids.into_iter().flatten().collect();
    assert!(all.len() > 2, "{all:?}");
}

#[test]
fn a_hung_worker_is_ended_and_named() {
    let stage = Plan::behind("php = \"managed\"\nphp_workers = 1")
        .site("first_byte_timeout = \"1s\"\nphp_timeout = \"1s\"")
        .file(
            "hangs.php",
            "<?php touch(__DIR__ . '/../notes/held'); sleep(600);",
        )
        .file("grows.php", GROWS)
        .start();
    let answer = post(&stage, "/hangs.php?a=1");
    assert!(
        [502, 504].contains(&answer.status),
        "{}",
        answer.beginning()
    );
    stage
        .galley
        .wait_for_log("a request exceeded `php_timeout`", PATIENCE);
    let log = stage.galley.log();
    let line = log
        .lines()
        .find(|line| line.contains("exceeded `php_timeout`"))
        .unwrap();
    for word in ["example.test", "root/hangs.php", "POST /hangs.php"] {
        assert!(line.contains(word), "no {word} in {line}");
    }
    assert_eq!(of_php(&stage, "overdue"), 1);
    // The only worker was hung.
    wait_for("an answer", PATIENCE, || {
        post(&stage, "/grows.php").status == 200
    });
}

#[test]
fn what_hangs_after_its_answer_is_ended_too() {
    let stage = Plan::behind("php = \"managed\"\nphp_workers = 1")
        .site("first_byte_timeout = \"1s\"\nphp_timeout = \"1s\"")
        .file(
            "task.php",
            "<?php echo 'begun'; fastcgi_finish_request(); sleep(600);",
        )
        .file("grows.php", GROWS)
        .start();
    let text = post(&stage, "/task.php").expect_status(200).text();
    assert_eq!(text, "begun");
    stage.galley.wait_for_log("root/task.php", PATIENCE);
    wait_for("an answer", PATIENCE, || {
        post(&stage, "/grows.php").status == 200
    });
}

#[test]
fn numbers_are_in_the_metrics_and_in_the_table() {
    let stage = Plan::behind("php = \"managed\"\nphp_workers = 2")
        .disk()
        .file("grows.php", GROWS)
        .start();
    wait_for("two workers", PATIENCE, || of_php(&stage, "workers") == 2);
    let table = words(&stage.galley.cli(&["status"]).unwrap());
    assert!(
        table.contains("php       example.test: 2 workers for 2 requests at a time"),
        "{table}"
    );
    let mut admin =
        std::os::unix::net::UnixStream::connect(stage.scratch.join("galley/admin.sock")).unwrap();
    admin
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: galley\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut metrics = String::new();
    admin.read_to_string(&mut metrics).unwrap();
    for line in [
        "galley_php_slots{site=\"example.test\"} 2\n",
        "galley_php_workers{site=\"example.test\"} 2\n",
        "galley_php_overdue_total{site=\"example.test\"} 0\n",
    ] {
        assert!(metrics.contains(line), "no {line} in {metrics}");
    }
    // Every metric of this server is in the manual.
    let manual = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/metrics.md"
    );
    let manual = std::fs::read_to_string(manual).unwrap();
    let families = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    let mut count = 0;
    for family in families {
        let name = family.split(' ').next().unwrap();
        assert!(manual.contains(&format!("`{name}`")), "{name}");
        count += 1;
    }
    assert!(count > 50, "{count} families");
}

#[test]
fn what_php_lacks_is_named_by_check_and_at_the_start() {
    let plan =
        Plan::behind("php = \"managed\"\nphp_workers = 1\nphp_binary = \"{dir}/php-fpm-poor\"");
    let path = plan.scratch.join("php-fpm-poor");
    // Has everything but says little.
    let real = fs::read_dir("/usr/sbin").unwrap().flatten();
    let real = real
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().contains("/php-fpm"))
        .unwrap();
    let text = format!(
        "#!/bin/sh\nif [ \"$1\" = -m ]; then echo mysqli; exit; fi\nexec {} \"$@\"\n",
        real.display()
    );
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let stage = plan.start();
    let checked = stage.galley.cli(&["check"]).unwrap();
    assert!(checked.status.success(), "{}", words(&checked));
    for said in [words(&checked), stage.galley.log()] {
        for word in ["json", "php-gd", "no opcache"] {
            assert!(said.contains(word), "no {word} in {said}");
        }
        assert!(!said.contains("php-mysql"), "{said}");
    }
    let json = words(&stage.galley.cli(&["check", "--json"]).unwrap());
    assert!(json.contains("\"warnings\":[{"), "{json}");
}

#[test]
fn each_site_has_the_user_who_owns_its_files() {
    if !runs_as_root() {
        return;
    }
    const WHO: &str = "<?php echo 'uid=', posix_geteuid(), \"\\n\";";
    let plan = Plan::behind("php = \"managed\"\nphp_workers = 1")
        .file("who.php", WHO)
        .more("[[site]]\nhosts = [\"other.test\"]\nroot = \"{root}/../other\"\nphp = \"managed\"\nphp_workers = 1\n");
    let other = plan.scratch.dir("other").unwrap();
    fs::write(other.join("who.php"), WHO).unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    // Debian's `games` and `www-data`.
    chown(&other, Some(5), Some(60)).unwrap();
    chown(plan.scratch.join("root"), Some(33), Some(33)).unwrap();
    let stage = plan.start();
    let first = stage.get("/who.php").expect_status(200).text();
    let second = stage
        .ask(Request::get("/who.php").host("other.test"))
        .expect_status(200)
        .text();
    assert_eq!((said(&first, "uid"), said(&second, "uid")), ("33", "5"));
}
