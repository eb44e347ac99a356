//! Request collapsing: clients that wait for one fetch, their limit, and the responses that they get if it fails.

use std::io::Read as _;
use std::sync::mpsc;

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::{Gate, Origin, ReceivedRequest, ResponseWriter};
use galley_testkit::wait_for;

use crate::support::{SiteBuilder, TIMEOUT, random_bytes, run_concurrently, with_host};

const LONG: (&str, &str) = ("Cache-Control", "max-age=600");

const PRESETS: [&str; 2] = ["wordpress", "none"];

#[test]
fn a_thousand_concurrent_requests_share_one_fetch() {
    for preset in PRESETS {
        let (origin, gate) = Origin::gated(|gate, _, writer| {
            gate.pass();
            writer.respond(200, &[LONG], b"one for all");
        })
        .unwrap();
        let site = SiteBuilder::origin(&origin, preset)
            .server("workers = 4")
            .start();
        let mut clients: Vec<_> = (0..1000).map(|_| site.start_request("/")).collect();
        gate.wait_for_arrivals(1);
        gate.open();
        let mut leaders = 0;
        for client in &mut clients {
            let response = client.receive("GET").unwrap();
            assert_eq!(response.text(), "one for all", "{}", response.excerpt());
            leaders += usize::from(response.cache_status() == "galley; fwd=uri-miss; stored");
        }
        assert_eq!((leaders, origin.requests().len()), (1, 1), "{preset}");
    }
}

/// Sends `count` concurrent requests and opens the gate after `early_count` responses; returns the responses before and after that.
fn early_and_late_responses(
    gate: &Gate,
    early_count: usize,
    count: usize,
    send: impl Fn() -> Response + Sync,
) -> (Vec<Response>, Vec<Response>) {
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..count {
            let (sender, send) = (sender.clone(), &send);
            scope.spawn(move || sender.send(send()).unwrap());
        }
        let receive = || receiver.recv_timeout(TIMEOUT).unwrap();
        let early: Vec<_> = (0..early_count).map(|_| receive()).collect();
        gate.open();
        let late = (early_count..count).map(|_| receive()).collect();
        (early, late)
    })
}

#[test]
fn waiters_beyond_the_limit_are_rejected_at_once() {
    for preset in PRESETS {
        let (origin, gate) = Origin::gated(|gate, _, writer| {
            gate.pass();
            writer.respond(200, &[LONG], b"page");
        })
        .unwrap();
        let site = SiteBuilder::origin(&origin, preset)
            .site("waiters = 3")
            .start();
        let (rejected, served) = early_and_late_responses(&gate, 7, 10, || site.get("/"));
        for response in &rejected {
            assert_eq!(response.status, 503, "{preset}: {}", response.excerpt());
            assert!(response.has("retry-after"), "{}", response.excerpt());
            assert_eq!(response.cache_status(), "galley; detail=overload");
        }
        for response in &served {
            assert_eq!(response.status, 200, "{preset}: {}", response.excerpt());
        }
        assert_eq!(origin.requests().len(), 1, "{preset}");
    }
}

#[test]
fn waiters_beyond_the_limit_get_a_stale_page_if_one_exists() {
    for preset in PRESETS {
        let (origin, gate) = Origin::gated(|gate, request, writer| {
            if request.number > 0 {
                gate.pass();
            }
            let lifetime = (
                "Cache-Control",
                "max-age=1, stale-if-error=600, stale-while-revalidate=0",
            );
            writer.respond(200, &[lifetime], request.number.to_string().as_bytes());
        })
        .unwrap();
        let site = SiteBuilder::origin(&origin, preset)
            .site("waiters = 3")
            .start();
        site.get("/");
        site.wait_until_stale("/");
        let (early, late) = early_and_late_responses(&gate, 7, 10, || site.get("/"));
        for response in &early {
            let status = response.cache_status();
            assert!(status.ends_with("detail=overload"), "{preset}: {status}");
            assert_eq!((response.status, response.text().as_str()), (200, "0"));
        }
        assert!(
            late.iter().all(|response| response.text() == "1"),
            "{preset}"
        );
        assert_eq!(origin.requests().len(), 2, "{preset}");
    }
}

#[test]
fn all_waiters_of_a_failed_fetch_get_the_stale_page() {
    for preset in PRESETS {
        let (origin, gate) = Origin::gated(|gate, request, writer| {
            let lifetime = (
                "Cache-Control",
                "max-age=1, stale-if-error=600, stale-while-revalidate=0",
            );
            if request.number == 0 {
                writer.respond(200, &[lifetime], b"old");
            } else {
                gate.pass();
                writer.write(b"rubbish\r\n\r\n");
                writer.close();
            }
        })
        .unwrap();
        let site = SiteBuilder::origin(&origin, preset).start();
        site.get("/");
        site.wait_until_stale("/");
        let clients: Vec<_> = (0..20).map(|_| site.start_request("/")).collect();
        gate.wait_for_arrivals(1);
        gate.open();
        for mut client in clients {
            let response = client.receive("GET").unwrap();
            let status = response.cache_status();
            assert!(
                status.ends_with("detail=upstream-error"),
                "{preset}: {status}"
            );
            assert_eq!((response.status, response.text().as_str()), (200, "old"));
        }
    }
}

#[test]
fn all_waiters_of_a_failed_fetch_get_an_error_without_a_stale_page() {
    for preset in PRESETS {
        let (origin, gate) = Origin::gated(|gate, _, writer| {
            gate.pass();
            writer.write(b"rubbish\r\n\r\n");
            writer.close();
        })
        .unwrap();
        let site = SiteBuilder::origin(&origin, preset).start();
        std::thread::scope(|scope| {
            let clients = scope.spawn(|| run_concurrently(20, |_| site.get("/").status));
            gate.wait_for_arrivals(1);
            gate.open();
            for status in clients.join().unwrap() {
                assert_eq!(status, 502, "{preset}");
            }
        });
    }
}

#[test]
fn requests_that_waited_for_a_private_response_are_forwarded_concurrently() {
    for preset in PRESETS {
        let (first, others, later) = (Gate::new(), Gate::new(), Gate::new());
        let (first_gate, others_gate, later_gate) = (first.clone(), others.clone(), later.clone());
        let origin = Origin::start(
            move |request: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
                match (request.number, request.path(), request.field("x-later")) {
                    (0, ..) => first_gate.pass(),
                    (.., None) => others_gate.pass(),
                    (.., Some(_)) => later_gate.pass(),
                }
                let fields = [("Cache-Control", "private"), ("Set-Cookie", "a=b")];
                writer.respond(200, &fields, request.number.to_string().as_bytes());
            },
        )
        .unwrap();
        let site = SiteBuilder::origin(&origin, preset)
            .site("in_flight = 100")
            .start();
        let clients: Vec<_> = (0..30).map(|_| site.start_request("/")).collect();
        first.wait_for_arrivals(1);
        first.open();
        // The preset `wordpress` removes fields from the first request, so that it is sent again as well.
        let expected = if preset == "wordpress" { 30 } else { 29 };
        others.wait_for_arrivals(expected);
        // The page is hit-for-pass now: no client waits for another.
        let passed: Vec<_> = (0..10)
            .map(|_| {
                let mut client = site.connect();
                let request = Request::get("/").field("X-Later", "1");
                client.send(&with_host(request)).unwrap();
                client
            })
            .collect();
        later.wait_for_arrivals(10);
        others.open();
        later.open();
        let mut bodies: Vec<String> = clients
            .into_iter()
            .chain(passed)
            .map(|mut client| client.receive("GET").unwrap().expect_status(200).text())
            .collect();
        bodies.sort();
        bodies.dedup();
        assert_eq!(
            bodies.len(),
            40,
            "{preset}: two clients got the same response"
        );
    }
}

#[test]
fn a_slow_first_client_does_not_delay_the_others() {
    // More than the socket buffers.
    let page = random_bytes(24 * 1024 * 1024);
    for preset in PRESETS {
        let body = page.clone();
        let (origin, gate) = Origin::gated(move |gate, _, writer| {
            writer.chunked(200, &[LONG]);
            writer.chunk(&body[..1000]);
            gate.pass();
            for piece in body[1000..].chunks(64 * 1024) {
                writer.chunk(piece);
            }
            writer.last_chunk();
        })
        .unwrap();
        let site = SiteBuilder::origin(&origin, preset)
            .cache("memory = \"256MiB\"\n")
            .start();
        let slow = site.start_request("/");
        slow.stream().set_read_timeout(Some(TIMEOUT)).unwrap();
        (&mut slow.stream()).read_exact(&mut [0; 10]).unwrap();
        let mut fast = site.start_request("/");
        gate.open();
        let response = fast.receive("GET").unwrap().expect_status(200);
        assert!(
            response.body == page,
            "{preset}: {} bytes",
            response.body.len()
        );
        wait_for("the page to be stored", TIMEOUT, || site.get("/").is_hit());
        assert_eq!(origin.requests().len(), 1, "{preset}");
    }
}
