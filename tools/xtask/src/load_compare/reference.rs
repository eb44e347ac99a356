//! A minimal open loop like that of wrk2: each connection has its own thread and schedule, and a latency counts from the time at which the
//! request was due. All latencies are stored, so the percentiles are exact.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use super::browser::BROWSER_FIELDS;
use super::settings::{LatencyPercentiles, LoadSettings};
use crate::error::CommandError;

/// Sends the load and returns the percentiles.
pub(super) fn run(
    settings: &LoadSettings,
    addr: SocketAddr,
) -> Result<LatencyPercentiles, CommandError> {
    let start = Instant::now() + START_DELAY;
    let threads: Vec<_> = (0..settings.connections)
        .map(|number| {
            let settings = *settings;
            thread::spawn(move || connection(&settings, addr, number, start))
        })
        .collect();
    let mut all = Vec::new();
    for thread in threads {
        let latencies = thread
            .join()
            .map_err(|_| "a thread of the reference generator panicked")?;
        all.extend(latencies?);
    }
    all.sort_unstable();
    let percentile = |percent: usize| {
        let at = (all.len() * percent).div_ceil(100).saturating_sub(1);
        all.get(at)
            .map_or(0.0, |time: &Duration| time.as_secs_f64() * 1e3)
    };
    Ok(LatencyPercentiles {
        requests: all.len() as u64,
        ms: [50, 90, 99].map(percentile),
    })
}

/// Sends the requests `number`, `number + connections`, and so on, over one connection.
fn connection(
    settings: &LoadSettings,
    addr: SocketAddr,
    number: u32,
    start: Instant,
) -> std::io::Result<Vec<Duration>> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_nodelay(true)?;
    let head = request_head();
    let mut latencies = Vec::new();
    let mut buffer = [0; 4096];
    for request in (number..settings.rate * settings.seconds).step_by(settings.connections as usize)
    {
        let due = start + Duration::from_secs(1) * request / settings.rate;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        stream.write_all(head.as_bytes())?;
        // The floor's response is small enough for one read.
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

/// Time in which the threads start.
const START_DELAY: Duration = Duration::from_millis(200);
