//! A fetch in progress, and the requests that wait for it.
//!
//! An `InProgressFetch` is one request at the upstream with the fill that it writes. Requests for the same page wait here
//! and get a reader when the head has arrived. A fetch that sends and receives nothing during its silence limit is silent:
//! the next request starts another fetch, and the waiters of the first wait for both and use the head that arrives
//! first. Time in the queue for a slot at the upstream does not count: a second request would only be queued behind the
//! first.
//!
//! Each fetch that replaces a silent one has twice its silence limit, so that a slow upstream does not get the same request
//! repeatedly while it generates the response.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use galley_cache::entry::Entry;
use galley_cache::fill::{Fill, FillError, FillHead, FillReader};
use galley_cache::key::Key;
use galley_policy::outcome::{NotStored, StoreOutcome};
use galley_policy::time::Tick;
use http::header::{HeaderName, HeaderValue};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::jobs::FetchResult;
use super::shared_fetch::SharedFetch;
use super::site::FetchLimits;
use super::waiters::{FetchProgress, NOT_SENT, Waiters};
use galley_upstream::QueuePosition;

/// A page that is being fetched.
pub(super) struct InProgressFetch {
    pub(super) fill: Arc<Fill>,
    /// The purge counter before the request was sent; [`NOT_SENT`] until then: no purge so far can concern the response.
    pub(super) born: Cell<u64>,
    /// The request's fields, to compare with requests that would join; empty if the key describes the request completely.
    pub(super) sent: Vec<(HeaderName, HeaderValue)>,
    /// Whether the head contains something that only the client of the fetch may get.
    pub(super) is_confined: Cell<bool>,
    /// The keys under which the fetch is in the table.
    pub(super) keys: RefCell<Vec<Key>>,
    /// When something was last sent to the upstream or received from it; `None` until the request is sent.
    progress_at: Cell<Option<Instant>>,
    silence_limit: Duration,
    /// Notified when the fetch has fallen silent, and when another has replaced it.
    changed: Notify,
    /// Notified when a waiter has left.
    left: Notify,
    /// The position of the request in the queue for a slot.
    pub(super) turn: QueuePosition,
    /// When the request was sent.
    sent_at: Cell<Tick>,
    is_overtaken: Cell<bool>,
    /// The part that waiters on other threads use.
    pub(super) waiters: Arc<Waiters>,
    /// The stored result.
    stored: RefCell<Option<Arc<Entry>>>,
    /// Whether the response is stored, as far as known.
    pub(super) store_outcome: Cell<StoreOutcome>,
    /// Notified when the head has arrived and more may follow.
    headed: Notify,
    /// Coordination with the other nodes of a cluster.
    pub(super) shared: SharedFetch,
    /// The fetch of the same page that must end before this one's request is sent.
    former: RefCell<Option<Rc<Self>>>,
    is_finished: Cell<bool>,
    /// Notified when the fetch has ended.
    finished: Notify,
}

impl InProgressFetch {
    /// A fetch whose request has not been sent. `overtaken`: the silent fetch that it replaces.
    pub(super) fn new(
        fill: Arc<Fill>,
        sent: Vec<(HeaderName, HeaderValue)>,
        limits: &FetchLimits,
        overtaken: Option<&Self>,
    ) -> Self {
        Self {
            waiters: Arc::new(Waiters::new(Arc::clone(&fill), limits.waiters)),
            stored: RefCell::default(),
            store_outcome: Cell::new(StoreOutcome::Stored),
            shared: SharedFetch::default(),
            former: RefCell::default(),
            is_finished: Cell::new(false),
            finished: Notify::new(),
            headed: Notify::new(),
            fill,
            born: Cell::new(NOT_SENT),
            sent,
            is_confined: Cell::new(false),
            keys: RefCell::default(),
            progress_at: Cell::new(None),
            silence_limit: overtaken.map_or(limits.lock_age, |other| {
                other.silence_limit.saturating_mul(2)
            }),
            changed: Notify::new(),
            left: Notify::new(),
            turn: QueuePosition::default(),
            sent_at: Cell::new(Tick(0)),
            is_overtaken: Cell::new(false),
        }
    }

    /// Waits until all waiters have left. Cancel-safe.
    pub(super) async fn abandoned(&self) {
        loop {
            let mut left = pin!(self.left.notified());
            // Registered before the check, so that a waiter that leaves between the check and the wait is noticed.
            left.as_mut().enable();
            if self.waiters.readers() == 0 {
                return;
            }
            left.await;
        }
    }

    /// Notes that the request is about to be sent, with the current purge counter.
    pub(super) fn start_request(&self, born: u64, now: Tick) {
        self.born.set(born);
        self.sent_at.set(now);
        self.note_progress();
        self.waiters.open(born, now);
    }

    /// Delays the request until `former` has ended or fallen silent: requests that arrive until then share it.
    pub(super) fn set_former(&self, former: Option<Rc<Self>>) {
        *self.former.borrow_mut() = former;
    }

    /// Waits until the request may be sent. Cancel-safe.
    pub(super) async fn wait_for_former(&self) {
        let former = self.former.take();
        if let Some(former) = former {
            former.ended().await;
        }
    }

    /// Waits until the fetch has ended, or fallen silent, as one does whose task has panicked. Cancel-safe.
    async fn ended(&self) {
        // On one thread, so nothing can happen between the check and the wait.
        while !self.is_finished.get() && !self.is_silent() {
            let finished = self.finished.notified();
            let _ = tokio::time::timeout(self.silence_limit, finished).await;
        }
    }

    /// Notes that the fetch has ended.
    pub(super) fn finish(&self) {
        self.is_finished.set(true);
        self.finished.notify_waiters();
    }

    /// The time since the request was sent.
    pub(super) fn delay(&self, now: Tick) -> Duration {
        now.since(self.sent_at.get())
    }

    /// Notes that the upstream has sent something.
    pub(super) fn note_progress(&self) {
        self.progress_at.set(Some(Instant::now()));
    }

    /// Whether the upstream has sent nothing for the silence limit, so that the next request replaces the fetch.
    pub(super) fn is_silent(&self) -> bool {
        self.progress_at
            .get()
            .is_some_and(|at| at.elapsed() >= self.silence_limit)
    }

    /// Waits for `head`, and notifies the waiters if the fetch falls silent before it. Cancel-safe if `head` is.
    pub(super) async fn watch<T>(&self, head: impl Future<Output = T>) -> T {
        let mut head = pin!(head);
        let mut alarm = pin!(tokio::time::sleep(self.silence_limit));
        let mut reported = None;
        poll_fn(|cx| {
            if let Poll::Ready(done) = head.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            let Some(at) = self.progress_at.get().filter(|at| reported != Some(*at)) else {
                return Poll::Pending;
            };
            let due = at + self.silence_limit;
            if alarm.deadline() != due {
                alarm.as_mut().reset(due);
            }
            if alarm.as_mut().poll(cx).is_ready() {
                reported = Some(at);
                self.announce_slow();
                self.changed.notify_waiters();
            }
            Poll::Pending
        })
        .await
    }

    /// Notes that all waiters may have the head, and that the rest may take a while.
    pub(super) fn announce_head(&self) {
        self.headed.notify_one();
    }

    /// Notes that the response was stored.
    pub(super) fn note_stored(&self, entry: &Arc<Entry>) {
        *self.stored.borrow_mut() = Some(Arc::clone(entry));
        self.store_outcome.set(StoreOutcome::Stored);
    }

    /// Notes that the response is not stored, which waiters for a complete response need to know.
    pub(super) fn set_not_stored(&self, why: NotStored) {
        self.store_outcome.set(StoreOutcome::NotStored(why));
    }

    fn announce_slow(&self) {
        let outcome = self.store_outcome.get();
        self.waiters.announce(FetchProgress::Slow(outcome));
    }

    /// Runs the fetch until it ends, and notifies the waiters on other threads. They get a page that is complete soon after its
    /// head in one piece, and a slower one as it arrives. Without waiters no timer is set: it would wake the thread once more for
    /// each miss, to read its own event descriptor.
    pub(super) async fn record_waiters(&self, fetching: impl Future) {
        let mut fetching = pin!(fetching);
        let slow = async {
            self.headed.notified().await;
            if self.waiters.has_waiters() {
                tokio::time::sleep(AT_ONCE).await;
            }
        };
        tokio::select! {
            biased;
            _ = &mut fetching => {}
            () = slow => {
                self.announce_slow();
                fetching.await;
            }
        }
        self.announce_end();
    }

    fn announce_end(&self) {
        let stored = self.stored.take();
        let ended = FetchProgress::Ended(self.store_outcome.get());
        self.waiters
            .announce(stored.map_or(ended, FetchProgress::Stored));
    }

    /// Notes that another fetch has replaced this one, and notifies its waiters.
    pub(super) fn set_overtaken(&self, site: &str) {
        tracing::debug!(site, "a fetch makes no progress: starting a second one");
        self.is_overtaken.set(true);
        self.announce_slow();
        self.changed.notify_waiters();
    }

    /// Whether the result may replace `resident`: a replaced fetch must not undo what was generated after its request was
    /// sent.
    pub(super) fn may_replace(&self, resident: Option<&Entry>) -> bool {
        !self.is_overtaken.get()
            || resident.is_none_or(|resident| resident.stored_at <= self.sent_at.get())
    }
}

impl Drop for InProgressFetch {
    /// However the fetch ended, its waiters must not wait any longer.
    fn drop(&mut self) {
        self.announce_end();
    }
}

/// A fetch for which a request waits.
pub(super) struct WaiterSlot {
    pub(super) in_progress: Rc<InProgressFetch>,
    pub(super) reader: FillReader,
    pub(super) terms: WaitRole,
}

/// The role of a waiting request in a fetch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitRole {
    /// It started the fetch.
    Leads,
    /// It may use the response.
    Joined,
    /// Purges were published after the fetch's request was sent, so the response must be compared with them.
    ToCheck,
}

/// A waiting request, with all fetches that may answer it, the newest last.
pub(super) struct WaitingRequest {
    reply: oneshot::Sender<Result<FetchResult, FillError>>,
    slots: Vec<WaiterSlot>,
    /// A fetch whose response does not answer this request.
    rejected: Option<Rc<InProgressFetch>>,
    /// Whether the request may start a fetch: once, and not after a fetch that it waited for failed.
    may_lead: bool,
    failure: Option<FillError>,
}

/// An event for a waiting request.
pub(super) enum WaiterEvent {
    /// The head of this slot's fetch, or its failure.
    Head(usize, Result<Arc<FillHead>, FillError>),
    /// A fetch fell silent, or was replaced.
    Changed,
    /// The client has disconnected.
    Disconnected,
}

/// How to use a head that has arrived.
pub(super) enum HeadUse {
    /// The response answers the request.
    Use,
    /// It does not; another fetch may.
    Reject,
    /// The response is for one client alone: each waiting request is passed.
    HitForPass,
    /// The fetch failed.
    Failed(FillError),
}

impl WaitingRequest {
    pub(super) fn new(reply: oneshot::Sender<Result<FetchResult, FillError>>) -> Self {
        Self {
            reply,
            slots: Vec::new(),
            rejected: None,
            may_lead: true,
            failure: None,
        }
    }

    /// The same request, as the one that started the fetch.
    pub(super) fn leading(mut self, in_progress: &Rc<InProgressFetch>) -> Self {
        self.may_lead = false;
        self.join(in_progress, WaitRole::Leads);
        self
    }

    /// Records that a fetch which would have answered the request has failed: the request then starts no other, because
    /// otherwise a dead upstream would get requests without a pause.
    pub(super) fn note_failure(&mut self) {
        self.may_lead = false;
    }

    pub(super) fn may_lead(&self) -> bool {
        self.may_lead
    }

    /// Whether it does not wait for any fetch yet.
    pub(super) fn is_new(&self) -> bool {
        self.slots.is_empty() && self.rejected.is_none()
    }

    pub(super) fn is_at(&self, in_progress: &Rc<InProgressFetch>) -> bool {
        self.slots
            .iter()
            .any(|slot| Rc::ptr_eq(&slot.in_progress, in_progress))
    }

    /// Whether a fetch for which it waits has found this page at another node.
    pub(super) fn has_found(&self, entry: &Arc<Entry>) -> bool {
        let mut entries = self
            .slots
            .iter()
            .filter_map(|slot| slot.in_progress.shared.entry());
        entries.any(|shared| Arc::ptr_eq(&shared, entry))
    }

    pub(super) fn has_rejected(&self, in_progress: &Rc<InProgressFetch>) -> bool {
        self.rejected
            .as_ref()
            .is_some_and(|rejected| Rc::ptr_eq(rejected, in_progress))
    }

    /// Joins a fetch; false if joining is closed.
    pub(super) fn join(&mut self, in_progress: &Rc<InProgressFetch>, terms: WaitRole) -> bool {
        let Some(reader) = in_progress.fill.reader() else {
            return false;
        };
        self.slots.push(WaiterSlot {
            in_progress: Rc::clone(in_progress),
            reader,
            terms,
        });
        true
    }

    /// The slot that a [`WaiterEvent::Head`] named.
    pub(super) fn slot(&self, index: usize) -> Option<&WaiterSlot> {
        self.slots.get(index)
    }

    /// Replaces a slot's reader, and returns the previous one.
    pub(super) fn exchange_reader(
        &mut self,
        index: usize,
        reader: FillReader,
    ) -> Option<FillReader> {
        let slot = self.slots.get_mut(index)?;
        Some(std::mem::replace(&mut slot.reader, reader))
    }

    /// The next event. Cancel-safe.
    pub(super) async fn event(&mut self) -> WaiterEvent {
        let newest = self.slots.last().map(|slot| Rc::clone(&slot.in_progress));
        // Created before anything is checked: it receives all later notifications.
        let mut changed = pin!(async {
            match &newest {
                Some(in_progress) => in_progress.changed.notified().await,
                None => std::future::pending().await,
            }
        });
        poll_fn(|cx| {
            for (index, slot) in self.slots.iter_mut().enumerate().rev() {
                if let Poll::Ready(head) = slot.reader.poll_head(cx) {
                    return Poll::Ready(WaiterEvent::Head(index, head));
                }
            }
            if self.reply.poll_closed(cx).is_ready() {
                return Poll::Ready(WaiterEvent::Disconnected);
            }
            changed.as_mut().poll(cx).map(|()| WaiterEvent::Changed)
        })
        .await
    }

    /// Executes the verdict about a head; returns itself if it continues to wait. `coded`: a coded reader of the same page.
    pub(super) fn take(
        mut self,
        index: usize,
        verdict: &HeadUse,
        coded: Option<FillReader>,
    ) -> Option<Self> {
        match verdict {
            HeadUse::Use => {
                let slot = self.slots.swap_remove(index);
                let fetched = FetchResult::Fill {
                    reader: slot.reader,
                    coded,
                    outcome: slot.in_progress.store_outcome.get(),
                    collapsed: slot.terms != WaitRole::Leads,
                };
                self.finish(Ok(fetched));
                return None;
            }
            HeadUse::HitForPass => {
                self.finish(Ok(FetchResult::HitForPass));
                return None;
            }
            HeadUse::Reject => self.rejected = Some(self.slots.remove(index).in_progress),
            HeadUse::Failed(failure) => {
                self.note_failure();
                self.failure = Some(*failure);
                self.slots.remove(index);
            }
        }
        if self.slots.is_empty() && !self.may_lead {
            let failure = self.failure.unwrap_or(FillError::Aborted);
            self.finish(Err(failure));
            return None;
        }
        Some(self)
    }

    /// Ends the wait of a client that has disconnected.
    pub(super) fn cancel(self) {
        let slots = self.slots.into_iter();
        // All readers are dropped before their number is checked.
        let fetches: Vec<Rc<InProgressFetch>> = slots.map(|slot| slot.in_progress).collect();
        for in_progress in fetches {
            in_progress.left.notify_waiters();
        }
    }

    /// Ends the wait.
    pub(super) fn finish(self, result: Result<FetchResult, FillError>) {
        let _ = self.reply.send(result);
    }
}

/// Whether a fetch ended only because it had no waiters left: that says nothing about the upstream.
pub(super) fn is_abandoned(in_progress: &InProgressFetch, failure: FillError) -> bool {
    failure == FillError::Aborted && in_progress.born.get() == NOT_SENT
}

/// How long waiters on other threads wait after a head for the rest, which they then get in one piece: PHP has usually
/// printed all of a page before its head is sent.
const AT_ONCE: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests;
