//! Upgrades of a Galley that has given up root and runs PHP of other users: the process that keeps root goes on, and what it
//! has started too.

use std::fs;
use std::io::Write;
use std::net::TcpStream;

use galley_testkit::wait_for;

use crate::privileged::{account, children, folders, keeper, kill, lives, of, plan, send};
use crate::serving::{Serving, is_alive};
use crate::support::{TIMEOUT, TestSite, output_text};

const SITES: [&str; 3] = ["example.test", "second.test", "own.test"];

/// What the process that keeps root has started.
fn programs(keeper: u32) -> Vec<u32> {
    let mut all: Vec<u32> = children(keeper).into_iter().map(|(_, pid)| pid).collect();
    all.sort_unstable();
    all
}

fn answers(site: &TestSite, host: &str) {
    wait_for(&format!("answers of {host}"), TIMEOUT, || {
        send(site, host).status == 200
    });
}

#[test]
fn php_of_other_users_goes_on_and_ends_with_the_last_galley() {
    // Two processes of another program, and a PHP-FPM for each of the other sites.
    let line = "php = \"managed\"\nphp_workers = 2\nphp_command = [\"/usr/bin/php-cgi\"]";
    let Some(plan) = plan(line) else {
        return;
    };
    let site = plan.start();
    let serving = Serving::new(&site);
    let keeper = keeper(&site).unwrap();
    wait_for("all programs", TIMEOUT, || programs(keeper).len() == 3);
    let before = programs(keeper);
    let users = SITES.map(|host| of(&site, host, "uid"));
    let own = of(&site, "own.test", "parent");
    for _ in 0..2 {
        let old = serving.pid.get();
        assert_eq!(serving.upgrade()["pools"].as_u64(), Some(3));
        wait_for("the process before to end", TIMEOUT, || !is_alive(old));
        assert_eq!(SITES.map(|host| of(&site, host, "uid")), users);
        assert_eq!(programs(keeper), before, "{}", site.galley.log());
        assert_eq!(of(&site, "own.test", "parent"), own);
        let status = site.status().replace(' ', "");
        assert!(status.contains("\"privileged\":\"running\""), "{status}");
    }
    // Those that die are started again, by a Galley that did not start them.
    let worker = of(&site, "second.test", "pid");
    for pid in &before {
        kill("-KILL", *pid);
    }
    wait_for("the end of a worker", TIMEOUT, || !lives(worker));
    wait_for("others", TIMEOUT, || {
        let now = programs(keeper);
        now.len() == 3 && !now.iter().any(|pid| before.contains(pid))
    });
    for (host, uid) in SITES.iter().zip(users) {
        answers(&site, host);
        assert_eq!(of(&site, host, "uid"), uid);
    }
    let last = programs(keeper);
    drop(serving);
    wait_for("all to end", TIMEOUT, || !lives(keeper));
    assert!(!last.into_iter().any(lives));
    assert_eq!(folders(&site), Vec::<String>::new());
}

#[test]
fn settings_that_only_root_could_change_keep_the_new_process_from_starting() {
    let Some(plan) = plan("php = \"managed\"\nphp_workers = 1") else {
        return;
    };
    let site = plan.start();
    let serving = Serving::new(&site);
    let keeper = keeper(&site).unwrap();
    let before = programs(keeper);
    let config = fs::read_to_string(site.galley.config()).unwrap();
    let other = config.replace(
        "php_user = \"news\"",
        "php_user = \"news\"\nphp_timeout = \"11m\"",
    );
    fs::write(site.galley.config(), other).unwrap();
    let refused = site.galley.cli(&["upgrade"]).unwrap();
    // The packages restart at this exit code.
    assert_eq!(refused.status.code(), Some(2), "{}", output_text(&refused));
    assert!(
        output_text(&refused).contains("only a restart"),
        "{}",
        output_text(&refused)
    );
    assert!(
        output_text(&refused).contains("systemctl restart galley"),
        "{}",
        output_text(&refused)
    );
    assert_eq!(programs(keeper), before);
    let users = SITES.map(|host| of(&site, host, "uid"));
    // A site that is gone takes its PHP with it.
    let mut parts: Vec<&str> = config.split("[[site]]").collect();
    assert!(parts.remove(2).contains("second.test"));
    fs::write(site.galley.config(), parts.join("[[site]]")).unwrap();
    let old = serving.pid.get();
    assert_eq!(serving.upgrade()["pools"].as_u64(), Some(2));
    wait_for("the process before to end", TIMEOUT, || !is_alive(old));
    wait_for("PHP of the other site to end", TIMEOUT, || {
        programs(keeper).len() == 1
    });
    assert_eq!(of(&site, "example.test", "uid"), users[0]);
}

#[test]
fn the_old_process_goes_on_with_php_of_other_users_if_the_new_one_dies() {
    let Some(plan) = plan("php = \"managed\"\nphp_workers = 1") else {
        return;
    };
    let wait = "<?php touch(__DIR__ . '/begun'); for ($i = 0; $i < 15000 && !file_exists(__DIR__ . '/go'); $i++) { usleep(2000); clearstatcache(); }";
    fs::write(plan.scratch.dir("own").unwrap().join("wait.php"), wait).unwrap();
    let site = plan.start();
    let serving = Serving::new(&site);
    let (old, keeper) = (serving.pid.get(), keeper(&site).unwrap());
    let before = programs(keeper);
    let users = SITES.map(|host| of(&site, host, "uid"));
    // Keeps the old process from ending.
    let mut held = TcpStream::connect(site.addr()).unwrap();
    held.write_all(b"POST /wait.php HTTP/1.1\r\nhost: own.test\r\ncontent-length: 0\r\n\r\n")
        .unwrap();
    let begun = site.scratch.join("own").join("begun");
    wait_for("the request at PHP", TIMEOUT, || begun.exists());
    serving.upgrade();
    assert_eq!(programs(keeper), before);
    assert!(is_alive(old));
    kill("-KILL", serving.pid.get());
    serving.pid.set(old);
    site.galley.wait_for_log("this one serves again", TIMEOUT);
    fs::write(site.scratch.join("own").join("go"), "").unwrap();
    for (host, uid) in SITES.iter().zip(users).take(2) {
        answers(&site, host);
        assert_eq!(of(&site, host, "uid"), uid);
    }
    assert_eq!(programs(keeper), before, "{}", site.galley.log());
    // It still starts what dies, and can be replaced again.
    let worker = of(&site, "second.test", "pid");
    kill("-KILL", of(&site, "second.test", "parent"));
    wait_for("the end of its worker", TIMEOUT, || !lives(worker));
    answers(&site, "second.test");
    assert_eq!(of(&site, "second.test", "uid"), account("news").0);
    serving.upgrade();
    wait_for("the old process to end", TIMEOUT, || !is_alive(old));
    assert_eq!(SITES.map(|host| of(&site, host, "uid")), users);
}
