//! `stream_request`: uploads that the upstream gets while they arrive, and what becomes of those that do not arrive.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use galley_testkit::client::{Connection, Request};
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

/// Request bodies that went to a file.
fn spooled(site: &TestSite) -> u64 {
    let status = site.status();
    json_number(
        status.split("\"spools\":").nth(1).unwrap_or_default(),
        "requests",
    )
}

/// A site in front of a scripted FastCGI program with one slot.
fn before(responder: &FastCgiOrigin) -> SiteBuilder {
    SiteBuilder::upstream_line(&format!("php = \"{}\"", responder.address()))
        .file("index.php", "")
        .site("in_flight = 1")
        .more(RULE)
}

/// Sends `count` pieces, each only when the upstream has the one before.
fn in_pieces(connection: &mut Connection, received: &AtomicUsize, pieces: &[Vec<u8>], frame: bool) {
    let mut sent = 0;
    for piece in pieces {
        if frame {
            let size = format!("{:x}\r\n", piece.len());
            connection.write(size.as_bytes()).unwrap();
        }
        connection.write(piece).unwrap();
        if frame {
            connection.write(b"\r\n").unwrap();
        }
        sent += piece.len();
        wait_for("the piece at the upstream", TIMEOUT, || {
            received.load(Ordering::SeqCst) >= sent
        });
    }
}

#[test]
fn php_gets_each_part_when_it_has_arrived() {
    let received = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&received);
    let responder = FastCgiOrigin::start(move |_, app| {
        while let Some(piece) = app.stdin_piece() {
            count.fetch_add(piece.len(), Ordering::SeqCst);
        }
        app.answer("Content-Type: text/plain", b"all of it");
    })
    .unwrap();
    // The upload takes longer than the upstream may be silent.
    let site = before(&responder)
        .site("first_byte_timeout = \"500ms\"")
        .start();
    let pieces: Vec<Vec<u8>> = (0..4).map(|_| random_bytes(10_000)).collect();
    let mut connection = site.connect();
    let announced = head("/upload", "Content-Length: 40000");
    connection.write(announced.as_bytes()).unwrap();
    for piece in &pieces {
        in_pieces(
            &mut connection,
            &received,
            std::slice::from_ref(piece),
            false,
        );
        received.store(0, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(300));
    }
    let answer = connection.receive("POST").unwrap().expect_status(200);
    assert_eq!(answer.text(), "all of it");
    let asked = responder.requests();
    assert_eq!(asked[0].param("CONTENT_LENGTH"), "40000");
    assert!(asked[0].stdin == pieces.concat());
    // The connection lives on.
    let next = with_host(Request::post("/next", "text/plain", "small"));
    connection.exchange(&next).unwrap().assert_status(200);
    assert_eq!(responder.requests()[1].stdin, b"small");
}

#[test]
fn an_http_server_gets_a_body_without_a_length_in_chunks() {
    let origin = Origin::start(|_, writer| {
        let length = writer.body().len();
        writer.answer(200, &[], length.to_string().as_bytes());
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
            let answer = site.send(request).expect_status(200);
            assert_eq!(answer.text(), length.to_string());
        }
        let seen = origin.requests();
        let [.., chunked, whole] = seen.as_slice() else {
            panic!("two requests");
        };
        assert_eq!(chunked.field("transfer-encoding"), Some("chunked"));
        assert_eq!(chunked.field("content-length"), None);
        let announced = length.to_string();
        assert_eq!(whole.field("content-length"), Some(announced.as_str()));
        assert!(chunked.body == body && whole.body == body, "{length}");
    }
    assert_eq!(spooled(&site), 0);
}

#[test]
fn a_large_upload_costs_neither_memory_nor_disk() {
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
    let wanted = format!("{} {}", body.len(), sha256(&body));
    let request = Request::post("/hash.php", "application/octet-stream", body);
    let answer = site.send(request).expect_status(200);
    assert_eq!(answer.text(), wanted);
    let grown = site.grown_since(before);
    assert!(grown < 4 * 1024 * 1024, "{grown} bytes for one upload");
    assert_eq!(spooled(&site), 0);
    // CGI wants to know the length, so this one is received first.
    let body = random_bytes(1_000_000);
    let pieces: Vec<&[u8]> = body.chunks(50_021).collect();
    let chunked = Request::new("POST", "/hash.php").chunked(&pieces);
    let answer = site.send(chunked).expect_status(200);
    assert_eq!(answer.text(), format!("1000000 {}", sha256(&body)));
    assert_eq!(spooled(&site), 1);
}

#[test]
fn an_upstream_that_takes_nothing_stops_its_client() {
    let gate = Arc::new(Gate::new());
    let held = Arc::clone(&gate);
    let origin = Origin::start(move |seen, writer| {
        if seen.method == "POST" {
            held.pass();
        }
        let length = writer.body().len();
        writer.answer(200, &[], length.to_string().as_bytes());
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
            Err(error) => panic!("{error}"),
        }
    }
    assert!(sent < body.len(), "all of it was taken");
    let grown = site.grown_since(before);
    assert!(
        grown < 4 * 1024 * 1024,
        "{grown} bytes while nobody takes it"
    );
    gate.open();
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(&body[sent..]).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with(&body.len().to_string()), "{answer}");
}

#[test]
fn a_client_is_told_to_continue_when_its_body_is_wanted() {
    let gate = Arc::new(Gate::new());
    let held = Arc::clone(&gate);
    let responder = FastCgiOrigin::start(move |asked, app| {
        if asked.param("REQUEST_URI") == "/busy" {
            held.pass();
        } else if asked.param("REQUEST_URI") == "/upload" {
            app.stdin();
        }
        app.answer("Status: 201 Created\r\nContent-Type: text/plain", b"");
    })
    .unwrap();
    let site = before(&responder).start();
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
    let early = stream.peek(&mut [0; 16]);
    assert!(early.is_err(), "told before there was a slot");
    gate.open();
    busy.receive("POST").unwrap().assert_status(201);
    let mut line = [0; 25];
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut stream = stream;
    stream.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"HTTP/1.1 100 Continue\r\n\r\n");
    connection.write(b"12345").unwrap();
    connection.receive("POST").unwrap().assert_status(201);
    assert_eq!(responder.requests()[1].stdin, b"12345");
}

#[test]
fn an_answer_before_the_end_of_the_upload_is_an_answer() {
    let responder = FastCgiOrigin::start(|asked, app| {
        let target = asked.param("REQUEST_URI");
        if target.contains("some") {
            app.stdin_piece();
        }
        app.answer("Status: 403 Forbidden\r\nContent-Type: text/plain", b"no");
        if !target.contains("silent") {
            app.end(0, 0);
        }
        if target.contains("close") {
            app.close();
        } else if target.contains("silent") {
            // It neither reads nor ends before its response has to be sent.
            std::thread::sleep(Duration::from_secs(3));
            app.end(0, 0);
        }
    })
    .unwrap();
    let site = before(&responder).start();
    for target in ["/early", "/early?close", "/some", "/some?close", "/silent"] {
        let mut connection = site.connect();
        let upload = Request::post(target, "application/octet-stream", random_bytes(20 << 20));
        // The rest is not read any more once the response was sent.
        let _ = connection.send(&with_host(upload));
        let answer = connection.receive("POST").unwrap().expect_status(403);
        assert_eq!(answer.text(), "no", "{target}");
        let next = site.send(Request::post("/next", "text/plain", "small"));
        assert_eq!(next.expect_status(403).text(), "no", "after {target}");
    }
}

#[test]
fn a_response_that_begins_early_is_whole() {
    // It echoes: the response begins with the first part of the request.
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
        let answer = connection.exchange(&with_host(upload)).unwrap();
        assert_eq!(answer.expect_status(200).text(), "begun 8388608");
    }
}

#[test]
fn an_upload_that_breaks_off_aborts_its_request_and_frees_the_slot() {
    let aborted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&aborted);
    let responder = FastCgiOrigin::start(move |asked, app| {
        let announced: usize = asked.param("CONTENT_LENGTH").parse().unwrap();
        if app.stdin().len() < announced {
            count.fetch_add(1, Ordering::SeqCst);
            app.wait_for_abort();
        }
        app.answer("Content-Type: text/plain", b"whole");
    })
    .unwrap();
    let site = before(&responder)
        .server("body_timeout = \"1s\"\nmin_rate = \"100B\"")
        .start();
    for round in 1..=3 {
        let mut broken = site.connect();
        let announced = head("/upload", "Content-Length: 1000000");
        broken.write(announced.as_bytes()).unwrap();
        broken.write(&random_bytes(100_000)).unwrap();
        wait_for("the request", TIMEOUT, || {
            responder.count() == 2 * round - 1
        });
        // Gone, or silent.
        if round == 1 {
            broken.receive("POST").unwrap().assert_status(408);
        }
        drop(broken);
        wait_for("the abort", TIMEOUT, || {
            aborted.load(Ordering::SeqCst) == round
        });
        site.send(Request::post("/next", "text/plain", "small"))
            .assert_status(200);
    }
}

#[test]
fn php_whose_upload_breaks_off_works_on() {
    let script = "<?php $n = strlen(file_get_contents('php://input')); $f = __DIR__ . '/../notes/got'; \
        file_put_contents(\"$f.new\", \"$n of $_SERVER[CONTENT_LENGTH]\"); rename(\"$f.new\", $f);";
    let site = SiteBuilder::php()
        .file("form.php", script)
        .workers(1)
        .site("in_flight = 1")
        .more(RULE)
        .start();
    let announced = head("/form.php", "Content-Length: 1000000");
    for _ in 0..5 {
        let mut broken = site.connect();
        broken.write(announced.as_bytes()).unwrap();
        broken.write(&random_bytes(100_000)).unwrap();
    }
    site.get("/one").assert_status(200);
    site.send(Request::post("/two", "text/plain", "small"))
        .assert_status(200);
    // As the manual warns: the script runs with what has arrived.
    site.wait_for_note("got");
    let got = std::fs::read_to_string(site.notes().join("got")).unwrap();
    let (received, announced) = got.split_once(" of ").unwrap();
    assert_eq!(announced, "1000000");
    assert!(received.parse::<u32>().unwrap() <= 100_000, "{got}");
}

#[test]
fn a_body_without_a_length_beyond_the_limit_is_rejected() {
    let whole = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&whole);
    let origin = Origin::start(move |_, writer| {
        if !writer.body().is_empty() {
            count.fetch_add(1, Ordering::SeqCst);
        }
        writer.answer(200, &[], b"");
    })
    .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .server("request_body = \"100KiB\"")
        .more(RULE)
        .start();
    let body = random_bytes(1_000_000);
    let pieces: Vec<&[u8]> = body.chunks(10_000).collect();
    let answer = site.send(Request::new("POST", "/upload").chunked(&pieces));
    answer.assert_status(413);
    site.get("/after").assert_status(200);
    assert_eq!(whole.load(Ordering::SeqCst), 0, "the end arrived");
}

#[test]
fn a_request_whose_body_was_begun_is_sent_once() {
    let begun = Arc::new(AtomicUsize::new(0));
    let servers: Vec<Origin> = (0..2)
        .map(|_| {
            let count = Arc::clone(&begun);
            Origin::start(move |seen, writer| {
                if seen.method == "POST" {
                    count.fetch_add(1, Ordering::SeqCst);
                    writer.reset();
                } else {
                    writer.answer(200, &[], b"");
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
    // A kept connection may have been closed, for which other requests are repeated.
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
        assert_eq!(begun.load(Ordering::SeqCst), round);
    }
}

#[test]
fn what_access_rules_have_to_read_is_received_first() {
    let responder = FastCgiOrigin::start(|_, app| {
        app.stdin();
        app.answer("Content-Type: text/plain", b"php");
    })
    .unwrap();
    let site = before(&responder).file("xmlrpc.php", "").start();
    let call = "<?xml version=\"1.0\"?><methodCall><methodName>system.multicall</methodName><params/></methodCall>";
    let answer = site.send(Request::post("/xmlrpc.php", "text/xml", call));
    assert!(answer.expect_status(200).text().contains("faultString"));
    assert_eq!(responder.count(), 0);
}
