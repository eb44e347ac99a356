//! Clients that send many requests and do not read the responses: Galley limits the memory for them and closes their connections.
//!
//! Each case is one kind of connection, opened many times from one address. `GALLEY_UNREAD` sets the number of connections (250 for the
//! figures in the manual). The test prints the measurements.

use std::fs;
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use galley_testkit::client::frames::kinds::{GOAWAY, HEADERS, RST_STREAM};
use galley_testkit::client::frames::{
    END_HEADERS, END_STREAM, Frames, PREFACE, block, bytes_of, settings_frame,
};
use rustls::{ClientConnection, StreamOwned};

use crate::http2::frames::get;
use crate::support::{HOST, SiteBuilder, TIMEOUT, TestSite, json_number};
use crate::tls_support::{Authority, Tls, over_tls, tls_addr};

/// An open connection that is not read.
type UnreadConnection = Box<dyn Send>;

/// A kind of connection.
struct Case {
    name: &'static str,
    open: fn(&TestSite, &Authority) -> UnreadConnection,
    /// The highest acceptable memory for one connection in bytes, in addition to [`FIXED`].
    max: u64,
}

const CASES: &[Case] = &[
    Case {
        name: "HTTP/2, window 0",
        open: |site, _| Box::new(with_closed_windows(site, &requests(100))),
        max: 300_000,
    },
    Case {
        name: "HTTP/2, window 0, 800 cookies each",
        open: |site, _| Box::new(with_closed_windows(site, &hpack_bombs())),
        max: 300_000,
    },
    Case {
        name: "HTTP/2, nothing read",
        open: |site, _| Box::new(send_unread(site.addr(), &h2_requests())),
        max: 250_000,
    },
    Case {
        name: "HTTP/2 over TLS, nothing read",
        open: |site, authority| Box::new(send_unread_tls(site, authority, b"h2", &h2_requests())),
        max: 300_000,
    },
    Case {
        name: "HTTP/1.1 pipeline",
        open: |site, _| Box::new(send_unread(site.addr(), &pipeline())),
        max: 100_000,
    },
    Case {
        name: "HTTP/1.1 pipeline over TLS",
        open: |site, authority| {
            Box::new(send_unread_tls(site, authority, b"http/1.1", &pipeline()))
        },
        max: 250_000,
    },
];

/// Memory that a process takes under its first load, for blocking threads and in its allocator: 8 to 30 MB, more on a busier machine.
const FIXED: u64 = 40_000_000;

/// Number of connections of each case.
fn connection_count() -> u64 {
    let count = std::env::var("GALLEY_UNREAD").ok();
    count.and_then(|text| text.parse().ok()).unwrap_or(100)
}

#[test]
fn clients_that_do_not_read_take_little_memory_and_are_disconnected() {
    let count = connection_count();
    let mut problems = Vec::new();
    for case in CASES {
        let authority = Authority::new();
        let page = "<?php header('Content-Type: text/html'); echo str_repeat('a page ', 5000);";
        let builder = SiteBuilder::php().file("index.php", page).server(
            "h2c = true\nworkers = 2\nwrite_timeout = \"3s\"\nidle_timeout = \"5s\"\nhead_timeout = \"10m\"",
        );
        let site = over_tls(builder, &authority).start();
        site.get("/page/");
        assert!(site.get("/page/").is_hit());
        let before = resident_memory(&site);
        let mut peak = before;
        let mut clients = Vec::new();
        for _ in 0..count {
            clients.push((case.open)(&site, &authority));
            peak = peak.max(resident_memory(&site));
        }
        let connected = connections(&site);
        let deadline = Instant::now() + TIMEOUT;
        while connections(&site) > 1 && Instant::now() < deadline {
            peak = peak.max(resident_memory(&site));
            std::thread::yield_now();
        }
        let (after, left) = (resident_memory(&site), connections(&site) - 1);
        let each = (peak - before) / count;
        let mb = |bytes: u64| bytes / 1_000_000;
        eprintln!(
            "{}: {count} connections ({connected} open at once), {} MB before, {} MB at most ({each} bytes each), {} MB and {left} connections after",
            case.name,
            mb(before),
            mb(peak),
            mb(after)
        );
        assert!(site.get("/page/").is_hit());
        if left > 0 {
            problems.push(format!("{}: {left} connections stayed open", case.name));
        }
        if peak - before > FIXED + count * case.max {
            problems.push(format!("{}: {each} bytes per connection", case.name));
        }
        drop(clients);
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

/// Resident memory of the server in bytes.
fn resident_memory(site: &TestSite) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/status", site.galley.pid())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line
        .and_then(|line| line.split_whitespace().next())
        .unwrap();
    kib.parse::<u64>().unwrap() * 1024
}

fn connections(site: &TestSite) -> u64 {
    json_number(&site.status(), "connections").max(1)
}

/// Sends a hundred requests on a connection with closed stream windows; returns when each has got a response head or a reset, or after
/// a GOAWAY.
fn with_closed_windows(site: &TestSite, requests: &[u8]) -> Frames {
    let no_window = [(4, 0)];
    let mut frames = Frames::open(site.addr(), &no_window, TIMEOUT).unwrap();
    frames.write(requests).unwrap();
    let mut responses = 0;
    while responses < 100 {
        let frame = frames.receive().unwrap();
        match frame.kind {
            HEADERS | RST_STREAM => responses += 1,
            GOAWAY => break,
            _ => {}
        }
    }
    frames
}

/// A hundred request heads of a kilobyte that HPACK expands a hundredfold: each cookie is one byte, the index of a table entry.
fn hpack_bombs() -> Vec<u8> {
    let request = |number: u32| {
        let fields = [
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/page/"),
            (":authority", HOST),
        ];
        let table_entry = b"\x40\x06cookie\x01a";
        let head = [block(&fields), table_entry.to_vec(), vec![0xbe; 800]].concat();
        bytes_of(HEADERS, END_STREAM | END_HEADERS, 2 * number + 1, &head)
    };
    (0..100).flat_map(request).collect()
}

/// Requests on `count` streams.
fn requests(count: u32) -> Vec<u8> {
    (0..count)
        .flat_map(|number| get(2 * number + 1, "/page/"))
        .collect()
}

/// A preface that opens all windows, and 800 requests.
fn h2_requests() -> Vec<u8> {
    let settings = settings_frame(&[(4, 0x7fff_ffff)]);
    let window_update = bytes_of(8, 0, 0, &0x7000_0000_u32.to_be_bytes());
    [PREFACE, &settings, &window_update, &requests(800)].concat()
}

fn pipeline() -> Vec<u8> {
    format!("GET /page/ HTTP/1.1\r\nHost: {HOST}\r\n\r\n")
        .repeat(800)
        .into_bytes()
}

/// Sends as much as the server accepts and reads nothing.
fn send_unread(addr: SocketAddr, mut rest: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_nonblocking(true).unwrap();
    while !rest.is_empty() {
        match stream.write(rest) {
            Ok(count) => rest = &rest[count..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    stream
}

/// The same over TLS.
fn send_unread_tls(
    site: &TestSite,
    authority: &Authority,
    protocol: &[u8],
    bytes: &[u8],
) -> StreamOwned<ClientConnection, TcpStream> {
    let mut config = rustls::ClientConfig::clone(&authority.client());
    config.alpn_protocols = vec![protocol.to_vec()];
    let Tls(mut tls) = Tls::connect(&Arc::new(config), HOST, tls_addr(site)).unwrap();
    tls.sock.set_nonblocking(true).unwrap();
    let StreamOwned { conn, sock } = &mut tls;
    let mut rest = bytes;
    while !rest.is_empty() {
        let Ok(count @ 1..) = conn.writer().write(rest) else {
            break;
        };
        rest = &rest[count..];
        while conn.wants_write() && conn.write_tls(sock).is_ok() {}
    }
    tls
}
