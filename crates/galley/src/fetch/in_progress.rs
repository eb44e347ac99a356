//! A composition under way, and how requests wait for it.
//!
//! A `InProgressFetch` is one request at the upstream with the fill that it writes. Those who want the same page take a seat here
//! and get a reader when a head has come. A flight that shows no sign of life for its patience has lost its place:
//! the next request leads one of its own, and who waits for the first waits for both and takes what comes first. Time in the
//! queue for a place at the upstream does not count: a second request would only stand behind the first.
//!
//! Each flight that takes the place of a silent one has twice its patience, so that an upstream that is slow is not asked
//! over and over for what it is busy with.

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
use galley_policy::time::Tick;
use http::header::{HeaderName, HeaderValue};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::order::Composed;
use super::site::FetchLimits;
use super::waiters::{FetchProgress, NOT_SENT, Waiters};
use crate::upstream::QueueTurn;

/// A page being composed.
pub(super) struct InProgressFetch {
    pub(super) fill: Arc<Fill>,
    /// The purge counter before the upstream was asked; [`NOT_SENT`] until then: nothing ordered so far can be missing.
    pub(super) born: Cell<u64>,
    /// What its request said, for those who would join; empty where the key says all.
    pub(super) sent: Vec<(HeaderName, HeaderValue)>,
    /// Whether its head holds what only the one who asked may have.
    pub(super) is_confined: Cell<bool>,
    /// The keys under which it is in the table.
    pub(super) places: RefCell<Vec<Key>>,
    /// When something last went to the upstream or came from it; `None` until its request is sent.
    alive_at: Cell<Option<Instant>>,
    patience: Duration,
    /// Told when it has fallen silent, and when another has taken its place.
    changed: Notify,
    /// Told when somebody who waited has left.
    left: Notify,
    /// Where its request stands in the queue for a place.
    pub(super) turn: QueueTurn,
    /// When its request was sent.
    asked_at: Cell<Tick>,
    is_overtaken: Cell<bool>,
    /// What other threads may know of it.
    pub(super) crowd: Arc<Waiters>,
    /// What came of it, where that was stored.
    stored: RefCell<Option<Arc<Entry>>>,
    /// Told when its head has come and more may follow.
    headed: Notify,
}

impl InProgressFetch {
    /// A flight whose request is not sent yet. `overtaken`: the silent one whose place it takes.
    pub(super) fn new(
        fill: Arc<Fill>,
        sent: Vec<(HeaderName, HeaderValue)>,
        limits: &FetchLimits,
        overtaken: Option<&Self>,
    ) -> Self {
        Self {
            crowd: Arc::new(Waiters::new(Arc::clone(&fill), limits.waiters)),
            stored: RefCell::default(),
            headed: Notify::new(),
            fill,
            born: Cell::new(NOT_SENT),
            sent,
            is_confined: Cell::new(false),
            places: RefCell::default(),
            alive_at: Cell::new(None),
            patience: overtaken.map_or(limits.lock_age, |other| other.patience.saturating_mul(2)),
            changed: Notify::new(),
            left: Notify::new(),
            turn: QueueTurn::default(),
            asked_at: Cell::new(Tick(0)),
            is_overtaken: Cell::new(false),
        }
    }

    /// Waits until all who waited for it have left. Cancel-safe.
    pub(super) async fn deserted(&self) {
        loop {
            let mut left = pin!(self.left.notified());
            // Listens from now on, so that nobody leaves unheard between the look and the wait.
            left.as_mut().enable();
            if self.crowd.readers() == 0 {
                return;
            }
            left.await;
        }
    }

    /// Notes that its request is about to be sent, with the purge counter of this moment.
    pub(super) fn asks(&self, born: u64, now: Tick) {
        self.born.set(born);
        self.asked_at.set(now);
        self.beat();
        self.crowd.open(born, now);
    }

    /// How long ago its request was sent.
    pub(super) fn delay(&self, now: Tick) -> Duration {
        now.since(self.asked_at.get())
    }

    /// Notes that the upstream has sent something.
    pub(super) fn beat(&self) {
        self.alive_at.set(Some(Instant::now()));
    }

    /// Whether it has lost its place to the next request.
    pub(super) fn is_silent(&self) -> bool {
        self.alive_at
            .get()
            .is_some_and(|at| at.elapsed() >= self.patience)
    }

    /// Waits for `head`, and tells those who wait when the flight falls silent meanwhile. Cancel-safe if `head` is.
    pub(super) async fn watch<T>(&self, head: impl Future<Output = T>) -> T {
        let mut head = pin!(head);
        let mut alarm = pin!(tokio::time::sleep(self.patience));
        let mut told = None;
        poll_fn(|cx| {
            if let Poll::Ready(done) = head.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            let Some(at) = self.alive_at.get().filter(|at| told != Some(*at)) else {
                return Poll::Pending;
            };
            let due = at + self.patience;
            if alarm.deadline() != due {
                alarm.as_mut().reset(due);
            }
            if alarm.as_mut().poll(cx).is_ready() {
                told = Some(at);
                self.crowd.tell(FetchProgress::Lingers);
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
    }

    /// Runs what composes it to its end, and tells those who wait on other threads. A page that is there at once they get whole;
    /// of one that takes its time they get what there is.
    pub(super) async fn gather(&self, composing: impl Future) {
        let mut composing = pin!(composing);
        let lingers = async {
            self.headed.notified().await;
            tokio::time::sleep(AT_ONCE).await;
        };
        tokio::select! {
            biased;
            _ = &mut composing => {}
            () = lingers => {
                self.crowd.tell(FetchProgress::Lingers);
                composing.await;
            }
        }
        self.tell_end();
    }

    fn tell_end(&self) {
        let stored = self.stored.take();
        self.crowd
            .tell(stored.map_or(FetchProgress::Ended, FetchProgress::Stored));
    }

    /// Notes that another has taken its place, and tells those who wait for it.
    pub(super) fn give_way(&self, site: &str) {
        tracing::debug!(site, "a silent composition has lost its place");
        self.is_overtaken.set(true);
        self.crowd.tell(FetchProgress::Lingers);
        self.changed.notify_waiters();
    }

    /// Whether what it brought may take the place of `resident`: a flight that gave way must not undo what was composed
    /// since its request was sent.
    pub(super) fn may_replace(&self, resident: Option<&Entry>) -> bool {
        !self.is_overtaken.get()
            || resident.is_none_or(|resident| resident.stored_at <= self.asked_at.get())
    }
}

impl Drop for InProgressFetch {
    /// However it ended: nobody waits for what is not there any more.
    fn drop(&mut self) {
        self.tell_end();
    }
}

/// One way to the answer of a request that waits.
pub(super) struct WaiterSlot {
    pub(super) flight: Rc<InProgressFetch>,
    pub(super) reader: FillReader,
    pub(super) ticket: WaitTerms,
}

/// For whom a flight is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// Those who wait for it: not sent yet, it ends when they all have left.
    Visitors,
    /// Those who come later.
    Later,
}

/// On what terms a request waits for a flight.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitTerms {
    /// It leads it.
    Own,
    /// It may have what comes.
    Joined,
    /// Orders came after the flight's request was sent; what it brings has to be compared with them.
    ToProve,
}

/// A request that waits, with all flights that may answer it, the newest last.
pub(super) struct Wait {
    reply: oneshot::Sender<Result<Composed, FillError>>,
    seats: Vec<WaiterSlot>,
    /// A flight that was found not to answer it.
    refused: Option<Rc<InProgressFetch>>,
    /// Whether it may lead a flight: once, and not after it saw one fail.
    may_lead: bool,
    failure: Option<FillError>,
}

/// What a request that waits met.
pub(super) enum WaiterEvent {
    /// The head of this seat, or that there is none.
    Came(usize, Result<Arc<FillHead>, FillError>),
    /// A flight fell silent, or another took its place.
    Changed,
    /// The client has gone.
    Left,
}

/// What is to be done with a head that came.
pub(super) enum HeadVerdict {
    /// It answers.
    Give,
    /// It does not; another flight may.
    Refuse,
    /// It is for one request alone: each goes its own way.
    Whole,
    /// It failed.
    Failed(FillError),
}

/// What a look at the flight under way says to a request.
pub(super) enum Approach {
    /// It has a seat.
    Wait,
    /// It is to lead a flight, in the place of this silent one if there is one.
    Lead(Option<Rc<InProgressFetch>>),
    /// Too many wait already.
    Refused,
}

impl Wait {
    pub(super) fn new(reply: oneshot::Sender<Result<Composed, FillError>>) -> Self {
        Self {
            reply,
            seats: Vec::new(),
            refused: None,
            may_lead: true,
            failure: None,
        }
    }

    /// The same, leading a flight from now on.
    pub(super) fn leading(mut self, flight: &Rc<InProgressFetch>) -> Self {
        self.may_lead = false;
        self.sit(flight, WaitTerms::Own);
        self
    }

    /// Notes that a flight which would have answered it has failed: who saw that leads none, else a dead upstream would be asked
    /// without a pause.
    pub(super) fn saw_failure(&mut self) {
        self.may_lead = false;
    }

    pub(super) fn may_lead(&self) -> bool {
        self.may_lead
    }

    /// Whether it waits for nothing yet.
    pub(super) fn is_new(&self) -> bool {
        self.seats.is_empty() && self.refused.is_none()
    }

    pub(super) fn is_at(&self, flight: &Rc<InProgressFetch>) -> bool {
        self.seats
            .iter()
            .any(|seat| Rc::ptr_eq(&seat.flight, flight))
    }

    pub(super) fn has_refused(&self, flight: &Rc<InProgressFetch>) -> bool {
        self.refused
            .as_ref()
            .is_some_and(|refused| Rc::ptr_eq(refused, flight))
    }

    /// Takes a seat; false where joining is closed.
    pub(super) fn sit(&mut self, flight: &Rc<InProgressFetch>, ticket: WaitTerms) -> bool {
        let Some(reader) = flight.fill.reader() else {
            return false;
        };
        self.seats.push(WaiterSlot {
            flight: Rc::clone(flight),
            reader,
            ticket,
        });
        true
    }

    /// A seat that [`WaiterEvent::Came`] named.
    pub(super) fn seat(&self, index: usize) -> Option<&WaiterSlot> {
        self.seats.get(index)
    }

    /// Gives a seat another reader, and its own back.
    pub(super) fn exchange_reader(
        &mut self,
        index: usize,
        reader: FillReader,
    ) -> Option<FillReader> {
        let seat = self.seats.get_mut(index)?;
        Some(std::mem::replace(&mut seat.reader, reader))
    }

    /// What happens next. Cancel-safe.
    pub(super) async fn event(&mut self) -> WaiterEvent {
        let newest = self.seats.last().map(|seat| Rc::clone(&seat.flight));
        // Made before anything is looked at: it hears what is told from now on.
        let mut changed = pin!(async {
            match &newest {
                Some(flight) => flight.changed.notified().await,
                None => std::future::pending().await,
            }
        });
        poll_fn(|cx| {
            for (index, seat) in self.seats.iter_mut().enumerate().rev() {
                if let Poll::Ready(head) = seat.reader.poll_head(cx) {
                    return Poll::Ready(WaiterEvent::Came(index, head));
                }
            }
            if self.reply.poll_closed(cx).is_ready() {
                return Poll::Ready(WaiterEvent::Left);
            }
            changed.as_mut().poll(cx).map(|()| WaiterEvent::Changed)
        })
        .await
    }

    /// Acts on what a head was judged; gives itself back where it goes on waiting. `coded`: a reader of the same page, coded.
    pub(super) fn take(
        mut self,
        index: usize,
        judged: &HeadVerdict,
        coded: Option<FillReader>,
    ) -> Option<Self> {
        match judged {
            HeadVerdict::Give => {
                let seat = self.seats.swap_remove(index);
                let composed = Composed::Fill {
                    reader: seat.reader,
                    coded,
                    collapsed: seat.ticket != WaitTerms::Own,
                };
                self.answer(Ok(composed));
                return None;
            }
            HeadVerdict::Whole => {
                self.answer(Ok(Composed::HitForPass));
                return None;
            }
            HeadVerdict::Refuse => self.refused = Some(self.seats.remove(index).flight),
            HeadVerdict::Failed(failure) => {
                self.saw_failure();
                self.failure = Some(*failure);
                self.seats.remove(index);
            }
        }
        if self.seats.is_empty() && !self.may_lead {
            let failure = self.failure.unwrap_or(FillError::Aborted);
            self.answer(Err(failure));
            return None;
        }
        Some(self)
    }

    /// Ends the wait of a client that has gone.
    pub(super) fn leave(self) {
        let seats = self.seats.into_iter();
        // All readers have gone before anybody looks how many there are.
        let flights: Vec<Rc<InProgressFetch>> = seats.map(|seat| seat.flight).collect();
        for flight in flights {
            flight.left.notify_waiters();
        }
    }

    /// Ends the wait.
    pub(super) fn answer(self, result: Result<Composed, FillError>) {
        let _ = self.reply.send(result);
    }
}

/// Whether a flight ended only because nobody waited for it any more: it says nothing about the upstream.
pub(super) fn is_given_up(flight: &InProgressFetch, failure: FillError) -> bool {
    failure == FillError::Aborted && flight.born.get() == NOT_SENT
}

/// How long those who wait on other threads wait behind a head for the rest, which they then get in one piece: PHP has most often
/// printed all of a page before its head leaves.
const AT_ONCE: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests;
