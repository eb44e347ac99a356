//! Scheduled tasks: Galley's requests for `wp-cron.php`, the purges in their responses, and their independence of client requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use galley_testkit::client::Request;
use galley_testkit::origin::{Gate, Origin, ReceivedRequest, ResponseWriter};
use galley_testkit::wait_for;

use crate::support::{AssertStatus, HOST, SiteBuilder, TIMEOUT, TestSite, with_host};

const TARGET: &str = "/wp-cron.php?doing_wp_cron";
const EVERY_SECOND: &str = "cron = \"1s\"";

/// A scheduler that counts its runs, responds, and continues to run until the note `leave` exists.
const SCHEDULER: &str = r#"<?php
$notes = __DIR__ . '/../notes';
file_put_contents("$notes/begun", '.', FILE_APPEND | LOCK_EX);
fastcgi_finish_request();
for ($i = 0; $i < 10000 && !file_exists("$notes/leave"); $i++) {
    clearstatcache();
    usleep(2000);
}
"#;

/// The number of runs that the scheduler has started.
fn started_runs(site: &TestSite) -> usize {
    std::fs::read(site.notes().join("begun")).map_or(0, |text| text.len())
}

/// The requests for `wp-cron.php`.
fn cron_requests(origin: &Origin) -> Vec<ReceivedRequest> {
    let requests = origin.requests().into_iter();
    requests
        .filter(|request| request.target == TARGET)
        .collect()
}

/// Waits for three seconds of server time, in which further runs could start.
fn wait_three_seconds(site: &TestSite) {
    let end = site.status_number("uptime_s") + 3;
    wait_for("three seconds", TIMEOUT, || {
        site.status_number("uptime_s") >= end
    });
}

#[test]
fn a_run_is_requested_by_galley_and_purges_in_its_response_are_applied() {
    let origin = Origin::start(
        |request: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
            if request.target == TARGET {
                writer.respond(200, &[("Galley-Purge", "/page/")], b"");
            } else {
                writer.respond(200, &[("Cache-Control", "max-age=3600")], b"a page");
            }
        },
    )
    .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .site(EVERY_SECOND)
        .start();
    site.get("/page/").assert_status(200);
    site.get("/other/").assert_status(200);
    wait_for("the page to be purged", TIMEOUT, || {
        !site.get("/page/").is_hit()
    });
    assert!(site.get("/other/").is_hit());
    let run = cron_requests(&origin).remove(0);
    assert_eq!(run.method, "GET");
    assert_eq!(run.field("host"), Some(HOST));
    assert_eq!(run.field("galley-cron"), Some("run"));
    assert_eq!(run.field("x-forwarded-for"), Some("127.0.0.1"));
}

#[test]
fn runs_do_not_overlap_and_missed_runs_are_not_repeated() {
    let (origin, gate) = Origin::gated(|gate, request, writer| {
        if request.target == TARGET {
            gate.pass();
        }
        writer.respond(200, &[], b"");
    })
    .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .site(EVERY_SECOND)
        .start();
    gate.wait_for_arrivals(1);
    wait_three_seconds(&site);
    assert_eq!(cron_requests(&origin).len(), 1);
    assert!(site.status().contains("\"running\":true"));
    gate.open();
    wait_for("the next run", TIMEOUT, || cron_requests(&origin).len() > 1);
}

#[test]
fn a_run_lasts_until_php_finishes_after_its_response() {
    let site = SiteBuilder::php()
        .file("wp-cron.php", SCHEDULER)
        .site(EVERY_SECOND)
        .start();
    wait_for("a run", TIMEOUT, || started_runs(&site) == 1);
    wait_three_seconds(&site);
    assert_eq!(started_runs(&site), 1);
    assert_eq!(site.status_number("runs"), 0, "{}", site.status());
    site.note("leave", "");
    wait_for("the next run", TIMEOUT, || started_runs(&site) > 1);
    wait_for("its completion", TIMEOUT, || site.status_number("runs") > 1);
}

#[test]
fn runs_and_client_requests_do_not_use_each_others_slots() {
    let site = SiteBuilder::php()
        .workers(2)
        .file("wp-cron.php", SCHEDULER)
        .site(&format!("{EVERY_SECOND}\nin_flight = 1\nqueue = 0"))
        .start();
    wait_for("a run", TIMEOUT, || started_runs(&site) == 1);
    // The run occupies a worker, but not the slot for client requests.
    site.hold("/held/");
    let mut held = site.start_request("/held/");
    site.wait_until_held("/held/");
    site.note("leave", "");
    // A client request occupies the slot, and runs continue.
    wait_for("further runs", TIMEOUT, || started_runs(&site) > 2);
    site.get("/another/").assert_status(503);
    site.release("/held/");
    held.receive("GET").unwrap().assert_status(200);
}

#[test]
fn failed_runs_are_logged_once_and_wordpress_runs_its_own_cron_until_they_succeed() {
    let is_healthy = Arc::new(AtomicBool::new(false));
    let healthy = Arc::clone(&is_healthy);
    let origin = Origin::start(
        move |request: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
            let fails = request.target == TARGET && !healthy.load(Ordering::Relaxed);
            writer.respond(if fails { 500 } else { 200 }, &[], b"");
        },
    )
    .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .site(EVERY_SECOND)
        .start();
    // The `Galley-Cron` value that the origin receives with a client request. Galley must not forward the client's own value.
    let forwarded = |path: &str| {
        site.send(Request::get(path).field("Galley-Cron", "kept"))
            .assert_status(200);
        let mut requests = origin.requests().into_iter();
        let request = requests.rfind(|request| request.path() == path);
        request.unwrap().field("galley-cron").map(str::to_owned)
    };
    assert_eq!(forwarded("/before/"), None);
    wait_for("failures", TIMEOUT, || site.status_number("failures") > 1);
    assert_eq!(forwarded("/failing/"), None);
    is_healthy.store(true, Ordering::Relaxed);
    site.galley
        .wait_for_log("scheduled tasks run again", TIMEOUT);
    for path in ["/after/", "/wp-login.php"] {
        assert_eq!(forwarded(path).as_deref(), Some("kept"), "{path}");
    }
    let log = site.galley.log();
    assert_eq!(log.matches("scheduled tasks failed").count(), 1, "{log}");
    assert!(log.contains("responded with status 500"), "{log}");
}

#[test]
fn a_missing_wp_cron_php_is_logged_and_no_page_runs_in_its_place() {
    let site = SiteBuilder::php().site(EVERY_SECOND).start();
    let message = "there is no `/wp-cron.php` below the root";
    site.galley.wait_for_log(message, TIMEOUT);
    assert_eq!(site.runs("/wp-cron.php"), 0);
}

#[test]
fn cron_off_disables_runs() {
    let site = SiteBuilder::php()
        .file("wp-cron.php", SCHEDULER)
        .site("cron = \"off\"")
        .start();
    wait_three_seconds(&site);
    assert!(site.status().contains("\"cron\":null"), "{}", site.status());
    assert_eq!(started_runs(&site), 0);
}

/// An upstream that announces the time of the next event with each page and each run.
fn announcing_origin(milliseconds: &'static str) -> Origin {
    Origin::start(
        move |request: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
            if request.target.starts_with("/quiet/") {
                writer.respond(200, &[], b"");
            } else {
                writer.respond(200, &[("Galley-Cron", milliseconds)], b"");
            }
        },
    )
    .unwrap()
}

#[test]
fn an_announced_event_runs_on_time_and_its_field_is_not_sent_to_clients() {
    let origin = announcing_origin("1500");
    let site = SiteBuilder::origin(&origin, "wordpress")
        .site("cron = \"1h\"")
        .start();
    site.get("/quiet/").assert_status(200);
    wait_three_seconds(&site);
    assert_eq!(cron_requests(&origin).len(), 0, "no event is announced");
    let started = std::time::Instant::now();
    let page = site.get("/page/");
    page.assert_status(200);
    assert!(!page.has("galley-cron"), "{}", page.excerpt());
    wait_for("the run", TIMEOUT, || cron_requests(&origin).len() == 1);
    assert!(
        started.elapsed().as_millis() >= 1500,
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn announced_events_do_not_shorten_the_minimum_interval_between_runs() {
    let origin = announcing_origin("0,1,2,3,0,0,0,0,0,0,0,0");
    let site = SiteBuilder::origin(&origin, "wordpress")
        .site("cron = \"1h\"")
        .start();
    site.get("/page/").assert_status(200);
    wait_for("the run", TIMEOUT, || cron_requests(&origin).len() == 1);
    // The run announces further events that are due immediately.
    wait_three_seconds(&site);
    assert_eq!(cron_requests(&origin).len(), 1);
    wait_for("the next run", TIMEOUT, || {
        cron_requests(&origin).len() == 2
    });
}

#[test]
fn a_page_generated_before_an_event_was_scheduled_does_not_cancel_it() {
    let gate = Arc::new(Gate::new());
    let held = Arc::clone(&gate);
    let origin = Origin::start(
        move |request: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
            let due = match request.path() {
                "/slow/" => {
                    held.pass();
                    "3000000"
                }
                "/save/" => "1500,3000000",
                _ => "none",
            };
            writer.respond(200, &[("Galley-Cron", due)], b"");
        },
    )
    .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .site("cron = \"1h\"")
        .start();
    let mut slow = site.connect();
    slow.send(&with_host(Request::get("/slow/"))).unwrap();
    gate.wait_for_arrivals(1);
    let save = Request::post("/save/", "text/plain", "post");
    site.send(save).assert_status(200);
    gate.open();
    slow.receive("GET").unwrap().assert_status(200);
    wait_for("the run", TIMEOUT, || cron_requests(&origin).len() == 1);
}
