//! `galley upgrade`: a new process takes over the sockets, the pages, the purges and the PHP pools of the old one.

use std::fs;
use std::time::{Duration, Instant};

use galley_testkit::client::Request;
use galley_testkit::wait_for;
use rustix::process::{Signal, kill_process};

use super::config;
use super::load::{page, under_load};
use crate::serving::{Serving, is_alive, pid};
use crate::support::{
    AssertStatus, SiteBuilder, TEST_PAGE, TIMEOUT, TestSite, children, with_host,
};
use crate::tls_support::{Authority, over_tls};

/// The number of stored pages that every upgrade must hand over.
const STORED_PAGES: u64 = 60;

fn run_of(text: &str) -> usize {
    let number = text.split("run=").nth(1).unwrap().lines().next().unwrap();
    number.parse().unwrap()
}

#[test]
fn upgrades_under_load_fail_no_request_and_keep_stored_pages() {
    upgrades_under_load(5);
}

/// `make upgrades`.
#[test]
#[ignore = "takes minutes: the short form runs each time"]
fn fifty_upgrades_under_load_fail_no_request() {
    upgrades_under_load(50);
}

fn upgrades_under_load(upgrades: usize) {
    let authority = Authority::new();
    let site = over_tls(page().disk(), &authority).start();
    site.get("/cached/").assert_status(200);
    let stored: Vec<String> = (0..STORED_PAGES).map(|n| format!("/stored/{n}/")).collect();
    let storable = ["Content-Type: text/html", "Cache-Control: max-age=3600"];
    for target in stored.iter().map(String::as_str).chain(["/edited/"]) {
        site.head(target, &storable);
        site.get(target).assert_status(200);
    }
    let serving = Serving::new(&site);
    let (responses, connections) = under_load(&site, &authority, || {
        for number in 0..upgrades {
            let before = serving.pid.get();
            let output = serving.upgrade();
            assert_ne!(serving.pid.get(), before);
            let pages = output["pages"].as_u64().unwrap();
            assert!(pages >= STORED_PAGES, "upgrade {number}: {output}");
            let hits = stored.iter().filter(|page| site.get(page).is_hit());
            assert_eq!(
                hits.count() as u64,
                STORED_PAGES,
                "hits after upgrade {number}"
            );
            // A purge while both processes may receive requests.
            let run = site.runs("/edited/");
            site.purge(&["--prefix", "/edited"]);
            let edited = run_of(&site.get("/edited/").expect_status(200).text());
            assert!(edited > run, "run {edited} after purge {number}");
            wait_for("the old process to exit", TIMEOUT, || !is_alive(before));
        }
    });
    assert!(
        responses > upgrades && connections > upgrades,
        "{responses} responses, {connections} connections"
    );
    assert!(site.get("/cached/").is_hit());
    // Generated once for each scheme, by the first process.
    assert_eq!(site.runs("/cached/"), 2);
}

#[test]
fn pages_and_purges_are_handed_over_without_a_disk_cache() {
    let site = page().start();
    let serving = Serving::new(&site);
    site.get("/cached/").assert_status(200);
    site.purge(&["--prefix", "/cached"]);
    assert_eq!(serving.upgrade()["pages"].as_u64(), Some(0));
    // As long as both processes run, each stores pages separately.
    wait_for("the old process to exit", TIMEOUT, || {
        !is_alive(site.galley.pid())
    });
    assert!(!site.get("/cached/").is_hit());
    assert!(site.get("/cached/").is_hit());
    assert!(serving.upgrade()["pages"].as_u64().unwrap() >= 1);
    let page = site.get("/cached/");
    assert!(page.is_hit(), "{}", page.excerpt());
    site.purge(&["--all"]);
    assert!(!site.get("/cached/").is_hit());
}

#[test]
fn no_purged_page_is_served_during_repeated_upgrades() {
    for builder in [page(), page().disk()] {
        let site = builder.workers(4).start();
        let serving = Serving::new(&site);
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let order = std::sync::atomic::Ordering::Relaxed;
        std::thread::scope(|scope| {
            // Purges over a persistent connection, page requests over new ones.
            let purges = scope.spawn(|| {
                let mut connection = site.connect();
                let mut count = 0;
                while !is_over.load(order) {
                    let purge = with_host(Request::new("PURGE", "/cached/"));
                    let purged = connection.exchange(&purge).unwrap().expect_status(200);
                    let before = site.runs("/cached/");
                    let new = run_of(&site.get("/cached/").expect_status(200).text());
                    assert!(
                        new > before,
                        "run {new} was served after run {before} was purged"
                    );
                    if purged.field("connection") == Some("close") {
                        connection = site.connect();
                    }
                    count += 1;
                }
                count
            });
            for _ in 0..6 {
                if purges.is_finished() {
                    break;
                }
                serving.upgrade();
            }
            is_over.store(true, order);
            assert!(purges.join().unwrap() > 6);
        });
    }
}

#[test]
fn managed_php_keeps_its_processes_and_stops_with_the_last_server_process() {
    let site = SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 2")
        .file("index.php", TEST_PAGE)
        .file(
            "opcache.php",
            "<?php header('Cache-Control: no-store');\n\
             echo opcache_get_status(false)['opcache_statistics']['start_time'];",
        )
        .start();
    let serving = Serving::new(&site);
    site.get("/one").assert_status(200);
    let opcode_cache = site.get("/opcache.php").expect_status(200).text();
    let is_php_fpm = |(_, line): &(u32, String)| line.contains("php-fpm");
    let masters = children(site.galley.pid()).into_iter().filter(is_php_fpm);
    let masters: Vec<u32> = masters.map(|(pid, _)| pid).collect();
    assert_eq!(masters.len(), 1);
    let before = children(masters[0]);
    for _ in 0..2 {
        let old = serving.pid.get();
        assert_eq!(serving.upgrade()["pools"].as_u64(), Some(1));
        wait_for("the old process to exit", TIMEOUT, || !is_alive(old));
        let form = Request::form("/page", &[("a", "b")]);
        assert_eq!(site.send(form).status, 200);
        assert_eq!(children(masters[0]), before);
        let now = site.get("/opcache.php").expect_status(200).text();
        assert_eq!(now, opcode_cache, "the opcode cache was restarted");
    }
    // The current server process restarts a pool that it did not start itself.
    kill_process(pid(masters[0]), Signal::KILL).unwrap();
    let last = serving.pid.get();
    let restarted = || children(last).into_iter().find(is_php_fpm);
    wait_for("PHP to be restarted", TIMEOUT, || {
        restarted().is_some() && site.send(Request::form("/page", &[("a", "b")])).status == 200
    });
    let (new, _) = restarted().unwrap();
    drop(serving);
    assert!(!is_alive(last));
    wait_for("PHP to exit", TIMEOUT, || !is_alive(new));
}

#[test]
fn an_upgrade_is_aborted_if_the_new_process_does_not_start() {
    let site = page().disk().start();
    let serving = Serving::new(&site);
    site.get("/cached/").assert_status(200);
    let before = config(&site);
    let wrong = before.replace("[[site]]", "[[site]]\ncolour = 1");
    fs::write(site.galley.config(), wrong).unwrap();
    let output = site.galley.cli(&["upgrade"]).unwrap();
    assert_ne!(output.status.code(), Some(0));
    let aborted = || {
        let log = site.galley.log();
        log.matches("upgrade: this process continues").count()
    };
    wait_for("the first upgrade to be aborted", TIMEOUT, || {
        aborted() == 1
    });
    site.galley.signal(galley_testkit::Signal::USR2);
    wait_for("the second upgrade to be aborted", TIMEOUT, || {
        aborted() == 2
    });
    site.galley.wait_for_log("colour", TIMEOUT);
    fs::write(site.galley.config(), before).unwrap();
    assert!(site.get("/cached/").is_hit());
    site.purge(&["--all"]);
    assert!(!site.get("/cached/").is_hit());
    // The next upgrade succeeds.
    serving.upgrade();
    assert!(site.get("/cached/").is_hit());
}

#[test]
fn killing_either_process_during_an_upgrade_leaves_a_working_server() {
    kill_during_upgrades(4);
}

/// `make upgrades`. One process must serve requests 100 ms after the other was killed, which requires a quiet machine.
#[test]
#[ignore = "takes minutes and a quiet machine: the short form runs each time"]
fn a_hundred_kills_during_upgrades() {
    let longest = kill_during_upgrades(100);
    eprintln!("longest time from a kill to a response of the other process: {longest:?}");
    assert!(longest <= Duration::from_millis(100), "{longest:?}");
}

/// Kills one of the two processes during `kills` upgrades; returns the longest time until the other one served a request.
fn kill_during_upgrades(kills: usize) -> Duration {
    let mut longest = Duration::ZERO;
    let mut done = 0;
    for round in 0.. {
        if done == kills {
            break;
        }
        assert!(
            round < 10 * kills as u64,
            "only {done} kills in {round} upgrades were timely"
        );
        // A fixed port: if the old process dies early, the new process opens the sockets itself.
        let port = galley_testkit::free_port().unwrap();
        let listen = format!("listen = [\"127.0.0.1:{port}\"]");
        let site = page().disk().server(&listen).start();
        let serving = Serving::new(&site);
        site.get("/cached/").assert_status(200);
        let old = site.galley.pid();
        site.galley.signal(galley_testkit::Signal::USR2);
        // Kill at different times of the upgrade, in a mixed order.
        std::thread::sleep(Duration::from_millis(round * 37 % 90));
        let new = successor(&site, old);
        let kills_old = round % 2 == 0;
        // Skip the round if the new process does not exist yet.
        let (killed, other) = match new {
            Some(new) if kills_old => (old, new),
            Some(new) => (new, old),
            None => continue,
        };
        serving.pid.set(other);
        let killed_at = Instant::now();
        let _ = kill_process(pid(killed), Signal::KILL);
        let mut is_over = false;
        wait_for("one process to serve", TIMEOUT, || {
            let response = with_host(Request::get("/cached/")).send(site.addr());
            let serves = response.is_ok_and(|response| response.status == 200);
            // The upgrade was already complete: the old process had exited.
            is_over = !kills_old
                && site.galley.log().contains("another process has taken over")
                && !is_alive(site.galley.pid());
            is_over || serves
        });
        if is_over {
            continue;
        }
        longest = longest.max(killed_at.elapsed());
        done += 1;
        // The admin interface may be available slightly later.
        wait_for("a purge to be acknowledged", TIMEOUT, || {
            let purged = site.galley.cli(&["purge", "--all"]).unwrap();
            purged.status.code() == Some(0)
        });
        let before = site.runs("/cached/");
        let run = run_of(&site.get("/cached/").expect_status(200).text());
        assert!(
            run > before,
            "round {round}: run {run} was served after run {before} was purged"
        );
    }
    longest
}

/// The new process that `old` has started, if it exists.
fn successor(site: &TestSite, old: u32) -> Option<u32> {
    let config = site.galley.config().display().to_string();
    let mut processes = children(old).into_iter();
    processes
        .find(|(_, line)| line.contains(&config) && line.contains("run"))
        .map(|(pid, _)| pid)
}
