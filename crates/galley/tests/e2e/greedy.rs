//! Clients that are slow on purpose or keep more than they need: others are served throughout, and those are ended.
//!
//! The crowds are the kit's, from many addresses of the machine, and slowhttptest itself. `make slow` runs the same with 4,000
//! connections from 200 addresses (`GALLEY_SLOW`).

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use galley_testkit::client::{Connection, Request};
use galley_testkit::slow::{Attack, Crowd};
use galley_testkit::wait_for;

use crate::support::{
    AssertStatus, HOST, SiteBuilder, TIMEOUT, TestSite, json_number, random_bytes, with_host,
};

/// Connections, and the addresses that they come from.
fn size() -> (usize, usize) {
    let wanted = std::env::var("GALLEY_SLOW").ok();
    let count = wanted.and_then(|text| text.parse().ok()).unwrap_or(480);
    (count, 200.min(count / 8))
}

fn plan(server: &str) -> SiteBuilder {
    SiteBuilder::php()
        .server(server)
        .file("small.txt", "small")
        .file("large.bin", random_bytes(8 << 20))
}

/// One more client, who is served whatever the others do: by a file and by PHP.
fn others_are_served(site: &TestSite) {
    site.get("/small.txt").assert_status(200);
    site.get("/page/").assert_status(200);
}

fn open_connections(site: &TestSite) -> u64 {
    json_number(&site.status(), "connections")
}

#[test]
fn others_are_served_while_thousands_are_slow_on_purpose() {
    let (count, addresses) = size();
    let timeouts = "head_timeout = \"2s\"\nbody_timeout = \"2s\"\nwrite_timeout = \"2s\"\nidle_timeout = \"4s\"\nlimit_exempt = []";
    let site = plan(timeouts).start();
    let mut crowds: Vec<Crowd> = Attack::ALL
        .iter()
        .map(|(attack, _)| {
            let target = if *attack == Attack::Body {
                "/form"
            } else {
                "/large.bin"
            };
            let place = (site.addr(), HOST, target);
            Crowd::gather(*attack, place, (count / 4, addresses)).unwrap()
        })
        .collect();
    wait_for("all slow clients to be ended", TIMEOUT * 4, || {
        others_are_served(&site);
        for crowd in &mut crowds {
            crowd.tick();
        }
        open_connections(&site) < 10
    });
    assert_eq!(site.runs("/form"), 0, "half a body is nobody's request");
    site.access_line("outcome=refused:timeout");
}

#[test]
fn slowhttptest_finds_the_service_available() {
    let (count, _) = size();
    let site = plan("head_timeout = \"3s\"\nbody_timeout = \"3s\"\nwrite_timeout = \"3s\"").start();
    let url = |target: &str| format!("http://{}{target}", site.addr());
    let (each, rate) = ((count / 4).to_string(), (count / 4).to_string());
    let mut running: Vec<_> = Attack::ALL
        .iter()
        .map(|(attack, option)| {
            let target = if *attack == Attack::Body {
                "/form"
            } else {
                "/large.bin"
            };
            let mut command = Command::new("slowhttptest");
            command
                .args([
                    option, "-c", &each, "-r", &rate, "-l", "6", "-i", "1", "-p", "10",
                ])
                .args(["-u", &url(target)])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    // It names the machine's address as host, which is no site here: that is answered too, and other clients are served.
    wait_for("slowhttptest to end", TIMEOUT * 4, || {
        others_are_served(&site);
        running
            .iter_mut()
            .all(|child| child.try_wait().unwrap().is_some())
    });
    for child in running {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("service available"), "{said}");
        let plain: String = said.chars().filter(|c| !c.is_whitespace()).collect();
        assert!(!plain.contains("serviceavailable:NO"), "{said}");
    }
}

/// A stage of one core with room for so few connections.
fn narrow(more: &str) -> TestSite {
    plan(&format!(
        "workers = 1\nmax_connections = 64\nidle_timeout = \"1h\"\nhead_timeout = \"1h\"\n{more}"
    ))
    .start()
}

fn gave_way(site: &TestSite) -> u64 {
    let socket = format!("{}/galley/admin.sock", site.scratch.path().display());
    let output = Command::new("curl")
        .args(["-s", "--unix-socket", &socket, "http://galley/metrics"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let name = "galley_connections_closed_total{why=\"gave-way\"} ";
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
}

#[test]
fn connections_that_ask_nothing_give_way_to_new_ones() {
    let site = narrow("");
    let mut oldest = site.connect();
    oldest
        .exchange(&with_host(Request::get("/small.txt")))
        .unwrap()
        .assert_status(200);
    let _held: Vec<Connection> = (0..200)
        .map(|_| {
            let mut connection = site.connect();
            let answer = connection.exchange(&with_host(Request::get("/small.txt")));
            answer.unwrap().assert_status(200);
            connection
        })
        .collect();
    assert!(
        oldest.is_closed_within(TIMEOUT),
        "who has waited longest goes first"
    );
    assert!(gave_way(&site) >= 137, "{}", gave_way(&site));
}

#[test]
fn heads_that_do_not_end_give_way_where_nobody_is_idle() {
    let site = narrow("");
    let place = (site.addr(), HOST, "/large.bin");
    let mut crowd = Crowd::gather(Attack::Headers, place, (200, 40)).unwrap();
    for _ in 0..5 {
        site.get("/small.txt").assert_status(200);
        crowd.tick();
    }
    assert!(gave_way(&site) > 0);
}

#[test]
fn what_is_being_answered_does_not_give_way() {
    let site = narrow("");
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
fn a_body_that_drips_is_ended_and_a_slow_line_is_not() {
    // The window is short, so that a test may see several; the rate is what a machine under load keeps up easily.
    let site = plan("body_timeout = \"1s\"\nmin_rate = \"400B\"").start();
    let head = format!("POST /form HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 60000\r\n\r\n");
    let (mut drip, mut line) = (site.connect(), site.connect());
    for connection in [&mut drip, &mut line] {
        connection.write(head.as_bytes()).unwrap();
    }
    let mut sent = 0;
    let began = Instant::now();
    // Far above the rate, and still over several windows.
    while sent < 60_000 {
        let _ = drip.write(b"x");
        let due = usize::try_from(began.elapsed().as_millis()).unwrap() * 15;
        if due > sent {
            let count = (due - sent).min(60_000 - sent);
            line.write(&vec![b'y'; count]).unwrap();
            sent += count;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    line.receive("POST").unwrap().assert_status(200);
    // Told so, and reset: the second may overtake the first.
    let told = drip.receive("POST");
    assert!(told.is_err() || told.is_ok_and(|answer| answer.status == 408));
    site.access_line("outcome=refused:timeout");
    assert_eq!(site.runs("/form"), 1);
}
