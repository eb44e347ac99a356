//! `stream_request`: request bodies that Galley forwards to the upstream while they arrive, also incomplete and rejected ones.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use galley_testkit::client::Request;
use galley_testkit::origin::{FastCgiOrigin, Gate, Origin};
use galley_testkit::wait_for;

use crate::support::{
    AssertStatus, HOST, SiteBuilder, TIMEOUT, TestSite, json_number, random_bytes, sha256,
    with_host,
};

const RULE: &str = "[[site.rule]]\npath = \"/*\"\nstream_request = true";

const HASH: &str = "<?php header('Content-Type: text/plain'); $h = hash_init('sha256'); $in = fopen('php://input', 'r'); $n = 0; \
    while (!feof($in)) { $d = fread($in, 65536); $n += strlen($d); hash_update($h, $d); } echo $n, ' ', hash_final($h);";

fn head(target: &str, fields: &str) -> String {
    format!(
        "POST {target} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/octet-stream\r\n{fields}\r\n\r\n"
    )
}

/// Number of request bodies that were spooled to a file.
fn spooled_requests(site: &TestSite) -> u64 {
    let status = site.status();
    json_number(
        status.split("\"spools\":").nth(1).unwrap_or_default(),
        "requests",
    )
}

/// A site with one slot for this FastCGI origin.
fn with_fastcgi_origin(origin: &FastCgiOrigin) -> SiteBuilder {
    SiteBuilder::upstream_line(&format!("php = \"{}\"", origin.address()))
        .file("index.php", "")
        .site("in_flight = 1")
        .more(RULE)
}

#[test]
fn php_gets_each_part_of_the_body_when_it_arrives() {
    let received = Arc::new(AtomicUsize::new(0));
    let origin_received = Arc::clone(&received);
    let origin = FastCgiOrigin::start(move |_, app| {
        while let Some(piece) = app.stdin_piece() {
            origin_received.fetch_add(piece.len(), Ordering::SeqCst);
        }
        app.respond("Content-Type: text/plain", b"all of it");
    })
    .unwrap();
    // The upload takes longer than `first_byte_timeout`.
    let site = with_fastcgi_origin(&origin)
        .site("first_byte_timeout = \"2s\"")
        .start();
    let pieces: Vec<Vec<u8>> = (0..4).map(|_| random_bytes(10_000)).collect();
    let mut connection = site.connect();
    let request_head = head("/upload", "Content-Length: 40000");
    connection.write(request_head.as_bytes()).unwrap();
    for piece in &pieces {
        connection.write(piece).unwrap();
        wait_for("the piece at the upstream", TIMEOUT, || {
            received.load(Ordering::SeqCst) >= piece.len()
        });
        received.store(0, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(700));
    }
    let response = connection.receive("POST").unwrap().expect_status(200);
    assert_eq!(response.text(), "all of it");
    let requests = origin.requests();
    assert_eq!(requests[0].param("CONTENT_LENGTH"), "40000");
    assert!(requests[0].stdin == pieces.concat());
    // The connection stays open.
    let next = with_host(Request::post("/next", "text/plain", "small"));
    connection.exchange(&next).unwrap().assert_status(200);
    assert_eq!(origin.requests()[1].stdin, b"small");
}

#[test]
fn a_chunked_body_is_forwarded_in_chunks_over_http() {
    let origin = Origin::start(|_, writer| {
        let length = writer.body().len();
        writer.respond(200, &[], length.to_string().as_bytes());
    })
    .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress").more(RULE).start();
    for length in [1, 65_536, 3_000_000] {
        let body = random_bytes(length);
        let pieces: Vec<&[u8]> = body.chunks(50_021).collect();
        for request in [
            Request::new("POST", "/chunks").chunked(&pieces),
            Request::post("/length", "application/octet-stream", body.clone()),
        ] {
            let response = site.send(request).expect_status(200);
            assert_eq!(response.text(), length.to_string());
        }
        let requests = origin.requests();
        let [.., chunked, with_length] = requests.as_slice() else {
            panic!("fewer than two requests");
        };
        assert_eq!(chunked.field("transfer-encoding"), Some("chunked"));
        assert_eq!(chunked.field("content-length"), None);
        let expected = length.to_string();
        assert_eq!(with_length.field("content-length"), Some(expected.as_str()));
        assert!(chunked.body == body && with_length.body == body, "{length}");
    }
    assert_eq!(spooled_requests(&site), 0);
}

#[test]
fn a_large_upload_takes_neither_memory_nor_disk() {
    let site = SiteBuilder::php()
        .file("hash.php", HASH)
        .server("request_body = \"200MiB\"")
        .ini("post_max_size", "300M")
        .ini("memory_limit", "64M")
        .more(RULE)
        .start();
    let small = Request::post(
        "/hash.php",
        "application/octet-stream",
        random_bytes(200_000),
    );
    site.send(small).assert_status(200);
    let before = site.peak_memory();
    let body = random_bytes(100 * 1024 * 1024);
    let expected = format!("{} {}", body.len(), sha256(&body));
    let request = Request::post("/hash.php", "application/octet-stream", body);
    let response = site.send(request).expect_status(200);
    assert_eq!(response.text(), expected);
    let grown = site.grown_since(before);
    assert!(grown < 4 * 1024 * 1024, "{grown} bytes for one upload");
    assert_eq!(spooled_requests(&site), 0);
    // CGI requires the length, so Galley receives a chunked body completely first.
    let body = random_bytes(1_000_000);
    let pieces: Vec<&[u8]> = body.chunks(50_021).collect();
    let chunked = Request::new("POST", "/hash.php").chunked(&pieces);
    let response = site.send(chunked).expect_status(200);
    assert_eq!(response.text(), format!("1000000 {}", sha256(&body)));
    assert_eq!(spooled_requests(&site), 1);
}

#[test]
fn an_upstream_that_does_not_read_stops_the_upload() {
    let gate = Arc::new(Gate::new());
    let origin_gate = Arc::clone(&gate);
    let origin = Origin::start(move |request, writer| {
        if request.method == "POST" {
            origin_gate.pass();
        }
        let length = writer.body().len();
        writer.respond(200, &[], length.to_string().as_bytes());
    })
    .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .server("request_body = \"200MiB\"")
        .more(RULE)
        .start();
    site.get("/warm");
    let before = site.peak_memory();
    let body = random_bytes(64 * 1024 * 1024);
    let mut stream = TcpStream::connect(site.addr()).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let length = format!("Content-Length: {}\r\nConnection: close", body.len());
    stream
        .write_all(head("/upload", &length).as_bytes())
        .unwrap();
    // A second without progress: the buffers of both sockets are full.
    stream
        .set_write_timeout(Some(Duration::from_secs(1)))
        .unwrap();
    let mut sent = 0;
    loop {
        match stream.write(&body[sent..]) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert!(sent < body.len(), "Galley accepted the complete body");
    let grown = site.grown_since(before);
    assert!(
        grown < 4 * 1024 * 1024,
        "{grown} bytes while the upstream does not read"
    );
    gate.open();
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(&body[sent..]).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.ends_with(&body.len().to_string()), "{response}");
}

#[test]
fn a_client_gets_100_continue_when_its_request_has_a_slot() {
    let gate = Arc::new(Gate::new());
    let origin_gate = Arc::clone(&gate);
    let origin = FastCgiOrigin::start(move |request, app| {
        if request.param("REQUEST_URI") == "/busy" {
            origin_gate.pass();
        } else if request.param("REQUEST_URI") == "/upload" {
            app.stdin();
        }
        app.respond("Status: 201 Created\r\nContent-Type: text/plain", b"");
    })
    .unwrap();
    let site = with_fastcgi_origin(&origin).start();
    let mut busy = site.connect();
    busy.send(&with_host(Request::post("/busy", "text/plain", "x")))
        .unwrap();
    gate.wait_for_arrivals(1);
    let mut connection = site.connect();
    let expecting = head("/upload", "Content-Length: 5\r\nExpect: 100-continue");
    connection.write(expecting.as_bytes()).unwrap();
    let stream = connection.stream();
    stream
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let peeked = stream.peek(&mut [0; 16]);
    assert!(
        peeked.is_err(),
        "100 Continue was sent before a slot was free"
    );
    gate.open();
    busy.receive("POST").unwrap().assert_status(201);
    let mut line = [0; 25];
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut stream = stream;
    stream.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"HTTP/1.1 100 Continue\r\n\r\n");
    connection.write(b"12345").unwrap();
    connection.receive("POST").unwrap().assert_status(201);
    assert_eq!(origin.requests()[1].stdin, b"12345");
}

#[test]
fn a_response_before_the_end_of_the_upload_is_forwarded() {
    let origin = FastCgiOrigin::start(|request, app| {
        let target = request.param("REQUEST_URI");
        if target.contains("some") {
            app.stdin_piece();
        }
        app.respond("Status: 403 Forbidden\r\nContent-Type: text/plain", b"no");
        if !target.contains("silent") {
            app.end(0, 0);
        }
        if target.contains("close") {
            app.close();
        } else if target.contains("silent") {
            // Galley must send the response although this neither reads nor ends the request.
            std::thread::sleep(Duration::from_secs(3));
            app.end(0, 0);
        }
    })
    .unwrap();
    let site = with_fastcgi_origin(&origin).start();
    for target in ["/early", "/early?close", "/some", "/some?close", "/silent"] {
        let mut connection = site.connect();
        let upload = Request::post(target, "application/octet-stream", random_bytes(20 << 20));
        // Galley does not read the rest after it has sent the response.
        let _ = connection.send(&with_host(upload));
        let response = connection.receive("POST").unwrap().expect_status(403);
        assert_eq!(response.text(), "no", "{target}");
        let next = site.send(Request::post("/next", "text/plain", "small"));
        assert_eq!(next.expect_status(403).text(), "no", "after {target}");
    }
}

#[test]
fn a_response_that_starts_during_the_upload_is_complete() {
    // The response starts before the request body is complete.
    let origin = Origin::start(|_, writer| {
        writer.chunked(200, &[]);
        writer.chunk(b"begun ");
        let length = writer.body().len();
        writer.chunk(length.to_string().as_bytes());
        writer.last_chunk();
    })
    .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress").more(RULE).start();
    let mut connection = site.connect();
    for _ in 0..2 {
        let upload = Request::post("/echo", "application/octet-stream", random_bytes(8 << 20));
        let response = connection.exchange(&with_host(upload)).unwrap();
        assert_eq!(response.expect_status(200).text(), "begun 8388608");
    }
}

#[test]
fn an_incomplete_upload_aborts_the_fastcgi_request_and_frees_the_slot() {
    let aborted = Arc::new(AtomicUsize::new(0));
    let origin_aborted = Arc::clone(&aborted);
    let origin = FastCgiOrigin::start(move |request, app| {
        let length: usize = request.param("CONTENT_LENGTH").parse().unwrap();
        if app.stdin().len() < length {
            origin_aborted.fetch_add(1, Ordering::SeqCst);
            app.wait_for_abort();
        }
        app.respond("Content-Type: text/plain", b"whole");
    })
    .unwrap();
    let site = with_fastcgi_origin(&origin)
        .server("body_timeout = \"1s\"\nmin_rate = \"100B\"")
        .start();
    for round in 1..=3 {
        let mut incomplete = site.connect();
        let request_head = head("/upload", "Content-Length: 1000000");
        incomplete.write(request_head.as_bytes()).unwrap();
        incomplete.write(&random_bytes(100_000)).unwrap();
        wait_for("the request", TIMEOUT, || origin.count() == 2 * round - 1);
        // The first client stays connected and gets a time-out, the others disconnect.
        if round == 1 {
            incomplete.receive("POST").unwrap().assert_status(408);
        }
        drop(incomplete);
        wait_for("the abort", TIMEOUT, || {
            aborted.load(Ordering::SeqCst) == round
        });
        site.send(Request::post("/next", "text/plain", "small"))
            .assert_status(200);
    }
}

#[test]
fn php_serves_the_next_requests_after_incomplete_uploads() {
    let script = "<?php $n = strlen(file_get_contents('php://input')); $f = __DIR__ . '/../notes/got'; \
        file_put_contents(\"$f.new\", \"$n of $_SERVER[CONTENT_LENGTH]\"); rename(\"$f.new\", $f);";
    let site = SiteBuilder::php()
        .file("form.php", script)
        .workers(1)
        .site("in_flight = 1")
        .more(RULE)
        .start();
    let request_head = head("/form.php", "Content-Length: 1000000");
    for _ in 0..5 {
        let mut incomplete = site.connect();
        incomplete.write(request_head.as_bytes()).unwrap();
        incomplete.write(&random_bytes(100_000)).unwrap();
    }
    site.get("/one").assert_status(200);
    site.send(Request::post("/two", "text/plain", "small"))
        .assert_status(200);
    // As the manual warns, the script runs with the part that has arrived.
    site.wait_for_note("got");
    let note = std::fs::read_to_string(site.notes().join("got")).unwrap();
    let (received, length) = note.split_once(" of ").unwrap();
    assert_eq!(length, "1000000");
    assert!(received.parse::<u32>().unwrap() <= 100_000, "{note}");
}

#[test]
fn a_chunked_body_above_the_limit_is_rejected() {
    let complete = Arc::new(AtomicUsize::new(0));
    let origin_complete = Arc::clone(&complete);
    let origin = Origin::start(move |_, writer| {
        if !writer.body().is_empty() {
            origin_complete.fetch_add(1, Ordering::SeqCst);
        }
        writer.respond(200, &[], b"");
    })
    .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .server("request_body = \"100KiB\"")
        .more(RULE)
        .start();
    let body = random_bytes(1_000_000);
    let pieces: Vec<&[u8]> = body.chunks(10_000).collect();
    let response = site.send(Request::new("POST", "/upload").chunked(&pieces));
    response.assert_status(413);
    site.get("/after").assert_status(200);
    assert_eq!(
        complete.load(Ordering::SeqCst),
        0,
        "the upstream got a complete body"
    );
}

#[test]
fn a_request_is_not_retried_after_a_part_of_its_body_was_sent() {
    let started = Arc::new(AtomicUsize::new(0));
    let servers: Vec<Origin> = (0..2)
        .map(|_| {
            let origin_started = Arc::clone(&started);
            Origin::start(move |request, writer| {
                if request.method == "POST" {
                    origin_started.fetch_add(1, Ordering::SeqCst);
                    writer.reset();
                } else {
                    writer.respond(200, &[], b"");
                }
            })
            .unwrap()
        })
        .collect();
    let upstream = format!(
        "upstream = [\"{}\", \"{}\"]",
        servers[0].url(),
        servers[1].url()
    );
    let site = SiteBuilder::upstream_line(&upstream).more(RULE).start();
    // Galley retries other requests if a persistent connection has been closed.
    for _ in 0..4 {
        site.get("/warm");
    }
    for round in 1..=4 {
        let upload = Request::post(
            "/upload",
            "application/octet-stream",
            random_bytes(3_000_000),
        );
        site.send(upload).assert_status(502);
        assert_eq!(started.load(Ordering::SeqCst), round);
    }
}

#[test]
fn a_body_that_access_rules_inspect_is_received_first() {
    let origin = FastCgiOrigin::start(|_, app| {
        app.stdin();
        app.respond("Content-Type: text/plain", b"php");
    })
    .unwrap();
    let site = with_fastcgi_origin(&origin).file("xmlrpc.php", "").start();
    let call = "<?xml version=\"1.0\"?><methodCall><methodName>system.multicall</methodName><params/></methodCall>";
    let response = site.send(Request::post("/xmlrpc.php", "text/xml", call));
    assert!(response.expect_status(200).text().contains("faultString"));
    assert_eq!(origin.count(), 0);
}
