//! Client and scripted origins against each other: bytes both ways, endings of every kind.

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
fn bodies_go_both_ways_in_every_framing() {
    let origin = Origin::start(|seen, writer| {
        let body = writer.body();
        match seen.path() {
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
                writer.answer(200, &[("X-A", "b")], &body);
            }
        }
    })
    .unwrap();
    for target in ["/length", "/chunked", "/close"] {
        let sent = Request::post(target, "text/plain", "some body")
            .send(origin.addr())
            .unwrap();
        assert_eq!(
            (sent.status, sent.text().as_str()),
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
    let seen = origin.requests();
    assert_eq!(seen.len(), 7);
    assert!(seen[..6].iter().all(|seen| seen.body == b"some body"));
    assert_eq!(origin.count("/chunked"), 2);
    assert_eq!(seen[0].field("content-type"), Some("text/plain"));
}

#[test]
fn one_connection_serves_many_and_pipelines() {
    let origin = Origin::start(|seen, writer| {
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n");
        writer.answer(200, &[], seen.target.as_bytes());
    })
    .unwrap();
    let mut connection = Connection::open(origin.addr()).unwrap();
    connection
        .write(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    for wanted in ["/1", "/2"] {
        let answer = connection.receive("GET").unwrap();
        assert_eq!(
            (answer.text().as_str(), answer.interim.as_slice()),
            (wanted, &[103][..])
        );
        assert!(answer.raw.starts_with(b"HTTP/1.1 103"));
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
fn broken_answers_are_errors() {
    let origin = Origin::start(|seen, writer| {
        let bytes: &[u8] = match seen.path() {
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
        let trouble = Request::get(target).send(origin.addr()).unwrap_err();
        assert!(!trouble.is_timeout(), "{target}: {trouble}");
    }
}

#[test]
fn silence_and_resets_end_in_time() {
    let origin = Origin::start(|seen, writer| match seen.path() {
        "/reset" => {
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
            writer.reset();
        }
        _ => writer.wait_for_close(),
    })
    .unwrap();
    let silent = Request::get("/silent")
        .timeout(Duration::from_millis(50))
        .send(origin.addr())
        .unwrap_err();
    assert!(silent.is_timeout(), "{silent}");
    let reset = Request::get("/reset")
        .send(origin.addr())
        .unwrap_err()
        .to_string();
    assert!(reset.contains("reset"), "{reset}");
}

#[test]
fn a_gate_orders_what_happens() {
    let gate = Gate::new();
    let inner = gate.clone();
    let origin = Origin::start(move |_, writer| {
        writer.chunked(200, &[]);
        writer.chunk(b"before ");
        inner.pass();
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
        "noted while the script still runs"
    );
    gate.open();
    assert_eq!(connection.receive("GET").unwrap().text(), "before after");
    assert_eq!(gate.arrivals(), 1);
}

#[test]
fn a_panic_in_a_script_fails_its_test() {
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
fn a_browser_keeps_cookies_and_its_connection() {
    let origin = Origin::start(|seen, writer| {
        let cookie = seen.field("cookie").unwrap_or("none").to_owned();
        let set: &[(&str, &str)] = match seen.path() {
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
        writer.answer(200, set, cookie.as_bytes());
        if seen.path() == "/clear" {
            writer.close();
        }
    })
    .unwrap();
    let mut browser = Browser::new(origin.addr(), "x.test");
    for (target, wanted) in [
        ("/set", "none"),
        ("/", "a=1"),
        ("/admin/x", "b=2; a=1"),
        ("/clear", "a=1"),
        ("/", "none"),
    ] {
        assert_eq!(browser.get(target).unwrap().text(), wanted, "{target}");
    }
    assert_eq!(origin.connections(), 2);
    assert!(
        origin
            .requests()
            .iter()
            .all(|seen| seen.field("host") == Some("x.test"))
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
fn a_fastcgi_script_sees_variables_and_stdin_and_answers_in_records() {
    let responder = FastCgiOrigin::start(|asked, application| {
        let body = application.stdin();
        application.stderr(b"a warning");
        application.answer(
            "Content-Type: text/plain",
            &[asked.param("A").as_bytes(), b"/", &body].concat(),
        );
    })
    .unwrap();
    let mut stream = TcpStream::connect(responder.address()).unwrap();
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
    let mut answer = |()| {
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
        let (kinds, text) = answer(());
        assert_eq!(kinds, [7, 6, 6, 3]);
        assert!(
            text.starts_with("a warningContent-Type: text/plain\r\n\r\nxyz/body"),
            "{text}"
        );
    }
    assert_eq!(
        (responder.connections(), responder.count()),
        (1, 2),
        "the connection was kept"
    );
    let asked = responder.requests();
    assert!(asked[0].keep && asked[0].names == ["A"] && asked[1].stdin == b"body");
}

#[test]
fn a_fastcgi_script_hears_an_abort() {
    let aborted = Gate::new();
    let note = aborted.clone();
    let responder = FastCgiOrigin::start(move |_, application| {
        application.stdout(b"Content-Type: text/plain\r\n\r\n");
        application.wait_for_abort();
        assert!(application.is_aborted());
        note.open();
    })
    .unwrap();
    let mut stream = TcpStream::connect(responder.address()).unwrap();
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
    wait_for("the request to be noted", TIMEOUT, || {
        responder.count() == 1
    });
}
