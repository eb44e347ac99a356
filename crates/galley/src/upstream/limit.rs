//! The limit on exchanges at once, and the queue in front of it.
//!
//! A request that finds a place free and nobody waiting goes in; the others wait in a [`Queue`](super::queue) that says who is
//! next, for as long as [`Patience`](super::patience) lets them, while [`Adaptive`](super::adaptive) says how many places there
//! are. One compositor thread owns all of it, for all cores. A place is given back when its [`Place`] is dropped, wherever
//! that happens; a place that was given to somebody who has just left goes to the next.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use galley_store::fill::Failure;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::PoolSpec;
use super::adaptive::Adaptive;
use super::gauge::Gauge;
use super::patience::{Look, Patience};
use super::queue::{Joined, Queue, Ticket, Who};

/// A number of places and a bounded line in front of them.
pub(super) struct Limit(Rc<Shared>);

struct Shared {
    state: RefCell<State>,
    spec: PoolSpec,
    gauge: Arc<Gauge>,
}

struct State {
    taken: usize,
    queue: Queue<Waker>,
    patience: Patience,
    adaptive: Adaptive,
}

/// The way to tell somebody who waits.
#[derive(Debug)]
struct Waker {
    joined: Instant,
    verdict: oneshot::Sender<Verdict>,
}

#[derive(Debug)]
enum Verdict {
    /// A place is taken in its name.
    Come,
    /// It had to give way.
    Leave,
}

/// A request on its way to a place; others may find it here and hurry it on.
#[derive(Default)]
pub struct Turn(Cell<Option<Ticket>>);

/// One place; dropping it lets the next in.
pub struct Place {
    limit: Rc<Shared>,
    asked: Cell<Option<Instant>>,
}

impl Limit {
    pub(super) fn new(spec: &PoolSpec, gauge: &Arc<Gauge>) -> Self {
        Self(Rc::new(Shared {
            state: RefCell::new(State {
                taken: 0,
                queue: Queue::new(spec.queue),
                patience: Patience::new(spec.queue_timeout),
                adaptive: Adaptive::new(spec.most()),
            }),
            spec: spec.clone(),
            gauge: Arc::clone(gauge),
        }))
    }

    /// Waits for a place. Cancel-safe: who leaves holds nothing and stands nowhere.
    pub(super) async fn enter(&self, who: Who, turn: &Turn) -> Result<Place, Failure> {
        if self.0.take_free() {
            self.0.gauge.let_in(who.class);
            return Ok(self.0.place());
        }
        let (verdict, mut told) = oneshot::channel();
        let ticket = self.0.join(who, verdict)?;
        turn.0.set(Some(ticket));
        let mut waiting = Waiting {
            limit: &self.0,
            ticket,
            told: &mut told,
            is_over: false,
        };
        let joined = Instant::now();
        let mut look = self.0.look(ticket, joined);
        let verdict = loop {
            let Look::Again(at) = look else {
                break Verdict::Leave;
            };
            match timeout_at(at, &mut *waiting.told).await {
                Ok(Ok(verdict)) => break verdict,
                Ok(Err(_closed)) => break Verdict::Leave,
                Err(_elapsed) => look = self.0.look(ticket, joined),
            }
        };
        turn.0.set(None);
        match verdict {
            Verdict::Come => {
                waiting.is_over = true;
                Ok(self.0.place())
            }
            Verdict::Leave => {
                drop(waiting);
                self.0.turn_away(who);
                Err(Failure::Overload)
            }
        }
    }

    /// Somebody else wants what this request is for: it waits in his name, if that is sooner.
    pub(super) fn hurry(&self, turn: &Turn, who: Who) {
        if let Some(ticket) = turn.0.get()
            && self.0.state.borrow_mut().queue.promote(ticket, who)
        {
            self.0.gauge.hurried();
        }
    }

    /// Places taken, requests waiting, places that there are.
    pub(super) fn load(&self) -> (usize, usize, usize) {
        let state = self.0.state.borrow();
        (state.taken, state.queue.len(), state.adaptive.limit())
    }

    /// Begins small after an outage.
    pub(super) fn restart(&self) {
        let mut state = self.0.state.borrow_mut();
        state.adaptive.restart();
        self.0.tell(&state);
    }
}

impl Shared {
    /// Takes a place, where one is free and nobody waits for it.
    fn take_free(&self) -> bool {
        let mut state = self.state.borrow_mut();
        state.adaptive.allow(self.spec.most());
        let is_free = state.queue.len() == 0 && state.taken < state.adaptive.limit();
        if is_free {
            state.taken += 1;
            self.tell(&state);
        }
        is_free
    }

    fn place(self: &Rc<Self>) -> Place {
        Place {
            limit: Rc::clone(self),
            asked: Cell::new(None),
        }
    }

    fn join(&self, who: Who, verdict: oneshot::Sender<Verdict>) -> Result<Ticket, Failure> {
        let joined = Instant::now();
        let mut state = self.state.borrow_mut();
        let came = if state.patience.longest().is_zero() {
            Joined::Refused
        } else {
            state.queue.join(who, Waker { joined, verdict })
        };
        self.tell(&state);
        drop(state);
        match came {
            Joined::Waits(ticket) => Ok(ticket),
            Joined::InPlaceOf(ticket, evicted) => {
                // Who has just left by itself is told nothing.
                let _ = evicted.verdict.send(Verdict::Leave);
                Ok(ticket)
            }
            Joined::Refused => {
                self.turn_away(who);
                Err(Failure::Overload)
            }
        }
    }

    /// Gives free places to those who wait.
    fn let_in(&self) {
        loop {
            let mut state = self.state.borrow_mut();
            state.adaptive.allow(self.spec.most());
            if state.taken >= state.adaptive.limit() {
                return self.tell(&state);
            }
            let Some((_, who, waker)) = state.queue.pop() else {
                return self.tell(&state);
            };
            let now = Instant::now();
            let more_wait = state.queue.len_of(who.class) > 0;
            state
                .patience
                .let_in(who.class, now - waker.joined, more_wait, now);
            state.taken += 1;
            drop(state);
            self.gauge.let_in(who.class);
            if waker.verdict.send(Verdict::Come).is_err() {
                self.state.borrow_mut().taken -= 1;
            }
        }
    }

    fn look(&self, ticket: Ticket, joined: Instant) -> Look {
        // More places may be allowed since somebody last looked.
        self.let_in();
        let mut state = self.state.borrow_mut();
        let now = Instant::now();
        let Some(class) = state.queue.class_of(ticket) else {
            // It was told something this moment.
            return Look::Again(now);
        };
        let is_needed = state.queue.len() <= state.adaptive.limit();
        state.patience.look(class, joined, is_needed, now)
    }

    fn turn_away(&self, who: Who) {
        self.gauge.turned_away(who.class);
        let state = self.state.borrow();
        let waiting = state.queue.len() + 1;
        let longest_s = state.patience.longest().as_secs_f64();
        let waits_s = state.adaptive.answers_per_s().map_or(longest_s, |rate| {
            f64::from(u32::try_from(waiting).unwrap_or(u32::MAX)) / rate.max(f64::MIN_POSITIVE)
        });
        self.gauge.set_retry_after(waits_s);
    }

    fn give_back(&self) {
        self.state.borrow_mut().taken -= 1;
        self.let_in();
    }

    fn tell(&self, state: &State) {
        self.gauge.set_requests(state.taken, state.queue.len());
        let limit = state.adaptive.limit();
        self.gauge.set_places(limit, self.spec.most());
    }
}

impl Place {
    /// Notes that the request is being sent.
    pub(super) fn asks(&self) {
        self.asked.set(Some(Instant::now()));
    }

    /// Notes that the answer's head has come, or that it was waited for in vain.
    pub(super) fn is_answered(&self) {
        let Some(asked) = self.asked.take() else {
            return;
        };
        let now = Instant::now();
        let mut state = self.limit.state.borrow_mut();
        let is_full = state.taken >= state.adaptive.limit();
        state.adaptive.answered(now - asked, is_full, now);
        drop(state);
        self.limit.let_in();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.limit.give_back();
    }
}

/// Somebody in the queue; leaves it when dropped, with the place that it was given at the same moment.
struct Waiting<'l> {
    limit: &'l Shared,
    ticket: Ticket,
    told: &'l mut oneshot::Receiver<Verdict>,
    is_over: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let left = self.limit.state.borrow_mut().queue.leave(self.ticket);
        if left.is_none() && matches!(self.told.try_recv(), Ok(Verdict::Come)) {
            self.limit.give_back();
            return;
        }
        let state = self.limit.state.borrow();
        self.limit.tell(&state);
    }
}

#[cfg(test)]
pub(super) mod tests;
