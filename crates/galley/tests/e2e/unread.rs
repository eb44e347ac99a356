//! Clients that ask for much and read nothing: what they make Galley hold has a bound in bytes, and their connections end.
//!
//! Each case is one kind of connection, opened many times from one address; `GALLEY_UNREAD` sets how many (250 for the figures
//! in the manual). The table that a run prints is the measurement.

use std::fs;
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use galley_testkit::client::frames::kinds::{GOAWAY, HEADERS, RST_STREAM};
use galley_testkit::client::frames::{
    END_HEADERS, END_STREAM, Frames, PREFACE, block, bytes_of, settings_frame,
};
use rustls::{ClientConnection, StreamOwned};

use crate::http2::frames::get;
use crate::support::{HOST, SiteBuilder, TIMEOUT, TestSite, json_number};
use crate::tls_support::{Authority, Tls, over_tls, tls_addr};

/// A connection that stays open and is not read.
type Unread = Box<dyn Send>;

/// One attack.
struct Case {
    name: &'static str,
    open: fn(&TestSite, &Authority) -> Unread,
    /// Bytes that one connection may add to the process at most, beside [`FIXED`].
    most: u64,
}

const CASES: &[Case] = &[
    Case {
        name: "HTTP/2, window 0",
        open: |site, _| Box::new(windows_closed(site)),
        most: 300_000,
    },
    Case {
        name: "HTTP/2, window 0, 800 cookies each",
        open: |site, _| Box::new(asked(site, &bombs())),
        most: 300_000,
    },
    Case {
        name: "HTTP/2, nothing read",
        open: |site, _| Box::new(pour(site.addr(), &h2_requests())),
        most: 250_000,
    },
    Case {
        name: "HTTP/2 over TLS, nothing read",
        open: |site, authority| Box::new(pour_tls(site, authority, b"h2", &h2_requests())),
        most: 300_000,
    },
    Case {
        name: "HTTP/1.1 pipeline",
        open: |site, _| Box::new(pour(site.addr(), &pipeline())),
        most: 100_000,
    },
    Case {
        name: "HTTP/1.1 pipeline over TLS",
        open: |site, authority| Box::new(pour_tls(site, authority, b"http/1.1", &pipeline())),
        most: 250_000,
    },
];

/// What a process grows by when it is first busy, with threads that look for files and what its allocator keeps: 8 to 30 MB, the
/// more the busier the machine is.
const FIXED: u64 = 40_000_000;

/// Connections of each case.
fn count() -> u64 {
    let wanted = std::env::var("GALLEY_UNREAD").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(100)
}

#[test]
fn clients_that_read_nothing_hold_little_memory_and_are_ended() {
    let count = count();
    let mut complaints = Vec::new();
    for case in CASES {
        let authority = Authority::new();
        let page = "<?php header('Content-Type: text/html'); echo str_repeat('a page ', 5000);";
        let plan = SiteBuilder::php().file("index.php", page).server(
            "h2c = true\nworkers = 2\nwrite_timeout = \"3s\"\nidle_timeout = \"5s\"\nhead_timeout = \"10m\"",
        );
        let site = over_tls(plan, &authority).start();
        site.get("/page/");
        assert!(site.get("/page/").is_hit());
        let before = resident(&site);
        let mut peak = before;
        let mut held = Vec::new();
        for _ in 0..count {
            held.push((case.open)(&site, &authority));
            peak = peak.max(resident(&site));
        }
        let connected = connections(&site);
        let ended = std::time::Instant::now() + TIMEOUT;
        while connections(&site) > 1 && std::time::Instant::now() < ended {
            peak = peak.max(resident(&site));
            std::thread::yield_now();
        }
        let (after, left) = (resident(&site), connections(&site) - 1);
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
            complaints.push(format!("{}: {left} connections stay", case.name));
        }
        if peak - before > FIXED + count * case.most {
            complaints.push(format!("{}: {each} bytes for each connection", case.name));
        }
        drop(held);
    }
    assert!(complaints.is_empty(), "{complaints:#?}");
}

/// Bytes of the process in memory.
fn resident(site: &TestSite) -> u64 {
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

/// A hundred streams of which each has its head or is refused, and no window for a byte of a body.
fn windows_closed(site: &TestSite) -> Frames {
    asked(site, &streams(100).collect::<Vec<u8>>())
}

/// A hundred requests on a connection whose windows are shut; each is answered with a head, or refused, or they are ended.
fn asked(site: &TestSite, requests: &[u8]) -> Frames {
    let closed = [(4, 0)];
    let mut frames = Frames::open(site.addr(), &closed, TIMEOUT).unwrap();
    frames.write(requests).unwrap();
    let mut answered = 0;
    while answered < 100 {
        let frame = frames.receive().unwrap();
        match frame.kind {
            HEADERS | RST_STREAM => answered += 1,
            GOAWAY => break,
            _ => {}
        }
    }
    frames
}

/// A hundred heads of a kilobyte which grow a hundredfold: each cookie is one byte, the number of the field in the table.
fn bombs() -> Vec<u8> {
    let one = |number: u32| {
        let fields = [
            ":method",
            "GET",
            ":scheme",
            "http",
            ":path",
            "/page/",
            ":authority",
            HOST,
        ];
        let pairs: Vec<(&str, &str)> = fields.chunks(2).map(|pair| (pair[0], pair[1])).collect();
        let crumb = b"\x40\x06cookie\x01a";
        let head = [block(&pairs), crumb.to_vec(), vec![0xbe; 800]].concat();
        bytes_of(HEADERS, END_STREAM | END_HEADERS, 2 * number + 1, &head)
    };
    (0..100).flat_map(one).collect()
}

fn streams(count: u32) -> impl Iterator<Item = u8> {
    (0..count).flat_map(|number| get(2 * number + 1, "/page/"))
}

/// A greeting that opens all windows, and as many requests as there may be.
fn h2_requests() -> Vec<u8> {
    let wide = settings_frame(&[(4, 0x7fff_ffff)]);
    let connection = bytes_of(8, 0, 0, &0x7000_0000_u32.to_be_bytes());
    let greeting = [PREFACE, &wide, &connection].concat();
    greeting.into_iter().chain(streams(800)).collect()
}

fn pipeline() -> Vec<u8> {
    format!("GET /page/ HTTP/1.1\r\nHost: {HOST}\r\n\r\n")
        .repeat(800)
        .into_bytes()
}

/// Sends what the server takes, and reads nothing.
fn pour(addr: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_nonblocking(true).unwrap();
    pour_into(&mut stream, bytes);
    stream
}

fn pour_tls(
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
        let Ok(taken @ 1..) = conn.writer().write(rest) else {
            break;
        };
        rest = &rest[taken..];
        while conn.wants_write() && conn.write_tls(sock).is_ok() {}
    }
    tls
}

fn pour_into(stream: &mut TcpStream, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(taken) => bytes = &bytes[taken..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) => panic!("{error}"),
        }
    }
}
