//! Slow HTTP attacks and idle connections: other clients are served throughout, and the slow connections are closed.
//!
//! The attacks come from [`SlowClients`], with many client addresses, and from slowhttptest. `make slow` runs the same with 4,000
//! connections from 200 addresses (`GALLEY_SLOW`).

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use galley_testkit::client::{Connection, Request};
use galley_testkit::slow::{SlowAttack, SlowClients};
use galley_testkit::wait_for;

use crate::support::{
    AssertStatus, HOST, SiteBuilder, TIMEOUT, TestSite, json_number, random_bytes, with_host,
};

/// Number of connections and of their client addresses.
fn attack_size() -> (usize, usize) {
    let count = std::env::var("GALLEY_SLOW").ok();
    let count = count.and_then(|text| text.parse().ok()).unwrap_or(480);
    (count, 200.min(count / 8))
}

fn builder(server: &str) -> SiteBuilder {
    SiteBuilder::php()
        .server(server)
        .file("small.txt", "small")
        .file("large.bin", random_bytes(8 << 20))
}

/// Requests a file and a page of PHP as another client.
fn assert_others_are_served(site: &TestSite) {
    site.get("/small.txt").assert_status(200);
    site.get("/page/").assert_status(200);
}

fn attack_path(attack: SlowAttack) -> &'static str {
    match attack {
        SlowAttack::Body => "/form",
        SlowAttack::Headers | SlowAttack::Read | SlowAttack::Range => "/large.bin",
    }
}

fn open_connections(site: &TestSite) -> u64 {
    json_number(&site.status(), "connections")
}

#[test]
fn other_clients_are_served_during_slow_attacks() {
    let (count, addresses) = attack_size();
    let timeouts = "head_timeout = \"2s\"\nbody_timeout = \"2s\"\nwrite_timeout = \"2s\"\nidle_timeout = \"4s\"\nlimit_exempt = []";
    let site = builder(timeouts).start();
    let mut attacks: Vec<SlowClients> = SlowAttack::ALL
        .iter()
        .map(|(attack, _)| {
            let target = (site.addr(), HOST, attack_path(*attack));
            SlowClients::connect(*attack, target, (count / 4, addresses)).unwrap()
        })
        .collect();
    wait_for("all slow connections to be closed", TIMEOUT * 4, || {
        assert_others_are_served(&site);
        for clients in &mut attacks {
            clients.tick();
        }
        open_connections(&site) < 10
    });
    assert_eq!(
        site.runs("/form"),
        0,
        "PHP ran without the complete request body"
    );
    site.access_line("outcome=refused:timeout");
}

#[test]
fn slowhttptest_reports_that_the_service_is_available() {
    let (count, _) = attack_size();
    let site =
        builder("head_timeout = \"3s\"\nbody_timeout = \"3s\"\nwrite_timeout = \"3s\"").start();
    let url = |target: &str| format!("http://{}{target}", site.addr());
    let (each, rate) = ((count / 4).to_string(), (count / 4).to_string());
    let mut running: Vec<_> = SlowAttack::ALL
        .iter()
        .map(|(attack, option)| {
            let mut command = Command::new("slowhttptest");
            command
                .args([
                    option, "-c", &each, "-r", &rate, "-l", "6", "-i", "1", "-p", "10",
                ])
                .args(["-u", &url(attack_path(*attack))])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    // It sends the address as `Host`, which is not a site here; it gets responses all the same.
    wait_for("slowhttptest to end", TIMEOUT * 4, || {
        assert_others_are_served(&site);
        running
            .iter_mut()
            .all(|child| child.try_wait().unwrap().is_some())
    });
    for child in running {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("service available"), "{text}");
        let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        assert!(!compact.contains("serviceavailable:NO"), "{text}");
    }
}

/// Starts a site with one front thread and at most 64 connections, which do not time out.
fn site_with_few_connections() -> TestSite {
    builder("workers = 1\nmax_connections = 64\nidle_timeout = \"1h\"\nhead_timeout = \"1h\"\n")
        .start()
}

fn connections_closed_for_new_ones(site: &TestSite) -> u64 {
    let text = site.metrics();
    let name = "galley_connections_closed_total{why=\"gave-way\"} ";
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
}

#[test]
fn the_oldest_idle_connections_are_closed_for_new_ones() {
    let site = site_with_few_connections();
    let mut oldest = site.connect();
    oldest
        .exchange(&with_host(Request::get("/small.txt")))
        .unwrap()
        .assert_status(200);
    let _idle: Vec<Connection> = (0..200)
        .map(|_| {
            let mut connection = site.connect();
            let response = connection.exchange(&with_host(Request::get("/small.txt")));
            response.unwrap().assert_status(200);
            connection
        })
        .collect();
    assert!(
        oldest.is_closed_within(TIMEOUT),
        "the connection that was idle longest stayed open"
    );
    let closed = connections_closed_for_new_ones(&site);
    assert!(closed >= 137, "{closed}");
}

#[test]
fn connections_with_unfinished_heads_are_closed_for_new_ones() {
    let site = site_with_few_connections();
    let target = (site.addr(), HOST, "/large.bin");
    let mut clients = SlowClients::connect(SlowAttack::Headers, target, (200, 40)).unwrap();
    for _ in 0..5 {
        site.get("/small.txt").assert_status(200);
        clients.tick();
    }
    assert!(connections_closed_for_new_ones(&site) > 0);
}

#[test]
fn a_connection_with_a_request_in_progress_stays_open() {
    let site = site_with_few_connections();
    site.hold("/slow/");
    let mut busy = site.start_request("/slow/");
    site.wait_until_held("/slow/");
    for _ in 0..200 {
        let mut connection = site.connect();
        connection
            .send(&with_host(Request::get("/small.txt")))
            .unwrap();
        connection.receive("GET").unwrap().assert_status(200);
    }
    site.release("/slow/");
    busy.receive("GET").unwrap().assert_status(200);
}

#[test]
fn a_body_below_min_rate_is_rejected_and_a_slow_one_is_not() {
    // The window is short, so that the upload takes several. A machine under load still achieves the rate easily.
    let site = builder("body_timeout = \"1s\"\nmin_rate = \"400B\"").start();
    let head = format!("POST /form HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 60000\r\n\r\n");
    let (mut below_rate, mut slow) = (site.connect(), site.connect());
    for connection in [&mut below_rate, &mut slow] {
        connection.write(head.as_bytes()).unwrap();
    }
    let mut sent = 0;
    let started = Instant::now();
    // 15 kB/s, far above the rate, so that the upload still takes several windows.
    while sent < 60_000 {
        let _ = below_rate.write(b"x");
        let due = usize::try_from(started.elapsed().as_millis()).unwrap() * 15;
        if due > sent {
            let count = (due - sent).min(60_000 - sent);
            slow.write(&vec![b'y'; count]).unwrap();
            sent += count;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    slow.receive("POST").unwrap().assert_status(200);
    // The reset of the connection may arrive before the response.
    let rejected = below_rate.receive("POST");
    assert!(rejected.is_err() || rejected.is_ok_and(|response| response.status == 408));
    site.access_line("outcome=refused:timeout");
    assert_eq!(site.runs("/form"), 1);
}
