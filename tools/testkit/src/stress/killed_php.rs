//! PHP processes killed at random, single workers and all of PHP, while visitors request pages that expire all the time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::site::{HOST, StressSite};
use super::visitor::{Expected, Visitor, VisitorCounts};
use super::{PartReport, RunLength, StressSettings};
use crate::faults::random::Random;
use crate::wait::{pause, poll_until};
use crate::{PhpFpm, TestkitError};

pub(super) fn run(settings: &StressSettings) -> Result<PartReport, TestkitError> {
    let duration = settings.killed_for.unwrap_or(
        settings
            .length
            .pick(Duration::from_secs(6), Duration::from_secs(600)),
    );
    let mut site = StressSite::start(settings, "1s")?;
    let mut report = PartReport {
        title: format!("PHP killed at random for {} s", duration.as_secs()),
        usage: [site.usage(); 2],
        ..PartReport::default()
    };
    (settings.progress)(&report.title);
    let is_over = AtomicBool::new(false);
    let (addr, pages) = (site.addr(), site.pages.clone());
    let fpm = &mut site.fpm;
    let (killed, clients) = thread::scope(|scope| {
        let (is_over, pages) = (&is_over, &pages);
        let readers = settings.length.pick(4, 20);
        let clients: Vec<_> = (0..readers)
            .map(|number| {
                scope.spawn(move || read_stored(Visitor::new(addr, HOST), number, pages, is_over))
            })
            .chain(std::iter::once(scope.spawn(move || {
                request_generated(Visitor::new(addr, HOST), is_over)
            })))
            .collect();
        let killed = kill_until(Instant::now() + duration, fpm, settings.length);
        is_over.store(true, Ordering::Relaxed);
        let clients: Vec<_> = clients
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect();
        (killed, clients)
    });
    let (workers, masters) = killed?;
    for client in clients {
        let panicked = |_| TestkitError::Malformed("a client panicked".to_owned());
        report.add(client.map_err(panicked)?);
    }
    report.notes.push(format!(
        "{workers} workers were killed, and all of PHP {masters} times"
    ));
    let mut visitor = Visitor::new(addr, HOST);
    let has_recovered = poll_until(TIMEOUT, || {
        let mut counts = VisitorCounts::default();
        visitor.get(UNCACHED, Expected::Generated, &mut counts);
        counts.failures + counts.rejected == 0
    });
    if !has_recovered {
        report
            .violations
            .push("PHP generates no pages after the last kill".to_owned());
    }
    drop(visitor);
    site.close(&mut report);
    Ok(report)
}

/// Kills processes until `end`; returns the number of killed workers, and how often all of PHP was killed.
fn kill_until(
    end: Instant,
    fpm: &mut PhpFpm,
    length: RunLength,
) -> Result<(u32, u32), TestkitError> {
    let mut random = Random::new(20_260_101);
    let (mut workers, mut masters) = (0, 0);
    while Instant::now() < end {
        pause(random.time(length.pick(Duration::from_secs(1), Duration::from_secs(3))));
        if random.once_in(5) {
            fpm.kill();
            masters += 1;
            pause(random.time(Duration::from_secs(2)));
            fpm.restart()?;
            continue;
        }
        let pids = fpm.workers();
        let chosen = pids.get(random.below(pids.len()));
        let pid = chosen.and_then(|pid| Pid::from_raw(i32::try_from(*pid).ok()?));
        // The worker may have exited already.
        if pid.is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok()) {
            workers += 1;
        }
    }
    Ok((workers, masters))
}

fn read_stored(
    mut visitor: Visitor,
    first: usize,
    pages: &[String],
    is_over: &AtomicBool,
) -> VisitorCounts {
    let mut counts = VisitorCounts::default();
    let mut pages = pages.iter().cycle().skip(first);
    while !is_over.load(Ordering::Relaxed) {
        if let Some(page) = pages.next() {
            visitor.get(page, Expected::Stored, &mut counts);
        }
        pause(PAUSE);
    }
    counts
}

fn request_generated(mut visitor: Visitor, is_over: &AtomicBool) -> VisitorCounts {
    let mut counts = VisitorCounts::default();
    while !is_over.load(Ordering::Relaxed) {
        visitor.get(UNCACHED, Expected::Generated, &mut counts);
        pause(PAUSE);
    }
    counts
}

/// A page that is never stored.
const UNCACHED: &str = "/wp-login.php";

/// Between two requests of one client.
const PAUSE: Duration = Duration::from_millis(20);

const TIMEOUT: Duration = Duration::from_secs(60);
