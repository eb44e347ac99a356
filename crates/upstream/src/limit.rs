//! The concurrency limit of an upstream, and the admission queue.
//!
//! A request takes a free slot immediately if no request is queued. Otherwise it waits in an [`AdmissionQueue`](super::queue),
//! which determines the order. [`QueueDeadlines`](super::queue_deadline) limit the wait, [`AdaptiveLimit`](super::adaptive) sets
//! the number of slots, and [`SlotHolders`](super::admission) decides which request may take one. One fetch thread owns all of
//! this, for all front threads. Dropping a [`Slot`] releases it. A slot granted to a request that is being canceled passes to the
//! next one.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use galley_cache::fill::FillError;
use galley_policy::class::{Class, Network, Standing, Trust};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::PoolSpec;
use super::adaptive::AdaptiveLimit;
use super::admission::{
    AdmissionContext, AdmissionDecision, Processors, SlotHolders, half, processors,
};
use super::pace::{self, UnseenPace};
use super::queue::{AdmissionQueue, JoinResult, QueueIdentity};
use super::queue_deadline::{QueueDeadlines, WaitDecision};
use super::queued_clients::QueueTicket;
use super::stats::UpstreamStats;

/// A number of slots and a bounded queue in front of them.
pub(super) struct ConcurrencyLimit(Rc<LimitShared>);

struct LimitShared {
    state: RefCell<LimitState>,
    spec: PoolSpec,
    stats: Arc<UpstreamStats>,
    /// Whether a queued request polls for free processors, on behalf of all throttled requests.
    is_polled: Cell<bool>,
}

struct LimitState {
    holders: SlotHolders,
    /// Whether a slot was free at the last check, but only for other clients.
    is_throttled: bool,
    queue: AdmissionQueue<PendingDecision>,
    /// The last request that tried to join the queue.
    newest: Option<QueueIdentity>,
    deadlines: QueueDeadlines,
    adaptive: AdaptiveLimit,
    pace: UnseenPace,
}

/// Wakes a queued request with its decision.
#[derive(Debug)]
struct PendingDecision {
    joined: Instant,
    decision: oneshot::Sender<SlotDecision>,
}

#[derive(Debug)]
enum SlotDecision {
    /// The request has a slot under this identity: its own, or that of a request for the same page.
    Granted(QueueIdentity),
    /// Another request took its position in the full queue.
    Evicted,
}

/// The position of a request in the queue, if it is queued; another request for the same page can promote it.
#[derive(Default)]
pub struct QueuePosition(Cell<Option<QueueTicket>>);

/// One slot; dropping it admits the next request.
pub struct Slot {
    limit: Rc<LimitShared>,
    identity: QueueIdentity,
    taken_at: Instant,
    sent_at: Cell<Option<Instant>>,
}

impl ConcurrencyLimit {
    pub(super) fn new(spec: &PoolSpec, stats: &Arc<UpstreamStats>) -> Self {
        Self(Rc::new(LimitShared {
            state: RefCell::new(LimitState {
                holders: SlotHolders::default(),
                is_throttled: false,
                queue: AdmissionQueue::new(spec.limits.queue),
                newest: None,
                deadlines: QueueDeadlines::new(spec.limits.queue_timeout),
                adaptive: AdaptiveLimit::new(spec.max_exchanges()),
                pace: UnseenPace::default(),
            }),
            spec: spec.clone(),
            stats: Arc::clone(stats),
            is_polled: Cell::new(false),
        }))
    }

    /// Waits for a slot. Cancel-safe: a canceled request holds no slot and is not queued.
    pub(super) async fn acquire(
        &self,
        identity: QueueIdentity,
        turn: &QueuePosition,
    ) -> Result<Slot, FillError> {
        if self.0.take_free(identity) {
            self.0.stats.count_admitted(identity.class);
            return Ok(self.0.slot(identity));
        }
        if self.0.state.borrow().never_waits(identity.standing()) {
            self.0.reject(identity);
            return Err(FillError::Overload);
        }
        let (decision_tx, mut decision_rx) = oneshot::channel();
        let ticket = self.0.join(identity, decision_tx)?;
        turn.0.set(Some(ticket));
        let mut waiting = QueuedRequest {
            limit: &self.0,
            ticket,
            decision: &mut decision_rx,
            is_settled: false,
        };
        let joined = Instant::now();
        let mut next_check = self.0.check(ticket, joined);
        let decision = loop {
            let WaitDecision::CheckAt(at) = next_check else {
                break SlotDecision::Evicted;
            };
            let poll = self.0.start_polling();
            let next = poll.as_ref().map_or(at, |poll| at.min(poll.until));
            match timeout_at(next, &mut *waiting.decision).await {
                Ok(Ok(decision)) => break decision,
                Ok(Err(_closed)) => break SlotDecision::Evicted,
                Err(_elapsed) if next < at => {
                    self.0.grant_free_slots(galley_sys::running_processes);
                }
                Err(_elapsed) => next_check = self.0.check(ticket, joined),
            }
        };
        turn.0.set(None);
        match decision {
            SlotDecision::Granted(identity) => {
                waiting.is_settled = true;
                Ok(self.0.slot(identity))
            }
            SlotDecision::Evicted => {
                drop(waiting);
                self.0.reject(identity);
                Err(FillError::Overload)
            }
        }
    }

    /// Moves a queued request to the class and client of `identity`, if it is served sooner there, because that client waits for
    /// the same page.
    pub(super) fn promote(&self, turn: &QueuePosition, identity: QueueIdentity) {
        let mut state = self.0.state.borrow_mut();
        if let Some(ticket) = turn.0.get()
            && state.queue.promote(ticket, identity)
        {
            self.0.stats.count_promotion();
            self.0.publish(&state);
        }
    }

    /// The slots in use, the queued requests, and the current number of slots.
    pub(super) fn load(&self) -> (usize, usize, usize) {
        let state = self.0.state.borrow();
        (
            state.holders.all(),
            state.queue.len(),
            state.adaptive.limit(),
        )
    }

    /// Starts with a low limit after an outage.
    pub(super) fn restart(&self) {
        let mut state = self.0.state.borrow_mut();
        state.adaptive.restart();
        self.0.publish(&state);
    }
}

impl LimitShared {
    /// Takes a slot, if one is free and the queue is empty.
    fn take_free(&self, identity: QueueIdentity) -> bool {
        let mut state = self.state.borrow_mut();
        state.adaptive.set_maximum(self.spec.max_exchanges());
        let limit = state.adaptive.limit();
        let is_resting = self.stats.is_resting(identity);
        let is_free = !is_resting && state.is_free_for(identity, limit);
        if is_free {
            state.holders.take(identity);
            self.publish(&state);
        }
        is_free
    }

    fn slot(self: &Rc<Self>, identity: QueueIdentity) -> Slot {
        Slot {
            limit: Rc::clone(self),
            identity,
            taken_at: Instant::now(),
            sent_at: Cell::new(None),
        }
    }

    fn join(
        &self,
        identity: QueueIdentity,
        decision: oneshot::Sender<SlotDecision>,
    ) -> Result<QueueTicket, FillError> {
        let joined = Instant::now();
        let mut state = self.state.borrow_mut();
        let outcome = if state.deadlines.longest().is_zero() {
            JoinResult::Refused
        } else {
            state.newest = Some(identity);
            let standing = identity.standing();
            if state.queue.len_of_standing(standing) == 0 {
                state.deadlines.begin(standing);
            }
            state
                .queue
                .join(identity, PendingDecision { joined, decision })
        };
        self.publish(&state);
        drop(state);
        match outcome {
            JoinResult::Waits(ticket) => Ok(ticket),
            JoinResult::Evicting(ticket, evicted) => {
                // The receiver is dropped if that request is canceled at the same time.
                let _ = evicted.decision.send(SlotDecision::Evicted);
                Ok(ticket)
            }
            JoinResult::Refused => {
                self.reject(identity);
                Err(FillError::Overload)
            }
        }
    }

    /// Grants free slots to queued requests. `running`: counts the running processes; called only if a request is throttled.
    fn grant_free_slots(&self, running: impl Fn() -> Option<(usize, usize)>) {
        let mut free = Processors::Busy;
        loop {
            let mut state = self.state.borrow_mut();
            state.adaptive.set_maximum(self.spec.max_exchanges());
            let Some((identity, pending)) = state.next(free) else {
                let (is_throttled, seen) = (state.is_throttled, free);
                self.publish(&state);
                drop(state);
                let (true, Processors::Busy) = (is_throttled, seen) else {
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
            let waited = now - pending.joined;
            state
                .deadlines
                .record_admission(identity.standing(), waited, now);
            state.holders.take(identity);
            drop(state);
            self.stats.count_admitted(identity.class);
            if pending
                .decision
                .send(SlotDecision::Granted(identity))
                .is_err()
            {
                self.state.borrow_mut().holders.release(identity);
            } else if free == Processors::Spare {
                // The request now occupies the free processor.
                self.publish(&self.state.borrow());
                return;
            }
        }
    }

    /// Polls on behalf of all throttled requests, unless another queued request does; `None`: no polling is needed.
    fn start_polling(&self) -> Option<ThrottlePoll<'_>> {
        let is_wanted = self.state.borrow().is_throttled && !self.is_polled.get();
        is_wanted.then(|| {
            self.is_polled.set(true);
            ThrottlePoll {
                limit: self,
                until: Instant::now() + POLL_INTERVAL,
            }
        })
    }

    fn check(&self, ticket: QueueTicket, joined: Instant) -> WaitDecision {
        // The maximum may have been raised since the last check.
        self.grant_free_slots(|| None);
        let mut state = self.state.borrow_mut();
        let now = Instant::now();
        let Some(identity) = state.queue.identity_of(ticket) else {
            // The request is no longer queued; its decision has been sent.
            return WaitDecision::CheckAt(now);
        };
        let is_needed = state.queue.len() <= state.adaptive.limit();
        let standing = identity.standing();
        state.deadlines.check(standing, joined, is_needed, now)
    }

    fn reject(&self, identity: QueueIdentity) {
        self.stats.count_rejected(identity.class);
        let state = self.state.borrow();
        self.stats.set_retry_after(state.expected_wait_s());
    }

    fn record_end(&self, identity: QueueIdentity, taken_at: Instant) {
        let (mut state, now) = (self.state.borrow_mut(), Instant::now());
        let slots = half(state.adaptive.limit());
        let standing = identity.standing();
        state.pace.record(standing, now - taken_at, slots, now);
        if let Some(until) = state.pace.rests_until() {
            self.stats.set_unseen_rest(until);
        }
    }

    fn release(&self, identity: QueueIdentity) {
        self.state.borrow_mut().holders.release(identity);
        self.grant_free_slots(|| None);
    }

    fn publish(&self, state: &LimitState) {
        let taken = state.holders.all();
        self.stats.set_requests(taken, state.queue.len());
        let limit = state.adaptive.limit();
        self.stats.set_slots(limit, self.spec.max_exchanges());
        let newest = state
            .newest
            .filter(|identity| state.queue.is_full_for(*identity));
        let classes: Vec<Standing> = standings()
            .filter(|standing| state.is_full_for(*standing, limit))
            .collect();
        if newest.is_some() || !classes.is_empty() {
            self.stats.set_retry_after(state.expected_wait_s());
        }
        self.stats.set_full_for(newest, &classes);
    }
}

/// Every combination of class and trust.
fn standings() -> impl Iterator<Item = Standing> {
    let of = |class: &Class| {
        let class = *class;
        Trust::ALL.map(|trust| Standing { class, trust })
    };
    Class::ALL.iter().flat_map(of)
}

impl LimitState {
    /// Whether a request is refused if no slot is free. A queue of a crawl would delay others, and the crawl returns anyway. Logins
    /// without proof wait until there are so many that they rest.
    fn never_waits(&self, standing: Standing) -> bool {
        standing.class == Class::Unseen
            || (standing.class == Class::Login && self.pace.is_spent(Instant::now()))
    }

    /// Whether a new request gets a slot without a wait.
    fn is_free_for(&self, identity: QueueIdentity, limit: usize) -> bool {
        let context = AdmissionContext {
            waited: Duration::ZERO,
            free: Processors::Busy,
        };
        let admission = self.holders.admission(identity, limit, &context);
        if pace::rests(identity.standing())
            && self.pace.is_spent(Instant::now())
            && self.holders.are_others_half(limit)
        {
            return false;
        }
        // Logins wait for their own bound, so a request that never waits does not take their turn.
        let bounded = match identity.class {
            Class::Unseen => self.queue.len_of(Class::Login),
            _ => 0,
        };
        self.queue.len() == bounded && admission == AdmissionDecision::Admit
    }

    /// Whether a new request would be rejected, even from a client without other requests.
    fn is_full_for(&self, standing: Standing, limit: usize) -> bool {
        if self.never_waits(standing) {
            return !self.is_free_for(QueueIdentity::new(standing, NOBODY), limit);
        }
        self.queue.is_full_for_class(standing)
    }

    /// Expected wait of one more request in seconds, at the rate of the last window of responses.
    fn expected_wait_s(&self) -> f64 {
        let waiting = self.queue.len() + 1;
        let longest_s = self.deadlines.longest().as_secs_f64();
        self.adaptive.responses_per_s().map_or(longest_s, |rate| {
            f64::from(u32::try_from(waiting).unwrap_or(u32::MAX)) / rate.max(f64::MIN_POSITIVE)
        })
    }

    /// Takes the next request out of the queue, and records whether a slot remains free only because requests are throttled.
    fn next(&mut self, free: Processors) -> Option<(QueueIdentity, PendingDecision)> {
        let (limit, now) = (self.adaptive.limit(), Instant::now());
        let (holders, mut is_throttled) = (&self.holders, false);
        let admitted = if holders.all() >= limit {
            None
        } else {
            self.queue.pop(|identity, pending| {
                let context = AdmissionContext {
                    waited: now - pending.joined,
                    free,
                };
                let admission = holders.admission(identity, limit, &context);
                is_throttled |= admission == AdmissionDecision::Throttled;
                admission == AdmissionDecision::Admit
            })
        };
        self.is_throttled = is_throttled;
        admitted.map(|(_, identity, pending)| (identity, pending))
    }
}

impl Slot {
    /// Records that the request is being sent.
    pub(super) fn request_sent(&self) {
        self.sent_at.set(Some(Instant::now()));
    }

    /// Records that the head of the response has been received, or that the wait for it timed out.
    pub(super) fn response_arrived(&self) {
        let Some(sent_at) = self.sent_at.take() else {
            return;
        };
        let now = Instant::now();
        let mut state = self.limit.state.borrow_mut();
        let is_full = state.holders.are_full(state.adaptive.limit());
        state.adaptive.record(now - sent_at, is_full, now);
        drop(state);
        self.limit.grant_free_slots(|| None);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.limit.record_end(self.identity, self.taken_at);
        self.limit.release(self.identity);
    }
}

/// The queued request that polls for all throttled ones.
struct ThrottlePoll<'l> {
    limit: &'l LimitShared,
    until: Instant,
}

impl Drop for ThrottlePoll<'_> {
    fn drop(&mut self) {
        self.limit.is_polled.set(false);
    }
}

/// A queued request. When dropped, it is removed from the queue and releases a slot granted at the same time.
struct QueuedRequest<'l> {
    limit: &'l LimitShared,
    ticket: QueueTicket,
    decision: &'l mut oneshot::Receiver<SlotDecision>,
    is_settled: bool,
}

impl Drop for QueuedRequest<'_> {
    fn drop(&mut self) {
        if self.is_settled {
            return;
        }
        let removed = self.limit.state.borrow_mut().queue.leave(self.ticket);
        if removed.is_none()
            && let Ok(SlotDecision::Granted(identity)) = self.decision.try_recv()
        {
            self.limit.release(identity);
            return;
        }
        let state = self.limit.state.borrow();
        self.limit.publish(&state);
    }
}

/// A client without slots.
const NOBODY: Network = Network::V4(0);

/// The interval between two checks for a free processor: shorter than the generation of a page, and cheap.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

#[cfg(test)]
pub(super) mod tests;
