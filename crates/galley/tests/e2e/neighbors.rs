//! Two sites of one server, one of which is flooded: with more addresses than the memory has room for, and with pages that occupy
//! PHP. The other has its pages in memory, and its misses are answered, throughout.

use std::time::{Duration, Instant};

use galley_testkit::client::{Connection, Request, Response};
use galley_testkit::{Galley, wait_for};

use crate::support::{SiteBuilder, TIMEOUT, TestSite, binary};

const NEIGHBOR: &str = "neighbor.test";
const FLOODED: &str = "flooded.test";

/// Pages of 100 kB; those below `/slow/` wait for the end of the test.
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

/// Both sites on one PHP-FPM of four workers. With objects of this size the memory is one table: of several, one may be full before
/// the others, and pages of 100 kB are so few that it often is.
fn stage(cache: &str) -> TestSite {
    let sites = "max_object = \"2MiB\"";
    let plan = SiteBuilder::php()
        .file("index.php", SCRIPT)
        .workers(4)
        .cache(&format!("memory = \"16MiB\"\n{sites}\n{cache}"))
        .site(&format!("hosts = [\"{NEIGHBOR}\"]\ncompress = []"))
        .more(&format!(
            "[[site]]\nhosts = [\"{FLOODED}\"]\nroot = \"{{root}}\"\nphp = \"{{php}}\"\ncompress = []"
        ));
    let (scratch, fpm, text) = plan.prepare();
    let address = fpm.as_ref().unwrap().address();
    let shared = format!("php = [{{ address = \"{address}\", max = 4 }}]");
    let text = text.replace(&format!("php = \"{address}\""), &shared);
    let galley = Galley::start_binary(binary(), &scratch.join("galley"), &text).unwrap();
    TestSite {
        galley,
        fpm,
        scratch,
    }
}

fn get(stage: &TestSite, host: &str, path: &str) -> Response {
    stage.send(Request::get(path).host(host))
}

fn is_hit(response: &Response) -> bool {
    let status = response.field("cache-status").unwrap_or_default();
    status.starts_with("galley; hit")
}

/// Stores more pages than there is room for, and requests each so often that it looks popular.
fn flood(stage: &TestSite, pages: usize) {
    let mut connection = stage.connect();
    for page in 0..pages {
        for _ in 0..3 {
            let request = Request::get(&format!("/flood/{page}/")).host(FLOODED);
            let response = connection.exchange(&request).unwrap();
            assert_eq!(response.status, 200);
        }
    }
}

fn memory_bytes(stage: &TestSite, site: &str) -> u64 {
    let status: serde_json::Value = serde_json::from_str(&stage.status()).unwrap();
    let mut sites = status["sites"].as_array().unwrap().iter();
    let site = sites.find(|one| one["name"] == site).unwrap();
    site["memory_bytes"].as_u64().unwrap()
}

#[test]
fn a_flood_of_addresses_empties_the_memory_of_no_neighbor() {
    let stage = stage("");
    let pages: Vec<String> = (0..20).map(|page| format!("/warm/{page}/")).collect();
    for page in &pages {
        assert!(!is_hit(&get(&stage, NEIGHBOR, page)));
    }
    let before = memory_bytes(&stage, NEIGHBOR);
    assert!(before > 20 * 100_000, "{before}");
    flood(&stage, 300);
    assert!(
        memory_bytes(&stage, FLOODED) > 6 << 20,
        "what is free may be used"
    );
    for page in &pages {
        assert!(is_hit(&get(&stage, NEIGHBOR, page)), "{page}");
    }
    assert_eq!(memory_bytes(&stage, NEIGHBOR), before);
}

#[test]
fn a_limit_for_each_site_holds() {
    let stage = stage("memory_per_site = \"2MiB\"");
    flood(&stage, 60);
    let held = memory_bytes(&stage, FLOODED);
    assert!(held <= 2 << 20 && held > 1 << 20, "{held}");
}

#[test]
fn slow_pages_of_a_site_leave_php_to_its_neighbor() {
    let stage = stage("");
    let held: Vec<Connection> = (0..40)
        .map(|page| {
            let mut connection = stage.connect();
            let request = Request::get(&format!("/slow/{page}/")).host(FLOODED);
            connection.send(&request).unwrap();
            connection
        })
        .collect();
    let slow = || std::fs::read_to_string(stage.notes().join("slow")).unwrap_or_default();
    wait_for("slow pages at PHP", TIMEOUT, || slow().len() >= 2);
    for page in 0..10 {
        let began = Instant::now();
        let response = get(&stage, NEIGHBOR, &format!("/miss/{page}/"));
        assert_eq!(response.status, 200);
        assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
    }
    assert!(slow().len() < 4, "one worker is left to others: {}", slow());
    stage.note("go", "");
    drop(held);
}

/// Far below the 10 s after which a request in the queue is given up, and far above what a busy machine needs.
const BOUND: Duration = Duration::from_secs(5);
