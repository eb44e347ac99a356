//! Protocol upgrades: only `websocket` is forwarded, and only to HTTP upstreams.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use galley_testkit::client::{Connection, Request};
use galley_testkit::wait_for;

use crate::support::{AssertStatus, HOST, SiteBuilder, TIMEOUT, TestSite, json_number, page_value};

/// The bytes received on each connection.
type ReceivedBytes = Mutex<Vec<Vec<u8>>>;

/// An upstream server whose behavior depends on the path. It records all received bytes.
struct UpgradeServer {
    addr: SocketAddr,
    received: Arc<ReceivedBytes>,
}

impl UpgradeServer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let received: Arc<ReceivedBytes> = Arc::default();
        let recorded = Arc::clone(&received);
        // Ends with the test's process; its connections end with the server under test.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let recorded = Arc::clone(&recorded);
                thread::spawn(move || serve(stream.unwrap(), &recorded));
            }
        });
        Self { addr, received }
    }

    /// All bytes received so far, on all connections.
    fn received_text(&self) -> String {
        let all = self.received.lock().unwrap().concat();
        String::from_utf8_lossy(&all).into_owned()
    }

    fn site_builder(&self, preset: &str) -> SiteBuilder {
        SiteBuilder::upstream_line(&format!("upstream = [\"http://{}\"]", self.addr))
            .site(&format!("preset = \"{preset}\""))
    }
}

/// The key of the example in RFC 6455 section 1.3; the response has the matching `Sec-WebSocket-Accept`.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const SWITCHING_PROTOCOLS: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

fn serve(mut stream: TcpStream, received: &ReceivedBytes) {
    let index = {
        let mut received = received.lock().unwrap();
        received.push(Vec::new());
        received.len() - 1
    };
    let read = |stream: &mut TcpStream| {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).unwrap_or(0);
        let mut received = received.lock().unwrap();
        received[index].extend_from_slice(&buffer[..count]);
        (buffer[..count].to_vec(), received[index].clone())
    };
    let head = loop {
        let (chunk, all) = read(&mut stream);
        if all.windows(4).any(|at| at == b"\r\n\r\n") || chunk.is_empty() {
            break String::from_utf8_lossy(&all).into_owned();
        }
    };
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let response: &[u8] = match path.as_str() {
        "/echo" | "/end" => SWITCHING_PROTOCOLS,
        "/ahead" => &[SWITCHING_PROTOCOLS, b"first words"].concat(),
        "/other" => {
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\nSECRET"
        }
        "/junk" => &[b"SECRET", SWITCHING_PROTOCOLS].concat(),
        _ => b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nCache-Control: no-store\r\nConnection: close\r\n\r\nplain",
    };
    let _ = stream.write_all(response);
    let is_echo = path == "/echo";
    loop {
        let (chunk, _) = read(&mut stream);
        if chunk.is_empty() {
            break;
        }
        if is_echo && stream.write_all(&chunk).is_err() {
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

/// Requests a WebSocket; returns the connection and the head of the response.
fn open(site: &TestSite, path: &str) -> (Connection, String) {
    let mut connection = site.connect();
    connection.write(&websocket(path)).unwrap();
    let head = read_until(&mut connection, b"\r\n\r\n");
    (connection, head)
}

/// Reads up to and including these bytes.
fn read_until(connection: &mut Connection, end: &[u8]) -> String {
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
fn after_a_101_bytes_are_forwarded_in_both_directions() {
    for preset in ["wordpress", "none"] {
        let server = UpgradeServer::start();
        let site = server.site_builder(preset).start();
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
        let sent = server.received_text().to_ascii_lowercase();
        for field in [
            "upgrade: websocket\r\n",
            "connection: upgrade\r\n",
            "sec-websocket-key: dgh",
            "x-forwarded-for: 127.0.0.1\r\n",
        ] {
            assert!(sent.contains(field), "{field} in {sent}");
        }
        // A masked text frame as a browser sends it, then more data than any buffer can hold.
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
        wait_for("the tunnel to be closed", TIMEOUT, || {
            open_tunnels(&site) == 0
        });
    }
}

#[test]
fn the_upstream_can_send_the_first_and_the_last_bytes() {
    let server = UpgradeServer::start();
    let site = server.site_builder("wordpress").start();
    let (mut connection, _) = open(&site, "/ahead");
    assert_eq!(read_until(&mut connection, b"words"), "first words");
    let (mut connection, _) = open(&site, "/end");
    connection.write(b"the first words").unwrap();
    connection.finish_writing().unwrap();
    assert_eq!(connection.read_to_end().unwrap(), b"the last words");
    assert!(server.received_text().ends_with("the first words"));
}

#[test]
fn bytes_after_an_upgrade_request_are_not_forwarded_without_a_101() {
    let server = UpgradeServer::start();
    let site = server.site_builder("wordpress").start();
    let pipelined = format!("GET /smuggled HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
    let all = site.send_raw(&[websocket("/no"), pipelined.into_bytes()].concat());
    let text = String::from_utf8_lossy(&all);
    assert!(
        text.starts_with("HTTP/1.1 200 ") && text.ends_with("plain"),
        "{text}"
    );
    assert_eq!(text.matches("HTTP/1.1").count(), 1, "{text}");
    assert!(!server.received_text().contains("smuggled"));
    // The connection is closed, so later bytes are not forwarded either.
    let mut connection = site.connect();
    connection.write(&websocket("/no")).unwrap();
    let response = connection.receive("GET").unwrap();
    assert_eq!(response.field("connection"), Some("close"));
    assert!(connection.is_closed_within(TIMEOUT));
}

#[test]
fn an_unrequested_or_invalid_101_gives_502() {
    let server = UpgradeServer::start();
    let site = server.site_builder("wordpress").start();
    for request in [
        websocket("/other"),
        websocket("/junk"),
        format!("GET /echo HTTP/1.1\r\nHost: {HOST}\r\n\r\n").into_bytes(),
        // Not valid upgrade requests: `Connection` does not list `Upgrade`, or the request has a body.
        format!("GET /echo HTTP/1.1\r\nHost: {HOST}\r\nUpgrade: websocket\r\n\r\n").into_bytes(),
        format!("POST /echo HTTP/1.1\r\nHost: {HOST}\r\nUpgrade: websocket\r\nConnection: upgrade\r\nContent-Length: 2\r\n\r\nhi").into_bytes(),
    ] {
        let mut connection = site.connect();
        connection.write(&request).unwrap();
        let response = connection.receive("GET").unwrap();
        response.assert_status(502);
        assert!(!response.text().contains("SECRET"));
    }
    assert_eq!(open_tunnels(&site), 0);
}

#[test]
fn other_protocols_are_not_forwarded() {
    let server = UpgradeServer::start();
    let site = server.site_builder("wordpress").start();
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
    assert!(
        !server
            .received_text()
            .to_ascii_lowercase()
            .contains("upgrade")
    );
    let site = server
        .site_builder("wordpress")
        .site("upgrade = []")
        .start();
    let mut connection = site.connect();
    connection.write(&websocket("/plain")).unwrap();
    connection.receive("GET").unwrap().assert_status(200);
    assert!(
        !server
            .received_text()
            .to_ascii_lowercase()
            .contains("upgrade")
    );
}

#[test]
fn php_over_fastcgi_does_not_receive_upgrade_fields() {
    let site = SiteBuilder::php().start();
    let mut connection = site.connect();
    connection.write(&websocket("/page")).unwrap();
    let response = connection.receive("GET").unwrap();
    response.assert_status(200);
    let text = response.text();
    assert_eq!(page_value(&text, "HTTP_SEC_WEBSOCKET_VERSION"), "13");
    assert!(
        !text.contains("HTTP_UPGRADE") && !text.contains("HTTP_CONNECTION"),
        "{text}"
    );
}

#[test]
fn max_upgrades_limits_the_number_of_tunnels() {
    let server = UpgradeServer::start();
    let site = server
        .site_builder("wordpress")
        .server("max_upgrades = 1")
        .start();
    let (first, head) = open(&site, "/echo");
    assert!(head.starts_with("HTTP/1.1 101 "));
    let mut second = site.connect();
    second.write(&websocket("/echo")).unwrap();
    let response = second.receive("GET").unwrap();
    response.assert_status(503);
    assert!(response.field("retry-after").is_some());
    // Other requests are still served, and closing the tunnel frees its slot.
    site.send(Request::get("/plain")).assert_status(200);
    drop(first);
    wait_for("the first tunnel to be closed", TIMEOUT, || {
        open_tunnels(&site) == 0
    });
    let (_third, head) = open(&site, "/echo");
    assert!(head.starts_with("HTTP/1.1 101 "));
}

#[test]
fn an_idle_timeout_and_a_server_stop_close_tunnels() {
    let server = UpgradeServer::start();
    let site = server
        .site_builder("wordpress")
        .server("upgrade_timeout = \"400ms\"")
        .start();
    let (mut connection, _) = open(&site, "/echo");
    assert_eq!(connection.read_to_end().unwrap(), b"");
    site.access_line(" 101 ");
    // A drain timeout longer than the test waits for the server to exit: tunnels must not delay the exit.
    let mut site = server
        .site_builder("wordpress")
        .server("drain_timeout = \"10m\"")
        .start();
    let (mut connection, _) = open(&site, "/echo");
    assert!(site.galley.stop().success());
    assert_eq!(connection.read_to_end().unwrap(), b"");
}
