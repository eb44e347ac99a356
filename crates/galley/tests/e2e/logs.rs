//! Access and error logs: one access record for each request, whatever its outcome, in both formats.

use std::fs;

use galley_testkit::client::Request;
use galley_testkit::{Signal, wait_for};

use crate::support::{AssertStatus, HOST, SiteBuilder, TIMEOUT, with_host};

#[test]
fn each_request_is_one_line() {
    let site = SiteBuilder::php()
        .file("a.txt", "a file")
        .server("head_timeout = \"500ms\"")
        .start();
    site.send(
        Request::get("/a.txt")
            .field("User-Agent", "agent \"x\"")
            .field("Referer", "http://r.test/"),
    )
    .assert_status(200);
    site.get("/page?q=1").assert_status(200);
    site.get("/page?q=1").assert_status(200);
    site.get("/.env").assert_status(403);
    site.send(Request::get("/other").host("nobody.test"))
        .assert_status(421);
    site.send(Request::form("/form", &[("a", "b")]))
        .assert_status(200);
    site.send_raw(b"GARBAGE\r\n\r\n");
    site.send_raw(format!("GET /two HTTP/1.1\r\nHost: {HOST}\r\nHost: x\r\n\r\n").as_bytes());
    site.send_raw(format!("GET /slow HTTP/1.1\r\nHost: {HOST}\r\n").as_bytes());
    site.send(Request::new("PURGE", "/page")).assert_status(200);
    wait_for("ten records", TIMEOUT, || {
        site.access().lines().count() >= 10
    });
    let log = site.access();
    assert_eq!(log.lines().count(), 10, "{log}");
    for (start, end) in [
        (
            "\"GET /a.txt HTTP/1.1\" 200 6 \"http://r.test/\" \"agent \\x22x\\x22\" outcome=file upstream=- time=",
            "",
        ),
        (
            "\"GET /page?q=1 HTTP/1.1\" 200 ",
            "outcome=miss upstream=0.",
        ),
        ("\"GET /page?q=1 HTTP/1.1\" 200 ", "outcome=hit upstream=- "),
        ("\"GET /.env HTTP/1.1\" 403 ", "outcome=refused:denied "),
        (
            "\"GET /other HTTP/1.1\" 421 ",
            "outcome=refused:unknown-host ",
        ),
        (
            "\"POST /form HTTP/1.1\" 200 ",
            "outcome=pass:method upstream=0.",
        ),
        ("\"- - HTTP/1.1\" 400 ", "outcome=refused:bad-request "),
        ("\"- - HTTP/1.1\" 408 ", "outcome=refused:timeout "),
        ("\"PURGE /page HTTP/1.1\" 200 ", "outcome=purge "),
    ] {
        assert!(
            log.lines()
                .any(|line| line.contains(start) && line.contains(end)),
            "{start}..{end} is not in\n{log}"
        );
    }
    let mut ids: Vec<&str> = log
        .lines()
        .map(|line| {
            line.split(" id=")
                .nth(1)
                .unwrap()
                .split(' ')
                .next()
                .unwrap()
        })
        .collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 10, "each request has its own id:\n{log}");
    assert!(
        log.lines().all(|line| line.starts_with("127.0.0.1 - - [")),
        "{log}"
    );
}

#[test]
fn a_client_that_disconnects_is_logged_once() {
    let site = SiteBuilder::php().workers(4).start();
    site.hold("/held");
    site.pause("/paused");
    for page in ["/held", "/paused"] {
        let mut connection = site.connect();
        connection
            .send(&with_host(
                Request::get(page).cookie("wordpress_logged_in_x=1"),
            ))
            .unwrap();
        if page == "/held" {
            site.wait_until_held(page);
        } else {
            site.wait_until_paused(page);
        }
    }
    let mut upload = site.connect();
    upload
        .write(
            format!("POST /upload HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 100\r\n\r\nhalf")
                .as_bytes(),
        )
        .unwrap();
    drop(upload);
    wait_for("three records", TIMEOUT, || {
        site.access().lines().count() >= 3
    });
    site.release("/held");
    site.resume("/paused");
    site.get("/after").assert_status(200);
    site.access_line(" /after ");
    let log = site.access();
    assert_eq!(log.lines().count(), 4, "{log}");
    for page in ["/held", "/paused", "/upload"] {
        let line = log
            .lines()
            .find(|line| line.contains(&format!(" {page} ")))
            .unwrap_or_else(|| panic!("{page} is not in\n{log}"));
        assert!(line.contains("vanished=1"), "{line}");
    }
}

#[test]
fn the_json_format_is_valid_and_complete() {
    let site = SiteBuilder::php().log("format = \"json\"").start();
    site.send(Request::get("/p\u{e4}ge?x=\"1\"").field("User-Agent", b"\xff\xfe\"\\"))
        .assert_status(400);
    site.send(Request::get("/page").field("User-Agent", b"a\xff\"\\b\tc"))
        .assert_status(200);
    site.get("/page").assert_status(200);
    wait_for("three records", TIMEOUT, || {
        site.access().lines().count() >= 3
    });
    let log = site.access();
    // PHP's JSON parser reads every line.
    let script = "while (($l = fgets(STDIN)) !== false) { $o = json_decode($l); if ($o === null) { echo \"bad: $l\"; exit(1); } echo $o->status, ' ', $o->outcome, ' ', $o->host, ' ', $o->upstream_time === null ? 'null' : 'time', ' ', strlen($o->id) > 5 ? 'id' : '-', \"\\n\"; }";
    let Ok(mut child) = std::process::Command::new("php")
        .args(["-r", script])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
    else {
        panic!("php is not installed: run `scripts/setup`");
    };
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), log.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let read = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{read}\n{log}");
    let lines: Vec<&str> = read.lines().collect();
    assert_eq!(lines.len(), 3, "{read}\n{log}");
    assert!(
        lines.contains(&"200 miss example.test time id")
            && lines.contains(&"200 hit example.test null id"),
        "{read}\n{log}"
    );
    assert!(
        lines.iter().any(|line| line.starts_with("400 refused ")),
        "{read}\n{log}"
    );
}

#[test]
fn sigusr1_reopens_the_access_log() {
    let site = SiteBuilder::files().file("a.txt", "a").start();
    site.get("/a.txt?before").assert_status(200);
    site.access_line("?before");
    let moved = site.scratch.join("access.log.1");
    fs::rename(site.scratch.join("access.log"), &moved).unwrap();
    site.galley.signal(Signal::USR1);
    let mut number = 0;
    wait_for("a new file", TIMEOUT, || {
        number += 1;
        site.get(&format!("/a.txt?after{number}"))
            .assert_status(200);
        site.access().contains("?after")
    });
    let old = fs::read_to_string(&moved).unwrap();
    assert!(old.contains("?before") && !site.access().contains("?before"));
    // Each record is in one of the two files.
    wait_for("all records", TIMEOUT, || {
        let both = fs::read_to_string(&moved).unwrap() + &site.access();
        both.lines().count() == number + 1
    });
}

#[test]
fn a_site_can_have_a_separate_access_log() {
    let builder = SiteBuilder::files().file("a.txt", "a").more("[site.log]\naccess = \"{root}/../site.log\"\n[[site]]\nhosts = [\"other.test\"]\nroot = \"{root}\"\n");
    let site = builder.start();
    site.get("/a.txt?site").assert_status(200);
    site.send(Request::get("/a.txt?other").host("other.test"))
        .assert_status(200);
    site.access_line("?other");
    wait_for("the record in the log of the site", TIMEOUT, || {
        fs::read_to_string(site.scratch.join("site.log"))
            .unwrap_or_default()
            .contains("?site")
    });
    assert!(!site.access().contains("?site"));
}

#[test]
fn the_access_log_can_be_standard_output_or_off() {
    let site = SiteBuilder::files()
        .file("a.txt", "a")
        .log("access = \"stdout\"")
        .start();
    site.get("/a.txt").assert_status(200);
    wait_for("a line on stdout", TIMEOUT, || {
        site.galley
            .stdout()
            .contains("\"GET /a.txt HTTP/1.1\" 200 1 ")
    });
    let mut without_log = SiteBuilder::files()
        .file("a.txt", "a")
        .log("access = \"off\"")
        .start();
    without_log.get("/a.txt").assert_status(200);
    without_log.galley.stop();
    assert_eq!(without_log.galley.stdout(), "");
}

#[test]
fn hostile_clients_do_not_fill_the_error_log() {
    let site = SiteBuilder::files().file("a.txt", "a").start();
    for number in 0..300 {
        site.send_raw(format!("BAD{number}\u{7}\r\n\r\n").as_bytes());
    }
    wait_for("their records", TIMEOUT, || {
        site.access().lines().count() >= 300
    });
    let warnings = site
        .galley
        .log()
        .lines()
        .filter(|line| line.contains("ERROR") || line.contains("WARN"))
        .count();
    assert!(
        warnings < 20,
        "{warnings} lines for 300 bad heads:\n{}",
        site.galley.log()
    );
    assert!(
        site.access()
            .bytes()
            .all(|byte| byte == b'\n' || (32..127).contains(&byte)),
        "raw control bytes in the log"
    );
}

#[test]
fn sigusr1_reopens_the_error_log() {
    let builder = SiteBuilder::php().file(
        "log.php",
        "<?php error_log('php-message-' . $_GET['n']); echo 'ok';",
    );
    let path = builder.scratch.join("error.log");
    let site = builder
        .log(&format!("error = \"{}\"", path.display()))
        .start();
    let read = |path: &std::path::Path| fs::read_to_string(path).unwrap_or_default();
    site.get("/log.php?n=first").assert_status(200);
    wait_for("the first message", TIMEOUT, || {
        read(&path).contains("php-message-first")
    });
    let moved = site.scratch.join("error.log.1");
    fs::rename(&path, &moved).unwrap();
    site.galley.signal(Signal::USR1);
    wait_for("messages in a new file", TIMEOUT, || {
        site.get("/log.php?n=second").assert_status(200);
        read(&path).contains("php-message-second")
    });
    assert!(!site.galley.log().contains("php-message-"));
}

#[test]
fn php_messages_go_to_the_error_log_of_their_site() {
    let builder = SiteBuilder::php().file(
        "warns.php",
        "<?php error_log('a note of PHP'); echo 'page';",
    );
    let site_log = builder.scratch.join("site-errors.log");
    let site = builder
        .more(&format!("[site.log]\nerror = \"{}\"", site_log.display()))
        .start();
    site.get("/warns.php").assert_status(200);
    let read = || std::fs::read_to_string(&site_log).unwrap_or_default();
    wait_for("the note of PHP", TIMEOUT, || {
        read().contains("a note of PHP")
    });
    assert!(read().contains(" site=example.test "), "{}", read());
    assert!(
        !site.galley.log().contains("a note of PHP"),
        "{}",
        site.galley.log()
    );
    // After a reload the messages go to the new file.
    let text = std::fs::read_to_string(site.galley.config()).unwrap();
    std::fs::write(
        site.galley.config(),
        text.replace("site-errors.log", "other.log"),
    )
    .unwrap();
    assert!(site.galley.cli(&["reload"]).unwrap().status.success());
    site.get("/warns.php?again").assert_status(200);
    let other = site_log.with_file_name("other.log");
    let read = || std::fs::read_to_string(&other).unwrap_or_default();
    wait_for("the note of PHP", TIMEOUT, || {
        read().contains("a note of PHP")
    });
}

/// A miss, a hit, a file and a request that bypasses the cache have the selected fields, also on the fast path.
#[test]
fn the_fields_option_selects_the_fields_of_a_record() {
    let site = SiteBuilder::php()
        .file("a.txt", "a file")
        .log(
            "format = \"json\"\nfields = [\"trace_id\", \"status\", \"request_header:accept-language\", \
             \"response_header:content-type\", \"tls_version\", \"outcome\"]",
        )
        .start();
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for target in ["/page", "/page", "/a.txt", "/form"] {
        let request = match target {
            "/form" => Request::form(target, &[("a", "b")]),
            _ => Request::get(target),
        };
        let request = request
            .field("Traceparent", parent)
            .field("Accept-Language", "de")
            .field("Cookie", "secret=1");
        site.send(request).assert_status(200);
    }
    site.get("/page").assert_status(200);
    wait_for("five records", TIMEOUT, || {
        site.access().lines().count() >= 5
    });
    let log = site.access();
    let lines: Vec<serde_json::Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let line = |outcome: &str| {
        let mut lines = lines.iter().filter(|line| !line["trace_id"].is_null());
        lines.find(|line| line["outcome"] == outcome).unwrap()
    };
    for (outcome, kind) in [
        ("miss", "text/html; charset=UTF-8"),
        ("hit", "text/html; charset=UTF-8"),
        ("file", "text/plain; charset=utf-8"),
        ("pass", "text/html; charset=UTF-8"),
    ] {
        let line = line(outcome);
        assert_eq!(
            line["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736",
            "{line}"
        );
        assert_eq!(line["request_header:accept-language"], "de", "{line}");
        assert_eq!(line["response_header:content-type"], kind, "{line}");
        assert_eq!(line["status"], 200);
        assert!(line["tls_version"].is_null());
        assert_eq!(line.as_object().unwrap().len(), 7, "{line}");
    }
    let without = lines.iter().filter(|line| line["trace_id"].is_null());
    assert_eq!(without.count(), 1, "{log}");
    assert!(!log.contains("secret"), "{log}");
}
