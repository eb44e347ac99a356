//! Deadlines of a core's connections, coarse and cheap.
//!
//! A connection owns one timer and sets its deadline by writing a number: no system call, no queue, no allocation. Four
//! times a second the core checks all of them and wakes those that are overdue. This precision is sufficient for deadlines
//! of seconds.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use galley_policy::time::Tick;

/// All timers of one core.
#[derive(Default)]
pub struct Timers {
    all: RefCell<Vec<Rc<TimerState>>>,
    now: Cell<u64>,
}

struct TimerState {
    /// Milliseconds on the core's clock; [`NEVER`]: no deadline.
    deadline: Cell<u64>,
    late: Cell<bool>,
    /// What the connection waits for.
    waits: Cell<WaitKind>,
    /// When the connection began to wait for a request, in milliseconds as of a sweep.
    since: Cell<u64>,
    waker: RefCell<Option<Waker>>,
    index: Cell<usize>,
}

/// The timer of one connection. Dropping it removes it from the core's list.
pub struct Timer {
    state: Rc<TimerState>,
    timers: Rc<Timers>,
}

/// What a connection waits for. It determines whether the connection may be closed for others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum WaitKind {
    /// Something that belongs to a request, or nothing.
    #[default]
    Other,
    /// A request that may never arrive.
    Request,
    /// Streams of a connection that may be told to open no more.
    Streams,
    /// The rest of a request's head.
    Head,
}

/// The deadline passed before the awaited event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadlinePassed;

impl Timers {
    /// A timer for a new connection.
    pub fn register(self: &Rc<Self>) -> Timer {
        let mut all = self.all.borrow_mut();
        let state = Rc::new(TimerState {
            deadline: Cell::new(NEVER),
            late: Cell::new(false),
            waits: Cell::default(),
            since: Cell::new(self.now.get()),
            waker: RefCell::new(None),
            index: Cell::new(all.len()),
        });
        all.push(Rc::clone(&state));
        Timer {
            state,
            timers: Rc::clone(self),
        }
    }

    /// Wakes the connections that are overdue at `now`; must be called every [`SWEEP`].
    pub fn sweep(&self, now: Tick) {
        self.now.set(now.0);
        self.wake(|state| state.deadline.get() <= now.0);
    }

    /// Milliseconds on the core's clock, as of the last sweep.
    pub fn now_ms(&self) -> u64 {
        self.now.get()
    }

    /// Ends the wait of every connection without a request in progress.
    pub fn end_idle(&self) {
        self.wake(|state| matches!(state.waits.get(), WaitKind::Request | WaitKind::Streams));
    }

    /// Closes connections to free their slots for new ones: at most `most` without a request in progress, the longest waits
    /// first; if there are none, those that have not sent a complete head. Returns their number. A new connection is kept for
    /// [`GRACE_MS`], because its request may be in transit.
    pub fn close_idle(&self, most: usize) -> usize {
        match self.end_oldest(WaitKind::Request, most) {
            0 => self.end_oldest(WaitKind::Head, most),
            ended => ended,
        }
    }

    fn end_oldest(&self, waits: WaitKind, most: usize) -> usize {
        let all = self.all.borrow();
        let now = self.now.get();
        let waiting = all.iter().filter(|state| {
            let is_new = waits == WaitKind::Request && now < state.since.get() + GRACE_MS;
            state.waits.get() == waits && !state.late.get() && !is_new
        });
        // All have the same limit, so the earliest deadline is that of the longest wait.
        let mut found: Vec<(u64, usize)> = waiting
            .map(|state| (state.deadline.get(), state.index.get()))
            .collect();
        if found.len() > most {
            found.select_nth_unstable(most);
            found.truncate(most);
        }
        drop(all);
        let count = found.len();
        let mut indexes: Vec<usize> = found.into_iter().map(|(_, index)| index).collect();
        indexes.sort_unstable();
        self.wake(|state| indexes.binary_search(&state.index.get()).is_ok());
        count
    }

    fn wake(&self, is_due: impl Fn(&TimerState) -> bool) {
        let mut wakers = Vec::new();
        for state in self.all.borrow().iter().filter(|state| is_due(state)) {
            state.late.set(true);
            wakers.extend(state.waker.borrow_mut().take());
        }
        // Outside the borrow: a woken task may register or drop timers.
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Timer {
    /// Waits for `work`, at most for `limit` (give or take a sweep).
    pub async fn within<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = T>,
    ) -> Result<T, DeadlinePassed> {
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(NEVER);
        self.until(self.timers.now.get().saturating_add(limit_ms), work)
            .await
    }

    /// A deadline `limit` from now, for several waits under one limit.
    pub fn deadline(&self, limit: Duration) -> Deadline {
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(NEVER);
        Deadline(self.timers.now.get().saturating_add(limit_ms))
    }

    /// Waits for `work` until a deadline.
    pub async fn before<T>(
        &self,
        deadline: Deadline,
        work: impl Future<Output = T>,
    ) -> Result<T, DeadlinePassed> {
        self.until(deadline.0, work).await
    }

    /// As [`Timer::within`], for a wait that a drain or the limit of connections may end early.
    pub async fn idle_within<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = T>,
    ) -> Result<T, DeadlinePassed> {
        self.state.wait_for_request(self.timers.now.get());
        let result = self.within(limit, work).await;
        self.state.waits.set(WaitKind::Other);
        result
    }

    /// Begins a wait as [`Timer::idle_within`] does, for a connection that polls by itself with [`Timer::poll_late`].
    pub fn begin_idle(&self, limit: Duration) {
        self.state.wait_for_request(self.timers.now.get());
        self.state.late.set(false);
        self.state.deadline.set(self.deadline(limit).0);
    }

    /// Ends such a wait.
    pub fn end_idle(&self) {
        self.state.waits.set(WaitKind::Other);
        self.state.deadline.set(NEVER);
    }

    /// Sets or clears the deadline of a connection that polls by itself, without waiting. A drain makes the connection overdue, too, and
    /// so does the limit of connections if no request is in progress on it (`is_idle`).
    pub fn arm(&self, deadline: Option<Deadline>, is_idle: bool) {
        let deadline = deadline.map_or(NEVER, |at| at.0);
        // Another deadline: a request arrived and was answered since then.
        if self.state.deadline.replace(deadline) != deadline {
            self.state.waits.set(WaitKind::Other);
        }
        if is_idle {
            self.state.wait_for_request(self.timers.now.get());
        } else {
            self.state.waits.set(WaitKind::Streams);
        }
    }

    /// Ready once if the deadline has passed or the connection must end; otherwise the task is
    /// woken when that happens.
    pub fn poll_late(&self, cx: &Context<'_>) -> Poll<()> {
        if self.state.late.replace(false) {
            return Poll::Ready(());
        }
        let mut waker = self.state.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// As [`Timer::before`], for the rest of a head.
    pub async fn head_before<T>(
        &self,
        deadline: Deadline,
        work: impl Future<Output = T>,
    ) -> Result<T, DeadlinePassed> {
        self.state.waits.set(WaitKind::Head);
        let result = self.before(deadline, work).await;
        self.state.waits.set(WaitKind::Other);
        result
    }

    /// Whether a deadline has passed.
    pub fn is_past(&self, deadline: Deadline) -> bool {
        self.timers.now.get() >= deadline.0
    }

    async fn until<T>(
        &self,
        deadline: u64,
        work: impl Future<Output = T>,
    ) -> Result<T, DeadlinePassed> {
        let mut work = pin!(work);
        self.state.late.set(false);
        self.state.deadline.set(deadline);
        let result = poll_fn(|cx| {
            if let Poll::Ready(value) = work.as_mut().poll(cx) {
                return Poll::Ready(Ok(value));
            }
            if self.state.late.get() {
                return Poll::Ready(Err(DeadlinePassed));
            }
            let mut waker = self.state.waker.borrow_mut();
            if !waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
                *waker = Some(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
        self.state.deadline.set(NEVER);
        result
    }
}

impl TimerState {
    fn wait_for_request(&self, now: u64) {
        // A connection that polls by itself sets its kind each time.
        if self.waits.replace(WaitKind::Request) != WaitKind::Request {
            self.since.set(now);
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let mut all = self.timers.all.borrow_mut();
        let index = self.state.index.get();
        all.swap_remove(index);
        if let Some(moved) = all.get(index) {
            moved.index.set(index);
        }
    }
}

/// A time on the core's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(u64);

/// How often a core checks its timers.
pub const SWEEP: Duration = Duration::from_millis(250);

const NEVER: u64 = u64::MAX;

/// How long a silent connection is kept before it can be closed for others, in milliseconds: a client that has connected sends
/// its request within a round trip.
const GRACE_MS: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn late_work_is_ended_and_other_timers_stay() {
        let timers = Rc::new(Timers::default());
        let (first, second) = (timers.register(), timers.register());
        let sweep = async {
            tokio::task::yield_now().await;
            timers.sweep(Tick(1_001));
        };
        let (outcome, ()) = tokio::join!(
            first.within(Duration::from_secs(1), std::future::pending::<()>()),
            sweep
        );
        assert_eq!(outcome, Err(DeadlinePassed));
        drop(first);
        assert_eq!(timers.all.borrow().len(), 1);
        assert_eq!(
            second.within(Duration::from_secs(1), async { 5 }).await,
            Ok(5)
        );
        drop(second);
        assert_eq!(timers.all.borrow().len(), 0);
    }

    #[tokio::test]
    async fn a_drain_ends_idle_waits_only() {
        let timers = Rc::new(Timers::default());
        let (idle, busy) = (timers.register(), timers.register());
        let end = async {
            tokio::task::yield_now().await;
            timers.end_idle();
        };
        let work = async {
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            7
        };
        let (one, two, ()) = tokio::join!(
            idle.idle_within(Duration::from_secs(60), std::future::pending::<()>()),
            busy.within(Duration::from_secs(60), work),
            end
        );
        assert_eq!((one, two), (Err(DeadlinePassed), Ok(7)));
    }

    #[tokio::test]
    async fn who_waits_longest_for_a_request_gives_way_first() {
        let timers = Rc::new(Timers::default());
        let idle = |limit| {
            let timer = timers.register();
            async move {
                let wait =
                    timer.idle_within(Duration::from_secs(limit), std::future::pending::<()>());
                wait.await.is_err()
            }
        };
        let head = timers.register();
        let deadline = head.deadline(Duration::from_secs(5));
        let work = timers.register();
        let end = async {
            tokio::task::yield_now().await;
            let of_new = timers.end_oldest(WaitKind::Request, 9);
            assert_eq!(of_new, 0, "their requests may be on their way");
            timers.sweep(Tick(GRACE_MS));
            let first = timers.close_idle(2);
            // They are reported only once.
            (
                first,
                timers.close_idle(2),
                timers.close_idle(9),
                timers.close_idle(9),
            )
        };
        let (one, two, three, head, work, ended) = tokio::join!(
            idle(9),
            idle(7),
            idle(8),
            head.head_before(deadline, std::future::pending::<()>()),
            tokio::time::timeout(
                Duration::from_millis(50),
                work.within(Duration::from_secs(60), std::future::pending::<()>())
            ),
            end
        );
        assert_eq!(ended, (2, 1, 1, 0));
        assert!(one && two && three && head.is_err());
        assert!(work.is_err(), "what is being answered stays");
    }
}
