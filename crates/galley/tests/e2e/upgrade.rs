//! Connections that become something else than HTTP: `websocket` passes to HTTP upstreams, and nothing else does.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use galley_testkit::client::{Connection, Request};
use galley_testkit::wait_for;

use crate::support::{AssertStatus, HOST, SiteBuilder, TIMEOUT, TestSite, json_number, page_value};

/// A server that does what the path says, and keeps all bytes that came on each of its connections.
struct Server {
    addr: SocketAddr,
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        let kept = Arc::clone(&seen);
        // Ends with the test's process; its connections end with the server under test.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let kept = Arc::clone(&kept);
                thread::spawn(move || serve(stream.unwrap(), &kept));
            }
        });
        Self { addr, seen }
    }

    /// All that came on every connection so far.
    fn heard(&self) -> String {
        let all = self.seen.lock().unwrap().concat();
        String::from_utf8_lossy(&all).into_owned()
    }

    fn plan(&self, preset: &str) -> SiteBuilder {
        SiteBuilder::upstream_line(&format!("upstream = [\"http://{}\"]", self.addr))
            .site(&format!("preset = \"{preset}\""))
    }
}

/// RFC 6455 section 1.3 has these two.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const AGREED: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

fn serve(mut stream: TcpStream, seen: &Mutex<Vec<Vec<u8>>>) {
    let place = {
        let mut seen = seen.lock().unwrap();
        seen.push(Vec::new());
        seen.len() - 1
    };
    let take = |stream: &mut TcpStream| {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).unwrap_or(0);
        let mut seen = seen.lock().unwrap();
        seen[place].extend_from_slice(&piece[..count]);
        (piece[..count].to_vec(), seen[place].clone())
    };
    let head = loop {
        let (piece, all) = take(&mut stream);
        if all.windows(4).any(|at| at == b"\r\n\r\n") || piece.is_empty() {
            break String::from_utf8_lossy(&all).into_owned();
        }
    };
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let answer: &[u8] = match path.as_str() {
        "/echo" | "/end" => AGREED,
        "/ahead" => &[AGREED, b"first words"].concat(),
        "/other" => {
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\nSECRET"
        }
        "/junk" => &[b"SECRET", AGREED].concat(),
        _ => b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nCache-Control: no-store\r\nConnection: close\r\n\r\nplain",
    };
    let _ = stream.write_all(answer);
    let is_echo = path == "/echo";
    loop {
        let (piece, _) = take(&mut stream);
        if piece.is_empty() {
            break;
        }
        if is_echo && stream.write_all(&piece).is_err() {
            break;
        }
    }
    if path == "/end" {
        let _ = stream.write_all(b"the last words");
    }
}

fn websocket(path: &str) -> Vec<u8> {
    upgrade(path, "websocket")
}

fn upgrade(path: &str, protocol: &str) -> Vec<u8> {
    format!(
        "GET {path} HTTP/1.1\r\nHost: {HOST}\r\nUpgrade: {protocol}\r\nConnection: keep-alive, Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"
    )
    .into_bytes()
}

/// Asks for a tunnel, and gives the connection with the head of the answer.
fn open(site: &TestSite, path: &str) -> (Connection, String) {
    let mut connection = site.connect();
    connection.write(&websocket(path)).unwrap();
    let head = until(&mut connection, b"\r\n\r\n");
    (connection, head)
}

/// All that comes up to and with these bytes.
fn until(connection: &mut Connection, end: &[u8]) -> String {
    let mut stream = connection.stream();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut all = Vec::new();
    while !all.ends_with(end) {
        let mut byte = [0];
        assert_eq!(
            stream.read(&mut byte).unwrap(),
            1,
            "{}",
            String::from_utf8_lossy(&all)
        );
        all.push(byte[0]);
    }
    String::from_utf8(all).unwrap()
}

fn open_tunnels(site: &TestSite) -> u64 {
    json_number(&site.status(), "upgraded_connections")
}

#[test]
fn bytes_pass_both_ways_once_both_have_agreed() {
    for preset in ["wordpress", "none"] {
        let server = Server::start();
        let site = server.plan(preset).start();
        let (mut connection, head) = open(&site, "/echo");
        let lower = head.to_ascii_lowercase();
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        for field in [
            "upgrade: websocket\r\n",
            "connection: upgrade\r\n",
            "sec-websocket-accept: s3pp",
        ] {
            assert!(lower.contains(field), "{field} in {head}");
        }
        assert!(
            !lower.contains("content-length") && !lower.contains("transfer-encoding"),
            "{head}"
        );
        let sent = server.heard().to_ascii_lowercase();
        for field in [
            "upgrade: websocket\r\n",
            "connection: upgrade\r\n",
            "sec-websocket-key: dgh",
            "x-forwarded-for: 127.0.0.1\r\n",
        ] {
            assert!(sent.contains(field), "{field} in {sent}");
        }
        // A text message as a browser sends it, and more than any buffer holds.
        connection
            .write(b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58")
            .unwrap();
        let mut back = [0; 11];
        connection.stream().read_exact(&mut back).unwrap();
        assert_eq!(&back, b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58");
        let large = vec![b'x'; 1 << 20];
        thread::scope(|scope| {
            let (mut writing, sent) = (connection.stream(), &large);
            scope.spawn(move || writing.write_all(sent).unwrap());
            let mut back = vec![0; large.len()];
            connection.stream().read_exact(&mut back).unwrap();
            assert!(back == large);
        });
        assert_eq!(open_tunnels(&site), 1);
        connection.finish_writing().unwrap();
        assert_eq!(connection.read_to_end().unwrap(), b"");
        let line = site.access_line("/echo");
        assert!(
            line.contains(" 101 ") && line.contains(&(11 + (1 << 20)).to_string()),
            "{line}"
        );
        wait_for("the tunnel to be gone", TIMEOUT, || {
            open_tunnels(&site) == 0
        });
    }
}

#[test]
fn the_upstream_may_speak_first_and_last() {
    let server = Server::start();
    let site = server.plan("wordpress").start();
    let (mut connection, _) = open(&site, "/ahead");
    assert_eq!(until(&mut connection, b"words"), "first words");
    let (mut connection, _) = open(&site, "/end");
    connection.write(b"the first words").unwrap();
    connection.finish_writing().unwrap();
    assert_eq!(connection.read_to_end().unwrap(), b"the last words");
    assert!(server.heard().ends_with("the first words"));
}

#[test]
fn without_a_101_it_is_a_request_like_others_and_nothing_behind_it_is_sent_on() {
    let server = Server::start();
    let site = server.plan("wordpress").start();
    let behind = format!("GET /smuggled HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
    let all = site.send_raw(&[websocket("/no"), behind.into_bytes()].concat());
    let text = String::from_utf8_lossy(&all);
    assert!(
        text.starts_with("HTTP/1.1 200 ") && text.ends_with("plain"),
        "{text}"
    );
    assert_eq!(text.matches("HTTP/1.1").count(), 1, "{text}");
    assert!(!server.heard().contains("smuggled"));
    // Nor is what comes later.
    let mut connection = site.connect();
    connection.write(&websocket("/no")).unwrap();
    let answer = connection.receive("GET").unwrap();
    assert_eq!(answer.field("connection"), Some("close"));
    assert!(connection.is_closed_within(TIMEOUT));
}

#[test]
fn a_101_that_nobody_asked_for_is_no_answer() {
    let server = Server::start();
    let site = server.plan("wordpress").start();
    for request in [
        websocket("/other"),
        websocket("/junk"),
        format!("GET /echo HTTP/1.1\r\nHost: {HOST}\r\n\r\n").into_bytes(),
        // Asked for in a way that does not count: the head says nothing of it, or a body follows.
        format!("GET /echo HTTP/1.1\r\nHost: {HOST}\r\nUpgrade: websocket\r\n\r\n").into_bytes(),
        format!("POST /echo HTTP/1.1\r\nHost: {HOST}\r\nUpgrade: websocket\r\nConnection: upgrade\r\nContent-Length: 2\r\n\r\nhi").into_bytes(),
    ] {
        let mut connection = site.connect();
        connection.write(&request).unwrap();
        let answer = connection.receive("GET").unwrap();
        answer.assert_status(502);
        assert!(!answer.text().contains("SECRET"));
    }
    assert_eq!(open_tunnels(&site), 0);
}

#[test]
fn other_protocols_do_not_pass() {
    let server = Server::start();
    let site = server.plan("wordpress").start();
    for protocol in [
        "h2c",
        "websocket, h2c",
        "TLS/1.0",
        "HTTP/2.0",
        "websocket/13",
        "",
    ] {
        let mut connection = site.connect();
        connection.write(&upgrade("/plain", protocol)).unwrap();
        connection.receive("GET").unwrap().assert_status(200);
    }
    assert!(!server.heard().to_ascii_lowercase().contains("upgrade"));
    let site = server.plan("wordpress").site("upgrade = []").start();
    let mut connection = site.connect();
    connection.write(&websocket("/plain")).unwrap();
    connection.receive("GET").unwrap().assert_status(200);
    assert!(!server.heard().to_ascii_lowercase().contains("upgrade"));
}

#[test]
fn php_over_fastcgi_never_hears_of_it() {
    let site = SiteBuilder::php().start();
    let mut connection = site.connect();
    connection.write(&websocket("/page")).unwrap();
    let answer = connection.receive("GET").unwrap();
    answer.assert_status(200);
    let text = answer.text();
    assert_eq!(page_value(&text, "HTTP_SEC_WEBSOCKET_VERSION"), "13");
    assert!(
        !text.contains("HTTP_UPGRADE") && !text.contains("HTTP_CONNECTION"),
        "{text}"
    );
}

#[test]
fn there_are_as_many_as_may_be() {
    let server = Server::start();
    let site = server.plan("wordpress").server("max_upgrades = 1").start();
    let (first, head) = open(&site, "/echo");
    assert!(head.starts_with("HTTP/1.1 101 "));
    let mut second = site.connect();
    second.write(&websocket("/echo")).unwrap();
    let answer = second.receive("GET").unwrap();
    answer.assert_status(503);
    assert!(answer.field("retry-after").is_some());
    // Requests are served beside it, and its place comes back.
    site.send(Request::get("/plain")).assert_status(200);
    drop(first);
    wait_for("the first tunnel to be gone", TIMEOUT, || {
        open_tunnels(&site) == 0
    });
    let (_third, head) = open(&site, "/echo");
    assert!(head.starts_with("HTTP/1.1 101 "));
}

#[test]
fn silence_ends_it_and_so_does_a_stop() {
    let server = Server::start();
    let site = server
        .plan("wordpress")
        .server("upgrade_timeout = \"400ms\"")
        .start();
    let (mut connection, _) = open(&site, "/echo");
    assert_eq!(connection.read_to_end().unwrap(), b"");
    site.access_line(" 101 ");
    // Longer than a test waits for the end of a server.
    let mut site = server
        .plan("wordpress")
        .server("drain_timeout = \"10m\"")
        .start();
    let (mut connection, _) = open(&site, "/echo");
    assert!(site.galley.stop().success());
    assert_eq!(connection.read_to_end().unwrap(), b"");
}
