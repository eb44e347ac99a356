//! Several servers behind one site: shares, affinity, health checks, limits, and that one working server is enough.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use galley_testkit::client::Request;
use galley_testkit::origin::{Gate, Origin, Responder};
use galley_testkit::{Apache, ApacheOptions, FpmListen, FpmOptions, PhpFpm, wait_for};

use crate::support::{Is, LAB, PATIENCE, Plan, Stage, together};

/// What a server does with requests that are no health checks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mood {
    Works = 0,
    Unavailable = 1,
    Resets = 2,
    Garbage = 3,
    Silent = 4,
}

const MOODS: [Mood; 5] = [
    Mood::Works,
    Mood::Unavailable,
    Mood::Resets,
    Mood::Garbage,
    Mood::Silent,
];

/// A scripted server, and what it has seen.
struct Server {
    origin: Origin,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    mood: AtomicUsize,
    /// Whether health checks fail.
    is_sick: AtomicUsize,
    checks: AtomicUsize,
    requests: AtomicUsize,
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Server {
    fn start(name: &'static str) -> Self {
        let seen = Arc::new(Seen::default());
        let own = Arc::clone(&seen);
        let origin = Origin::start(move |request, wire| {
            if request.path() == "/health" {
                own.checks.fetch_add(1, Ordering::SeqCst);
                let sick = own.is_sick.load(Ordering::SeqCst) > 0;
                wire.answer(if sick { 500 } else { 200 }, &[], b"");
                return;
            }
            own.requests.fetch_add(1, Ordering::SeqCst);
            let now = own.now.fetch_add(1, Ordering::SeqCst) + 1;
            own.most.fetch_max(now, Ordering::SeqCst);
            wire.body();
            if request.path() == "/slow" {
                std::thread::sleep(Duration::from_millis(60));
            }
            own.now.fetch_sub(1, Ordering::SeqCst);
            let fields = [
                ("Content-Type", "text/html"),
                ("Cache-Control", "max-age=60"),
            ];
            match MOODS[own.mood.load(Ordering::SeqCst)] {
                Mood::Works => drop(wire.answer(200, &fields, name.as_bytes())),
                Mood::Unavailable => drop(wire.answer(503, &[], b"")),
                Mood::Resets => wire.reset(),
                Mood::Garbage => {
                    wire.write(b"\x00 what is this\r\n\r\n");
                    wire.close();
                }
                Mood::Silent => wire.wait_for_close(),
            }
        });
        let origin = origin.unwrap();
        Self { origin, seen }
    }

    fn feels(&self, mood: Mood) {
        self.seen.mood.store(mood as usize, Ordering::SeqCst);
    }

    fn is_sick(&self, is_sick: bool) {
        self.seen
            .is_sick
            .store(usize::from(is_sick), Ordering::SeqCst);
    }

    fn requests(&self) -> usize {
        self.seen.requests.load(Ordering::SeqCst)
    }

    /// As a member of `upstream`.
    fn with(&self, share: &str) -> String {
        format!("{{ url = \"{}\"{share} }}", self.origin.url())
    }
}

fn behind(servers: &[String], lines: &str) -> Stage {
    let line = format!("upstream = [{}]", servers.join(", "));
    Plan::behind(&line).site(lines).start()
}

/// Health checks that decide within half a second.
const CHECKS: &str =
    "health_check = \"/health\"\nhealth_interval = \"100ms\"\nhealth_fall = 3\nhealth_rise = 2";

/// Passes by the cache: which server answers.
fn post(stage: &Stage, n: usize) -> String {
    let form = Request::form(&format!("/form{n}"), &[("a", "b")]);
    stage.ask(form).expect_status(200).text()
}

/// The state of the server at this place, as `galley status` has it.
fn state(stage: &Stage, index: usize) -> String {
    let status: serde_json::Value = serde_json::from_str(&stage.status()).unwrap();
    let server = &status["sites"][0]["upstreams"][0]["servers"][index];
    server["state"].as_str().unwrap().to_owned()
}

fn wait_for_state(stage: &Stage, index: usize, wanted: &str) {
    let what = format!("server {index} to be {wanted}");
    wait_for(&what, PATIENCE, || state(stage, index) == wanted);
}

#[test]
fn shares_are_those_of_the_weights() {
    let (a, b, c) = (Server::start("a"), Server::start("b"), Server::start("c"));
    let stage = behind(
        &[a.with(""), b.with(", weight = 2"), c.with(", weight = 5")],
        "",
    );
    for n in 0..80 {
        post(&stage, n);
    }
    assert_eq!([a.requests(), b.requests(), c.requests()], [10, 20, 50]);
    together(8, |thread| {
        (0..20).for_each(|n| drop(post(&stage, 100 * thread + n)));
    });
    let all = [a.requests(), b.requests(), c.requests()];
    for (seen, wanted) in all.into_iter().zip([30, 60, 150]) {
        assert!(seen.abs_diff(wanted) <= 2, "{all:?}");
    }
}

#[test]
fn the_idle_server_is_preferred() {
    let gate = Gate::new();
    let waiting = gate.clone();
    let busy = Origin::start(move |_, wire| {
        wire.body();
        waiting.pass();
        wire.answer(200, &[("Content-Type", "text/html")], b"busy");
    })
    .unwrap();
    let idle = Server::start("idle");
    let servers = [format!("\"{}\"", busy.url()), idle.with("")];
    let stage = behind(&servers, "balance = \"least-connections\"");
    let mut held = stage.connect();
    held.send(&crate::support::hosted(Request::form(
        "/held",
        &[("a", "b")],
    )))
    .unwrap();
    wait_for("the first request", PATIENCE, || busy.seen().len() == 1);
    for n in 0..30 {
        assert_eq!(post(&stage, n), "idle");
    }
    gate.open();
    assert_eq!(held.receive("POST").unwrap().text(), "busy");
}

/// Which server each customer gets.
fn homes(stage: &Stage) -> HashMap<usize, String> {
    let home = |customer: usize| {
        let form = Request::form("/cart", &[("a", "b")]).cookie(&format!("shop=c{customer}"));
        (customer, stage.ask(form).expect_status(200).text())
    };
    (0..60).map(home).collect()
}

#[test]
fn affinity_survives_a_server_that_goes_and_comes() {
    let servers = ["a", "b", "c"].map(Server::start);
    let list = servers.each_ref().map(|server| server.with(""));
    let lines = format!("balance = \"cookie\"\nbalance_cookie = \"shop\"\n{CHECKS}");
    let stage = behind(&list, &lines);
    let before = homes(&stage);
    assert_eq!(homes(&stage), before);
    for name in ["a", "b", "c"] {
        let count = before.values().filter(|home| *home == name).count();
        assert!((8..=35).contains(&count), "{name}: {count} of 60");
    }
    servers[1].is_sick(true);
    wait_for_state(&stage, 1, "down");
    for (customer, home) in homes(&stage) {
        assert!(home != "b");
        assert!(before[&customer] == "b" || before[&customer] == home);
    }
    servers[1].is_sick(false);
    wait_for_state(&stage, 1, "up");
    assert_eq!(homes(&stage), before);
}

#[test]
fn checks_take_a_server_out_and_bring_it_back() {
    let (a, b) = (Server::start("a"), Server::start("b"));
    let stage = behind(&[a.with(""), b.with("")], CHECKS);
    wait_for("checks", PATIENCE, || {
        a.seen.checks.load(Ordering::SeqCst) >= 2
    });
    assert_eq!(state(&stage, 0), "up");
    a.is_sick(true);
    let began = a.seen.checks.load(Ordering::SeqCst);
    wait_for_state(&stage, 0, "down");
    assert!(
        a.seen.checks.load(Ordering::SeqCst) >= began + 3,
        "three checks in succession"
    );
    let before = a.requests();
    for n in 0..20 {
        assert_eq!(post(&stage, n), "b");
    }
    assert_eq!(a.requests(), before);
    let status = stage.galley.cli(&["status"]).unwrap();
    let text = crate::support::words(&status);
    assert!(text.contains("failed its health checks"), "{text}");
    let why = stage.why("/page");
    assert!(
        why.contains("\"state\":\"down\"") || why.contains("\"state\": \"down\""),
        "{why}"
    );
    // What was found is kept over a reload: nothing is sent to it while the new generation has not checked it yet.
    let config = std::fs::read_to_string(stage.galley.config()).unwrap();
    std::fs::write(
        stage.galley.config(),
        format!("{config}\nrequest_body = \"1MiB\"\n"),
    )
    .unwrap();
    assert_eq!(
        stage.galley.cli(&["reload"]).unwrap().status.code(),
        Some(0)
    );
    assert_eq!(state(&stage, 0), "down");
    for n in 20..40 {
        assert_eq!(post(&stage, n), "b");
    }
    a.is_sick(false);
    wait_for_state(&stage, 0, "up");
    let seen: Vec<String> = (40..50).map(|n| post(&stage, n)).collect();
    assert_eq!(seen.iter().filter(|one| *one == "a").count(), 5, "{seen:?}");
    stage
        .galley
        .wait_for_log("passes its health checks again", PATIENCE);
}

#[test]
fn a_server_that_comes_back_gets_its_share_slowly() {
    let (a, b) = (Server::start("a"), Server::start("b"));
    let stage = behind(
        &[a.with(""), b.with("")],
        &format!("{CHECKS}\nslow_start = \"5s\""),
    );
    a.is_sick(true);
    wait_for_state(&stage, 0, "down");
    a.is_sick(false);
    wait_for_state(&stage, 0, "up");
    let came_back = Instant::now();
    let of_a = |range: std::ops::Range<usize>| range.filter(|n| post(&stage, *n) == "a").count();
    let early = of_a(0..40);
    // A machine that is busy may have taken longer than the ramp.
    if came_back.elapsed() < Duration::from_millis(1500) {
        assert!(early <= 12, "{early} of 40 in the first seconds");
    }
    wait_for("the end of the ramp", PATIENCE, || {
        came_back.elapsed() > Duration::from_secs(6)
    });
    let late = of_a(40..80);
    assert!((19..=21).contains(&late), "{late} of 40 after the ramp");
}

#[test]
fn backups_serve_only_while_all_others_are_out() {
    let (a, b, spare) = (
        Server::start("a"),
        Server::start("b"),
        Server::start("spare"),
    );
    let stage = behind(
        &[a.with(""), b.with(""), spare.with(", backup = true")],
        CHECKS,
    );
    for n in 0..20 {
        post(&stage, n);
    }
    a.is_sick(true);
    wait_for_state(&stage, 0, "down");
    for n in 20..40 {
        assert_eq!(post(&stage, n), "b");
    }
    assert_eq!(spare.requests(), 0);
    b.is_sick(true);
    wait_for_state(&stage, 1, "down");
    assert_eq!(post(&stage, 40), "spare");
    // No server passes its checks, so all are tried: a wrong check stops nobody.
    spare.is_sick(true);
    wait_for_state(&stage, 2, "down");
    for n in 50..60 {
        post(&stage, n);
    }
    a.is_sick(false);
    wait_for_state(&stage, 0, "up");
    for n in 60..70 {
        assert_eq!(post(&stage, n), "a");
    }
}

#[test]
fn limits_of_servers_hold() {
    let (a, b) = (Server::start("a"), Server::start("b"));
    let stage = behind(
        &[a.with(", max = 2"), b.with(", max = 3")],
        "in_flight = 50",
    );
    together(20, |_| {
        for _ in 0..4 {
            let form = Request::form("/slow", &[("a", "b")]);
            stage.ask(form).is(200);
        }
    });
    let most = |server: &Server| server.seen.most.load(Ordering::SeqCst);
    assert_eq!([most(&a), most(&b)], [2, 3]);
    assert_eq!(a.requests() + b.requests(), 80);
}

#[test]
fn one_working_server_is_enough() {
    let (a, b, good) = (
        Server::start("a"),
        Server::start("b"),
        Server::start("good"),
    );
    let lines = "first_byte_timeout = \"300ms\"\nconnect_timeout = \"1s\"";
    let stage = behind(&[a.with(""), b.with(""), good.with("")], lines);
    let mut page = 0;
    for mood in [Mood::Unavailable, Mood::Resets, Mood::Garbage, Mood::Silent] {
        a.feels(mood);
        b.feels(mood);
        for _ in 0..8 {
            page += 1;
            let answer = stage.get(&format!("/page{page}"));
            assert_eq!(
                (answer.status, answer.text().as_str()),
                (200, "good"),
                "{page}"
            );
        }
    }
    // Nor does a server that is gone altogether, also for what may not be sent twice.
    drop((a, b));
    for n in 0..10 {
        assert_eq!(post(&stage, n), "good");
    }
}

#[test]
fn a_wordpress_that_is_in_maintenance_everywhere_says_so() {
    let (a, b) = (Server::start("a"), Server::start("b"));
    a.feels(Mood::Unavailable);
    b.feels(Mood::Unavailable);
    let stage = behind(&[a.with(""), b.with("")], "");
    assert_eq!(stage.get("/page").status, 503);
    assert_eq!(a.requests() + b.requests(), 2, "each was asked once");
    let form = Request::form("/form", &[("a", "b")]);
    assert_eq!(stage.ask(form).status, 503);
    assert_eq!(a.requests() + b.requests(), 3, "an order is sent once");
}

/// Scripted FastCGI servers.
#[test]
fn fastcgi_servers_share_requests_and_stand_in_for_each_other() {
    let answer = |name: &'static [u8]| {
        Responder::start(move |_, application| {
            application.stdin();
            application.answer("Content-Type: text/html\r\nCache-Control: no-store", name);
        })
        .unwrap()
    };
    let (a, b) = (answer(b"a"), answer(b"b"));
    let line = format!(
        "php = [\"{}\", {{ address = \"{}\", weight = 3 }}]",
        a.address(),
        b.address()
    );
    let stage = Plan::behind(&line).file("index.php", "").start();
    for n in 0..40 {
        stage
            .ask(Request::form(&format!("/form{n}"), &[("a", "b")]))
            .is(200);
    }
    assert_eq!((a.count(), b.count()), (10, 30));
    drop(a);
    for n in 0..20 {
        let answer = stage.ask(Request::form(&format!("/form{n}"), &[("a", "b")]));
        assert_eq!((answer.status, answer.text().as_str()), (200, "b"));
    }
}

#[test]
fn php_fpm_by_socket_and_by_port_with_health_checks() {
    let plan = Plan::behind("").file("index.php", LAB);
    let pool = vec![("ping.path".to_owned(), "/ping".to_owned())];
    let start = |name: &str, listen| {
        let options = FpmOptions {
            listen,
            pool: pool.clone(),
            ..FpmOptions::default()
        };
        PhpFpm::start(&plan.scratch.join(name), &options).unwrap()
    };
    let (mut one, other) = (
        start("one", FpmListen::Unix),
        start("other", FpmListen::Tcp),
    );
    let line = format!("php = [\"{}\", \"{}\"]", one.address(), other.address());
    let stage = plan
        .site(&format!("{line}\n{}", CHECKS.replace("/health", "/ping")))
        .start();
    wait_for_state(&stage, 0, "up");
    for n in 0..10 {
        stage
            .ask(Request::form(&format!("/form{n}"), &[("a", "b")]))
            .is(200);
    }
    one.kill();
    for n in 0..20 {
        let form = Request::form(&format!("/form{n}"), &[("a", "b")]);
        stage.ask(form).is(200);
        stage.get(&format!("/page{n}")).is(200);
    }
    wait_for_state(&stage, 0, "down");
    one.restart().unwrap();
    wait_for_state(&stage, 0, "up");
    stage.get("/after").is(200);
}

#[test]
fn apache_may_die_under_load() {
    let plan = Plan::behind("");
    plan.scratch.write("web/index.php", LAB).unwrap();
    let rewrite =
        "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule . /index.php [L]\n";
    plan.scratch.write("web/.htaccess", rewrite).unwrap();
    let start = |name: &str| {
        let (dir, web) = (plan.scratch.join(name), plan.scratch.join("web"));
        Apache::start(&dir, &web, &ApacheOptions::default()).unwrap()
    };
    let (mut one, other) = (start("one"), start("other"));
    let line = format!("upstream = [\"{}\", \"{}\"]", one.url(), other.url());
    let stage = plan
        .site(&format!("{line}\nbalance = \"least-connections\""))
        .start();
    std::thread::scope(|scope| {
        let visitors = scope.spawn(|| {
            together(6, |thread| {
                (0..50).for_each(|n| {
                    stage.get(&format!("/page{thread}-{n}")).is(200);
                });
            });
        });
        one.kill();
        visitors.join().unwrap();
    });
    one.restart().unwrap();
    let mut page = 0;
    wait_for("the restarted server to be used", PATIENCE, || {
        page += 1;
        stage.get(&format!("/later{page}")).is(200);
        state(&stage, 0) == "up"
    });
}
