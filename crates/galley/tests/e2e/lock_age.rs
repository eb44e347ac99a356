//! `lock_age`: a second fetch replaces one without progress, and each client gets the response that arrives first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::{Gate, Origin, ReceivedRequest, ResponseWriter};
use galley_testkit::wait_for;

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite, run_concurrently, with_host};

const LONG: (&str, &str) = ("Cache-Control", "max-age=600");

const PRESETS: [&str; 2] = ["wordpress", "none"];

fn site_with_origin(origin: &Origin, preset: &str, lock_age: &str) -> TestSite {
    SiteBuilder::origin(origin, preset)
        .site(&format!("lock_age = \"{lock_age}\""))
        .start()
}

/// Starts an origin that responds to each request with its number, after the gate with this number has been opened, if one exists.
fn origin_with_gates(gates: &[Gate]) -> Origin {
    let gates = gates.to_vec();
    Origin::start(
        move |request: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
            if let Some(gate) = gates.get(request.number) {
                gate.pass();
            }
            writer.respond(200, &[LONG], request.number.to_string().as_bytes());
        },
    )
    .unwrap()
}

fn count_collapsed(responses: &[Response]) -> usize {
    let is_collapsed = |response: &&Response| response.cache_status().contains("collapsed");
    responses.iter().filter(is_collapsed).count()
}

#[test]
fn waiters_of_a_stalled_fetch_cause_one_more_fetch() {
    for preset in PRESETS {
        let gates = [Gate::new(), Gate::new()];
        let origin = origin_with_gates(&gates);
        let site = site_with_origin(&origin, preset, "1s");
        std::thread::scope(|scope| {
            let clients = scope.spawn(|| run_concurrently(50, |_| site.get("/")));
            gates[1].wait_for_arrivals(1);
            assert_eq!(origin.requests().len(), 2, "{preset}: only one more fetch");
            wait_for("all clients to connect", TIMEOUT, || {
                site.status_number("connections") >= 50
            });
            gates[1].open();
            let responses = clients.join().unwrap();
            for response in &responses {
                assert_eq!(response.text(), "1", "{preset}: {}", response.excerpt());
            }
            // The client of the second fetch gets its response; the client of the first has joined it.
            assert_eq!(count_collapsed(&responses), 49, "{preset}");
        });
        gates[0].open();
        wait_for("the first fetch to end", TIMEOUT, || {
            site.status_number("in_flight") == 0
        });
        let stored = site.get("/");
        assert!(stored.is_hit(), "{preset}: {}", stored.cache_status());
        assert_eq!(
            stored.text(),
            "1",
            "{preset}: the older response arrived later"
        );
        assert_eq!(origin.requests().len(), 2, "{preset}");
    }
}

#[test]
fn a_stalled_fetch_that_continues_serves_its_waiters() {
    for preset in PRESETS {
        let gates = [Gate::new(), Gate::new()];
        let origin = origin_with_gates(&gates);
        let site = site_with_origin(&origin, preset, "100ms");
        std::thread::scope(|scope| {
            let clients = scope.spawn(|| run_concurrently(10, |_| site.get("/")));
            gates[1].wait_for_arrivals(1);
            gates[0].open();
            for response in clients.join().unwrap() {
                assert_eq!(response.text(), "0", "{preset}");
            }
        });
        assert!(site.get("/").is_hit(), "{preset}: not stored");
        gates[1].open();
        wait_for("the newer page to replace it", TIMEOUT, || {
            let response = site.get("/");
            response.is_hit() && response.text() == "1"
        });
    }
}

#[test]
fn a_fetch_that_stalls_within_the_body_is_replaced() {
    for preset in PRESETS {
        let (origin, gate) = Origin::gated(|gate, request, writer| {
            if request.number > 0 {
                writer.respond(200, &[LONG], b"second");
                return;
            }
            writer.chunked(200, &[LONG]);
            writer.chunk(b"fir");
            gate.pass();
            writer.chunk(b"st");
            writer.last_chunk();
        })
        .unwrap();
        let site = site_with_origin(&origin, preset, "200ms");
        let mut readers = vec![site.start_request("/")];
        gate.wait_for_arrivals(1);
        wait_for("a request that starts another fetch", TIMEOUT, || {
            readers.push(site.start_request("/"));
            origin.requests().len() == 2
        });
        wait_for("the second page to be stored", TIMEOUT, || {
            let response = site.get("/");
            response.is_hit() && response.text() == "second"
        });
        gate.open();
        let bodies: Vec<String> = readers
            .iter_mut()
            .map(|reader| reader.receive("GET").unwrap().text())
            .collect();
        assert_eq!(
            bodies[0], "first",
            "{preset}: a started response is completed"
        );
        let is_complete = |body: &String| body == "first" || body == "second";
        assert!(bodies.iter().all(is_complete), "{preset}: {bodies:?}");
        wait_for("the first fetch to end", TIMEOUT, || {
            site.status_number("in_flight") == 0
        });
        assert_eq!(site.get("/").text(), "second", "{preset}");
        assert_eq!(origin.requests().len(), 2, "{preset}");
    }
}

#[test]
fn the_failure_of_a_second_fetch_is_ignored_while_the_first_may_succeed() {
    for preset in PRESETS {
        let (origin, gate) = Origin::gated(|gate, request, writer| {
            if request.number == 0 {
                gate.pass();
                writer.respond(200, &[LONG], b"first");
            } else {
                writer.reset();
            }
        })
        .unwrap();
        let site = site_with_origin(&origin, preset, "200ms");
        std::thread::scope(|scope| {
            let clients = scope.spawn(|| run_concurrently(10, |_| site.get("/")));
            // A safe request is retried once if no response was received.
            wait_for("the second fetch to fail", TIMEOUT, || {
                origin.requests().len() == 3 && site.status_number("in_flight") == 1
            });
            gate.open();
            for response in clients.join().unwrap() {
                assert_eq!((response.status, response.text().as_str()), (200, "first"));
            }
        });
        assert_eq!(
            origin.requests().len(),
            3,
            "{preset}: no more fetches after the failure"
        );
    }
}

#[test]
fn a_fetch_in_the_queue_is_not_stalled() {
    let (origin, gate) = Origin::gated(|gate, request, writer| {
        if request.path() == "/busy" {
            gate.pass();
        }
        writer.respond(200, &[LONG], request.path().as_bytes());
    })
    .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .site("lock_age = \"200ms\"\nin_flight = 1")
        .start();
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| site.get("/busy"));
        gate.wait_for_arrivals(1);
        let clients: Vec<_> = (0..10).map(|_| site.start_request("/page")).collect();
        wait_for("the fetch to queue", TIMEOUT, || {
            site.status_number("waiting") == 1
        });
        // For several lock ages.
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(1) {
            assert_eq!(site.status_number("waiting"), 1);
        }
        gate.open();
        assert_eq!(busy.join().unwrap().text(), "/busy");
        for mut waiting in clients {
            assert_eq!(waiting.receive("GET").unwrap().text(), "/page");
        }
    });
    assert_eq!(origin.count("/page"), 1);
}

#[test]
fn a_stalled_refresh_is_replaced() {
    for preset in PRESETS {
        let (origin, gate) = Origin::gated(|gate, request, writer| {
            if request.number == 1 {
                gate.pass();
            }
            let lifetime = ("Cache-Control", "max-age=1, stale-while-revalidate=600");
            writer.respond(200, &[lifetime], request.number.to_string().as_bytes());
        })
        .unwrap();
        let site = site_with_origin(&origin, preset, "200ms");
        site.get("/");
        wait_for("the third fetch", TIMEOUT, || {
            let response = site.get("/");
            assert!(response.is_hit(), "{preset}: {}", response.cache_status());
            response.text() != "0"
        });
        gate.open();
    }
}

#[test]
fn a_purge_is_final_while_stalled_fetches_are_replaced() {
    for preset in PRESETS {
        let version = Arc::new(AtomicU64::new(0));
        let current = Arc::clone(&version);
        let origin = Origin::start(
            move |request: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
                // The page is generated when the request arrives. Pauses before the head and within the body often exceed the lock age.
                let body = format!("version {:08}", current.load(Ordering::SeqCst));
                let number = u64::try_from(request.number).unwrap();
                std::thread::sleep(Duration::from_millis(number * 7 % 45));
                writer.chunked(200, &[LONG, ("Cache-Tag", "t1")]);
                writer.chunk(&body.as_bytes()[..4]);
                std::thread::sleep(Duration::from_millis(number * 11 % 35));
                writer.chunk(&body.as_bytes()[4..]);
                writer.last_chunk();
            },
        )
        .unwrap();
        let site = SiteBuilder::origin(&origin, preset)
            .site("lock_age = \"15ms\"\nin_flight = 50")
            .start();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut connection = site.connect();
                    while !is_over.load(Ordering::SeqCst) {
                        let response = connection.exchange(&with_host(Request::get("/"))).unwrap();
                        assert!(
                            response.text().starts_with("version "),
                            "{}",
                            response.excerpt()
                        );
                    }
                });
            }
            for round in 0..60 {
                let purged_at = version.fetch_add(1, Ordering::SeqCst) + 1;
                let purge = if round % 2 == 0 {
                    Request::new("PURGE", "/")
                } else {
                    Request::new("PURGE", "/")
                        .field("X-Purge-Method", "tags")
                        .field("X-Cache-Tags", "t1")
                };
                site.send(purge).assert_status(200);
                let body = site.get("/").expect_status(200).text();
                let received: u64 = body.trim_start_matches("version ").parse().unwrap();
                if received < purged_at {
                    is_over.store(true, Ordering::SeqCst);
                }
                assert!(
                    received >= purged_at,
                    "{preset}, {round}: version {received} after a purge at version {purged_at}"
                );
            }
            is_over.store(true, Ordering::SeqCst);
        });
        let fetches = origin.requests().len();
        assert!(fetches > 60, "{preset}: {fetches} fetches");
    }
}
