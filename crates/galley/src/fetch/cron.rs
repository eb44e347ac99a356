//! Runs of WordPress's scheduler: the exchange with the upstream, and what became of the runs of one site.
//!
//! A run has a pool of its own with one place, so that it neither waits behind visitors nor takes a place of theirs, and two
//! never run at once for a site. What it orders is obeyed as that of any answer, when its head comes and when it has ended.
//! PHP-FPM ends the answer before the work begins; the pool then waits until the worker is free (see `upstream::fcgi`).
//! When runs are due is decided in `app::cron`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use galley_cache::fill::FillError;
use galley_policy::time::Tick;
use galley_policy::{appointments, purge};
use http::{HeaderMap, StatusCode};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::{FetchCommand, FetchSite, FetchWorker, Handle, acknowledged, publish};
use crate::upstream::{self, IncomingResponse, UpstreamCall};

/// One run that is due.
pub struct CronOrder {
    /// Whose.
    pub site: Arc<FetchSite>,
    /// The pool that is for nothing else.
    pub pool: usize,
    /// The request for `wp-cron.php`.
    pub ask: UpstreamCall,
}

/// Why a run did not do what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CronTrouble {
    /// The root has no scheduler.
    #[error("there is no `/wp-cron.php` below the root")]
    Missing,
    /// The upstream gave no answer, or not all of it.
    #[error("{0}")]
    Upstream(FillError),
    /// It answered something that is no run.
    #[error("`/wp-cron.php` was answered with status {0}")]
    Status(StatusCode),
    /// The configuration's host makes no request; nothing that is read from a file comes to this.
    #[error("the site's host cannot be asked for")]
    Host,
}

/// What became of the runs of one site. Written by the task that makes them, read by the admin thread and by requests.
#[derive(Debug, Default)]
pub struct CronRuns {
    state: Mutex<CronState>,
    /// Read for each request to the upstream.
    is_relied_on: AtomicBool,
    /// When WordPress has something to do, soonest first.
    appointments: Mutex<Vec<Instant>>,
    /// That these are others.
    announced: Arc<Notify>,
}

/// The runs of a site up to now.
#[derive(Clone, Copy, Debug, Default)]
pub struct CronState {
    /// The latest run that has ended.
    pub last: Option<LastRun>,
    /// When the next is due; `None` where Galley makes none, or while one is under way.
    pub next: Option<Tick>,
    /// Whether one is under way.
    pub is_running: bool,
    /// Runs that went well since the start.
    pub runs: u64,
    /// Runs that did not.
    pub failures: u64,
    /// Of these, those since the last that went well.
    pub failures_in_a_row: u32,
}

/// A run that has ended.
#[derive(Clone, Copy, Debug)]
pub struct LastRun {
    /// When it began.
    pub began: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// How it went.
    pub result: Result<(), CronTrouble>,
}

/// What a run changed about the site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CronTransition {
    /// The first that failed.
    Worse,
    /// The first that went well after others failed.
    Better,
    /// Neither.
    None,
}

impl CronRuns {
    /// How things stand.
    pub fn state(&self) -> CronState {
        *self.lock()
    }

    /// Whether WordPress may leave its tasks to Galley: the latest run went well.
    pub fn is_relied_on(&self) -> bool {
        self.is_relied_on.load(Ordering::Relaxed)
    }

    /// Notes when the next run is due.
    pub fn due(&self, next: Tick) {
        self.lock().next = Some(next);
    }

    /// Notes the appointments that a response of the site's upstream announces. They replace those before.
    pub(super) fn read_appointments(&self, fields: &HeaderMap) {
        if let Some(left) = appointments::announced(fields) {
            self.announce(&left);
        }
    }

    /// Notes appointments, as times from now. They replace those before.
    pub fn announce(&self, left: &[Duration]) {
        let now = Instant::now();
        let new: Vec<Instant> = left.iter().map(|left| now + *left).collect();
        *self.lock_appointments() = new;
        self.announced.notify_one();
    }

    /// The next appointment.
    pub fn appointment(&self) -> Option<Instant> {
        self.lock_appointments().first().copied()
    }

    /// Notes that a run has begun which keeps the appointments up to `then`.
    pub fn kept_until(&self, then: Instant) {
        self.lock_appointments().retain(|due| *due > then);
    }

    /// Rings when appointments were announced.
    pub fn announced(&self) -> Arc<Notify> {
        Arc::clone(&self.announced)
    }

    /// Notes that a run begins.
    pub fn begins(&self) {
        let mut state = self.lock();
        state.is_running = true;
        state.next = None;
    }

    /// Notes that it has ended, and says whether that is news.
    pub fn ended(&self, last: LastRun) -> CronTransition {
        let mut state = self.lock();
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

    fn lock_appointments(&self) -> MutexGuard<'_, Vec<Instant>> {
        self.appointments
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, CronState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handle {
    /// Has the scheduler run and returns when that has ended. Dropping it gives the run up.
    pub async fn cron(&self, order: CronOrder) -> Result<(), CronTrouble> {
        let (reply, answer) = oneshot::channel();
        self.orders
            .try_send(FetchCommand::Cron(Box::new(order), reply))
            .map_err(|_| CronTrouble::Upstream(FillError::Overload))?;
        let gone = CronTrouble::Upstream(FillError::Aborted);
        answer.await.unwrap_or(Err(gone))
    }
}

impl FetchWorker {
    pub(super) async fn cron(
        &self,
        order: CronOrder,
        mut reply: oneshot::Sender<Result<(), CronTrouble>>,
    ) {
        let ended = tokio::select! {
            ended = tokio::time::timeout(LONGEST_RUN, self.run_scheduler(&order)) => ended,
            () = reply.closed() => return,
        };
        let late = CronTrouble::Upstream(FillError::Timeout);
        let _ = reply.send(ended.unwrap_or(Err(late)));
    }

    async fn run_scheduler(&self, order: &CronOrder) -> Result<(), CronTrouble> {
        let sent_up = async {
            let pool = self.pool(order.pool)?;
            let turn = upstream::QueueTurn::default();
            let place = pool.enter(order.ask.who(), &turn).await?;
            pool.send(place, &order.ask, &|| {}).await
        };
        let mut incoming = sent_up.await.map_err(CronTrouble::Upstream)?;
        order.site.cron.read_appointments(&incoming.fields);
        let orders = purge::from_answer(&incoming.fields, &order.site.rules);
        publish(&order.site, &orders).given(&order.site).await;
        let ended = read_to_end(&mut incoming).await;
        // Once more at the end: PHP may commit what it announced only then.
        publish(&order.site, &orders).given(&order.site).await;
        order.site.heard.note(acknowledged::names(&incoming.fields));
        ended.map_err(CronTrouble::Upstream)?;
        if incoming.status.is_success() {
            Ok(())
        } else {
            Err(CronTrouble::Status(incoming.status))
        }
    }
}

/// Nobody wants what it prints; the end is what is waited for.
async fn read_to_end(incoming: &mut IncomingResponse) -> Result<(), FillError> {
    while incoming.chunk().await?.is_some() {}
    if incoming.ended_well() {
        Ok(())
    } else {
        Err(FillError::Closed)
    }
}

/// A run that takes longer is not waited for any more. WordPress itself lets others begin after a minute.
pub const LONGEST_RUN: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    fn last(result: Result<(), CronTrouble>) -> LastRun {
        LastRun {
            began: SystemTime::UNIX_EPOCH,
            took: Duration::from_secs(1),
            result,
        }
    }

    #[test]
    fn only_a_change_is_news_and_only_a_good_run_is_relied_on() {
        let cron = CronRuns::default();
        assert!(!cron.is_relied_on(), "before the first");
        let bad = Err(CronTrouble::Upstream(FillError::Connect));
        let turns = [Ok(()), bad, bad, Ok(()), Ok(())].map(|result| {
            cron.begins();
            assert!(cron.state().is_running && cron.state().next.is_none());
            let turn = cron.ended(last(result));
            assert_eq!(cron.is_relied_on(), result.is_ok());
            turn
        });
        assert_eq!(
            turns,
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
