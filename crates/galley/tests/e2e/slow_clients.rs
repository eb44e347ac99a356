//! Slow clients: dozens send or receive a body slowly, while other clients request pages from the same two PHP workers.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use galley_testkit::client::{Connection, Request};
use galley_testkit::wait_for;

use crate::support::{
    AssertStatus, HOST, SiteBuilder, TIMEOUT, TestSite, doctor_finding, output_text, random_bytes,
    sha256,
};

/// Sends 5 MB, or the requested number of `pieces`, whose content depends on `n`; writes the note `sent-N` at the end.
const LARGE: &str = r#"<?php
$n = (int) $_GET['n'];
header('Content-Type: application/octet-stream');
foreach (explode('|', $_GET['head'] ?? 'Cache-Control: no-store') as $line) {
    header($line);
}
$pieces = (int) ($_GET['pieces'] ?? 80);
for ($i = 0; $i < $pieces; $i++) {
    echo str_repeat(chr(33 + ($n + $i) % 90), 65536);
    @file_put_contents(__DIR__ . "/../notes/piece-$n", $i);
}
touch(__DIR__ . "/../notes/sent-$n");
"#;

const CLIENTS: u8 = 50;

/// The default response of [`LARGE`] for `n`.
fn large(n: u8) -> Vec<u8> {
    large_with_pieces(n, PIECES)
}

fn large_with_pieces(n: u8, pieces: u8) -> Vec<u8> {
    (0..pieces)
        .flat_map(|i| {
            let letter = (u16::from(n) + u16::from(i)) % 90 + 33;
            vec![u8::try_from(letter).unwrap(); 65_536]
        })
        .collect()
}

const PIECES: u8 = 80;

/// 15 MB: more than the kernel buffers for a client that does not read.
const MANY_PIECES: u8 = 240;

fn builder() -> SiteBuilder {
    SiteBuilder::php()
        .workers(2)
        .site("in_flight = 2")
        .file("large.php", LARGE)
        .ini("output_buffering", "0")
}

fn metric(site: &TestSite, name: &str) -> u64 {
    let text = site.metrics();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in\n{text}"))
        .parse()
        .unwrap()
}

/// Asserts that no worker is occupied: PHP generates two pages at the same time.
fn assert_both_workers_are_free(site: &TestSite, prefix: &str) {
    let pages = [format!("/{prefix}-one"), format!("/{prefix}-two")];
    let requests: Vec<Connection> = pages
        .iter()
        .map(|page| {
            site.hold(page);
            site.start_request(page)
        })
        .collect();
    for page in &pages {
        site.wait_until_held(page);
    }
    for (page, mut connection) in pages.iter().zip(requests) {
        site.release(page);
        connection.receive("GET").unwrap().assert_status(200);
    }
}

/// Waits until PHP has sent the complete responses for `n` below `count`.
fn wait_until_php_has_sent(site: &TestSite, count: u8) {
    wait_for("PHP to send everything", TIMEOUT * 4, || {
        (0..count).all(|n| site.notes().join(format!("sent-{n}")).exists())
    });
}

#[test]
fn slow_readers_do_not_occupy_workers() {
    let site = builder().start();
    site.get("/page").assert_status(200);
    let before = site.peak_memory();
    let readers: Vec<Connection> = (0..CLIENTS)
        .map(|n| site.start_request(&format!("/large.php?n={n}")))
        .collect();
    wait_until_php_has_sent(&site, CLIENTS);
    assert_both_workers_are_free(&site, "readers");
    assert_eq!(
        metric(&site, "galley_spool_responses_total"),
        u64::from(CLIENTS)
    );
    assert_eq!(metric(&site, "galley_spool_blocked_total"), 0);
    assert!(metric(&site, "galley_spool_disk_bytes") > 0);
    for (n, mut reader) in (0..).zip(readers) {
        let response = reader.receive("GET").unwrap().expect_status(200);
        assert!(
            response.body == large(n),
            "reader {n} received another body"
        );
    }
    let grown = site.grown_since(before);
    // Of 262 MB sent. The rest is memory of blocking threads, which are numerous on a busy machine.
    assert!(
        grown < 48 * 1024 * 1024,
        "{grown} bytes for {CLIENTS} readers"
    );
    wait_for("all spool space to be freed", TIMEOUT, || {
        metric(&site, "galley_spool_disk_bytes") == 0
            && metric(&site, "galley_spool_memory_bytes") == 0
    });
}

#[test]
fn a_slow_reader_of_a_response_above_max_object_occupies_no_worker() {
    let site = builder()
        .cache("memory = \"64MiB\"\nmax_object = \"64KiB\"")
        .file(
            "large/index.php",
            LARGE.replace("/../notes", "/../../notes"),
        )
        .start();
    let mut reader = site.start_request("/large/?n=0&head=Cache-Control:max-age=60");
    wait_until_php_has_sent(&site, 1);
    assert_both_workers_are_free(&site, "fill");
    let response = reader.receive("GET").unwrap().expect_status(200);
    assert_eq!(response.cache_status(), "galley; fwd=uri-miss; stored");
    assert!(response.body == large(0));
    assert_eq!(metric(&site, "galley_spool_responses_total"), 1);
}

/// Waits until the slow reader has stopped PHP before the end of [`MANY_PIECES`]: it has sent no further piece for a while.
fn wait_until_php_is_blocked(site: &TestSite, n: u8) {
    let piece = || fs::read_to_string(site.notes().join(format!("piece-{n}")));
    let (mut last, mut since) = (String::new(), Instant::now());
    wait_for("PHP to be blocked", TIMEOUT, || {
        let current = piece().unwrap_or_default();
        if current != last {
            (last, since) = (current, Instant::now());
        }
        !last.is_empty() && since.elapsed() > Duration::from_millis(400)
    });
    assert_ne!(last, (MANY_PIECES - 1).to_string(), "PHP was not blocked");
}

#[test]
fn without_spool_space_php_sends_at_the_rate_of_the_reader() {
    let site = builder()
        .server("request_body = \"64KiB\"\nspool_size = \"1MiB\"")
        .start();
    let mut reader = site.start_request(&format!("/large.php?n=0&pieces={MANY_PIECES}"));
    wait_for("the response to be blocked", TIMEOUT, || {
        metric(&site, "galley_spool_blocked_total") == 1
    });
    wait_until_php_is_blocked(&site, 0);
    assert!(metric(&site, "galley_spool_disk_bytes") <= 1024 * 1024);
    site.galley
        .wait_for_log("slow clients occupy the upstream", TIMEOUT);
    site.get("/page").assert_status(200);
    let response = reader.receive("GET").unwrap().expect_status(200);
    assert!(response.body == large_with_pieces(0, MANY_PIECES));
}

#[test]
fn a_streamed_response_is_not_spooled() {
    let site = builder()
        .more("[[site.rule]]\npath = \"/stream/*\"\nstream = true")
        .file(
            "stream/large.php",
            LARGE.replace("/../notes", "/../../notes"),
        )
        .start();
    for (n, target) in [
        (
            0,
            "/large.php?n=0&head=X-Accel-Buffering:%20no|Cache-Control:%20no-store",
        ),
        (1, "/stream/large.php?n=1"),
    ] {
        let mut reader = site.start_request(&format!("{target}&pieces={MANY_PIECES}"));
        wait_until_php_is_blocked(&site, n);
        let response = reader.receive("GET").unwrap().expect_status(200);
        assert!(
            response.body == large_with_pieces(n, MANY_PIECES),
            "{target}"
        );
    }
    assert_eq!(metric(&site, "galley_spool_responses_total"), 0);
    assert_eq!(metric(&site, "galley_spool_blocked_total"), 0);
}

#[test]
fn an_http_1_0_client_gets_a_complete_stream() {
    let site = builder().start();
    let target = "/large.php?n=0&head=X-Accel-Buffering:%20no|Cache-Control:%20no-store";
    let request = format!("GET {target} HTTP/1.0\r\nHost: {HOST}\r\n\r\n");
    let response = site.send_raw(request.as_bytes());
    assert!(response.starts_with(b"HTTP/1.") && response.ends_with(&large(0)));
}

#[test]
fn the_spool_of_a_disconnected_reader_is_freed() {
    let site = builder().start();
    let reader = site.start_request("/large.php?n=0");
    wait_until_php_has_sent(&site, 1);
    assert!(metric(&site, "galley_spool_disk_bytes") > 0);
    drop(reader);
    wait_for("its spool space to be freed", TIMEOUT, || {
        metric(&site, "galley_spool_disk_bytes") == 0
            && metric(&site, "galley_spool_memory_bytes") == 0
    });
}

const HASH: &str = "<?php echo hash('sha256', file_get_contents('php://input'));";

/// Sends the head of an upload and the first `count` bytes of its body.
fn start_upload(site: &TestSite, body: &[u8], count: usize) -> TcpStream {
    let mut stream = TcpStream::connect(site.addr()).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let head = format!(
        "POST /hash.php HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&body[..count]).unwrap();
    stream
}

fn read_response(stream: &mut TcpStream) -> String {
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn slow_uploads_do_not_occupy_workers() {
    let site = builder().file("hash.php", HASH).start();
    let body = random_bytes(400_000);
    let mut uploads: Vec<TcpStream> = (0..CLIENTS)
        .map(|_| start_upload(&site, &body, 300_000))
        .collect();
    wait_for("all uploads to start", TIMEOUT, || {
        metric(&site, "galley_spool_requests_total") == u64::from(CLIENTS)
    });
    assert_both_workers_are_free(&site, "uploads");
    let limit = metric(&site, "galley_spool_memory_limit_bytes");
    assert!(metric(&site, "galley_spool_memory_bytes") <= limit);
    let expected = sha256(&body);
    for upload in &mut uploads {
        upload.write_all(&body[300_000..]).unwrap();
        let response = read_response(upload);
        assert!(response.contains(&expected), "{response}");
    }
    wait_for("all spool space to be freed", TIMEOUT, || {
        metric(&site, "galley_spool_disk_bytes") == 0
            && metric(&site, "galley_spool_memory_bytes") == 0
    });
}

#[test]
fn an_upload_without_spool_space_is_rejected() {
    let site = builder()
        .file("hash.php", HASH)
        .server("request_body = \"1MiB\"\nspool_size = \"1MiB\"")
        .start();
    let body = random_bytes(1_000_000);
    let mut first = start_upload(&site, &body, 900_000);
    wait_for("the first upload to be spooled", TIMEOUT, || {
        metric(&site, "galley_spool_disk_bytes") > 700_000
    });
    let other = || {
        Request::post(
            "/hash.php",
            "application/octet-stream",
            random_bytes(500_000),
        )
    };
    let rejected = site.send(other()).expect_status(503);
    assert_eq!(rejected.cache_status(), "galley; detail=no-room");
    assert_eq!(rejected.field("retry-after"), Some("10"));
    // The length of a chunked body is not known in advance, so Galley rejects it while it arrives.
    let pieces: Vec<&[u8]> = body.chunks(50_000).collect();
    let chunked = site.send(Request::new("POST", "/hash.php").chunked(&pieces));
    assert_eq!(chunked.status, 503, "{}", chunked.excerpt());
    assert_eq!(metric(&site, "galley_spool_rejected_total"), 2);
    site.galley
        .wait_for_log("rejecting request bodies", TIMEOUT);
    // Small bodies need no spool space.
    site.send(Request::form("/hash.php", &[("a", "b")]))
        .assert_status(200);
    let finding = doctor_finding(&site, "spools");
    assert_ne!(finding["level"], "fine", "{finding}");
    let text = finding["seen"].as_str().unwrap();
    assert!(text.contains("2 request bodies were rejected"), "{text}");
    first.write_all(&body[900_000..]).unwrap();
    assert!(read_response(&mut first).contains(&sha256(&body)));
    wait_for("free spool space", TIMEOUT, || {
        site.send(other()).status == 200
    });
    let finding = doctor_finding(&site, "spools");
    assert_eq!(finding["level"], "notice", "{finding}");
    let table = output_text(&site.galley.cli(&["status"]).unwrap());
    assert!(table.contains("in memory; 2 requests rejected"), "{table}");
}

#[test]
fn a_missing_spool_directory_affects_only_uploads() {
    let builder = builder().file("hash.php", HASH);
    let directory = builder.scratch.dir("spool").unwrap();
    let site = builder.server("spool = \"{dir}/spool\"").start();
    fs::remove_dir(&directory).unwrap();
    let upload = Request::post(
        "/hash.php",
        "application/octet-stream",
        random_bytes(500_000),
    );
    site.send(upload.clone()).assert_status(503);
    site.galley
        .wait_for_log("cannot write to the spool folder", TIMEOUT);
    let mut reader = site.start_request("/large.php?n=0");
    site.get("/hash.php").assert_status(200);
    let response = reader.receive("GET").unwrap().expect_status(200);
    assert!(response.body == large(0));
    fs::create_dir(directory).unwrap();
    site.send(upload).assert_status(200);
}
