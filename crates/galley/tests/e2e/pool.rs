//! The managed PHP-FPM fits itself to the memory: places follow what workers take, workers that grow or hang are ended, and
//! no request is lost by it.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use galley::php::{MachineMemory, MemoryDivision};
use galley_testkit::client::{Request, Response};
use galley_testkit::{runs_as_root, wait_for};

use crate::support::{
    AssertStatus, SiteBuilder, TIMEOUT, TestSite, json_number, output_text, page_value,
    run_concurrently,
};

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

fn measured() -> (TestSite, MemoryDivision) {
    let (cache, budget) = small();
    let site = SiteBuilder::upstream_line("php = \"managed\"")
        .cache(&format!("memory = {cache}"))
        .file("grows.php", GROWS)
        .start();
    (site, budget)
}

/// Past the cache, always.
fn post(site: &TestSite, target: &str) -> Response {
    site.send(Request::form(target, &[("a", "b")]))
}

/// A number of what the status says of the PHP of the first site.
fn of_php(site: &TestSite, name: &str) -> u64 {
    let status = site.status();
    json_number(status.split("\"php\":{").nth(1).unwrap_or_default(), name)
}

#[test]
fn places_follow_what_workers_take() {
    let (site, budget) = measured();
    let at_start = budget.slots_at_start() as u64;
    assert!(at_start > 2, "{budget:?}");
    assert_eq!(of_php(&site, "slots"), at_start);
    post(&site, "/grows.php?patterns=1100").assert_status(200);
    wait_for("fewer places", TIMEOUT, || {
        of_php(&site, "slots") < at_start
    });
    // The first look may have come while it grew.
    wait_for("what it holds to be seen", TIMEOUT, || {
        (48 << 20..96 << 20).contains(&of_php(&site, "worker_bytes"))
    });
    wait_for("as many as fit", TIMEOUT, || {
        let status = site.status();
        let number = |name| json_number(&status, name);
        number("slots") == budget.slots(number("worker_bytes"), number("largest_bytes")) as u64
    });
    site.galley
        .wait_for_log("adjusted the number of concurrent requests", TIMEOUT);
    // And no more than that are at PHP at a time, nor is anyone turned away.
    let answers = run_concurrently(12, |_| post(&site, "/grows.php").status);
    assert_eq!(answers, vec![200; 12]);
}

#[test]
fn a_worker_that_has_grown_is_replaced_after_its_request() {
    let (site, _) = measured();
    let mut busy = site.connect();
    busy.send(&crate::support::with_host(Request::form(
        "/grows.php?patterns=1700&wait",
        &[("a", "b")],
    )))
    .unwrap();
    site.wait_for_note("held");
    site.galley
        .wait_for_log("it has exceeded the memory limit", TIMEOUT);
    wait_for("it to be counted", TIMEOUT, || {
        of_php(&site, "replaced") == 1
    });
    site.note("go", "");
    let answer = busy.receive("POST").unwrap().expect_status(200);
    let grown: u32 = page_value(&answer.text(), "pid").parse().unwrap();
    wait_for("its end", TIMEOUT, || {
        fs::read(format!("/proc/{grown}/cmdline")).map_or(true, |line| line.is_empty())
    });
    let answer = post(&site, "/grows.php").expect_status(200).text();
    assert_ne!(page_value(&answer, "pid"), grown.to_string());
}

#[test]
fn workers_that_have_answered_many_requests_are_replaced_and_nobody_sees_it() {
    let site = SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 2")
        .file("grows.php", GROWS)
        .start();
    let pids = run_concurrently(4, |_| {
        let mut connection = site.connect();
        let request = crate::support::with_host(Request::form("/grows.php", &[("a", "b")]));
        let mut pids = std::collections::BTreeSet::new();
        for _ in 0..1000 {
            let answer = connection.exchange(&request).unwrap().expect_status(200);
            pids.insert(page_value(&answer.text(), "pid").to_owned());
        }
        pids
    });
    let all: std::collections::BTreeSet<String> = pids.into_iter().flatten().collect();
    assert!(all.len() > 2, "{all:?}");
}

#[test]
fn a_hung_worker_is_ended_and_named() {
    let site = SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 1")
        .site("first_byte_timeout = \"1s\"\nphp_timeout = \"1s\"")
        .file(
            "hangs.php",
            "<?php touch(__DIR__ . '/../notes/held'); sleep(600);",
        )
        .file("grows.php", GROWS)
        .start();
    let answer = post(&site, "/hangs.php?a=1");
    assert!(
        [502, 504].contains(&answer.status),
        "{}",
        answer.beginning()
    );
    site.galley
        .wait_for_log("a request exceeded `php_timeout`", TIMEOUT);
    let log = site.galley.log();
    let line = log
        .lines()
        .find(|line| line.contains("exceeded `php_timeout`"))
        .unwrap();
    for word in ["example.test", "root/hangs.php", "POST /hangs.php"] {
        assert!(line.contains(word), "no {word} in {line}");
    }
    assert_eq!(of_php(&site, "overdue"), 1);
    // The only worker was hung.
    wait_for("an answer", TIMEOUT, || {
        post(&site, "/grows.php").status == 200
    });
}

#[test]
fn what_hangs_after_its_answer_is_ended_too() {
    let site = SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 1")
        .site("first_byte_timeout = \"1s\"\nphp_timeout = \"1s\"")
        .file(
            "task.php",
            "<?php echo 'begun'; fastcgi_finish_request(); sleep(600);",
        )
        .file("grows.php", GROWS)
        .start();
    let text = post(&site, "/task.php").expect_status(200).text();
    assert_eq!(text, "begun");
    site.galley.wait_for_log("root/task.php", TIMEOUT);
    wait_for("an answer", TIMEOUT, || {
        post(&site, "/grows.php").status == 200
    });
}

#[test]
fn numbers_are_in_the_metrics_and_in_the_table() {
    let site = SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 2")
        .disk()
        .file("grows.php", GROWS)
        .start();
    wait_for("two workers", TIMEOUT, || of_php(&site, "workers") == 2);
    let table = output_text(&site.galley.cli(&["status"]).unwrap());
    assert!(
        table.contains("php       example.test: 2 workers for 2 requests at a time"),
        "{table}"
    );
    let mut admin =
        std::os::unix::net::UnixStream::connect(site.scratch.join("galley/admin.sock")).unwrap();
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
    let plan = SiteBuilder::upstream_line(
        "php = \"managed\"\nphp_workers = 1\nphp_binary = \"{dir}/php-fpm-poor\"",
    );
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
    let site = plan.start();
    let checked = site.galley.cli(&["check"]).unwrap();
    assert!(checked.status.success(), "{}", output_text(&checked));
    for said in [output_text(&checked), site.galley.log()] {
        for word in ["json", "php-gd", "no opcache"] {
            assert!(said.contains(word), "no {word} in {said}");
        }
        assert!(!said.contains("php-mysql"), "{said}");
    }
    let json = output_text(&site.galley.cli(&["check", "--json"]).unwrap());
    assert!(json.contains("\"warnings\":[{"), "{json}");
}

#[test]
fn each_site_has_the_user_who_owns_its_files() {
    if !runs_as_root() {
        return;
    }
    const WHO: &str = "<?php echo 'uid=', posix_geteuid(), \"\\n\";";
    let plan = SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 1")
        .file("who.php", WHO)
        .more("[[site]]\nhosts = [\"other.test\"]\nroot = \"{root}/../other\"\nphp = \"managed\"\nphp_workers = 1\n");
    let other = plan.scratch.dir("other").unwrap();
    fs::write(other.join("who.php"), WHO).unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    // Debian's `games` and `www-data`.
    chown(&other, Some(5), Some(60)).unwrap();
    chown(plan.scratch.join("root"), Some(33), Some(33)).unwrap();
    let site = plan.start();
    let first = site.get("/who.php").expect_status(200).text();
    let second = site
        .send(Request::get("/who.php").host("other.test"))
        .expect_status(200)
        .text();
    assert_eq!(
        (page_value(&first, "uid"), page_value(&second, "uid")),
        ("33", "5")
    );
}
