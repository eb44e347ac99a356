//! The server process: commands and their exit codes, start, drain and stop, signals, few descriptors, connection limit, status.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use galley_testkit::client::{Connection, Request};
use galley_testkit::{Galley, Scratch, Signal, wait_for};

use crate::support::{
    AssertStatus, HOST, SHORT_TIMEOUT, SiteBuilder, TIMEOUT, TestSite, binary, json_number,
    output_text, run_concurrently, with_host,
};

fn galley(arguments: &[&str]) -> Output {
    // Ends a server that starts although it should not.
    Command::new("timeout")
        .arg("20")
        .arg(binary())
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn check_reports_configuration_errors() {
    let scratch = Scratch::new().unwrap();
    let root = scratch.dir("root").unwrap();
    let good = scratch
        .write(
            "good.toml",
            format!(
                "[server]\nlisten = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"a.test\"]\nroot = \"{}\"\n",
                root.display()
            ),
        )
        .unwrap();
    let bad = scratch.write("bad.toml", "[server]\nlisen = [\"x\"]\n[[site]]\nhosts = [\"a b\"]\nroot = \"/nowhere\"\nin_flight = -1\n").unwrap();
    let broken = scratch.write("broken.toml", "[server\n").unwrap();
    let path = |path: &std::path::Path| path.display().to_string();
    let valid = galley(&["check", "--config", &path(&good)]);
    assert_eq!(valid.status.code(), Some(0), "{}", output_text(&valid));
    assert!(text(&valid.stdout).contains("a.test"));
    let json = galley(&["check", "--json", "--config", &path(&good)]);
    assert!(
        json.status.success() && text(&json.stdout).contains("\"ok\":true"),
        "{}",
        output_text(&json)
    );
    let invalid = galley(&["check", "--config", &path(&bad)]);
    assert_eq!(invalid.status.code(), Some(2), "{}", output_text(&invalid));
    assert!(invalid.stdout.is_empty());
    let errors = text(&invalid.stderr);
    for word in [
        "lisen",
        "listen",
        "a b",
        "/nowhere",
        "in_flight",
        "bad.toml",
    ] {
        assert!(errors.contains(word), "`{word}` is not in\n{errors}");
    }
    let json = galley(&["check", "--json", "--config", &path(&bad)]);
    assert_eq!(json.status.code(), Some(2));
    let json = text(&json.stdout);
    assert!(
        json.contains("\"errors\":[")
            && json.contains("\"ok\":false")
            && json.contains("\"line\":2")
            && json.contains("lisen"),
        "{json}"
    );
    for file in [
        path(&broken),
        path(&scratch.join("missing.toml")),
        path(&root),
    ] {
        for command in ["check", "run", "purge", "status"] {
            let rest: &[&str] = if command == "purge" { &["--all"] } else { &[] };
            let output = galley(&[&[command, "--config", &file], rest].concat());
            assert_eq!(
                output.status.code(),
                Some(2),
                "{command} {file}: {}",
                output_text(&output)
            );
            assert!(!output.stderr.is_empty() && output.stdout.is_empty());
        }
    }
    let output = galley(&["run", "--config", &path(&bad)]);
    assert_eq!(output.status.code(), Some(2));
    for usage in [&["fly"][..], &["run", "--nothing"], &["purge"], &[]] {
        assert_eq!(galley(usage).status.code(), Some(2), "{usage:?}");
    }
    let version = galley(&["--version"]);
    assert!(version.status.success() && text(&version.stdout).starts_with("galley "));
}

#[test]
fn a_port_in_use_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let builder = SiteBuilder::files().server(&format!("listen = [\"{address}\"]"));
    let (scratch, _, config) = builder.prepare();
    let file = scratch.write("galley.toml", config).unwrap();
    let output = galley(&["run", "--config", &file.display().to_string()]);
    assert_eq!(output.status.code(), Some(1), "{}", output_text(&output));
    let errors = text(&output.stderr);
    assert!(
        errors.contains(&address) && errors.to_lowercase().contains("in use"),
        "{errors}"
    );
}

#[test]
fn a_second_server_does_not_share_the_port() {
    let site = SiteBuilder::files().file("a.txt", "first").start();
    let address = site.addr().to_string();
    let (scratch, _, config) = SiteBuilder::files()
        .file("a.txt", "second")
        .server(&format!("listen = [\"{address}\"]"))
        .prepare();
    let file = scratch.write("galley.toml", config).unwrap();
    let output = galley(&["run", "--config", &file.display().to_string()]);
    assert_eq!(
        output.status.code(),
        Some(1),
        "two servers share one port: {}",
        output_text(&output)
    );
    assert!(
        text(&output.stderr).contains(&address),
        "{}",
        output_text(&output)
    );
}

#[test]
fn a_stopped_server_frees_its_port_and_removes_its_socket() {
    let mut site = SiteBuilder::files().file("a.txt", "a").start();
    site.get("/a.txt").assert_status(200);
    let open = site.connect();
    let address = site.addr().to_string();
    let started = Instant::now();
    assert_eq!(site.galley.stop().code(), Some(0));
    // No request is in progress, so the server does not wait for `drain_timeout`.
    assert!(started.elapsed() < SHORT_TIMEOUT, "{:?}", started.elapsed());
    assert!(!site.scratch.join("galley/admin.sock").exists());
    drop(open);
    let again = SiteBuilder::files()
        .file("a.txt", "again")
        .server(&format!("listen = [\"{address}\"]"))
        .start();
    assert_eq!(again.get("/a.txt").expect_status(200).text(), "again");
}

#[test]
fn requests_in_progress_are_finished_before_the_server_stops() {
    let mut site = SiteBuilder::php()
        .workers(2)
        .server("drain_timeout = \"10m\"")
        .start();
    site.get("/warm").assert_status(200);
    site.hold("/slow");
    site.pause("/half");
    let addr = site.addr();
    let slow = std::thread::spawn(move || {
        with_host(Request::form("/slow", &[("a", "b")]))
            .send(addr)
            .unwrap()
    });
    let half = std::thread::spawn(move || with_host(Request::get("/half")).send(addr).unwrap());
    site.wait_until_held("/slow");
    site.wait_until_paused("/half");
    let mut idle = site.connect();
    let mut used = site.connect();
    used.exchange(&with_host(Request::get("/warm")))
        .unwrap()
        .assert_status(200);
    // The kernel reports a connection without a request after a second.
    wait_for("the idle connection to be accepted", TIMEOUT, || {
        json_number(&site.status(), "connections") == 4
    });
    site.galley.signal(Signal::TERM);
    let started = Instant::now();
    assert!(
        idle.is_closed_within(TIMEOUT) && used.is_closed_within(TIMEOUT),
        "idle connections stayed open"
    );
    wait_for("new connections to be refused", TIMEOUT, || {
        TcpStream::connect(addr).is_err()
    });
    assert!(
        !site.galley.has_ended(),
        "the server ended before its requests"
    );
    site.release("/slow");
    site.resume("/half");
    let slow = slow.join().unwrap().expect_status(200);
    assert!(
        slow.text().contains("body=a=b\n") && slow.field("connection") == Some("close"),
        "{}",
        slow.excerpt()
    );
    assert!(
        half.join()
            .unwrap()
            .expect_status(200)
            .text()
            .ends_with("</html>\n")
    );
    assert_eq!(site.galley.stop().code(), Some(0));
    assert!(started.elapsed() < TIMEOUT, "{:?}", started.elapsed());
    // Their access log lines were written before the server ended.
    assert_eq!(
        site.access()
            .lines()
            .filter(|line| line.contains(" /slow ") || line.contains(" /half "))
            .count(),
        2
    );
}

#[test]
fn the_server_stops_after_drain_timeout() {
    let mut site = SiteBuilder::php()
        .server("drain_timeout = \"700ms\"")
        .start();
    site.hold("/slow");
    let mut stuck = site.connect();
    stuck
        .send(&with_host(Request::form("/slow", &[("a", "b")])))
        .unwrap();
    site.wait_until_held("/slow");
    let started = Instant::now();
    assert_eq!(site.galley.stop().code(), Some(0));
    assert!(
        (Duration::from_millis(600)..SHORT_TIMEOUT).contains(&started.elapsed()),
        "{:?}",
        started.elapsed()
    );
    site.release("/slow");
}

#[test]
fn requests_in_the_accept_queue_are_served_before_the_server_stops() {
    let mut site = SiteBuilder::files().file("a.txt", "a").start();
    site.get("/a.txt").assert_status(200);
    // Clients connect and send requests, and the signal arrives, while the server is paused.
    site.galley.signal(Signal::STOP);
    let mut waiting: Vec<Connection> = (0..10).map(|_| site.connect()).collect();
    for connection in &mut waiting {
        connection.send(&with_host(Request::get("/a.txt"))).unwrap();
    }
    site.galley.signal(Signal::TERM);
    site.galley.signal(Signal::CONT);
    for connection in &mut waiting {
        let response = connection.receive("GET").unwrap().expect_status(200);
        assert_eq!(response.text(), "a");
    }
    assert_eq!(site.galley.stop().code(), Some(0));
}

#[test]
fn the_server_survives_a_lack_of_descriptors() {
    let builder = SiteBuilder::files().file("a.txt", "a");
    // 64 descriptors, soft and hard, for the server itself.
    let script = format!(
        "#!/bin/sh\nulimit -n 64\nexec '{}' \"$@\"\n",
        binary().display()
    );
    let wrapper = builder.scratch.join("galley-64-descriptors");
    let made = Command::new("/bin/sh")
        .args([
            "-c",
            "printf '%s' \"$1\" > \"$2\" && chmod 755 \"$2\"",
            "sh",
            &script,
        ])
        .arg(&wrapper)
        .status()
        .unwrap();
    assert!(made.success());
    let (scratch, fpm, config) = builder.prepare();
    let galley = Galley::start_binary(&wrapper, &scratch.join("galley"), &config).unwrap();
    let site = TestSite {
        galley,
        fpm,
        scratch,
    };
    let addr = site.addr();
    let mut clients: Vec<TcpStream> = Vec::new();
    for _ in 0..200 {
        let Ok(mut stream) = TcpStream::connect_timeout(&addr, TIMEOUT) else {
            continue;
        };
        let _ = stream.write_all(format!("GET /a.txt HTTP/1.1\r\nHost: {HOST}\r\n").as_bytes());
        clients.push(stream);
    }
    assert!(clients.len() >= 100, "{}", clients.len());
    assert!(!site.galley.has_ended());
    drop(clients);
    for _ in 0..5 {
        assert_eq!(site.get("/a.txt").expect_status(200).text(), "a");
    }
    // A second wave of clients is served completely.
    let mut statuses = run_concurrently(100, |_| site.get("/a.txt").status);
    statuses.sort_unstable();
    statuses.dedup();
    assert_eq!(statuses, [200]);
}

#[test]
fn connections_above_max_connections_wait_in_the_accept_queue() {
    let site = SiteBuilder::php()
        .file("a.txt", "a")
        .server("max_connections = 10\nworkers = 1")
        .start();
    // With requests in progress: an idle connection would be closed for the eleventh.
    site.hold("/slow/");
    let mut busy: Vec<Connection> = (0..10).map(|_| site.start_request("/slow/")).collect();
    site.wait_until_held("/slow/");
    wait_for("ten connections", TIMEOUT, || {
        json_number(&site.status(), "connections") == 10
    });
    let mut eleventh = site.connect();
    eleventh.send(&with_host(Request::get("/a.txt"))).unwrap();
    eleventh
        .stream()
        .set_read_timeout(Some(Duration::from_millis(400)))
        .unwrap();
    let mut byte = [0; 1];
    assert!(
        (&mut eleventh.stream()).read(&mut byte).is_err(),
        "the eleventh connection was served"
    );
    eleventh.stream().set_read_timeout(Some(TIMEOUT)).unwrap();
    site.release("/slow/");
    for connection in &mut busy {
        connection.receive("GET").unwrap().assert_status(200);
    }
    drop(busy);
    eleventh.receive("GET").unwrap().assert_status(200);
}

#[test]
fn status_reports_sites_counters_and_entries() {
    let site = SiteBuilder::php()
        .file("a.txt", "a")
        .more("[[site]]\nhosts = [\"*.files.test\"]\nroot = \"{root}\"\n")
        .start();
    site.get("/page").assert_status(200);
    site.get("/page").assert_status(200);
    site.get("/a.txt").assert_status(200);
    site.get("/wp-login.php").assert_status(200);
    site.purge(&["--url", "/other"]);
    wait_for("counters", TIMEOUT, || {
        let json = site.status();
        ["hit", "miss", "file", "pass"]
            .iter()
            .all(|word| json_number(&json, word) == 1)
    });
    let json = site.status();
    for word in [
        "\"version\":",
        "\"uptime_s\":",
        "\"example.test\"",
        "\"*.files.test\"",
        "\"php\"",
        "\"files\"",
    ] {
        assert!(json.contains(word), "{word} is not in {json}");
    }
    assert_eq!(json_number(&json, "entries"), 1);
    let output = site.galley.cli(&["status"]).unwrap();
    let table = text(&output.stdout);
    assert!(
        output.status.success() && table.contains("example.test") && table.contains("in 1 entries"),
        "{table}"
    );
    assert!(table.contains("hit 1"), "{table}");
}

#[test]
fn commands_report_that_no_server_is_running() {
    let mut site = SiteBuilder::files().start();
    site.galley.stop();
    for arguments in [&["status"][..], &["status", "--json"], &["purge", "--all"]] {
        let output = site.galley.cli(arguments).unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", output_text(&output));
        assert!(
            output.stdout.is_empty() && text(&output.stderr).contains("running"),
            "{}",
            output_text(&output)
        );
    }
}

#[test]
fn only_the_admin_socket_of_a_dead_server_is_replaced() {
    let mut site = SiteBuilder::files().file("a.txt", "a").start();
    let (_scratch, _, config) = SiteBuilder::files()
        .admin(&format!(
            "listen = \"unix:{}/galley/admin.sock\"",
            site.scratch.path().display()
        ))
        .prepare();
    let file = site.scratch.write("second.toml", &config).unwrap();
    let second = galley(&["run", "--config", &file.display().to_string()]);
    assert_eq!(second.status.code(), Some(1), "{}", output_text(&second));
    assert!(
        text(&second.stderr).contains("admin"),
        "{}",
        output_text(&second)
    );
    assert!(
        !site.status().is_empty(),
        "the first server has lost its socket"
    );
    site.galley.kill();
    let third = Galley::start_binary(binary(), &site.scratch.join("third"), &config).unwrap();
    assert!(third.cli(&["status"]).unwrap().status.success());
}

#[test]
fn run_with_root_needs_no_configuration_file() {
    // The port is fixed; the test is skipped if another process uses it.
    if TcpListener::bind("0.0.0.0:8080").is_err() {
        eprintln!("skipped: port 8080 is in use");
        return;
    }
    let scratch = Scratch::new().unwrap();
    scratch
        .write(
            "root/index.php",
            "<?php echo '<html>', $_SERVER['REQUEST_URI'], '</html>';",
        )
        .unwrap();
    scratch.write("root/a.txt", "a").unwrap();
    let mut command = Command::new(binary());
    command
        .args(["run", "--root"])
        .arg(scratch.join("root"))
        .env("RUNTIME_DIRECTORY", scratch.dir("run").unwrap());
    command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let addr = "127.0.0.1:8080".parse().unwrap();
    let mut log = String::new();
    let mut stderr = std::io::BufReader::new(child.stderr.take().unwrap());
    while !log.contains("galley: ready\n")
        && std::io::BufRead::read_line(&mut stderr, &mut log).unwrap() > 0
    {}
    let page = Request::get("/hello/").send(addr);
    let hit = Request::get("/hello/").send(addr);
    let file = Request::get("/a.txt").send(addr);
    let killed = Command::new("kill").arg(child.id().to_string()).status();
    let status = child.wait().unwrap();
    assert!(killed.unwrap().success());
    assert_eq!(
        page.unwrap_or_else(|error| panic!("{error}\n{log}")).text(),
        "<html>/hello/</html>",
        "{log}"
    );
    assert!(hit.unwrap().is_hit());
    assert_eq!(file.unwrap().text(), "a");
    assert_eq!(status.code(), Some(0), "{log}");
}

#[test]
fn sighup_reloads_the_configuration_and_keeps_the_server_running() {
    let site = SiteBuilder::files().file("a.txt", "a").start();
    site.galley.signal(Signal::HUP);
    site.galley
        .wait_for_log("the configuration has not changed", TIMEOUT);
    site.get("/a.txt").assert_status(200);
}

/// In nginx, SIGWINCH ends the workers.
#[test]
fn sigwinch_does_not_end_the_server() {
    let site = SiteBuilder::files().file("a.txt", "a").start();
    site.galley.signal(Signal::WINCH);
    site.get("/a.txt").assert_status(200);
    assert!(!site.galley.has_ended());
}

#[test]
fn sigquit_stops_after_the_requests_in_progress() {
    let site = SiteBuilder::php().start();
    site.hold("/slow");
    let mut slow = site.start_request("/slow");
    site.wait_until_held("/slow");
    let mut idle = site.connect();
    idle.exchange(&with_host(Request::get("/warm")))
        .unwrap()
        .assert_status(200);
    site.galley.signal(Signal::QUIT);
    assert!(idle.is_closed_within(TIMEOUT));
    site.release("/slow");
    slow.receive("GET").unwrap().assert_status(200);
    wait_for("the server to end", TIMEOUT, || site.galley.has_ended());
}
