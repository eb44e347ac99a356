//! A fetch in progress, and how requests wait for it.
//!
//! An `InProgressFetch` is one request at the upstream with the fill that it writes. Requests for the same page wait here
//! and get a reader when the head has arrived. A fetch that sends and receives nothing during its silence limit is silent:
//! the next request starts a fetch of its own, and the waiters of the first wait for both and take the head that arrives
//! first. Time in the queue for a slot at the upstream does not count: a second request would only be queued behind the
//! first.
//!
//! Each fetch that replaces a silent one has twice its silence limit, so that a slow upstream does not get the same request
//! again and again while it works on it.

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

use super::jobs::Fetched;
use super::shared_fetch::SharedFetch;
use super::site::FetchLimits;
use super::waiters::{FetchProgress, NOT_SENT, Waiters};
use crate::upstream::QueueTurn;

/// A page being generated.
pub(super) struct InProgressFetch {
    pub(super) fill: Arc<Fill>,
    /// The purge counter before the upstream was asked; [`NOT_SENT`] until then: nothing purged so far can be missing.
    pub(super) born: Cell<u64>,
    /// Its request, for requests that would join; empty if the key describes it completely.
    pub(super) sent: Vec<(HeaderName, HeaderValue)>,
    /// Whether its head contains something that only its requester may get.
    pub(super) is_confined: Cell<bool>,
    /// The keys under which it is in the table.
    pub(super) keys: RefCell<Vec<Key>>,
    /// When something last went to the upstream or came from it; `None` until its request is sent.
    progress_at: Cell<Option<Instant>>,
    silence_limit: Duration,
    /// Notified when it has fallen silent, and when another has taken its place.
    changed: Notify,
    /// Notified when a waiter has left.
    left: Notify,
    /// The place of its request in the queue for a slot.
    pub(super) turn: QueueTurn,
    /// When its request was sent.
    sent_at: Cell<Tick>,
    is_overtaken: Cell<bool>,
    /// What other threads may know of it.
    pub(super) waiters: Arc<Waiters>,
    /// Its result, if that was stored.
    stored: RefCell<Option<Arc<Entry>>>,
    /// What can be said by now of whether it is stored.
    pub(super) store_outcome: Cell<StoreOutcome>,
    /// Notified when its head has come and more may follow.
    headed: Notify,
    /// Its part in a cluster.
    pub(super) shared: SharedFetch,
    /// The fetch of the same page that has to end before its request is sent.
    former: RefCell<Option<Rc<Self>>>,
    is_finished: Cell<bool>,
    /// Notified when it has ended.
    finished: Notify,
}

impl InProgressFetch {
    /// A fetch whose request is not sent yet. `overtaken`: the silent one whose place it takes.
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
            turn: QueueTurn::default(),
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

    /// Notes that its request is about to be sent, with the purge counter of this moment.
    pub(super) fn start_request(&self, born: u64, now: Tick) {
        self.born.set(born);
        self.sent_at.set(now);
        self.note_progress();
        self.waiters.open(born, now);
    }

    /// Has its request sent only when `former` has ended or become silent: requests that arrive meanwhile share it.
    pub(super) fn comes_after(&self, former: Option<Rc<Self>>) {
        *self.former.borrow_mut() = former;
    }

    /// Waits until its request may be sent. Cancel-safe.
    pub(super) async fn wait_for_former(&self) {
        let former = self.former.take();
        if let Some(former) = former {
            former.over().await;
        }
    }

    /// Waits until it has ended, or fallen silent as one that was given up in a panic does. Cancel-safe.
    async fn over(&self) {
        // On one thread: nothing comes between the look and the wait.
        while !self.is_finished.get() && !self.is_silent() {
            let finished = self.finished.notified();
            let _ = tokio::time::timeout(self.silence_limit, finished).await;
        }
    }

    /// Notes that it has ended.
    pub(super) fn finish(&self) {
        self.is_finished.set(true);
        self.finished.notify_waiters();
    }

    /// How long ago its request was sent.
    pub(super) fn delay(&self, now: Tick) -> Duration {
        now.since(self.sent_at.get())
    }

    /// Notes that the upstream has sent something.
    pub(super) fn note_progress(&self) {
        self.progress_at.set(Some(Instant::now()));
    }

    /// Whether it has lost its place to the next request.
    pub(super) fn is_silent(&self) -> bool {
        self.progress_at
            .get()
            .is_some_and(|at| at.elapsed() >= self.silence_limit)
    }

    /// Waits for `head`, and tells the waiters when the fetch falls silent meanwhile. Cancel-safe if `head` is.
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
                self.lingers();
                self.changed.notify_waiters();
            }
            Poll::Pending
        })
        .await
    }

    /// Notes that everybody may have its head, and that what follows may take a while.
    pub(super) fn shows_head(&self) {
        self.headed.notify_one();
    }

    /// Notes what of it is stored.
    pub(super) fn stores(&self, entry: &Arc<Entry>) {
        *self.stored.borrow_mut() = Some(Arc::clone(entry));
        self.store_outcome.set(StoreOutcome::Stored);
    }

    /// Notes that it is not stored. Waiters for a response that has come as a whole learn it.
    pub(super) fn is_not_stored(&self, why: NotStored) {
        self.store_outcome.set(StoreOutcome::NotStored(why));
    }

    fn lingers(&self) {
        let outcome = self.store_outcome.get();
        self.waiters.announce(FetchProgress::Lingers(outcome));
    }

    /// Runs the fetch to its end, and notifies the waiters on other threads. They get a page that is complete soon after its
    /// head as a whole, and a slower one as it arrives. Without waiters no timer is set: it would wake the thread once more for
    /// each miss, to read its own event descriptor.
    pub(super) async fn record_waiters(&self, fetching: impl Future) {
        let mut fetching = pin!(fetching);
        let lingers = async {
            self.headed.notified().await;
            if self.waiters.are_there() {
                tokio::time::sleep(AT_ONCE).await;
            }
        };
        tokio::select! {
            biased;
            _ = &mut fetching => {}
            () = lingers => {
                self.lingers();
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

    /// Notes that another has taken its place, and tells the waiters for it.
    pub(super) fn give_way(&self, site: &str) {
        tracing::debug!(site, "a fetch makes no progress: starting a second one");
        self.is_overtaken.set(true);
        self.lingers();
        self.changed.notify_waiters();
    }

    /// Whether its result may replace `resident`: a replaced fetch must not undo what was generated since its request was
    /// sent.
    pub(super) fn may_replace(&self, resident: Option<&Entry>) -> bool {
        !self.is_overtaken.get()
            || resident.is_none_or(|resident| resident.stored_at <= self.sent_at.get())
    }
}

impl Drop for InProgressFetch {
    /// However it ended: nobody waits for it any more.
    fn drop(&mut self) {
        self.announce_end();
    }
}

/// One way to the answer of a request that waits.
pub(super) struct WaiterSlot {
    pub(super) in_progress: Rc<InProgressFetch>,
    pub(super) reader: FillReader,
    pub(super) terms: WaitTerms,
}

/// On what terms a request waits for a fetch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitTerms {
    /// It leads it.
    Leads,
    /// It may have what comes.
    Joined,
    /// Purges came after the fetch's request was sent; its response has to be compared with them.
    ToCheck,
}

/// A request that waits, with all fetches that may answer it, the newest last.
pub(super) struct Wait {
    reply: oneshot::Sender<Result<Fetched, FillError>>,
    slots: Vec<WaiterSlot>,
    /// A fetch that was found not to answer it.
    refused: Option<Rc<InProgressFetch>>,
    /// Whether it may lead a fetch: once, and not after it saw one fail.
    may_lead: bool,
    failure: Option<FillError>,
}

/// What a request that waits met.
pub(super) enum WaiterEvent {
    /// The head of this slot, or that there is none.
    Head(usize, Result<Arc<FillHead>, FillError>),
    /// A fetch fell silent, or another took its place.
    Changed,
    /// The client has gone.
    Left,
}

/// How to use a head that has arrived.
pub(super) enum HeadVerdict {
    /// It answers.
    Give,
    /// It does not; another fetch may.
    Refuse,
    /// It is for one request alone: each goes its own way.
    HitForPass,
    /// It failed.
    Failed(FillError),
}

impl Wait {
    pub(super) fn new(reply: oneshot::Sender<Result<Fetched, FillError>>) -> Self {
        Self {
            reply,
            slots: Vec::new(),
            refused: None,
            may_lead: true,
            failure: None,
        }
    }

    /// The same, leading a fetch from now on.
    pub(super) fn leading(mut self, in_progress: &Rc<InProgressFetch>) -> Self {
        self.may_lead = false;
        self.join(in_progress, WaitTerms::Leads);
        self
    }

    /// Records that a fetch which would have answered it has failed: a request that saw that starts none, otherwise a dead
    /// upstream would be asked without a pause.
    pub(super) fn saw_failure(&mut self) {
        self.may_lead = false;
    }

    pub(super) fn may_lead(&self) -> bool {
        self.may_lead
    }

    /// Whether it waits for nothing yet.
    pub(super) fn is_new(&self) -> bool {
        self.slots.is_empty() && self.refused.is_none()
    }

    pub(super) fn is_at(&self, in_progress: &Rc<InProgressFetch>) -> bool {
        self.slots
            .iter()
            .any(|slot| Rc::ptr_eq(&slot.in_progress, in_progress))
    }

    /// Whether a fetch that it waits for has found this page at another node.
    pub(super) fn has_found(&self, entry: &Arc<Entry>) -> bool {
        let mut found = self
            .slots
            .iter()
            .filter_map(|slot| slot.in_progress.shared.entry());
        found.any(|found| Arc::ptr_eq(&found, entry))
    }

    pub(super) fn has_refused(&self, in_progress: &Rc<InProgressFetch>) -> bool {
        self.refused
            .as_ref()
            .is_some_and(|refused| Rc::ptr_eq(refused, in_progress))
    }

    /// Takes a slot; false where joining is closed.
    pub(super) fn join(&mut self, in_progress: &Rc<InProgressFetch>, terms: WaitTerms) -> bool {
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

    /// A slot that [`WaiterEvent::Head`] named.
    pub(super) fn slot(&self, index: usize) -> Option<&WaiterSlot> {
        self.slots.get(index)
    }

    /// Gives a slot another reader, and its own back.
    pub(super) fn exchange_reader(
        &mut self,
        index: usize,
        reader: FillReader,
    ) -> Option<FillReader> {
        let slot = self.slots.get_mut(index)?;
        Some(std::mem::replace(&mut slot.reader, reader))
    }

    /// What happens next. Cancel-safe.
    pub(super) async fn event(&mut self) -> WaiterEvent {
        let newest = self.slots.last().map(|slot| Rc::clone(&slot.in_progress));
        // Made before anything is checked: it receives all later notifications.
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
                return Poll::Ready(WaiterEvent::Left);
            }
            changed.as_mut().poll(cx).map(|()| WaiterEvent::Changed)
        })
        .await
    }

    /// Acts on the verdict about a head; returns itself if it continues to wait. `coded`: a coded reader of the same page.
    pub(super) fn take(
        mut self,
        index: usize,
        judged: &HeadVerdict,
        coded: Option<FillReader>,
    ) -> Option<Self> {
        match judged {
            HeadVerdict::Give => {
                let slot = self.slots.swap_remove(index);
                let fetched = Fetched::Fill {
                    reader: slot.reader,
                    coded,
                    outcome: slot.in_progress.store_outcome.get(),
                    collapsed: slot.terms != WaitTerms::Leads,
                };
                self.finish(Ok(fetched));
                return None;
            }
            HeadVerdict::HitForPass => {
                self.finish(Ok(Fetched::HitForPass));
                return None;
            }
            HeadVerdict::Refuse => self.refused = Some(self.slots.remove(index).in_progress),
            HeadVerdict::Failed(failure) => {
                self.saw_failure();
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

    /// Ends the wait of a client that has gone.
    pub(super) fn leave(self) {
        let slots = self.slots.into_iter();
        // All readers have gone before anybody looks how many there are.
        let fetches: Vec<Rc<InProgressFetch>> = slots.map(|slot| slot.in_progress).collect();
        for in_progress in fetches {
            in_progress.left.notify_waiters();
        }
    }

    /// Ends the wait.
    pub(super) fn finish(self, result: Result<Fetched, FillError>) {
        let _ = self.reply.send(result);
    }
}

/// Whether a fetch ended only because it had no waiters any more: this says nothing about the upstream.
pub(super) fn is_given_up(in_progress: &InProgressFetch, failure: FillError) -> bool {
    failure == FillError::Aborted && in_progress.born.get() == NOT_SENT
}

/// How long the waiters on other threads wait behind a head for the rest, which they then get in one piece: PHP has most often
/// printed all of a page before its head leaves.
const AT_ONCE: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests;
