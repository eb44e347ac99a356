//! The client against real servers: nginx in plain, over TLS and over HTTP/2, and an origin that does what nginx never would.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use galley_load::{
    Connections, Generator, Limit, LoadClient, LoadOutcome, Order, Pace, Target, TargetProtocol,
    TargetTls, Template, Trust, Workload,
};
use galley_testkit::{Nginx, Scratch, origin::Origin};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::CertificateDer;

fn target(addr: SocketAddr) -> Target {
    Target {
        addr,
        tls: None,
        connections: Connections::Kept,
        watch: Some("x-cache".to_owned()),
    }
}

fn workload(head: &str, connections: usize, pace: Pace) -> Workload {
    let head = head.replace('\n', "\r\n") + "\r\n\r\n";
    let template = Template::parse(&head, &BTreeMap::new()).unwrap();
    Workload {
        requests: Box::new(Generator::new(template, &Order::InTurn(1), 200)),
        connections,
        pace,
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\nHost: a.test")
}

fn run(target: Target, workload: Workload, limit: Limit) -> LoadOutcome {
    let mut client = LoadClient::connect(target, vec![workload], Arc::default()).unwrap();
    client.run(limit).unwrap().remove(0)
}

/// nginx with a file of five bytes, and the certificate that it shows at its further address.
fn nginx(dir: &Path) -> (Nginx, CertificateDer<'static>) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["a.test".to_owned()]).unwrap();
    std::fs::create_dir_all(dir.join("www")).unwrap();
    for (name, text) in [
        ("cert.pem", cert.pem()),
        ("key.pem", signing_key.serialize_pem()),
        ("www/hello.txt", "hello".to_owned()),
    ] {
        std::fs::write(dir.join(name), text).unwrap();
    }
    let lines = "server { listen {listen}; listen {further} ssl http2; server_name a.test; root {dir}/www;
        ssl_certificate {dir}/cert.pem; ssl_certificate_key {dir}/key.pem; ssl_protocols TLSv1.3;
        ssl_session_cache shared:sessions:1m; keepalive_requests 10; add_header X-Cache $request_method always; }";
    (Nginx::start(dir, lines).unwrap(), cert.der().clone())
}

#[test]
fn right_responses_count_whatever_is_spoken() {
    let scratch = Scratch::new().unwrap();
    let (nginx, trusted) = nginx(scratch.path());
    let tls = |protocol, resumes| {
        let (name, trusted) = ("a.test".to_owned(), Trust::Only(trusted.clone()));
        Some(TargetTls {
            name,
            trusted,
            protocol,
            resumes,
        })
    };
    let http2 = TargetProtocol::Http2 { streams: 3 };
    for (tls, connections) in [
        (None, Connections::Kept),
        (None, Connections::PerRequest),
        (tls(TargetProtocol::Http1, false), Connections::Kept),
        (tls(TargetProtocol::Http1, false), Connections::PerRequest),
        (tls(TargetProtocol::Http1, true), Connections::PerRequest),
        (tls(http2, false), Connections::Kept),
    ] {
        let context = format!("{tls:?} {connections:?}");
        let addr = tls.as_ref().map_or(nginx.addr(), |_| nginx.further_addr());
        let target = Target {
            tls,
            connections,
            ..target(addr)
        };
        let is_http2 = matches!(&target.tls, Some(tls) if tls.protocol == http2);
        let head = match connections {
            Connections::Kept => get("/hello.txt?{count}"),
            Connections::PerRequest => get("/hello.txt?{count}") + "\nConnection: close",
        };
        let count = 50;
        let workload = workload(&head, 2, Pace::Closed);
        let mut client = LoadClient::connect(target, vec![workload], Arc::default()).unwrap();
        // The first run leaves tickets, and connections that go on.
        client.run(Limit::Requests(4)).unwrap();
        let seen = client.run(Limit::Requests(count)).unwrap().remove(0);
        assert_eq!(
            (seen.responses, seen.broken),
            (count, 0),
            "{context}: {:?}",
            seen.first_error
        );
        assert_eq!(seen.lengths, BTreeMap::from([(5, count)]), "{context}");
        assert_eq!(seen.samples[0].body, b"hello", "{context}");
        assert!(seen.quantile(0.5) <= seen.quantile(1.0) && seen.per_second() > 0.0);
        if !is_http2 {
            let watched = BTreeMap::from([((200, "GET".to_owned()), count)]);
            assert_eq!(seen.watched, watched, "{context}");
        }
        // nginx ends each connection after ten requests, over HTTP/2 with GOAWAY.
        let is_closed = connections == Connections::Kept;
        assert_eq!(seen.reconnects > 0, is_closed, "{context}");
    }
}

#[test]
fn heads_with_many_fields_are_sent_over_http2() {
    let scratch = Scratch::new().unwrap();
    let (nginx, trusted) = nginx(scratch.path());
    let target = Target {
        tls: Some(TargetTls {
            name: "a.test".to_owned(),
            trusted: Trust::Only(trusted),
            protocol: TargetProtocol::Http2 { streams: 1 },
            resumes: false,
        }),
        ..target(nginx.further_addr())
    };
    let fields: Vec<String> = (0..60)
        .map(|number| format!("X-{number}: {number}"))
        .collect();
    let workload = workload(
        &format!("{}\n{}", get("/hello.txt"), fields.join("\n")),
        1,
        Pace::Closed,
    );
    let seen = run(target, workload, Limit::Requests(3));
    assert_eq!(
        (seen.responses, seen.broken),
        (3, 0),
        "{:?}",
        seen.first_error
    );
}

#[test]
fn wrong_statuses_and_handshakes_of_the_wrong_kind_are_counted_and_named() {
    let scratch = Scratch::new().unwrap();
    let (nginx, trusted) = nginx(scratch.path());
    let closed = workload(&get("/missing"), 2, Pace::Closed);
    let seen = run(target(nginx.addr()), closed, Limit::Requests(20));
    assert_eq!((seen.responses, seen.unexpected_status), (20, 20));
    assert_eq!(seen.first_error.as_deref(), Some("status 404"));
    // Nothing was there to resume.
    let tls = TargetTls {
        name: "a.test".to_owned(),
        trusted: Trust::Only(trusted),
        protocol: TargetProtocol::Http1,
        resumes: true,
    };
    let target = Target {
        tls: Some(tls),
        connections: Connections::PerRequest,
        ..target(nginx.further_addr())
    };
    let seen = run(
        target,
        workload(&get("/hello.txt"), 1, Pace::Closed),
        Limit::Requests(1),
    );
    assert_eq!((seen.responses, seen.broken), (1, 1));
    assert!(seen.first_error.unwrap().contains("handshake"));
}

/// What nginx never does, by path.
fn origin() -> Origin {
    Origin::start(|seen, wire| {
        let closes = match seen.path() {
            "/last" => wire.answer(200, &[("Connection", "close")], b"hello"),
            // Without a word: the next request on the connection meets a closed one.
            "/shut" => wire.answer(200, &[], b"hello"),
            "/chunked" => {
                let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n";
                !(wire.write(head) && wire.write(b"2\r\nlo\r\n0\r\n\r\n"))
            }
            "/short" => wire.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"),
            "/more" => wire.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhello"),
            "/noise" => wire.write(b"no response at all\r\n\r\n"),
            _ => true,
        };
        if closes {
            wire.close();
        }
    })
    .unwrap()
}

#[test]
fn closed_connections_are_replaced() {
    let origin = origin();
    for (path, reconnects) in [("/chunked", false), ("/last", true), ("/shut", true)] {
        let load = workload(&get(path), 2, Pace::Closed);
        let seen = run(target(origin.addr()), load, Limit::Requests(20));
        assert_eq!(
            (seen.responses, seen.broken),
            (20, 0),
            "{path}: {:?}",
            seen.first_error
        );
        assert_eq!(seen.reconnects > 0, reconnects, "{path}");
        assert_eq!(seen.samples[0].body, b"hello", "{path}");
    }
}

#[test]
fn what_is_no_response_is_counted_and_named() {
    let origin = origin();
    for (path, word) in [
        ("/short", "broke"),
        ("/more", "more bytes"),
        ("/noise", "head"),
        ("/silent", "broke"),
    ] {
        let load = workload(&get(path), 2, Pace::Closed);
        let seen = run(target(origin.addr()), load, Limit::Requests(20));
        assert_eq!((seen.responses, seen.broken), (0, 20), "{path}");
        let error = seen.first_error.unwrap();
        assert!(error.contains(word), "{path}: {error}");
    }
}

/// An origin that takes so long for the request of that number, and no time for others.
fn stalling(number: u64, time: Duration) -> Origin {
    let count = AtomicU64::new(0);
    Origin::start(move |_, wire| {
        if count.fetch_add(1, Ordering::SeqCst) + 1 == number {
            thread::sleep(time);
        }
        wire.answer(200, &[], b"hello");
    })
    .unwrap()
}

#[test]
fn at_a_constant_rate_a_stall_counts_for_every_request_that_was_due() {
    let stall = Duration::from_millis(300);
    let late = |pace| {
        let origin = stalling(20, stall);
        let load = workload(&get("/"), 1, pace);
        let seen = run(target(origin.addr()), load, Limit::Requests(400));
        assert_eq!((seen.responses, seen.broken, seen.unsent), (400, 0, 0));
        let bound = u64::try_from(stall.as_nanos() / 3).unwrap();
        seen.latency.count_between(bound, u64::MAX)
    };
    // 500 in a second: in two thirds of the stall a hundred are due.
    assert!(late(Pace::Constant(500.0)) >= 90);
    assert!(late(Pace::Closed) <= 5);
}

#[test]
fn what_is_due_and_never_sent_counts_with_the_time_that_it_waited() {
    // The first request takes longer than the run: its connection is the only one.
    let origin = stalling(1, Duration::from_millis(400));
    let load = workload(&get("/"), 1, Pace::Constant(1000.0));
    let seen = run(
        target(origin.addr()),
        load,
        Limit::Time(Duration::from_millis(200)),
    );
    assert_eq!((seen.responses, seen.unsent), (1, 199));
    assert_eq!(seen.latency.len(), 200);
    assert!(seen.quantile(0.5) >= Duration::from_millis(90));
}

#[test]
fn a_constant_rate_is_kept_and_can_be_changed_between_runs() {
    let origin = stalling(0, Duration::ZERO);
    let load = workload(&get("/"), 4, Pace::Constant(200.0));
    let mut client =
        LoadClient::connect(target(origin.addr()), vec![load], Arc::default()).unwrap();
    for (rate, wanted) in [(200.0, 100), (1000.0, 500)] {
        client.set_pace(0, Pace::Constant(rate));
        let seen = client
            .run(Limit::Time(Duration::from_millis(500)))
            .unwrap()
            .remove(0);
        assert_eq!(seen.responses + seen.unsent, wanted);
    }
}

#[test]
fn workloads_run_side_by_side_and_idle_connections_stay() {
    let origin = stalling(0, Duration::ZERO);
    let loads = vec![
        workload(&get("/a"), 3, Pace::Closed),
        workload(&get("/b"), 2, Pace::Constant(1000.0)),
    ];
    let mut client = LoadClient::connect(target(origin.addr()), loads, Arc::default()).unwrap();
    client.hold_idle(5).unwrap();
    let mut seen = client.run(Limit::Requests(50)).unwrap();
    assert_eq!((seen[0].responses, seen[1].responses), (50, 50));
    assert_eq!(client.idle_closed(), 0);
    let other = seen.remove(1);
    seen[0].merge(other);
    assert_eq!((seen[0].responses, seen[0].latency.len()), (100, 100));
    drop(origin);
}

#[test]
fn the_callers_flag_ends_a_run() {
    let origin = stalling(1, Duration::from_secs(2));
    let stop = Arc::new(AtomicBool::new(false));
    let load = workload(&get("/"), 1, Pace::Closed);
    let mut client =
        LoadClient::connect(target(origin.addr()), vec![load], Arc::clone(&stop)).unwrap();
    stop.store(true, Ordering::Relaxed);
    let error = client.run(Limit::Requests(1)).unwrap_err();
    assert_eq!(error.to_string(), "stopped");
}
