//! Hits while other work goes on: misses at a slow upstream, purges, refreshes, compressions.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::asker::{Asker, ask_all, latencies, per_mille, request};
use super::entries::wrong;
use super::stage::Stage;
use super::{Figure, Promise, Setting, amount};
use crate::TestkitError;
use crate::wait::{pause, poll_until};

/// What goes on, and how many do it at one time.
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

    fn request(self, number: u64) -> Vec<u8> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Misses => request("GET", &format!("/s/{number}"), ""),
            Self::Purges => request("PURGE", "/", &format!("Cache-Tag: none{number}\r\n")),
            Self::Refreshes => request("GET", &format!("/r/{}", number % 50), ""),
            Self::Compressions => {
                let field = "Accept-Encoding: gzip, br\r\n";
                request("GET", &format!("/c/{number}"), field)
            }
        }
    }

    /// Between two requests of one client: what is measured is the hit beside the work, not two clients that fight for a core.
    fn pause(self) -> Duration {
        match self {
            Self::Nothing | Self::Misses => Duration::ZERO,
            Self::Purges | Self::Refreshes | Self::Compressions => Duration::from_millis(2),
        }
    }
}

pub(super) fn run(setting: &Setting) -> Result<Vec<Figure>, TestkitError> {
    let mut figures = Vec::new();
    let cache = "memory = \"256MiB\"\ndisk = \"{dir}/cache\"\ndisk_size = \"64MiB\"";
    let stage = Stage::start(setting, cache, Vec::new())?;
    let mut asker = Asker::open(stage.addr())?;
    let mut path = |number: u64| format!("/e/{}", number % 100);
    ask_all(std::slice::from_mut(&mut asker), 1_000, &mut path)?;
    let mut alone = Vec::new();
    for round in 0..setting.form.pick(1, 3) {
        for work in Work::ALL {
            (setting.progress)(&format!("hits beside {}", work.title()));
            let count = setting.form.pick(500, 20_000);
            let done = AtomicU64::new(0);
            let (times, counted) = beside(stage.addr(), work, &done, || {
                latencies(&mut asker, count, &mut path)
            })?;
            let p99 = per_mille(&times, 990);
            if matches!(work, Work::Nothing) {
                alone.push(p99);
                alone.sort_unstable();
            }
            let case = format!("{}, round {}", work.title(), round + 1);
            figures.push(wrong(&case, counted.wrong));
            let missed = counted.answers - counted.hits;
            figures.push(
                Figure::new("answers that were no hit", &case, amount(missed), "")
                    .promised(Promise::Exactly(0.0)),
            );
            let us = p99.as_secs_f64() * 1e6;
            let beside_what = amount(done.load(Ordering::Relaxed));
            figures.push(Figure::new("done beside", &case, beside_what, ""));
            let figure = Figure::new("p99 of a hit", &case, us, "us");
            figures.push(match alone.get(alone.len() / 2) {
                Some(alone) if matches!(work, Work::Misses) => {
                    figure.promised(Promise::TimeAtMost(alone.as_secs_f64() * 1.5e6))
                }
                _ => figure,
            });
        }
    }
    Ok(figures)
}

/// Runs `measure` while `work` goes on, which has begun before and ends after it.
fn beside<T>(
    addr: SocketAddr,
    work: Work,
    done: &AtomicU64,
    measure: impl FnOnce() -> Result<T, TestkitError>,
) -> Result<T, TestkitError> {
    let (over, next) = (AtomicBool::new(false), AtomicU64::new(0));
    let (over, next) = (&over, &next);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..work.clients())
            .map(|_| {
                scope.spawn(move || -> Result<(), TestkitError> {
                    let mut client = Asker::open(addr)?;
                    while !over.load(Ordering::Relaxed) {
                        client.send(&work.request(next.fetch_add(1, Ordering::Relaxed)))?;
                        client.answer()?;
                        done.fetch_add(1, Ordering::Relaxed);
                        pause(work.pause());
                    }
                    Ok(())
                })
            })
            .collect();
        // Each of them has begun.
        poll_until(TIMEOUT, || {
            done.load(Ordering::Relaxed) >= clients.len() as u64
                || clients.iter().any(thread::ScopedJoinHandle::is_finished)
        });
        let measured = measure();
        over.store(true, Ordering::Relaxed);
        for client in clients {
            client
                .join()
                .map_err(|_| TestkitError::Malformed("a client has panicked".to_owned()))??;
        }
        measured
    })
}

/// For a first answer on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);
