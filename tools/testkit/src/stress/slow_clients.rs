//! Slow clients: uploads and downloads at 20 kB/s, while other clients request pages.
//!
//! Each client has its own address. Every client must be served or get 503 with `Retry-After`; no response, a truncated response or any
//! other error is a failure. The clients use plain sockets instead of [`crate::client`], because they set the receive buffer before
//! they connect, and read and write a kilobyte at a time.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{self, AddressFamily, SocketType, sockopt};

use super::probe::{Probe, When};
use super::site::{HOST, StressSite};
use super::{PartReport, StressSettings};
use crate::TestkitError;
use crate::wait::{pause, poll_until};

pub(super) fn run(settings: &StressSettings) -> Result<PartReport, TestkitError> {
    let clients = settings.length.pick(8, 50);
    let site = StressSite::start(settings, "1h")?;
    let mut probe = Probe::new(settings, &site)?;
    let mut report = PartReport {
        title: format!("{clients} slow uploads and {clients} slow readers"),
        usage: [site.usage(); 2],
        ..PartReport::default()
    };
    report.save.max_ratio = Some(2.0);
    probe.measure(&site, When::Quiet, &mut report);
    (settings.progress)(&report.title);
    let progress = Progress::default();
    let [uploads, downloads] = thread::scope(|scope| {
        let (progress, addr) = (&progress, site.addr());
        let mut threads = [Vec::new(), Vec::new()];
        for number in 0..clients {
            threads[0].push(scope.spawn(move || outcome(upload(addr, number, progress))));
            threads[1].push(scope.spawn(move || outcome(download(addr, number, progress))));
        }
        // Readers that wait for a slot have sent their request and get no further until then.
        poll_until(TIMEOUT, || {
            progress.started.load(Ordering::Relaxed) >= 2 * clients
        });
        probe.measure(&site, When::Loaded, &mut report);
        // A client that waits for a slot now gets a response within the queue timeout.
        poll_until(TIMEOUT, || {
            progress.responses.load(Ordering::Relaxed) >= clients
        });
        progress.is_over.store(true, Ordering::Relaxed);
        threads.map(|threads| {
            threads
                .into_iter()
                .map(thread::ScopedJoinHandle::join)
                .collect::<Vec<_>>()
        })
    });
    for (what, threads) in [("uploads", uploads), ("readers", downloads)] {
        let panicked = |_| TestkitError::Malformed("a client panicked".to_owned());
        let outcomes: Result<Vec<ClientOutcome>, _> = threads
            .into_iter()
            .map(|outcome| outcome.map_err(panicked))
            .collect();
        add_outcomes(what, &outcomes?, &mut report);
    }
    site.close(&mut report);
    Ok(report)
}

/// State that all clients share.
#[derive(Default)]
struct Progress {
    is_over: AtomicBool,
    /// Clients that have sent their request.
    started: AtomicU64,
    /// Readers that have received a response head.
    responses: AtomicU64,
}

impl Progress {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// The outcome of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ClientOutcome {
    /// The transfer was complete, or made progress until the test was over.
    Served { after: Option<Duration> },
    /// The response was 503 with `Retry-After`.
    Rejected { after: Duration },
    /// Anything else.
    Failed(String),
}

fn outcome(result: std::io::Result<ClientOutcome>) -> ClientOutcome {
    result.unwrap_or_else(|error| ClientOutcome::Failed(format!("the connection failed: {error}")))
}

/// Uploads a form of 200 KB, a kilobyte every twentieth of a second.
fn upload(addr: SocketAddr, number: u64, progress: &Progress) -> std::io::Result<ClientOutcome> {
    let mut stream = connect(addr, (3, number))?;
    let head = format!(
        "POST /wp-comments-post.php HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: {UPLOAD}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    progress.started.fetch_add(1, Ordering::Relaxed);
    let mut sent = 0;
    while sent < UPLOAD {
        if progress.is_over() {
            stream.shutdown(Shutdown::Both)?;
            return Ok(ClientOutcome::Served { after: None });
        }
        stream.write_all(&[b'a'; PIECE])?;
        sent += PIECE;
        pause(INTERVAL);
    }
    let complete = Instant::now();
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response)?;
    Ok(judge(&response, complete.elapsed()))
}

/// Downloads 16 MB, a kilobyte every twentieth of a second.
fn download(addr: SocketAddr, number: u64, progress: &Progress) -> std::io::Result<ClientOutcome> {
    let mut stream = connect(addr, (4, number))?;
    stream.set_read_timeout(Some(INTERVAL))?;
    let head = format!("GET /?stress_large={number} HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let requested = Instant::now();
    progress.started.fetch_add(1, Ordering::Relaxed);
    let mut piece = [0; PIECE];
    let (mut head, mut outcome) = (Vec::new(), None);
    while !progress.is_over() {
        match stream.read(&mut piece) {
            Ok(0) => {
                let closed = format!("the response ended after {:?}", requested.elapsed());
                return Ok(outcome
                    .filter(|outcome| matches!(outcome, ClientOutcome::Rejected { .. }))
                    .unwrap_or(ClientOutcome::Failed(closed)));
            }
            Ok(count) if outcome.is_none() => {
                head.extend_from_slice(piece.get(..count).unwrap_or_default());
                if head.windows(4).any(|end| end == b"\r\n\r\n") {
                    outcome = Some(judge(&head, requested.elapsed()));
                    progress.responses.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok(_) => {}
            Err(error) if is_timeout(&error) => continue,
            Err(error) => return Err(error),
        }
        pause(INTERVAL);
    }
    Ok(outcome.unwrap_or_else(|| {
        ClientOutcome::Failed(format!("no response within {:?}", requested.elapsed()))
    }))
}

/// Judges a response by its head.
fn judge(response: &[u8], after: Duration) -> ClientOutcome {
    let text = String::from_utf8_lossy(response).to_ascii_lowercase();
    let head = text.split("\r\n\r\n").next().unwrap_or_default();
    let status_line = head.lines().next().unwrap_or_default();
    let status = status_line
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse::<u16>().ok());
    match status {
        Some(200..500) => ClientOutcome::Served { after: Some(after) },
        Some(503) if head.contains("\r\nretry-after: ") => ClientOutcome::Rejected { after },
        _ => ClientOutcome::Failed(format!("`{status_line}` after {after:?}")),
    }
}

fn add_outcomes(what: &str, outcomes: &[ClientOutcome], report: &mut PartReport) {
    report.requests += outcomes.len() as u64;
    let (mut served, mut slowest, mut rejected) = (0_u64, Duration::ZERO, Vec::new());
    let mut failed = BTreeMap::<&str, u64>::new();
    for outcome in outcomes {
        match outcome {
            ClientOutcome::Served { after } => {
                served += 1;
                slowest = slowest.max(after.unwrap_or_default());
            }
            ClientOutcome::Rejected { after } => rejected.push(*after),
            ClientOutcome::Failed(why) => *failed.entry(why).or_default() += 1,
        }
    }
    report.rejected += rejected.len() as u64;
    report.failures += failed.values().sum::<u64>();
    let rejections = match (rejected.iter().min(), rejected.iter().max()) {
        (Some(first), Some(last)) => format!(
            "; {} were rejected, after {} to {} ms",
            rejected.len(),
            first.as_millis(),
            last.as_millis()
        ),
        _ => String::new(),
    };
    report.notes.push(format!(
        "of the {} slow {what} {served} were served, the slowest response came after {} ms{rejections}",
        outcomes.len(),
        slowest.as_millis()
    ));
    for (why, count) in failed {
        report
            .notes
            .push(format!("{count} of the slow {what}: {why}"));
    }
}

/// Connects from a separate address, with a small receive buffer, so that unread data stays at the server.
fn connect(addr: SocketAddr, (group, number): (u8, u64)) -> std::io::Result<TcpStream> {
    let [.., high, low] = (number + 1).to_be_bytes();
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    sockopt::set_socket_recv_buffer_size(&socket, 4 * PIECE)?;
    let from = Ipv4Addr::new(127, group, high, low);
    net::bind(&socket, &SocketAddrV4::new(from, 0))?;
    net::connect(&socket, &addr)?;
    Ok(TcpStream::from(socket))
}

fn is_timeout(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

const UPLOAD: usize = 200 * PIECE;
const PIECE: usize = 1024;

/// The time between two pieces: 20 kB/s, as a phone at the edge of its cell has.
const INTERVAL: Duration = Duration::from_millis(50);

/// Much longer than the queue timeout.
const TIMEOUT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_is_served_or_gets_retry_after() {
        let after = Duration::from_secs(1);
        let mut report = PartReport::default();
        let heads = [
            "HTTP/1.1 200 OK\r\nA: b\r\n\r\nxxx",
            "HTTP/1.1 409 Conflict\r\n\r\n",
            "HTTP/1.1 503 Busy\r\nRetry-After: 3\r\n\r\n",
            "HTTP/1.1 503 Busy\r\nA: b\r\n\r\n",
            "HTTP/1.1 502 Bad\r\nRetry-After: 3\r\n\r\n",
            "",
        ];
        let outcomes: Vec<ClientOutcome> = heads
            .iter()
            .map(|head| judge(head.as_bytes(), after))
            .collect();
        add_outcomes("readers", &outcomes, &mut report);
        assert_eq!(
            (report.requests, report.rejected, report.failures),
            (6, 1, 3)
        );
        assert_eq!(report.notes.len(), 4, "{:?}", report.notes);
    }
}
