//! Load balancing: weights, affinity, health checks, connection limits, and failover to a working server.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use galley_testkit::client::Request;
use galley_testkit::origin::{FastCgiOrigin, Origin};
use galley_testkit::{Apache, ApacheOptions, FpmListen, FpmOptions, PhpFpm, wait_for};

use crate::support::{AssertStatus, SiteBuilder, TEST_PAGE, TIMEOUT, TestSite, run_concurrently};

/// How a server responds to requests other than health checks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ServerBehavior {
    Respond = 0,
    Unavailable = 1,
    Reset = 2,
    Garbage = 3,
    Hang = 4,
}

const BEHAVIORS: [ServerBehavior; 5] = [
    ServerBehavior::Respond,
    ServerBehavior::Unavailable,
    ServerBehavior::Reset,
    ServerBehavior::Garbage,
    ServerBehavior::Hang,
];

/// A scripted upstream server.
struct UpstreamServer {
    origin: Origin,
    state: Arc<ServerState>,
}

#[derive(Default)]
struct ServerState {
    behavior: AtomicUsize,
    is_unhealthy: AtomicBool,
    health_checks: AtomicUsize,
    requests: AtomicUsize,
    in_progress: AtomicUsize,
    max_in_progress: AtomicUsize,
}

impl UpstreamServer {
    fn start(name: &'static str) -> Self {
        let state = Arc::new(ServerState::default());
        let server = Arc::clone(&state);
        let origin = Origin::start(move |request, writer| {
            if request.path() == "/health" {
                server.health_checks.fetch_add(1, Ordering::SeqCst);
                let is_unhealthy = server.is_unhealthy.load(Ordering::SeqCst);
                writer.respond(if is_unhealthy { 500 } else { 200 }, &[], b"");
                return;
            }
            server.requests.fetch_add(1, Ordering::SeqCst);
            let in_progress = server.in_progress.fetch_add(1, Ordering::SeqCst) + 1;
            server
                .max_in_progress
                .fetch_max(in_progress, Ordering::SeqCst);
            writer.body();
            if request.path() == "/slow" {
                std::thread::sleep(Duration::from_millis(60));
            }
            server.in_progress.fetch_sub(1, Ordering::SeqCst);
            let fields = [
                ("Content-Type", "text/html"),
                ("Cache-Control", "max-age=60"),
            ];
            match BEHAVIORS[server.behavior.load(Ordering::SeqCst)] {
                ServerBehavior::Respond => drop(writer.respond(200, &fields, name.as_bytes())),
                ServerBehavior::Unavailable => drop(writer.respond(503, &[], b"")),
                ServerBehavior::Reset => writer.reset(),
                ServerBehavior::Garbage => {
                    writer.write(b"\x00 what is this\r\n\r\n");
                    writer.close();
                }
                ServerBehavior::Hang => writer.wait_for_close(),
            }
        });
        let origin = origin.unwrap();
        Self { origin, state }
    }

    fn set_behavior(&self, behavior: ServerBehavior) {
        (self.state.behavior).store(behavior as usize, Ordering::SeqCst);
    }

    fn set_unhealthy(&self, is_unhealthy: bool) {
        (self.state.is_unhealthy).store(is_unhealthy, Ordering::SeqCst);
    }

    fn requests(&self) -> usize {
        self.state.requests.load(Ordering::SeqCst)
    }

    fn health_checks(&self) -> usize {
        self.state.health_checks.load(Ordering::SeqCst)
    }

    /// An element of the `upstream` option, with further options of the server.
    fn config(&self, options: &str) -> String {
        format!("{{ url = \"{}\"{options} }}", self.origin.url())
    }
}

fn start_site(servers: &[String], lines: &str) -> TestSite {
    let line = format!("upstream = [{}]", servers.join(", "));
    SiteBuilder::upstream_line(&line).site(lines).start()
}

/// Health checks that detect a change within half a second.
const CHECKS: &str =
    "health_check = \"/health\"\nhealth_interval = \"100ms\"\nhealth_fall = 3\nhealth_rise = 2";

/// Sends a request that bypasses the cache; returns the name of the server that responded.
fn post(site: &TestSite, n: usize) -> String {
    let form = Request::form(&format!("/form{n}"), &[("a", "b")]);
    site.send(form).expect_status(200).text()
}

/// The state of a server as reported by `galley status`.
fn state(site: &TestSite, index: usize) -> String {
    let status: serde_json::Value = serde_json::from_str(&site.status()).unwrap();
    let server = &status["sites"][0]["upstreams"][0]["servers"][index];
    server["state"].as_str().unwrap().to_owned()
}

fn wait_for_state(site: &TestSite, index: usize, expected: &str) {
    let condition = format!("server {index} to be {expected}");
    wait_for(&condition, TIMEOUT, || state(site, index) == expected);
}

#[test]
fn requests_are_distributed_by_weight() {
    let (a, b, c) = (
        UpstreamServer::start("a"),
        UpstreamServer::start("b"),
        UpstreamServer::start("c"),
    );
    let site = start_site(
        &[
            a.config(""),
            b.config(", weight = 2"),
            c.config(", weight = 5"),
        ],
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
    for (count, expected) in all.into_iter().zip([30, 60, 150]) {
        assert!(count.abs_diff(expected) <= 2, "{all:?}");
    }
}

#[test]
fn least_connections_prefers_the_idle_server() {
    let (busy, gate) = Origin::gated(|gate, _, writer| {
        writer.body();
        gate.pass();
        writer.respond(200, &[("Content-Type", "text/html")], b"busy");
    })
    .unwrap();
    let idle = UpstreamServer::start("idle");
    let servers = [format!("\"{}\"", busy.url()), idle.config("")];
    let site = start_site(&servers, "balance = \"least-connections\"");
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

/// The server that each of 60 customers is assigned to.
fn assignments(site: &TestSite) -> HashMap<usize, String> {
    let assignment = |customer: usize| {
        let form = Request::form("/cart", &[("a", "b")]).cookie(&format!("shop=c{customer}"));
        (customer, site.send(form).expect_status(200).text())
    };
    (0..60).map(assignment).collect()
}

#[test]
fn cookie_affinity_survives_the_failure_and_return_of_a_server() {
    let servers = ["a", "b", "c"].map(UpstreamServer::start);
    let list = servers.each_ref().map(|server| server.config(""));
    let lines = format!("balance = \"cookie\"\nbalance_cookie = \"shop\"\n{CHECKS}");
    let site = start_site(&list, &lines);
    let before = assignments(&site);
    assert_eq!(assignments(&site), before);
    for name in ["a", "b", "c"] {
        let count = before.values().filter(|server| *server == name).count();
        assert!((8..=35).contains(&count), "{name}: {count} of 60");
    }
    servers[1].set_unhealthy(true);
    wait_for_state(&site, 1, "down");
    for (customer, server) in assignments(&site) {
        assert!(server != "b");
        assert!(before[&customer] == "b" || before[&customer] == server);
    }
    servers[1].set_unhealthy(false);
    wait_for_state(&site, 1, "up");
    assert_eq!(assignments(&site), before);
}

#[test]
fn health_checks_remove_and_restore_a_server() {
    let (a, b) = (UpstreamServer::start("a"), UpstreamServer::start("b"));
    let site = start_site(&[a.config(""), b.config("")], CHECKS);
    wait_for("health checks", TIMEOUT, || a.health_checks() >= 2);
    assert_eq!(state(&site, 0), "up");
    a.set_unhealthy(true);
    let checks = a.health_checks();
    wait_for_state(&site, 0, "down");
    assert!(
        a.health_checks() >= checks + 3,
        "down before three failed checks in succession"
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
    // The state survives a reload: the server receives no requests before the new generation has checked it.
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
    a.set_unhealthy(false);
    wait_for_state(&site, 0, "up");
    let servers: Vec<String> = (40..50).map(|n| post(&site, n)).collect();
    let of_a = servers.iter().filter(|server| *server == "a").count();
    assert_eq!(of_a, 5, "{servers:?}");
    site.galley
        .wait_for_log("passes its health checks again", TIMEOUT);
}

#[test]
fn slow_start_ramps_up_the_share_of_a_restored_server() {
    let (a, b) = (UpstreamServer::start("a"), UpstreamServer::start("b"));
    let site = start_site(
        &[a.config(""), b.config("")],
        &format!("{CHECKS}\nslow_start = \"5s\""),
    );
    a.set_unhealthy(true);
    wait_for_state(&site, 0, "down");
    a.set_unhealthy(false);
    wait_for_state(&site, 0, "up");
    let restored = Instant::now();
    let of_a = |range: std::ops::Range<usize>| range.filter(|n| post(&site, *n) == "a").count();
    let early = of_a(0..40);
    // On a busy machine, the requests may have taken longer than the ramp.
    if restored.elapsed() < Duration::from_millis(1500) {
        assert!(early <= 12, "{early} of 40 in the first seconds");
    }
    wait_for("the end of the ramp", TIMEOUT, || {
        restored.elapsed() > Duration::from_secs(6)
    });
    let late = of_a(40..80);
    assert!((19..=21).contains(&late), "{late} of 40 after the ramp");
}

#[test]
fn backup_servers_are_used_only_while_all_others_are_down() {
    let (a, b, spare) = (
        UpstreamServer::start("a"),
        UpstreamServer::start("b"),
        UpstreamServer::start("spare"),
    );
    let site = start_site(
        &[a.config(""), b.config(""), spare.config(", backup = true")],
        CHECKS,
    );
    for n in 0..20 {
        post(&site, n);
    }
    a.set_unhealthy(true);
    wait_for_state(&site, 0, "down");
    for n in 20..40 {
        assert_eq!(post(&site, n), "b");
    }
    assert_eq!(spare.requests(), 0);
    b.set_unhealthy(true);
    wait_for_state(&site, 1, "down");
    assert_eq!(post(&site, 40), "spare");
    // If no server passes its checks, all are used, so a faulty health check does not stop the site.
    spare.set_unhealthy(true);
    wait_for_state(&site, 2, "down");
    for n in 50..60 {
        post(&site, n);
    }
    a.set_unhealthy(false);
    wait_for_state(&site, 0, "up");
    for n in 60..70 {
        assert_eq!(post(&site, n), "a");
    }
}

#[test]
fn the_connection_limit_of_each_server_is_respected() {
    let (a, b) = (UpstreamServer::start("a"), UpstreamServer::start("b"));
    let site = start_site(
        &[a.config(", max = 2"), b.config(", max = 3")],
        "in_flight = 50",
    );
    run_concurrently(20, |_| {
        for _ in 0..4 {
            let form = Request::form("/slow", &[("a", "b")]);
            site.send(form).assert_status(200);
        }
    });
    let maximum = |server: &UpstreamServer| server.state.max_in_progress.load(Ordering::SeqCst);
    assert_eq!([maximum(&a), maximum(&b)], [2, 3]);
    assert_eq!(a.requests() + b.requests(), 80);
}

#[test]
fn requests_fail_over_to_the_only_working_server() {
    let (a, b, good) = (
        UpstreamServer::start("a"),
        UpstreamServer::start("b"),
        UpstreamServer::start("good"),
    );
    let lines = "first_byte_timeout = \"300ms\"\nconnect_timeout = \"1s\"";
    let site = start_site(&[a.config(""), b.config(""), good.config("")], lines);
    let mut page = 0;
    for behavior in [
        ServerBehavior::Unavailable,
        ServerBehavior::Reset,
        ServerBehavior::Garbage,
        ServerBehavior::Hang,
    ] {
        a.set_behavior(behavior);
        b.set_behavior(behavior);
        for _ in 0..8 {
            page += 1;
            let response = site.get(&format!("/page{page}"));
            assert_eq!(
                (response.status, response.text().as_str()),
                (200, "good"),
                "{page}"
            );
        }
    }
    // Requests that must not be sent twice also fail over if a server does not accept connections.
    drop((a, b));
    for n in 0..10 {
        assert_eq!(post(&site, n), "good");
    }
}

#[test]
fn a_503_of_all_servers_is_forwarded() {
    let (a, b) = (UpstreamServer::start("a"), UpstreamServer::start("b"));
    a.set_behavior(ServerBehavior::Unavailable);
    b.set_behavior(ServerBehavior::Unavailable);
    let site = start_site(&[a.config(""), b.config("")], "");
    assert_eq!(site.get("/page").status, 503);
    assert_eq!(a.requests() + b.requests(), 2, "one request to each");
    let form = Request::form("/form", &[("a", "b")]);
    assert_eq!(site.send(form).status, 503);
    assert_eq!(a.requests() + b.requests(), 3, "a POST is sent once");
}

#[test]
fn requests_are_balanced_over_fastcgi_servers_and_fail_over() {
    let start = |name: &'static [u8]| {
        FastCgiOrigin::start(move |_, writer| {
            writer.stdin();
            writer.respond("Content-Type: text/html\r\nCache-Control: no-store", name);
        })
        .unwrap()
    };
    let (a, b) = (start(b"a"), start(b"b"));
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
        let response = site.send(Request::form(&format!("/form{n}"), &[("a", "b")]));
        assert_eq!((response.status, response.text().as_str()), (200, "b"));
    }
}

#[test]
fn php_fpm_health_checks_work_over_unix_sockets_and_tcp() {
    let builder = SiteBuilder::upstream_line("").file("index.php", TEST_PAGE);
    let pool = vec![("ping.path".to_owned(), "/ping".to_owned())];
    let start = |name: &str, listen| {
        let options = FpmOptions {
            listen,
            pool: pool.clone(),
            ..FpmOptions::default()
        };
        PhpFpm::start(&builder.scratch.join(name), &options).unwrap()
    };
    let (mut one, other) = (
        start("one", FpmListen::Unix),
        start("other", FpmListen::Tcp),
    );
    let line = format!("php = [\"{}\", \"{}\"]", one.address(), other.address());
    let site = builder
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
fn requests_succeed_while_an_apache_server_dies_under_load() {
    let builder = SiteBuilder::upstream_line("");
    builder.scratch.write("web/index.php", TEST_PAGE).unwrap();
    let rewrite =
        "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule . /index.php [L]\n";
    builder.scratch.write("web/.htaccess", rewrite).unwrap();
    let start = |name: &str| {
        let (dir, web) = (builder.scratch.join(name), builder.scratch.join("web"));
        Apache::start(&dir, &web, &ApacheOptions::default()).unwrap()
    };
    let (mut one, other) = (start("one"), start("other"));
    let line = format!("upstream = [\"{}\", \"{}\"]", one.url(), other.url());
    let site = builder
        .site(&format!("{line}\nbalance = \"least-connections\""))
        .start();
    std::thread::scope(|scope| {
        let clients = scope.spawn(|| {
            run_concurrently(6, |thread| {
                (0..50).for_each(|n| {
                    site.get(&format!("/page{thread}-{n}")).assert_status(200);
                });
            });
        });
        one.kill();
        clients.join().unwrap();
    });
    one.restart().unwrap();
    let mut page = 0;
    wait_for("the restarted server to be used", TIMEOUT, || {
        page += 1;
        site.get(&format!("/later{page}")).assert_status(200);
        state(&site, 0) == "up"
    });
}
