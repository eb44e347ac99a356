//! Request coalescing: one fetch for each response. Who wants it joins the fetch in progress, or starts one.
//!
//! At most one request per key is at the upstream; one more when a purge has doomed the first, or when it has fallen
//! silent. A request joins no fetch that was touched by a purge which came before the request did. By RFC 9111 it gets a response
//! only if it selects it; otherwise it is forwarded on its own (section 4).

use std::rc::Rc;
use std::sync::Arc;

use galley_cache::entry::{Entry, EntryKind};
use galley_cache::fill::{self, FillError, FillHead, FillSharing, FillWriter};
use galley_cache::key::Key;
use galley_cache::purge_table::{Touch, Touched};
use galley_policy::decide::{Decision, Validity, decide};
use galley_policy::outcome::PassWhy;
use galley_policy::site::VaryPolicy;
use galley_policy::storable::SharedWith;
use galley_policy::time::Tick;
use galley_policy::vary::Selecting;
use http::header::HeaderMap;
use tokio::sync::oneshot;

use super::compress::EncodedBody;
use super::entry_parts::scopes;
use super::in_progress::{
    Approach, For, HeadVerdict, InProgressFetch, Wait, WaitTerms, WaiterEvent, WaiterSlot,
};
use super::revalidate::{self, When};
use super::rfc9111::variants;
use super::store::WINDOW;
use super::waiters::NOT_SENT;
use super::{Composed, FetchWorker, PageOrder};

/// A request that is to start a fetch: under which key, and the silent one whose place its own takes.
struct ToLead {
    wait: Wait,
    place: Key,
    overtaken: Option<Rc<InProgressFetch>>,
}

impl FetchWorker {
    pub(super) async fn page(
        self: Rc<Self>,
        order: Box<PageOrder>,
        since: Option<Tick>,
        reply: oneshot::Sender<Result<Composed, FillError>>,
    ) {
        let mut wait = Wait::new(reply);
        if since.is_some_and(|since| self.has_failed_since(&order, since)) {
            wait.saw_failure();
        }
        let Some(ToLead {
            wait,
            place,
            overtaken,
        }) = self.attend(&order, wait).await
        else {
            return;
        };
        let (flight, writer) = self.take_off(&order, place, overtaken.as_deref());
        let wait = wait.leading(&flight);
        if let Some(overtaken) = overtaken {
            overtaken.give_way(&order.site.name);
        }
        // The fetch outlives the wait: what was requested is kept also when its client has gone.
        let composing = async {
            tokio::join!(
                Box::pin(self.lead(&order, &flight, writer, For::Visitors)),
                self.attend(&order, wait)
            )
        };
        flight.gather(composing).await;
    }

    /// Fetches a response again in the background, where nobody does so already.
    pub(super) async fn refresh(self: Rc<Self>, order: PageOrder, when: When) {
        let place = self.place(&order);
        let under_way = self.flights.borrow().get(&place).map(Rc::clone);
        let overtaken = under_way.filter(|flight| !flight.fill.has_ended());
        // One that a purge has doomed does not hold up the next.
        let is_busy = overtaken.as_ref().is_some_and(|flight| {
            !flight.is_silent() && touched(flight, &order, None) != Touched::Yes
        });
        let is_wanted = match when {
            When::Stale => self.usable(&order).is_none(),
            When::Early => self.has_room(order.pool) && self.is_ending(&place),
        };
        if is_busy || !is_wanted || self.failed_lately(&order) {
            return;
        }
        let (flight, writer) = self.take_off(&order, place, overtaken.as_deref());
        if let Some(overtaken) = overtaken {
            overtaken.give_way(&order.site.name);
        }
        let composing = Box::pin(self.lead(&order, &flight, writer, For::Later));
        flight.gather(composing).await;
    }

    /// The key under which requests like this one are fetched, as far as is known now.
    pub(super) fn place(&self, order: &PageOrder) -> Key {
        match order.storage().vary {
            VaryPolicy::CoveredByKey => order.key.clone(),
            VaryPolicy::Variants => {
                variants::place(&self.memory, &order.key, &order.ask.request.fields)
            }
        }
    }

    /// An entry that was stored since the order was sent and settles it.
    fn usable(&self, order: &PageOrder) -> Option<Arc<Entry>> {
        let mut entry = self.memory.get(order.key.bytes())?;
        if entry.kind == EntryKind::Varies {
            entry = variants::find(&self.memory, &entry, &order.ask.request.fields)?;
        }
        let is_held = order
            .held
            .as_ref()
            .is_some_and(|held| Arc::ptr_eq(held, &entry));
        let validity = order.site.epochs.prove_waiting(&entry);
        let stored = revalidate::stored(&entry, validity, entry.age(self.clock.tick()));
        let decision = decide(&order.facts, &order.site.rules, stored.as_ref());
        let settles = matches!(
            decision,
            Decision::Hit | Decision::HitAndRefresh | Decision::Pass(PassWhy::Remembered)
        );
        (settles && !is_held && validity == Validity::Valid).then_some(entry)
    }

    /// Waits until a fetch has a head to give, and joins those that appear meanwhile. What it gives back is to start one.
    async fn attend(&self, order: &PageOrder, mut wait: Wait) -> Option<ToLead> {
        loop {
            if let Some(entry) = self.usable(order) {
                wait.answer(Ok(match entry.kind {
                    EntryKind::Page => Composed::Entry(entry),
                    EntryKind::HitForPass | EntryKind::Varies => Composed::HitForPass,
                }));
                return None;
            }
            let place = self.place(order);
            match self.approach(order, &place, &mut wait) {
                Approach::Lead(overtaken) if wait.may_lead() => {
                    return Some(ToLead {
                        wait,
                        place,
                        overtaken,
                    });
                }
                // What it waited for elsewhere may still answer.
                Approach::Lead(_) if wait.is_new() => {
                    wait.answer(Err(FillError::Aborted));
                    return None;
                }
                Approach::Refused => {
                    wait.answer(Err(FillError::Overload));
                    return None;
                }
                Approach::Wait | Approach::Lead(_) => {}
            }
            let (index, head) = match wait.event().await {
                WaiterEvent::Came(index, head) => (index, head),
                WaiterEvent::Changed => continue,
                WaiterEvent::Left => {
                    wait.leave();
                    return None;
                }
            };
            let judged = wait.seat(index).map_or(HeadVerdict::Refuse, |seat| {
                self.judge(seat, order, &place, &head)
            });
            let coded = match (&judged, &head) {
                (HeadVerdict::Give, Ok(head)) => {
                    self.code_for(&order.site, &order.facts, &mut wait, (index, head))
                }
                _ => EncodedBody::default(),
            };
            let Some(waits_on) = wait.take(index, &judged, coded.reader) else {
                if let Some(coder) = coded.coder {
                    Box::pin(coder.run()).await;
                }
                return None;
            };
            wait = waits_on;
        }
    }

    /// Looks at the fetch in progress, and takes a seat where there is one.
    fn approach(&self, order: &PageOrder, place: &Key, wait: &mut Wait) -> Approach {
        let under_way = self.flights.borrow().get(place).map(Rc::clone);
        // It is removed in the same breath in which it ends; one that was not was given up in a panic.
        let Some(flight) = under_way
            .filter(|flight| !order.facts.directives().no_cache && !flight.fill.has_ended())
        else {
            return Approach::Lead(None);
        };
        if wait.has_refused(&flight) {
            return Approach::Lead(None);
        }
        let is_silent = flight.is_silent();
        let may_come = !(is_silent && flight.fill.has_head());
        if may_come && !wait.is_at(&flight) {
            let ticket = match touched(&flight, order, None) {
                Touched::No => WaitTerms::Joined,
                Touched::OnlyTags => WaitTerms::ToProve,
                Touched::Yes => return Approach::Lead(None),
            };
            if !is_silent && wait.is_new() && flight.crowd.readers() >= order.site.flights.waiters {
                return Approach::Refused;
            }
            if !wait.sit(&flight, ticket) {
                return Approach::Lead(None);
            }
            self.hurry(order, &flight);
        }
        if is_silent {
            Approach::Lead(Some(flight))
        } else {
            Approach::Wait
        }
    }

    /// What the head of a seat's fetch is to the request that waits.
    fn judge(
        &self,
        seat: &WaiterSlot,
        order: &PageOrder,
        place: &Key,
        head: &Result<Arc<FillHead>, FillError>,
    ) -> HeadVerdict {
        let head = match (head, seat.ticket) {
            // The reader of one that may not be stored tells why, and the request is forwarded as it is.
            (Ok(_), WaitTerms::Own)
            | (Err(FillError::Unstorable(_)), WaitTerms::Own | WaitTerms::Joined) => {
                return HeadVerdict::Give;
            }
            // What it was for is looked for again.
            (Err(_), WaitTerms::ToProve) => return HeadVerdict::Refuse,
            (Err(failure), _) => return HeadVerdict::Failed(*failure),
            (Ok(head), _) => head,
        };
        let FillSharing::Shared { life, tags } = &head.share else {
            return HeadVerdict::Whole;
        };
        let is_purged = seat.ticket == WaitTerms::ToProve
            && touched(&seat.flight, order, Some(tags)) != Touched::No;
        if is_purged {
            return HeadVerdict::Refuse;
        }
        if order.storage().vary == VaryPolicy::CoveredByKey {
            return HeadVerdict::Give;
        }
        let names = variants::names(&head.fields);
        let selecting = Selecting::new(&names);
        let ours = selecting.of(variants::lines(&order.ask.request.fields));
        if ours.is_none() || ours != selecting.of(variants::lines(&seat.flight.sent)) {
            return if self.place(order) == *place {
                HeadVerdict::Whole
            } else {
                HeadVerdict::Refuse
            };
        }
        let is_for_all = !seat.flight.is_confined.get()
            && life.fresh > life.initial_age
            && may_have(order, &head.fields);
        if is_for_all {
            HeadVerdict::Give
        } else {
            HeadVerdict::Whole
        }
    }

    /// Enters a fetch into the table. No await may lie between the look at the table and this.
    fn take_off(
        &self,
        order: &PageOrder,
        place: Key,
        overtaken: Option<&InProgressFetch>,
    ) -> (Rc<InProgressFetch>, FillWriter) {
        let (writer, fill) = fill::fill(WINDOW, Some(self.memory.keep()));
        let sent = match order.storage().vary {
            VaryPolicy::CoveredByKey => Vec::new(),
            VaryPolicy::Variants => order.ask.request.fields.clone(),
        };
        let limits = &order.site.flights;
        let flight = Rc::new(InProgressFetch::new(fill, sent, limits, overtaken));
        self.enter(place, &flight);
        (flight, writer)
    }

    /// Lets requests for a key find a fetch.
    pub(super) fn enter(&self, place: Key, flight: &Rc<InProgressFetch>) {
        let mut flights = self.flights.borrow_mut();
        if flights.insert(place.clone(), Rc::clone(flight)).is_none() {
            self.under_way.begins(&place);
        }
        self.under_way.gathers(&place, &flight.crowd);
        flight.places.borrow_mut().push(place);
    }

    /// Takes a fetch that has ended out of the table.
    pub(super) fn land(&self, flight: &Rc<InProgressFetch>) {
        let mut flights = self.flights.borrow_mut();
        for place in flight.places.take() {
            if flights
                .get(&place)
                .is_some_and(|now| Rc::ptr_eq(now, flight))
            {
                flights.remove(&place);
                self.under_way.lands(&place);
            }
        }
    }
}

/// Whether a response with these fields may answer a request that carries credentials.
fn may_have(order: &PageOrder, fields: &HeaderMap) -> bool {
    !order.facts.has_authorization()
        || SharedWith::of(fields, &order.site.rules) == SharedWith::Everyone
}

fn touched(flight: &InProgressFetch, order: &PageOrder, tags: Option<&[u64]>) -> Touched {
    let born = flight.born.get();
    if born == NOT_SENT {
        return Touched::No;
    }
    let scopes = scopes(&order.facts, Vec::new());
    let touch = Touch {
        tags,
        ..scopes.touch()
    };
    order.site.epochs.newer_than(born, touch)
}
