//! Slow clients: dozens send or receive a body slowly, while others request pages of the same two PHP workers.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use galley_testkit::client::{Connection, Request};
use galley_testkit::wait_for;

use crate::support::{
    AssertStatus, HOST, SiteBuilder, TIMEOUT, TestSite, doctor_finding, output_text, random_bytes,
    sha256, with_host,
};

/// Sends 5 MB, or so many `pieces`, which tell who asked, and notes it when it has said everything.
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
touch(__DIR__ . "/../notes/said-$n");
"#;

const SLOW: u8 = 50;

fn large(number: u8) -> Vec<u8> {
    of_pieces(number, PIECES)
}

fn of_pieces(number: u8, pieces: u8) -> Vec<u8> {
    (0..pieces)
        .flat_map(|i| {
            let letter = (u16::from(number) + u16::from(i)) % 90 + 33;
            vec![u8::try_from(letter).unwrap(); 65_536]
        })
        .collect()
}

const PIECES: u8 = 80;

/// 15 MB: more than the kernel buffers for a client that does not read.
const MANY: u8 = 240;

fn plan() -> SiteBuilder {
    SiteBuilder::php()
        .workers(2)
        .site("in_flight = 2")
        .file("large.php", LARGE)
        .ini("output_buffering", "0")
}

/// A client that asks and does not read.
fn asks_and_waits(site: &TestSite, target: &str) -> Connection {
    let mut connection = site.connect();
    connection.send(&with_host(Request::get(target))).unwrap();
    connection
}

fn metric(site: &TestSite, name: &str) -> u64 {
    let path = site.scratch.join("galley/admin.sock");
    let mut socket = UnixStream::connect(path).unwrap();
    socket
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: galley\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in\n{text}"))
        .parse()
        .unwrap()
}

/// No worker is occupied: as many pages as there are workers are generated at one time.
fn both_workers_are_free(site: &TestSite, round: &str) {
    let pages = [format!("/{round}-one"), format!("/{round}-two")];
    let held: Vec<Connection> = pages
        .iter()
        .map(|page| {
            site.hold(page);
            site.start_request(page)
        })
        .collect();
    for page in &pages {
        site.wait_until_held(page);
    }
    for (page, mut connection) in pages.iter().zip(held) {
        site.release(page);
        connection.receive("GET").unwrap().assert_status(200);
    }
}

fn all_said(site: &TestSite, count: u8) {
    wait_for("PHP to have said everything", TIMEOUT * 4, || {
        (0..count).all(|n| site.notes().join(format!("said-{n}")).exists())
    });
}

#[test]
fn slow_readers_hold_no_worker() {
    let site = plan().start();
    site.get("/page").assert_status(200);
    let before = site.peak_memory();
    let readers: Vec<Connection> = (0..SLOW)
        .map(|n| asks_and_waits(&site, &format!("/large.php?n={n}")))
        .collect();
    all_said(&site, SLOW);
    both_workers_are_free(&site, "readers");
    assert_eq!(
        metric(&site, "galley_spool_responses_total"),
        u64::from(SLOW)
    );
    assert_eq!(metric(&site, "galley_spool_blocked_total"), 0);
    assert!(metric(&site, "galley_spool_disk_bytes") > 0);
    for (n, mut reader) in (0..).zip(readers) {
        let answer = reader.receive("GET").unwrap().expect_status(200);
        assert!(answer.body == large(n), "reader {n} got something else");
    }
    let grown = site.grown_since(before);
    // Of 262 MB. What is left is the helper threads', and on a machine with little time for each there are many of them.
    assert!(grown < 48 * 1024 * 1024, "{grown} bytes for {SLOW} readers");
    wait_for("all room to be given back", TIMEOUT, || {
        metric(&site, "galley_spool_disk_bytes") == 0
            && metric(&site, "galley_spool_memory_bytes") == 0
    });
}

#[test]
fn a_slow_reader_of_what_is_too_large_to_be_stored_holds_no_worker() {
    let site = plan()
        .cache("memory = \"64MiB\"\nmax_object = \"64KiB\"")
        .file(
            "large/index.php",
            LARGE.replace("/../notes", "/../../notes"),
        )
        .start();
    let mut reader = asks_and_waits(&site, "/large/?n=0&head=Cache-Control:max-age=60");
    all_said(&site, 1);
    both_workers_are_free(&site, "fill");
    let answer = reader.receive("GET").unwrap().expect_status(200);
    assert_eq!(answer.cache_status(), "galley; fwd=uri-miss; stored");
    assert!(answer.body == large(0));
    assert_eq!(metric(&site, "galley_spool_responses_total"), 1);
}

/// Waits until PHP, which is to say [`MANY`] pieces, has been stopped by its reader: it says nothing new.
fn until_held(site: &TestSite, number: u8) {
    let said = || fs::read_to_string(site.notes().join(format!("piece-{number}")));
    let (mut last, mut since) = (String::new(), Instant::now());
    wait_for("PHP to be held up", TIMEOUT, || {
        let now = said().unwrap_or_default();
        if now != last {
            (last, since) = (now, Instant::now());
        }
        !last.is_empty() && since.elapsed() > Duration::from_millis(400)
    });
    assert_ne!(last, (MANY - 1).to_string(), "PHP was let go");
}

#[test]
fn without_spool_space_php_goes_at_the_readers_pace() {
    let site = plan()
        .server("request_body = \"64KiB\"\nspool_size = \"1MiB\"")
        .start();
    let mut reader = asks_and_waits(&site, &format!("/large.php?n=0&pieces={MANY}"));
    wait_for("it to be held up", TIMEOUT, || {
        metric(&site, "galley_spool_blocked_total") == 1
    });
    until_held(&site, 0);
    assert!(metric(&site, "galley_spool_disk_bytes") <= 1024 * 1024);
    site.galley
        .wait_for_log("slow clients occupy the upstream", TIMEOUT);
    site.get("/page").assert_status(200);
    let answer = reader.receive("GET").unwrap().expect_status(200);
    assert!(answer.body == of_pieces(0, MANY));
}

#[test]
fn a_request_for_a_stream_is_not_spooled() {
    let site = plan()
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
        let mut reader = asks_and_waits(&site, &format!("{target}&pieces={MANY}"));
        until_held(&site, n);
        let answer = reader.receive("GET").unwrap().expect_status(200);
        assert!(answer.body == of_pieces(n, MANY), "{target}");
    }
    assert_eq!(metric(&site, "galley_spool_responses_total"), 0);
    assert_eq!(metric(&site, "galley_spool_blocked_total"), 0);
}

#[test]
fn a_client_with_a_spool_gets_all_of_a_stream() {
    let site = plan().start();
    let target = "/large.php?n=0&head=X-Accel-Buffering:%20no|Cache-Control:%20no-store";
    let asked = format!("GET {target} HTTP/1.0\r\nHost: {HOST}\r\n\r\n");
    let got = site.send_raw(asked.as_bytes());
    assert!(got.starts_with(b"HTTP/1.") && got.ends_with(&large(0)));
}

#[test]
fn a_disconnected_reader_leaves_nothing_behind() {
    let site = plan().start();
    let reader = asks_and_waits(&site, "/large.php?n=0");
    all_said(&site, 1);
    assert!(metric(&site, "galley_spool_disk_bytes") > 0);
    drop(reader);
    wait_for("its room to be given back", TIMEOUT, || {
        metric(&site, "galley_spool_disk_bytes") == 0
            && metric(&site, "galley_spool_memory_bytes") == 0
    });
}

const HASH: &str = "<?php echo hash('sha256', file_get_contents('php://input'));";

/// Sends the head of an upload and a part of its body.
fn begins_upload(site: &TestSite, body: &[u8], upto: usize) -> TcpStream {
    let mut stream = TcpStream::connect(site.addr()).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let head = format!(
        "POST /hash.php HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&body[..upto]).unwrap();
    stream
}

fn answer_of(stream: &mut TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn slow_uploads_hold_no_worker() {
    let site = plan().file("hash.php", HASH).start();
    let body = random_bytes(400_000);
    let mut uploads: Vec<TcpStream> = (0..SLOW)
        .map(|_| begins_upload(&site, &body, 300_000))
        .collect();
    wait_for("all uploads to be under way", TIMEOUT, || {
        metric(&site, "galley_spool_requests_total") == u64::from(SLOW)
    });
    both_workers_are_free(&site, "uploads");
    let limit = metric(&site, "galley_spool_memory_limit_bytes");
    assert!(metric(&site, "galley_spool_memory_bytes") <= limit);
    let wanted = sha256(&body);
    for upload in &mut uploads {
        upload.write_all(&body[300_000..]).unwrap();
        let answer = answer_of(upload);
        assert!(answer.contains(&wanted), "{answer}");
    }
    wait_for("all room to be given back", TIMEOUT, || {
        metric(&site, "galley_spool_disk_bytes") == 0
            && metric(&site, "galley_spool_memory_bytes") == 0
    });
}

#[test]
fn an_upload_without_spool_space_is_rejected() {
    let site = plan()
        .file("hash.php", HASH)
        .server("request_body = \"1MiB\"\nspool_size = \"1MiB\"")
        .start();
    let body = random_bytes(1_000_000);
    let mut first = begins_upload(&site, &body, 900_000);
    wait_for("the first to be in a file", TIMEOUT, || {
        metric(&site, "galley_spool_disk_bytes") > 700_000
    });
    let other = || {
        Request::post(
            "/hash.php",
            "application/octet-stream",
            random_bytes(500_000),
        )
    };
    let refused = site.send(other()).expect_status(503);
    assert_eq!(refused.cache_status(), "galley; detail=no-room");
    assert_eq!(refused.field("retry-after"), Some("10"));
    // In chunks no length is announced, so it is found out on the way.
    let pieces: Vec<&[u8]> = body.chunks(50_000).collect();
    let chunked = site.send(Request::new("POST", "/hash.php").chunked(&pieces));
    assert_eq!(chunked.status, 503, "{}", chunked.beginning());
    assert_eq!(metric(&site, "galley_spool_rejected_total"), 2);
    site.galley
        .wait_for_log("rejecting request bodies", TIMEOUT);
    // Small ones need none.
    site.send(Request::form("/hash.php", &[("a", "b")]))
        .assert_status(200);
    let finding = doctor_finding(&site, "spools");
    assert_ne!(finding["level"], "fine", "{finding}");
    let seen = finding["seen"].as_str().unwrap();
    assert!(seen.contains("2 request bodies were rejected"), "{seen}");
    first.write_all(&body[900_000..]).unwrap();
    assert!(answer_of(&mut first).contains(&sha256(&body)));
    wait_for("there to be room again", TIMEOUT, || {
        site.send(other()).status == 200
    });
    let finding = doctor_finding(&site, "spools");
    assert_eq!(finding["level"], "notice", "{finding}");
    let table = output_text(&site.galley.cli(&["status"]).unwrap());
    assert!(table.contains("in memory; 2 requests rejected"), "{table}");
}

#[test]
fn a_missing_spool_folder_fails_uploads_only() {
    let plan = plan().file("hash.php", HASH);
    let folder = plan.scratch.dir("spool").unwrap();
    let site = plan.server("spool = \"{dir}/spool\"").start();
    fs::remove_dir(&folder).unwrap();
    let upload = Request::post(
        "/hash.php",
        "application/octet-stream",
        random_bytes(500_000),
    );
    site.send(upload.clone()).assert_status(503);
    site.galley
        .wait_for_log("cannot write to the spool folder", TIMEOUT);
    let mut reader = asks_and_waits(&site, "/large.php?n=0");
    site.get("/hash.php").assert_status(200);
    let answer = reader.receive("GET").unwrap().expect_status(200);
    assert!(answer.body == large(0));
    fs::create_dir(folder).unwrap();
    site.send(upload).assert_status(200);
}
