//! Fetches for sites without a preset: RFC 9111 unbent.
//!
//! As with composed pages, at most one request for one variant is at the upstream and each flight notes the purge counter
//! as it was before its request left. What differs: a request goes up as the client sent it, so that an answer which may
//! not be stored is given to the one who asked, and those who waited ask for themselves (§4, collapsed requests); what is
//! stored and stale is asked about with its own validators (§4.3); variants are told apart by what the response names.

mod freshen;
mod join;
mod learn;
mod receive;
pub mod search;
pub mod variants;

use std::rc::Rc;
use std::sync::Arc;

use galley_rules::decide::{Decision, decide};
use galley_rules::forward;
use galley_rules::outcome::PassWhy;
use galley_rules::purge;
use galley_rules::storable::SharedWith;
use galley_rules::vary::Selecting;
use galley_store::entry::{Entry, Kind, Scopes};
use galley_store::epochs::{Touch, Touched, Validity};
use galley_store::fill::{self, Failure, FillHead, FillWriter, Share};
use galley_store::key::Key;
use http::StatusCode;
use http::header::HeaderMap;
use tokio::sync::oneshot;

use super::flight::{
    Approach, Event, Flight, For, Judged, NOT_SENT, Seat, Ticket, Wait, is_given_up,
};
use super::live::Coded;
use super::page::unkept;
use super::passage::{AHEAD, Passage};
use super::renewal::{self, When};
use super::{Composed, Desk, PageOrder, publish, way};

pub use learn::{Learn, Lesson};
pub(super) use learn::{Pupil, publish_own};

/// A wish for what a site without a preset may have stored.
pub struct Fetch {
    /// What is wanted, with the request as the client sent it, less its conditions.
    pub page: PageOrder,
    /// What is stored and may not answer as it is.
    pub held: Option<Arc<Entry>>,
}

/// A request that is to ask: where its answer belongs, and the silent flight whose place its own takes.
struct ToFly {
    wait: Wait,
    place: Key,
    overtaken: Option<Rc<Flight>>,
}

impl Desk {
    pub(super) async fn fetch(
        self: Rc<Self>,
        fetch: Box<Fetch>,
        reply: oneshot::Sender<Result<Composed, Failure>>,
    ) {
        let Some(ToFly {
            wait,
            place,
            overtaken,
        }) = self.await_others(&fetch, Wait::new(reply)).await
        else {
            return;
        };
        let (flight, writer) = self.take_off_for(&fetch, place, overtaken.as_deref());
        let wait = wait.leading(&flight);
        if let Some(overtaken) = overtaken {
            overtaken.give_way(&fetch.page.site.name);
        }
        tokio::join!(
            Box::pin(self.fly(&fetch, &flight, writer, For::Visitors)),
            self.await_others(&fetch, wait)
        );
    }

    /// A fetch in the background, for an entry that has answered.
    pub(super) async fn refetch(self: Rc<Self>, fetch: Fetch, when: When) {
        let place = self.place(&fetch);
        let under_way = self.fetches.borrow().get(&place).map(Rc::clone);
        let overtaken = under_way.filter(|flight| !flight.fill.has_ended());
        let is_busy = overtaken.as_ref().is_some_and(|flight| !flight.is_silent());
        let is_wanted = match when {
            When::Stale => true,
            When::Early => self.has_room(fetch.page.pool),
        };
        if is_busy || !is_wanted || self.stored_since(&fetch).is_some() {
            return;
        }
        let (flight, writer) = self.take_off_for(&fetch, place, overtaken.as_deref());
        if let Some(overtaken) = overtaken {
            overtaken.give_way(&fetch.page.site.name);
        }
        self.fly(&fetch, &flight, writer, For::Later).await;
    }

    /// Waits until a flight has a head to give, and joins those that appear meanwhile. What it gives back is to lead one.
    async fn await_others(&self, fetch: &Fetch, mut wait: Wait) -> Option<ToFly> {
        loop {
            let place = self.place(fetch);
            if let Some(entry) = self.stored_since(fetch) {
                wait.answer(Ok(match entry.kind {
                    Kind::Page => Composed::Entry(entry),
                    Kind::TravelsWhole | Kind::Varies => Composed::TravelsWhole,
                }));
                return None;
            }
            match self.look_at(fetch, &place, &mut wait) {
                Approach::Lead(overtaken) if wait.may_lead() => {
                    return Some(ToFly {
                        wait,
                        place,
                        overtaken,
                    });
                }
                Approach::Whole if wait.may_lead() => {
                    wait.answer(Ok(Composed::TravelsWhole));
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
            let judged = wait.seat(index).map_or(Judged::Refuse, |seat| {
                self.judge_head(seat, fetch, &place, &head)
            });
            let coded = match (&judged, &head) {
                (Judged::Give, Ok(head)) => self.code_for(
                    &fetch.page.site,
                    &fetch.page.facts,
                    &mut wait,
                    (index, head),
                ),
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

    fn place(&self, fetch: &Fetch) -> Key {
        variants::place(
            &self.memory,
            &fetch.page.key,
            &fetch.page.ask.request.fields,
        )
    }

    /// What was stored since the order was sent and may answer it.
    fn stored_since(&self, fetch: &Fetch) -> Option<Arc<Entry>> {
        let page = &fetch.page;
        let mut entry = self.memory.get(page.key.bytes())?;
        if entry.kind == Kind::Varies {
            entry = variants::find(&self.memory, &entry, &page.ask.request.fields)?;
        }
        let is_held = fetch
            .held
            .as_ref()
            .is_some_and(|held| Arc::ptr_eq(held, &entry));
        let validity = page.site.epochs.prove_waiting(&entry);
        let stored = renewal::stored(&entry, validity, entry.age(self.clock.tick()));
        let decision = decide(&page.facts, &page.site.rules, stored.as_ref());
        let usable = !is_held
            && validity == Validity::Valid
            && matches!(
                decision,
                Decision::Hit | Decision::HitAndRefresh | Decision::Pass(PassWhy::Remembered)
            );
        usable.then_some(entry)
    }

    /// Looks at the flight under way, and takes a seat where there is one.
    fn look_at(&self, fetch: &Fetch, place: &Key, wait: &mut Wait) -> Approach {
        let page = &fetch.page;
        let under_way = self.fetches.borrow().get(place).map(Rc::clone);
        let Some(flight) = under_way
            .filter(|flight| !page.facts.directives().no_cache && !flight.fill.has_ended())
        else {
            return Approach::Lead(None);
        };
        if wait.has_refused(&flight) {
            return Approach::Lead(None);
        }
        let is_silent = flight.is_silent();
        let may_come = !(is_silent && flight.fill.has_head());
        if may_come && !wait.is_at(&flight) {
            if touched(&flight, page, None) == Touched::Yes {
                return Approach::Lead(None);
            }
            if !is_silent && wait.is_new() && flight.crowd.readers() >= page.site.flights.waiters {
                return Approach::Refused;
            }
            if !wait.sit(&flight, Ticket::Joined) {
                return Approach::Whole;
            }
            self.hurry(page, &flight);
        }
        if is_silent {
            Approach::Lead(Some(flight))
        } else {
            Approach::Wait
        }
    }

    /// What the head of a seat's flight is to the request that waits.
    fn judge_head(
        &self,
        seat: &Seat,
        fetch: &Fetch,
        place: &Key,
        head: &Result<Arc<FillHead>, Failure>,
    ) -> Judged {
        let page = &fetch.page;
        let head = match (head, seat.ticket) {
            (Ok(_) | Err(Failure::Unstorable(_)), Ticket::Own) => {
                return Judged::Give;
            }
            (Err(Failure::Unstorable(_)), _) => return Judged::Whole,
            (Err(failure), _) => return Judged::Failed(*failure),
            (Ok(head), _) => head,
        };
        let Share::Shared { life, tags } = &head.share else {
            return Judged::Whole;
        };
        if touched(&seat.flight, page, Some(tags)) != Touched::No {
            return Judged::Refuse;
        }
        let names = variants::names(&head.fields);
        let selecting = Selecting::new(&names);
        let ours = selecting.of(variants::lines(&page.ask.request.fields));
        if ours.is_none() || ours != selecting.of(variants::lines(&seat.flight.sent)) {
            return if self.place(fetch) == *place {
                Judged::Whole
            } else {
                Judged::Refuse
            };
        }
        if seat.flight.is_confined.get()
            || life.fresh <= life.initial_age
            || !may_have(page, &head.fields)
        {
            return Judged::Whole;
        }
        Judged::Give
    }

    /// Enters a flight into the table. No await may lie between the look at the table and this.
    fn take_off_for(
        &self,
        fetch: &Fetch,
        place: Key,
        overtaken: Option<&Flight>,
    ) -> (Rc<Flight>, FillWriter) {
        let (writer, fill) = fill::fill(WINDOW, Some(self.memory.keep()));
        let page = &fetch.page;
        let sent = page.ask.request.fields.clone();
        let flight = Rc::new(Flight::new(fill, sent, &page.site.flights, overtaken));
        self.fetches.borrow_mut().insert(place, Rc::clone(&flight));
        (flight, writer)
    }

    /// Asks the upstream.
    async fn fly(&self, fetch: &Fetch, flight: &Rc<Flight>, mut writer: FillWriter, whom: For) {
        fetch.page.site.tally.begun();
        let mut passage = Passage::new(&self.spools, AHEAD);
        let asked = self
            .ask(fetch, flight, (&mut writer, &mut passage), whom)
            .await;
        match asked {
            // Stored before it lands, so that who looks finds one or the other.
            Ok(kept) if passage.is_clear() => {
                let finished = writer.finish();
                if let Some(kept) = kept {
                    self.keep_variants(&fetch.page, flight, kept, finished)
                        .await;
                }
            }
            // Too large for memory, and taken slowly: nobody else waits for that.
            Ok(kept) => {
                if let Some(kept) = kept {
                    self.keep_variants(&fetch.page, flight, kept, unkept())
                        .await;
                }
                self.land_fetch(flight);
                passage.end(writer).await;
            }
            Err(failure) => {
                if !is_given_up(flight, failure) {
                    fetch.page.site.tally.failed();
                }
                self.land_fetch(flight);
                writer.fail(failure);
            }
        }
        self.land_fetch(flight);
    }

    /// Asks with the stored validators where there are any; without them again when a purge made the 304 worthless.
    async fn ask(
        &self,
        fetch: &Fetch,
        flight: &Rc<Flight>,
        (writer, passage): (&mut FillWriter, &mut Passage),
        whom: For,
    ) -> Result<Option<receive::Kept>, Failure> {
        let page = &fetch.page;
        let epochs = &page.site.epochs;
        let mut held = fetch.held.as_ref();
        loop {
            let mut asking = page.ask.without_body();
            held = held.filter(|held| epochs.prove_waiting(held) != Validity::Purged);
            let asked_about =
                held.filter(|held| forward::revalidate(&mut asking.request, &held.fields));
            let sending = || flight.asks(epochs.current(), self.clock.tick());
            let place = self.place_for(page, flight, whom).await?;
            let sent_up = self.pool(page.pool)?.send(place, &asking, &sending);
            let incoming = flight.watch(sent_up).await?;
            flight.beat();
            passage.goes(way(&page.site, &page.facts, &incoming.fields));
            let delay = flight.delay(self.clock.tick());
            let orders = purge::from_answer(&incoming.fields, &page.site.rules);
            publish(&page.site, &orders).given(&page.site).await;
            let kept = match (incoming.status, asked_about) {
                (StatusCode::NOT_MODIFIED, Some(asked_about)) => {
                    if epochs.prove_waiting(asked_about) == Validity::Purged {
                        held = None;
                        continue;
                    }
                    let news = freshen::News { incoming, delay };
                    self.freshen(page, flight, writer, asked_about, news)
                        .await
                        .map(|()| None)
                }
                // Nobody asked for it.
                (StatusCode::NOT_MODIFIED, None) => Err(Failure::Malformed),
                _ => {
                    let news = freshen::News { incoming, delay };
                    self.receive(page, flight, (writer, passage), news).await
                }
            };
            // Once more at the end: what was announced may take effect only then.
            publish(&page.site, &orders).given(&page.site).await;
            return kept;
        }
    }

    fn land_fetch(&self, flight: &Rc<Flight>) {
        self.fetches
            .borrow_mut()
            .retain(|_, now| !Rc::ptr_eq(now, flight));
    }
}

/// Whether a response with these fields may answer a request that carries credentials.
fn may_have(page: &PageOrder, fields: &HeaderMap) -> bool {
    !page.facts.has_authorization()
        || SharedWith::of(fields, &page.site.rules) == SharedWith::Everyone
}

fn touched(flight: &Flight, page: &PageOrder, tags: Option<&[u64]>) -> Touched {
    let born = flight.born.get();
    if born == NOT_SENT {
        return Touched::No;
    }
    let scopes = scopes(&page.facts, Vec::new());
    let touch = Touch {
        tags,
        ..scopes.touch()
    };
    page.site.epochs.newer_than(born, touch)
}

fn scopes(facts: &galley_rules::facts::Facts, tags: Vec<u64>) -> Scopes {
    let mut path_query = Vec::new();
    facts.path_query(&mut path_query);
    Scopes {
        host: facts.host_id(),
        url: facts.url_id(),
        path_query: path_query.into(),
        tags: tags.into(),
    }
}

/// What one slow reader may lag behind once a body is too large to be kept.
const WINDOW: usize = 1024 * 1024;
