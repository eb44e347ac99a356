//! Other FastCGI programs that Galley runs: `php-cgi`, which ends by itself after so many requests, and `fcgiwrap`.

use std::fs;
use std::time::Duration;

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use crate::support::{Is, LAB, PATIENCE, Plan, Stage, hosted, number_in, said, together, words};

/// Two processes of `php-cgi`, started through `env` with `variables`.
fn cgi(variables: &str) -> Stage {
    let line = format!(
        "php = \"managed\"\nphp_workers = 2\nphp_command = [\"/usr/bin/env\", \"{variables}\", \"/usr/bin/php-cgi\"]"
    );
    Plan::behind(&line)
        .file("index.php", LAB)
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

fn a_pid(stage: &Stage) -> u32 {
    let text = stage
        .ask(Request::form("/pid.php", &[("a", "b")]))
        .expect_status(200)
        .text();
    said(&text, "pid").parse().unwrap()
}

fn restarts(stage: &Stage) -> u64 {
    let status = stage.status();
    number_in(
        status.split("\"php\":{").nth(1).unwrap_or_default(),
        "restarts",
    )
}

#[test]
fn php_cgi_ends_after_its_requests_and_no_visitor_sees_it() {
    let stage = cgi(FIVE);
    let statuses = together(4, |_| {
        let mut connection = stage.connect();
        let request = hosted(Request::form("/page", &[("a", "b")]));
        (0..50)
            .map(|_| connection.exchange(&request).unwrap().status)
            .collect::<Vec<u16>>()
    });
    assert_eq!(statuses.concat(), vec![200; 200]);
    // Each process answers five.
    wait_for(
        "the ends of forty processes but the last two",
        PATIENCE,
        || restarts(&stage) >= 38,
    );
    let log = stage.galley.log();
    assert!(!log.contains("restarting it"), "{log}");
}

#[test]
fn a_killed_process_comes_back_and_the_socket_stays() {
    let stage = cgi(MANY);
    for _ in 0..3 {
        let pid = a_pid(&stage);
        let before = restarts(&stage);
        let killed = std::process::Command::new("kill")
            .args(["-9", &pid.to_string()])
            .status();
        assert!(killed.unwrap().success());
        wait_for("its end to be noticed", PATIENCE, || {
            restarts(&stage) > before
        });
        // The other one answers, or this one after its pause: nobody is refused.
        for _ in 0..4 {
            stage.ask(Request::form("/page", &[("a", "b")])).is(200);
        }
    }
    stage.galley.wait_for_log("restarting it", PATIENCE);
}

#[test]
fn it_ends_with_the_server_and_runs_as_an_ordinary_user() {
    let mut stage = cgi(MANY);
    let text = stage
        .ask(Request::form("/pid.php", &[("a", "b")]))
        .expect_status(200)
        .text();
    assert_ne!(said(&text, "uid"), "0", "PHP runs as root");
    let all = group_of(said(&text, "pid").parse().unwrap());
    assert!(all.len() >= 2, "{all:?}");
    assert_eq!(stage.galley.stop().code(), Some(0));
    for pid in all {
        assert!(!lives(pid), "{pid} outlived the server");
    }
}

#[test]
fn nothing_is_left_of_it_when_the_server_is_killed() {
    let mut stage = cgi(MANY);
    let all = group_of(a_pid(&stage));
    stage.galley.kill();
    wait_for("all of it to be gone", Duration::from_secs(20), || {
        !all.iter().any(|pid| lives(*pid))
    });
    let folder = stage.scratch.join("galley");
    wait_for("its files to be gone", PATIENCE, || {
        !fs::read_dir(&folder)
            .unwrap()
            .flatten()
            .any(|entry| entry.file_name().to_string_lossy().starts_with("php-"))
    });
}

#[test]
fn a_missing_program_is_reported_at_start() {
    let plan = Plan::behind("php = \"managed\"\nphp_command = [\"/nowhere/php-cgi\"]");
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
    let plan = Plan::behind("php = \"managed\"\nphp_workers = 1")
        .file("index.php", LAB)
        .file("cgi-bin/hello.cgi", "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n%s %s %s' \"$REQUEST_METHOD\" \"$QUERY_STRING\" \"$(cat)\"\n")
        .more("[[site.rule]]\npath = \"/cgi-bin/*\"\nphp = \"managed\"\nphp_command = [\"/usr/sbin/fcgiwrap\"]\nphp_workers = 2\ncache = false\n");
    let script = plan.scratch.join("root/cgi-bin/hello.cgi");
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let stage = plan.start();
    for _ in 0..5 {
        let text = stage
            .ask(Request::post("/cgi-bin/hello.cgi?a=b", "text/plain", "in"))
            .expect_status(200)
            .text();
        assert_eq!(text, "POST a=b in");
    }
    let page = stage.get("/page").expect_status(200).text();
    assert!(page.contains("path=/page"), "{page}");
    // The doctor asks PHP, not the program beside it.
    let doctor = words(&stage.galley.cli(&["doctor", "--json"]).unwrap());
    assert!(
        doctor.contains("\"check\":\"opcache\""),
        "PHP was not asked: {doctor}"
    );
}
