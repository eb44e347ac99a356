//! Responses before the request body was read: the rest of the body is read, or the connection ends. It is never read as a
//! request.

use std::io::Write;
use std::net::TcpStream;
use std::thread;

use galley_testkit::origin::Origin;

use crate::case::host;
use crate::client::{TIMEOUT, parse_responses, read_to_end};
use crate::servers::{GalleyWithEcho, GalleyWithPhp, with_origin};

/// A body of repeated requests, which get responses if the server reads the body as requests.
fn body_of_requests() -> Vec<u8> {
    let request = format!("GET /smuggled HTTP/1.1\r\nHost: {}\r\n\r\n", host(0));
    request.repeat(40_000).into_bytes()
}

/// Sends a head, a body and a last request while reading, and returns statuses and bodies of the responses.
fn exchange(stream: &TcpStream, head: &str, body: &[u8]) -> Vec<(u16, String)> {
    let last = format!(
        "GET /last HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        host(0)
    );
    let bytes = [head.as_bytes(), body, last.as_bytes()].concat();
    let mut writing = stream.try_clone().unwrap();
    writing.set_write_timeout(Some(TIMEOUT)).unwrap();
    // The thread ends when the server has closed.
    let writer = thread::spawn(move || drop(writing.write_all(&bytes)));
    let (received, was_closed) = read_to_end(&mut stream.try_clone().unwrap(), TIMEOUT);
    assert!(was_closed, "{}", String::from_utf8_lossy(&received));
    let _ = stream.shutdown(std::net::Shutdown::Both);
    writer.join().unwrap();
    let text = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
    parse_responses(&received)
        .iter()
        .map(|response| (response.status, text(&response.body)))
        .collect()
}

fn post(length: usize, host: &str, fields: &str) -> String {
    format!("POST /a HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n{fields}\r\n")
}

#[test]
fn a_rejection_before_the_body_closes_the_connection() {
    let server = GalleyWithEcho::start(1);
    let body = body_of_requests();
    let heads = [
        (post(body.len(), &host(0), ""), 413),
        (post(body.len(), &host(0), "Expect: 100-continue\r\n"), 413),
        (post(body.len(), "stranger.test", ""), 421),
        (post(body.len(), &host(0), "Expect: something\r\n"), 417),
    ];
    for (head, status) in heads {
        let stream = TcpStream::connect(server.addr()).unwrap();
        let responses = exchange(&stream, &head, &body);
        let statuses: Vec<u16> = responses.iter().map(|response| response.0).collect();
        assert_eq!(statuses, [status], "{head}");
    }
    assert_eq!(server.echo.take(), Vec::<String>::new());
}

#[test]
fn an_upstream_that_responds_before_the_body_does_not_desynchronize_the_client() {
    // The kernel resets the upstream's connection because bytes are unread, and the response may be lost.
    let origin = Origin::start(|request, writer| {
        writer.respond(
            200,
            &[("Cache-Control", "no-store")],
            request.target.as_bytes(),
        );
        if request.method == "POST" {
            writer.close();
        }
    });
    let origin = origin.unwrap();
    let server = with_origin(&origin);
    let body = body_of_requests();
    let body = &body[..900_000];
    for _ in 0..3 {
        let stream = TcpStream::connect(server.addr()).unwrap();
        let responses = exchange(&stream, &post(body.len(), &host(0), ""), body);
        let [first, last] = &responses[..] else {
            panic!("{responses:?}")
        };
        assert!(
            *first == (200, "/a".to_owned()) || first.0 == 502,
            "{first:?}"
        );
        assert_eq!(*last, (200, "/last".to_owned()));
    }
    // Unsafe requests are not retried.
    let targets: Vec<String> = origin
        .requests()
        .into_iter()
        .map(|request| request.target)
        .collect();
    assert_eq!(targets, ["/a", "/last", "/a", "/last", "/a", "/last"]);
}

#[test]
fn php_that_does_not_read_the_body_receives_only_the_next_request() {
    let php = GalleyWithPhp::start_with(
        1,
        "<?php echo $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['REQUEST_URI'];",
    );
    let body = body_of_requests();
    let body = &body[..900_000];
    let stream = TcpStream::connect(php.galley.addr()).unwrap();
    let responses = exchange(&stream, &post(body.len(), &host(0), ""), body);
    let expected = [(200, "POST /a".to_owned()), (200, "GET /last".to_owned())];
    assert_eq!(responses, expected);
}
