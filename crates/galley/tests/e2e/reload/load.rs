//! Reloads under load: no request fails over HTTP/1, TLS and HTTP/2, on persistent and on new connections.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use galley_testkit::client::{Connection, Request};
use galley_testkit::wait_for;

use super::{config, reload};
use crate::http2::client::Client;
use crate::support::{AssertStatus, HOST, SiteBuilder, TIMEOUT, TestSite, with_host};
use crate::tls_support::{Authority, Tls, over_tls, tls_addr};

/// Counters of the clients of a test.
#[derive(Default)]
struct LoadClients {
    is_over: AtomicBool,
    responses: AtomicUsize,
    connections: AtomicUsize,
}

/// The state of the connection after a request, or the error.
type ExchangeResult = Result<ConnectionState, String>;

/// The state of a connection after a request.
#[derive(Clone, Copy)]
enum ConnectionState {
    /// The connection can be reused.
    Open,
    /// The connection is closed.
    Closed,
    /// The server was closing the connection, and no request was sent.
    NotSent,
}

impl LoadClients {
    /// Sends requests until the test is over; reuses the connection as long as the server keeps it open.
    fn send_repeatedly<C>(
        &self,
        kind: &str,
        open: impl Fn() -> Result<C, String>,
        send: impl Fn(&mut C) -> ExchangeResult,
    ) {
        let mut connection = None;
        while !self.is_over.load(Ordering::Relaxed) {
            let mut current = connection.take().unwrap_or_else(|| {
                self.connections.fetch_add(1, Ordering::Relaxed);
                open().unwrap_or_else(|error| panic!("{kind}: connect: {error}"))
            });
            match send(&mut current) {
                Ok(ConnectionState::Open) => connection = Some(current),
                Ok(ConnectionState::Closed) => {}
                Ok(ConnectionState::NotSent) => continue,
                Err(error) => panic!("{kind}: {error}"),
            }
            self.responses.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Sends a request over a stream and reads the response by its `Content-Length`.
fn exchange(stream: &mut (impl Read + Write)) -> ExchangeResult {
    let request = format!("GET /cached/ HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
    let text = |error: io::Error| error.to_string();
    stream.write_all(request.as_bytes()).map_err(text)?;
    stream.flush().map_err(text)?;
    let mut input = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let head = input.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = head {
            let head = String::from_utf8_lossy(&input[..end]).to_ascii_lowercase();
            let length = head.split("content-length: ").nth(1).ok_or(head.clone())?;
            let length: usize = length.lines().next().unwrap().trim().parse().unwrap();
            if input.len() >= end + 4 + length {
                let is_ok = head.starts_with("http/1.1 200 ");
                let is_last = head.contains("connection: close");
                let state = if is_last {
                    ConnectionState::Closed
                } else {
                    ConnectionState::Open
                };
                return if is_ok { Ok(state) } else { Err(head) };
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) => return Err(format!("closed after {} bytes", input.len())),
            Ok(count) => input.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Sends a request over HTTP/2.
fn exchange_http2(client: &mut Client) -> ExchangeResult {
    match client.try_send(&Request::get("/cached/")) {
        Ok(response) if response.status == 200 => Ok(ConnectionState::Open),
        Ok(response) => Err(response.excerpt()),
        // The server was closing the connection before the request was sent.
        Err(error) if error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR) => {
            Ok(ConnectionState::NotSent)
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Runs `work` while six clients request `/cached/` over different protocols. None of their requests may fail. Returns the numbers
/// of responses and of connections.
pub(super) fn under_load(
    site: &TestSite,
    authority: &Authority,
    work: impl FnOnce(),
) -> (usize, usize) {
    let clients = LoadClients::default();
    let (plain, secure) = (site.addr(), tls_addr(site));
    let trusted = authority.client();
    let tls = || Tls::connect(&trusted, HOST, secure).map_err(|error| error.to_string());
    let tcp = |at: SocketAddr| {
        let stream = TcpStream::connect(at).map_err(|error| error.to_string())?;
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Ok(stream)
    };
    std::thread::scope(|scope| {
        // Stops the clients even if `work` panics.
        struct StopOnDrop<'c>(&'c LoadClients);
        impl Drop for StopOnDrop<'_> {
            fn drop(&mut self) {
                self.0.is_over.store(true, Ordering::Relaxed);
            }
        }
        let stop = StopOnDrop(&clients);
        scope.spawn(|| clients.send_repeatedly("persistent", || tcp(plain), exchange));
        scope.spawn(|| {
            clients.send_repeatedly(
                "new",
                || tcp(plain),
                |c| exchange(c).map(|_| ConnectionState::Closed),
            );
        });
        scope.spawn(|| clients.send_repeatedly("persistent over TLS", tls, |c| exchange(&mut c.0)));
        scope.spawn(|| {
            clients.send_repeatedly("new over TLS", tls, |c| {
                exchange(&mut c.0).map(|_| ConnectionState::Closed)
            });
        });
        scope.spawn(|| {
            clients.send_repeatedly("HTTP/2", || Ok(Client::open(plain)), exchange_http2);
        });
        scope.spawn(|| {
            let open = || Ok(Client::open_tls(secure, &trusted));
            clients.send_repeatedly("HTTP/2 over TLS", open, exchange_http2);
        });
        work();
        drop(stop);
    });
    let responses = clients.responses.load(Ordering::Relaxed);
    (responses, clients.connections.load(Ordering::Relaxed))
}

/// A site with the cacheable page `/cached/`.
pub(super) fn page() -> SiteBuilder {
    let head = "Content-Type: text/html\nCache-Control: max-age=3600";
    let builder = SiteBuilder::php().server("h2c = true");
    builder.scratch.write("notes/head_cached_", head).unwrap();
    builder.file("a.txt", "a")
}

#[test]
fn sites_are_added_and_removed_under_load_and_no_request_fails() {
    reloads_under_load(20);
}

/// `make upgrades`.
#[test]
#[ignore = "takes minutes: the short form runs each time"]
fn five_hundred_reloads_under_load_fail_no_request() {
    reloads_under_load(500);
}

fn reloads_under_load(reloads: usize) {
    let authority = Authority::new();
    let site = over_tls(page(), &authority).start();
    site.get("/cached/").assert_status(200);
    let stored = Instant::now();
    let before = config(&site);
    let root = site.scratch.join("root");
    let more = format!(
        "[[site]]\nhosts = [\"other.test\"]\nroot = \"{}\"\ncron = \"off\"\n",
        root.display()
    );
    let other = Request::get("/a.txt").host("other.test");
    let (responses, connections) = under_load(&site, &authority, || {
        for number in 0..reloads {
            let is_added = number % 2 == 0;
            // Inserted before the existing site, whose index therefore changes each time.
            let (head, tail) = before.split_once("[[site]]").unwrap();
            let with_other = format!("{head}{more}[[site]]{tail}");
            let output = reload(&site, if is_added { &with_other } else { &before });
            let change = if is_added { "added" } else { "removed" };
            assert!(
                output.contains(&format!("site `other.test`: {change}")),
                "{output}"
            );
            let status = other.clone().send(site.addr()).unwrap().status;
            assert_eq!(status == 200, is_added, "{status} after reload {number}");
        }
    });
    assert!(
        responses > reloads && connections > reloads,
        "{responses} responses, {connections} connections"
    );
    let page = site.get("/cached/").expect_status(200);
    assert!(page.is_hit(), "{}", page.excerpt());
    let age = Duration::from_secs(page.age().unwrap() + 2);
    assert!(age >= stored.elapsed(), "{age:?} of {:?}", stored.elapsed());
    // Generated once for each scheme.
    assert_eq!(site.runs("/cached/"), 2);
    // The counter includes all generations. A response is counted shortly after it was sent.
    wait_for("all requests to be counted", TIMEOUT, || {
        site.status_number("requests") >= responses as u64
    });
}

/// Waits until this many connections are accepted. The kernel reports an idle new connection only after a second.
fn wait_for_connections(site: &TestSite, connections: u64) {
    wait_for("the idle connection", TIMEOUT, || {
        site.status_number("connections") == connections
    });
}

#[test]
fn existing_connections_get_one_more_response_with_connection_close() {
    let site = page().start();
    site.get("/cached/").assert_status(200);
    let (mut used, mut idle) = (site.connect(), site.connect());
    used.exchange(&with_host(Request::get("/cached/")))
        .unwrap()
        .assert_status(200);
    site.hold("/slow/");
    let mut slow = site.start_request("/slow/");
    site.wait_until_held("/slow/");
    wait_for_connections(&site, 3);
    reload(&site, &config(&site));
    for connection in [&mut used, &mut idle] {
        let response = connection
            .exchange(&with_host(Request::get("/cached/")))
            .unwrap();
        assert_eq!(
            response.expect_status(200).field("connection"),
            Some("close")
        );
    }
    site.release("/slow/");
    slow.receive("GET").unwrap().assert_status(200);
    let mut new = site.connect();
    for _ in 0..2 {
        new.exchange(&with_host(Request::get("/cached/")))
            .unwrap()
            .assert_status(200);
    }
}

#[test]
fn a_purge_acknowledged_during_a_reload_is_final() {
    for builder in [page(), page().disk()] {
        let site = builder.workers(4).start();
        // A fetch of the former generation that starts before the purge and ends after it.
        site.hold("/cached/");
        let mut early = site.start_request("/cached/");
        site.wait_until_held("/cached/");
        reload(&site, &config(&site));
        site.purge(&["--all"]);
        site.release("/cached/");
        early.receive("GET").unwrap().assert_status(200);
        let now = site.get("/cached/").expect_status(200);
        assert!(!now.is_hit(), "{}", now.excerpt());
        assert!(now.text().contains("run=2\n"), "{}", now.text());
        // A purge received on a connection of the former generation also applies to the new one.
        let mut former = site.connect();
        former
            .exchange(&with_host(Request::get("/cached/")))
            .unwrap()
            .assert_status(200);
        reload(&site, &config(&site));
        assert!(site.get("/cached/").is_hit());
        let purge = with_host(Request::new("PURGE", "/cached/"));
        former.exchange(&purge).unwrap().assert_status(200);
        assert!(
            site.get("/cached/")
                .expect_status(200)
                .text()
                .contains("run=3\n")
        );
    }
}

#[test]
fn no_purged_page_is_served_during_repeated_reloads() {
    for builder in [page(), page().disk()] {
        let site = builder.workers(4).start();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reloads = scope.spawn(|| {
                for _ in 0..10 {
                    reload(&site, &config(&site));
                }
                is_over.store(true, Ordering::Relaxed);
            });
            // Purges over a persistent connection, page requests over new ones.
            let mut connection = site.connect();
            while !is_over.load(Ordering::Relaxed) && !reloads.is_finished() {
                let purge = with_host(Request::new("PURGE", "/cached/"));
                let purged = connection.exchange(&purge).unwrap().expect_status(200);
                let before = site.runs("/cached/");
                let run = |text: &str| {
                    let number = text.split("run=").nth(1).unwrap().lines().next().unwrap();
                    number.parse::<usize>().unwrap()
                };
                let new = run(&site.get("/cached/").expect_status(200).text());
                assert!(
                    new > before,
                    "run {new} was served after run {before} was purged"
                );
                if purged.field("connection") == Some("close") {
                    connection = site.connect();
                }
            }
        });
    }
}

#[test]
fn memory_and_descriptors_do_not_grow_with_reloads() {
    let site = page().server("drain_timeout = \"2s\"").start();
    site.get("/cached/").assert_status(200);
    let pid = site.galley.pid();
    let descriptors = || fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let threads = || fs::read_dir(format!("/proc/{pid}/task")).unwrap().count();
    let resident = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .unwrap();
        line.split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<usize>()
            .unwrap()
    };
    let rounds = |count: usize| {
        for _ in 0..count {
            reload(&site, &config(&site));
            site.get("/cached/").assert_status(200);
        }
    };
    let (first_descriptors, first_threads) = (descriptors(), threads());
    let settle = || {
        wait_for("the former generations to end", TIMEOUT, || {
            threads() <= first_threads && descriptors() <= first_descriptors + 4
        });
    };
    rounds(25);
    settle();
    let first = resident();
    rounds(50);
    settle();
    let grown = resident().saturating_sub(first);
    assert!(
        grown < 8 * 1024,
        "{grown} KiB after 50 reloads, from {first}"
    );
}

#[test]
fn a_reload_does_not_abort_responses_in_progress() {
    let drain = Duration::from_millis(400);
    let builder = page().server("drain_timeout = \"400ms\"");
    let site = builder.workers(10).start();
    let start_paused = |target: &str| {
        site.pause(target);
        let connection = site.start_request(target);
        site.wait_until_paused(target);
        connection
    };
    let mut long = start_paused("/long/");
    let mut idle = site.connect();
    wait_for_connections(&site, 2);
    let started = Instant::now();
    reload(&site, &config(&site));
    assert!(idle.is_closed_within(TIMEOUT));
    wait_for("four drain timeouts", TIMEOUT, || {
        started.elapsed() > 4 * drain
    });
    site.resume("/long/");
    let response = long.receive("GET").unwrap().expect_status(200);
    assert!(
        response.text().ends_with("</html>\n"),
        "{}",
        response.text()
    );
    // With this many active generations, the oldest is limited to `drain_timeout`.
    let mut connections: Vec<Connection> = Vec::new();
    for number in 0..6 {
        connections.push(start_paused(&format!("/long{number}/")));
        reload(&site, &config(&site));
    }
    assert!(
        connections[0].receive("GET").is_err(),
        "the oldest response was not aborted"
    );
    site.resume("/long5/");
    connections[5].receive("GET").unwrap().assert_status(200);
}

#[test]
fn a_websocket_survives_a_reload() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = listener.local_addr().unwrap();
    let site = SiteBuilder::upstream_line(&format!("upstream = [\"http://{upstream}\"]"))
        .site("preset = \"none\"\nupgrade = [\"websocket\"]")
        .start();
    let echo = std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        let mut input = Vec::new();
        let mut stream = listener.accept().unwrap().0;
        while !input.ends_with(b"\r\n\r\n") {
            let count = stream.read(&mut buffer).unwrap();
            input.extend_from_slice(&buffer[..count]);
            if count == 0 {
                // Galley has only tried whether the upstream can be reached.
                stream = listener.accept().unwrap().0;
            }
        }
        let switch =
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
        stream.write_all(switch.as_bytes()).unwrap();
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            stream.write_all(&buffer[..count]).unwrap();
        }
    });
    let mut connection = Connection::within(site.addr(), TIMEOUT).unwrap();
    let request = Request::get("/chat")
        .field("Connection", "Upgrade")
        .field("Upgrade", "websocket");
    let switched = connection.exchange(&with_host(request)).unwrap();
    assert_eq!(switched.status, 101);
    reload(&site, &config(&site));
    let mut stream = connection.stream();
    for message in [b"one", b"two"] {
        stream.write_all(message).unwrap();
        let mut echoed = [0; 3];
        stream.read_exact(&mut echoed).unwrap();
        assert_eq!(&echoed, message);
    }
    drop(connection);
    echo.join().unwrap();
}
