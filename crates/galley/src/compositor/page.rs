//! One composition of one page: asking, streaming, storing. Who asks is decided in [`super::join`].
//!
//! Each flight notes the purge counter as it was immediately before its request was sent (`born`); what was ordered later is
//! not in its answer. What comes behind that of a later flight is not stored.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use galley_rules::outcome::NotStored;
use galley_rules::purge::{self, Order as Purge};
use galley_rules::storable::{self, Answered, Life, Verdict};
use galley_rules::tags::{self, Tags};
use galley_rules::time::Tick;
use galley_store::body::Body;
use galley_store::entry::{Entry, Kind, Parts, Scopes};
use galley_store::epochs::Validity;
use galley_store::fill::{Failure, FillHead, FillWriter, Finished, Share};
use galley_store::memory::NoRoom;
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderValue};

use super::flight::{Flight, For, is_given_up};
use super::marker::Unkept;
use super::passage::{AHEAD, Passage};
use super::{Desk, PageOrder, Site, heard, publish, relay, renewal, shelve, way};
use crate::codec::encode::PIECE;
use crate::durable::Recorder;
use crate::sys;
use crate::upstream::Incoming;

/// What a composition came to.
#[expect(
    clippy::large_enum_variant,
    reason = "one per composition, moved twice"
)]
enum Page {
    Storable {
        status: StatusCode,
        fields: HeaderMap,
        life: Life,
        tags: Tags,
        recorder: Recorder,
    },
    NotKept,
}

impl Desk {
    /// Asks the upstream.
    pub(super) async fn lead(
        &self,
        order: &PageOrder,
        flight: &Rc<Flight>,
        mut writer: FillWriter,
        whom: For,
    ) {
        order.site.tally.begun();
        let mut passage = Passage::new(&self.spools, AHEAD);
        let composed = self
            .compose(order, flight, (&mut writer, &mut passage), whom)
            .await;
        match composed {
            // Stored before it lands, so that who looks finds one or the other.
            Ok(page) if passage.is_clear() => {
                self.keep(order, flight, page, writer.finish()).await;
            }
            // Too large for memory, and taken slowly: nobody else waits for that.
            Ok(page) => {
                self.keep(order, flight, page, unkept()).await;
                self.land(order, flight);
                passage.end(writer).await;
            }
            Err(failure) => {
                if !is_given_up(flight, failure) {
                    self.note_failure(order, failure);
                }
                self.land(order, flight);
                writer.fail(failure);
            }
        }
        self.land(order, flight);
    }

    async fn compose(
        &self,
        order: &PageOrder,
        flight: &Flight,
        (writer, passage): (&mut FillWriter, &mut Passage),
        whom: For,
    ) -> Result<Page, Failure> {
        let place = self.place_for(order, flight, whom).await?;
        let sending = || flight.asks(order.site.epochs.current(), self.clock.tick());
        let sent_up = self.pool(order.pool)?.send(place, &order.ask, &sending);
        let mut incoming = flight.watch(sent_up).await?;
        flight.beat();
        passage.goes(way(&order.site, &order.facts, &incoming.fields));
        // Asked for plain, an upstream may code all the same: what is judged and stored is the plain body.
        let readable = incoming.decode(self.memory.budget(), self.memory.max_object());
        let answered = Answered {
            status: incoming.status,
            fields: &incoming.fields,
            response_delay: flight.delay(self.clock.tick()),
            now: self.clock.wall(),
        };
        let orders = purge::from_answer(&incoming.fields, &order.site.rules);
        let names = heard::names(&incoming.fields);
        order.site.cron.read_appointments(&incoming.fields);
        publish(&order.site, &orders).given(&order.site).await;
        let verdict = match readable {
            Ok(()) => {
                let seed = renewal::seed(&order.key);
                storable::judge_spread(&order.facts, &answered, &order.site.rules, seed)
            }
            Err(why) => Verdict::Skip(why),
        };
        let page = match verdict {
            Verdict::Store(life) => {
                self.fill(order, flight, (writer, passage), incoming, life)
                    .await
            }
            Verdict::Skip(why) if readable.is_err() && is_passing(incoming.status, why) => {
                self.note_not_kept(order, why);
                Err(Failure::Unstorable(why))
            }
            Verdict::Skip(why) if incoming.status.is_server_error() => {
                self.note_not_kept(order, why);
                self.rest_refreshes(order);
                pour(order, flight, (writer, passage), incoming).await
            }
            Verdict::Skip(why) => {
                let (status, fields) = (incoming.status, &incoming.fields);
                let unkept = Unkept {
                    why,
                    status,
                    fields,
                };
                self.remember_whole(order, flight, &unkept);
                tokio::task::spawn_local(see_off(
                    incoming,
                    Arc::clone(&order.site),
                    orders.clone(),
                ));
                Err(Failure::Unstorable(why))
            }
        };
        // Once more at the end: PHP may commit what it announced only then.
        publish(&order.site, &orders).given(&order.site).await;
        order.site.heard.note(names);
        page
    }

    /// Streams a storable answer to all readers.
    async fn fill(
        &self,
        order: &PageOrder,
        flight: &Flight,
        (writer, passage): (&mut FillWriter, &mut Passage),
        mut incoming: Incoming,
        life: Life,
    ) -> Result<Page, Failure> {
        let tags = tags::collect(&incoming.fields);
        let mut fields =
            storable::stored_fields(&incoming.fields, &order.site.rules, order.facts.rule());
        storable::browser_fields(&mut fields, &order.site.rules);
        self.date(&mut fields);
        let status = incoming.status;
        order
            .site
            .compressing
            .announce(status, &mut fields, incoming.length());
        writer.head(FillHead {
            status,
            fields: fields.clone(),
            share: Share::Shared {
                life,
                tags: tags.ids.clone(),
            },
            length: incoming.length(),
        });
        flight.shows_head();
        let parts = || self.parts(order, flight.born.get(), status, &fields, life, &tags);
        let length = incoming.length();
        let mut recorder = recorder(order, (status, &fields), length, parts);
        let beat = || flight.beat();
        relay(&mut incoming, (writer, passage), &mut recorder, &beat).await?;
        if incoming.ended_well() {
            Ok(Page::Storable {
                status,
                fields,
                life,
                tags,
                recorder,
            })
        } else {
            self.note_not_kept(order, NotStored::Incomplete);
            Ok(Page::NotKept)
        }
    }

    async fn keep(&self, order: &PageOrder, flight: &Flight, page: Page, finished: Finished) {
        let Page::Storable {
            status,
            mut fields,
            life,
            tags,
            recorder,
        } = page
        else {
            return;
        };
        if !flight.may_replace(self.memory.peek(order.key.bytes()).as_deref()) {
            return;
        }
        let Some(body) = finished.body else {
            if recorder.finish().await {
                return order.site.tally.stored();
            }
            // Too large for memory: it was streamed, and the next visitor's request need not try again.
            let unkept = Unkept {
                why: NotStored::TooLarge,
                status,
                fields: &fields,
            };
            return self.remember_whole(order, flight, &unkept);
        };
        let answered = Answered {
            status,
            fields: &fields,
            response_delay: Duration::ZERO,
            now: self.clock.wall(),
        };
        // It is read twice below.
        if body.bytes().len() > PIECE {
            sys::let_others_go();
        }
        if let Err(why) = storable::judge_body(&answered, &order.site.rules, body.bytes()) {
            self.rest_refreshes(order);
            return self.note_not_kept(order, why);
        }
        if !fields.contains_key(header::ETAG) {
            fields.insert(header::ETAG, strong_etag(body.bytes()));
        }
        let parts = self.parts(order, flight.born.get(), status, &fields, life, &tags);
        self.store(order, flight, Parts { body, ..parts });
    }

    /// An entry without its body.
    fn parts(
        &self,
        order: &PageOrder,
        born: u64,
        status: StatusCode,
        fields: &HeaderMap,
        life: Life,
        tags: &Tags,
    ) -> Parts {
        Parts {
            key: order.key.clone(),
            kind: Kind::Page,
            status,
            fields: fields.clone(),
            body: Body::default(),
            stored_at: self.clock.tick(),
            life,
            scopes: scopes(order, tags.ids.clone()),
            tags: tags.names.clone(),
            born,
        }
    }

    pub(super) fn store(&self, order: &PageOrder, flight: &Flight, parts: Parts) {
        if !flight.may_replace(self.memory.peek(order.key.bytes()).as_deref()) {
            return;
        }
        let kind = parts.kind;
        let entry = Arc::new(self.inheriting(&order.site, Entry::new(parts)));
        if order.site.epochs.prove_waiting(&entry) == Validity::Purged {
            return self.note_not_kept(order, NotStored::Purged);
        }
        let outcome = self.memory.put(Arc::clone(&entry));
        shelve(&order.site, &entry, outcome);
        match outcome {
            Ok(()) if kind == Kind::Page => {
                flight.stores(&entry);
                order.site.tally.stored();
            }
            Err(NoRoom::TooLarge | NoRoom::Full) if order.site.shelved.is_some() => {
                order.site.tally.stored();
            }
            // What was born later took its place: nothing is missing.
            Ok(()) | Err(NoRoom::Superseded) => {}
            Err(NoRoom::TooLarge) => self.note_not_kept(order, NotStored::TooLarge),
            Err(NoRoom::Full) => self.note_not_kept(order, NotStored::Memory),
        }
    }

    /// A new entry with the codings of the one in its place, where the body is the same: it is not coded again.
    pub(super) fn inheriting(&self, site: &Site, entry: Entry) -> Entry {
        match self.memory.peek(entry.key.bytes()) {
            Some(resident) => site.compressing.inherit(entry, &resident),
            None => entry,
        }
    }

    /// Notes for who asks why; the next request for the page is made like this one.
    fn note_not_kept(&self, order: &PageOrder, why: NotStored) {
        tracing::debug!(
            site = order.site.name,
            why = why.word(),
            "a page was not stored"
        );
        let now = self.clock.tick();
        order.site.tally.not_kept(&order.key, why, now);
    }

    fn date(&self, fields: &mut HeaderMap) {
        // RFC 9110 §6.6.1: who receives an answer without Date and has a clock adds it.
        if !fields.contains_key(header::DATE) {
            let mut text = Vec::with_capacity(29);
            galley_rules::time::write_date(self.clock.wall(), &mut text);
            if let Ok(value) = HeaderValue::from_bytes(&text) {
                fields.insert(header::DATE, value);
            }
        }
    }

    fn land(&self, order: &PageOrder, flight: &Rc<Flight>) {
        let mut flights = self.flights.borrow_mut();
        if flights
            .get(&order.key)
            .is_some_and(|now| Rc::ptr_eq(now, flight))
        {
            flights.remove(&order.key);
            self.under_way.lands(&order.key);
        }
    }

    fn note_failure(&self, order: &PageOrder, failure: Failure) {
        if matches!(failure, Failure::Unstorable(_)) {
            return;
        }
        order.site.tally.failed();
        self.rest_refreshes(order);
    }

    /// Leaves the page alone for a moment: what stands for an error now will not be a page at the next visit either.
    fn rest_refreshes(&self, order: &PageOrder) {
        let mut failed = self.failed.borrow_mut();
        if failed.len() >= MOST_FAILED {
            failed.clear();
        }
        failed.insert(order.key.clone(), self.clock.tick());
    }

    pub(super) fn failed_lately(&self, order: &PageOrder) -> bool {
        let failed = self.failed.borrow();
        let since = |when: &Tick| self.clock.tick().since(*when);
        failed
            .get(&order.key)
            .is_some_and(|when| since(when) < FAILED_PAUSE)
    }

    /// Whether the page has failed after `since`.
    pub(super) fn has_failed_since(&self, order: &PageOrder, since: Tick) -> bool {
        let failed = self.failed.borrow();
        failed.get(&order.key).is_some_and(|when| *when > since)
    }
}

/// Streams an upstream's own error page to everyone who waits. It was composed from what is in the key alone, so it holds
/// nothing personal; cookies it might set are taken out all the same.
async fn pour(
    order: &PageOrder,
    flight: &Flight,
    (writer, passage): (&mut FillWriter, &mut Passage),
    mut incoming: Incoming,
) -> Result<Page, Failure> {
    let mut fields =
        storable::stored_fields(&incoming.fields, &order.site.rules, order.facts.rule());
    fields.remove(header::SET_COOKIE);
    let compressing = &order.site.compressing;
    compressing.announce(incoming.status, &mut fields, incoming.length());
    writer.head(FillHead {
        status: incoming.status,
        fields,
        share: Share::Shared {
            life: Life::default(),
            // What it was composed of is not known: any newer order may concern it.
            tags: Tags::everything().ids,
        },
        length: incoming.length(),
    });
    let beat = || flight.beat();
    let mut recorder = Recorder::off();
    relay(&mut incoming, (writer, passage), &mut recorder, &beat).await?;
    Ok(Page::NotKept)
}

/// Lets PHP end an answer that nobody gets: who leaves in the middle has it stop at its next output, before plugins have
/// done what they do last. Not for long: what streams or is large is given up.
async fn see_off(mut incoming: Incoming, site: Arc<Site>, orders: Vec<Purge>) {
    let rest = async {
        let mut length = 0;
        while let Ok(Some(piece)) = incoming.chunk().await {
            length += piece.len();
            if length > LONGEST_REST {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(REST_TIME, rest).await;
    publish(&site, &orders).given(&site).await;
}

/// Whether what could not be read says nothing about the next answer of this address, which is asked for again.
fn is_passing(status: StatusCode, why: NotStored) -> bool {
    status.is_server_error() || why == NotStored::Memory
}

/// Ready to write to the disk what the memory has no room for; not a page that is judged by its end.
fn recorder(
    order: &PageOrder,
    (status, fields): (StatusCode, &HeaderMap),
    length: Option<u64>,
    parts: impl FnOnce() -> Parts,
) -> Recorder {
    match &order.site.shelved {
        Some(shelved) if !storable::is_judged_whole(status, fields, &order.site.rules) => {
            Recorder::ready(shelved.clone(), Entry::new(parts()), length)
        }
        _ => Recorder::off(),
    }
}

pub(super) fn scopes(order: &PageOrder, tags: Vec<u64>) -> Scopes {
    let mut path_query = Vec::new();
    order.facts.path_query(&mut path_query);
    Scopes {
        host: order.facts.host_id(),
        url: order.facts.url_id(),
        path_query: path_query.into(),
        tags: tags.into(),
    }
}

/// A strong validator from the body: it names these bytes in this coding (RFC 9110 §8.8.3).
fn strong_etag(body: &[u8]) -> HeaderValue {
    use std::hash::Hasher;
    let mut hasher = siphasher::sip128::SipHasher24::new();
    hasher.write(body);
    let sum = siphasher::sip128::Hasher128::finish128(&hasher).as_u128();
    let mut text = [b'"'; 34];
    let digits = text.iter_mut().skip(1).take(32);
    for (place, digit) in (0..32).rev().zip(digits) {
        let value = ((sum >> (4 * place)) & 0xf) as u8;
        *digit = match value {
            0..=9 => b'0' + value,
            _ => b'a' + value - 10,
        };
    }
    HeaderValue::from_bytes(&text).unwrap_or(HeaderValue::from_static("\"\""))
}

/// A body that is not in memory.
pub(super) fn unkept() -> Finished {
    Finished {
        body: None,
        length: 0,
    }
}

/// What one slow reader may lag behind in a fill that is a window, where no passage sees to it.
pub(super) const WINDOW: usize = 1024 * 1024;

/// Bytes of an answer that nobody gets, read at most.
const LONGEST_REST: usize = 1024 * 1024;

/// How long an answer that nobody gets may go on.
const REST_TIME: Duration = Duration::from_secs(2);

/// How long a page whose refresh failed is left alone: long enough not to hammer a dead upstream with each visit.
const FAILED_PAUSE: Duration = Duration::from_secs(1);

/// Failed refreshes remembered at most.
const MOST_FAILED: usize = 10_000;
