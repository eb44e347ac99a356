//! PHP-FPM that Galley runs (`php = "managed"`): it serves, it is restarted, and it ends with Galley.

use std::fs;
use std::process::Command;
use std::time::Duration;

use galley_testkit::client::Request;
use galley_testkit::{skip, wait_for};

use crate::support::{
    AssertStatus, SiteBuilder, TEST_PAGE, TIMEOUT, TestSite, binary, children, is_running, kill,
    page_value, with_host,
};

/// A site with a managed PHP-FPM of two workers.
pub fn managed() -> TestSite {
    SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 2")
        .file("index.php", TEST_PAGE)
        .start()
}

/// Process ID of the master of PHP-FPM.
fn php_master(site: &TestSite) -> Option<u32> {
    children(site.galley.pid())
        .into_iter()
        .find(|(_, line)| line.contains("php-fpm"))
        .map(|(pid, _)| pid)
}

#[test]
fn managed_php_serves_and_ends_with_the_server() {
    let mut site = managed();
    let text = site
        .send(Request::form("/page", &[("a", "b")]))
        .expect_status(200)
        .text();
    assert!(text.contains("body=a=b\n"));
    let php_master = php_master(&site).unwrap();
    let workers: Vec<u32> = children(php_master)
        .into_iter()
        .map(|(pid, _)| pid)
        .collect();
    assert_eq!(workers.len(), 2);
    assert_eq!(site.galley.stop().code(), Some(0));
    for pid in workers.into_iter().chain([php_master]) {
        assert!(!is_running(pid), "{pid} outlived the server");
    }
    let leftovers: Vec<_> = fs::read_dir(site.scratch.join("galley"))
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert!(
        !leftovers
            .iter()
            .any(|name| name.to_string_lossy().contains("sock")),
        "{leftovers:?}"
    );
}

#[test]
fn a_killed_master_is_restarted() {
    let site = managed();
    site.get("/one").assert_status(200);
    for round in 0..2 {
        let before = php_master(&site).unwrap();
        kill("-KILL", before);
        wait_for("another master", TIMEOUT, || {
            php_master(&site).is_some_and(|now| now != before)
        });
        wait_for("a response", TIMEOUT, || {
            site.send(Request::form(&format!("/after{round}"), &[("a", "b")]))
                .status
                == 200
        });
    }
    assert!(
        site.get("/one").is_hit(),
        "stored pages are served during the restart"
    );
}

#[test]
fn killed_workers_are_replaced() {
    let site = managed();
    site.get("/one").assert_status(200);
    let workers = children(php_master(&site).unwrap());
    for (pid, _) in workers {
        kill("-KILL", pid);
    }
    wait_for("a response", TIMEOUT, || {
        site.send(Request::form("/after", &[("a", "b")])).status == 200
    });
}

#[test]
fn php_ends_and_its_files_are_removed_when_the_server_is_killed() {
    let mut site = managed();
    site.get("/one").assert_status(200);
    site.hold("/busy");
    let mut busy = site.connect();
    busy.send(&with_host(Request::get("/busy"))).unwrap();
    site.wait_until_held("/busy");
    let php_master = php_master(&site).unwrap();
    let mut all: Vec<u32> = children(php_master)
        .into_iter()
        .map(|(pid, _)| pid)
        .collect();
    all.push(php_master);
    assert_eq!(all.len(), 3);
    site.galley.kill();
    wait_for("all PHP processes to end", Duration::from_secs(15), || {
        !all.iter().any(|pid| is_running(*pid))
    });
    let folder = site.scratch.join("galley");
    wait_for("the files of PHP to be removed", TIMEOUT, || {
        let mut exist = false;
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            exist |= entry.file_name().to_string_lossy().starts_with("php-")
                && fs::read_dir(entry.path()).is_ok_and(|mut inner| inner.next().is_some());
        }
        !exist
    });
}

#[test]
fn php_does_not_run_as_root() {
    let site = SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 1")
        .file("user.php", "<?php echo posix_geteuid();")
        .start();
    let response = site.get("/user.php").expect_status(200);
    assert_ne!(response.text(), "0", "PHP runs as root");
}

#[test]
fn each_site_has_a_separate_pool() {
    let builder = SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 1").file("index.php", TEST_PAGE).more("[[site]]\nhosts = [\"other.test\"]\nroot = \"{root}\"\nphp = \"managed\"\nphp_workers = 1\n");
    let site = builder.start();
    let first = site.get("/page").expect_status(200).text();
    let second = site
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
    let php_masters = children(site.galley.pid())
        .into_iter()
        .filter(|(_, line)| line.contains("php-fpm: master"))
        .count();
    assert_eq!(php_masters, 2);
}

/// Findings of the doctor about PHP, run without the environment variables that locate the server's sockets.
fn doctor_on_php(site: &TestSite) -> serde_json::Value {
    let output = Command::new(binary())
        .args(["doctor", "--json", "--config"])
        .arg(site.galley.config())
        .env_remove("RUNTIME_DIRECTORY")
        .env("XDG_RUNTIME_DIR", site.notes())
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
fn the_doctor_checks_managed_php_or_reports_that_it_is_unreachable() {
    let builder = SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 1")
        .file("index.php", TEST_PAGE)
        .more("[[site]]\nhosts = [\"other.test\"]\nroot = \"{root}\"\nphp = \"managed\"\nphp_workers = 1\n");
    let mut site = builder.start();
    let findings = doctor_on_php(&site);
    let level = |site: &str| {
        let mut all = findings.as_array().unwrap().iter();
        let begin = format!("{site}: ");
        let of = |finding: &&serde_json::Value| {
            finding["check"] == "opcache" && finding["seen"].as_str().unwrap().starts_with(&begin)
        };
        all.find(of).unwrap_or_else(|| panic!("{site}: {findings}"))["level"].clone()
    };
    assert_eq!(
        (level("example.test"), level("other.test")),
        ("fine".into(), "fine".into()),
        "{findings}"
    );
    site.galley.stop();
    let findings = doctor_on_php(&site);
    let first = &findings[0];
    assert_eq!(
        (&first["check"], &first["level"]),
        (&"php".into(), &"unknown".into()),
        "{findings}"
    );
    let seen = first["seen"].as_str().unwrap();
    assert!(
        seen.contains("is it running?") && seen.contains("were not checked"),
        "{seen}"
    );
}

#[test]
fn php_runs_in_a_cgroup_or_the_status_says_why_not() {
    let builder = SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 2")
        .site("php_memory_high = \"512MiB\"\nphp_pids_max = 40")
        .file("index.php", TEST_PAGE);
    let site = builder.start();
    site.get("/one").assert_status(200);
    let status: serde_json::Value = serde_json::from_str(&site.status()).unwrap();
    let php = &status["sites"][0]["php"];
    if php["limits"] == "none" {
        let why = php["limits_problem"].as_str().unwrap();
        assert!(!why.is_empty());
        skip(&format!("PHP runs without limits on this machine: {why}"));
        return;
    }
    assert_eq!(php["limits"], "full", "{php}");
    let php_master = php_master(&site).unwrap();
    for process in children(php_master)
        .into_iter()
        .map(|(pid, _)| pid)
        .chain([php_master])
    {
        let group = fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap();
        assert!(group.contains("/galley-php-example.test-"), "{group}");
    }
}
