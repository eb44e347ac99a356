//! One run of one workload: when each connection sends its next request, and the results.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Instant,
};

use crate::{
    LoadError,
    outcome::LoadOutcome,
    requests::{Requests, ResponseCheck},
    response::ReceivedResponse,
    schedule::{Pace, RateSchedule},
    slices::RequestResult,
};

/// A source of requests that a workload keeps between runs.
pub(crate) type RequestSource = Rc<RefCell<Box<dyn Requests>>>;

/// When a run starts and ends, and after how many requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunBounds {
    pub(crate) began: Instant,
    pub(crate) end: Instant,
    /// The maximum number of requests; `None`: only the time ends the run.
    pub(crate) requests: Option<u64>,
    /// Whether the run is watched: the outcome has slices, and a run that ends early reports its results.
    pub(crate) is_watched: bool,
}

pub(crate) struct Run {
    source: RequestSource,
    pub(crate) outcome: RefCell<LoadOutcome>,
    bounds: RunBounds,
    /// The number of requests that are left to send.
    left: Cell<u64>,
    /// The intended start of the request in progress, for each worker.
    in_progress: RefCell<Vec<Option<Instant>>>,
    last: Cell<Instant>,
    /// When the run was stopped.
    stopped: Cell<Option<Instant>>,
    /// `None` in a closed loop.
    schedule: Option<RateSchedule>,
}

/// One sequence of requests: a connection, or a stream of it over HTTP/2.
pub(crate) struct LoadWorker {
    run: Rc<Run>,
    index: usize,
}

impl Run {
    /// Creates a run. Call within the runtime.
    pub(crate) fn new(
        source: RequestSource,
        pace: Pace,
        bounds: RunBounds,
    ) -> Result<Self, LoadError> {
        let schedule = RateSchedule::new(pace)?;
        Ok(Self {
            source,
            outcome: RefCell::new(LoadOutcome::new(bounds.is_watched)),
            bounds,
            left: Cell::new(bounds.requests.unwrap_or(u64::MAX)),
            in_progress: RefCell::default(),
            last: Cell::new(bounds.began),
            stopped: Cell::new(None),
            schedule,
        })
    }

    pub(crate) fn worker(self: &Rc<Self>) -> LoadWorker {
        let mut in_progress = self.in_progress.borrow_mut();
        in_progress.push(None);
        LoadWorker {
            run: Rc::clone(self),
            index: in_progress.len() - 1,
        }
    }

    /// Waits until the start of the next request. Returns its intended start and the result of `prepare`, or `None` at the end
    /// of the run. In an open loop `prepare` runs before the wait, so that the request is sent immediately at its start.
    async fn next_start<T>(&self, prepare: impl FnOnce() -> T) -> Option<(Instant, T)> {
        let Some(schedule) = &self.schedule else {
            let now = Instant::now();
            return (!self.is_over(now)).then(|| (now, prepare()));
        };
        let mut next = schedule.next.lock().await;
        let start = self.start(schedule, *next)?;
        if start >= self.bounds.end || self.is_over(Instant::now()) {
            return None;
        }
        let prepared = prepare();
        if schedule.timer.until(start).await.is_err() {
            tokio::time::sleep_until(start.into()).await;
        }
        // Another worker may have ended the run during the wait.
        if self.is_over(start) {
            return None;
        }
        *next += 1;
        Some((start, prepared))
    }

    fn start(&self, schedule: &RateSchedule, number: u64) -> Option<Instant> {
        let recorded = |number| self.source.borrow().due(number);
        schedule.start(self.bounds.began, number, recorded)
    }

    /// Ends the run early. Requests in progress are not counted.
    pub(crate) fn stop(&self) {
        self.stopped.set(Some(Instant::now()));
    }

    fn is_over(&self, now: Instant) -> bool {
        now >= self.bounds.end
            || self.left.get() == 0
            || self.has_given_up()
            || self.stopped.get().is_some()
    }

    fn has_given_up(&self) -> bool {
        let outcome = self.outcome.borrow();
        // A watched run continues after failures, as long as there are more responses than failures.
        outcome.broken >= MAX_BROKEN
            && (!self.bounds.is_watched || outcome.broken > outcome.responses)
    }

    /// Returns the outcome, after all connections have finished.
    ///
    /// # Errors
    ///
    /// [`LoadError::TooManyBroken`]; [`LoadError::Unfinished`] if a run that is limited by the number of requests has not
    /// completed them.
    pub(crate) fn finish(&self) -> Result<LoadOutcome, LoadError> {
        let mut outcome = self.outcome.replace(LoadOutcome::new(false));
        let is_watched = self.bounds.is_watched;
        if outcome.broken >= MAX_BROKEN && !is_watched {
            return Err(LoadError::TooManyBroken {
                count: outcome.broken,
                first: outcome.first_error.unwrap_or_default(),
            });
        }
        let gave_up =
            is_watched && outcome.broken >= MAX_BROKEN && outcome.broken > outcome.responses;
        outcome.is_stopped = self.stopped.get().is_some() || gave_up;
        let now = Instant::now();
        let in_progress = self.in_progress.borrow();
        let unanswered = in_progress.iter().flatten();
        if outcome.is_stopped {
            self.count_unsent(&mut outcome, self.stopped.get().unwrap_or(now));
        } else if self.bounds.requests.is_some() && !is_watched {
            let missing = self.left.get() + unanswered.count() as u64;
            if missing > 0 {
                return Err(LoadError::Unfinished { missing });
            }
        } else {
            for start in unanswered {
                outcome.record_unanswered(now.saturating_duration_since(*start));
                self.slice(
                    &mut outcome,
                    *start,
                    RequestResult::without_response(now.saturating_duration_since(*start)),
                );
            }
            if self.bounds.requests.is_none() {
                self.count_unsent(&mut outcome, self.bounds.end);
            }
        }
        outcome.elapsed = self.last.get().saturating_duration_since(self.bounds.began);
        Ok(outcome)
    }

    /// Counts the requests whose intended start was before `end` and that were never sent.
    fn count_unsent(&self, outcome: &mut LoadOutcome, end: Instant) {
        let Some(schedule) = &self.schedule else {
            return;
        };
        let Ok(next) = schedule.next.try_lock() else {
            return;
        };
        let end = end.min(self.bounds.end);
        for number in *next.. {
            let start = self.start(schedule, number).filter(|start| *start < end);
            let Some(start) = start else {
                return;
            };
            outcome.record_unsent(end - start);
            self.slice(outcome, start, RequestResult::without_response(end - start));
        }
    }

    fn slice(&self, outcome: &mut LoadOutcome, start: Instant, ended: RequestResult) {
        let due = start.saturating_duration_since(self.bounds.began);
        outcome.record_slice(due, ended);
    }
}

impl LoadWorker {
    /// Waits until the start of the next request, and writes its head to `head`; `response` is reset for its response. `None`
    /// at the end of the run.
    pub(crate) async fn begin(
        &self,
        head: &mut Vec<u8>,
        response: &mut ReceivedResponse,
    ) -> Option<ResponseCheck> {
        let prepare = || self.request(head, response);
        let (start, expected) = self.run.next_start(prepare).await?;
        self.run.left.set(self.run.left.get() - 1);
        self.set_start(Some(start));
        Some(expected)
    }

    fn request(&self, head: &mut Vec<u8>, response: &mut ReceivedResponse) -> ResponseCheck {
        head.clear();
        response.reset(self.run.outcome.borrow_mut().wants_body());
        let expected = self.run.source.borrow_mut().next(head);
        response.belongs_to(head);
        expected
    }

    /// Records a complete response.
    pub(crate) fn done(&self, expected: ResponseCheck, response: &mut ReceivedResponse) {
        let now = Instant::now();
        self.run.last.set(now);
        let start = self.set_start(None).unwrap_or(now);
        let latency = now.saturating_duration_since(start);
        let mut outcome = self.run.outcome.borrow_mut();
        outcome.record(expected, response, latency);
        let ended = RequestResult {
            latency,
            status: response.status,
            is_failure: !expected.status.permits(response.status),
        };
        self.run.slice(&mut outcome, start, ended);
    }

    /// Records a connection that failed before the response was complete.
    pub(crate) fn failed(&self, what: &dyn std::fmt::Display) {
        let now = Instant::now();
        let start = self.set_start(None).unwrap_or(now);
        let elapsed = now.saturating_duration_since(start);
        let mut outcome = self.run.outcome.borrow_mut();
        outcome.record_broken(elapsed, || what.to_string());
        self.run.slice(
            &mut outcome,
            start,
            RequestResult::without_response(elapsed),
        );
    }

    /// Counts a connection that replaced one that the server had closed gracefully.
    pub(crate) fn reconnected(&self) {
        self.run.outcome.borrow_mut().reconnects += 1;
    }

    fn set_start(&self, start: Option<Instant>) -> Option<Instant> {
        let mut all = self.run.in_progress.borrow_mut();
        let current = all.get_mut(self.index)?;
        std::mem::replace(current, start)
    }
}

/// The number of requests without a response after which a run is aborted.
const MAX_BROKEN: u64 = 1000;
