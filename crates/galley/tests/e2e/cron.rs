//! Scheduled tasks: Galley's own requests for `wp-cron.php`, what they order, and what they must never hold up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use galley_testkit::client::Request;
use galley_testkit::origin::{Gate, Origin, Seen, Wire};
use galley_testkit::wait_for;

use crate::support::{HOST, Is, PATIENCE, Plan, Stage, hosted};

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

fn begun(stage: &Stage) -> usize {
    std::fs::read(stage.notes().join("begun")).map_or(0, |text| text.len())
}

fn asked(origin: &Origin) -> Vec<Seen> {
    let seen = origin.seen().into_iter();
    seen.filter(|seen| seen.target == TARGET).collect()
}

/// Gives the next runs a chance to begin, if they would.
fn let_beats_pass(stage: &Stage) {
    let then = stage.status_number("uptime_s") + 3;
    wait_for("three beats", PATIENCE, || {
        stage.status_number("uptime_s") >= then
    });
}

#[test]
fn the_purges_of_a_run_are_published_and_its_request_is_galleys_own() {
    let origin = Origin::start(|seen: &Seen, wire: &mut Wire<'_>| {
        if seen.target == TARGET {
            wire.answer(200, &[("Galley-Purge", "/page/")], b"");
        } else {
            wire.answer(200, &[("Cache-Control", "max-age=3600")], b"a page");
        }
    })
    .unwrap();
    let stage = Plan::origin(&origin, "wordpress").site(OFTEN).start();
    stage.get("/page/").is(200);
    stage.get("/other/").is(200);
    wait_for("the page to be purged", PATIENCE, || {
        !stage.get("/page/").is_hit()
    });
    assert!(stage.get("/other/").is_hit());
    let run = asked(&origin).remove(0);
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
    let origin = Origin::start(move |seen: &Seen, wire: &mut Wire<'_>| {
        if seen.target == TARGET {
            held.pass();
        }
        wire.answer(200, &[], b"");
    })
    .unwrap();
    let stage = Plan::origin(&origin, "wordpress").site(OFTEN).start();
    gate.wait_for_arrivals(1);
    let_beats_pass(&stage);
    assert_eq!(asked(&origin).len(), 1);
    assert!(stage.status().contains("\"running\":true"));
    gate.open();
    wait_for("the next run", PATIENCE, || asked(&origin).len() > 1);
}

#[test]
fn php_that_works_on_after_its_answer_is_waited_for() {
    let stage = Plan::php()
        .file("wp-cron.php", SCHEDULER)
        .site(OFTEN)
        .start();
    wait_for("a run", PATIENCE, || begun(&stage) == 1);
    let_beats_pass(&stage);
    assert_eq!(begun(&stage), 1);
    assert_eq!(stage.status_number("runs"), 0, "{}", stage.status());
    stage.note("leave", "");
    wait_for("the next run", PATIENCE, || begun(&stage) > 1);
    wait_for("its end", PATIENCE, || stage.status_number("runs") > 1);
}

#[test]
fn runs_and_visitors_do_not_take_each_others_place() {
    let stage = Plan::php()
        .workers(2)
        .file("wp-cron.php", SCHEDULER)
        .site(&format!("{OFTEN}\nin_flight = 1\nqueue = 0"))
        .start();
    wait_for("a run", PATIENCE, || begun(&stage) == 1);
    // It holds a worker now, and the one place is still a visitor's.
    stage.hold("/held/");
    let mut held = stage.begin("/held/");
    stage.wait_until_held("/held/");
    stage.note("leave", "");
    // And now a visitor has it, and the runs go on.
    wait_for("further runs", PATIENCE, || begun(&stage) > 2);
    stage.get("/another/").is(503);
    stage.release("/held/");
    held.receive("GET").unwrap().is(200);
}

#[test]
fn a_failing_upstream_is_logged_once_and_wordpress_runs_its_tasks_meanwhile() {
    let is_well = Arc::new(AtomicBool::new(false));
    let well = Arc::clone(&is_well);
    let origin = Origin::start(move |seen: &Seen, wire: &mut Wire<'_>| {
        let fails = seen.target == TARGET && !well.load(Ordering::Relaxed);
        wire.answer(if fails { 500 } else { 200 }, &[], b"");
    })
    .unwrap();
    let stage = Plan::origin(&origin, "wordpress").site(OFTEN).start();
    // Nobody has run them yet, and a visitor cannot say otherwise.
    let claim = |path: &str| {
        stage
            .ask(Request::get(path).field("Galley-Cron", "kept"))
            .is(200);
        let seen = origin.seen().into_iter().rfind(|seen| seen.path() == path);
        seen.unwrap().field("galley-cron").map(str::to_owned)
    };
    assert_eq!(claim("/before/"), None);
    wait_for("failures", PATIENCE, || stage.status_number("failures") > 1);
    assert_eq!(claim("/meanwhile/"), None);
    is_well.store(true, Ordering::Relaxed);
    stage
        .galley
        .wait_for_log("scheduled tasks run again", PATIENCE);
    for path in ["/after/", "/wp-login.php"] {
        assert_eq!(claim(path).as_deref(), Some("kept"), "{path}");
    }
    let log = stage.galley.log();
    assert_eq!(log.matches("scheduled tasks failed").count(), 1, "{log}");
    assert!(log.contains("responded with status 500"), "{log}");
}

#[test]
fn a_root_without_a_scheduler_is_reported_and_no_page_runs_instead() {
    let stage = Plan::php().site(OFTEN).start();
    let words = "there is no `/wp-cron.php` below the root";
    stage.galley.wait_for_log(words, PATIENCE);
    assert_eq!(stage.runs("/wp-cron.php"), 0);
}

#[test]
fn off_is_off() {
    let stage = Plan::php()
        .file("wp-cron.php", SCHEDULER)
        .site("cron = \"off\"")
        .start();
    let_beats_pass(&stage);
    assert!(
        stage.status().contains("\"cron\":null"),
        "{}",
        stage.status()
    );
    assert_eq!(begun(&stage), 0);
}

/// An upstream that announces an appointment with each page, and with each run.
fn announcing(milliseconds: &'static str) -> Origin {
    Origin::start(move |seen: &Seen, wire: &mut Wire<'_>| {
        if seen.target.starts_with("/quiet/") {
            wire.answer(200, &[], b"");
        } else {
            wire.answer(200, &[("Galley-Cron", milliseconds)], b"");
        }
    })
    .unwrap()
}

#[test]
fn an_announced_appointment_is_kept_at_its_second_and_stays_inside() {
    let origin = announcing("1500");
    let stage = Plan::origin(&origin, "wordpress")
        .site("cron = \"1h\"")
        .start();
    stage.get("/quiet/").is(200);
    let_beats_pass(&stage);
    assert_eq!(asked(&origin).len(), 0, "nothing is announced");
    let began = std::time::Instant::now();
    let page = stage.get("/page/");
    page.is(200);
    assert!(!page.has("galley-cron"), "{}", page.beginning());
    wait_for("the run", PATIENCE, || asked(&origin).len() == 1);
    assert!(began.elapsed().as_millis() >= 1500, "{:?}", began.elapsed());
}

#[test]
fn whatever_is_announced_runs_keep_a_distance() {
    let origin = announcing("0,1,2,3,0,0,0,0,0,0,0,0");
    let stage = Plan::origin(&origin, "wordpress")
        .site("cron = \"1h\"")
        .start();
    stage.get("/page/").is(200);
    wait_for("the run", PATIENCE, || asked(&origin).len() == 1);
    // It announces the next at once.
    let_beats_pass(&stage);
    assert_eq!(asked(&origin).len(), 1);
    wait_for("the next run", PATIENCE, || asked(&origin).len() == 2);
}

#[test]
fn a_page_that_began_before_a_post_was_scheduled_announces_nothing_away() {
    let gate = Arc::new(Gate::new());
    let held = Arc::clone(&gate);
    let origin = Origin::start(move |seen: &Seen, wire: &mut Wire<'_>| {
        let due = match seen.path() {
            "/slow/" => {
                held.pass();
                "3000000"
            }
            "/save/" => "1500,3000000",
            _ => "none",
        };
        wire.answer(200, &[("Galley-Cron", due)], b"");
    })
    .unwrap();
    let stage = Plan::origin(&origin, "wordpress")
        .site("cron = \"1h\"")
        .start();
    let mut slow = stage.connect();
    slow.send(&hosted(Request::get("/slow/"))).unwrap();
    gate.wait_for_arrivals(1);
    let save = Request::post("/save/", "text/plain", "post");
    stage.ask(save).is(200);
    gate.open();
    slow.receive("GET").unwrap().is(200);
    wait_for("the run", PATIENCE, || asked(&origin).len() == 1);
}
