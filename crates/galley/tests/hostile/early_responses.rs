//! Answers that come before a body was read: it is read to its end, or the connection ends. Never is what is left of it taken
//! for a request.

use std::io::Write;
use std::net::TcpStream;
use std::thread;

use galley_testkit::origin::Origin;

use crate::case::host;
use crate::drive::{TIMEOUT, answers, read_to_end};
use crate::stage::{Php, Stage, behind};

/// Repeated, it is a body; where it is taken for requests, they are answered.
fn body() -> Vec<u8> {
    let request = format!("GET /smuggled HTTP/1.1\r\nHost: {}\r\n\r\n", host(0));
    request.repeat(40_000).into_bytes()
}

/// The head, then the body and a last request, written while answers are read: their statuses and bodies.
fn converse(stream: &TcpStream, head: &str, body: &[u8]) -> Vec<(u16, String)> {
    let last = format!(
        "GET /last HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        host(0)
    );
    let bytes = [head.as_bytes(), body, last.as_bytes()].concat();
    let mut writing = stream.try_clone().unwrap();
    writing.set_write_timeout(Some(TIMEOUT)).unwrap();
    // It ends when the server has closed.
    let writer = thread::spawn(move || drop(writing.write_all(&bytes)));
    let (received, was_closed) = read_to_end(&mut stream.try_clone().unwrap(), TIMEOUT);
    assert!(was_closed, "{}", String::from_utf8_lossy(&received));
    let _ = stream.shutdown(std::net::Shutdown::Both);
    writer.join().unwrap();
    let text = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
    answers(&received)
        .iter()
        .map(|answer| (answer.status, text(&answer.body)))
        .collect()
}

fn post(length: usize, host: &str, fields: &str) -> String {
    format!("POST /a HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n{fields}\r\n")
}

#[test]
fn a_refusal_before_the_body_ends_the_connection() {
    let stage = Stage::start(1);
    let body = body();
    let heads = [
        (post(body.len(), &host(0), ""), 413),
        (post(body.len(), &host(0), "Expect: 100-continue\r\n"), 413),
        (post(body.len(), "stranger.test", ""), 421),
        (post(body.len(), &host(0), "Expect: something\r\n"), 417),
    ];
    for (head, status) in heads {
        let stream = TcpStream::connect(stage.addr()).unwrap();
        let answers = converse(&stream, &head, &body);
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.0).collect();
        assert_eq!(statuses, [status], "{head}");
    }
    assert_eq!(stage.echo.take(), Vec::<String>::new());
}

#[test]
fn an_upstream_that_answers_before_the_body_and_leaves_is_no_reason_to_lose_count() {
    // With bytes unread its kernel resets the connection, and the answer may be lost on the way.
    let origin = Origin::start(|seen, writer| {
        writer.answer(
            200,
            &[("Cache-Control", "no-store")],
            seen.target.as_bytes(),
        );
        if seen.method == "POST" {
            writer.close();
        }
    });
    let origin = origin.unwrap();
    let stage = behind(&origin);
    let body = body();
    let body = &body[..900_000];
    for _ in 0..3 {
        let stream = TcpStream::connect(stage.addr()).unwrap();
        let answers = converse(&stream, &post(body.len(), &host(0), ""), body);
        let [first, last] = &answers[..] else {
            panic!("{answers:?}")
        };
        assert!(
            *first == (200, "/a".to_owned()) || first.0 == 502,
            "{first:?}"
        );
        assert_eq!(*last, (200, "/last".to_owned()));
    }
    // And nothing that is not safe is sent twice.
    let seen: Vec<String> = origin
        .requests()
        .into_iter()
        .map(|one| one.target)
        .collect();
    assert_eq!(seen, ["/a", "/last", "/a", "/last", "/a", "/last"]);
}

#[test]
fn php_that_leaves_the_body_unread_gets_the_next_request_alone() {
    let php = Php::start_with(
        1,
        "<?php echo $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['REQUEST_URI'];",
    );
    let body = body();
    let body = &body[..900_000];
    let stream = TcpStream::connect(php.galley.addr()).unwrap();
    let answers = converse(&stream, &post(body.len(), &host(0), ""), body);
    let wanted = [(200, "POST /a".to_owned()), (200, "GET /last".to_owned())];
    assert_eq!(answers, wanted);
}
