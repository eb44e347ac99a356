//! Streamed responses: Galley sends the head and each part of the body as soon as it arrives.

use std::io::Read;
use std::sync::Arc;

use galley_testkit::client::{Connection, Request};
use galley_testkit::origin::{Gate, Origin};

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, with_host};

const LOGGED_IN: &str = "wordpress_logged_in_x=1";

/// Reads until `expected` has arrived; returns everything that was read.
fn read_until(connection: &Connection, expected: &str) -> String {
    let mut stream = connection.stream();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut text = String::new();
    let mut part = [0; 4096];
    while !text.contains(expected) {
        let count = stream.read(&mut part).expect(expected);
        assert!(count > 0, "closed before {expected:?}: {text}");
        text.push_str(&String::from_utf8_lossy(&part[..count]));
    }
    text
}

/// Sends a request to an origin that sends the head, "first" and "second" one after the other, each after the client has the part before.
fn assert_streamed(request: Request, preset: &str) {
    let gates = [Arc::new(Gate::new()), Arc::new(Gate::new())];
    let origin_gates = gates.clone();
    let origin = Origin::start(move |_, writer| {
        writer.chunked(200, &[("Content-Type", "text/event-stream")]);
        origin_gates[0].pass();
        writer.chunk(b"first");
        origin_gates[1].pass();
        writer.chunk(b"second");
        writer.last_chunk();
    })
    .unwrap();
    let site = SiteBuilder::origin(&origin, preset).start();
    let mut connection = site.connect();
    connection.send(&with_host(request)).unwrap();
    let head = read_until(&connection, "\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.ends_with("\r\n\r\n"), "{head}");
    gates[0].open();
    let first = read_until(&connection, "first\r\n");
    assert!(!first.contains("second"));
    gates[1].open();
    read_until(&connection, "second\r\n0\r\n\r\n");
}

#[test]
fn a_page_is_streamed() {
    assert_streamed(Request::get("/events"), "wordpress");
}

#[test]
fn a_response_that_is_not_stored_is_streamed() {
    assert_streamed(Request::get("/events").cookie(LOGGED_IN), "wordpress");
}

/// The request purges a page at the start and at the end of its response, and the client has the complete response only after that.
#[test]
fn the_response_to_an_unsafe_request_is_streamed() {
    for preset in ["wordpress", "none"] {
        assert_streamed(Request::post("/events", "text/plain", "ask"), preset);
    }
}

/// A page that is stored while the response to an unsafe request is in transit may lack the change. Galley purges it before the client
/// has the complete response, with `Content-Length` as well as with chunks.
#[test]
fn a_client_with_the_complete_unsafe_response_gets_no_older_page() {
    for framing in ["Content-Length: 2", "Transfer-Encoding: chunked"] {
        let gate = Arc::new(Gate::new());
        let origin_gate = Arc::clone(&gate);
        let is_chunked = framing.starts_with("Transfer");
        let origin = Origin::start(move |request, writer| {
            if request.method == "GET" {
                writer.respond(200, &[("Cache-Control", "max-age=600")], b"page");
                return;
            }
            let head = format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n");
            writer.write(head.as_bytes());
            writer.write(if is_chunked { b"1\r\nx\r\n" } else { b"x" });
            origin_gate.pass();
            writer.write(if is_chunked {
                b"1\r\ny\r\n0\r\n\r\n"
            } else {
                b"y"
            });
        })
        .unwrap();
        let site = SiteBuilder::origin(&origin, "none").start();
        let mut connection = site.connect();
        let save = Request::post("/a", "text/plain", "save");
        connection.send(&with_host(save)).unwrap();
        read_until(
            &connection,
            if is_chunked { "\r\nx\r\n" } else { "\r\n\r\nx" },
        );
        site.get("/a").assert_status(200);
        assert!(site.get("/a").is_hit());
        gate.open();
        let rest = if is_chunked { "0\r\n\r\n" } else { "y" };
        read_until(&connection, rest);
        assert!(!site.get("/a").is_hit(), "{framing}");
    }
}
