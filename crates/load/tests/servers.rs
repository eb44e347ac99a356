//! The client with nginx without TLS, over TLS and over HTTP/2, and with an origin that violates HTTP.

#![expect(clippy::unwrap_used, reason = "tests")]

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
    Connections, Generator, Limit, LoadClient, LoadOutcome, Pace, RequestOrder, Target,
    TargetProtocol, TargetTls, Template, TrustedCertificates, Workload,
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
        requests: Box::new(Generator::new(template, &RequestOrder::InTurn(1), 200)),
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

/// Starts nginx with a file of five bytes, and returns it with the certificate of its further address.
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
fn responses_are_counted_with_every_protocol() {
    let scratch = Scratch::new().unwrap();
    let (nginx, trusted) = nginx(scratch.path());
    let tls = |protocol, resumes| {
        let (name, trusted) = (
            "a.test".to_owned(),
            TrustedCertificates::Only(trusted.clone()),
        );
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
        // The first run creates session tickets and persistent connections.
        client.run(Limit::Requests(4)).unwrap();
        let outcome = client.run(Limit::Requests(count)).unwrap().remove(0);
        assert_eq!(
            (outcome.responses, outcome.broken),
            (count, 0),
            "{context}: {:?}",
            outcome.first_error
        );
        assert_eq!(outcome.lengths, BTreeMap::from([(5, count)]), "{context}");
        assert_eq!(outcome.samples[0].body, b"hello", "{context}");
        assert!(outcome.quantile(0.5) <= outcome.quantile(1.0) && outcome.per_second() > 0.0);
        if !is_http2 {
            let watched = BTreeMap::from([((200, "GET".to_owned()), count)]);
            assert_eq!(outcome.watched, watched, "{context}");
        }
        // nginx closes each connection after ten requests, over HTTP/2 with GOAWAY.
        let is_closed = connections == Connections::Kept;
        assert_eq!(outcome.reconnects > 0, is_closed, "{context}");
    }
}

#[test]
fn heads_with_many_fields_are_sent_over_http2() {
    let scratch = Scratch::new().unwrap();
    let (nginx, trusted) = nginx(scratch.path());
    let target = Target {
        tls: Some(TargetTls {
            name: "a.test".to_owned(),
            trusted: TrustedCertificates::Only(trusted),
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
    let outcome = run(target, workload, Limit::Requests(3));
    assert_eq!(
        (outcome.responses, outcome.broken),
        (3, 0),
        "{:?}",
        outcome.first_error
    );
}

#[test]
fn unexpected_statuses_and_handshakes_are_counted_and_named() {
    let scratch = Scratch::new().unwrap();
    let (nginx, trusted) = nginx(scratch.path());
    let closed = workload(&get("/missing"), 2, Pace::Closed);
    let outcome = run(target(nginx.addr()), closed, Limit::Requests(20));
    assert_eq!((outcome.responses, outcome.unexpected_status), (20, 20));
    assert_eq!(outcome.first_error.as_deref(), Some("status 404"));
    // No session exists to resume.
    let tls = TargetTls {
        name: "a.test".to_owned(),
        trusted: TrustedCertificates::Only(trusted),
        protocol: TargetProtocol::Http1,
        resumes: true,
    };
    let target = Target {
        tls: Some(tls),
        connections: Connections::PerRequest,
        ..target(nginx.further_addr())
    };
    let outcome = run(
        target,
        workload(&get("/hello.txt"), 1, Pace::Closed),
        Limit::Requests(1),
    );
    assert_eq!((outcome.responses, outcome.broken), (1, 1));
    assert!(outcome.first_error.unwrap().contains("handshake"));
}

/// Starts an origin whose behavior depends on the path.
fn origin() -> Origin {
    Origin::start(|request, writer| {
        let closes = match request.path() {
            "/last" => writer.respond(200, &[("Connection", "close")], b"hello"),
            // Closes without `Connection: close`, so the next request is sent on a closed connection.
            "/shut" => writer.respond(200, &[], b"hello"),
            "/chunked" => {
                let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n";
                !(writer.write(head) && writer.write(b"2\r\nlo\r\n0\r\n\r\n"))
            }
            "/short" => writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"),
            "/more" => writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhello"),
            "/noise" => writer.write(b"no response at all\r\n\r\n"),
            _ => true,
        };
        if closes {
            writer.close();
        }
    })
    .unwrap()
}

#[test]
fn closed_connections_are_replaced() {
    let origin = origin();
    for (path, reconnects) in [("/chunked", false), ("/last", true), ("/shut", true)] {
        let load = workload(&get(path), 2, Pace::Closed);
        let outcome = run(target(origin.addr()), load, Limit::Requests(20));
        assert_eq!(
            (outcome.responses, outcome.broken),
            (20, 0),
            "{path}: {:?}",
            outcome.first_error
        );
        assert_eq!(outcome.reconnects > 0, reconnects, "{path}");
        assert_eq!(outcome.samples[0].body, b"hello", "{path}");
    }
}

#[test]
fn invalid_responses_are_counted_and_named() {
    let origin = origin();
    for (path, word) in [
        ("/short", "broke"),
        ("/more", "more bytes"),
        ("/noise", "head"),
        ("/silent", "broke"),
    ] {
        let load = workload(&get(path), 2, Pace::Closed);
        let outcome = run(target(origin.addr()), load, Limit::Requests(20));
        assert_eq!((outcome.responses, outcome.broken), (0, 20), "{path}");
        let error = outcome.first_error.unwrap();
        assert!(error.contains(word), "{path}: {error}");
    }
}

/// Starts an origin that delays only the request with this number.
fn stalling(number: u64, time: Duration) -> Origin {
    let count = AtomicU64::new(0);
    Origin::start(move |_, writer| {
        if count.fetch_add(1, Ordering::SeqCst) + 1 == number {
            thread::sleep(time);
        }
        writer.respond(200, &[], b"hello");
    })
    .unwrap()
}

#[test]
fn at_a_constant_rate_a_stall_counts_for_every_request_that_was_due() {
    let stall = Duration::from_millis(300);
    let late = |pace| {
        let origin = stalling(20, stall);
        let load = workload(&get("/"), 1, pace);
        let outcome = run(target(origin.addr()), load, Limit::Requests(400));
        assert_eq!(
            (outcome.responses, outcome.broken, outcome.unsent),
            (400, 0, 0)
        );
        let bound = u64::try_from(stall.as_nanos() / 3).unwrap();
        outcome.latency.count_between(bound, u64::MAX)
    };
    // At 500 requests per second, a hundred are due in two thirds of the stall.
    assert!(late(Pace::Constant(500.0)) >= 90);
    assert!(late(Pace::Closed) <= 5);
}

#[test]
fn unsent_requests_count_with_their_waiting_time() {
    // The first request takes longer than the run and occupies the only connection.
    let origin = stalling(1, Duration::from_millis(400));
    let load = workload(&get("/"), 1, Pace::Constant(1000.0));
    let outcome = run(
        target(origin.addr()),
        load,
        Limit::Time(Duration::from_millis(200)),
    );
    assert_eq!((outcome.responses, outcome.unsent), (1, 199));
    assert_eq!(outcome.latency.len(), 200);
    assert!(outcome.quantile(0.5) >= Duration::from_millis(90));
}

#[test]
fn a_constant_rate_is_kept() {
    let origin = stalling(0, Duration::ZERO);
    for (rate, expected) in [(200.0, 100), (1000.0, 500)] {
        let load = workload(&get("/"), 4, Pace::Constant(rate));
        let outcome = run(
            target(origin.addr()),
            load,
            Limit::Time(Duration::from_millis(500)),
        );
        assert_eq!(outcome.responses + outcome.unsent, expected);
    }
}

#[test]
fn workloads_run_concurrently_and_idle_connections_stay_open() {
    let origin = stalling(0, Duration::ZERO);
    let loads = vec![
        workload(&get("/a"), 3, Pace::Closed),
        workload(&get("/b"), 2, Pace::Constant(1000.0)),
    ];
    let mut client = LoadClient::connect(target(origin.addr()), loads, Arc::default()).unwrap();
    client.hold_idle(5).unwrap();
    let mut outcome = client.run(Limit::Requests(50)).unwrap();
    assert_eq!((outcome[0].responses, outcome[1].responses), (50, 50));
    assert_eq!(client.idle_closed(), 0);
    let other = outcome.remove(1);
    outcome[0].merge(other);
    assert_eq!((outcome[0].responses, outcome[0].latency.len()), (100, 100));
    drop(origin);
}

#[test]
fn the_stop_flag_ends_a_run() {
    let origin = stalling(1, Duration::from_secs(2));
    let stop = Arc::new(AtomicBool::new(false));
    let load = workload(&get("/"), 1, Pace::Closed);
    let mut client =
        LoadClient::connect(target(origin.addr()), vec![load], Arc::clone(&stop)).unwrap();
    stop.store(true, Ordering::Relaxed);
    let error = client.run(Limit::Requests(1)).unwrap_err();
    assert_eq!(error.to_string(), "stopped");
}
