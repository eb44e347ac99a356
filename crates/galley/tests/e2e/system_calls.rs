//! Number of system calls of a front thread for a hit, counted with `strace`.

use std::collections::HashMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

use galley_testkit::client::Request;
use galley_testkit::origin::Origin;
use galley_testkit::{Strace, wait_for};

use crate::support::{HOST, SiteBuilder, TIMEOUT, TestSite, random_bytes};

/// Requests per count.
const REQUESTS: usize = 300;

/// Connections opened while the server is stopped.
const BATCH: usize = 50;

/// Delay between a connection and its request.
const REQUEST_DELAY: Duration = Duration::from_millis(3);

/// Calls for other reasons, such as writing full log buffers.
const TOLERANCE: usize = REQUESTS / 10;

/// Calls whose number depends on the clock or on how many requests are ready at the same time, and `fcntl`, with which debug assertions of
/// the standard library check whether a closed descriptor was open.
const NOT_COUNTED: [&str; 4] = ["epoll_wait", "read", "timerfd_settime", "fcntl"];

/// The server is stopped while the clients connect and send, so that each request is there when its connection is accepted.
#[test]
fn a_hit_on_a_new_connection_takes_four_system_calls() {
    let (site, _origin) = site();
    let request = hit().field("Host", HOST).field("Connection", "close");
    let batch = || {
        signal(&site, "STOP");
        let connect = |_| {
            let mut connection = site.connect();
            connection.send(&request).unwrap();
            connection
        };
        let connections: Vec<_> = (0..BATCH).map(connect).collect();
        signal(&site, "CONT");
        for mut connection in connections {
            assert!(connection.receive("GET").unwrap().is_hit());
        }
    };
    let calls = count(&site, &["front-"], || {
        (0..REQUESTS / BATCH).for_each(|_| batch());
    });
    // The connection is not registered with the runtime. One `accept4` for each connection of a batch, and one that finds no more.
    let expected = [("accept4", 1), ("recvfrom", 1), ("sendto", 1), ("close", 1)];
    assert_about(&calls, &expected);
}

/// The kernel reports a connection when its request arrives (`TCP_DEFER_ACCEPT`).
#[test]
fn a_late_request_on_a_new_connection_takes_five_system_calls() {
    let (site, _origin) = site();
    let request = hit().field("Host", HOST).field("Connection", "close");
    let calls = count(&site, &["front-"], || {
        for _ in 0..REQUESTS {
            let mut connection = site.connect();
            std::thread::sleep(REQUEST_DELAY);
            connection.send(&request).unwrap();
            assert!(connection.receive("GET").unwrap().is_hit());
        }
    });
    // One `accept4` for the connection, and one that finds no more.
    let expected = [("accept4", 2), ("recvfrom", 1), ("sendto", 1), ("close", 1)];
    assert_about(&calls, &expected);
}

#[test]
fn a_hit_on_a_persistent_connection_takes_two_system_calls() {
    let (site, _origin) = site();
    let mut connection = site.connect();
    let request = hit().field("Host", HOST);
    let calls = count(&site, &["front-"], || {
        for _ in 0..REQUESTS {
            connection.send(&request).unwrap();
            assert!(connection.receive("GET").unwrap().is_hit());
        }
    });
    assert_about(&calls, &[("recvfrom", 1), ("sendto", 1)]);
}

#[test]
fn a_file_of_300_kb_is_sent_without_copying_it() {
    let content = random_bytes(300_000);
    let site = SiteBuilder::files()
        .server("workers = 1")
        .file("a.jpg", &content)
        .start();
    wait_for("the file in memory", TIMEOUT, || {
        site.get("/a.jpg");
        site.why("/a.jpg").contains("from memory")
    });
    let mut connection = site.connect();
    let calls = count(&site, &["front-"], || {
        for _ in 0..REQUESTS {
            let response = connection.exchange(&Request::get("/a.jpg").host(HOST));
            assert!(response.unwrap().body == content);
        }
    });
    let of = |name: &str| calls.get(name).copied().unwrap_or_default();
    assert!(of("vmsplice") + TOLERANCE >= REQUESTS, "{calls:?}");
    // Until the queue of the socket has grown, it does not accept all of a file.
    assert!(of("writev") + of("sendmsg") <= REQUESTS / 2, "{calls:?}");
}

#[test]
fn a_miss_wakes_each_thread_once() {
    assert_few_wakes(|request| request);
}

/// The thread of the client wakes up once for the head and the part of the body that arrived with it.
#[test]
fn a_passed_request_wakes_each_thread_once() {
    assert_few_wakes(|request| request.field("Authorization", "Basic eDp5"));
}

fn assert_few_wakes(change: impl Fn(Request) -> Request) {
    let (site, _origin) = site();
    let mut connection = site.connect();
    let send_requests = || {
        for number in 0..REQUESTS {
            let request = Request::get(&format!("/{number}")).field("Host", HOST);
            let request = change(request);
            connection.send(&request).unwrap();
            assert!(!connection.receive("GET").unwrap().is_hit());
        }
    };
    let calls = count(&site, &["front-", "fetch-"], send_requests);
    let wakes = calls.get("write").copied().unwrap_or_default();
    // A fast front thread gets the head before the end of the body, and waits again.
    let max = 2 * REQUESTS + REQUESTS / 2;
    assert!((REQUESTS..=max).contains(&wakes), "{wakes}: {calls:?}");
    // One to the upstream and one to the client, which gets the head together with the body.
    let sends = ["sendto", "sendmsg", "writev"].map(|name| calls.get(name).copied());
    let sends: usize = sends.into_iter().flatten().sum();
    assert!((REQUESTS..=max).contains(&sends), "{sends}: {calls:?}");
}

fn signal(site: &TestSite, name: &str) {
    let pid = site.galley.pid().to_string();
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &pid])
        .status();
    assert!(sent.unwrap().success());
}

fn hit() -> Request {
    Request::get("/page").field("Accept-Encoding", "identity")
}

/// Starts a site whose page is stored.
fn site() -> (TestSite, Origin) {
    let origin = Origin::constant(&[("Content-Type", "text/html")], "<html></html>").unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .server("workers = 1")
        .start();
    site.send(hit());
    assert!(site.send(hit()).is_hit());
    (site, origin)
}

/// Counts the system calls by name of the threads with these name prefixes during `work`. A read that finds no data yet depends on the
/// client and does not count.
fn count(site: &TestSite, threads: &[&str], work: impl FnOnce()) -> HashMap<String, usize> {
    let pid = site.galley.pid();
    let strace = Strace::attach(pid, site.scratch.path(), &["-e", "signal=none"]).unwrap();
    work();
    let trace = strace.finish().unwrap();
    let threads = thread_ids(pid, threads);
    let mut calls = HashMap::new();
    for line in trace.lines() {
        let (thread, call) = line.split_once(' ').unwrap_or_default();
        let call = call.trim_start();
        // The rest of a call whose line in the trace was interrupted by one of another thread.
        let is_rest = call.starts_with('<');
        let Some((name, rest)) = call.split_once('(').filter(|_| !is_rest) else {
            continue;
        };
        let found_no_data = name == "recvfrom" && rest.contains("EAGAIN");
        if threads.iter().any(|id| id == thread) && !found_no_data && !NOT_COUNTED.contains(&name) {
            *calls.entry(name.to_owned()).or_default() += 1;
        }
    }
    calls
}

fn thread_ids(pid: u32, prefixes: &[&str]) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let has_prefix = |thread: &fs::DirEntry| {
        let name = fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        prefixes.iter().any(|prefix| name.starts_with(prefix))
    };
    threads
        .map(Result::unwrap)
        .filter(has_prefix)
        .map(|thread| thread.file_name().into_string().unwrap())
        .collect()
}

/// Asserts that the total number of calls is that of `expected` for each request, within [`TOLERANCE`].
fn assert_about(calls: &HashMap<String, usize>, expected: &[(&str, usize)]) {
    let total: usize = calls.values().sum();
    let expected: usize = expected.iter().map(|(_, each)| each * REQUESTS).sum();
    assert!(
        total <= expected + TOLERANCE,
        "{total} calls instead of {expected}: {calls:?}"
    );
    // Fewer calls mean that another thread made them, or that they have other names.
    assert!(
        total + TOLERANCE >= expected,
        "{total} calls instead of {expected}: {calls:?}"
    );
}
