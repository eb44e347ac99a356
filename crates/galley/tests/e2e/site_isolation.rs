//! Isolation between two sites of one server. One site is flooded with more pages than fit in memory, or with slow pages that
//! occupy PHP. The other site must keep its pages in memory and get responses to its misses.

use std::time::{Duration, Instant};

use galley_testkit::client::{Connection, Request, Response};
use galley_testkit::{Galley, wait_for};

use crate::support::{SiteBuilder, TIMEOUT, TestSite, binary};

const OTHER_SITE: &str = "neighbor.test";
const FLOODED: &str = "flooded.test";

/// Pages of 100 kB. Pages below `/slow/` wait until the test ends.
const SCRIPT: &str = r#"<?php
$notes = __DIR__ . '/../notes';
if (strncmp($_SERVER['REQUEST_URI'], '/slow/', 6) === 0) {
    file_put_contents("$notes/slow", '.', FILE_APPEND | LOCK_EX);
    for ($i = 0; $i < 6000 && !file_exists("$notes/go"); $i++) {
        usleep(10000);
        clearstatcache();
    }
}
echo '<html><body>', str_repeat('0123456789', 10000), '</body></html>';
"#;

/// Starts both sites with one PHP-FPM of four workers. This `max_object` makes the memory cache use a single shard: with several shards,
/// one could fill up before the others, because only few pages of 100 kB fit.
fn start_sites(cache: &str) -> TestSite {
    let max_object = "max_object = \"2MiB\"";
    let builder = SiteBuilder::php()
        .file("index.php", SCRIPT)
        .workers(4)
        .cache(&format!("memory = \"16MiB\"\n{max_object}\n{cache}"))
        .site(&format!("hosts = [\"{OTHER_SITE}\"]\ncompress = []"))
        .more(&format!(
            "[[site]]\nhosts = [\"{FLOODED}\"]\nroot = \"{{root}}\"\nphp = \"{{php}}\"\ncompress = []"
        ));
    let (scratch, fpm, text) = builder.prepare();
    let address = fpm.as_ref().unwrap().address();
    let shared_pool = format!("php = [{{ address = \"{address}\", max = 4 }}]");
    let text = text.replace(&format!("php = \"{address}\""), &shared_pool);
    let galley = Galley::start_binary(binary(), &scratch.join("galley"), &text).unwrap();
    TestSite {
        galley,
        fpm,
        scratch,
    }
}

fn get(site: &TestSite, host: &str, path: &str) -> Response {
    site.send(Request::get(path).host(host))
}

fn is_hit(response: &Response) -> bool {
    let status = response.field("cache-status").unwrap_or_default();
    status.starts_with("galley; hit")
}

/// Requests many pages, each three times so that it appears popular.
fn flood(site: &TestSite, pages: usize) {
    let mut connection = site.connect();
    for page in 0..pages {
        for _ in 0..3 {
            let request = Request::get(&format!("/flood/{page}/")).host(FLOODED);
            let response = connection.exchange(&request).unwrap();
            assert_eq!(response.status, 200);
        }
    }
}

fn memory_bytes(site: &TestSite, host: &str) -> u64 {
    let status: serde_json::Value = serde_json::from_str(&site.status()).unwrap();
    let mut sites = status["sites"].as_array().unwrap().iter();
    let status = sites.find(|status| status["name"] == host).unwrap();
    status["memory_bytes"].as_u64().unwrap()
}

#[test]
fn a_flood_of_urls_does_not_evict_pages_of_another_site() {
    let site = start_sites("");
    let pages: Vec<String> = (0..20).map(|page| format!("/warm/{page}/")).collect();
    for page in &pages {
        assert!(!is_hit(&get(&site, OTHER_SITE, page)));
    }
    let before = memory_bytes(&site, OTHER_SITE);
    assert!(before > 20 * 100_000, "{before}");
    flood(&site, 300);
    assert!(
        memory_bytes(&site, FLOODED) > 6 << 20,
        "the flooded site uses free memory"
    );
    for page in &pages {
        assert!(is_hit(&get(&site, OTHER_SITE, page)), "{page}");
    }
    assert_eq!(memory_bytes(&site, OTHER_SITE), before);
}

#[test]
fn memory_per_site_limits_the_memory_of_a_site() {
    let site = start_sites("memory_per_site = \"2MiB\"");
    flood(&site, 60);
    let bytes = memory_bytes(&site, FLOODED);
    assert!(bytes <= 2 << 20 && bytes > 1 << 20, "{bytes}");
}

#[test]
fn slow_pages_of_a_site_do_not_occupy_all_php_workers() {
    let site = start_sites("");
    let slow_requests: Vec<Connection> = (0..40)
        .map(|page| {
            let mut connection = site.connect();
            let request = Request::get(&format!("/slow/{page}/")).host(FLOODED);
            connection.send(&request).unwrap();
            connection
        })
        .collect();
    let slow = || std::fs::read_to_string(site.notes().join("slow")).unwrap_or_default();
    wait_for("slow pages at PHP", TIMEOUT, || slow().len() >= 2);
    for page in 0..10 {
        let started = Instant::now();
        let response = get(&site, OTHER_SITE, &format!("/miss/{page}/"));
        assert_eq!(response.status, 200);
        assert!(started.elapsed() < LIMIT, "{:?}", started.elapsed());
    }
    assert!(slow().len() < 4, "no worker is left: {}", slow());
    site.note("go", "");
    drop(slow_requests);
}

/// Well below the `queue_timeout` of 10 s, and well above the time that a busy machine needs.
const LIMIT: Duration = Duration::from_secs(5);
