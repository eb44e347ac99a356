//! PHP that Galley runs itself: it answers, it comes back, and nothing of it stays behind.

use std::fs;
use std::process::Command;
use std::time::Duration;

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use crate::support::{AssertStatus, SiteBuilder, TEST_PAGE, TIMEOUT, TestSite, binary, page_value};

fn managed() -> TestSite {
    SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 2")
        .file("index.php", TEST_PAGE)
        .start()
}

/// Processes whose parent is this one, with their command lines.
pub fn children(of: u32) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat
            .rsplit(") ")
            .next()
            .and_then(|rest| rest.split(' ').nth(1))
            .and_then(|parent| parent.parse::<u32>().ok());
        if parent == Some(of) {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push((pid, String::from_utf8_lossy(&line).replace('\0', " ")));
        }
    }
    found
}

pub fn master(stage: &TestSite) -> Option<u32> {
    children(stage.galley.pid())
        .into_iter()
        .find(|(_, line)| line.contains("php-fpm"))
        .map(|(pid, _)| pid)
}

pub fn lives(pid: u32) -> bool {
    // A dead process that nobody has reaped has no command line.
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

fn kill(pid: u32) {
    assert!(
        std::process::Command::new("kill")
            .args(["-9", &pid.to_string()])
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn it_answers_and_ends_with_the_server() {
    let mut stage = managed();
    let text = stage
        .send(Request::form("/page", &[("a", "b")]))
        .expect_status(200)
        .text();
    assert!(text.contains("body=a=b\n"));
    let master = master(&stage).unwrap();
    let workers: Vec<u32> = children(master).into_iter().map(|(pid, _)| pid).collect();
    assert_eq!(workers.len(), 2);
    assert_eq!(stage.galley.stop().code(), Some(0));
    for pid in workers.into_iter().chain([master]) {
        assert!(!lives(pid), "{pid} outlived the server");
    }
    let left: Vec<_> = fs::read_dir(stage.scratch.join("galley"))
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert!(
        !left
            .iter()
            .any(|name| name.to_string_lossy().contains("sock")),
        "{left:?}"
    );
}

#[test]
fn a_killed_master_comes_back() {
    let stage = managed();
    stage.get("/one").assert_status(200);
    for round in 0..2 {
        let before = master(&stage).unwrap();
        kill(before);
        wait_for("another master", TIMEOUT, || {
            master(&stage).is_some_and(|now| now != before)
        });
        wait_for("answers", TIMEOUT, || {
            stage
                .send(Request::form(&format!("/after{round}"), &[("a", "b")]))
                .status
                == 200
        });
    }
    assert!(
        stage.get("/one").is_hit(),
        "what was kept answers all the time"
    );
}

#[test]
fn a_killed_worker_costs_one_answer() {
    let stage = managed();
    stage.get("/one").assert_status(200);
    let workers = children(master(&stage).unwrap());
    for (pid, _) in workers {
        kill(pid);
    }
    wait_for("answers", TIMEOUT, || {
        stage.send(Request::form("/after", &[("a", "b")])).status == 200
    });
}

#[test]
fn nothing_is_left_of_it_when_the_server_is_killed() {
    let mut stage = managed();
    stage.get("/one").assert_status(200);
    stage.hold("/busy");
    let mut busy = stage.connect();
    busy.send(&crate::support::with_host(Request::get("/busy")))
        .unwrap();
    stage.wait_until_held("/busy");
    let master = master(&stage).unwrap();
    let mut all: Vec<u32> = children(master).into_iter().map(|(pid, _)| pid).collect();
    all.push(master);
    assert_eq!(all.len(), 3);
    stage.galley.kill();
    wait_for("all of PHP to be gone", Duration::from_secs(15), || {
        !all.iter().any(|pid| lives(*pid))
    });
    let folder = stage.scratch.join("galley");
    wait_for("its files to be gone", TIMEOUT, || {
        let mut found = false;
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            found |= entry.file_name().to_string_lossy().starts_with("php-")
                && fs::read_dir(entry.path()).is_ok_and(|mut inner| inner.next().is_some());
        }
        !found
    });
}

#[test]
fn php_runs_as_an_ordinary_user() {
    let stage = SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 1")
        .file("who.php", "<?php echo posix_geteuid();")
        .start();
    let answer = stage.get("/who.php").expect_status(200);
    assert_ne!(answer.text(), "0", "PHP runs as root");
}

#[test]
fn two_sites_have_two_pools() {
    let plan = SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 1").file("index.php", TEST_PAGE).more("[[site]]\nhosts = [\"other.test\"]\nroot = \"{root}\"\nphp = \"managed\"\nphp_workers = 1\n");
    let stage = plan.start();
    let first = stage.get("/page").expect_status(200).text();
    let second = stage
        .send(Request::get("/page").host("other.test"))
        .expect_status(200)
        .text();
    assert_eq!(
        (
            page_value(&first, "HTTP_HOST"),
            page_value(&second, "HTTP_HOST")
        ),
        ("example.test", "other.test")
    );
    let masters = children(stage.galley.pid())
        .into_iter()
        .filter(|(_, line)| line.contains("php-fpm: master"))
        .count();
    assert_eq!(masters, 2);
}

/// What the doctor says of PHP, from a shell that does not know where the server has its sockets.
fn doctor_on_php(stage: &TestSite) -> serde_json::Value {
    let output = Command::new(binary())
        .args(["doctor", "--json", "--config"])
        .arg(stage.galley.config())
        .env_remove("RUNTIME_DIRECTORY")
        .env("XDG_RUNTIME_DIR", stage.notes())
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = report["findings"].as_array().unwrap();
    let on_php = |finding: &&serde_json::Value| {
        ["php", "opcache", "extensions", "wordpress"].contains(&finding["check"].as_str().unwrap())
    };
    all.iter().filter(on_php).cloned().collect()
}

#[test]
fn the_doctor_finds_the_php_that_galley_runs_or_says_that_it_does_not() {
    let plan = SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 1")
        .file("index.php", TEST_PAGE)
        .more("[[site]]\nhosts = [\"other.test\"]\nroot = \"{root}\"\nphp = \"managed\"\nphp_workers = 1\n");
    let mut stage = plan.start();
    let found = doctor_on_php(&stage);
    let level = |site: &str| {
        let mut all = found.as_array().unwrap().iter();
        let begin = format!("{site}: ");
        let of = |finding: &&serde_json::Value| {
            finding["check"] == "opcache" && finding["seen"].as_str().unwrap().starts_with(&begin)
        };
        all.find(of).unwrap_or_else(|| panic!("{site}: {found}"))["level"].clone()
    };
    assert_eq!(
        (level("example.test"), level("other.test")),
        ("fine".into(), "fine".into()),
        "{found}"
    );
    stage.galley.stop();
    let found = doctor_on_php(&stage);
    let first = &found[0];
    assert_eq!(
        (&first["check"], &first["level"]),
        (&"php".into(), &"unknown".into()),
        "{found}"
    );
    let seen = first["seen"].as_str().unwrap();
    assert!(
        seen.contains("is it running?") && seen.contains("were not checked"),
        "{seen}"
    );
}

#[test]
fn the_kernel_limits_php_or_the_status_says_why_not() {
    let plan = SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 2")
        .site("php_memory_high = \"512MiB\"\nphp_pids_max = 40")
        .file("index.php", TEST_PAGE);
    let stage = plan.start();
    stage.get("/one").assert_status(200);
    let status: serde_json::Value = serde_json::from_str(&stage.status()).unwrap();
    let php = &status["sites"][0]["php"];
    if php["limits"] == "none" {
        let why = php["limits_problem"].as_str().unwrap();
        assert!(!why.is_empty());
        eprintln!("SKIPPED: PHP runs without limits here: {why}");
        return;
    }
    assert_eq!(php["limits"], "whole", "{php}");
    let master = master(&stage).unwrap();
    for process in children(master)
        .into_iter()
        .map(|(pid, _)| pid)
        .chain([master])
    {
        let group = fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap();
        assert!(group.contains("/galley-php-example.test-"), "{group}");
    }
}
