//! Waiters for one fetch: how many, from where, and what they get when it fails.

use std::io::Read as _;
use std::sync::mpsc;

use galley_testkit::client::Response;
use galley_testkit::origin::{Gate, Origin, ReceivedRequest, ResponseWriter};
use galley_testkit::wait_for;

use crate::support::{SiteBuilder, TIMEOUT, random_bytes, run_concurrently};

const LONG: (&str, &str) = ("Cache-Control", "max-age=600");

const PRESETS: [&str; 2] = ["wordpress", "none"];

#[test]
fn a_thousand_at_once_share_one_fetch_on_every_core() {
    for preset in PRESETS {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::start(
            move |_: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
                held.pass();
                writer.answer(200, &[LONG], b"one for all");
            },
        )
        .unwrap();
        let site = SiteBuilder::origin(&origin, preset)
            .server("workers = 4")
            .start();
        let mut crowd: Vec<_> = (0..1000).map(|_| site.start_request("/")).collect();
        gate.wait_for_arrivals(1);
        gate.open();
        let mut leaders = 0;
        for client in &mut crowd {
            let answer = client.receive("GET").unwrap();
            assert_eq!(answer.text(), "one for all", "{}", answer.beginning());
            leaders += usize::from(answer.cache_status() == "galley; fwd=uri-miss; stored");
        }
        assert_eq!((leaders, origin.requests().len()), (1, 1), "{preset}");
    }
}

/// Answers of a crowd that came in before and after the gate was opened; it opens when so many have been answered.
fn before_and_after(
    gate: &Gate,
    before: usize,
    crowd: usize,
    send: impl Fn() -> Response + Sync,
) -> (Vec<Response>, Vec<Response>) {
    std::thread::scope(|scope| {
        let (answers, received) = mpsc::channel();
        for _ in 0..crowd {
            let (answers, send) = (answers.clone(), &send);
            scope.spawn(move || answers.send(send()).unwrap());
        }
        let take = || received.recv_timeout(TIMEOUT).unwrap();
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
        let origin = Origin::start(
            move |_: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
                held.pass();
                writer.answer(200, &[LONG], b"page");
            },
        )
        .unwrap();
        let site = SiteBuilder::origin(&origin, preset)
            .site("waiters = 3")
            .start();
        let (refused, served) = before_and_after(&gate, 7, 10, || site.get("/"));
        for answer in &refused {
            assert_eq!(answer.status, 503, "{preset}: {}", answer.beginning());
            assert!(answer.has("retry-after"), "{}", answer.beginning());
            assert_eq!(answer.cache_status(), "galley; detail=overload");
        }
        for answer in &served {
            assert_eq!(answer.status, 200, "{preset}: {}", answer.beginning());
        }
        assert_eq!(origin.requests().len(), 1, "{preset}");
    }
}

#[test]
fn one_more_than_may_wait_gets_the_stale_copy_where_there_is_one() {
    for preset in PRESETS {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::start(
            move |seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
                if seen.number > 0 {
                    held.pass();
                }
                let life = (
                    "Cache-Control",
                    "max-age=1, stale-if-error=600, stale-while-revalidate=0",
                );
                writer.answer(200, &[life], seen.number.to_string().as_bytes());
            },
        )
        .unwrap();
        let site = SiteBuilder::origin(&origin, preset)
            .site("waiters = 3")
            .start();
        site.get("/");
        site.wait_until_stale("/");
        let (early, late) = before_and_after(&gate, 7, 10, || site.get("/"));
        for answer in &early {
            let status = answer.cache_status();
            assert!(status.ends_with("detail=overload"), "{preset}: {status}");
            assert_eq!((answer.status, answer.text().as_str()), (200, "0"));
        }
        assert!(late.iter().all(|answer| answer.text() == "1"), "{preset}");
        assert_eq!(origin.requests().len(), 2, "{preset}");
    }
}

#[test]
fn a_failure_gives_all_who_wait_the_stale_copy() {
    for preset in PRESETS {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::start(
            move |seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
                let life = (
                    "Cache-Control",
                    "max-age=1, stale-if-error=600, stale-while-revalidate=0",
                );
                if seen.number == 0 {
                    writer.answer(200, &[life], b"old");
                } else {
                    held.pass();
                    writer.write(b"rubbish\r\n\r\n");
                    writer.close();
                }
            },
        )
        .unwrap();
        let site = SiteBuilder::origin(&origin, preset).start();
        site.get("/");
        site.wait_until_stale("/");
        let crowd: Vec<_> = (0..20).map(|_| site.start_request("/")).collect();
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
        let origin = Origin::start(
            move |_: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
                held.pass();
                writer.write(b"rubbish\r\n\r\n");
                writer.close();
            },
        )
        .unwrap();
        let site = SiteBuilder::origin(&origin, preset).start();
        std::thread::scope(|scope| {
            let crowd = scope.spawn(|| run_concurrently(20, |_| site.get("/").status));
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
        let origin = Origin::start(
            move |seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
                match (seen.number, seen.path(), seen.field("x-later")) {
                    (0, ..) => at_first.pass(),
                    (.., None) => at_others.pass(),
                    (.., Some(_)) => at_later.pass(),
                }
                let fields = [("Cache-Control", "private"), ("Set-Cookie", "a=b")];
                writer.answer(200, &fields, seen.number.to_string().as_bytes());
            },
        )
        .unwrap();
        let site = SiteBuilder::origin(&origin, preset)
            .site("in_flight = 100")
            .start();
        let crowd: Vec<_> = (0..30).map(|_| site.start_request("/")).collect();
        first.wait_for_arrivals(1);
        first.open();
        // With the preset the first one's request was trimmed, so that it is asked again as well.
        let asking = if preset == "wordpress" { 30 } else { 29 };
        others.wait_for_arrivals(asking);
        // It is remembered: nobody waits for anybody any more.
        let remembered: Vec<_> = (0..10)
            .map(|_| {
                let mut client = site.connect();
                let request = galley_testkit::client::Request::get("/").field("X-Later", "1");
                client.send(&crate::support::with_host(request)).unwrap();
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
    let page = random_bytes(24 * 1024 * 1024);
    for preset in PRESETS {
        let gate = Gate::new();
        let (held, body) = (gate.clone(), page.clone());
        let origin = Origin::start(
            move |_: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
                writer.chunked(200, &[LONG]);
                writer.chunk(&body[..1000]);
                held.pass();
                for piece in body[1000..].chunks(64 * 1024) {
                    writer.chunk(piece);
                }
                writer.last_chunk();
            },
        )
        .unwrap();
        let plan = SiteBuilder::origin(&origin, preset);
        let (scratch, fpm, config) = plan.prepare();
        let config = config.replace("memory = \"64MiB\"", "memory = \"256MiB\"");
        let galley = galley_testkit::Galley::start_binary(
            crate::support::binary(),
            &scratch.join("galley"),
            &config,
        )
        .unwrap();
        let site = crate::support::TestSite {
            galley,
            fpm,
            scratch,
        };
        let slow = site.start_request("/");
        slow.stream().set_read_timeout(Some(TIMEOUT)).unwrap();
        (&mut slow.stream()).read_exact(&mut [0; 10]).unwrap();
        let mut quick = site.start_request("/");
        gate.open();
        let answer = quick.receive("GET").unwrap().expect_status(200);
        assert!(answer.body == page, "{preset}: {} bytes", answer.body.len());
        wait_for("the page to be kept", TIMEOUT, || site.get("/").is_hit());
        assert_eq!(origin.requests().len(), 1, "{preset}");
    }
}
