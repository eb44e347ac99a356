//! One run of one workload, as its connections see it: when the next request begins, and what came of it.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::{Duration, Instant},
};

use tokio::sync::Mutex;

use crate::{
    LoadError,
    outcome::LoadOutcome,
    requests::{Expected, Requests},
    response::ReceivedResponse,
    timer::StartTimer,
};

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Closed loop: each connection sends the next request when it has its response.
    Closed,
    /// Open loop: so many requests per second, whether or not responses come. A request that finds all connections busy is
    /// sent late, and its latency counts from when it was due.
    Constant(f64),
}

/// A source that a workload keeps from run to run.
pub(crate) type RequestSource = Rc<RefCell<Box<dyn Requests>>>;

/// When a run begins and ends, and after how many requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) began: Instant,
    pub(crate) end: Instant,
    /// `None`: only the time ends it.
    pub(crate) requests: Option<u64>,
}

pub(crate) struct Run {
    source: RequestSource,
    pub(crate) outcome: RefCell<LoadOutcome>,
    bounds: Bounds,
    /// Requests still to be begun.
    left: Cell<u64>,
    /// Intended start of the request in progress, for each worker.
    in_progress: RefCell<Vec<Option<Instant>>>,
    last: Cell<Instant>,
    /// `None` in a closed loop.
    schedule: Option<RateSchedule>,
}

/// Intended starts at a constant rate.
struct RateSchedule {
    rate: f64,
    timer: StartTimer,
    /// Number of the next request, from 0. The worker that holds the lock waits for its start; the others queue.
    next: Mutex<u64>,
}

/// One sequence of requests: a connection, or a stream of it over HTTP/2.
pub(crate) struct LoadWorker {
    run: Rc<Run>,
    index: usize,
}

impl Run {
    /// Call within the runtime.
    pub(crate) fn new(
        source: RequestSource,
        pace: Pace,
        bounds: Bounds,
    ) -> Result<Self, LoadError> {
        let schedule = match pace {
            Pace::Closed => None,
            Pace::Constant(rate) => Some(RateSchedule::new(rate)?),
        };
        Ok(Self {
            source,
            outcome: RefCell::new(LoadOutcome::new()),
            bounds,
            left: Cell::new(bounds.requests.unwrap_or(u64::MAX)),
            in_progress: RefCell::default(),
            last: Cell::new(bounds.began),
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

    /// Waits until the next request is to begin; its intended start, or `None` when the run is over.
    async fn next_start(&self) -> Option<Instant> {
        let Some(schedule) = &self.schedule else {
            let now = Instant::now();
            return (!self.is_over(now)).then_some(now);
        };
        let mut next = schedule.next.lock().await;
        let start = schedule.start(self.bounds.began, *next);
        if start >= self.bounds.end || self.is_over(Instant::now()) {
            return None;
        }
        if schedule.timer.until(start).await.is_err() {
            tokio::time::sleep_until(start.into()).await;
        }
        // Another worker may have ended the run meanwhile.
        if self.is_over(start) {
            return None;
        }
        *next += 1;
        Some(start)
    }

    fn is_over(&self, now: Instant) -> bool {
        now >= self.bounds.end || self.left.get() == 0 || self.has_given_up()
    }

    fn has_given_up(&self) -> bool {
        self.outcome.borrow().broken >= MAX_BROKEN
    }

    /// What was seen, once no connection works for the run any more.
    ///
    /// # Errors
    /// [`LoadError::TooManyBroken`]; [`LoadError::Unfinished`] when requests of a run that is to make a number of them are missing.
    pub(crate) fn finish(&self) -> Result<LoadOutcome, LoadError> {
        let mut outcome = self.outcome.replace(LoadOutcome::new());
        if outcome.broken >= MAX_BROKEN {
            return Err(LoadError::TooManyBroken {
                count: outcome.broken,
                first: outcome.first_error.unwrap_or_default(),
            });
        }
        let now = Instant::now();
        let in_progress = self.in_progress.borrow();
        let unanswered = in_progress.iter().flatten();
        if self.bounds.requests.is_some() {
            let missing = self.left.get() + unanswered.count() as u64;
            if missing > 0 {
                return Err(LoadError::Unfinished { missing });
            }
        } else {
            for start in unanswered {
                outcome.record_unanswered(now.saturating_duration_since(*start));
            }
            self.count_unsent(&mut outcome);
        }
        outcome.elapsed = self.last.get().saturating_duration_since(self.bounds.began);
        Ok(outcome)
    }

    fn count_unsent(&self, outcome: &mut LoadOutcome) {
        let Some(schedule) = &self.schedule else {
            return;
        };
        let Ok(next) = schedule.next.try_lock() else {
            return;
        };
        for number in *next.. {
            let start = schedule.start(self.bounds.began, number);
            if start >= self.bounds.end {
                return;
            }
            outcome.record_unsent(self.bounds.end - start);
        }
    }
}

impl RateSchedule {
    fn new(rate: f64) -> Result<Self, LoadError> {
        if !(rate > 0.0 && rate <= MAX_RATE) {
            return Err(LoadError::Rate(rate));
        }
        Ok(Self {
            rate,
            timer: StartTimer::new()?,
            next: Mutex::new(0),
        })
    }

    /// The intended start of a request. Computed from its number, so that rounding does not add up.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn start(&self, began: Instant, number: u64) -> Instant {
        let after = Duration::try_from_secs_f64(number as f64 / self.rate);
        let start = after.ok().and_then(|after| began.checked_add(after));
        start.unwrap_or_else(|| began + FAR)
    }
}

impl LoadWorker {
    /// Waits until the next request is to begin; false when the run is over.
    pub(crate) async fn begin(&self) -> bool {
        let start = self.run.next_start().await;
        if start.is_some() {
            self.run.left.set(self.run.left.get() - 1);
        }
        self.set_start(start);
        start.is_some()
    }

    /// Writes the next request; `response` becomes room for what comes.
    pub(crate) fn request(&self, head: &mut Vec<u8>, response: &mut ReceivedResponse) -> Expected {
        head.clear();
        response.reset(self.run.outcome.borrow_mut().wants_body());
        self.run.source.borrow_mut().next(head)
    }

    /// The response is complete.
    pub(crate) fn done(&self, expected: Expected, response: &mut ReceivedResponse) {
        let now = Instant::now();
        self.run.last.set(now);
        let latency = self.elapsed(now);
        let mut outcome = self.run.outcome.borrow_mut();
        outcome.record(expected, response, latency);
    }

    /// The connection failed before the response was complete.
    pub(crate) fn failed(&self, what: &dyn std::fmt::Display) {
        let elapsed = self.elapsed(Instant::now());
        let mut outcome = self.run.outcome.borrow_mut();
        outcome.record_broken(elapsed, || what.to_string());
    }

    /// A connection was opened instead of one that the server had closed in order.
    pub(crate) fn reconnected(&self) {
        self.run.outcome.borrow_mut().reconnects += 1;
    }

    /// The time since the intended start of the request, which has ended.
    fn elapsed(&self, now: Instant) -> Duration {
        let start = self.set_start(None);
        start.map_or(Duration::ZERO, |start| now.saturating_duration_since(start))
    }

    fn set_start(&self, start: Option<Instant>) -> Option<Instant> {
        let mut all = self.run.in_progress.borrow_mut();
        let current = all.get_mut(self.index)?;
        std::mem::replace(current, start)
    }
}

/// Requests without a response after which a run is given up.
const MAX_BROKEN: u64 = 1000;
/// Requests per second; no single thread sends as many.
const MAX_RATE: f64 = 1_000_000.0;
/// Later than the end of any run.
const FAR: Duration = Duration::from_secs(1 << 32);
