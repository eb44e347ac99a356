//! `galley upgrade`: another process goes on with the sockets, the pages, the purges and the PHP of this one.

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

/// Pages that every upgrade hands over.
const STORED: u64 = 60;

fn run_of(text: &str) -> usize {
    let number = text.split("run=").nth(1).unwrap().lines().next().unwrap();
    number.parse().unwrap()
}

#[test]
fn upgrades_under_load_fail_no_request_and_keep_the_pages() {
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
    site.get("/kept/").assert_status(200);
    let stored: Vec<String> = (0..STORED).map(|n| format!("/stored/{n}/")).collect();
    let storable = ["Content-Type: text/html", "Cache-Control: max-age=3600"];
    for target in stored.iter().map(String::as_str).chain(["/edited/"]) {
        site.head(target, &storable);
        site.get(target).assert_status(200);
    }
    let serving = Serving::new(&site);
    let (answered, reconnected) = under_load(&site, &authority, || {
        for number in 0..upgrades {
            let before = serving.pid.get();
            let said = serving.upgrade();
            assert_ne!(serving.pid.get(), before);
            let pages = said["pages"].as_u64().unwrap();
            assert!(pages >= STORED, "upgrade {number}: {said}");
            let hits = stored.iter().filter(|page| site.get(page).is_hit());
            assert_eq!(hits.count() as u64, STORED, "hits after upgrade {number}");
            // An edit while both processes may answer.
            let run = site.runs("/edited/");
            site.purge(&["--prefix", "/edited"]);
            let edited = run_of(&site.get("/edited/").expect_status(200).text());
            assert!(edited > run, "run {edited} after edit {number}");
            wait_for("the process before to end", TIMEOUT, || !is_alive(before));
        }
    });
    assert!(
        answered > upgrades && reconnected > upgrades,
        "{answered} {reconnected}"
    );
    assert!(site.get("/kept/").is_hit());
    // Once for each scheme, in the first process.
    assert_eq!(site.runs("/kept/"), 2);
}

#[test]
fn pages_of_a_server_without_a_disk_go_on_and_so_do_its_purges() {
    let site = page().start();
    let serving = Serving::new(&site);
    site.get("/kept/").assert_status(200);
    site.purge(&["--prefix", "/kept"]);
    assert_eq!(serving.upgrade()["pages"].as_u64(), Some(0));
    // Until then each of both stores for itself.
    wait_for("the process before to end", TIMEOUT, || {
        !is_alive(site.galley.pid())
    });
    assert!(!site.get("/kept/").is_hit());
    assert!(site.get("/kept/").is_hit());
    assert!(serving.upgrade()["pages"].as_u64().unwrap() >= 1);
    let kept = site.get("/kept/");
    assert!(kept.is_hit(), "{}", kept.beginning());
    site.purge(&["--all"]);
    assert!(!site.get("/kept/").is_hit());
}

#[test]
fn pages_after_purges_are_new_while_upgrades_go_on() {
    for plan in [page(), page().disk()] {
        let site = plan.workers(4).start();
        let serving = Serving::new(&site);
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let order = std::sync::atomic::Ordering::Relaxed;
        std::thread::scope(|scope| {
            // Both a connection that outlives processes and new ones.
            let purges = scope.spawn(|| {
                let mut kept = site.connect();
                let mut count = 0;
                while !is_over.load(order) {
                    let purge = with_host(Request::new("PURGE", "/kept/"));
                    let purged = kept.exchange(&purge).unwrap().expect_status(200);
                    let before = site.runs("/kept/");
                    let new = run_of(&site.get("/kept/").expect_status(200).text());
                    assert!(new > before, "run {new} after {before} were purged");
                    if purged.field("connection") == Some("close") {
                        kept = site.connect();
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
fn managed_php_goes_on_with_its_processes_and_ends_with_the_last_galley() {
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
    let of_php = |(_, line): &(u32, String)| line.contains("php-fpm");
    let masters = children(site.galley.pid()).into_iter().filter(of_php);
    let masters: Vec<u32> = masters.map(|(pid, _)| pid).collect();
    assert_eq!(masters.len(), 1);
    let before = children(masters[0]);
    for _ in 0..2 {
        let old = serving.pid.get();
        assert_eq!(serving.upgrade()["pools"].as_u64(), Some(1));
        wait_for("the process before to end", TIMEOUT, || !is_alive(old));
        let form = Request::form("/page", &[("a", "b")]);
        assert_eq!(site.send(form).status, 200);
        assert_eq!(children(masters[0]), before);
        let now = site.get("/opcache.php").expect_status(200).text();
        assert_eq!(now, opcode_cache, "the opcode cache began anew");
    }
    // One that dies is started again, by a process that did not start it.
    kill_process(pid(masters[0]), Signal::KILL).unwrap();
    let last = serving.pid.get();
    let started = || children(last).into_iter().find(of_php);
    wait_for("PHP to be started again", TIMEOUT, || {
        started().is_some() && site.send(Request::form("/page", &[("a", "b")])).status == 200
    });
    let (new, _) = started().unwrap();
    drop(serving);
    assert!(!is_alive(last));
    wait_for("PHP to end", TIMEOUT, || !is_alive(new));
}

#[test]
fn a_new_process_that_does_not_start_changes_nothing() {
    let site = page().disk().start();
    let serving = Serving::new(&site);
    site.get("/kept/").assert_status(200);
    let before = config(&site);
    let wrong = before.replace("[[site]]", "[[site]]\ncolour = 1");
    fs::write(site.galley.config(), wrong).unwrap();
    let output = site.galley.cli(&["upgrade"]).unwrap();
    // The command reads the file, too.
    assert_ne!(output.status.code(), Some(0));
    site.galley.signal(galley_testkit::Signal::USR2);
    site.galley
        .wait_for_log("upgrade: this process continues", TIMEOUT);
    site.galley.wait_for_log("colour", TIMEOUT);
    fs::write(site.galley.config(), before).unwrap();
    assert!(site.get("/kept/").is_hit());
    site.purge(&["--all"]);
    assert!(!site.get("/kept/").is_hit());
    // And the next one starts.
    serving.upgrade();
    assert!(site.get("/kept/").is_hit());
}

#[test]
fn a_process_that_is_killed_at_any_moment_of_an_upgrade_leaves_one_that_serves() {
    killed_while_upgrading(4);
}

/// `make upgrades`. A process has to serve 100 ms after the other was killed, which only a quiet machine can show.
#[test]
#[ignore = "takes minutes and a quiet machine: the short form runs each time"]
fn a_hundred_kills_while_upgrading() {
    let longest = killed_while_upgrading(100);
    eprintln!("a process served at most {longest:?} after the other was killed");
    assert!(longest <= Duration::from_millis(100), "{longest:?}");
}

/// Kills one of both processes in `kills` upgrades that were not over yet. The longest time until the other served.
fn killed_while_upgrading(kills: usize) -> Duration {
    let mut longest = Duration::ZERO;
    let mut done = 0;
    for round in 0.. {
        if done == kills {
            break;
        }
        assert!(
            round < 10 * kills as u64,
            "{done} kills in {round} upgrades: too late or too early"
        );
        // A port that another process finds again: one that was started by a process that died early opens its own sockets.
        let port = galley_testkit::free_port().unwrap();
        let listen = format!("listen = [\"127.0.0.1:{port}\"]");
        let site = page().disk().server(&listen).start();
        let serving = Serving::new(&site);
        site.get("/kept/").assert_status(200);
        let old = site.galley.pid();
        site.galley.signal(galley_testkit::Signal::USR2);
        // Spread over the moments of an upgrade, in an order without a pattern.
        std::thread::sleep(Duration::from_millis(round * 37 % 90));
        let new = successor(&site, old);
        let kills_old = round % 2 == 0;
        // Before there is another process there is nothing to be killed.
        let (killed, other) = match new {
            Some(new) if kills_old => (old, new),
            Some(new) => (new, old),
            None => continue,
        };
        serving.pid.set(other);
        let at = Instant::now();
        let _ = kill_process(pid(killed), Signal::KILL);
        let mut is_over = false;
        wait_for("one process to serve", TIMEOUT, || {
            let asked = with_host(Request::get("/kept/")).send(site.addr());
            let serves = asked.is_ok_and(|response| response.status == 200);
            // The old process had answered everything, and has ended.
            is_over = !kills_old
                && site.galley.log().contains("another process has taken over")
                && !is_alive(site.galley.pid());
            is_over || serves
        });
        if is_over {
            continue;
        }
        longest = longest.max(at.elapsed());
        done += 1;
        // The admin interface may need a moment longer.
        wait_for("a purge to be acknowledged", TIMEOUT, || {
            let purged = site.galley.cli(&["purge", "--all"]).unwrap();
            purged.status.code() == Some(0)
        });
        let before = site.runs("/kept/");
        let run = run_of(&site.get("/kept/").expect_status(200).text());
        assert!(
            run > before,
            "round {round}: run {run} after {before} were purged"
        );
    }
    longest
}

/// The process that `old` has started, if there is one by now.
fn successor(site: &TestSite, old: u32) -> Option<u32> {
    let config = site.galley.config().display().to_string();
    let mut found = children(old).into_iter();
    found
        .find(|(_, line)| line.contains(&config) && line.contains("run"))
        .map(|(pid, _)| pid)
}
