//! One composition per page: who wants it joins the flight under way, or leads one.
//!
//! At most one request per key is at the upstream; one more when a purge has doomed the first, or when it has fallen
//! silent. A request joins no flight that an order has touched which came before the request did.

use std::rc::Rc;
use std::sync::Arc;

use galley_rules::time::Tick;
use galley_store::entry::{Entry, Kind};
use galley_store::epochs::{Touch, Touched, Validity};
use galley_store::fill::{self, Failure, FillHead, FillWriter, Share};
use tokio::sync::oneshot;

use super::flight::{Approach, Event, Flight, For, Judged, NOT_SENT, Seat, Ticket, Wait};
use super::live::Coded;
use super::page::{WINDOW, scopes};
use super::renewal::When;
use super::{Composed, Desk, PageOrder};

/// A request that is to lead, and the silent flight whose place its own takes.
type ToLead = (Wait, Option<Rc<Flight>>);

impl Desk {
    pub(super) async fn page(
        self: Rc<Self>,
        order: Box<PageOrder>,
        since: Option<Tick>,
        reply: oneshot::Sender<Result<Composed, Failure>>,
    ) {
        let mut wait = Wait::new(reply);
        if since.is_some_and(|since| self.has_failed_since(&order, since)) {
            wait.saw_failure();
        }
        let Some((wait, overtaken)) = self.attend(&order, wait).await else {
            return;
        };
        let (flight, writer) = self.take_off(&order, overtaken.as_deref());
        let wait = wait.leading(&flight);
        if let Some(overtaken) = overtaken {
            overtaken.give_way(&order.site.name);
        }
        // The flight outlives the wait: what was asked for is kept also when its client has gone.
        let composing = async {
            tokio::join!(
                Box::pin(self.lead(&order, &flight, writer, For::Visitors)),
                self.attend(&order, wait)
            )
        };
        flight.gather(composing).await;
    }

    /// Composes a page anew in the background, where nobody does so already.
    pub(super) async fn refresh(self: Rc<Self>, order: PageOrder, when: When) {
        let under_way = self.flights.borrow().get(&order.key).map(Rc::clone);
        let overtaken = under_way.filter(|flight| !flight.fill.has_ended());
        // One that a purge has doomed does not hold up the next.
        let is_busy = overtaken.as_ref().is_some_and(|flight| {
            !flight.is_silent() && touched(flight, &order, None) != Touched::Yes
        });
        if is_busy || !self.is_wanted(&order, when) || self.failed_lately(&order) {
            return;
        }
        let (flight, writer) = self.take_off(&order, overtaken.as_deref());
        if let Some(overtaken) = overtaken {
            overtaken.give_way(&order.site.name);
        }
        let composing = Box::pin(self.lead(&order, &flight, writer, For::Later));
        flight.gather(composing).await;
    }

    fn is_wanted(&self, order: &PageOrder, when: When) -> bool {
        match when {
            When::Stale => self.usable(order).is_none(),
            When::Early => self.has_room(order.pool) && self.is_ending(&order.key),
        }
    }

    /// An entry that was stored since the order was sent and may answer as fresh.
    fn usable(&self, order: &PageOrder) -> Option<Arc<Entry>> {
        let entry = self.memory.get(order.key.bytes())?;
        let fresh = entry.age(self.clock.tick()) < entry.life.fresh;
        (fresh && order.site.epochs.prove_waiting(&entry) == Validity::Valid).then_some(entry)
    }

    /// Waits until a flight has a head to give, and joins those that appear meanwhile. What it gives back is to lead one.
    async fn attend(&self, order: &PageOrder, mut wait: Wait) -> Option<ToLead> {
        loop {
            if let Some(entry) = self.usable(order) {
                wait.answer(Ok(match entry.kind {
                    Kind::Page => Composed::Entry(entry),
                    Kind::TravelsWhole | Kind::Varies => Composed::TravelsWhole,
                }));
                return None;
            }
            match self.approach(order, &mut wait) {
                Approach::Lead(overtaken) if wait.may_lead() => return Some((wait, overtaken)),
                // What it waited for elsewhere may still answer.
                Approach::Lead(_) if wait.is_new() => {
                    wait.answer(Err(Failure::Aborted));
                    return None;
                }
                Approach::Refused => {
                    wait.answer(Err(Failure::Overload));
                    return None;
                }
                Approach::Wait | Approach::Lead(_) | Approach::Whole => {}
            }
            let (index, head) = match wait.event().await {
                Event::Came(index, head) => (index, head),
                Event::Changed => continue,
                Event::Left => {
                    wait.leave();
                    return None;
                }
            };
            let judged = wait
                .seat(index)
                .map_or(Judged::Refuse, |seat| judge(seat, order, &head));
            let coded = match (&judged, &head) {
                (Judged::Give, Ok(head)) => {
                    self.code_for(&order.site, &order.facts, &mut wait, (index, head))
                }
                _ => Coded::default(),
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

    /// Looks at the flight under way, and takes a seat where there is one.
    fn approach(&self, order: &PageOrder, wait: &mut Wait) -> Approach {
        let under_way = self.flights.borrow().get(&order.key).map(Rc::clone);
        // It lands in the same breath in which it ends; one that did not was given up in a panic.
        let Some(flight) = under_way.filter(|flight| !flight.fill.has_ended()) else {
            return Approach::Lead(None);
        };
        if wait.has_refused(&flight) {
            return Approach::Lead(None);
        }
        let is_silent = flight.is_silent();
        let may_come = !(is_silent && flight.fill.has_head());
        if may_come && !wait.is_at(&flight) {
            let ticket = match touched(&flight, order, None) {
                Touched::No => Ticket::Joined,
                Touched::OnlyTags => Ticket::ToProve,
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

    /// Enters a flight into the table. No await may lie between the look at the table and this.
    fn take_off(&self, order: &PageOrder, overtaken: Option<&Flight>) -> (Rc<Flight>, FillWriter) {
        let (writer, fill) = fill::fill(WINDOW, Some(self.memory.keep()));
        let limits = &order.site.flights;
        let flight = Rc::new(Flight::new(fill, Vec::new(), limits, overtaken));
        let replaced = self
            .flights
            .borrow_mut()
            .insert(order.key.clone(), Rc::clone(&flight));
        if replaced.is_none() {
            self.under_way.begins(&order.key);
        }
        self.under_way.gathers(&order.key, &flight.crowd);
        (flight, writer)
    }
}

/// What the head of a seat's flight is to the request that waits.
fn judge(seat: &Seat, order: &PageOrder, head: &Result<Arc<FillHead>, Failure>) -> Judged {
    match (head, seat.ticket) {
        (Ok(head), Ticket::ToProve) => match &head.share {
            Share::Shared { tags, .. }
                if touched(&seat.flight, order, Some(tags)) == Touched::No =>
            {
                Judged::Give
            }
            Share::Shared { .. } | Share::Private => Judged::Refuse,
        },
        // What it was for is looked for again.
        (Err(_), Ticket::ToProve) => Judged::Refuse,
        // The reader of one that may not be stored tells why, and the request goes up whole.
        (Ok(_) | Err(Failure::Unstorable(_)), _) => Judged::Give,
        (Err(failure), _) => Judged::Failed(*failure),
    }
}

fn touched(flight: &Flight, order: &PageOrder, tags: Option<&[u64]>) -> Touched {
    let born = flight.born.get();
    if born == NOT_SENT {
        return Touched::No;
    }
    let scopes = scopes(order, Vec::new());
    order.site.epochs.newer_than(
        born,
        Touch {
            tags,
            ..scopes.touch()
        },
    )
}
