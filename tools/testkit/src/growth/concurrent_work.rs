//! Hits during other work: misses at a slow upstream, purges, refreshes, compressions.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::load::{browser_request, connect, latencies, percentile, send_all};
use super::site::GrowthSite;
use super::{Goal, GrowthSettings, Measurement, count_as_f64};
use crate::TestkitError;
use crate::wait::{pause, poll_until};

/// The work that clients cause during the measurement.
#[derive(Clone, Copy)]
enum Work {
    Nothing,
    Misses,
    Purges,
    Refreshes,
    Compressions,
}

impl Work {
    const ALL: [Self; 5] = [
        Self::Nothing,
        Self::Misses,
        Self::Purges,
        Self::Refreshes,
        Self::Compressions,
    ];

    fn title(self) -> &'static str {
        match self {
            Self::Nothing => "nothing else",
            Self::Misses => "misses at a slow upstream",
            Self::Purges => "purges",
            Self::Refreshes => "refreshes",
            Self::Compressions => "compressions",
        }
    }

    fn clients(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Misses => 32,
            Self::Purges | Self::Refreshes | Self::Compressions => 1,
        }
    }

    fn method(self) -> &'static str {
        match self {
            Self::Purges => "PURGE",
            Self::Nothing | Self::Misses | Self::Refreshes | Self::Compressions => "GET",
        }
    }

    fn request(self, number: u64) -> Vec<u8> {
        let (path, fields) = match self {
            Self::Nothing => return Vec::new(),
            Self::Misses => (format!("/s/{number}"), String::new()),
            Self::Purges => ("/".to_owned(), format!("Cache-Tag: none{number}\r\n")),
            Self::Refreshes => (format!("/r/{}", number % 50), String::new()),
            Self::Compressions => {
                let fields = "Accept-Encoding: gzip, br\r\n";
                (format!("/c/{number}"), fields.to_owned())
            }
        };
        browser_request(self.method(), &path, &fields)
    }

    /// The pause of a client between two requests: the measurement is about hits during the work, not about two clients that compete
    /// for a core.
    fn pause(self) -> Duration {
        match self {
            Self::Nothing | Self::Misses => Duration::ZERO,
            Self::Purges | Self::Refreshes | Self::Compressions => Duration::from_millis(2),
        }
    }
}

pub(super) fn run(settings: &GrowthSettings) -> Result<Vec<Measurement>, TestkitError> {
    let mut measurements = Vec::new();
    let cache = "memory = \"256MiB\"\ndisk = \"{dir}/cache\"\ndisk_size = \"64MiB\"";
    let site = GrowthSite::start(settings, cache, Vec::new())?;
    let mut connection = connect(site.addr())?;
    let mut path = |number: u64| format!("/e/{}", number % 100);
    send_all(std::slice::from_mut(&mut connection), 1_000, &mut path)?;
    let mut without_work = Vec::new();
    for round in 0..settings.length.pick(1, 3) {
        for work in Work::ALL {
            (settings.progress)(&format!("hits during {}", work.title()));
            let count = settings.length.pick(500, 20_000);
            let done = AtomicU64::new(0);
            let (times, counts) = during(work, site.addr(), &done, || {
                latencies(&mut connection, count, &mut path)
            })?;
            let p99 = percentile(&times, 99);
            if matches!(work, Work::Nothing) {
                without_work.push(p99);
                without_work.sort_unstable();
            }
            let case = format!("{}, round {}", work.title(), round + 1);
            measurements.push(Measurement::wrong_responses(&case, counts.wrong));
            measurements.push(Measurement::misses(&case, counts.misses()));
            let us = p99.as_secs_f64() * 1e6;
            let done = count_as_f64(done.load(Ordering::Relaxed));
            measurements.push(Measurement::new("concurrent requests", &case, done, ""));
            let measurement = Measurement::new("p99 of a hit", &case, us, "us");
            measurements.push(match without_work.get(without_work.len() / 2) {
                Some(median) if matches!(work, Work::Misses) => {
                    measurement.with_goal(Goal::TimeAtMost(median.as_secs_f64() * 1.5e6))
                }
                _ => measurement,
            });
        }
    }
    Ok(measurements)
}

/// Runs `measure` while clients cause `work`; every client has received a response before.
fn during<T>(
    work: Work,
    addr: SocketAddr,
    done: &AtomicU64,
    measure: impl FnOnce() -> Result<T, TestkitError>,
) -> Result<T, TestkitError> {
    let (is_over, next) = (AtomicBool::new(false), AtomicU64::new(0));
    let (is_over, next) = (&is_over, &next);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..work.clients())
            .map(|_| {
                scope.spawn(move || -> Result<(), TestkitError> {
                    let mut client = connect(addr)?;
                    while !is_over.load(Ordering::Relaxed) {
                        client.write(&work.request(next.fetch_add(1, Ordering::Relaxed)))?;
                        client.receive(work.method())?;
                        done.fetch_add(1, Ordering::Relaxed);
                        pause(work.pause());
                    }
                    Ok(())
                })
            })
            .collect();
        poll_until(TIMEOUT, || {
            done.load(Ordering::Relaxed) >= clients.len() as u64
                || clients.iter().any(thread::ScopedJoinHandle::is_finished)
        });
        let measured = measure();
        is_over.store(true, Ordering::Relaxed);
        for client in clients {
            client
                .join()
                .map_err(|_| TestkitError::Malformed("a client panicked".to_owned()))??;
        }
        measured
    })
}

/// For the first responses on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);
