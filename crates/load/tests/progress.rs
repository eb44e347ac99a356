//! Runs with progress reports: results per second, early stop, ramps, replays, and HEAD requests.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    cell::RefCell,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use galley_load::{
    Connections, Limit, LoadClient, LoadOutcome, Pace, PageMethod, Target, VisitedPage,
    VisitorShares, Visitors, Workload,
};
use galley_testkit::origin::Origin;

/// Creates a client with progress reports for requests of visitors.
fn client_with_progress(
    origin: &Origin,
    pages: Vec<VisitedPage>,
    connections: usize,
    pace: Pace,
) -> LoadClient {
    let visitors = Visitors::new("a.test", pages, VisitorShares::default(), 1).unwrap();
    let workload = Workload {
        requests: Box::new(visitors.in_order()),
        connections,
        pace,
    };
    let target = Target {
        addr: origin.addr(),
        tls: None,
        connections: Connections::Kept,
        watch: Some("cache-status".to_owned()),
    };
    let mut client = LoadClient::connect(target, vec![workload], Arc::default()).unwrap();
    client.watch(|_, _| {});
    client
}

fn page(method: PageMethod, target: &str) -> VisitedPage {
    VisitedPage::new(method, target).unwrap()
}

fn run(client: &mut LoadClient, limit: Limit) -> LoadOutcome {
    client.run(limit).unwrap().remove(0)
}

#[test]
fn a_stall_counts_in_the_seconds_when_requests_were_due() {
    let (count, lock) = (AtomicU64::new(0), Mutex::new(()));
    let origin = Origin::start(move |_, writer| {
        let _guard = lock.lock().unwrap();
        if count.fetch_add(1, Ordering::SeqCst) + 1 == 150 {
            thread::sleep(Duration::from_secs(1));
        }
        writer.respond(200, &[("Cache-Status", "galley; hit")], b"hello");
    })
    .unwrap();
    let pages = vec![page(PageMethod::Get, "/")];
    let mut client = client_with_progress(&origin, pages, 10, Pace::Constant(100.0));
    let outcome = run(&mut client, Limit::Time(Duration::from_secs(4)));
    assert_eq!((outcome.responses, outcome.unsent), (400, 0));
    assert_eq!(outcome.slices.len(), 4);
    assert!(outcome.slices.iter().all(|slice| slice.requests == 100));
    // The request at 1.5 s takes a second; the requests due during this second wait for it.
    assert!(outcome.slices[1].quantile_ms(0.99) > 900.0);
    assert!(outcome.slices[2].quantile_ms(0.75) > 100.0);
    assert!(outcome.quantile(0.99) > Duration::from_millis(900));
    assert!(outcome.slices[0].quantile_ms(0.5) < 100.0);
    assert_eq!(outcome.cache_words["hit"], 400);
}

#[test]
fn a_ramp_sends_requests_at_its_rates() {
    let origin = Origin::start(|_, writer| {
        writer.respond(200, &[], b"");
    })
    .unwrap();
    let over = Duration::from_secs(2);
    let pace = Pace::Ramp {
        from: 10.0,
        to: 190.0,
        over,
    };
    let mut client = client_with_progress(&origin, vec![page(PageMethod::Get, "/")], 10, pace);
    let outcome = run(&mut client, Limit::Time(over));
    let requests: Vec<u64> = outcome.slices.iter().map(|slice| slice.requests).collect();
    assert_eq!(requests.iter().sum::<u64>(), 200);
    assert!(requests[0].abs_diff(55) <= 1, "{requests:?}");
}

#[test]
fn a_replay_sends_each_page_once_at_its_time() {
    let origin = Origin::start(|request, writer| {
        if request.method == "HEAD" {
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n");
        } else {
            writer.respond(200, &[], b"hello");
        }
    })
    .unwrap();
    let mut pages = vec![
        page(PageMethod::Get, "/a"),
        page(PageMethod::Head, "/b"),
        page(PageMethod::Get, "/c"),
    ];
    pages[2].due = Duration::from_millis(300);
    let mut client = client_with_progress(&origin, pages, 1, Pace::Recorded);
    let outcome = run(&mut client, Limit::Time(Duration::from_secs(20)));
    assert_eq!(
        (outcome.responses, outcome.broken),
        (3, 0),
        "{:?}",
        outcome.first_error
    );
    assert!(outcome.elapsed >= Duration::from_millis(300));
    let targets: Vec<String> = origin
        .requests()
        .into_iter()
        .map(|request| request.target)
        .collect();
    assert_eq!(targets, ["/a", "/b", "/c"]);
}

#[test]
fn a_stopped_run_reports_its_results() {
    let origin = Origin::start(|_, writer| {
        writer.respond(200, &[], b"");
    })
    .unwrap();
    let visitors = Visitors::new(
        "a.test",
        vec![page(PageMethod::Get, "/")],
        VisitorShares::default(),
        1,
    );
    let workload = Workload {
        requests: Box::new(visitors.unwrap()),
        connections: 2,
        pace: Pace::Constant(100.0),
    };
    let target = Target {
        addr: origin.addr(),
        tls: None,
        connections: Connections::Kept,
        watch: None,
    };
    let stop = Arc::new(AtomicBool::new(false));
    let mut client = LoadClient::connect(target, vec![workload], Arc::clone(&stop)).unwrap();
    let calls = Rc::new(RefCell::new(0));
    let counted = Rc::clone(&calls);
    client.watch(move |outcome, _| {
        *counted.borrow_mut() += 1;
        stop.store(outcome.responses >= 30, Ordering::Relaxed);
    });
    let outcome = run(&mut client, Limit::Time(Duration::from_secs(600)));
    assert!(outcome.is_stopped && *calls.borrow() > 1);
    assert!(
        (30..200).contains(&outcome.responses),
        "{}",
        outcome.responses
    );
    assert_eq!((outcome.broken, outcome.unexpected_status), (0, 0));
}

#[test]
fn a_server_without_responses_ends_the_run_with_a_report() {
    let origin = Origin::start(|_, writer| writer.close()).unwrap();
    let pages = vec![page(PageMethod::Get, "/")];
    let mut client = client_with_progress(&origin, pages, 4, Pace::Closed);
    let outcome = run(&mut client, Limit::Time(Duration::from_secs(600)));
    assert!(outcome.is_stopped);
    assert_eq!(outcome.responses, 0);
    assert_eq!(outcome.statuses.keys().copied().collect::<Vec<_>>(), [0]);
    assert!(outcome.broken >= 1000 && outcome.slices[0].failures > 0);
}
