//! Reloads under load: clients of HTTP/1, TLS and HTTP/2 that keep their connections or open new ones lose no request.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use galley_testkit::client::{Connection, Request};
use galley_testkit::wait_for;

use super::{config, reloaded};
use crate::http2::client::Client;
use crate::support::{AssertStatus, HOST, SiteBuilder, TIMEOUT, TestSite, with_host};
use crate::tls_support::{Authority, Tls, over_tls, tls_addr};

/// What the clients of a test came to.
#[derive(Default)]
struct Clients {
    is_over: AtomicBool,
    answered: AtomicUsize,
    reconnected: AtomicUsize,
}

/// What became of a connection, or why the request failed.
type Exchanged = Result<AfterRequest, String>;

/// What became of a connection.
#[derive(Clone, Copy)]
enum AfterRequest {
    /// It may be used again.
    Kept,
    /// It is closed.
    Closed,
    /// The server was ending it, and nothing was requested.
    NotRequested,
}

impl Clients {
    /// Asks until the test is over, on one connection as long as the server keeps it.
    fn keep_asking<C>(
        &self,
        kind: &str,
        open: impl Fn() -> Result<C, String>,
        send: impl Fn(&mut C) -> Exchanged,
    ) {
        let mut connection = None;
        while !self.is_over.load(Ordering::Relaxed) {
            let mut used = connection.take().unwrap_or_else(|| {
                self.reconnected.fetch_add(1, Ordering::Relaxed);
                open().unwrap_or_else(|error| panic!("{kind}: connect: {error}"))
            });
            match send(&mut used) {
                Ok(AfterRequest::Kept) => connection = Some(used),
                Ok(AfterRequest::Closed) => {}
                Ok(AfterRequest::NotRequested) => continue,
                Err(error) => panic!("{kind}: {error}"),
            }
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// One request over a stream, read by its length.
fn exchange(stream: &mut (impl Read + Write)) -> Exchanged {
    let request = format!("GET /kept/ HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
    let text = |error: io::Error| error.to_string();
    stream.write_all(request.as_bytes()).map_err(text)?;
    stream.flush().map_err(text)?;
    let mut input = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let head = input.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = head {
            let head = String::from_utf8_lossy(&input[..end]).to_ascii_lowercase();
            let length = head.split("content-length: ").nth(1).ok_or(head.clone())?;
            let length: usize = length.lines().next().unwrap().trim().parse().unwrap();
            if input.len() >= end + 4 + length {
                let is_fine = head.starts_with("http/1.1 200 ");
                let is_last = head.contains("connection: close");
                let after = if is_last {
                    AfterRequest::Closed
                } else {
                    AfterRequest::Kept
                };
                return if is_fine { Ok(after) } else { Err(head) };
            }
        }
        match stream.read(&mut piece) {
            Ok(0) => return Err(format!("closed after {} bytes", input.len())),
            Ok(count) => input.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// One request over HTTP/2.
fn ask_http2(client: &mut Client) -> Exchanged {
    match client.try_send(&Request::get("/kept/")) {
        Ok(response) if response.status == 200 => Ok(AfterRequest::Kept),
        Ok(response) => Err(response.beginning()),
        // Nothing was asked on a connection that the server is ending.
        Err(error) if error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR) => {
            Ok(AfterRequest::NotRequested)
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Runs `work` while six kinds of clients ask for `/kept/`; none of their requests may fail.
pub(super) fn under_load(
    stage: &TestSite,
    authority: &Authority,
    work: impl FnOnce(),
) -> (usize, usize) {
    let clients = Clients::default();
    let (plain, secure) = (stage.addr(), tls_addr(stage));
    let trusted = authority.client();
    let tls = || Tls::connect(&trusted, HOST, secure).map_err(|error| error.to_string());
    let tcp = |at: SocketAddr| {
        let stream = TcpStream::connect(at).map_err(|error| error.to_string())?;
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Ok(stream)
    };
    std::thread::scope(|scope| {
        // Also where `work` panics.
        struct Over<'c>(&'c Clients);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.is_over.store(true, Ordering::Relaxed);
            }
        }
        let over = Over(&clients);
        scope.spawn(|| clients.keep_asking("kept", || tcp(plain), exchange));
        scope.spawn(|| {
            clients.keep_asking(
                "new",
                || tcp(plain),
                |c| exchange(c).map(|_| AfterRequest::Closed),
            );
        });
        scope.spawn(|| clients.keep_asking("kept over TLS", tls, |c| exchange(&mut c.0)));
        scope.spawn(|| {
            clients.keep_asking("new over TLS", tls, |c| {
                exchange(&mut c.0).map(|_| AfterRequest::Closed)
            });
        });
        scope.spawn(|| {
            clients.keep_asking("HTTP/2", || Ok(Client::open(plain)), ask_http2);
        });
        scope.spawn(|| {
            let open = || Ok(Client::open_tls(secure, &trusted));
            clients.keep_asking("HTTP/2 over TLS", open, ask_http2);
        });
        work();
        drop(over);
    });
    let answered = clients.answered.load(Ordering::Relaxed);
    (answered, clients.reconnected.load(Ordering::Relaxed))
}

pub(super) fn page() -> SiteBuilder {
    let head = "Content-Type: text/html\nCache-Control: max-age=3600";
    let plan = SiteBuilder::php().server("h2c = true");
    plan.scratch.write("notes/head_kept_", head).unwrap();
    plan.file("a.txt", "a")
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
    let stage = over_tls(page(), &authority).start();
    stage.get("/kept/").assert_status(200);
    let stored = Instant::now();
    let before = config(&stage);
    let root = stage.scratch.join("root");
    let more = format!(
        "[[site]]\nhosts = [\"other.test\"]\nroot = \"{}\"\ncron = \"off\"\n",
        root.display()
    );
    let other = Request::get("/a.txt").host("other.test");
    let (answered, reconnected) = under_load(&stage, &authority, || {
        for number in 0..reloads {
            let is_added = number % 2 == 0;
            // In front of the other site, which so has another place each time.
            let (head, site) = before.split_once("[[site]]").unwrap();
            let with = format!("{head}{more}[[site]]{site}");
            let said = reloaded(&stage, if is_added { &with } else { &before });
            let done = if is_added { "added" } else { "removed" };
            assert!(
                said.contains(&format!("site `other.test`: {done}")),
                "{said}"
            );
            let status = other.clone().send(stage.addr()).unwrap().status;
            assert_eq!(status == 200, is_added, "{status} after reload {number}");
        }
    });
    assert!(
        answered > reloads && reconnected > reloads,
        "{answered} {reconnected}"
    );
    let kept = stage.get("/kept/").expect_status(200);
    assert!(kept.is_hit(), "{}", kept.beginning());
    let age = Duration::from_secs(kept.age().unwrap() + 2);
    assert!(age >= stored.elapsed(), "{age:?} of {:?}", stored.elapsed());
    // Once for each scheme.
    assert_eq!(stage.runs("/kept/"), 2);
    // All generations are counted: each answer, a moment after it was sent, and those of this test.
    wait_for("all requests to be counted", TIMEOUT, || {
        stage.status_number("requests") >= answered as u64
    });
}

/// Waits until so many connections are accepted: the kernel reports a silent one after a second.
fn accepts(stage: &TestSite, connections: u64) {
    wait_for("the silent connection", TIMEOUT, || {
        stage.status_number("connections") == connections
    });
}

#[test]
fn connections_of_before_get_their_next_response_and_then_the_end() {
    let stage = page().start();
    stage.get("/kept/").assert_status(200);
    let (mut used, mut silent) = (stage.connect(), stage.connect());
    used.exchange(&with_host(Request::get("/kept/")))
        .unwrap()
        .assert_status(200);
    stage.hold("/slow/");
    let mut slow = stage.start_request("/slow/");
    stage.wait_until_held("/slow/");
    accepts(&stage, 3);
    reloaded(&stage, &config(&stage));
    for connection in [&mut used, &mut silent] {
        let response = connection
            .exchange(&with_host(Request::get("/kept/")))
            .unwrap();
        assert_eq!(
            response.expect_status(200).field("connection"),
            Some("close")
        );
    }
    stage.release("/slow/");
    slow.receive("GET").unwrap().assert_status(200);
    let mut new = stage.connect();
    for _ in 0..2 {
        new.exchange(&with_host(Request::get("/kept/")))
            .unwrap()
            .assert_status(200);
    }
}

#[test]
fn a_purge_that_is_acknowledged_during_a_reload_is_final() {
    for plan in [page(), page().disk()] {
        let stage = plan.workers(4).start();
        // A run that begins before the purge ends after it, in the generation before.
        stage.hold("/kept/");
        let mut early = stage.start_request("/kept/");
        stage.wait_until_held("/kept/");
        reloaded(&stage, &config(&stage));
        stage.purge(&["--all"]);
        stage.release("/kept/");
        early.receive("GET").unwrap().assert_status(200);
        let now = stage.get("/kept/").expect_status(200);
        assert!(!now.is_hit(), "{}", now.beginning());
        assert!(now.text().contains("run=2\n"), "{}", now.text());
        // One that comes from a connection of the generation before counts for the next.
        let mut before = stage.connect();
        before
            .exchange(&with_host(Request::get("/kept/")))
            .unwrap()
            .assert_status(200);
        reloaded(&stage, &config(&stage));
        assert!(stage.get("/kept/").is_hit());
        let purge = with_host(Request::new("PURGE", "/kept/"));
        before.exchange(&purge).unwrap().assert_status(200);
        assert!(
            stage
                .get("/kept/")
                .expect_status(200)
                .text()
                .contains("run=3\n")
        );
    }
}

#[test]
fn pages_after_purges_are_new_while_reloads_go_on() {
    for plan in [page(), page().disk()] {
        let stage = plan.workers(4).start();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reloads = scope.spawn(|| {
                for _ in 0..10 {
                    reloaded(&stage, &config(&stage));
                }
                is_over.store(true, Ordering::Relaxed);
            });
            // Both a connection that outlives generations and new ones.
            let mut kept = stage.connect();
            while !is_over.load(Ordering::Relaxed) && !reloads.is_finished() {
                let purge = with_host(Request::new("PURGE", "/kept/"));
                let purged = kept.exchange(&purge).unwrap().expect_status(200);
                let before = stage.runs("/kept/");
                let run = |text: &str| {
                    let number = text.split("run=").nth(1).unwrap().lines().next().unwrap();
                    number.parse::<usize>().unwrap()
                };
                let new = run(&stage.get("/kept/").expect_status(200).text());
                assert!(new > before, "run {new} after {before} were purged");
                if purged.field("connection") == Some("close") {
                    kept = stage.connect();
                }
            }
        });
    }
}

#[test]
fn memory_and_descriptors_are_flat_after_many_reloads() {
    let stage = page().server("drain_timeout = \"2s\"").start();
    stage.get("/kept/").assert_status(200);
    let pid = stage.galley.pid();
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
            reloaded(&stage, &config(&stage));
            stage.get("/kept/").assert_status(200);
        }
    };
    let (first_descriptors, first_threads) = (descriptors(), threads());
    let settle = || {
        wait_for("the generations before to end", TIMEOUT, || {
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
fn a_response_takes_as_long_as_it_takes_whatever_is_reloaded() {
    let drain = Duration::from_millis(400);
    let plan = page().server("drain_timeout = \"400ms\"");
    let stage = plan.workers(10).start();
    let begin = |target: &str| {
        stage.pause(target);
        let connection = stage.start_request(target);
        stage.wait_until_paused(target);
        connection
    };
    let mut long = begin("/long/");
    let mut idle = stage.connect();
    accepts(&stage, 2);
    let began = Instant::now();
    reloaded(&stage, &config(&stage));
    assert!(idle.is_closed_within(TIMEOUT));
    wait_for("the drain time-out", TIMEOUT, || {
        began.elapsed() > 4 * drain
    });
    stage.resume("/long/");
    let whole = long.receive("GET").unwrap().expect_status(200);
    assert!(whole.text().ends_with("</html>\n"), "{}", whole.text());
    // Where so many generations have something to do, the oldest gets no more than `drain_timeout`.
    let mut all: Vec<Connection> = Vec::new();
    for number in 0..6 {
        all.push(begin(&format!("/long{number}/")));
        reloaded(&stage, &config(&stage));
    }
    assert!(all[0].receive("GET").is_err(), "it was cut off");
    stage.resume("/long5/");
    all[5].receive("GET").unwrap().assert_status(200);
}

#[test]
fn a_tunnel_outlives_a_reload() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = listener.local_addr().unwrap();
    let stage = SiteBuilder::upstream_line(&format!("upstream = [\"http://{upstream}\"]"))
        .site("preset = \"none\"\nupgrade = [\"websocket\"]")
        .start();
    let echo = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut piece = [0; 4096];
        let mut input = Vec::new();
        while !input.ends_with(b"\r\n\r\n") {
            let count = stream.read(&mut piece).unwrap();
            input.extend_from_slice(&piece[..count]);
        }
        let switch =
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
        stream.write_all(switch.as_bytes()).unwrap();
        while let Ok(count @ 1..) = stream.read(&mut piece) {
            stream.write_all(&piece[..count]).unwrap();
        }
    });
    let mut connection = Connection::within(stage.addr(), TIMEOUT).unwrap();
    let request = Request::get("/chat")
        .field("Connection", "Upgrade")
        .field("Upgrade", "websocket");
    let switched = connection.exchange(&with_host(request)).unwrap();
    assert_eq!(switched.status, 101);
    reloaded(&stage, &config(&stage));
    let mut stream = connection.stream();
    for word in [b"one", b"two"] {
        stream.write_all(word).unwrap();
        let mut back = [0; 3];
        stream.read_exact(&mut back).unwrap();
        assert_eq!(&back, word);
    }
    drop(connection);
    echo.join().unwrap();
}
