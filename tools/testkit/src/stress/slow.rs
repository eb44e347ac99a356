//! People behind bad lines: uploads that trickle in, downloads that trickle out, while pages are asked for.
//!
//! Each has an address of its own, as people have. What became of each is known in the end: who was served, who was told to come
//! again, and nobody who was told nothing or was left in the middle, which would be a failure.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{self, AddressFamily, SocketType, sockopt};

use super::probe::{Probe, When};
use super::stage::{HOST, Stage};
use super::{Row, Setting};
use crate::TestkitError;
use crate::wait::{pause, poll_until};

pub(super) fn run(setting: &Setting) -> Result<Row, TestkitError> {
    let people = setting.form.pick(8, 50);
    let stage = Stage::start(setting, "1h")?;
    let mut probe = Probe::new(setting, &stage)?;
    let mut row = Row {
        title: format!("{people} slow uploads and {people} slow readers"),
        held: [stage.held(); 2],
        ..Row::default()
    };
    row.save.at_most = Some(2.0);
    probe.measure(&stage, When::Quiet, &mut row);
    (setting.progress)(&row.title);
    let day = Day::default();
    let [uploads, readers] = thread::scope(|scope| {
        let (day, addr) = (&day, stage.addr());
        let mut all = [Vec::new(), Vec::new()];
        for number in 0..people {
            all[0].push(scope.spawn(move || fate(upload(addr, number, day))));
            all[1].push(scope.spawn(move || fate(download(addr, number, day))));
        }
        // Those whose download waits for a place have sent their request, which is as far as they get.
        poll_until(TIMEOUT, || day.begun.load(Ordering::Relaxed) >= 2 * people);
        probe.measure(&stage, When::Loaded, &mut row);
        // A client that waits for a slot now gets a response within the queue timeout.
        poll_until(TIMEOUT, || day.told.load(Ordering::Relaxed) >= people);
        day.is_over.store(true, Ordering::Relaxed);
        all.map(|some| {
            some.into_iter()
                .map(thread::ScopedJoinHandle::join)
                .collect::<Vec<_>>()
        })
    });
    for (what, all) in [("uploads", uploads), ("readers", readers)] {
        let panicked = |_| TestkitError::Malformed("a client has panicked".to_owned());
        let all: Result<Vec<Fate>, _> = all.into_iter().map(|one| one.map_err(panicked)).collect();
        count(what, &all?, &mut row);
    }
    stage.close(&mut row);
    Ok(row)
}

/// What the people have in common.
#[derive(Default)]
struct Day {
    is_over: AtomicBool,
    /// Clients that have sent their request.
    begun: AtomicU64,
    /// Readers who know what becomes of them.
    told: AtomicU64,
}

/// What became of somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fate {
    /// It was going on as it should when the day was over, or had come to its end.
    Served { after: Option<Duration> },
    /// Told to come again, and when.
    Refused { after: Duration },
    /// Anything else.
    Lost(String),
}

/// Of somebody who may have been cut off.
fn fate(seen: std::io::Result<Fate>) -> Fate {
    seen.unwrap_or_else(|error| Fate::Lost(format!("its connection failed: {error}")))
}

impl Day {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// A form of 200 KB at a kilobyte every twentieth of a second.
fn upload(addr: SocketAddr, number: u64, day: &Day) -> std::io::Result<Fate> {
    let mut stream = connect(addr, (3, number))?;
    let head = format!(
        "POST /wp-comments-post.php HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: {UPLOAD}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    day.begun.fetch_add(1, Ordering::Relaxed);
    let mut sent = 0;
    while sent < UPLOAD {
        if day.is_over() {
            stream.shutdown(Shutdown::Both)?;
            return Ok(Fate::Served { after: None });
        }
        stream.write_all(&[b'a'; PIECE])?;
        sent += PIECE;
        pause(BREATH);
    }
    let asked = Instant::now();
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(judge(&answer, asked.elapsed()))
}

/// A download of 16 MB at a kilobyte every twentieth of a second.
fn download(addr: SocketAddr, number: u64, day: &Day) -> std::io::Result<Fate> {
    let mut stream = connect(addr, (4, number))?;
    stream.set_read_timeout(Some(BREATH))?;
    let head = format!("GET /?stress_large={number} HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let asked = Instant::now();
    day.begun.fetch_add(1, Ordering::Relaxed);
    let mut piece = [0; PIECE];
    let (mut start, mut fate) = (Vec::new(), None);
    while !day.is_over() {
        match stream.read(&mut piece) {
            Ok(0) => {
                let broken = format!("it was broken off after {:?}", asked.elapsed());
                return Ok(fate
                    .filter(|fate| matches!(fate, Fate::Refused { .. }))
                    .unwrap_or(Fate::Lost(broken)));
            }
            Ok(count) if fate.is_none() => {
                start.extend_from_slice(piece.get(..count).unwrap_or_default());
                if start.windows(4).any(|end| end == b"\r\n\r\n") {
                    fate = Some(judge(&start, asked.elapsed()));
                    day.told.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok(_) => {}
            Err(error) if is_silence(&error) => continue,
            Err(error) => return Err(error),
        }
        pause(BREATH);
    }
    Ok(fate.unwrap_or_else(|| Fate::Lost(format!("it was told nothing in {:?}", asked.elapsed()))))
}

/// What an answer says, by its head. A refusal says when to come again.
fn judge(answer: &[u8], after: Duration) -> Fate {
    let text = String::from_utf8_lossy(answer).to_ascii_lowercase();
    let head = text.split("\r\n\r\n").next().unwrap_or_default();
    let line = head.lines().next().unwrap_or_default();
    let status = line
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse::<u16>().ok());
    match status {
        Some(200..500) => Fate::Served { after: Some(after) },
        Some(503) if head.contains("\r\nretry-after: ") => Fate::Refused { after },
        _ => Fate::Lost(format!("it was told `{line}` after {after:?}")),
    }
}

fn count(what: &str, all: &[Fate], row: &mut Row) {
    row.requests += all.len() as u64;
    let (mut served, mut slowest, mut refused) = (0_u64, Duration::ZERO, Vec::new());
    let mut lost = BTreeMap::<&str, u64>::new();
    for fate in all {
        match fate {
            Fate::Served { after } => {
                served += 1;
                slowest = slowest.max(after.unwrap_or_default());
            }
            Fate::Refused { after } => refused.push(*after),
            Fate::Lost(why) => *lost.entry(why).or_default() += 1,
        }
    }
    row.refused += refused.len() as u64;
    row.failures += lost.values().sum::<u64>();
    let told = match (refused.iter().min(), refused.iter().max()) {
        (Some(first), Some(last)) => format!(
            "; {} were told to come again, after {} to {} ms",
            refused.len(),
            first.as_millis(),
            last.as_millis()
        ),
        _ => String::new(),
    };
    row.notes.push(format!(
        "of the {} slow {what} {served} were served, the last of them answered after {} ms{told}",
        all.len(),
        slowest.as_millis()
    ));
    for (why, count) in lost {
        row.notes.push(format!("{count} of the slow {what}: {why}"));
    }
}

/// A connection of somebody with an address of his own, whose own end takes in little, so that what is sent waits at the server.
fn connect(addr: SocketAddr, (group, number): (u8, u64)) -> std::io::Result<TcpStream> {
    let [.., high, low] = (number + 1).to_be_bytes();
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    sockopt::set_socket_recv_buffer_size(&socket, 4 * PIECE)?;
    let from = Ipv4Addr::new(127, group, high, low);
    net::bind(&socket, &SocketAddrV4::new(from, 0))?;
    net::connect(&socket, &addr)?;
    Ok(TcpStream::from(socket))
}

fn is_silence(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

const UPLOAD: usize = 200 * PIECE;
const PIECE: usize = 1024;

/// Twenty kilobytes a second each: a phone at the edge of its cell.
const BREATH: Duration = Duration::from_millis(50);

/// Much longer than anybody waits for a place.
const TIMEOUT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_is_served_or_gets_retry_after() {
        let after = Duration::from_secs(1);
        let mut row = Row::default();
        let heads = [
            "HTTP/1.1 200 OK\r\nA: b\r\n\r\nxxx",
            "HTTP/1.1 409 Conflict\r\n\r\n",
            "HTTP/1.1 503 Busy\r\nRetry-After: 3\r\n\r\n",
            "HTTP/1.1 503 Busy\r\nA: b\r\n\r\n",
            "HTTP/1.1 502 Bad\r\nRetry-After: 3\r\n\r\n",
            "",
        ];
        let fates: Vec<Fate> = heads
            .iter()
            .map(|head| judge(head.as_bytes(), after))
            .collect();
        count("readers", &fates, &mut row);
        assert_eq!((row.requests, row.refused, row.failures), (6, 1, 3));
        assert_eq!(row.notes.len(), 4, "{:?}", row.notes);
    }
}
