//! Waiters for one fetch: how many, from where, and what they get when it fails.

use std::io::Read as _;
use std::sync::mpsc;

use galley_testkit::client::Response;
use galley_testkit::origin::{Gate, Origin, Seen, Wire};
use galley_testkit::wait_for;

use crate::support::{PATIENCE, Plan, noise, together};

const LONG: (&str, &str) = ("Cache-Control", "max-age=600");

const PRESETS: [&str; 2] = ["wordpress", "none"];

#[test]
fn a_thousand_at_once_share_one_fetch_on_every_core() {
    for preset in PRESETS {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::start(move |_: &Seen, wire: &mut Wire<'_>| {
            held.pass();
            wire.answer(200, &[LONG], b"one for all");
        })
        .unwrap();
        let stage = Plan::origin(&origin, preset).server("workers = 4").start();
        let mut crowd: Vec<_> = (0..1000).map(|_| stage.begin("/")).collect();
        gate.wait_for_arrivals(1);
        gate.open();
        let mut leaders = 0;
        for client in &mut crowd {
            let answer = client.receive("GET").unwrap();
            assert_eq!(answer.text(), "one for all", "{}", answer.beginning());
            leaders += usize::from(answer.cache_status() == "galley; fwd=uri-miss; stored");
        }
        assert_eq!((leaders, origin.seen().len()), (1, 1), "{preset}");
    }
}

/// Answers of a crowd that came in before and after the gate was opened; it opens when so many have been answered.
fn before_and_after(
    gate: &Gate,
    before: usize,
    crowd: usize,
    ask: impl Fn() -> Response + Sync,
) -> (Vec<Response>, Vec<Response>) {
    std::thread::scope(|scope| {
        let (answers, received) = mpsc::channel();
        for _ in 0..crowd {
            let (answers, ask) = (answers.clone(), &ask);
            scope.spawn(move || answers.send(ask()).unwrap());
        }
        let take = || received.recv_timeout(PATIENCE).unwrap();
        let early: Vec<_> = (0..before).map(|_| take()).collect();
        gate.open();
        let late = (before..crowd).map(|_| take()).collect();
        (early, late)
    })
}

#[test]
fn one_waiter_too_many_is_rejected_at_once() {
    for preset in PRESETS {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::start(move |_: &Seen, wire: &mut Wire<'_>| {
            held.pass();
            wire.answer(200, &[LONG], b"page");
        })
        .unwrap();
        let stage = Plan::origin(&origin, preset).site("waiters = 3").start();
        let (refused, served) = before_and_after(&gate, 7, 10, || stage.get("/"));
        for answer in &refused {
            assert_eq!(answer.status, 503, "{preset}: {}", answer.beginning());
            assert!(answer.has("retry-after"), "{}", answer.beginning());
            assert_eq!(answer.cache_status(), "galley; detail=overload");
        }
        for answer in &served {
            assert_eq!(answer.status, 200, "{preset}: {}", answer.beginning());
        }
        assert_eq!(origin.seen().len(), 1, "{preset}");
    }
}

#[test]
fn one_more_than_may_wait_gets_the_stale_copy_where_there_is_one() {
    for preset in PRESETS {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::start(move |seen: &Seen, wire: &mut Wire<'_>| {
            if seen.number > 0 {
                held.pass();
            }
            let life = (
                "Cache-Control",
                "max-age=1, stale-if-error=600, stale-while-revalidate=0",
            );
            wire.answer(200, &[life], seen.number.to_string().as_bytes());
        })
        .unwrap();
        let stage = Plan::origin(&origin, preset).site("waiters = 3").start();
        stage.get("/");
        stage.wait_until_stale("/");
        let (early, late) = before_and_after(&gate, 7, 10, || stage.get("/"));
        for answer in &early {
            let status = answer.cache_status();
            assert!(status.ends_with("detail=overload"), "{preset}: {status}");
            assert_eq!((answer.status, answer.text().as_str()), (200, "0"));
        }
        assert!(late.iter().all(|answer| answer.text() == "1"), "{preset}");
        assert_eq!(origin.seen().len(), 2, "{preset}");
    }
}

#[test]
fn a_failure_gives_all_who_wait_the_stale_copy() {
    for preset in PRESETS {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::start(move |seen: &Seen, wire: &mut Wire<'_>| {
            let life = (
                "Cache-Control",
                "max-age=1, stale-if-error=600, stale-while-revalidate=0",
            );
            if seen.number == 0 {
                wire.answer(200, &[life], b"old");
            } else {
                held.pass();
                wire.write(b"rubbish\r\n\r\n");
                wire.close();
            }
        })
        .unwrap();
        let stage = Plan::origin(&origin, preset).start();
        stage.get("/");
        stage.wait_until_stale("/");
        let crowd: Vec<_> = (0..20).map(|_| stage.begin("/")).collect();
        gate.wait_for_arrivals(1);
        gate.open();
        for mut client in crowd {
            let answer = client.receive("GET").unwrap();
            let status = answer.cache_status();
            assert!(
                status.ends_with("detail=upstream-error"),
                "{preset}: {status}"
            );
            assert_eq!((answer.status, answer.text().as_str()), (200, "old"));
        }
    }
}

#[test]
fn a_failure_wakes_all_who_wait_without_a_copy() {
    for preset in PRESETS {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::start(move |_: &Seen, wire: &mut Wire<'_>| {
            held.pass();
            wire.write(b"rubbish\r\n\r\n");
            wire.close();
        })
        .unwrap();
        let stage = Plan::origin(&origin, preset).start();
        std::thread::scope(|scope| {
            let crowd = scope.spawn(|| together(20, |_| stage.get("/").status));
            gate.wait_for_arrivals(1);
            gate.open();
            for status in crowd.join().unwrap() {
                assert_eq!(status, 502, "{preset}");
            }
        });
    }
}

#[test]
fn what_may_not_be_shared_is_asked_for_by_all_who_waited_at_the_same_time() {
    for preset in PRESETS {
        let (first, others, later) = (Gate::new(), Gate::new(), Gate::new());
        let (at_first, at_others, at_later) = (first.clone(), others.clone(), later.clone());
        let origin = Origin::start(move |seen: &Seen, wire: &mut Wire<'_>| {
            match (seen.number, seen.path(), seen.field("x-later")) {
                (0, ..) => at_first.pass(),
                (.., None) => at_others.pass(),
                (.., Some(_)) => at_later.pass(),
            }
            let fields = [("Cache-Control", "private"), ("Set-Cookie", "a=b")];
            wire.answer(200, &fields, seen.number.to_string().as_bytes());
        })
        .unwrap();
        let stage = Plan::origin(&origin, preset)
            .site("in_flight = 100")
            .start();
        let crowd: Vec<_> = (0..30).map(|_| stage.begin("/")).collect();
        first.wait_for_arrivals(1);
        first.open();
        // With the preset the first one's request was trimmed, so that it is asked again as well.
        let asking = if preset == "wordpress" { 30 } else { 29 };
        others.wait_for_arrivals(asking);
        // It is remembered: nobody waits for anybody any more.
        let remembered: Vec<_> = (0..10)
            .map(|_| {
                let mut client = stage.connect();
                let request = galley_testkit::client::Request::get("/").field("X-Later", "1");
                client.send(&crate::support::hosted(request)).unwrap();
                client
            })
            .collect();
        later.wait_for_arrivals(10);
        others.open();
        later.open();
        let mut bodies: Vec<String> = crowd
            .into_iter()
            .chain(remembered)
            .map(|mut client| client.receive("GET").unwrap().expect_status(200).text())
            .collect();
        bodies.sort();
        bodies.dedup();
        assert_eq!(bodies.len(), 40, "{preset}: two visitors got one answer");
    }
}

#[test]
fn a_slow_first_client_does_not_hold_the_others_back() {
    // More than sockets on the way take in.
    let page = noise(24 * 1024 * 1024);
    for preset in PRESETS {
        let gate = Gate::new();
        let (held, body) = (gate.clone(), page.clone());
        let origin = Origin::start(move |_: &Seen, wire: &mut Wire<'_>| {
            wire.chunked(200, &[LONG]);
            wire.chunk(&body[..1000]);
            held.pass();
            for piece in body[1000..].chunks(64 * 1024) {
                wire.chunk(piece);
            }
            wire.last_chunk();
        })
        .unwrap();
        let plan = Plan::origin(&origin, preset);
        let (scratch, fpm, config) = plan.prepare();
        let config = config.replace("memory = \"64MiB\"", "memory = \"256MiB\"");
        let galley = galley_testkit::Galley::start_binary(
            crate::support::binary(),
            &scratch.join("galley"),
            &config,
        )
        .unwrap();
        let stage = crate::support::Stage {
            galley,
            fpm,
            scratch,
        };
        let slow = stage.begin("/");
        slow.stream().set_read_timeout(Some(PATIENCE)).unwrap();
        (&mut slow.stream()).read_exact(&mut [0; 10]).unwrap();
        let mut quick = stage.begin("/");
        gate.open();
        let answer = quick.receive("GET").unwrap().expect_status(200);
        assert!(answer.body == page, "{preset}: {} bytes", answer.body.len());
        wait_for("the page to be kept", PATIENCE, || stage.get("/").is_hit());
        assert_eq!(origin.seen().len(), 1, "{preset}");
    }
}
