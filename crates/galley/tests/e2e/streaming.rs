//! Responses that arrive in pieces: each piece leaves when it is there, the head too.

use std::io::Read;
use std::sync::Arc;

use galley_testkit::client::{Connection, Request};
use galley_testkit::origin::{Gate, Origin};

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, with_host};

const LOGGED_IN: &str = "wordpress_logged_in_x=1";

/// Reads until `wanted` has arrived; all that has.
fn read_until(connection: &Connection, wanted: &str) -> String {
    let mut stream = connection.stream();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut text = String::new();
    let mut part = [0; 4096];
    while !text.contains(wanted) {
        let count = stream.read(&mut part).expect(wanted);
        assert!(count > 0, "closed before {wanted:?}: {text}");
        text.push_str(&String::from_utf8_lossy(&part[..count]));
    }
    text
}

/// A request whose response is sent as far as `gates` let it: head, "first", "second".
fn in_three_steps(request: Request, preset: &str) {
    let gates = [Arc::new(Gate::new()), Arc::new(Gate::new())];
    let held = gates.clone();
    let origin = Origin::start(move |_, writer| {
        writer.chunked(200, &[("Content-Type", "text/event-stream")]);
        held[0].pass();
        writer.chunk(b"first");
        held[1].pass();
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
fn a_page_is_passed_on_as_it_comes() {
    in_three_steps(Request::get("/events"), "wordpress");
}

#[test]
fn what_is_not_stored_is_passed_on_as_it_comes() {
    in_three_steps(Request::get("/events").cookie(LOGGED_IN), "wordpress");
}

/// It purges a page when it begins and when it has ended, and its client is complete only then.
#[test]
fn the_response_to_an_unsafe_request_is_passed_on_as_it_comes() {
    for preset in ["wordpress", "none"] {
        in_three_steps(Request::post("/events", "text/plain", "ask"), preset);
    }
}

/// A page that is stored while the response is in transit may lack what the request changed: it is purged before its client has
/// the whole response, whether its length or its end says that it is whole.
#[test]
fn whoever_has_the_whole_response_sees_no_page_of_the_time_before_its_end() {
    for whole in ["Content-Length: 2", "Transfer-Encoding: chunked"] {
        let gate = Arc::new(Gate::new());
        let held = Arc::clone(&gate);
        let is_chunked = whole.starts_with("Transfer");
        let origin = Origin::start(move |seen, writer| {
            if seen.method == "GET" {
                writer.answer(200, &[("Cache-Control", "max-age=600")], b"page");
                return;
            }
            let head = format!("HTTP/1.1 200 OK\r\n{whole}\r\n\r\n");
            writer.write(head.as_bytes());
            writer.write(if is_chunked { b"1\r\nx\r\n" } else { b"x" });
            held.pass();
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
        assert!(!site.get("/a").is_hit(), "{whole}");
    }
}
