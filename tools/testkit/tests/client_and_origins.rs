//! Tests the client and the scripted origins against each other: framing of bodies, and all ways to end a connection.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use galley_testkit::{
    client::{Browser, Connection, Request},
    origin::{FastCgiOrigin, Gate, Origin},
    wait_for,
};

const TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn bodies_are_sent_and_received_with_every_framing() {
    let origin = Origin::start(|request, writer| {
        let body = writer.body();
        match request.path() {
            "/chunked" => {
                writer.chunked(200, &[]);
                for piece in body.chunks(3) {
                    writer.chunk(piece);
                }
                writer.last_chunk();
            }
            "/close" => {
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n");
                writer.write(&body);
                writer.close();
            }
            _ => {
                writer.respond(200, &[("X-A", "b")], &body);
            }
        }
    })
    .unwrap();
    for target in ["/length", "/chunked", "/close"] {
        let with_length = Request::post(target, "text/plain", "some body")
            .send(origin.addr())
            .unwrap();
        assert_eq!(
            (with_length.status, with_length.text().as_str()),
            (200, "some body"),
            "{target}"
        );
        let chunked = Request::new("PUT", target)
            .chunked(&[b"some ", b"body"])
            .send(origin.addr())
            .unwrap();
        assert_eq!(chunked.text(), "some body", "{target}");
    }
    let head = Request::head("/length").send(origin.addr()).unwrap();
    assert_eq!((head.status, head.body.len()), (200, 0));
    let requests = origin.requests();
    assert_eq!(requests.len(), 7);
    assert!(
        requests[..6]
            .iter()
            .all(|request| request.body == b"some body")
    );
    assert_eq!(origin.count("/chunked"), 2);
    assert_eq!(requests[0].field("content-type"), Some("text/plain"));
}

#[test]
fn a_connection_serves_pipelined_and_further_requests() {
    let origin = Origin::start(|request, writer| {
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n");
        writer.respond(200, &[], request.target.as_bytes());
    })
    .unwrap();
    let mut connection = Connection::open(origin.addr()).unwrap();
    connection
        .write(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    for expected in ["/1", "/2"] {
        let response = connection.receive("GET").unwrap();
        assert_eq!(
            (response.text().as_str(), response.interim.as_slice()),
            (expected, &[103][..])
        );
        assert!(response.raw.starts_with(b"HTTP/1.1 103"));
    }
    assert_eq!(
        connection.exchange(&Request::get("/3")).unwrap().text(),
        "/3"
    );
    assert_eq!(origin.connections(), 1);
    assert!(!connection.is_closed_within(Duration::from_millis(20)));
    origin.drop_connections();
    assert!(connection.is_closed_within(TIMEOUT));
}

#[test]
fn malformed_responses_are_errors() {
    let origin = Origin::start(|request, writer| {
        let bytes: &[u8] = match request.path() {
            "/short" => b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
            "/twice" => {
                b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\na"
            }
            "/chunk" => {
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n"
            }
            "/after" => b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\nab",
            _ => b"nonsense\r\n\r\n",
        };
        writer.write(bytes);
        writer.close();
    })
    .unwrap();
    for target in ["/short", "/twice", "/chunk", "/after", "/"] {
        let error = Request::get(target).send(origin.addr()).unwrap_err();
        assert!(!error.is_timeout(), "{target}: {error}");
    }
}

#[test]
fn missing_responses_time_out_and_resets_are_errors() {
    let origin = Origin::start(|request, writer| match request.path() {
        "/reset" => {
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
            writer.reset();
        }
        _ => writer.wait_for_close(),
    })
    .unwrap();
    let timeout = Request::get("/silent")
        .timeout(Duration::from_millis(50))
        .send(origin.addr())
        .unwrap_err();
    assert!(timeout.is_timeout(), "{timeout}");
    let reset = Request::get("/reset")
        .send(origin.addr())
        .unwrap_err()
        .to_string();
    assert!(reset.contains("reset"), "{reset}");
}

#[test]
fn a_script_waits_at_a_gate_until_the_test_opens_it() {
    let gate = Gate::new();
    let script_gate = gate.clone();
    let origin = Origin::start(move |_, writer| {
        writer.chunked(200, &[]);
        writer.chunk(b"before ");
        script_gate.pass();
        writer.chunk(b"after");
        writer.last_chunk();
    })
    .unwrap();
    let mut connection = Connection::open(origin.addr()).unwrap();
    connection.send(&Request::get("/")).unwrap();
    gate.wait_for_arrivals(1);
    assert_eq!(
        origin.requests().len(),
        1,
        "the request must be recorded while the script runs"
    );
    gate.open();
    assert_eq!(connection.receive("GET").unwrap().text(), "before after");
    assert_eq!(gate.arrivals(), 1);
}

#[test]
fn dropping_an_origin_panics_if_a_script_panicked() {
    let origin = Origin::start(|_, _| panic!("on purpose")).unwrap();
    assert!(
        Request::get("/")
            .timeout(Duration::from_millis(200))
            .send(origin.addr())
            .is_err()
    );
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(origin)));
    assert!(dropped.is_err());
}

#[test]
fn a_browser_stores_cookies_and_reuses_its_connection() {
    let origin = Origin::start(|request, writer| {
        let cookie = request.field("cookie").unwrap_or("none").to_owned();
        let fields: &[(&str, &str)] = match request.path() {
            "/set" => &[
                ("Set-Cookie", "a=1; path=/"),
                ("Set-Cookie", "b=2; path=/admin"),
            ],
            "/clear" => &[
                ("Set-Cookie", "a=; Max-Age=0; path=/"),
                ("Connection", "close"),
            ],
            _ => &[],
        };
        writer.respond(200, fields, cookie.as_bytes());
        if request.path() == "/clear" {
            writer.close();
        }
    })
    .unwrap();
    let mut browser = Browser::new(origin.addr(), "x.test");
    for (target, expected) in [
        ("/set", "none"),
        ("/", "a=1"),
        ("/admin/x", "b=2; a=1"),
        ("/clear", "a=1"),
        ("/", "none"),
    ] {
        assert_eq!(browser.get(target).unwrap().text(), expected, "{target}");
    }
    assert_eq!(origin.connections(), 2);
    assert!(
        origin
            .requests()
            .iter()
            .all(|request| request.field("host") == Some("x.test"))
    );
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![1, kind, 0, 1];
    out.extend_from_slice(&u16::try_from(content.len()).unwrap().to_be_bytes());
    out.extend_from_slice(&[3, 0]);
    out.extend_from_slice(content);
    out.extend_from_slice(&[0; 3]);
    out
}

#[test]
fn a_fastcgi_origin_receives_requests_and_responds_in_records() {
    let origin = FastCgiOrigin::start(|request, writer| {
        let body = writer.stdin();
        writer.stderr(b"a warning");
        writer.respond(
            "Content-Type: text/plain",
            &[request.param("A").as_bytes(), b"/", &body].concat(),
        );
    })
    .unwrap();
    let mut stream = TcpStream::connect(origin.address()).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let request = [
        record(1, &[0, 1, 1, 0, 0, 0, 0, 0]),
        record(4, b"\x01\x03Axyz"),
        record(4, &[]),
        record(5, b"bo"),
        record(5, b"dy"),
        record(5, &[]),
    ]
    .concat();
    let mut exchange = |()| {
        stream.write_all(&request).unwrap();
        let mut bytes = Vec::new();
        let mut kinds = Vec::new();
        loop {
            let mut head = [0; 8];
            stream.read_exact(&mut head).unwrap();
            let mut content = vec![0; usize::from(u16::from_be_bytes([head[4], head[5]]))];
            stream.read_exact(&mut content).unwrap();
            kinds.push(head[1]);
            bytes.extend_from_slice(&content);
            if head[1] == 3 {
                return (kinds, String::from_utf8_lossy(&bytes).into_owned());
            }
        }
    };
    for _ in 0..2 {
        let (kinds, text) = exchange(());
        assert_eq!(kinds, [7, 6, 6, 3]);
        assert!(
            text.starts_with("a warningContent-Type: text/plain\r\n\r\nxyz/body"),
            "{text}"
        );
    }
    assert_eq!(
        (origin.connections(), origin.count()),
        (1, 2),
        "both requests must use one connection"
    );
    let requests = origin.requests();
    assert!(requests[0].keep && requests[0].names == ["A"] && requests[1].stdin == b"body");
}

#[test]
fn a_fastcgi_origin_receives_an_abort() {
    let aborted = Gate::new();
    let script_gate = aborted.clone();
    let origin = FastCgiOrigin::start(move |_, writer| {
        writer.stdout(b"Content-Type: text/plain\r\n\r\n");
        writer.wait_for_abort();
        assert!(writer.is_aborted());
        script_gate.open();
    })
    .unwrap();
    let mut stream = TcpStream::connect(origin.address()).unwrap();
    stream
        .write_all(
            &[
                record(1, &[0, 1, 0, 0, 0, 0, 0, 0]),
                record(4, &[]),
                record(2, &[]),
            ]
            .concat(),
        )
        .unwrap();
    aborted.pass();
    wait_for("the request to be recorded", TIMEOUT, || {
        origin.count() == 1
    });
}
