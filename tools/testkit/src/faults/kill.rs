//! `kill -9` in a loop, on one cache directory, while clients fill the cache and editors purge.
//!
//! Each round starts the server, verifies every page, applies load, and kills the server while at least one purge awaits its
//! acknowledgment and ten pages are being generated. Some rounds also kill the server during startup or stop it with
//! SIGTERM. Every purge acknowledged before the kill must be in force; an unacknowledged one may be.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use super::{
    FaultSettings, TestLength,
    purges::{Editor, PurgeMethod, random_scope},
    random::Random,
    report::{FaultReport, Verdict},
    site_content::{Lengths, Scope, SiteContent, path},
    test_site::{Client, SiteOptions, TestSite, count_response, get},
};
use crate::{
    TestkitError,
    wait::{pause, poll_until},
};

pub(super) fn run(settings: &FaultSettings) -> Result<FaultReport, TestkitError> {
    let (rounds, lengths) = match settings.length {
        TestLength::Short => (8, lengths(1_500_000, vec![3_000_000, 20_000_000])),
        TestLength::Long => (200, lengths(4_000_000, vec![8_000_000, 24_000_000])),
    };
    let random = Random::new(settings.seed);
    let content = SiteContent::new(PAGES, settings.seed, &lengths);
    let mut site = TestSite::new(&settings.galley, content, &SiteOptions::default())?;
    let mut sum = FaultReport::default();
    let mut minimum = (usize::MAX, usize::MAX);
    for round in 0..rounds {
        let mut random = random.fork(round);
        start(&mut site, &mut random)?;
        sum += site.compare()?;
        let (report, in_flight) = run_round(&mut site, &random)?;
        sum += report;
        sum.rounds += 1;
        minimum = (minimum.0.min(in_flight.0), minimum.1.min(in_flight.1));
        if round % 20 == 19 {
            eprintln!("  {} of {rounds} rounds, {} purges", round + 1, sum.purges);
        }
    }
    site.start()?;
    let last = site.compare()?;
    sum.require(sum.hits > 0, "no page was a hit after a kill");
    let log = site.galley()?.log();
    sum.require(!log.contains("panicked"), "the server panicked");
    sum += last;
    sum.measurement(format!(
        "at each kill at least {} purges awaited their acknowledgement and {} pages were being generated",
        minimum.0, minimum.1
    ));
    Ok(sum)
}

fn lengths(long: usize, last: Vec<usize>) -> Lengths {
    Lengths {
        usual: 100..20_000,
        long_every: 40,
        long: 200_000..long,
        last,
    }
}

/// Starts the server; at random kills or stops it shortly after the start, up to three times.
fn start(site: &mut TestSite, random: &mut Random) -> Result<(), TestkitError> {
    site.start()?;
    let mut extra = 0;
    while extra < 3 && random.once_in(4) {
        extra += 1;
        pause(random.time(Duration::from_millis(30)));
        if random.once_in(3) {
            site.stop();
        } else {
            site.kill();
        }
        site.start()?;
    }
    Ok(())
}

/// The state that the threads of one round share.
struct Round<'a> {
    site: &'a TestSite,
    /// Set just before the kill: later errors are expected.
    killed: AtomicBool,
    /// Purges without an acknowledgment yet.
    pending_purges: AtomicUsize,
    sum: Mutex<FaultReport>,
}

/// Applies load and kills the server; also returns the numbers of pending purges and of pages in progress at that moment.
fn run_round(
    site: &mut TestSite,
    random: &Random,
) -> Result<(FaultReport, (usize, usize)), TestkitError> {
    let pid = site.galley()?.pid();
    let round = Round {
        site,
        killed: AtomicBool::new(false),
        pending_purges: AtomicUsize::new(0),
        sum: Mutex::new(FaultReport::default()),
    };
    let in_flight = thread::scope(|scope| {
        for (number, method) in PurgeMethod::ALL.into_iter().enumerate() {
            let random = random.fork(100 + to_u64(number));
            let round = &round;
            scope.spawn(move || round.finish(round.edit(random, method)));
        }
        for number in 0..CLIENTS {
            let random = random.fork(200 + to_u64(number));
            let round = &round;
            scope.spawn(move || round.finish(round.read(random)));
        }
        let in_flight = round.wait_for_pending_work(random.fork(300));
        round.killed.store(true, Ordering::SeqCst);
        kill_now(pid);
        in_flight
    });
    let report = round
        .sum
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    site.kill();
    site.upstream.set_slow(false);
    let Some(in_flight) = in_flight else {
        return Err(TestkitError::Malformed(
            "a purge and ten fetches were never in progress at the same time".to_owned(),
        ));
    };
    Ok((report, in_flight))
}

impl Round<'_> {
    fn is_over(&self) -> bool {
        self.killed.load(Ordering::SeqCst)
    }

    fn finish(&self, report: Result<FaultReport, TestkitError>) {
        let mut sum = self.sum.lock().unwrap_or_else(PoisonError::into_inner);
        match report {
            Ok(report) => *sum += report,
            Err(error) => sum.broken(&error.to_string()),
        }
    }

    /// Edits and purges by one method until the kill, with short random pauses unless the upstream is slow.
    fn edit(&self, mut random: Random, method: PurgeMethod) -> Result<FaultReport, TestkitError> {
        let mut report = FaultReport::default();
        let mut editor = Editor::new(self.site)?;
        while !self.is_over() {
            let scope = random_scope(&mut random, self.site.content.page_count());
            // Purging the whole site too often would leave no hits to verify.
            let scope = match scope {
                Scope::Site if !random.once_in(4) => Scope::Url(0),
                scope => scope,
            };
            self.pending_purges.fetch_add(1, Ordering::SeqCst);
            let outcome = editor.edit(self.site, scope, method);
            self.pending_purges.fetch_sub(1, Ordering::SeqCst);
            match outcome {
                Ok(()) => report.purges += 1,
                Err(_) if self.is_over() => break,
                Err(error) => {
                    report.count(Verdict::Failed, || format!("purge of {scope:?}: {error}"));
                }
            }
            // No pause shortly before the kill, so that a purge is always in progress.
            if !self.site.upstream.is_slow() {
                pause(random.time(BETWEEN_PURGES));
            }
        }
        Ok(report)
    }

    /// Requests random pages until the kill.
    fn read(&self, mut random: Random) -> Result<FaultReport, TestkitError> {
        let mut report = FaultReport::default();
        let content = &self.site.content;
        let mut client = Client::new(self.site.addr()?);
        while !self.is_over() {
            let page = random.below(content.page_count());
            let minimum = content.minimum_version(page);
            match client.send(&get(page)) {
                Ok(response) => count_response(content, page, minimum, &response, &mut report),
                Err(_) if self.is_over() => break,
                Err(error) => {
                    report.count(Verdict::Failed, || format!("{}: {error}", path(page)));
                }
            }
        }
        Ok(report)
    }

    /// Waits for a random time, then until enough purges and pages are in progress; `None` if that never happens.
    fn wait_for_pending_work(&self, mut random: Random) -> Option<(usize, usize)> {
        pause(MIN_LOAD_TIME + random.time(LOAD_TIME_RANGE));
        self.site.upstream.set_slow(true);
        let now = || {
            let purges = self.pending_purges.load(Ordering::SeqCst);
            let pages = self.site.upstream.in_progress();
            (purges >= 1 && pages >= 10).then_some((purges, pages))
        };
        let mut found = None;
        poll_until(TIMEOUT, || {
            // A busy loop, because a purge is in progress for less than a millisecond.
            for _ in 0..20_000 {
                if now().is_some() {
                    let spins = random.below(2_000);
                    (0..spins).for_each(|_| std::hint::spin_loop());
                    found = now();
                    if found.is_some() {
                        return true;
                    }
                }
                std::hint::spin_loop();
            }
            false
        });
        found
    }
}

/// Sends SIGKILL without waiting for the process.
fn kill_now(pid: u32) {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

fn to_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

const PAGES: usize = 300;
const CLIENTS: usize = 16;
const BETWEEN_PURGES: Duration = Duration::from_millis(12);
const MIN_LOAD_TIME: Duration = Duration::from_millis(60);
const LOAD_TIME_RANGE: Duration = Duration::from_millis(500);
/// Limit for [`Round::wait_for_pending_work`].
const TIMEOUT: Duration = Duration::from_secs(60);
