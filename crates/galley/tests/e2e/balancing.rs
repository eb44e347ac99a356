//! Several servers behind one site: shares, affinity, health checks, limits, and that one working server is enough.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use galley_testkit::client::Request;
use galley_testkit::origin::{FastCgiOrigin, Gate, Origin};
use galley_testkit::{Apache, ApacheOptions, FpmListen, FpmOptions, PhpFpm, wait_for};

use crate::support::{AssertStatus, SiteBuilder, TEST_PAGE, TIMEOUT, TestSite, run_concurrently};

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
        let origin = Origin::start(move |request, writer| {
            if request.path() == "/health" {
                own.checks.fetch_add(1, Ordering::SeqCst);
                let sick = own.is_sick.load(Ordering::SeqCst) > 0;
                writer.answer(if sick { 500 } else { 200 }, &[], b"");
                return;
            }
            own.requests.fetch_add(1, Ordering::SeqCst);
            let now = own.now.fetch_add(1, Ordering::SeqCst) + 1;
            own.most.fetch_max(now, Ordering::SeqCst);
            writer.body();
            if request.path() == "/slow" {
                std::thread::sleep(Duration::from_millis(60));
            }
            own.now.fetch_sub(1, Ordering::SeqCst);
            let fields = [
                ("Content-Type", "text/html"),
                ("Cache-Control", "max-age=60"),
            ];
            match MOODS[own.mood.load(Ordering::SeqCst)] {
                Mood::Works => drop(writer.answer(200, &fields, name.as_bytes())),
                Mood::Unavailable => drop(writer.answer(503, &[], b"")),
                Mood::Resets => writer.reset(),
                Mood::Garbage => {
                    writer.write(b"\x00 what is this\r\n\r\n");
                    writer.close();
                }
                Mood::Silent => writer.wait_for_close(),
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

fn behind(servers: &[String], lines: &str) -> TestSite {
    let line = format!("upstream = [{}]", servers.join(", "));
    SiteBuilder::upstream_line(&line).site(lines).start()
}

/// Health checks that decide within half a second.
const CHECKS: &str =
    "health_check = \"/health\"\nhealth_interval = \"100ms\"\nhealth_fall = 3\nhealth_rise = 2";

/// Passes by the cache: which server answers.
fn post(site: &TestSite, n: usize) -> String {
    let form = Request::form(&format!("/form{n}"), &[("a", "b")]);
    site.send(form).expect_status(200).text()
}

/// The state of the server at this place, as `galley status` has it.
fn state(site: &TestSite, index: usize) -> String {
    let status: serde_json::Value = serde_json::from_str(&site.status()).unwrap();
    let server = &status["sites"][0]["upstreams"][0]["servers"][index];
    server["state"].as_str().unwrap().to_owned()
}

fn wait_for_state(site: &TestSite, index: usize, wanted: &str) {
    let what = format!("server {index} to be {wanted}");
    wait_for(&what, TIMEOUT, || state(site, index) == wanted);
}

#[test]
fn shares_are_those_of_the_weights() {
    let (a, b, c) = (Server::start("a"), Server::start("b"), Server::start("c"));
    let site = behind(
        &[a.with(""), b.with(", weight = 2"), c.with(", weight = 5")],
        "",
    );
    for n in 0..80 {
        post(&site, n);
    }
    assert_eq!([a.requests(), b.requests(), c.requests()], [10, 20, 50]);
    run_concurrently(8, |thread| {
        (0..20).for_each(|n| drop(post(&site, 100 * thread + n)));
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
    let busy = Origin::start(move |_, writer| {
        writer.body();
        waiting.pass();
        writer.answer(200, &[("Content-Type", "text/html")], b"busy");
    })
    .unwrap();
    let idle = Server::start("idle");
    let servers = [format!("\"{}\"", busy.url()), idle.with("")];
    let site = behind(&servers, "balance = \"least-connections\"");
    let mut held = site.connect();
    held.send(&crate::support::with_host(Request::form(
        "/held",
        &[("a", "b")],
    )))
    .unwrap();
    wait_for("the first request", TIMEOUT, || busy.requests().len() == 1);
    for n in 0..30 {
        assert_eq!(post(&site, n), "idle");
    }
    gate.open();
    assert_eq!(held.receive("POST").unwrap().text(), "busy");
}

/// Which server each customer gets.
fn homes(site: &TestSite) -> HashMap<usize, String> {
    let home = |customer: usize| {
        let form = Request::form("/cart", &[("a", "b")]).cookie(&format!("shop=c{customer}"));
        (customer, site.send(form).expect_status(200).text())
    };
    (0..60).map(home).collect()
}

#[test]
fn affinity_survives_a_server_that_goes_and_comes() {
    let servers = ["a", "b", "c"].map(Server::start);
    let list = servers.each_ref().map(|server| server.with(""));
    let lines = format!("balance = \"cookie\"\nbalance_cookie = \"shop\"\n{CHECKS}");
    let site = behind(&list, &lines);
    let before = homes(&site);
    assert_eq!(homes(&site), before);
    for name in ["a", "b", "c"] {
        let count = before.values().filter(|home| *home == name).count();
        assert!((8..=35).contains(&count), "{name}: {count} of 60");
    }
    servers[1].is_sick(true);
    wait_for_state(&site, 1, "down");
    for (customer, home) in homes(&site) {
        assert!(home != "b");
        assert!(before[&customer] == "b" || before[&customer] == home);
    }
    servers[1].is_sick(false);
    wait_for_state(&site, 1, "up");
    assert_eq!(homes(&site), before);
}

#[test]
fn checks_take_a_server_out_and_bring_it_back() {
    let (a, b) = (Server::start("a"), Server::start("b"));
    let site = behind(&[a.with(""), b.with("")], CHECKS);
    wait_for("checks", TIMEOUT, || {
        a.seen.checks.load(Ordering::SeqCst) >= 2
    });
    assert_eq!(state(&site, 0), "up");
    a.is_sick(true);
    let began = a.seen.checks.load(Ordering::SeqCst);
    wait_for_state(&site, 0, "down");
    assert!(
        a.seen.checks.load(Ordering::SeqCst) >= began + 3,
        "three checks in succession"
    );
    let before = a.requests();
    for n in 0..20 {
        assert_eq!(post(&site, n), "b");
    }
    assert_eq!(a.requests(), before);
    let status = site.galley.cli(&["status"]).unwrap();
    let text = crate::support::output_text(&status);
    assert!(text.contains("failed its health checks"), "{text}");
    let why = site.why("/page");
    assert!(
        why.contains("\"state\":\"down\"") || why.contains("\"state\": \"down\""),
        "{why}"
    );
    // What was found is kept over a reload: nothing is sent to it while the new generation has not checked it yet.
    let config = std::fs::read_to_string(site.galley.config()).unwrap();
    std::fs::write(
        site.galley.config(),
        format!("{config}\nrequest_body = \"1MiB\"\n"),
    )
    .unwrap();
    assert_eq!(site.galley.cli(&["reload"]).unwrap().status.code(), Some(0));
    assert_eq!(state(&site, 0), "down");
    for n in 20..40 {
        assert_eq!(post(&site, n), "b");
    }
    a.is_sick(false);
    wait_for_state(&site, 0, "up");
    let seen: Vec<String> = (40..50).map(|n| post(&site, n)).collect();
    assert_eq!(seen.iter().filter(|one| *one == "a").count(), 5, "{seen:?}");
    site.galley
        .wait_for_log("passes its health checks again", TIMEOUT);
}

#[test]
fn a_server_that_comes_back_gets_its_share_slowly() {
    let (a, b) = (Server::start("a"), Server::start("b"));
    let site = behind(
        &[a.with(""), b.with("")],
        &format!("{CHECKS}\nslow_start = \"5s\""),
    );
    a.is_sick(true);
    wait_for_state(&site, 0, "down");
    a.is_sick(false);
    wait_for_state(&site, 0, "up");
    let came_back = Instant::now();
    let of_a = |range: std::ops::Range<usize>| range.filter(|n| post(&site, *n) == "a").count();
    let early = of_a(0..40);
    // A machine that is busy may have taken longer than the ramp.
    if came_back.elapsed() < Duration::from_millis(1500) {
        assert!(early <= 12, "{early} of 40 in the first seconds");
    }
    wait_for("the end of the ramp", TIMEOUT, || {
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
    let site = behind(
        &[a.with(""), b.with(""), spare.with(", backup = true")],
        CHECKS,
    );
    for n in 0..20 {
        post(&site, n);
    }
    a.is_sick(true);
    wait_for_state(&site, 0, "down");
    for n in 20..40 {
        assert_eq!(post(&site, n), "b");
    }
    assert_eq!(spare.requests(), 0);
    b.is_sick(true);
    wait_for_state(&site, 1, "down");
    assert_eq!(post(&site, 40), "spare");
    // No server passes its checks, so all are tried: a wrong check stops nobody.
    spare.is_sick(true);
    wait_for_state(&site, 2, "down");
    for n in 50..60 {
        post(&site, n);
    }
    a.is_sick(false);
    wait_for_state(&site, 0, "up");
    for n in 60..70 {
        assert_eq!(post(&site, n), "a");
    }
}

#[test]
fn limits_of_servers_hold() {
    let (a, b) = (Server::start("a"), Server::start("b"));
    let site = behind(
        &[a.with(", max = 2"), b.with(", max = 3")],
        "in_flight = 50",
    );
    run_concurrently(20, |_| {
        for _ in 0..4 {
            let form = Request::form("/slow", &[("a", "b")]);
            site.send(form).assert_status(200);
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
    let site = behind(&[a.with(""), b.with(""), good.with("")], lines);
    let mut page = 0;
    for mood in [Mood::Unavailable, Mood::Resets, Mood::Garbage, Mood::Silent] {
        a.feels(mood);
        b.feels(mood);
        for _ in 0..8 {
            page += 1;
            let answer = site.get(&format!("/page{page}"));
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
        assert_eq!(post(&site, n), "good");
    }
}

#[test]
fn a_wordpress_that_is_in_maintenance_everywhere_says_so() {
    let (a, b) = (Server::start("a"), Server::start("b"));
    a.feels(Mood::Unavailable);
    b.feels(Mood::Unavailable);
    let site = behind(&[a.with(""), b.with("")], "");
    assert_eq!(site.get("/page").status, 503);
    assert_eq!(a.requests() + b.requests(), 2, "each was asked once");
    let form = Request::form("/form", &[("a", "b")]);
    assert_eq!(site.send(form).status, 503);
    assert_eq!(a.requests() + b.requests(), 3, "an order is sent once");
}

/// Scripted FastCGI servers.
#[test]
fn fastcgi_servers_share_requests_and_stand_in_for_each_other() {
    let answer = |name: &'static [u8]| {
        FastCgiOrigin::start(move |_, application| {
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
    let site = SiteBuilder::upstream_line(&line)
        .file("index.php", "")
        .start();
    for n in 0..40 {
        site.send(Request::form(&format!("/form{n}"), &[("a", "b")]))
            .assert_status(200);
    }
    assert_eq!((a.count(), b.count()), (10, 30));
    drop(a);
    for n in 0..20 {
        let answer = site.send(Request::form(&format!("/form{n}"), &[("a", "b")]));
        assert_eq!((answer.status, answer.text().as_str()), (200, "b"));
    }
}

#[test]
fn php_fpm_by_socket_and_by_port_with_health_checks() {
    let plan = SiteBuilder::upstream_line("").file("index.php", TEST_PAGE);
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
    let site = plan
        .site(&format!("{line}\n{}", CHECKS.replace("/health", "/ping")))
        .start();
    wait_for_state(&site, 0, "up");
    for n in 0..10 {
        site.send(Request::form(&format!("/form{n}"), &[("a", "b")]))
            .assert_status(200);
    }
    one.kill();
    for n in 0..20 {
        let form = Request::form(&format!("/form{n}"), &[("a", "b")]);
        site.send(form).assert_status(200);
        site.get(&format!("/page{n}")).assert_status(200);
    }
    wait_for_state(&site, 0, "down");
    one.restart().unwrap();
    wait_for_state(&site, 0, "up");
    site.get("/after").assert_status(200);
}

#[test]
fn apache_may_die_under_load() {
    let plan = SiteBuilder::upstream_line("");
    plan.scratch.write("web/index.php", TEST_PAGE).unwrap();
    let rewrite =
        "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule . /index.php [L]\n";
    plan.scratch.write("web/.htaccess", rewrite).unwrap();
    let start = |name: &str| {
        let (dir, web) = (plan.scratch.join(name), plan.scratch.join("web"));
        Apache::start(&dir, &web, &ApacheOptions::default()).unwrap()
    };
    let (mut one, other) = (start("one"), start("other"));
    let line = format!("upstream = [\"{}\", \"{}\"]", one.url(), other.url());
    let site = plan
        .site(&format!("{line}\nbalance = \"least-connections\""))
        .start();
    std::thread::scope(|scope| {
        let visitors = scope.spawn(|| {
            run_concurrently(6, |thread| {
                (0..50).for_each(|n| {
                    site.get(&format!("/page{thread}-{n}")).assert_status(200);
                });
            });
        });
        one.kill();
        visitors.join().unwrap();
    });
    one.restart().unwrap();
    let mut page = 0;
    wait_for("the restarted server to be used", TIMEOUT, || {
        page += 1;
        site.get(&format!("/later{page}")).assert_status(200);
        state(&site, 0) == "up"
    });
}
