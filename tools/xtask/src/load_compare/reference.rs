//! An open loop as wrk2 has it, and as simple as it can be: each connection has a thread and a schedule of its own, and a latency counts
//! from when its request was due. It keeps every latency, so that its percentiles are exact.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use super::browser::BROWSER_FIELDS;
use super::generator::{LoadLine, SeenLatency};
use crate::demo::CommandError;

/// Runs it.
pub(super) fn run(line: &LoadLine, addr: SocketAddr) -> Result<SeenLatency, CommandError> {
    let began = Instant::now() + BEFORE;
    let threads: Vec<_> = (0..line.connections)
        .map(|number| {
            let line = *line;
            thread::spawn(move || connection(&line, addr, number, began))
        })
        .collect();
    let mut all = Vec::new();
    for thread in threads {
        let latencies = thread
            .join()
            .map_err(|_| "a thread of the reference broke")?;
        all.extend(latencies?);
    }
    all.sort_unstable();
    let percentile = |percent: usize| {
        let at = (all.len() * percent).div_ceil(100).saturating_sub(1);
        all.get(at)
            .map_or(0.0, |time: &Duration| time.as_secs_f64() * 1e3)
    };
    Ok(SeenLatency {
        requests: all.len() as u64,
        ms: [50, 90, 99].map(percentile),
    })
}

/// The requests `number`, `number + connections`, and so on.
fn connection(
    line: &LoadLine,
    addr: SocketAddr,
    number: u32,
    began: Instant,
) -> std::io::Result<Vec<Duration>> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_nodelay(true)?;
    let head = request_head();
    let mut latencies = Vec::new();
    let mut buffer = [0; 4096];
    for request in (number..line.rate * line.seconds).step_by(line.connections as usize) {
        let due = began + Duration::from_secs(1) * request / line.rate;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        stream.write_all(head.as_bytes())?;
        // The floor's answer comes in one piece.
        if stream.read(&mut buffer)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        latencies.push(due.elapsed());
    }
    Ok(latencies)
}

fn request_head() -> String {
    let fields = BROWSER_FIELDS.join("\r\n");
    format!("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n{fields}\r\n\r\n")
}

/// Time for the threads to start.
const BEFORE: Duration = Duration::from_millis(200);
