//! Results for misbehaving servers: dropped, rejected and unanswered requests must not make a server look fast, and a run without
//! meaningful results must be an error.

#![expect(clippy::unwrap_used, reason = "tests")]

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
    Connections, Generator, Limit, LoadClient, LoadError, Pace, RequestOrder, Target, Template,
    Timeouts, Workload,
};
use galley_testkit::origin::{Origin, ResponseWriter};
use rustix::time::{ClockId, clock_gettime};

const SLOW: Duration = Duration::from_millis(60);

/// Starts an origin whose script receives the number of each request, from 1.
fn origin(script: impl Fn(u64, &mut ResponseWriter<'_>) + Send + Sync + 'static) -> Origin {
    let count = AtomicU64::new(0);
    Origin::start(move |_, writer| script(count.fetch_add(1, Ordering::SeqCst) + 1, writer))
        .unwrap()
}

fn client(addr: SocketAddr, connections: usize, pace: Pace) -> LoadClient {
    let template =
        Template::parse("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", &BTreeMap::new()).unwrap();
    let workload = Workload {
        requests: Box::new(Generator::new(template, &RequestOrder::InTurn(1), 200)),
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
fn dropping_the_slowest_requests_does_not_reduce_the_latency() {
    let origin = origin(|number, writer| {
        if number % 10 == 0 {
            thread::sleep(SLOW);
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
            writer.close();
        } else {
            writer.respond(200, &[], b"hello");
        }
    });
    let mut client = client(origin.addr(), 1, Pace::Closed);
    let outcome = client.run(Limit::Requests(100)).unwrap().remove(0);
    assert_eq!((outcome.responses, outcome.broken), (90, 10));
    assert_eq!(
        (outcome.latency.len(), outcome.broken_latency.len()),
        (90, 10)
    );
    assert!(
        outcome.quantile(0.95) >= SLOW,
        "{:?}",
        outcome.quantile(0.95)
    );
    assert!(outcome.quantile(0.5) < SLOW, "{:?}", outcome.quantile(0.5));
}

#[test]
fn an_immediately_dropped_connection_counts_as_slower_than_every_response() {
    let origin = origin(|number, writer| {
        if number % 10 == 0 {
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
            writer.close();
        } else {
            thread::sleep(Duration::from_millis(5));
            writer.respond(200, &[], b"hello");
        }
    });
    let mut client = client(origin.addr(), 1, Pace::Closed);
    let outcome = client.run(Limit::Requests(50)).unwrap().remove(0);
    let slowest = Duration::from_nanos(outcome.latency.max());
    assert_eq!(outcome.quantile(0.99), slowest);
    assert!(outcome.quantile(0.1) >= Duration::from_millis(5));
}

#[test]
fn fast_error_responses_do_not_reduce_the_latency_of_pages() {
    let origin = origin(|number, writer| {
        if number % 2 == 0 {
            writer.respond(503, &[], b"busy");
        } else {
            thread::sleep(SLOW / 3);
            writer.respond(200, &[], b"hello");
        }
    });
    let mut client = client(origin.addr(), 1, Pace::Closed);
    let outcome = client.run(Limit::Requests(40)).unwrap().remove(0);
    assert_eq!((outcome.responses, outcome.unexpected_status), (40, 20));
    assert_eq!(
        (outcome.latency.len(), outcome.error_latency.len()),
        (20, 20)
    );
    assert!(
        outcome.quantile(0.01) >= SLOW / 3,
        "{:?}",
        outcome.quantile(0.01)
    );
}

#[test]
fn a_request_without_a_response_counts_with_its_waiting_time() {
    let origin = origin(|number, writer| {
        if number == 5 {
            thread::sleep(SLOW * 20);
        }
        writer.respond(200, &[], b"hello");
    });
    let mut client = client(origin.addr(), 1, Pace::Closed);
    client.set_timeouts(Timeouts {
        responses: SLOW * 3,
        ..Timeouts::default()
    });
    let outcome = client.run(Limit::Time(SLOW)).unwrap().remove(0);
    assert_eq!((outcome.responses, outcome.broken), (4, 1));
    assert_eq!(outcome.first_error.as_deref(), Some("no response in time"));
    assert_eq!(outcome.latency.len(), 5);
    assert!(
        outcome.quantile(1.0) >= SLOW * 3,
        "{:?}",
        outcome.quantile(1.0)
    );
}

#[test]
fn a_run_with_too_many_broken_requests_is_an_error() {
    let origin = origin(|_, writer| writer.close());
    let mut client = client(origin.addr(), 2, Pace::Closed);
    match client.run(Limit::Requests(5000)).unwrap_err() {
        LoadError::TooManyBroken { count, first } => {
            assert!(count >= 1000 && first.contains("broke"), "{count}: {first}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_run_that_does_not_finish_its_requests_is_an_error() {
    let origin = origin(|number, writer| {
        if number > 5 {
            thread::sleep(SLOW * 10);
        }
        writer.respond(200, &[], b"hello");
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
fn an_impossible_rate_is_rejected() {
    let origin = origin(|_, writer| {
        writer.respond(200, &[], b"hello");
    });
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1_000_001.0, 3e9] {
        let mut client = client(origin.addr(), 1, Pace::Constant(rate));
        let error = client.run(Limit::Time(SLOW)).unwrap_err();
        assert!(matches!(error, LoadError::Rate(_)), "{rate}: {error}");
    }
    let mut client = client(origin.addr(), 1, Pace::Constant(1_000_000.0));
    let outcome = client.run(Limit::Time(SLOW)).unwrap().remove(0);
    assert_eq!(outcome.responses + outcome.unsent, 60_000);
}

#[test]
fn waiting_for_the_next_request_uses_no_cpu_time() {
    let origin = origin(|_, writer| {
        writer.respond(200, &[], b"hello");
    });
    let mut client = client(origin.addr(), 2, Pace::Constant(400.0));
    let cpu_time = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
    let (began, before) = (Instant::now(), cpu_time());
    let outcome = client.run(Limit::Time(Duration::from_secs(1))).unwrap();
    let (elapsed, used) = (began.elapsed(), cpu_time().saturating_sub(before));
    assert_eq!(outcome[0].responses + outcome[0].unsent, 400);
    assert!(used < elapsed / 3, "{used:?} of {elapsed:?}");
}
