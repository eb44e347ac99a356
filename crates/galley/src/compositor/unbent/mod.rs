//! Fetches for sites without a preset: RFC 9111 unbent.
//!
//! As with composed pages, at most one request for one variant is at the upstream and each flight notes the purge counter
//! as it was before its request left. What differs: a request goes up as the client sent it, so that an answer which may
//! not be stored is given to the one who asked, and those who waited ask for themselves (§4, collapsed requests); what is
//! stored and stale is asked about with its own validators (§4.3); variants are told apart by what the response names.

mod freshen;
mod learn;
mod receive;
pub mod variants;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use galley_rules::forward;
use galley_rules::lookup::{self, Plan};
use galley_rules::purge;
use galley_rules::storable::SharedWith;
use galley_rules::vary::Selecting;
use galley_store::entry::{Entry, Kind, Scopes};
use galley_store::epochs::{Standing, Touch, Touched};
use galley_store::fill::{self, Failure, Fill, FillReader, FillWriter, Share};
use galley_store::key::Key;
use http::StatusCode;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::sync::oneshot;

use super::{Composed, Desk, PageOrder, publish};

pub use learn::{Learn, Lesson};
pub(super) use learn::{Pupil, publish_own};

/// A wish for what a site without a preset may have stored.
pub struct Fetch {
    /// What is wanted, with the request as the client sent it, less its conditions.
    pub page: PageOrder,
    /// What is stored and may not answer as it is.
    pub held: Option<Arc<Entry>>,
}

/// A fetch under way.
pub(super) struct Flight {
    fill: Arc<Fill>,
    /// The purge counter before the upstream was asked; [`NOT_SENT`] until then.
    born: Cell<u64>,
    /// Whether its head holds what only the one who asked may have.
    is_confined: Cell<bool>,
    /// What its request said, for those who would join.
    sent: Vec<(HeaderName, HeaderValue)>,
}

enum Joining {
    Joined(FillReader),
    Lead,
    LookAgain,
    /// What it brings is not for others.
    Whole,
}

impl Desk {
    pub(super) async fn fetch(
        self: Rc<Self>,
        fetch: Fetch,
        reply: oneshot::Sender<Result<Composed, Failure>>,
    ) {
        loop {
            let place = self.place(&fetch);
            if let Some(entry) = self.stored_since(&fetch) {
                let _ = reply.send(Ok(match entry.kind {
                    Kind::Page => Composed::Entry(entry),
                    Kind::TravelsWhole | Kind::Varies => Composed::TravelsWhole,
                }));
                return;
            }
            let flight = self.fetches.borrow().get(&place).map(Rc::clone);
            match self.join(flight, &fetch, &place).await {
                Joining::Joined(reader) => {
                    let _ = reply.send(Ok(Composed::Fill {
                        reader,
                        collapsed: true,
                    }));
                    return;
                }
                Joining::Whole => {
                    let _ = reply.send(Ok(Composed::TravelsWhole));
                    return;
                }
                Joining::LookAgain => {}
                Joining::Lead => return self.fly(fetch, place, Some(reply)).await,
            }
        }
    }

    /// A fetch in the background, for a stale entry that has answered.
    pub(super) async fn refetch(self: Rc<Self>, fetch: Fetch) {
        let place = self.place(&fetch);
        let under_way = self.fetches.borrow().contains_key(&place);
        if under_way || self.stored_since(&fetch).is_some() {
            return;
        }
        self.fly(fetch, place, None).await;
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
        let standing = lookup::Standing {
            age: entry.age(self.clock.tick()),
            life: &entry.life,
            soft_purged: false,
            fields: &entry.fields,
        };
        let usable = !is_held
            && page.site.epochs.prove_waiting(&entry) == Standing::Alive
            && may_have(page, &entry.fields)
            && lookup::plan(&page.facts, Some(&standing)) == Plan::Fresh;
        usable.then_some(entry)
    }

    async fn join(&self, flight: Option<Rc<Flight>>, fetch: &Fetch, place: &Key) -> Joining {
        let page = &fetch.page;
        let Some(flight) = flight.filter(|_| !page.facts.directives().no_cache) else {
            return Joining::Lead;
        };
        if flight.fill.has_ended() {
            return Joining::Lead;
        }
        let Some(mut reader) = flight.fill.reader() else {
            return Joining::Whole;
        };
        if touched(&flight, page, None) == Touched::Yes {
            return self.fly_unless_replaced(&flight, place);
        }
        let head = match reader.head().await {
            Ok(head) => head,
            Err(Failure::Unstorable(_)) => return Joining::Whole,
            // Whoever waited is told as the first one is.
            Err(_) => return Joining::Joined(reader),
        };
        let Share::Shared { life, tags } = &head.share else {
            return Joining::Whole;
        };
        if touched(&flight, page, Some(tags)) != Touched::No {
            return self.fly_unless_replaced(&flight, place);
        }
        let names = variants::names(&head.fields);
        let selecting = Selecting::new(&names);
        let ours = selecting.of(variants::lines(&page.ask.request.fields));
        if ours.is_none() || ours != selecting.of(variants::lines(&flight.sent)) {
            return if self.place(fetch) == *place {
                Joining::Whole
            } else {
                Joining::LookAgain
            };
        }
        if flight.is_confined.get()
            || life.fresh <= life.initial_age
            || !may_have(page, &head.fields)
        {
            return Joining::Whole;
        }
        Joining::Joined(reader)
    }

    fn fly_unless_replaced(&self, flight: &Rc<Flight>, place: &Key) -> Joining {
        match self.fetches.borrow().get(place) {
            Some(now) if !Rc::ptr_eq(now, flight) => Joining::LookAgain,
            _ => Joining::Lead,
        }
    }

    /// Asks the upstream. No await lies between the look at the table and the entry into it.
    async fn fly(
        &self,
        mut fetch: Fetch,
        place: Key,
        reply: Option<oneshot::Sender<Result<Composed, Failure>>>,
    ) {
        let (mut writer, fill) = fill::fill(WINDOW, Some(self.memory.keep()));
        let flight = Rc::new(Flight {
            fill: Arc::clone(&fill),
            born: Cell::new(NOT_SENT),
            is_confined: Cell::new(false),
            sent: fetch.page.ask.request.fields.clone(),
        });
        self.fetches.borrow_mut().insert(place, Rc::clone(&flight));
        if let (Some(reply), Some(reader)) = (reply, fill.reader()) {
            let _ = reply.send(Ok(Composed::Fill {
                reader,
                collapsed: false,
            }));
        }
        drop(fill);
        fetch.page.site.tally.begun();
        match self.ask(&mut fetch, &flight, &mut writer).await {
            // Stored before it lands, so that who looks finds one or the other.
            Ok(Some(kept)) => {
                let finished = writer.finish();
                self.keep_variants(&fetch.page, &flight, kept, finished)
                    .await;
            }
            Ok(None) => {
                writer.finish();
            }
            Err(failure) => {
                fetch.page.site.tally.failed();
                self.land_fetch(&flight);
                writer.fail(failure);
            }
        }
        self.land_fetch(&flight);
    }

    /// Asks with the stored validators where there are any; without them again when a purge made the 304 worthless.
    async fn ask(
        &self,
        fetch: &mut Fetch,
        flight: &Rc<Flight>,
        writer: &mut FillWriter,
    ) -> Result<Option<receive::Kept>, Failure> {
        let plain = fetch.page.ask.request.fields.clone();
        loop {
            let page = &mut fetch.page;
            page.ask.request.fields.clone_from(&plain);
            let epochs = &page.site.epochs;
            let held = fetch
                .held
                .clone()
                .filter(|held| epochs.prove_waiting(held) != Standing::Dead);
            let asked_about =
                held.filter(|held| forward::revalidate(&mut page.ask.request, &held.fields));
            let page = &fetch.page;
            let sent_at = Cell::new(self.clock.tick());
            let sending = || {
                flight.born.set(page.site.epochs.current());
                sent_at.set(self.clock.tick());
            };
            let incoming = self.pool(page.pool)?.send(&page.ask, &sending).await?;
            let delay = self.clock.tick().since(sent_at.get());
            let orders = purge::from_answer(&incoming.fields, &page.site.rules);
            publish(&page.site, &orders).given(&page.site).await;
            let kept = match (incoming.status, &asked_about) {
                (StatusCode::NOT_MODIFIED, Some(held)) => {
                    if page.site.epochs.prove_waiting(held) == Standing::Dead {
                        fetch.held = None;
                        continue;
                    }
                    let news = freshen::News { incoming, delay };
                    self.freshen(page, flight, writer, held, news)
                        .await
                        .map(|()| None)
                }
                // Nobody asked for it.
                (StatusCode::NOT_MODIFIED, None) => Err(Failure::Malformed),
                _ => self.receive(page, flight, writer, incoming, delay).await,
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

/// `born` of a flight whose request is not sent.
const NOT_SENT: u64 = u64::MAX;

/// What one slow reader may lag behind once a body is too large to be kept.
const WINDOW: usize = 1024 * 1024;
