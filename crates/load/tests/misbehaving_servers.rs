//! The figures of servers that misbehave: what a server drops, refuses or never answers must not make it look fast, and a run
//! that proves nothing must not look like one that does.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use galley_load::{
    Connections, Generator, Limit, LoadClient, LoadError, Order, Pace, Target, Template, Timeouts,
    Workload,
};
use galley_testkit::origin::{Origin, ResponseWriter};
use rustix::time::{ClockId, clock_gettime};

const SLOW: Duration = Duration::from_millis(60);

/// An origin whose script gets the number of each request, from 1.
fn origin(script: impl Fn(u64, &mut ResponseWriter<'_>) + Send + Sync + 'static) -> Origin {
    let count = AtomicU64::new(0);
    Origin::start(move |_, wire| script(count.fetch_add(1, Ordering::SeqCst) + 1, wire)).unwrap()
}

fn client(addr: SocketAddr, connections: usize, pace: Pace) -> LoadClient {
    let template =
        Template::parse("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", &BTreeMap::new()).unwrap();
    let workload = Workload {
        requests: Box::new(Generator::new(template, &Order::InTurn(1), 200)),
        connections,
        pace,
    };
    let target = Target {
        addr,
        tls: None,
        connections: Connections::Kept,
        watch: None,
    };
    LoadClient::connect(target, vec![workload], Arc::default()).unwrap()
}

#[test]
fn a_server_that_drops_its_slowest_requests_does_not_improve() {
    let origin = origin(|number, wire| {
        if number % 10 == 0 {
            thread::sleep(SLOW);
            wire.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
            wire.close();
        } else {
            wire.answer(200, &[], b"hello");
        }
    });
    let mut client = client(origin.addr(), 1, Pace::Closed);
    let seen = client.run(Limit::Requests(100)).unwrap().remove(0);
    assert_eq!((seen.responses, seen.broken), (90, 10));
    assert_eq!((seen.latency.len(), seen.broken_latency.len()), (90, 10));
    assert!(seen.quantile(0.95) >= SLOW, "{:?}", seen.quantile(0.95));
    assert!(seen.quantile(0.5) < SLOW, "{:?}", seen.quantile(0.5));
}

#[test]
fn a_connection_that_is_dropped_at_once_counts_as_slower_than_every_response() {
    let origin = origin(|number, wire| {
        if number % 10 == 0 {
            wire.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
            wire.close();
        } else {
            thread::sleep(Duration::from_millis(5));
            wire.answer(200, &[], b"hello");
        }
    });
    let mut client = client(origin.addr(), 1, Pace::Closed);
    let seen = client.run(Limit::Requests(50)).unwrap().remove(0);
    let slowest = Duration::from_nanos(seen.latency.max());
    assert_eq!(seen.quantile(0.99), slowest);
    assert!(seen.quantile(0.1) >= Duration::from_millis(5));
}

#[test]
fn quick_refusals_do_not_lower_the_latency_of_pages() {
    let origin = origin(|number, wire| {
        if number % 2 == 0 {
            wire.answer(503, &[], b"busy");
        } else {
            thread::sleep(SLOW / 3);
            wire.answer(200, &[], b"hello");
        }
    });
    let mut client = client(origin.addr(), 1, Pace::Closed);
    let seen = client.run(Limit::Requests(40)).unwrap().remove(0);
    assert_eq!((seen.responses, seen.unexpected_status), (40, 20));
    assert_eq!((seen.latency.len(), seen.error_latency.len()), (20, 20));
    assert!(seen.quantile(0.01) >= SLOW / 3, "{:?}", seen.quantile(0.01));
}

#[test]
fn a_request_without_a_response_counts_with_the_time_that_it_waited() {
    let origin = origin(|number, wire| {
        if number == 5 {
            thread::sleep(SLOW * 20);
        }
        wire.answer(200, &[], b"hello");
    });
    let mut client = client(origin.addr(), 1, Pace::Closed);
    client.set_timeouts(Timeouts {
        responses: SLOW * 3,
        ..Timeouts::default()
    });
    let seen = client.run(Limit::Time(SLOW)).unwrap().remove(0);
    assert_eq!((seen.responses, seen.broken), (4, 1));
    assert_eq!(seen.first_error.as_deref(), Some("no response in time"));
    assert_eq!(seen.latency.len(), 5);
    assert!(seen.quantile(1.0) >= SLOW * 3, "{:?}", seen.quantile(1.0));
}

#[test]
fn a_run_with_too_many_broken_requests_is_an_error() {
    let origin = origin(|_, wire| wire.close());
    let mut client = client(origin.addr(), 2, Pace::Closed);
    match client.run(Limit::Requests(5000)).unwrap_err() {
        LoadError::TooManyBroken { count, first } => {
            assert!(count >= 1000 && first.contains("broke"), "{count}: {first}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_run_that_does_not_reach_its_number_of_requests_is_an_error() {
    let origin = origin(|number, wire| {
        if number > 5 {
            thread::sleep(SLOW * 10);
        }
        wire.answer(200, &[], b"hello");
    });
    let mut client = client(origin.addr(), 1, Pace::Closed);
    client.set_timeouts(Timeouts {
        run: SLOW * 2,
        ..Timeouts::default()
    });
    let error = client.run(Limit::Requests(20)).unwrap_err();
    assert!(
        matches!(error, LoadError::Unfinished { missing: 15 }),
        "{error}"
    );
}

#[test]
fn a_rate_that_no_client_can_keep_is_refused() {
    let origin = origin(|_, wire| {
        wire.answer(200, &[], b"hello");
    });
    let mut client = client(origin.addr(), 1, Pace::Closed);
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1_000_001.0, 3e9] {
        client.set_pace(0, Pace::Constant(rate));
        let error = client.run(Limit::Time(SLOW)).unwrap_err();
        assert!(matches!(error, LoadError::Rate(_)), "{rate}: {error}");
    }
    client.set_pace(0, Pace::Constant(1_000_000.0));
    let seen = client.run(Limit::Time(SLOW)).unwrap().remove(0);
    assert_eq!(seen.responses + seen.unsent, 60_000);
}

#[test]
fn waiting_for_the_next_start_takes_no_processor_time() {
    let origin = origin(|_, wire| {
        wire.answer(200, &[], b"hello");
    });
    let mut client = client(origin.addr(), 2, Pace::Constant(400.0));
    let cpu_time = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
    let (began, before) = (Instant::now(), cpu_time());
    let seen = client.run(Limit::Time(Duration::from_secs(1))).unwrap();
    let (elapsed, used) = (began.elapsed(), cpu_time().saturating_sub(before));
    assert_eq!(seen[0].responses + seen[0].unsent, 400);
    assert!(used < elapsed / 3, "{used:?} of {elapsed:?}");
}
