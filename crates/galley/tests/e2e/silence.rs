//! A fetch without progress is replaced, once per lock age, and no client is worse off for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::{Gate, Origin, ReceivedRequest, ResponseWriter};
use galley_testkit::wait_for;

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite, run_concurrently, with_host};

const LONG: (&str, &str) = ("Cache-Control", "max-age=600");

const PRESETS: [&str; 2] = ["wordpress", "none"];

fn behind(origin: &Origin, preset: &str, lock_age: &str) -> TestSite {
    SiteBuilder::origin(origin, preset)
        .site(&format!("lock_age = \"{lock_age}\""))
        .start()
}

/// An origin that lets each request wait at the gate with its number, where there is one, and then says the number.
fn numbered(gates: &[Gate]) -> Origin {
    let gates = gates.to_vec();
    Origin::start(
        move |seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
            if let Some(gate) = gates.get(seen.number) {
                gate.pass();
            }
            writer.answer(200, &[LONG], seen.number.to_string().as_bytes());
        },
    )
    .unwrap()
}

fn collapsed(answers: &[Response]) -> usize {
    let status = |answer: &&Response| answer.cache_status().contains("collapsed");
    answers.iter().filter(status).count()
}

#[test]
fn waiters_of_a_silent_fetch_cause_one_more_fetch() {
    for preset in PRESETS {
        let gates = [Gate::new(), Gate::new()];
        let origin = numbered(&gates);
        let site = behind(&origin, preset, "1s");
        std::thread::scope(|scope| {
            let crowd = scope.spawn(|| run_concurrently(50, |_| site.get("/")));
            gates[1].wait_for_arrivals(1);
            assert_eq!(
                origin.requests().len(),
                2,
                "{preset}: one more, and no stampede"
            );
            wait_for("the last of the crowd", TIMEOUT, || {
                site.status_number("connections") >= 50
            });
            gates[1].open();
            let answers = crowd.join().unwrap();
            for answer in &answers {
                assert_eq!(answer.text(), "1", "{preset}: {}", answer.beginning());
            }
            // The client of the second fetch gets its response; the client of the first has joined it.
            assert_eq!(collapsed(&answers), 49, "{preset}");
        });
        gates[0].open();
        wait_for("the first to end", TIMEOUT, || {
            site.status_number("in_flight") == 0
        });
        let stored = site.get("/");
        assert!(stored.is_hit(), "{preset}: {}", stored.cache_status());
        assert_eq!(stored.text(), "1", "{preset}: the older came in later");
        assert_eq!(origin.requests().len(), 2, "{preset}");
    }
}

#[test]
fn a_silent_fetch_that_continues_serves_its_waiters() {
    for preset in PRESETS {
        let gates = [Gate::new(), Gate::new()];
        let origin = numbered(&gates);
        let site = behind(&origin, preset, "100ms");
        std::thread::scope(|scope| {
            let crowd = scope.spawn(|| run_concurrently(10, |_| site.get("/")));
            gates[1].wait_for_arrivals(1);
            gates[0].open();
            for answer in crowd.join().unwrap() {
                assert_eq!(answer.text(), "0", "{preset}");
            }
        });
        assert!(site.get("/").is_hit(), "{preset}: it is kept");
        gates[1].open();
        wait_for("the newer to take its place", TIMEOUT, || {
            let answer = site.get("/");
            answer.is_hit() && answer.text() == "1"
        });
    }
}

#[test]
fn a_fetch_that_stops_within_its_body_is_replaced() {
    for preset in PRESETS {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::start(
            move |seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
                if seen.number > 0 {
                    writer.answer(200, &[LONG], b"second");
                    return;
                }
                writer.chunked(200, &[LONG]);
                writer.chunk(b"fir");
                held.pass();
                writer.chunk(b"st");
                writer.last_chunk();
            },
        )
        .unwrap();
        let site = behind(&origin, preset, "200ms");
        let mut readers = vec![site.start_request("/")];
        gate.wait_for_arrivals(1);
        wait_for("a request that does not join", TIMEOUT, || {
            readers.push(site.start_request("/"));
            origin.requests().len() == 2
        });
        wait_for("the second in the cache", TIMEOUT, || {
            let answer = site.get("/");
            answer.is_hit() && answer.text() == "second"
        });
        gate.open();
        let bodies: Vec<String> = readers
            .iter_mut()
            .map(|reader| reader.receive("GET").unwrap().text())
            .collect();
        assert_eq!(bodies[0], "first", "{preset}: who had bytes gets the rest");
        let whole = |body: &String| body == "first" || body == "second";
        assert!(bodies.iter().all(whole), "{preset}: {bodies:?}");
        wait_for("the first to end", TIMEOUT, || {
            site.status_number("in_flight") == 0
        });
        assert_eq!(site.get("/").text(), "second", "{preset}");
        assert_eq!(origin.requests().len(), 2, "{preset}");
    }
}

#[test]
fn the_failure_of_a_second_fetch_is_ignored_while_the_first_may_succeed() {
    for preset in PRESETS {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::start(
            move |seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
                if seen.number == 0 {
                    held.pass();
                    writer.answer(200, &[LONG], b"first");
                } else {
                    writer.reset();
                }
            },
        )
        .unwrap();
        let site = behind(&origin, preset, "200ms");
        std::thread::scope(|scope| {
            let crowd = scope.spawn(|| run_concurrently(10, |_| site.get("/")));
            // A safe request is sent twice where nothing was received.
            wait_for("the second to fail", TIMEOUT, || {
                origin.requests().len() == 3 && site.status_number("in_flight") == 1
            });
            gate.open();
            for answer in crowd.join().unwrap() {
                assert_eq!((answer.status, answer.text().as_str()), (200, "first"));
            }
        });
        assert_eq!(
            origin.requests().len(),
            3,
            "{preset}: who saw it fail asks no more"
        );
    }
}

#[test]
fn who_queues_for_a_place_is_not_silent() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(
        move |seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
            if seen.path() == "/busy" {
                held.pass();
            }
            writer.answer(200, &[LONG], seen.path().as_bytes());
        },
    )
    .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .site("lock_age = \"200ms\"\nin_flight = 1")
        .start();
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| site.get("/busy"));
        gate.wait_for_arrivals(1);
        let crowd: Vec<_> = (0..10).map(|_| site.start_request("/page")).collect();
        wait_for("one to queue", TIMEOUT, || {
            site.status_number("waiting") == 1
        });
        // Several lock ages.
        let queued = Instant::now();
        while queued.elapsed() < Duration::from_secs(1) {
            assert_eq!(site.status_number("waiting"), 1);
        }
        gate.open();
        assert_eq!(busy.join().unwrap().text(), "/busy");
        for mut waiting in crowd {
            assert_eq!(waiting.receive("GET").unwrap().text(), "/page");
        }
    });
    assert_eq!(origin.count("/page"), 1);
}

#[test]
fn a_refresh_that_hangs_does_not_keep_a_stale_page_for_ever() {
    for preset in PRESETS {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::start(
            move |seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
                if seen.number == 1 {
                    held.pass();
                }
                let life = ("Cache-Control", "max-age=1, stale-while-revalidate=600");
                writer.answer(200, &[life], seen.number.to_string().as_bytes());
            },
        )
        .unwrap();
        let site = behind(&origin, preset, "200ms");
        site.get("/");
        wait_for("the third composition", TIMEOUT, || {
            let answer = site.get("/");
            assert!(answer.is_hit(), "{preset}: {}", answer.cache_status());
            answer.text() != "0"
        });
        gate.open();
    }
}

#[test]
fn a_purge_is_final_also_while_fetches_hang_and_are_replaced() {
    for preset in PRESETS {
        let version = Arc::new(AtomicU64::new(0));
        let known = Arc::clone(&version);
        let origin = Origin::start(
            move |seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
                // Generated when the request comes, sent at any time: before the head or amid the body, often beyond the lock age.
                let body = format!("version {:08}", known.load(Ordering::SeqCst));
                let number = u64::try_from(seen.number).unwrap();
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
        let ending = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut connection = site.connect();
                    while !ending.load(Ordering::SeqCst) {
                        let answer = connection.exchange(&with_host(Request::get("/"))).unwrap();
                        assert!(
                            answer.text().starts_with("version "),
                            "{}",
                            answer.beginning()
                        );
                    }
                });
            }
            for round in 0..60 {
                let newest = version.fetch_add(1, Ordering::SeqCst) + 1;
                let order = if round % 2 == 0 {
                    Request::new("PURGE", "/")
                } else {
                    Request::new("PURGE", "/")
                        .field("X-Purge-Method", "tags")
                        .field("X-Cache-Tags", "t1")
                };
                site.send(order).assert_status(200);
                let answer = site.get("/").expect_status(200).text();
                let got: u64 = answer.trim_start_matches("version ").parse().unwrap();
                if got < newest {
                    ending.store(true, Ordering::SeqCst);
                }
                assert!(
                    got >= newest,
                    "{preset}, {round}: {got} after a purge at {newest}"
                );
            }
            ending.store(true, Ordering::SeqCst);
        });
        let asked = origin.requests().len();
        assert!(asked > 60, "{preset}: {asked} compositions");
    }
}
