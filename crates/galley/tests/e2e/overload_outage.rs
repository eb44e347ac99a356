//! An upstream that is away, and the connections that it is spared.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use galley_testkit::client::Request;
use galley_testkit::origin::{Origin, ReceivedRequest, ResponseWriter};
use galley_testkit::{Apache, ApacheOptions, Galley, wait_for};

use crate::support::{
    AssertStatus, HOST, SiteBuilder, TEST_PAGE, TIMEOUT, TestSite, binary, page_value,
    run_concurrently, with_host,
};

/// Asks until the circuit breaker opens.
fn wait_for_pause(stage: &TestSite) {
    wait_for("the circuit breaker to open", TIMEOUT, || {
        let answer = stage.get("/never-seen");
        assert!(
            [502, 503].contains(&answer.status),
            "{}",
            answer.beginning()
        );
        answer.cache_status() == "galley; detail=upstream-paused"
    });
}

fn lines_with(text: &str, words: &str) -> usize {
    text.lines().filter(|line| line.contains(words)).count()
}

/// The metrics, from the admin socket.
pub fn metrics(stage: &TestSite) -> String {
    let admin = stage.galley.admin().unwrap();
    let mut socket = UnixStream::connect(admin.trim_start_matches("unix:")).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nHost: galley\r\nConnection: close\r\n\r\n";
    socket.write_all(request).unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    text
}

fn metric(stage: &TestSite, name: &str) -> String {
    let text = metrics(stage);
    let line = text
        .lines()
        .find(|line| line.starts_with(&format!("{name}{{")));
    let value = line.and_then(|line| line.rsplit(' ').next());
    value.unwrap_or_default().to_owned()
}

#[test]
fn a_dead_php_is_left_alone_and_asked_again_by_one() {
    let mut stage = SiteBuilder::php()
        .more("[site.ttl]\ndefault = \"1s\"\nstale_while_revalidate = \"0s\"\nstale_if_error = \"1h\"\n")
        .start();
    let kept = stage.get("/kept").expect_status(200);
    stage.wait_until_stale("/kept");
    stage.fpm.as_mut().unwrap().kill();
    stage.get("/never-seen").assert_status(502);
    wait_for_pause(&stage);
    // A stale page where there is one; to all others, when to come back. A request that tries PHP may be among them.
    let stale = stage.get("/kept").expect_status(200);
    assert_eq!(stale.body, kept.body);
    assert!(stale.cache_status().ends_with("; detail=upstream-error"));
    let answers = run_concurrently(50, |n| stage.get(&format!("/other/{n}")));
    let paused = answers.iter().filter(|answer| answer.status == 503);
    let mut count = 0;
    for answer in paused {
        let wait: u32 = answer.field("retry-after").unwrap().parse().unwrap();
        assert!((1..=8).contains(&wait), "{wait}");
        count += 1;
    }
    assert!(count >= 45, "{count} of 50");
    for asked in ["status", "why"] {
        let said = match asked {
            "status" => stage.status(),
            _ => stage.why("/never-seen"),
        };
        assert!(said.contains("\"state\":\"paused\""), "{asked}: {said}");
    }
    let text = stage.galley.cli(&["status"]).unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("and is tried now and then"), "{text}");
    assert_eq!(metric(&stage, "galley_upstream_paused"), "1");
    assert_eq!(metric(&stage, "galley_upstream_pauses_total"), "1");
    let log = stage.galley.log();
    assert_eq!(lines_with(&log, "the circuit breaker is open"), 1, "{log}");

    stage.fpm.as_mut().unwrap().restart().unwrap();
    wait_for("an answer", TIMEOUT, || {
        stage.get("/never-seen").status == 200
    });
    // It is not run over: two at a time to begin with, one more with each answer.
    assert_eq!(stage.status_number("slots"), 2);
    for number in 0..4 {
        stage.get(&format!("/again/{number}")).assert_status(200);
    }
    assert_eq!(stage.status_number("slots"), 6);
    for number in 4..40 {
        stage.get(&format!("/again/{number}")).assert_status(200);
    }
    assert_eq!(stage.status_number("slots"), 20);
    assert_eq!(metric(&stage, "galley_upstream_paused"), "0");
    let log = stage.galley.log();
    assert_eq!(lines_with(&log, "the upstream responds again"), 1, "{log}");
    assert_eq!(lines_with(&log, "the circuit breaker is open"), 1, "{log}");
}

#[test]
fn a_php_that_hangs_is_left_alone_too() {
    let stage = SiteBuilder::php()
        .workers(1)
        .site("first_byte_timeout = \"200ms\"\nlock_age = \"1m\"\nin_flight = 4")
        .start();
    stage.hold("/hangs");
    let mut answers = Vec::new();
    wait_for("the circuit breaker to open", TIMEOUT, || {
        let number = answers.len();
        let asked = Request::form("/hangs", &[("n", &number.to_string())]);
        answers.push(stage.send(asked).status);
        answers.last() == Some(&503)
    });
    let timeouts = answers.iter().filter(|status| **status == 504).count();
    assert_eq!(timeouts, 5, "{answers:?}");
    stage.release("/hangs");
    stage.unhold("/hangs");
    wait_for("an answer", TIMEOUT, || stage.get("/page").status == 200);
}

#[test]
fn one_dead_server_of_two_is_passed_over_and_nobody_waits_for_it() {
    let origin = Origin::start(|seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
        writer.answer(200, &[], seen.path().as_bytes());
    })
    .unwrap();
    // Nobody listens on port 1.
    let line = format!(
        "upstream = [\"http://127.0.0.1:1\", \"{}\"]\nidle_share = 0",
        origin.url()
    );
    let stage = SiteBuilder::upstream_line(&line).start();
    for number in 0..30 {
        let path = format!("/page/{number}");
        assert_eq!(stage.get(&path).expect_status(200).text(), path);
    }
    let status = stage.status();
    assert_eq!(
        status.matches("\"state\":\"paused\"").count(),
        1,
        "{status}"
    );
    assert_eq!(status.matches("\"state\":\"up\"").count(), 1, "{status}");
    assert_eq!(
        stage.status_number("slots"),
        20,
        "the other one is as good as ever"
    );
}

/// Connections of this machine to a port that stand, by their client's end.
fn standing(port: u16) -> usize {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let peer = format!("0100007F:{port:04X}");
    let is_one = |line: &&str| {
        let mut columns = line.split_whitespace().skip(2);
        columns.next() == Some(peer.as_str()) && columns.next() == Some("01")
    };
    table.lines().filter(is_one).count()
}

fn behind_apache(lines: &str) -> (TestSite, Apache) {
    let plan = SiteBuilder::files();
    plan.scratch.write("web/index.php", TEST_PAGE).unwrap();
    let rewrite =
        "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule . /index.php [L]\n";
    plan.scratch.write("web/.htaccess", rewrite).unwrap();
    let options = ApacheOptions {
        max_request_workers: 8,
        keep_alive_timeout_s: 3600,
        ..ApacheOptions::default()
    };
    let dir = plan.scratch.join("apache");
    let apache = Apache::start(&dir, &plan.scratch.join("web"), &options).unwrap();
    let (scratch, fpm, config) = plan.prepare();
    // Two sites on one Apache.
    let url = apache.url();
    let site = |host: &str| {
        format!("[[site]]\nhosts = [\"{host}\"]\nupstream = [\"{url}\"]\nin_flight = 8\n{lines}\n")
    };
    let (server, _) = config.split_once("[[site]]").unwrap();
    let config = format!("{server}{}{}", site(HOST), site("second.test"));
    let galley = Galley::start_binary(binary(), &scratch.join("galley"), &config).unwrap();
    let stage = TestSite {
        galley,
        fpm,
        scratch,
    };
    (stage, apache)
}

/// Four requests at the same time for each of two sites: as many connections as Apache has children.
fn all_children(stage: &TestSite, round: usize) {
    let page = format!("/page{round}");
    stage.hold(&page);
    std::thread::scope(|scope| {
        let asked: Vec<_> = (0..8)
            .map(|number| {
                let host = if number % 2 == 0 { HOST } else { "second.test" };
                let form = Request::form(&page, &[("n", &number.to_string())]);
                scope.spawn(move || stage.send(form.host(host)).status)
            })
            .collect();
        wait_for("all of them at Apache", TIMEOUT, || {
            let status = stage.status();
            let upstream = status.split("\"upstream\":").last().unwrap_or_default();
            crate::support::json_number(upstream, "in_flight") == 8
        });
        wait_for("all of them in PHP", TIMEOUT, || stage.runs(&page) == 8);
        stage.release(&page);
        for one in asked {
            assert_eq!(one.join().unwrap(), 200);
        }
    });
}

#[test]
fn idle_connections_leave_apaches_children_to_others() {
    let (stage, apache) = behind_apache("idle_age = \"30m\"");
    for round in 0..3 {
        all_children(&stage, round);
        // A quarter of eight, of both sites together; Apache itself would keep all of them for an hour.
        wait_for("the others to be closed", TIMEOUT, || {
            standing(apache.addr().port()) <= 2
        });
    }
    // A client that asks Apache directly gets the other six, all at once.
    stage.hold("/direct");
    std::thread::scope(|scope| {
        let asked: Vec<_> = (0..6)
            .map(|_| {
                let direct = with_host(Request::get("/direct"));
                let addr = apache.addr();
                scope.spawn(move || direct.send(addr).unwrap().text())
            })
            .collect();
        wait_for("six in PHP at once", TIMEOUT, || stage.runs("/direct") == 6);
        stage.release("/direct");
        for one in asked {
            assert_eq!(page_value(&one.join().unwrap(), "path"), "/direct");
        }
    });
    // What is kept is used: the next request makes no connection of its own.
    let kept = standing(apache.addr().port());
    for number in 0..10 {
        stage.get(&format!("/again/{number}")).assert_status(200);
    }
    assert!(standing(apache.addr().port()) <= kept.max(1));
}

#[test]
fn idle_connections_are_closed_when_nobody_needs_them() {
    let (stage, apache) = behind_apache("idle_age = \"100ms\"\nidle_share = 100");
    all_children(&stage, 0);
    wait_for("all of them to be closed", TIMEOUT, || {
        standing(apache.addr().port()) == 0
    });
    assert_eq!(stage.status_number("idle_connections"), 0);
    stage.get("/page").assert_status(200);
}
