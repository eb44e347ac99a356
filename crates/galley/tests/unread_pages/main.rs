//! Clients that request large pages and do not read them. What Galley puts together for one client must not multiply the page: stored
//! bytes are shared, and the rest counts against the configured memory.
//!
//! A program of its own, because beside the other attacks responses waited for more than a minute. Each test prints the memory:
//! `cargo test --workspace --test unread_pages -- --nocapture`.

#![expect(clippy::unwrap_used, reason = "tests, their helpers too")]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use galley_testkit::client::frames::kinds::{GOAWAY, HEADERS, RST_STREAM};
use galley_testkit::client::frames::{END_STREAM, Frames, head_frame};
use galley_testkit::client::{Connection, Request, Response};
use galley_testkit::origin::{Gate, Origin, ReceivedRequest, ResponseWriter};
use galley_testkit::{Galley, Scratch, wait_for};
use socket2::{Domain, Socket, Type};

const HOST: &str = "pages.test";
const CART: &str = "woocommerce_items_in_cart=1";
const MB: usize = 1_000_000;

/// The configured memory, in MB, rounded up.
const MEMORY: u64 = 68;

/// What may be used beyond it, in MB.
const BEYOND: u64 = 64;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A site with the fields of the plugin, and with ESI.
struct Site {
    galley: Galley,
    gate: Gate,
    origin: Origin,
    /// The memory of the process before its first request, in MB.
    idle: u64,
    _scratch: Scratch,
}

impl Site {
    fn start() -> Self {
        let scratch = Scratch::new().unwrap();
        let (origin, gate) = Origin::gated(respond).unwrap();
        let config = format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\nh2c = true\nlimit_exempt = [\"127.0.0.1\"]\n[cache]\nmemory = \"64MiB\"\n\
             [[site]]\nhosts = [\"{HOST}\"]\nupstream = [\"{}\"]\npreset = \"wordpress\"\nmembers = \"fragments\"\nesi = true\n",
            origin.url()
        );
        let binary = Path::new(env!("CARGO_BIN_EXE_galley"));
        let galley = Galley::start_binary(binary, &scratch.join("galley"), &config).unwrap();
        let mut site = Self {
            galley,
            gate,
            origin,
            idle: 0,
            _scratch: scratch,
        };
        site.idle = site.megabytes("VmRSS:");
        site
    }

    fn get(&self, path: &str, cookie: &str) -> Response {
        let request = Request::get(path).host(HOST).cookie(cookie);
        let mut connection = Connection::within(self.galley.addr(), TIMEOUT).unwrap();
        connection.exchange(&request).unwrap()
    }

    /// Requests a page until it is assembled from stored bytes and the visitor's own.
    fn warm(&self, path: &str) {
        assert_eq!(self.get(path, "").status, 200);
        wait_for("a page with private fragments", TIMEOUT, || {
            let response = self.get(path, CART);
            response.cache_status().contains("assembled")
        });
    }

    /// Connections that have sent this request and read the first byte of the response.
    fn readers(&self, count: usize, request: impl Fn(usize) -> String) -> Vec<TcpStream> {
        let open = |number| {
            let mut stream = self.connect();
            stream.set_read_timeout(Some(TIMEOUT)).unwrap();
            stream.write_all(request(number).as_bytes()).unwrap();
            stream
        };
        (0..count).map(open).collect()
    }

    /// A connection with a small receive buffer. The kernel would grow it to megabytes, and all TCP connections share a limit of memory.
    fn connect(&self) -> TcpStream {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(64 * 1024).unwrap();
        socket.connect(&self.galley.addr().into()).unwrap();
        socket.into()
    }

    /// The statuses of responses that are not read further.
    fn statuses(readers: &mut [TcpStream]) -> Vec<u16> {
        let status = |stream: &mut TcpStream| {
            let mut head = [0; 12];
            stream.read_exact(&mut head).unwrap();
            let text = String::from_utf8_lossy(&head).into_owned();
            text.rsplit(' ').next().unwrap().parse().unwrap()
        };
        readers.iter_mut().map(status).collect()
    }

    /// A line of `/proc/PID/status`, in MB.
    fn megabytes(&self, line: &str) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.galley.pid())).unwrap();
        let value = text.lines().find_map(|one| one.strip_prefix(line));
        let kilobytes = value.unwrap().split_whitespace().next().unwrap();
        kilobytes.parse::<u64>().unwrap() / 1000
    }

    /// Runs an attack, and checks the highest memory during it.
    fn withstand<T>(&self, what: &str, more: u64, attack: impl FnOnce() -> T) -> T {
        let before = self.megabytes("VmRSS:");
        // Resets the peak.
        fs::write(format!("/proc/{}/clear_refs", self.galley.pid()), "5").unwrap();
        let result = attack();
        let peak = self.megabytes("VmHWM:");
        let idle = self.idle;
        println!("{what}: {before} MB before, {peak} MB at most, {idle} MB without pages");
        // Up to the configured memory, pages may be stored and compressed meanwhile.
        let most = before.max(self.idle + MEMORY) + more;
        assert!(
            peak <= most,
            "{what}: {before} MB, then {peak} MB of {most}; without pages {idle} MB"
        );
        assert!(!self.galley.log().contains("panic"));
        result
    }
}

/// `/page/BYTES` has private fragments, `/stale/BYTES` becomes stale once, `/esi/BYTES/N` has an include that waits at
/// the gate.
fn respond(gate: &Gate, request: &ReceivedRequest, writer: &mut ResponseWriter<'_>) {
    let mut words = request.path().trim_start_matches('/').split('/');
    let kind = words.next().unwrap();
    let bytes = words.next().map_or(0, |word| word.parse().unwrap_or(0));
    let text = "<p>some words of a page</p>\n".repeat(bytes / 28);
    let html = ("content-type", "text/html; charset=utf-8");
    match kind {
        "page" => private_page(request, writer, &text),
        "stale" => {
            if request.number > 0 {
                gate.pass();
            }
            // Only the first one becomes stale: each later generation would be a page of its own in memory.
            let fresh = if request.number > 0 { 600 } else { 1 };
            let lifetime =
                &format!("max-age={fresh}, stale-while-revalidate=0, stale-if-error=1000");
            let fields = [html, ("cache-control", lifetime)];
            writer.respond(200, &fields, format!("<html>{text}</html>").as_bytes());
        }
        "esi" => {
            let control = ("surrogate-control", "content=\"ESI/1.0\"");
            let fields = [html, control, ("cache-control", "max-age=600")];
            let body = format!("<html>{text}<esi:include src=\"/part\"/></html>");
            writer.respond(200, &fields, body.as_bytes());
        }
        "part" => {
            gate.pass();
            writer.respond(200, &[html, ("cache-control", "max-age=600")], b"part");
        }
        _ => {
            writer.respond(404, &[html], b"<html></html>");
        }
    }
}

fn private_page(request: &ReceivedRequest, writer: &mut ResponseWriter<'_>, text: &str) {
    let cookie = request.field("cookie").unwrap_or_default();
    let own = format!("<b>{cookie}</b>");
    let own = if cookie.is_empty() { "" } else { &own };
    let (start, end) = ("<html><body>", "</body></html>");
    let bar = format!("bar {} {} - private-session b", start.len(), own.len());
    let at = start.len() + own.len() + text.len();
    let cart = format!("cart {at} {} - private-page b", own.len());
    let mut fields = vec![
        ("content-type", "text/html; charset=utf-8"),
        ("galley-fragment", &*bar),
        ("galley-fragment", &*cart),
    ];
    if request.field("galley-request") == Some("member") {
        fields.push(("galley-member", "cart"));
    } else {
        fields.push(("galley-cache-control", "max-age=3600"));
        fields.push(("galley-tags", "b"));
    }
    let body = [start, own, text, own, end].concat();
    writer.respond(200, &fields, body.as_bytes());
}

fn get(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {HOST}\r\n{fields}\r\n")
}

#[test]
fn slow_readers_share_the_bytes_of_an_assembled_page() {
    let site = Site::start();
    let page = format!("/page/{}", 8 * MB);
    site.warm(&page);
    site.withstand("200 readers with a cart", BEYOND, || {
        let cookie = format!("Cookie: {CART}\r\n");
        let mut readers = site.readers(200, |_| get(&page, &cookie));
        assert_eq!(Site::statuses(&mut readers), [200; 200]);
    });
    site.withstand("200 readers of several ranges", BEYOND, || {
        let range = "Range: bytes=0-9,20-\r\n";
        let mut readers = site.readers(200, |_| get(&page, range));
        assert_eq!(Site::statuses(&mut readers), [206; 200]);
    });
    let small = format!("/page/{}", 3 * MB / 10);
    site.warm(&small);
    site.withstand("20 HTTP/2 connections with closed windows", BEYOND, || {
        let connections = (0..20).map(|_| with_closed_windows(&site, &small));
        connections.collect::<Vec<_>>()
    });
    assert!(site.get(&page, CART).cache_status().contains("assembled"));
}

/// A connection with a hundred responses for which the client opens no window.
fn with_closed_windows(site: &Site, path: &str) -> Frames {
    let mut frames = Frames::open(site.galley.addr(), &[(4, 0)], TIMEOUT).unwrap();
    let fields = [
        (":method", "GET"),
        (":scheme", "http"),
        (":path", path),
        (":authority", HOST),
        ("cookie", CART),
    ];
    let request = |number: u32| head_frame(2 * number + 1, END_STREAM, &fields);
    let requests: Vec<u8> = (0..100).flat_map(request).collect();
    frames.write(&requests).unwrap();
    let mut responses = 0;
    while responses < 100 {
        match frames.receive().unwrap().kind {
            HEADERS | RST_STREAM => responses += 1,
            GOAWAY => break,
            _ => {}
        }
    }
    frames
}

#[test]
fn pages_that_php_generates_for_slow_visitors_stay_within_the_memory() {
    let site = Site::start();
    let page = format!("/page/{}", 8 * MB);
    site.warm(&page);
    site.withstand("40 sessions", MEMORY + BEYOND, || {
        let cookie = |number| format!("Cookie: wp_woocommerce_session_0a=visitor{number}\r\n");
        let mut readers = site.readers(40, |number| get(&page, &cookie(number)));
        assert_eq!(Site::statuses(&mut readers), [200; 40]);
    });
    assert_eq!(site.get(&page, "").status, 200);
}

#[test]
fn slow_readers_share_a_page_that_replaces_a_stale_one() {
    let site = Site::start();
    let page = format!("/stale/{}", 8 * MB);
    assert_eq!(site.get(&page, "").status, 200);
    let stored = Instant::now();
    // A request would fetch it.
    wait_for("the page to become stale", TIMEOUT, || {
        stored.elapsed() > Duration::from_millis(2_100)
    });
    site.withstand("100 readers of a new page", BEYOND, || {
        let mut readers = site.readers(100, |_| get(&page, ""));
        site.gate.wait_for_arrivals(1);
        site.gate.open();
        assert_eq!(Site::statuses(&mut readers), [200; 100]);
    });
    let requests = site.origin.requests().len();
    assert_eq!(requests, 2, "late readers share the compressed page, too");
}

#[test]
fn pages_that_wait_for_an_include_stay_within_the_memory() {
    for cookie in ["", "wordpress_logged_in_0a=ann"] {
        let site = Site::start();
        let what = format!("60 ESI pages, cookie `{cookie}`");
        let cookie = format!("Cookie: {cookie}\r\n");
        let path = |number| format!("/esi/{}/{number}", 10 * MB);
        let statuses = site.withstand(&what, MEMORY + BEYOND, || {
            let mut readers = site.readers(60, |number| get(&path(number), &cookie));
            wait_for("all pages to be requested", TIMEOUT, || {
                site.origin.requests().len() > 60
            });
            site.gate.open();
            Site::statuses(&mut readers)
        });
        let count = |wanted| statuses.iter().filter(|status| **status == wanted).count();
        println!("{} with 200, {} with 503", count(200), count(503));
        assert!(
            count(200) > 0 && count(200) + count(503) == 60,
            "{statuses:?}"
        );
        // The memory is free again.
        wait_for("the next page", TIMEOUT, || {
            site.get(&path(99), "").status == 200
        });
    }
}
