//! Scheduled tasks: Galley's own requests for `wp-cron.php`, what they order, and what they must never hold up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use galley_testkit::client::Request;
use galley_testkit::origin::{Gate, Origin, ReceivedRequest, ResponseWriter};
use galley_testkit::wait_for;

use crate::support::{AssertStatus, HOST, SiteBuilder, TIMEOUT, TestSite, with_host};

const TARGET: &str = "/wp-cron.php?doing_wp_cron";
const OFTEN: &str = "cron = \"1s\"";

/// A scheduler that counts its runs, answers, and works on until it is let go.
const SCHEDULER: &str = r#"<?php
$notes = __DIR__ . '/../notes';
file_put_contents("$notes/begun", '.', FILE_APPEND | LOCK_EX);
fastcgi_finish_request();
for ($i = 0; $i < 10000 && !file_exists("$notes/leave"); $i++) {
    clearstatcache();
    usleep(2000);
}
"#;

fn begun(site: &TestSite) -> usize {
    std::fs::read(site.notes().join("begun")).map_or(0, |text| text.len())
}

fn requests(origin: &Origin) -> Vec<ReceivedRequest> {
    let seen = origin.requests().into_iter();
    seen.filter(|seen| seen.target == TARGET).collect()
}

/// Gives the next runs a chance to begin, if they would.
fn let_beats_pass(site: &TestSite) {
    let then = site.status_number("uptime_s") + 3;
    wait_for("three beats", TIMEOUT, || {
        site.status_number("uptime_s") >= then
    });
}

#[test]
fn the_purges_of_a_run_are_published_and_its_request_is_galleys_own() {
    let origin = Origin::start(|seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
        if seen.target == TARGET {
            writer.answer(200, &[("Galley-Purge", "/page/")], b"");
        } else {
            writer.answer(200, &[("Cache-Control", "max-age=3600")], b"a page");
        }
    })
    .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .site(OFTEN)
        .start();
    site.get("/page/").assert_status(200);
    site.get("/other/").assert_status(200);
    wait_for("the page to be purged", TIMEOUT, || {
        !site.get("/page/").is_hit()
    });
    assert!(site.get("/other/").is_hit());
    let run = requests(&origin).remove(0);
    let says = |name: &str| run.field(name).map(str::to_owned);
    assert_eq!(run.method, "GET");
    assert_eq!(says("host").as_deref(), Some(HOST));
    assert_eq!(says("galley-cron").as_deref(), Some("run"));
    assert_eq!(says("x-forwarded-for").as_deref(), Some("127.0.0.1"));
}

#[test]
fn one_run_at_a_time_and_none_more_when_it_is_late() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(
        move |seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
            if seen.target == TARGET {
                held.pass();
            }
            writer.answer(200, &[], b"");
        },
    )
    .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .site(OFTEN)
        .start();
    gate.wait_for_arrivals(1);
    let_beats_pass(&site);
    assert_eq!(requests(&origin).len(), 1);
    assert!(site.status().contains("\"running\":true"));
    gate.open();
    wait_for("the next run", TIMEOUT, || requests(&origin).len() > 1);
}

#[test]
fn php_that_works_on_after_its_answer_is_waited_for() {
    let site = SiteBuilder::php()
        .file("wp-cron.php", SCHEDULER)
        .site(OFTEN)
        .start();
    wait_for("a run", TIMEOUT, || begun(&site) == 1);
    let_beats_pass(&site);
    assert_eq!(begun(&site), 1);
    assert_eq!(site.status_number("runs"), 0, "{}", site.status());
    site.note("leave", "");
    wait_for("the next run", TIMEOUT, || begun(&site) > 1);
    wait_for("its end", TIMEOUT, || site.status_number("runs") > 1);
}

#[test]
fn runs_and_visitors_do_not_take_each_others_place() {
    let site = SiteBuilder::php()
        .workers(2)
        .file("wp-cron.php", SCHEDULER)
        .site(&format!("{OFTEN}\nin_flight = 1\nqueue = 0"))
        .start();
    wait_for("a run", TIMEOUT, || begun(&site) == 1);
    // It holds a worker now, and the one place is still a visitor's.
    site.hold("/held/");
    let mut held = site.start_request("/held/");
    site.wait_until_held("/held/");
    site.note("leave", "");
    // And now a visitor has it, and the runs go on.
    wait_for("further runs", TIMEOUT, || begun(&site) > 2);
    site.get("/another/").assert_status(503);
    site.release("/held/");
    held.receive("GET").unwrap().assert_status(200);
}

#[test]
fn a_failing_upstream_is_logged_once_and_wordpress_runs_its_tasks_meanwhile() {
    let is_well = Arc::new(AtomicBool::new(false));
    let well = Arc::clone(&is_well);
    let origin = Origin::start(
        move |seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
            let fails = seen.target == TARGET && !well.load(Ordering::Relaxed);
            writer.answer(if fails { 500 } else { 200 }, &[], b"");
        },
    )
    .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .site(OFTEN)
        .start();
    // Nobody has run them yet, and a visitor cannot say otherwise.
    let claim = |path: &str| {
        site.send(Request::get(path).field("Galley-Cron", "kept"))
            .assert_status(200);
        let seen = origin
            .requests()
            .into_iter()
            .rfind(|seen| seen.path() == path);
        seen.unwrap().field("galley-cron").map(str::to_owned)
    };
    assert_eq!(claim("/before/"), None);
    wait_for("failures", TIMEOUT, || site.status_number("failures") > 1);
    assert_eq!(claim("/meanwhile/"), None);
    is_well.store(true, Ordering::Relaxed);
    site.galley
        .wait_for_log("scheduled tasks run again", TIMEOUT);
    for path in ["/after/", "/wp-login.php"] {
        assert_eq!(claim(path).as_deref(), Some("kept"), "{path}");
    }
    let log = site.galley.log();
    assert_eq!(log.matches("scheduled tasks failed").count(), 1, "{log}");
    assert!(log.contains("responded with status 500"), "{log}");
}

#[test]
fn a_root_without_a_scheduler_is_reported_and_no_page_runs_instead() {
    let site = SiteBuilder::php().site(OFTEN).start();
    let words = "there is no `/wp-cron.php` below the root";
    site.galley.wait_for_log(words, TIMEOUT);
    assert_eq!(site.runs("/wp-cron.php"), 0);
}

#[test]
fn off_is_off() {
    let site = SiteBuilder::php()
        .file("wp-cron.php", SCHEDULER)
        .site("cron = \"off\"")
        .start();
    let_beats_pass(&site);
    assert!(site.status().contains("\"cron\":null"), "{}", site.status());
    assert_eq!(begun(&site), 0);
}

/// An upstream that announces an appointment with each page, and with each run.
fn announcing(milliseconds: &'static str) -> Origin {
    Origin::start(
        move |seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
            if seen.target.starts_with("/quiet/") {
                writer.answer(200, &[], b"");
            } else {
                writer.answer(200, &[("Galley-Cron", milliseconds)], b"");
            }
        },
    )
    .unwrap()
}

#[test]
fn an_announced_appointment_is_kept_at_its_second_and_stays_inside() {
    let origin = announcing("1500");
    let site = SiteBuilder::origin(&origin, "wordpress")
        .site("cron = \"1h\"")
        .start();
    site.get("/quiet/").assert_status(200);
    let_beats_pass(&site);
    assert_eq!(requests(&origin).len(), 0, "nothing is announced");
    let began = std::time::Instant::now();
    let page = site.get("/page/");
    page.assert_status(200);
    assert!(!page.has("galley-cron"), "{}", page.beginning());
    wait_for("the run", TIMEOUT, || requests(&origin).len() == 1);
    assert!(began.elapsed().as_millis() >= 1500, "{:?}", began.elapsed());
}

#[test]
fn whatever_is_announced_runs_keep_a_distance() {
    let origin = announcing("0,1,2,3,0,0,0,0,0,0,0,0");
    let site = SiteBuilder::origin(&origin, "wordpress")
        .site("cron = \"1h\"")
        .start();
    site.get("/page/").assert_status(200);
    wait_for("the run", TIMEOUT, || requests(&origin).len() == 1);
    // It announces the next at once.
    let_beats_pass(&site);
    assert_eq!(requests(&origin).len(), 1);
    wait_for("the next run", TIMEOUT, || requests(&origin).len() == 2);
}

#[test]
fn a_page_that_began_before_a_post_was_scheduled_announces_nothing_away() {
    let gate = Arc::new(Gate::new());
    let held = Arc::clone(&gate);
    let origin = Origin::start(
        move |seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
            let due = match seen.path() {
                "/slow/" => {
                    held.pass();
                    "3000000"
                }
                "/save/" => "1500,3000000",
                _ => "none",
            };
            writer.answer(200, &[("Galley-Cron", due)], b"");
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
    wait_for("the run", TIMEOUT, || requests(&origin).len() == 1);
}
