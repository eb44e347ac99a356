//! One run of one workload, as its connections see it: when the next request begins, and what came of it.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::{Duration, Instant},
};

use tokio::{sync::Mutex, task::yield_now, time::sleep};

use crate::{
    outcome::Outcome,
    requests::{Expected, Requests},
    response::Response,
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
pub(crate) type Source = Rc<RefCell<Box<dyn Requests>>>;

pub(crate) struct Run {
    source: Source,
    pub(crate) outcome: RefCell<Outcome>,
    began: Instant,
    end: Instant,
    /// Requests still to be begun.
    left: Cell<u64>,
    in_flight: Cell<u64>,
    last: Cell<Instant>,
    /// Between two requests that are due; `None` in a closed loop.
    interval: Option<Duration>,
    /// When the next request is due. Whoever holds it waits for that moment; the others wait in turn.
    due: Mutex<Instant>,
}

impl Run {
    pub(crate) fn new(source: Source, pace: Pace, began: Instant, end: Instant, left: u64) -> Self {
        let interval = match pace {
            Pace::Closed => None,
            Pace::Constant(rate) => Some(Duration::from_secs_f64(1.0 / rate.max(0.001))),
        };
        Self {
            source,
            outcome: RefCell::new(Outcome::new()),
            began,
            end,
            left: Cell::new(left),
            in_flight: Cell::new(0),
            last: Cell::new(began),
            interval,
            due: Mutex::new(began),
        }
    }

    /// Waits until the next request is to begin; its intended start, or `None` when the run is over.
    pub(crate) async fn begin(&self) -> Option<Instant> {
        let start = match self.interval {
            None if self.is_over(Instant::now()) => return None,
            None => Instant::now(),
            Some(interval) => {
                let mut due = self.due.lock().await;
                if *due >= self.end || self.is_over(Instant::now()) {
                    return None;
                }
                until(*due).await;
                let start = *due;
                *due += interval;
                start
            }
        };
        self.left.set(self.left.get() - 1);
        self.in_flight.set(self.in_flight.get() + 1);
        Some(start)
    }

    fn is_over(&self, now: Instant) -> bool {
        now >= self.end || self.left.get() == 0 || self.outcome.borrow().broken >= MOST_BROKEN
    }

    /// Writes the next request; `response` becomes room for what comes.
    pub(crate) fn request(&self, head: &mut Vec<u8>, response: &mut Response) -> Expected {
        head.clear();
        response.reset(self.outcome.borrow_mut().wants_body());
        self.source.borrow_mut().next(head)
    }

    /// A response is whole.
    pub(crate) fn done(&self, expected: Expected, response: &mut Response, start: Instant) {
        let now = Instant::now();
        self.last.set(now);
        self.in_flight.set(self.in_flight.get() - 1);
        let latency = now.saturating_duration_since(start);
        let mut outcome = self.outcome.borrow_mut();
        outcome.record(expected, response, latency);
    }

    /// A request got no response.
    pub(crate) fn broke(&self, what: &dyn std::fmt::Display) {
        self.in_flight.set(self.in_flight.get() - 1);
        self.outcome.borrow_mut().broke(|| what.to_string());
    }

    /// What was seen, once no connection works for the run any more.
    pub(crate) fn finish(&self) -> Outcome {
        let mut outcome = self.outcome.replace(Outcome::new());
        outcome.elapsed = self.last.get().saturating_duration_since(self.began);
        for _ in 0..self.in_flight.get() {
            outcome.broke(|| "no response in time".to_owned());
        }
        let due = self.due.try_lock().map(|due| *due);
        if let (Some(interval), Ok(mut due)) = (self.interval, due) {
            while due < self.end && outcome.unsent < self.left.get() {
                outcome.unsent += 1;
                outcome.record_latency(self.end - due);
                due += interval;
            }
        }
        outcome
    }
}

/// Sleeps while the moment is far, then turns without sleep: timers are precise to a millisecond or two only.
async fn until(moment: Instant) {
    loop {
        let left = moment.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        match left.checked_sub(TURNS) {
            Some(far) => sleep(far).await,
            None => yield_now().await,
        }
    }
}

const TURNS: Duration = Duration::from_millis(3);
/// Connections that may break in one run before it is given up.
const MOST_BROKEN: u64 = 1000;
