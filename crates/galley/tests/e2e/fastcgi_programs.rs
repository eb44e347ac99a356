//! `php_command`: other FastCGI programs that Galley runs: `php-cgi`, which exits after a number of requests, and `fcgiwrap`.

use std::fs;
use std::time::Duration;

use galley_testkit::client::Request;
use galley_testkit::{Galley, wait_for};

use crate::support::{
    AssertStatus, SiteBuilder, TEST_PAGE, TIMEOUT, TestSite, binary, is_running, json_number,
    output_text, page_value, run_concurrently, with_host,
};

/// Starts a site with two processes of `php-cgi`, with this environment variable.
fn php_cgi_site(variable: &str) -> TestSite {
    let line = format!(
        "php = \"managed\"\nphp_workers = 2\nphp_command = [\"/usr/bin/env\", \"{variable}\", \"/usr/bin/php-cgi\"]"
    );
    SiteBuilder::upstream_line(&line)
        .file("index.php", TEST_PAGE)
        .file(
            "pid.php",
            "<?php echo 'pid=', getmypid(), \"\\nuid=\", posix_geteuid(), \"\\n\";",
        )
        .start()
}

/// All processes of the process group of `pid`, including itself.
fn process_group(pid: u32) -> Vec<u32> {
    let group = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit(") ").next()?.split(' ').collect();
        // Zombies do not count.
        (fields.first() != Some(&"Z")).then(|| fields.get(2).map(|group| (*group).to_owned()))?
    };
    let Some(expected) = group(pid) else {
        return Vec::new();
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| group(*pid).as_ref() == Some(&expected))
        .collect()
}

/// A process exits after five requests.
const FIVE_REQUESTS: &str = "PHP_FCGI_MAX_REQUESTS=5";

/// A process exits after the number of requests that Galley sets.
const DEFAULT_REQUESTS: &str = "NOTHING=1";

fn worker_pid(site: &TestSite) -> u32 {
    let text = site
        .send(Request::form("/pid.php", &[("a", "b")]))
        .expect_status(200)
        .text();
    page_value(&text, "pid").parse().unwrap()
}

fn restarts(site: &TestSite) -> u64 {
    let status = site.status();
    json_number(
        status.split("\"php\":{").nth(1).unwrap_or_default(),
        "restarts",
    )
}

#[test]
fn no_request_fails_when_php_cgi_exits_after_its_requests() {
    let site = php_cgi_site(FIVE_REQUESTS);
    let statuses = run_concurrently(4, |_| {
        let mut connection = site.connect();
        let request = with_host(Request::form("/page", &[("a", "b")]));
        (0..50)
            .map(|_| connection.exchange(&request).unwrap().status)
            .collect::<Vec<u16>>()
    });
    assert_eq!(statuses.concat(), vec![200; 200]);
    // Each of forty processes serves five requests; the last two may still run.
    wait_for("38 processes to be replaced", TIMEOUT, || {
        restarts(&site) >= 38
    });
    let log = site.galley.log();
    assert!(!log.contains("restarting it"), "{log}");
}

#[test]
fn a_killed_process_is_restarted_and_the_socket_stays() {
    let site = php_cgi_site(DEFAULT_REQUESTS);
    for _ in 0..3 {
        let pid = worker_pid(&site);
        let before = restarts(&site);
        let killed = std::process::Command::new("kill")
            .args(["-9", &pid.to_string()])
            .status();
        assert!(killed.unwrap().success());
        wait_for("the server to notice it", TIMEOUT, || {
            restarts(&site) > before
        });
        // The other process responds, or this one after its restart delay.
        for _ in 0..4 {
            site.send(Request::form("/page", &[("a", "b")]))
                .assert_status(200);
        }
    }
    site.galley.wait_for_log("restarting it", TIMEOUT);
}

#[test]
fn php_cgi_runs_as_an_ordinary_user_and_ends_with_the_server() {
    let mut site = php_cgi_site(DEFAULT_REQUESTS);
    let text = site
        .send(Request::form("/pid.php", &[("a", "b")]))
        .expect_status(200)
        .text();
    assert_ne!(page_value(&text, "uid"), "0", "PHP runs as root");
    let group = process_group(page_value(&text, "pid").parse().unwrap());
    assert!(group.len() >= 2, "{group:?}");
    assert_eq!(site.galley.stop().code(), Some(0));
    for pid in group {
        assert!(!is_running(pid), "{pid} outlived the server");
    }
}

#[test]
fn no_processes_and_files_are_left_when_the_server_is_killed() {
    let mut site = php_cgi_site(DEFAULT_REQUESTS);
    let group = process_group(worker_pid(&site));
    site.galley.kill();
    wait_for("all processes to end", Duration::from_secs(20), || {
        !group.iter().any(|pid| is_running(*pid))
    });
    let directory = site.scratch.join("galley");
    wait_for("their files to be removed", TIMEOUT, || {
        !fs::read_dir(&directory)
            .unwrap()
            .flatten()
            .any(|entry| entry.file_name().to_string_lossy().starts_with("php-"))
    });
}

#[test]
fn a_missing_program_is_reported_at_start() {
    let builder =
        SiteBuilder::upstream_line("php = \"managed\"\nphp_command = [\"/nowhere/php-cgi\"]");
    let (scratch, _, text) = builder.prepare();
    let error = Galley::start_binary(binary(), &scratch.join("galley"), &text)
        .unwrap_err()
        .to_string();
    assert!(error.contains("/nowhere/php-cgi"), "{error}");
}

#[test]
fn a_rule_runs_fcgiwrap_for_some_paths() {
    let builder = SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 1")
        .file("index.php", TEST_PAGE)
        .file("cgi-bin/hello.cgi", "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n%s %s %s' \"$REQUEST_METHOD\" \"$QUERY_STRING\" \"$(cat)\"\n")
        .more("[[site.rule]]\npath = \"/cgi-bin/*\"\nphp = \"managed\"\nphp_command = [\"/usr/sbin/fcgiwrap\"]\nphp_workers = 2\ncache = false\n");
    let script = builder.scratch.join("root/cgi-bin/hello.cgi");
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let site = builder.start();
    for _ in 0..5 {
        let text = site
            .send(Request::post("/cgi-bin/hello.cgi?a=b", "text/plain", "in"))
            .expect_status(200)
            .text();
        assert_eq!(text, "POST a=b in");
    }
    let page = site.get("/page").expect_status(200).text();
    assert!(page.contains("path=/page"), "{page}");
    // The doctor checks PHP, not fcgiwrap.
    let doctor = output_text(&site.galley.cli(&["doctor", "--json"]).unwrap());
    assert!(
        doctor.contains("\"check\":\"opcache\""),
        "the doctor did not check PHP: {doctor}"
    );
}
