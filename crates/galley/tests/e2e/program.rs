//! Other FastCGI programs that Galley runs: `php-cgi`, which ends by itself after so many requests, and `fcgiwrap`.

use std::fs;
use std::time::Duration;

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use crate::support::{
    AssertStatus, SiteBuilder, TEST_PAGE, TIMEOUT, TestSite, json_number, output_text, page_value,
    run_concurrently, with_host,
};

/// Two processes of `php-cgi`, started through `env` with `variables`.
fn cgi(variables: &str) -> TestSite {
    let line = format!(
        "php = \"managed\"\nphp_workers = 2\nphp_command = [\"/usr/bin/env\", \"{variables}\", \"/usr/bin/php-cgi\"]"
    );
    SiteBuilder::upstream_line(&line)
        .file("index.php", TEST_PAGE)
        .file(
            "pid.php",
            "<?php echo 'pid=', getmypid(), \"\\nuid=\", posix_geteuid(), \"\\n\";",
        )
        .start()
}

/// Processes of the group that this one is in, itself included.
fn group_of(pid: u32) -> Vec<u32> {
    let group = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit(") ").next()?.split(' ').collect();
        // Nobody waits for a zombie's work.
        (fields.first() != Some(&"Z")).then(|| fields.get(2).map(|group| (*group).to_owned()))?
    };
    let Some(wanted) = group(pid) else {
        return Vec::new();
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| group(*pid).as_ref() == Some(&wanted))
        .collect()
}

fn lives(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

/// So few that a process ends all the time.
const FIVE: &str = "PHP_FCGI_MAX_REQUESTS=5";

/// As Galley sets it.
const MANY: &str = "NOTHING=1";

fn a_pid(site: &TestSite) -> u32 {
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
fn php_cgi_ends_after_its_requests_and_no_visitor_sees_it() {
    let site = cgi(FIVE);
    let statuses = run_concurrently(4, |_| {
        let mut connection = site.connect();
        let request = with_host(Request::form("/page", &[("a", "b")]));
        (0..50)
            .map(|_| connection.exchange(&request).unwrap().status)
            .collect::<Vec<u16>>()
    });
    assert_eq!(statuses.concat(), vec![200; 200]);
    // Each process answers five.
    wait_for(
        "the ends of forty processes but the last two",
        TIMEOUT,
        || restarts(&site) >= 38,
    );
    let log = site.galley.log();
    assert!(!log.contains("restarting it"), "{log}");
}

#[test]
fn a_killed_process_comes_back_and_the_socket_stays() {
    let site = cgi(MANY);
    for _ in 0..3 {
        let pid = a_pid(&site);
        let before = restarts(&site);
        let killed = std::process::Command::new("kill")
            .args(["-9", &pid.to_string()])
            .status();
        assert!(killed.unwrap().success());
        wait_for("its end to be noticed", TIMEOUT, || {
            restarts(&site) > before
        });
        // The other one answers, or this one after its pause: nobody is refused.
        for _ in 0..4 {
            site.send(Request::form("/page", &[("a", "b")]))
                .assert_status(200);
        }
    }
    site.galley.wait_for_log("restarting it", TIMEOUT);
}

#[test]
fn it_ends_with_the_server_and_runs_as_an_ordinary_user() {
    let mut site = cgi(MANY);
    let text = site
        .send(Request::form("/pid.php", &[("a", "b")]))
        .expect_status(200)
        .text();
    assert_ne!(page_value(&text, "uid"), "0", "PHP runs as root");
    let all = group_of(page_value(&text, "pid").parse().unwrap());
    assert!(all.len() >= 2, "{all:?}");
    assert_eq!(site.galley.stop().code(), Some(0));
    for pid in all {
        assert!(!lives(pid), "{pid} outlived the server");
    }
}

#[test]
fn nothing_is_left_of_it_when_the_server_is_killed() {
    let mut site = cgi(MANY);
    let all = group_of(a_pid(&site));
    site.galley.kill();
    wait_for("all of it to be gone", Duration::from_secs(20), || {
        !all.iter().any(|pid| lives(*pid))
    });
    let folder = site.scratch.join("galley");
    wait_for("its files to be gone", TIMEOUT, || {
        !fs::read_dir(&folder)
            .unwrap()
            .flatten()
            .any(|entry| entry.file_name().to_string_lossy().starts_with("php-"))
    });
}

#[test]
fn a_missing_program_is_reported_at_start() {
    let plan =
        SiteBuilder::upstream_line("php = \"managed\"\nphp_command = [\"/nowhere/php-cgi\"]");
    let (scratch, _, text) = plan.prepare();
    let trouble = galley_testkit::Galley::start_binary(
        crate::support::binary(),
        &scratch.join("galley"),
        &text,
    )
    .unwrap_err()
    .to_string();
    assert!(trouble.contains("/nowhere/php-cgi"), "{trouble}");
}

#[test]
fn fcgiwrap_runs_beside_php_for_some_paths() {
    let plan = SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 1")
        .file("index.php", TEST_PAGE)
        .file("cgi-bin/hello.cgi", "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n%s %s %s' \"$REQUEST_METHOD\" \"$QUERY_STRING\" \"$(cat)\"\n")
        .more("[[site.rule]]\npath = \"/cgi-bin/*\"\nphp = \"managed\"\nphp_command = [\"/usr/sbin/fcgiwrap\"]\nphp_workers = 2\ncache = false\n");
    let script = plan.scratch.join("root/cgi-bin/hello.cgi");
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let site = plan.start();
    for _ in 0..5 {
        let text = site
            .send(Request::post("/cgi-bin/hello.cgi?a=b", "text/plain", "in"))
            .expect_status(200)
            .text();
        assert_eq!(text, "POST a=b in");
    }
    let page = site.get("/page").expect_status(200).text();
    assert!(page.contains("path=/page"), "{page}");
    // The doctor asks PHP, not the program beside it.
    let doctor = output_text(&site.galley.cli(&["doctor", "--json"]).unwrap());
    assert!(
        doctor.contains("\"check\":\"opcache\""),
        "PHP was not asked: {doctor}"
    );
}
