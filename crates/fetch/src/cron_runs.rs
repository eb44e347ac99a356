//! The results of runs of WordPress's scheduler for one site, and the time of the next run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use galley_cache::fill::FillError;
use galley_policy::appointments;
use galley_policy::time::Tick;
use galley_sys::Lock;
use http::{HeaderMap, StatusCode};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Why a run failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    /// The root has no scheduler.
    #[error("there is no `/wp-cron.php` below the root")]
    Missing,
    /// The upstream sent no complete response.
    #[error("{0}")]
    Upstream(FillError),
    /// The status of the response is not that of a run.
    #[error("`/wp-cron.php` responded with status {0}")]
    Status(StatusCode),
    /// The configured host cannot be in a request; the checks of the configuration prevent this.
    #[error("the site's host cannot be used in a request")]
    Host,
}

/// The results of the runs of one site. Written by the task that makes the runs, read by the admin thread and by requests.
#[derive(Debug, Default)]
pub struct CronRuns {
    state: Lock<CronState>,
    /// Read for each request to the upstream.
    is_relied_on: AtomicBool,
    /// The times at which WordPress has scheduled tasks, soonest first.
    appointments: Lock<Vec<Appointment>>,
    /// Notified when `appointments` changes.
    announced: Arc<Notify>,
}

/// A time at which WordPress has a scheduled task.
#[derive(Clone, Copy, Debug)]
struct Appointment {
    due: Instant,
    announced: Instant,
}

/// The state of the runs of a site.
#[derive(Clone, Copy, Debug, Default)]
pub struct CronState {
    /// The latest run that has ended.
    pub last: Option<LastRun>,
    /// The time of the next run; `None` if Galley starts none, or while one is in progress.
    pub next: Option<Tick>,
    /// Whether a run is in progress.
    pub is_running: bool,
    /// Successful runs since the start.
    pub runs: u64,
    /// Failed runs since the start.
    pub failures: u64,
    /// Failed runs since the last successful one.
    pub failures_in_a_row: u32,
}

/// A run that has ended.
#[derive(Clone, Copy, Debug)]
pub struct LastRun {
    /// The time when the run began.
    pub began: SystemTime,
    /// The duration of the run.
    pub took: Duration,
    /// The result.
    pub result: Result<(), CronError>,
}

/// How a run changed the state of the site's runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CronTransition {
    /// The first failed run.
    Worse,
    /// The first successful run after failed ones.
    Better,
    /// The same result as before.
    None,
}

impl CronRuns {
    /// The state of the runs.
    pub fn state(&self) -> CronState {
        *self.state.lock()
    }

    /// Whether WordPress may rely on Galley for its scheduled tasks: the latest run was successful.
    pub fn is_relied_on(&self) -> bool {
        self.is_relied_on.load(Ordering::Relaxed)
    }

    /// Records the time of the next run.
    pub fn due(&self, next: Tick) {
        self.state.lock().next = Some(next);
    }

    /// Records the appointments that a response of the site's upstream announces. `delay`: the time since its request was sent.
    pub(super) fn read_appointments(&self, fields: &HeaderMap, delay: Duration) {
        if let Some(left) = appointments::announced(fields) {
            self.announce(&left, delay);
        }
    }

    /// Records appointments, as times from now, from a list that is at most as old as `age`. They replace those that were announced
    /// before the list was made. The list may lack later ones: a page that began before a post was scheduled can end after that.
    pub fn announce(&self, left: &[Duration], age: Duration) {
        let now = Instant::now();
        let mut appointments = self.appointments.lock();
        appointments.retain(|known| now.duration_since(known.announced) < age);
        for left in left {
            let due = now + *left;
            appointments.retain(|known| distance(known.due, due) >= SAME_WITHIN);
            appointments.push(Appointment {
                due,
                announced: now,
            });
        }
        appointments.sort_unstable_by_key(|appointment| appointment.due);
        appointments.truncate(appointments::MAX_APPOINTMENTS);
        drop(appointments);
        self.announced.notify_one();
    }

    /// The time of the next appointment.
    pub fn appointment(&self) -> Option<Instant> {
        self.appointments.lock().first().map(|next| next.due)
    }

    /// Removes the appointments up to `then`: a run that has begun executes them.
    pub fn rely_on_runs_until(&self, then: Instant) {
        self.appointments
            .lock()
            .retain(|appointment| appointment.due > then);
    }

    /// Notified when appointments are announced.
    pub fn announced(&self) -> Arc<Notify> {
        Arc::clone(&self.announced)
    }

    /// Records that no more runs are started. Returns whether one was in progress, whose end will not be reported.
    pub fn stop_runs(&self) -> bool {
        let mut state = self.state.lock();
        state.next = None;
        std::mem::take(&mut state.is_running)
    }

    /// Records that a run begins.
    pub fn begins(&self) {
        let mut state = self.state.lock();
        state.is_running = true;
        state.next = None;
    }

    /// Records that a run has ended. Returns how it changed the state.
    pub fn ended(&self, last: LastRun) -> CronTransition {
        let mut state = self.state.lock();
        let failed_before = state.failures_in_a_row > 0;
        state.is_running = false;
        state.last = Some(last);
        let is_well = last.result.is_ok();
        if is_well {
            state.runs += 1;
            state.failures_in_a_row = 0;
        } else {
            state.failures += 1;
            state.failures_in_a_row = state.failures_in_a_row.saturating_add(1);
        }
        drop(state);
        self.is_relied_on.store(is_well, Ordering::Relaxed);
        match (failed_before, is_well) {
            (false, false) => CronTransition::Worse,
            (true, true) => CronTransition::Better,
            (true, false) | (false, true) => CronTransition::None,
        }
    }
}

fn distance(one: Instant, other: Instant) -> Duration {
    one.max(other).duration_since(one.min(other))
}

/// Appointments that differ by less than this are the same: WordPress counts in seconds, and responses take some time.
const SAME_WITHIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    /// The times until the appointments, in seconds.
    fn left(cron: &CronRuns) -> Vec<u64> {
        let (all, now) = (cron.appointments.lock(), Instant::now());
        all.iter().map(|one| (one.due - now).as_secs()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_replaces_appointments_that_were_announced_before_it_was_made() {
        let cron = CronRuns::default();
        cron.announce(&[s(20), s(500)], s(0));
        tokio::time::advance(s(1)).await;
        cron.announce(&[s(499)], s(0));
        assert_eq!(left(&cron), [499]);
        tokio::time::advance(s(1)).await;
        cron.announce(&[s(7), s(498)], s(0));
        tokio::time::advance(s(1)).await;
        // From a request that was sent before the last list was received, and from one that was sent after it.
        cron.announce(&[s(497)], s(2));
        assert_eq!(left(&cron), [6, 497]);
        tokio::time::advance(s(2)).await;
        cron.announce(&[s(495)], s(1));
        assert_eq!(left(&cron), [495]);
        cron.announce(&[], s(0));
        assert!(left(&cron).is_empty());
    }

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn last(result: Result<(), CronError>) -> LastRun {
        LastRun {
            began: SystemTime::UNIX_EPOCH,
            took: Duration::from_secs(1),
            result,
        }
    }

    #[test]
    fn only_a_change_is_a_transition_and_wordpress_relies_only_on_a_successful_run() {
        let cron = CronRuns::default();
        assert!(!cron.is_relied_on(), "before the first");
        let bad = Err(CronError::Upstream(FillError::Connect));
        let transitions = [Ok(()), bad, bad, Ok(()), Ok(())].map(|result| {
            cron.begins();
            assert!(cron.state().is_running && cron.state().next.is_none());
            let transition = cron.ended(last(result));
            assert_eq!(cron.is_relied_on(), result.is_ok());
            transition
        });
        assert_eq!(
            transitions,
            [
                CronTransition::None,
                CronTransition::Worse,
                CronTransition::None,
                CronTransition::Better,
                CronTransition::None
            ]
        );
        let state = cron.state();
        assert_eq!((state.runs, state.failures), (3, 2));
        assert_eq!(state.failures_in_a_row, 0);
    }
}
