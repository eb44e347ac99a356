//! Upgrades of a Galley that has dropped root and runs PHP as other users: the privileged process and the programs that it has
//! started keep running.

use std::fs;
use std::io::Write;
use std::net::TcpStream;

use galley_testkit::wait_for;

use super::setup::{
    children, php_folders, php_value, privileged_process, request_user_page, site_builder,
};
use crate::serving::{Serving, is_alive};
use crate::support::{TIMEOUT, TestSite, account, is_running, kill, output_text};

const SITES: [&str; 3] = ["example.test", "second.test", "own.test"];

/// Process IDs of the programs that the privileged process has started, in order.
fn started_programs(privileged_process: u32) -> Vec<u32> {
    let mut all: Vec<u32> = children(privileged_process)
        .into_iter()
        .map(|(pid, _)| pid)
        .collect();
    all.sort_unstable();
    all
}

fn wait_for_response(site: &TestSite, host: &str) {
    wait_for(&format!("a response of {host}"), TIMEOUT, || {
        request_user_page(site, host).status == 200
    });
}

#[test]
fn php_of_other_users_survives_upgrades_and_ends_with_the_last_galley() {
    // Two `php-cgi` processes, and a PHP-FPM for each of the other sites.
    let line = "php = \"managed\"\nphp_workers = 2\nphp_command = [\"/usr/bin/php-cgi\"]";
    let Some(builder) = site_builder(line) else {
        return;
    };
    let site = builder.start();
    let serving = Serving::new(&site);
    let privileged_process = privileged_process(&site).unwrap();
    wait_for("all programs", TIMEOUT, || {
        started_programs(privileged_process).len() == 3
    });
    let before = started_programs(privileged_process);
    let users = SITES.map(|host| php_value(&site, host, "uid"));
    let own = php_value(&site, "own.test", "parent");
    for _ in 0..2 {
        let old = serving.pid.get();
        assert_eq!(serving.upgrade()["pools"].as_u64(), Some(3));
        wait_for("the old process to end", TIMEOUT, || !is_alive(old));
        assert_eq!(SITES.map(|host| php_value(&site, host, "uid")), users);
        assert_eq!(
            started_programs(privileged_process),
            before,
            "{}",
            site.galley.log()
        );
        assert_eq!(php_value(&site, "own.test", "parent"), own);
        let status = site.status().replace(' ', "");
        assert!(status.contains("\"privileged\":\"running\""), "{status}");
    }
    // The new Galley restarts programs that the old one had started.
    let worker = php_value(&site, "second.test", "pid");
    for pid in &before {
        kill("-KILL", *pid);
    }
    wait_for("the end of a worker", TIMEOUT, || !is_running(worker));
    wait_for("new programs", TIMEOUT, || {
        let now = started_programs(privileged_process);
        now.len() == 3 && !now.iter().any(|pid| before.contains(pid))
    });
    for (host, uid) in SITES.iter().zip(users) {
        wait_for_response(&site, host);
        assert_eq!(php_value(&site, host, "uid"), uid);
    }
    let last = started_programs(privileged_process);
    drop(serving);
    wait_for("the privileged process to end", TIMEOUT, || {
        !is_running(privileged_process)
    });
    assert!(!last.into_iter().any(is_running));
    assert_eq!(php_folders(&site), Vec::<String>::new());
}

#[test]
fn an_upgrade_with_changes_that_need_root_is_refused() {
    let Some(builder) = site_builder("php = \"managed\"\nphp_workers = 1") else {
        return;
    };
    let site = builder.start();
    let serving = Serving::new(&site);
    let privileged_process = privileged_process(&site).unwrap();
    let before = started_programs(privileged_process);
    let config = fs::read_to_string(site.galley.config()).unwrap();
    let changed = config.replace(
        "php_user = \"news\"",
        "php_user = \"news\"\nphp_timeout = \"11m\"",
    );
    fs::write(site.galley.config(), changed).unwrap();
    let output = site.galley.cli(&["upgrade"]).unwrap();
    // The packages restart at this exit code.
    assert_eq!(output.status.code(), Some(2), "{}", output_text(&output));
    assert!(
        output_text(&output).contains("only a restart"),
        "{}",
        output_text(&output)
    );
    assert!(
        output_text(&output).contains("systemctl restart galley"),
        "{}",
        output_text(&output)
    );
    assert_eq!(started_programs(privileged_process), before);
    let users = SITES.map(|host| php_value(&site, host, "uid"));
    // PHP of a removed site ends.
    let mut parts: Vec<&str> = config.split("[[site]]").collect();
    assert!(parts.remove(2).contains("second.test"));
    fs::write(site.galley.config(), parts.join("[[site]]")).unwrap();
    let old = serving.pid.get();
    assert_eq!(serving.upgrade()["pools"].as_u64(), Some(2));
    wait_for("the old process to end", TIMEOUT, || !is_alive(old));
    wait_for("PHP of the other site to end", TIMEOUT, || {
        started_programs(privileged_process).len() == 1
    });
    assert_eq!(php_value(&site, "example.test", "uid"), users[0]);
}

#[test]
fn the_old_process_resumes_with_php_of_other_users_if_the_new_one_dies() {
    let Some(builder) = site_builder("php = \"managed\"\nphp_workers = 1") else {
        return;
    };
    let wait = "<?php touch(__DIR__ . '/begun'); for ($i = 0; $i < 15000 && !file_exists(__DIR__ . '/go'); $i++) { usleep(2000); clearstatcache(); }";
    fs::write(builder.scratch.dir("own").unwrap().join("wait.php"), wait).unwrap();
    let site = builder.start();
    let serving = Serving::new(&site);
    let (old, privileged_process) = (serving.pid.get(), privileged_process(&site).unwrap());
    let before = started_programs(privileged_process);
    let users = SITES.map(|host| php_value(&site, host, "uid"));
    // Keeps the old process from ending.
    let mut open_request = TcpStream::connect(site.addr()).unwrap();
    open_request
        .write_all(b"POST /wait.php HTTP/1.1\r\nhost: own.test\r\ncontent-length: 0\r\n\r\n")
        .unwrap();
    let started = site.scratch.join("own").join("begun");
    wait_for("the request at PHP", TIMEOUT, || started.exists());
    serving.upgrade();
    assert_eq!(started_programs(privileged_process), before);
    assert!(is_alive(old));
    kill("-KILL", serving.pid.get());
    serving.pid.set(old);
    site.galley.wait_for_log("this one serves again", TIMEOUT);
    fs::write(site.scratch.join("own").join("go"), "").unwrap();
    for (host, uid) in SITES.iter().zip(users).take(2) {
        wait_for_response(&site, host);
        assert_eq!(php_value(&site, host, "uid"), uid);
    }
    assert_eq!(
        started_programs(privileged_process),
        before,
        "{}",
        site.galley.log()
    );
    // The old process still restarts programs, and can be upgraded again.
    let worker = php_value(&site, "second.test", "pid");
    kill("-KILL", php_value(&site, "second.test", "parent"));
    wait_for("the end of its worker", TIMEOUT, || !is_running(worker));
    wait_for_response(&site, "second.test");
    assert_eq!(php_value(&site, "second.test", "uid"), account("news").0);
    serving.upgrade();
    wait_for("the old process to end", TIMEOUT, || !is_alive(old));
    assert_eq!(SITES.map(|host| php_value(&site, host, "uid")), users);
}
