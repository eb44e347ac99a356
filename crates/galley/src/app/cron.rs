//! Runs WordPress's scheduler: each site at its own interval, one run at a time.
//!
//! The first run starts at a random time, so that many sites, and many machines that started together, do not run at once. If a
//! run takes longer than the interval, the next one follows immediately. After failures the pauses grow. A time that
//! the plugin has announced (a scheduled post) is met to the second, and the interval starts again from there. The tasks
//! run on the control thread, which serves no requests.

use std::sync::{Arc, Weak};
use std::time::Duration;

use galley_policy::time::Tick;
use tokio::task::JoinSet;
use tokio::time::Instant;

use galley_fetch::cron::{CronRuns, CronTransition, LastRun};
use galley_request::{Site, run_cron};
use galley_sys::clock::Clock;

/// Starts the schedules of all sites that have one. When the result is dropped, they end and abandon runs in progress.
pub(super) fn start(sites: &Arc<Vec<Arc<Site>>>, clock: Clock) -> JoinSet<()> {
    let mut schedules = JoinSet::new();
    for site in sites.iter() {
        if let Some(cron) = &site.cron {
            let first = first_run(&site.core.cron, cron.every, clock);
            schedules.spawn(keep(Arc::downgrade(site), cron.every, first, clock));
        }
    }
    schedules
}

/// The time until the first run: the rest of the interval that the previous configuration has begun, or a new one.
fn first_run(cron: &CronRuns, every: Duration, clock: Clock) -> Duration {
    let next = cron.state().next;
    if cron.stop_runs() {
        return MIN_GAP;
    }
    match next {
        Some(next) => next.since(clock.tick()).min(every),
        None => first(every, u64::from_ne_bytes(galley_sys::random_bytes())),
    }
}

async fn keep(site: Weak<Site>, every: Duration, first: Duration, clock: Clock) {
    let mut due = Instant::now() + first;
    let mut latest = None;
    loop {
        let (next, announced) = {
            let Some(site) = site.upgrade() else { return };
            let cron = &site.core.cron;
            let next = soonest(due, appointment(cron, latest));
            let left = next.saturating_duration_since(Instant::now());
            cron.due(later(clock.tick(), left));
            (next, cron.announced())
        };
        tokio::select! {
            () = tokio::time::sleep_until(next) => {}
            () = announced.notified() => continue,
        }
        let Some(site) = site.upgrade() else { return };
        let began = Instant::now();
        site.core.cron.rely_on_runs_until(began);
        run(&site, clock).await;
        let failures = site.core.cron.state().failures_in_a_row;
        if next < due {
            latest = Some(began);
            // The interval starts again here, so that announced times do not add runs.
            due = began + pause(began.elapsed(), every, failures);
        } else {
            due += pause(due.elapsed(), every, failures);
        }
    }
}

/// The time of the next announced run: none while runs fail, and some time after the previous run.
fn appointment(cron: &CronRuns, latest: Option<Instant>) -> Option<Instant> {
    if cron.state().failures_in_a_row > 0 {
        return None;
    }
    let due = cron.appointment()? + MARGIN;
    Some(latest.map_or(due, |latest| due.max(latest + MIN_GAP)))
}

fn soonest(due: Instant, appointment: Option<Instant>) -> Instant {
    appointment.map_or(due, |appointment| appointment.min(due))
}

async fn run(site: &Site, clock: Clock) {
    let Some(cron) = &site.cron else { return };
    let (began, since) = (clock.wall(), Instant::now());
    site.core.cron.begins();
    let result = run_cron(site, cron).await;
    let last = LastRun {
        began,
        took: since.elapsed(),
        result,
    };
    let name = &site.core.name;
    match (site.core.cron.ended(last), result) {
        (CronTransition::Worse, Err(trouble)) => {
            tracing::warn!(
                site = name,
                "scheduled tasks failed: {trouble}; retrying with growing pauses"
            );
        }
        (CronTransition::Better, _) => tracing::info!(site = name, "scheduled tasks run again"),
        (CronTransition::Worse | CronTransition::None, _) => {}
    }
}

/// The time from the start to the first run: between 0.5 and 1.5 times the interval, depending on `random`.
fn first(every: Duration, random: u64) -> Duration {
    let ms = u64::try_from(every.as_millis()).unwrap_or(u64::MAX).max(1);
    every / 2 + Duration::from_millis(random % ms)
}

/// The time from one run's scheduled time to the next: a multiple of the interval, or a pause from now on after `failures` in
/// a row.
fn pause(since_due: Duration, every: Duration, failures: u32) -> Duration {
    if failures > 0 {
        let doubled = every.saturating_mul(2_u32.saturating_pow(failures.min(10)));
        return since_due + doubled.min(MAX_PAUSE.max(every));
    }
    let beats = since_due.as_millis() / every.as_millis().max(1);
    every.saturating_mul(u32::try_from(beats).unwrap_or(u32::MAX - 1) + 1)
}

fn later(now: Tick, left: Duration) -> Tick {
    let ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
    Tick(now.0.saturating_add(ms))
}

/// WordPress counts in whole seconds, and ignores tasks whose time has not come.
const MARGIN: Duration = Duration::from_millis(50);

/// The minimum time between the starts of two announced runs, whatever a plugin announces.
const MIN_GAP: Duration = Duration::from_secs(5);

/// The longest pause after failures: tasks of a site whose PHP was down for long run within ten minutes after it is back.
const MAX_PAUSE: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announced_runs_keep_a_distance_and_wait_while_runs_fail() {
        let cron = CronRuns::default();
        assert_eq!(appointment(&cron, None), None);
        cron.announce(&[s(1), s(20)], s(0));
        let soon = appointment(&cron, None).unwrap();
        assert!(soon > Instant::now() && soon < Instant::now() + s(2));
        let latest = Instant::now();
        assert_eq!(appointment(&cron, Some(latest)), Some(latest + MIN_GAP));
        cron.rely_on_runs_until(latest + s(10));
        assert!(appointment(&cron, Some(latest)).unwrap() > latest + s(15));
        assert_eq!(soonest(latest, Some(latest + s(1))), latest);
        cron.begins();
        cron.ended(LastRun {
            began: std::time::SystemTime::UNIX_EPOCH,
            took: s(1),
            result: Err(galley_fetch::cron::CronError::Missing),
        });
        assert_eq!(appointment(&cron, None), None);
    }

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn first_runs_are_spread_over_the_interval() {
        assert_eq!(first(s(60), 0), s(30));
        assert_eq!(first(s(60), 59_999), s(30) + Duration::from_millis(59_999));
        assert_eq!(first(s(60), 60_000), s(30));
    }

    #[test]
    fn runs_keep_their_interval_and_long_runs_skip_some() {
        for (took, next) in [(0, 60), (59, 60), (60, 120), (61, 120), (600, 660)] {
            assert_eq!(pause(s(took), s(60), 0), s(next), "{took}");
        }
    }

    #[test]
    fn pauses_after_failures_grow_up_to_a_limit() {
        let pauses = [1, 2, 3, 4, 30].map(|failures| pause(s(5), s(60), failures).as_secs());
        assert_eq!(pauses, [125, 245, 485, 605, 605]);
        assert_eq!(pause(s(0), s(86_400), 3), s(86_400));
    }
}
