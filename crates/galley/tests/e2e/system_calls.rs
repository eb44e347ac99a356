//! How many system calls a front thread makes for a hit: counted by `strace`, so that one more is noticed.

use std::collections::HashMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

use galley_testkit::Strace;
use galley_testkit::client::Request;
use galley_testkit::origin::Origin;

use crate::support::{SiteBuilder, TestSite};

/// Requests of a count.
const REQUESTS: usize = 300;

/// Connections that are made while the server is stopped.
const AT_ONCE: usize = 50;

/// How much later than its connection a request comes.
const LATER: Duration = Duration::from_millis(3);

/// Calls beside those of the requests: log buffers that were full, and whatever else time brings.
const BESIDE: usize = REQUESTS / 10;

/// Calls that follow the clock, or how many requests are ready run_concurrently, and not the number of requests; and the one with which
/// the standard library's own debug assertions look whether what is closed was open.
const NOT_COUNTED: [&str; 4] = ["epoll_wait", "read", "timerfd_settime", "fcntl"];

/// The server is stopped while the clients connect and send, so that no request comes later than its connection.
#[test]
fn a_hit_on_a_new_connection_takes_four() {
    let (site, _origin) = site();
    let request = hit()
        .field("Host", crate::support::HOST)
        .field("Connection", "close");
    let batch = || {
        signal(&site, "STOP");
        let connect = |_| {
            let mut connection = site.connect();
            connection.send(&request).unwrap();
            connection
        };
        let connections: Vec<_> = (0..AT_ONCE).map(connect).collect();
        signal(&site, "CONT");
        for mut connection in connections {
            assert!(connection.receive("GET").unwrap().is_hit());
        }
    };
    let calls = count(&site, &["front-"], || {
        (0..REQUESTS / AT_ONCE).for_each(|_| batch());
    });
    // It is never registered with the runtime. Each connection of a batch is accepted by one call, and one more finds no further.
    let wanted = [("accept4", 1), ("recvfrom", 1), ("sendto", 1), ("close", 1)];
    assert_about(&calls, &wanted);
}

/// The kernel reports a connection with its request, however late that comes.
#[test]
fn a_hit_on_a_new_connection_takes_five_if_it_is_waited_for() {
    let (site, _origin) = site();
    let request = hit()
        .field("Host", crate::support::HOST)
        .field("Connection", "close");
    let calls = count(&site, &["front-"], || {
        for _ in 0..REQUESTS {
            let mut connection = site.connect();
            std::thread::sleep(LATER);
            connection.send(&request).unwrap();
            assert!(connection.receive("GET").unwrap().is_hit());
        }
    });
    // One for the connection, and one that finds no further one.
    let wanted = [("accept4", 2), ("recvfrom", 1), ("sendto", 1), ("close", 1)];
    assert_about(&calls, &wanted);
}

#[test]
fn a_hit_on_a_kept_connection_takes_two() {
    let (site, _origin) = site();
    let mut connection = site.connect();
    let request = hit().field("Host", crate::support::HOST);
    let calls = count(&site, &["front-"], || {
        for _ in 0..REQUESTS {
            connection.send(&request).unwrap();
            assert!(connection.receive("GET").unwrap().is_hit());
        }
    });
    assert_about(&calls, &[("recvfrom", 1), ("sendto", 1)]);
}

#[test]
fn a_miss_wakes_each_thread_once() {
    assert_few_wakes(|request| request);
}

/// The head wakes the client's thread together with what came with it.
#[test]
fn a_passed_request_wakes_each_thread_once() {
    assert_few_wakes(|request| request.field("Authorization", "Basic eDp5"));
}

fn assert_few_wakes(changed: impl Fn(Request) -> Request) {
    let (site, _origin) = site();
    let mut connection = site.connect();
    let work = || {
        for number in 0..REQUESTS {
            let request = Request::get(&format!("/{number}")).field("Host", crate::support::HOST);
            let request = changed(request);
            connection.send(&request).unwrap();
            assert!(!connection.receive("GET").unwrap().is_hit());
        }
    };
    let calls = count(&site, &["front-", "fetch-"], work);
    let wakes = calls.get("write").copied().unwrap_or_default();
    // A front thread that is quick hears of the head before the end of the body is there, and waits again.
    let most = 2 * REQUESTS + REQUESTS / 2;
    assert!((REQUESTS..=most).contains(&wakes), "{wakes}: {calls:?}");
    // One to the upstream and one to the client, whose head does not leave alone where its body is there.
    let sends = ["sendto", "sendmsg", "writev"].map(|name| calls.get(name).copied());
    let sends: usize = sends.into_iter().flatten().sum();
    assert!((REQUESTS..=most).contains(&sends), "{sends}: {calls:?}");
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

/// A server whose page is stored.
fn site() -> (TestSite, Origin) {
    let origin = Origin::constant(&[("Content-Type", "text/html")], "<html></html>").unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .server("workers = 1")
        .start();
    site.send(hit());
    assert!(site.send(hit()).is_hit());
    (site, origin)
}

/// The calls of the threads whose names begin like this while `work` is done, by name. A read that finds nothing yet is the
/// client's doing.
fn count(site: &TestSite, threads: &[&str], work: impl FnOnce()) -> HashMap<String, usize> {
    let pid = site.galley.pid();
    let strace = Strace::attach(pid, site.scratch.path(), &["-e", "signal=none"]).unwrap();
    work();
    let trace = strace.finish().unwrap();
    let threads = numbers_of(pid, threads);
    let mut calls = HashMap::new();
    for line in trace.lines() {
        let (thread, call) = line.split_once(' ').unwrap_or_default();
        let call = call.trim_start();
        // The end of one that another thread's has interrupted in the trace.
        let is_rest = call.starts_with('<');
        let Some((name, rest)) = call.split_once('(').filter(|_| !is_rest) else {
            continue;
        };
        let is_early = name == "recvfrom" && rest.contains("EAGAIN");
        if threads.iter().any(|counted| counted == thread)
            && !is_early
            && !NOT_COUNTED.contains(&name)
        {
            *calls.entry(name.to_owned()).or_default() += 1;
        }
    }
    calls
}

fn numbers_of(pid: u32, names: &[&str]) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let is_counted = |thread: &fs::DirEntry| {
        let own = fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        names.iter().any(|name| own.starts_with(name))
    };
    let counted = threads.map(Result::unwrap).filter(is_counted);
    counted
        .map(|thread| thread.file_name().into_string().unwrap())
        .collect()
}

/// So many of each for a request, and no others.
fn assert_about(calls: &HashMap<String, usize>, wanted: &[(&str, usize)]) {
    let all: usize = calls.values().sum();
    let most: usize = wanted.iter().map(|(_, each)| each * REQUESTS).sum();
    assert!(
        all <= most + BESIDE,
        "{all} calls instead of {most}: {calls:?}"
    );
    // Else the calls were made by another thread, or have other names.
    assert!(
        all + BESIDE >= most,
        "{all} calls instead of {most}: {calls:?}"
    );
}
