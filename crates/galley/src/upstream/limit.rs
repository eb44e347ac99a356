//! The limit on exchanges at once, and the queue in front of it.
//!
//! A request that finds a place free and nobody waiting goes in; the others wait in a [`AdmissionQueue`](super::queue) that says who is
//! next, for as long as [`QueueDeadlines`](super::queue_deadline) lets them, while [`Adaptive`](super::adaptive) says how many places there
//! are and [`Holders`](super::admission) who may have one. One fetch thread thread owns all of it, for all cores. A place is given back when its [`Slot`] is dropped, wherever
//! that happens; a place that was given to somebody who has just left goes to the next.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use galley_cache::fill::FillError;
use galley_policy::class::Class;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::PoolSpec;
use super::adaptive::Adaptive;
use super::admission::{AdmissionContext, Holders, May, Processors, processors};
use super::queue::{AdmissionQueue, Joined, QueueIdentity, QueueTicket};
use super::queue_deadline::{QueueDeadlines, WaitDecision};
use super::stats::UpstreamStats;
use crate::sys;

/// A number of places and a bounded line in front of them.
pub(super) struct ConcurrencyLimit(Rc<LimitShared>);

struct LimitShared {
    state: RefCell<LimitState>,
    spec: PoolSpec,
    stats: Arc<UpstreamStats>,
    /// Somebody who waits looks now and then whether processors are free for those who are held back.
    is_watched: Cell<bool>,
}

struct LimitState {
    holders: Holders,
    /// A place was free at the last look, and was left to others.
    is_held_back: bool,
    queue: AdmissionQueue<Waker>,
    /// Who wanted to stand in the queue last.
    newest: Option<QueueIdentity>,
    deadlines: QueueDeadlines,
    adaptive: Adaptive,
}

/// The way to tell somebody who waits.
#[derive(Debug)]
struct Waker {
    joined: Instant,
    verdict: oneshot::Sender<SlotDecision>,
}

#[derive(Debug)]
enum SlotDecision {
    /// A place is taken in this name: its own, or that of somebody who wanted the same.
    Come(QueueIdentity),
    /// It had to give way.
    Leave,
}

/// A request on its way to a place; others may find it here and hurry it on.
#[derive(Default)]
pub struct QueueTurn(Cell<Option<QueueTicket>>);

/// One place; dropping it lets the next in.
pub struct Slot {
    limit: Rc<LimitShared>,
    who: QueueIdentity,
    signaled_at: Cell<Option<Instant>>,
}

impl ConcurrencyLimit {
    pub(super) fn new(spec: &PoolSpec, gauge: &Arc<UpstreamStats>) -> Self {
        Self(Rc::new(LimitShared {
            state: RefCell::new(LimitState {
                holders: Holders::default(),
                is_held_back: false,
                queue: AdmissionQueue::new(spec.queue),
                newest: None,
                deadlines: QueueDeadlines::new(spec.queue_timeout),
                adaptive: Adaptive::new(spec.most()),
            }),
            spec: spec.clone(),
            stats: Arc::clone(gauge),
            is_watched: Cell::new(false),
        }))
    }

    /// Waits for a place. Cancel-safe: who leaves holds nothing and stands nowhere.
    pub(super) async fn enter(
        &self,
        who: QueueIdentity,
        turn: &QueueTurn,
    ) -> Result<Slot, FillError> {
        if self.0.take_free(who) {
            self.0.stats.let_in(who.class);
            return Ok(self.0.slot(who));
        }
        let (verdict, mut told) = oneshot::channel();
        let ticket = self.0.join(who, verdict)?;
        turn.0.set(Some(ticket));
        let mut waiting = QueuedRequest {
            limit: &self.0,
            ticket,
            decision: &mut told,
            is_over: false,
        };
        let joined = Instant::now();
        let mut look = self.0.look(ticket, joined);
        let verdict = loop {
            let WaitDecision::Again(at) = look else {
                break SlotDecision::Leave;
            };
            let watch = self.0.watch();
            let next = watch.as_ref().map_or(at, |watch| at.min(watch.until));
            match timeout_at(next, &mut *waiting.decision).await {
                Ok(Ok(verdict)) => break verdict,
                Ok(Err(_closed)) => break SlotDecision::Leave,
                Err(_elapsed) if next < at => self.0.let_in(sys::running_processes),
                Err(_elapsed) => look = self.0.look(ticket, joined),
            }
        };
        turn.0.set(None);
        match verdict {
            SlotDecision::Come(who) => {
                waiting.is_over = true;
                Ok(self.0.slot(who))
            }
            SlotDecision::Leave => {
                drop(waiting);
                self.0.turn_away(who);
                Err(FillError::Overload)
            }
        }
    }

    /// Somebody else wants what this request is for: it waits in his name, if that is sooner.
    pub(super) fn promote(&self, turn: &QueueTurn, who: QueueIdentity) {
        let mut state = self.0.state.borrow_mut();
        if let Some(ticket) = turn.0.get()
            && state.queue.promote(ticket, who)
        {
            self.0.stats.hurried();
            self.0.publish(&state);
        }
    }

    /// Places taken, requests waiting, places that there are.
    pub(super) fn load(&self) -> (usize, usize, usize) {
        let state = self.0.state.borrow();
        (
            state.holders.all(),
            state.queue.len(),
            state.adaptive.limit(),
        )
    }

    /// Begins small after an outage.
    pub(super) fn restart(&self) {
        let mut state = self.0.state.borrow_mut();
        state.adaptive.restart();
        self.0.publish(&state);
    }
}

impl LimitShared {
    /// Takes a place, where one is free and nobody waits for it.
    fn take_free(&self, who: QueueIdentity) -> bool {
        let mut state = self.state.borrow_mut();
        state.adaptive.allow(self.spec.most());
        let limit = state.adaptive.limit();
        let now = Instant::now();
        let at_once = AdmissionContext {
            now,
            waited: Duration::ZERO,
            free: Processors::Busy,
        };
        let may = state.holders.may(who, limit, &at_once);
        let is_free = state.queue.len() == 0 && may == May::Enter;
        if is_free {
            state.holders.take(who, now);
            self.publish(&state);
        }
        is_free
    }

    fn slot(self: &Rc<Self>, who: QueueIdentity) -> Slot {
        Slot {
            limit: Rc::clone(self),
            who,
            signaled_at: Cell::new(None),
        }
    }

    fn join(
        &self,
        who: QueueIdentity,
        verdict: oneshot::Sender<SlotDecision>,
    ) -> Result<QueueTicket, FillError> {
        let joined = Instant::now();
        let mut state = self.state.borrow_mut();
        let came = if state.deadlines.longest().is_zero() {
            Joined::Refused
        } else {
            state.newest = Some(who);
            state.queue.join(who, Waker { joined, verdict })
        };
        self.publish(&state);
        drop(state);
        match came {
            Joined::Waits(ticket) => Ok(ticket),
            Joined::InPlaceOf(ticket, evicted) => {
                // Who has just left by itself is told nothing.
                let _ = evicted.verdict.send(SlotDecision::Leave);
                Ok(ticket)
            }
            Joined::Refused => {
                self.turn_away(who);
                Err(FillError::Overload)
            }
        }
    }

    /// Gives free places to those who wait. `running`: what says how many processes run, asked where somebody is held back.
    fn let_in(&self, running: impl Fn() -> Option<(usize, usize)>) {
        let mut free = Processors::Busy;
        loop {
            let mut state = self.state.borrow_mut();
            state.adaptive.allow(self.spec.most());
            let Some((who, waker)) = state.next(free) else {
                let (is_held_back, looked) = (state.is_held_back, free);
                self.publish(&state);
                drop(state);
                let (true, Processors::Busy) = (is_held_back, looked) else {
                    return;
                };
                free =
                    running().map_or(Processors::Busy, |(running, all)| processors(running, all));
                if free == Processors::Busy {
                    return;
                }
                continue;
            };
            let now = Instant::now();
            let more_wait = state.queue.len_of(who.class) > 0;
            state
                .deadlines
                .let_in(who.class, now - waker.joined, more_wait, now);
            state.holders.take(who, now);
            drop(state);
            self.stats.let_in(who.class);
            if waker.verdict.send(SlotDecision::Come(who)).is_err() {
                self.state.borrow_mut().holders.give_back(who);
            } else if free == Processors::Spare {
                // The one that was free is not any more.
                self.publish(&self.state.borrow());
                return;
            }
        }
    }

    /// Looks now and then in the place of a request that waits, where nobody does; `None`: there is nothing to look for.
    fn watch(&self) -> Option<QueueSentinel<'_>> {
        let is_wanted = self.state.borrow().is_held_back && !self.is_watched.get();
        is_wanted.then(|| {
            self.is_watched.set(true);
            QueueSentinel {
                limit: self,
                until: Instant::now() + BETWEEN_LOOKS,
            }
        })
    }

    fn look(&self, ticket: QueueTicket, joined: Instant) -> WaitDecision {
        // More places may be allowed since somebody last looked.
        self.let_in(|| None);
        let mut state = self.state.borrow_mut();
        let now = Instant::now();
        let Some(class) = state.queue.class_of(ticket) else {
            // It was told something this moment.
            return WaitDecision::Again(now);
        };
        let is_needed = state.queue.len() <= state.adaptive.limit();
        state.deadlines.look(class, joined, is_needed, now)
    }

    fn turn_away(&self, who: QueueIdentity) {
        self.stats.turned_away(who.class);
        let state = self.state.borrow();
        self.stats.set_retry_after(state.waits_s());
    }

    fn give_back(&self, who: QueueIdentity) {
        self.state.borrow_mut().holders.give_back(who);
        self.let_in(|| None);
    }

    fn publish(&self, state: &LimitState) {
        let taken = state.holders.all();
        self.stats.set_requests(taken, state.queue.len());
        let limit = state.adaptive.limit();
        self.stats.set_slots(limit, self.spec.most());
        let newest = state.newest.filter(|who| state.queue.is_shut_for(*who));
        let is_shut = |class: &Class| state.queue.is_shut_for_all(*class);
        let classes: Vec<Class> = Class::ALL.iter().copied().filter(is_shut).collect();
        if newest.is_some() || !classes.is_empty() {
            self.stats.set_retry_after(state.waits_s());
        }
        self.stats.shut_for(newest, &classes);
    }
}

impl LimitState {
    /// How many seconds the queue will take for one more, at the pace of the last answers.
    fn waits_s(&self) -> f64 {
        let waiting = self.queue.len() + 1;
        let longest_s = self.deadlines.longest().as_secs_f64();
        self.adaptive.responses_per_s().map_or(longest_s, |rate| {
            f64::from(u32::try_from(waiting).unwrap_or(u32::MAX)) / rate.max(f64::MIN_POSITIVE)
        })
    }

    /// Takes the next one out of the queue, and notes whether a place stays free because who waits is held back.
    fn next(&mut self, free: Processors) -> Option<(QueueIdentity, Waker)> {
        let (limit, now) = (self.adaptive.limit(), Instant::now());
        let (holders, mut is_held_back) = (&self.holders, false);
        let found = if holders.all() >= limit {
            None
        } else {
            self.queue.pop(|who, waker| {
                let moment = AdmissionContext {
                    now,
                    waited: now - waker.joined,
                    free,
                };
                let may = holders.may(who, limit, &moment);
                is_held_back |= may == May::HeldBack;
                may == May::Enter
            })
        };
        self.is_held_back = is_held_back;
        found.map(|(_, who, waker)| (who, waker))
    }
}

impl Slot {
    /// Notes that the request is being sent.
    pub(super) fn asks(&self) {
        self.signaled_at.set(Some(Instant::now()));
    }

    /// Notes that the answer's head has come, or that it was waited for in vain.
    pub(super) fn response_arrived(&self) {
        let Some(asked) = self.signaled_at.take() else {
            return;
        };
        let now = Instant::now();
        let mut state = self.limit.state.borrow_mut();
        let is_full = state.holders.are_full(state.adaptive.limit());
        state.adaptive.record(now - asked, is_full, now);
        drop(state);
        self.limit.let_in(|| None);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.limit.give_back(self.who);
    }
}

/// Somebody who waits looks for all who are held back.
struct QueueSentinel<'l> {
    limit: &'l LimitShared,
    until: Instant,
}

impl Drop for QueueSentinel<'_> {
    fn drop(&mut self) {
        self.limit.is_watched.set(false);
    }
}

/// Somebody in the queue; leaves it when dropped, with the place that it was given at the same moment.
struct QueuedRequest<'l> {
    limit: &'l LimitShared,
    ticket: QueueTicket,
    decision: &'l mut oneshot::Receiver<SlotDecision>,
    is_over: bool,
}

impl Drop for QueuedRequest<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let left = self.limit.state.borrow_mut().queue.leave(self.ticket);
        if left.is_none()
            && let Ok(SlotDecision::Come(who)) = self.decision.try_recv()
        {
            self.limit.give_back(who);
            return;
        }
        let state = self.limit.state.borrow();
        self.limit.publish(&state);
    }
}

/// Between two looks whether a processor has become free: shorter than a page, and hardly any work.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

#[cfg(test)]
pub(super) mod tests;
