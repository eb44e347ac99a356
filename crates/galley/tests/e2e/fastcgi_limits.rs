//! Limits of requests to PHP: concurrency, queue, timeouts, disconnected and slow clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use galley_testkit::client::Request;
use galley_testkit::origin::{FastCgiOrigin, Gate};
use galley_testkit::wait_for;

use crate::support::{
    AssertStatus, SHORT_TIMEOUT, SiteBuilder, TIMEOUT, run_concurrently, with_host,
};

#[test]
fn in_flight_limits_concurrent_requests_to_php() {
    let gate = Gate::new();
    let (running, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let script = {
        let (gate, running, peak) = (gate.clone(), Arc::clone(&running), Arc::clone(&peak));
        move |_: &_, app: &mut galley_testkit::origin::FastCgiWriter<'_>| {
            peak.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            gate.pass();
            running.fetch_sub(1, Ordering::SeqCst);
            app.respond("Content-Type: text/plain", b"done");
        }
    };
    let responder = FastCgiOrigin::start(script).unwrap();
    let site = SiteBuilder::upstream_line(&format!("php = \"{}\"", responder.address()))
        .file("index.php", "")
        .site("in_flight = 2\nqueue = 20")
        .start();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..10)
            .map(|n| {
                let site = &site;
                scope.spawn(move || {
                    site.send(Request::post(&format!("/{n}"), "text/plain", "x"))
                        .status
                })
            })
            .collect();
        wait_for("eight queued requests", TIMEOUT, || {
            site.status_number("waiting") == 8
        });
        // Requests with a slot may not have reached the origin yet.
        gate.wait_for_arrivals(2);
        assert_eq!(gate.arrivals(), 2);
        assert_eq!(site.status_number("in_flight"), 2);
        gate.open();
        for thread in clients {
            assert_eq!(thread.join().unwrap(), 200);
        }
    });
    assert_eq!(
        peak.load(Ordering::SeqCst),
        2,
        "peak of concurrent requests"
    );
    assert_eq!(responder.count(), 10);
}

#[test]
fn a_full_queue_rejects_requests_at_once() {
    let site = SiteBuilder::php()
        .workers(1)
        .site("in_flight = 1\nqueue = 1")
        .start();
    site.hold("/slow");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| site.send(Request::post("/slow", "text/plain", "x")).status);
        site.wait_until_held("/slow");
        let second = scope.spawn(|| {
            site.send(Request::post("/second", "text/plain", "x"))
                .status
        });
        wait_for("one queued request", TIMEOUT, || {
            site.status_number("waiting") == 1
        });
        for request in [
            Request::post("/third", "text/plain", "x"),
            Request::get("/third"),
            Request::get("/wp-login.php"),
        ] {
            let third = site.send(request).expect_status(503);
            assert!(
                third
                    .field("retry-after")
                    .is_some_and(|after| after.parse::<u32>().is_ok()),
                "{}",
                third.excerpt()
            );
            assert!(
                third.cache_status().contains("detail=overload"),
                "{}",
                third.cache_status()
            );
        }
        site.release("/slow");
        assert_eq!((first.join().unwrap(), second.join().unwrap()), (200, 200));
    });
    assert_eq!(site.runs("/third"), 0);
    site.get("/third").assert_status(200);
}

#[test]
fn queued_requests_time_out() {
    let site = SiteBuilder::php()
        .workers(1)
        .site("in_flight = 1\nqueue_timeout = \"400ms\"")
        .start();
    site.hold("/slow");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| site.send(Request::post("/slow", "text/plain", "x")).status);
        site.wait_until_held("/slow");
        let began = Instant::now();
        site.get("/second").assert_status(503);
        assert!(
            (Duration::from_millis(350)..SHORT_TIMEOUT).contains(&began.elapsed()),
            "{:?}",
            began.elapsed()
        );
        site.release("/slow");
        assert_eq!(first.join().unwrap(), 200);
    });
    site.get("/second").assert_status(200);
}

#[test]
fn php_timeouts_get_504_or_a_truncated_response() {
    let site = SiteBuilder::php()
        .site("first_byte_timeout = \"400ms\"\nread_timeout = \"400ms\"")
        .start();
    site.hold("/slow");
    for request in [
        Request::get("/slow"),
        Request::post("/slow", "text/plain", "x"),
    ] {
        let response = site.send(request).expect_status(504);
        assert!(
            response.cache_status().contains("detail=upstream-timeout"),
            "{}",
            response.cache_status()
        );
    }
    site.release("/slow");
    // A timeout in the body: the response is truncated, and not stored.
    site.pause("/half");
    for request in [
        Request::get("/half"),
        Request::post("/half", "text/plain", "x"),
    ] {
        let broken = with_host(request).send(site.addr());
        assert!(
            broken.is_err(),
            "a truncated page is a complete response: {:?}",
            broken.map(|response| response.text())
        );
    }
    site.resume("/half");
    let whole = site.get("/half").expect_status(200);
    assert!(!whole.is_hit() && whole.text().ends_with("</html>\n"));
}

#[test]
fn a_disconnected_client_frees_its_slot() {
    let site = SiteBuilder::php().workers(2).site("in_flight = 1").start();
    // During the response, while PHP sends nothing.
    site.pause("/silent");
    let mut connection = site.connect();
    connection
        .send(&with_host(
            Request::get("/silent").cookie("wordpress_logged_in_x=1"),
        ))
        .unwrap();
    site.wait_until_paused("/silent");
    drop(connection);
    site.get("/next").assert_status(200);
    site.resume("/silent");
    // Before the head of the response.
    site.hold("/held");
    let mut connection = site.connect();
    connection
        .send(&with_host(
            Request::get("/held").cookie("wordpress_logged_in_x=1"),
        ))
        .unwrap();
    site.wait_until_held("/held");
    drop(connection);
    site.get("/next2").assert_status(200);
    site.release("/held");
    wait_for("log records of the disconnected clients", TIMEOUT, || {
        site.access()
            .lines()
            .filter(|line| line.contains(" /silent ") || line.contains(" /held "))
            .count()
            == 2
    });
}

#[test]
fn a_disconnect_during_an_endless_response_frees_the_slot() {
    let flood =
        "<?php while (true) { echo str_repeat('x', 65536); if (connection_aborted()) { break; } }";
    let site = SiteBuilder::php()
        .workers(2)
        .site("in_flight = 1")
        .file("flood.php", flood)
        .ini("max_execution_time", "600")
        .start();
    let mut connection = site.connect();
    connection
        .send(&with_host(Request::get("/flood.php")))
        .unwrap();
    let mut piece = vec![0; 300_000];
    std::io::Read::read_exact(&mut connection.stream(), &mut piece).unwrap();
    drop(connection);
    site.get("/next").assert_status(200);
}

#[test]
fn an_unsafe_request_completes_after_its_client_disconnects() {
    let site = SiteBuilder::php().workers(2).start();
    site.get("/page");
    assert!(site.get("/page").is_hit());
    site.hold("/comment");
    site.head("/comment", &["Location: /page", "Status: 302"]);
    let mut connection = site.connect();
    connection
        .send(&with_host(
            Request::form("/comment", &[("text", "hello")])
                .cookie("wordpress_logged_in_0123=editor|1|x"),
        ))
        .unwrap();
    site.wait_until_held("/comment");
    drop(connection);
    site.release("/comment");
    // Galley processes the response: the target of its redirect is purged softly.
    wait_for("the page to be refreshed", TIMEOUT, || {
        site.get("/page");
        site.runs("/page") > 1
    });
}

#[test]
fn a_slow_client_uses_little_memory() {
    let large = "<?php $n = __DIR__ . '/../notes/sent'; for ($i = 1; $i <= 64; $i++) { echo str_repeat(chr(64 + $i), 1048576); file_put_contents($n, $i); }";
    let site = SiteBuilder::php()
        .file("large.php", large)
        .ini("output_buffering", "0")
        .server("spool_response = \"8MiB\"")
        .start();
    site.get("/");
    let before = site.peak_memory();
    let mut connection = site.connect();
    connection
        .send(&with_host(Request::get("/large.php")))
        .unwrap();
    site.wait_for_note("sent");
    let sent = || std::fs::read_to_string(site.notes().join("sent")).unwrap();
    // Backpressure has stopped PHP if it makes no progress for a while.
    let (mut last, mut since) = (sent(), Instant::now());
    wait_for("PHP to be blocked", TIMEOUT, || {
        let now = sent();
        if now != last {
            (last, since) = (now, Instant::now());
        }
        since.elapsed() > Duration::from_millis(400)
    });
    assert_ne!(
        last, "64",
        "PHP was not blocked, so its whole response is buffered"
    );
    let response = connection.receive("GET").unwrap().expect_status(200);
    assert_eq!(response.body.len(), 64 * 1_048_576);
    assert!(
        response
            .body
            .chunks(1_048_576)
            .zip(1_u8..)
            .all(|(piece, n)| piece.iter().all(|byte| *byte == 64 + n))
    );
    // Half the size of the response. The overhead of the allocator and helper threads depends on the machine.
    let grown = site.grown_since(before);
    assert!(
        grown < 32 * 1024 * 1024,
        "{grown} bytes for one slow client"
    );
}

#[test]
fn reused_connections_do_not_block_a_small_worker_pool() {
    let site = SiteBuilder::php().workers(2).site("in_flight = 10").start();
    let statuses = run_concurrently(20, |n| {
        let mut connection = site.connect();
        (0..5)
            .map(|round| {
                connection
                    .exchange(&with_host(Request::post(
                        &format!("/x{n}_{round}"),
                        "text/plain",
                        "x",
                    )))
                    .unwrap()
                    .status
            })
            .all(|status| status == 200)
    });
    assert!(
        statuses.into_iter().all(|fine| fine),
        "requests failed with more connections than workers"
    );
}
