//! A wrong address of PHP or of an HTTP server: the start, and every command that an operator runs then, name it with the error and
//! what to do.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::Output;

use galley_testkit::wait_for;

use crate::support::{AssertStatus, HOST, SiteBuilder, TIMEOUT, TestSite, doctor_finding};

fn run(site: &TestSite, arguments: &[&str]) -> (Output, String) {
    let output = site.galley.cli(arguments).unwrap();
    let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    (output, String::from_utf8(text).unwrap())
}

/// Every place where an operator looks: `words` are the address, the error's number, and the remedy.
fn assert_is_named_everywhere(site: &TestSite, words: &[&str]) {
    let has_all = |text: &str| words.iter().all(|word| text.contains(word));
    // Before the first request.
    wait_for("the warning of the start", TIMEOUT, || {
        let log = site.galley.log();
        log.lines()
            .any(|line| line.contains("warn") && has_all(line))
    });
    site.get("/page/").assert_status(502);
    wait_for("the line of the request", TIMEOUT, || {
        let log = site.galley.log();
        let mut lines = log.lines().filter(|line| line.contains("request="));
        lines.any(|line| line.contains("cannot connect to the upstream") && has_all(line))
    });
    let (output, check) = run(site, &["check"]);
    assert_eq!(output.status.code(), Some(0), "it may start later: {check}");
    assert!(check.contains("warning") && has_all(&check), "{check}");
    let (output, status) = run(site, &["status"]);
    assert_eq!(output.status.code(), Some(1), "{status}");
    assert!(
        status.contains("No response from") && has_all(&status),
        "{status}"
    );
    let (_, why) = run(site, &["why", &format!("http://{HOST}/other/")]);
    assert!(why.contains("cannot be reached") && has_all(&why), "{why}");
    assert!(!why.contains("the upstream generates the page"), "{why}");
    let finding = doctor_finding(site, "upstream");
    assert_eq!(finding["level"], "wrong", "{finding}");
    assert!(has_all(&finding.to_string()), "{finding}");
}

#[test]
fn a_wrong_socket_of_php_is_named_with_its_error_and_a_remedy() {
    let builder = SiteBuilder::upstream_line("php = \"unix:{dir}/php.sock\"");
    let path = builder.scratch.join("php.sock");
    let address = format!("unix:{}", path.display());
    let site = builder.file("index.php", "<?php").start();
    assert_is_named_everywhere(&site, &[&address, "os error 2", "`listen`"]);
    // It is noticed without a request when PHP starts.
    let _php = UnixListener::bind(&path).unwrap();
    wait_for("a status without the problem", TIMEOUT, || {
        run(&site, &["status"]).0.status.success()
    });
    let (_, why) = run(&site, &["why", &format!("http://{HOST}/other/")]);
    assert!(why.contains("the upstream generates the page"), "{why}");
}

#[test]
fn a_wrong_port_of_an_http_upstream_is_named_with_its_error_and_a_remedy() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = closed.local_addr().unwrap().to_string();
    drop(closed);
    let line = format!("upstream = [\"http://{address}\"]");
    let site = SiteBuilder::upstream_line(&line).start();
    assert_is_named_everywhere(&site, &[&address, "os error 111", "no program listens"]);
}
