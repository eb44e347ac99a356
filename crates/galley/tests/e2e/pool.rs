//! The managed PHP-FPM pool adapts to the memory: the number of slots follows the memory of workers, workers that grow or hang are
//! replaced, and no request is lost.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use galley_php::{MachineMemory, MemoryDivision};
use galley_testkit::client::{Request, Response};
use galley_testkit::{runs_as_root, wait_for};

use crate::support::{
    AssertStatus, SiteBuilder, TIMEOUT, TestSite, json_number, output_text, page_value,
    run_concurrently, with_host,
};

/// A script that makes its worker grow: each pattern takes about 48 KiB in the cache of compiled patterns, which lives as long as the
/// process and does not count towards `memory_limit`. With `wait` it waits for the note `go`.
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

/// Returns a cache size that leaves 200 MiB for PHP on this machine, and the resulting division of memory.
fn cache_with_little_for_php() -> (u64, MemoryDivision) {
    let machine = |cache| MachineMemory::at(Path::new("/"), cache, 1);
    let left_for_php = |cache| {
        let division = MemoryDivision::of(machine(cache));
        division.share + division.opcache
    };
    let excess = left_for_php(0).saturating_sub(200 << 20);
    // In addition, an eighth of the cache size is set aside for bookkeeping.
    let cache = excess / 9 * 8;
    (cache, MemoryDivision::of(machine(cache)))
}

fn site_with_little_memory() -> (TestSite, MemoryDivision) {
    let (cache, division) = cache_with_little_for_php();
    let site = SiteBuilder::upstream_line("php = \"managed\"")
        .cache(&format!("memory = {cache}"))
        .file("grows.php", GROWS)
        .start();
    (site, division)
}

/// Sends a request that bypasses the cache.
fn post(site: &TestSite, target: &str) -> Response {
    site.send(Request::form(target, &[("a", "b")]))
}

/// A number that the status reports for PHP of the first site.
fn status_php(site: &TestSite, name: &str) -> u64 {
    let status = site.status();
    json_number(status.split("\"php\":{").nth(1).unwrap_or_default(), name)
}

#[test]
fn the_number_of_slots_follows_the_memory_of_workers() {
    let (site, division) = site_with_little_memory();
    let at_start = division.slots_at_start() as u64;
    assert!(at_start > 2, "{division:?}");
    assert_eq!(status_php(&site, "slots"), at_start);
    post(&site, "/grows.php?patterns=1100").assert_status(200);
    wait_for("fewer slots", TIMEOUT, || {
        status_php(&site, "slots") < at_start
    });
    // The first sample may be from before the worker had grown completely.
    wait_for("its memory to be measured", TIMEOUT, || {
        (48 << 20..96 << 20).contains(&status_php(&site, "worker_bytes"))
    });
    wait_for("as many slots as fit", TIMEOUT, || {
        let status = site.status();
        let number = |name| json_number(&status, name);
        number("slots") == division.slots(number("worker_bytes"), number("largest_bytes")) as u64
    });
    site.galley
        .wait_for_log("adjusted the number of concurrent requests", TIMEOUT);
    // More requests than slots are queued, not rejected.
    let statuses = run_concurrently(12, |_| post(&site, "/grows.php").status);
    assert_eq!(statuses, vec![200; 12]);
}

#[test]
fn a_worker_that_has_grown_is_replaced_after_its_request() {
    let (site, _) = site_with_little_memory();
    let mut busy = site.connect();
    busy.send(&with_host(Request::form(
        "/grows.php?patterns=1700&wait",
        &[("a", "b")],
    )))
    .unwrap();
    site.wait_for_note("held");
    site.galley
        .wait_for_log("it has exceeded the memory limit", TIMEOUT);
    wait_for("the replacement to be counted", TIMEOUT, || {
        status_php(&site, "replaced") == 1
    });
    site.note("go", "");
    let response = busy.receive("POST").unwrap().expect_status(200);
    let grown: u32 = page_value(&response.text(), "pid").parse().unwrap();
    wait_for("the worker to end", TIMEOUT, || {
        fs::read(format!("/proc/{grown}/cmdline")).map_or(true, |line| line.is_empty())
    });
    let body = post(&site, "/grows.php").expect_status(200).text();
    assert_ne!(page_value(&body, "pid"), grown.to_string());
}

#[test]
fn workers_are_replaced_after_many_requests_without_failures() {
    let site = SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 2")
        .file("grows.php", GROWS)
        .start();
    let pids = run_concurrently(4, |_| {
        let mut connection = site.connect();
        let request = with_host(Request::form("/grows.php", &[("a", "b")]));
        let mut pids = BTreeSet::new();
        for _ in 0..1000 {
            let response = connection.exchange(&request).unwrap().expect_status(200);
            pids.insert(page_value(&response.text(), "pid").to_owned());
        }
        pids
    });
    let all: BTreeSet<String> = pids.into_iter().flatten().collect();
    assert!(all.len() > 2, "{all:?}");
}

#[test]
fn a_hung_worker_is_killed_and_logged_with_its_request() {
    let site = SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 1")
        .site("first_byte_timeout = \"1s\"\nphp_timeout = \"1s\"")
        .file(
            "hangs.php",
            "<?php touch(__DIR__ . '/../notes/held'); sleep(600);",
        )
        .file("grows.php", GROWS)
        .start();
    let response = post(&site, "/hangs.php?a=1");
    assert!(
        [502, 504].contains(&response.status),
        "{}",
        response.excerpt()
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
    assert_eq!(status_php(&site, "overdue"), 1);
    // It was the only worker.
    wait_for("a response", TIMEOUT, || {
        post(&site, "/grows.php").status == 200
    });
}

#[test]
fn a_worker_that_hangs_after_its_response_is_killed() {
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
    wait_for("a response", TIMEOUT, || {
        post(&site, "/grows.php").status == 200
    });
}

#[test]
fn the_pool_is_in_the_metrics_and_in_the_status() {
    let site = SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 2")
        .disk()
        .file("grows.php", GROWS)
        .start();
    wait_for("two workers", TIMEOUT, || status_php(&site, "workers") == 2);
    let table = output_text(&site.galley.cli(&["status"]).unwrap());
    assert!(
        table.contains("php       example.test: 2 workers for 2 requests at a time"),
        "{table}"
    );
    let metrics = site.metrics();
    for line in [
        "galley_php_slots{site=\"example.test\"} 2\n",
        "galley_php_workers{site=\"example.test\"} 2\n",
        "galley_php_overdue_total{site=\"example.test\"} 0\n",
    ] {
        assert!(metrics.contains(line), "no {line} in {metrics}");
    }
    // The manual documents every metric.
    let manual = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/metrics.md"
    );
    let manual = fs::read_to_string(manual).unwrap();
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
fn missing_php_extensions_are_reported_by_check_and_at_start() {
    let builder = SiteBuilder::upstream_line(
        "php = \"managed\"\nphp_workers = 1\nphp_binary = \"{dir}/php-fpm-poor\"",
    );
    let path = builder.scratch.join("php-fpm-poor");
    // The real PHP-FPM, except that `-m` lists a single extension.
    let real = fs::read_dir("/usr/sbin")
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().contains("/php-fpm"))
        .unwrap();
    let text = format!(
        "#!/bin/sh\nif [ \"$1\" = -m ]; then echo mysqli; exit; fi\nexec {} \"$@\"\n",
        real.display()
    );
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let site = builder.start();
    let output = site.galley.cli(&["check"]).unwrap();
    assert!(output.status.success(), "{}", output_text(&output));
    for text in [output_text(&output), site.galley.log()] {
        for word in ["json", "php-gd", "no opcache"] {
            assert!(text.contains(word), "no {word} in {text}");
        }
        assert!(!text.contains("php-mysql"), "{text}");
    }
    let json = output_text(&site.galley.cli(&["check", "--json"]).unwrap());
    assert!(json.contains("\"warnings\":[{"), "{json}");
}

#[test]
fn php_of_each_site_runs_as_the_owner_of_its_files() {
    if !runs_as_root() {
        return;
    }
    const UID_PAGE: &str = "<?php echo 'uid=', posix_geteuid(), \"\\n\";";
    let builder = SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 1")
        .file("uid.php", UID_PAGE)
        .more("[[site]]\nhosts = [\"other.test\"]\nroot = \"{root}/../other\"\nphp = \"managed\"\nphp_workers = 1\n");
    let other = builder.scratch.dir("other").unwrap();
    fs::write(other.join("uid.php"), UID_PAGE).unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    // Debian's `games` and `www-data`.
    chown(&other, Some(5), Some(60)).unwrap();
    chown(builder.scratch.join("root"), Some(33), Some(33)).unwrap();
    let site = builder.start();
    let first = site.get("/uid.php").expect_status(200).text();
    let second = site
        .send(Request::get("/uid.php").host("other.test"))
        .expect_status(200)
        .text();
    assert_eq!(
        (page_value(&first, "uid"), page_value(&second, "uid")),
        ("33", "5")
    );
}
