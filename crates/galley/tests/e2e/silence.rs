//! A fetch without progress is replaced, once per lock age, and no client is worse off for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::{Gate, Origin, Seen, Wire};
use galley_testkit::wait_for;

use crate::support::{Is, PATIENCE, Plan, Stage, hosted, together};

const LONG: (&str, &str) = ("Cache-Control", "max-age=600");

const PRESETS: [&str; 2] = ["wordpress", "none"];

fn behind(origin: &Origin, preset: &str, lock_age: &str) -> Stage {
    Plan::origin(origin, preset)
        .site(&format!("lock_age = \"{lock_age}\""))
        .start()
}

/// An origin that lets each request wait at the gate with its number, where there is one, and then says the number.
fn numbered(gates: &[Gate]) -> Origin {
    let gates = gates.to_vec();
    Origin::start(move |seen: &Seen, wire: &mut Wire<'_>| {
        if let Some(gate) = gates.get(seen.number) {
            gate.pass();
        }
        wire.answer(200, &[LONG], seen.number.to_string().as_bytes());
    })
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
        let stage = behind(&origin, preset, "1s");
        std::thread::scope(|scope| {
            let crowd = scope.spawn(|| together(50, |_| stage.get("/")));
            gates[1].wait_for_arrivals(1);
            assert_eq!(
                origin.seen().len(),
                2,
                "{preset}: one more, and no stampede"
            );
            wait_for("the last of the crowd", PATIENCE, || {
                stage.status_number("connections") >= 50
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
        wait_for("the first to end", PATIENCE, || {
            stage.status_number("in_flight") == 0
        });
        let stored = stage.get("/");
        assert!(stored.is_hit(), "{preset}: {}", stored.cache_status());
        assert_eq!(stored.text(), "1", "{preset}: the older came in later");
        assert_eq!(origin.seen().len(), 2, "{preset}");
    }
}

#[test]
fn a_silent_fetch_that_continues_serves_its_waiters() {
    for preset in PRESETS {
        let gates = [Gate::new(), Gate::new()];
        let origin = numbered(&gates);
        let stage = behind(&origin, preset, "100ms");
        std::thread::scope(|scope| {
            let crowd = scope.spawn(|| together(10, |_| stage.get("/")));
            gates[1].wait_for_arrivals(1);
            gates[0].open();
            for answer in crowd.join().unwrap() {
                assert_eq!(answer.text(), "0", "{preset}");
            }
        });
        assert!(stage.get("/").is_hit(), "{preset}: it is kept");
        gates[1].open();
        wait_for("the newer to take its place", PATIENCE, || {
            let answer = stage.get("/");
            answer.is_hit() && answer.text() == "1"
        });
    }
}

#[test]
fn a_fetch_that_stops_within_its_body_is_replaced() {
    for preset in PRESETS {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::start(move |seen: &Seen, wire: &mut Wire<'_>| {
            if seen.number > 0 {
                wire.answer(200, &[LONG], b"second");
                return;
            }
            wire.chunked(200, &[LONG]);
            wire.chunk(b"fir");
            held.pass();
            wire.chunk(b"st");
            wire.last_chunk();
        })
        .unwrap();
        let stage = behind(&origin, preset, "200ms");
        let mut readers = vec![stage.begin("/")];
        gate.wait_for_arrivals(1);
        wait_for("a request that does not join", PATIENCE, || {
            readers.push(stage.begin("/"));
            origin.seen().len() == 2
        });
        wait_for("the second in the cache", PATIENCE, || {
            let answer = stage.get("/");
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
        wait_for("the first to end", PATIENCE, || {
            stage.status_number("in_flight") == 0
        });
        assert_eq!(stage.get("/").text(), "second", "{preset}");
        assert_eq!(origin.seen().len(), 2, "{preset}");
    }
}

#[test]
fn the_failure_of_a_second_fetch_is_ignored_while_the_first_may_succeed() {
    for preset in PRESETS {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::start(move |seen: &Seen, wire: &mut Wire<'_>| {
            if seen.number == 0 {
                held.pass();
                wire.answer(200, &[LONG], b"first");
            } else {
                wire.reset();
            }
        })
        .unwrap();
        let stage = behind(&origin, preset, "200ms");
        std::thread::scope(|scope| {
            let crowd = scope.spawn(|| together(10, |_| stage.get("/")));
            // A safe request is sent twice where nothing was received.
            wait_for("the second to fail", PATIENCE, || {
                origin.seen().len() == 3 && stage.status_number("in_flight") == 1
            });
            gate.open();
            for answer in crowd.join().unwrap() {
                assert_eq!((answer.status, answer.text().as_str()), (200, "first"));
            }
        });
        assert_eq!(
            origin.seen().len(),
            3,
            "{preset}: who saw it fail asks no more"
        );
    }
}

#[test]
fn who_queues_for_a_place_is_not_silent() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |seen: &Seen, wire: &mut Wire<'_>| {
        if seen.path() == "/busy" {
            held.pass();
        }
        wire.answer(200, &[LONG], seen.path().as_bytes());
    })
    .unwrap();
    let stage = Plan::origin(&origin, "wordpress")
        .site("lock_age = \"200ms\"\nin_flight = 1")
        .start();
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| stage.get("/busy"));
        gate.wait_for_arrivals(1);
        let crowd: Vec<_> = (0..10).map(|_| stage.begin("/page")).collect();
        wait_for("one to queue", PATIENCE, || {
            stage.status_number("waiting") == 1
        });
        // Several lock ages.
        let queued = Instant::now();
        while queued.elapsed() < Duration::from_secs(1) {
            assert_eq!(stage.status_number("waiting"), 1);
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
        let origin = Origin::start(move |seen: &Seen, wire: &mut Wire<'_>| {
            if seen.number == 1 {
                held.pass();
            }
            let life = ("Cache-Control", "max-age=1, stale-while-revalidate=600");
            wire.answer(200, &[life], seen.number.to_string().as_bytes());
        })
        .unwrap();
        let stage = behind(&origin, preset, "200ms");
        stage.get("/");
        wait_for("the third composition", PATIENCE, || {
            let answer = stage.get("/");
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
        let origin = Origin::start(move |seen: &Seen, wire: &mut Wire<'_>| {
            // Generated when the request comes, sent at any time: before the head or amid the body, often beyond the lock age.
            let body = format!("version {:08}", known.load(Ordering::SeqCst));
            let number = u64::try_from(seen.number).unwrap();
            std::thread::sleep(Duration::from_millis(number * 7 % 45));
            wire.chunked(200, &[LONG, ("Cache-Tag", "t1")]);
            wire.chunk(&body.as_bytes()[..4]);
            std::thread::sleep(Duration::from_millis(number * 11 % 35));
            wire.chunk(&body.as_bytes()[4..]);
            wire.last_chunk();
        })
        .unwrap();
        let stage = Plan::origin(&origin, preset)
            .site("lock_age = \"15ms\"\nin_flight = 50")
            .start();
        let ending = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut connection = stage.connect();
                    while !ending.load(Ordering::SeqCst) {
                        let answer = connection.exchange(&hosted(Request::get("/"))).unwrap();
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
                stage.ask(order).is(200);
                let answer = stage.get("/").expect_status(200).text();
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
        let asked = origin.seen().len();
        assert!(asked > 60, "{preset}: {asked} compositions");
    }
}
