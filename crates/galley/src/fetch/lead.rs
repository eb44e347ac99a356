//! One fetch of one response: asking the upstream, and judging what comes. Who asks is decided in [`super::join`].
//!
//! Each fetch notes the purge sequence number as it was immediately before its request was sent (`born`); what was purged later is
//! not in its response. What comes behind that of a later fetch is not stored.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use galley_cache::fill::{FillError, FillHead, FillSharing, FillWriter, Finished};
use galley_cache::purge_table::Validity;
use galley_policy::forward;
use galley_policy::outcome::NotStored;
use galley_policy::purge::{self, Purge};
use galley_policy::site::ValidationPolicy;
use galley_policy::storable::{self, Lifetime, ResponseHead, Storability};
use galley_policy::tags::Tags;
use galley_policy::time::Tick;
use http::StatusCode;
use http::header;

use super::hit_for_pass::Unkept;
use super::in_progress::{For, InProgressFetch, is_given_up};
use super::rfc9111::HeadUpdate;
use super::spool::{AHEAD, ResponseSpool};
use super::store::ToStore;
use super::{FetchSite, FetchWorker, PageOrder, acknowledged, publish, relay, revalidate, way};
use crate::durable::Recorder;
use crate::upstream::IncomingResponse;

impl FetchWorker {
    /// Asks the upstream.
    pub(super) async fn lead(
        self: &Rc<Self>,
        order: &PageOrder,
        flight: &Rc<InProgressFetch>,
        mut writer: FillWriter,
        whom: For,
    ) {
        order.site.tally.begun();
        let mut passage = ResponseSpool::new(&self.spools, AHEAD);
        let fetched = self
            .ask(order, flight, (&mut writer, &mut passage), whom)
            .await;
        match fetched {
            // Stored before it is taken out of the table, so that who looks finds one or the other.
            Ok(kept) if passage.is_clear() => {
                let finished = writer.finish();
                if let Some(kept) = kept {
                    self.keep(order, flight, kept, finished).await;
                }
            }
            // Too large for memory, and received slowly: nobody else waits for that.
            Ok(kept) => {
                if let Some(kept) = kept {
                    let not_in_memory = Finished {
                        body: None,
                        length: 0,
                    };
                    self.keep(order, flight, kept, not_in_memory).await;
                }
                self.land(flight);
                passage.end(writer).await;
            }
            Err(failure) => {
                if !is_given_up(flight, failure) {
                    self.note_failure(order, failure);
                }
                self.land(flight);
                writer.fail(failure);
            }
        }
        self.land(flight);
    }

    /// Asks with the validators of the held response where there are any; without them again when a purge made the 304 worthless.
    async fn ask(
        &self,
        order: &PageOrder,
        flight: &Rc<InProgressFetch>,
        (writer, passage): (&mut FillWriter, &mut ResponseSpool),
        whom: For,
    ) -> Result<Option<ToStore>, FillError> {
        let epochs = &order.site.epochs;
        let mut held = order.held.as_ref();
        loop {
            held = held.filter(|held| epochs.prove_waiting(held) != Validity::Purged);
            let conditional = held.and_then(|held| {
                let mut ask = order.ask.without_body();
                forward::revalidate(&mut ask.request, &held.fields).then_some((ask, held))
            });
            let (ask, validated) = match &conditional {
                Some((ask, held)) => (ask, Some(*held)),
                None => (&order.ask, None),
            };
            let sending = || flight.asks(epochs.current(), self.clock.tick());
            let place = self.place_for(order, flight, whom).await?;
            let sent_up = self.pool(order.pool)?.send(place, ask, &sending);
            let incoming = flight.watch(sent_up).await?;
            flight.beat();
            passage.goes(way(&order.site, &order.facts, &incoming.fields));
            let orders = purge::from_response(&incoming.fields, &order.site.rules);
            let names = acknowledged::names(&incoming.fields);
            order.site.cron.read_appointments(&incoming.fields);
            publish(&order.site, &orders).given(&order.site).await;
            let kept = match (incoming.status, validated) {
                (StatusCode::NOT_MODIFIED, Some(held_now)) => {
                    if epochs.prove_waiting(held_now) == Validity::Purged {
                        held = None;
                        continue;
                    }
                    let delay = flight.delay(self.clock.tick());
                    let news = HeadUpdate { incoming, delay };
                    let freshened = self.freshen(order, flight, writer, held_now, news).await;
                    freshened.map(|()| None)
                }
                // A 304 answers a conditional request only, and this one was not.
                (StatusCode::NOT_MODIFIED, None)
                    if order.storage().validation == ValidationPolicy::Origin =>
                {
                    Err(FillError::Malformed)
                }
                _ => {
                    let received = Received {
                        incoming,
                        orders: &orders,
                    };
                    self.receive(order, flight, (writer, passage), received)
                        .await
                }
            };
            // Once more at the end: PHP may commit what it announced only then.
            if publish(&order.site, &orders).given(&order.site).await {
                order.site.heard.note(names);
            }
            return kept;
        }
    }

    /// Judges a response by its head, and gives it to everybody or to the one who asked.
    async fn receive(
        &self,
        order: &PageOrder,
        flight: &Rc<InProgressFetch>,
        (writer, passage): (&mut FillWriter, &mut ResponseSpool),
        received: Received<'_>,
    ) -> Result<Option<ToStore>, FillError> {
        let Received {
            mut incoming,
            orders,
        } = received;
        // Asked for plain, an upstream may code all the same: with the WordPress preset what is judged and stored is the plain body.
        let readable = match order.storage().validation {
            ValidationPolicy::Galley => {
                incoming.decode(self.memory.budget(), self.memory.max_object())
            }
            ValidationPolicy::Origin => Ok(()),
        };
        let answered = ResponseHead {
            status: incoming.status,
            fields: &incoming.fields,
            response_delay: flight.delay(self.clock.tick()),
            now: self.clock.wall(),
        };
        let seed = revalidate::seed(&order.key);
        let verdict = match readable {
            Ok(()) => storable::judge_spread(&order.facts, &answered, &order.site.rules, seed),
            Err(why) => Storability::Skip(why),
        };
        let why = match verdict {
            Storability::Store(life) => match self.keepable(order, flight, &incoming, life) {
                Some(kept) => {
                    return self
                        .fill(order, flight, (writer, passage), incoming, kept)
                        .await;
                }
                None => NotStored::Vary,
            },
            Storability::Skip(why) => why,
        };
        if order.storage().validation == ValidationPolicy::Origin {
            return self
                .hand_over(order, flight, (writer, passage), incoming, why)
                .await;
        }
        if readable.is_err() && is_passing(incoming.status, why) {
            self.note_not_kept(order, why);
            return Err(FillError::Unstorable(why));
        }
        if incoming.status.is_server_error() {
            self.note_not_kept(order, why);
            self.rest_refreshes(order);
            pour(order, flight, (writer, passage), incoming).await?;
            return Ok(None);
        }
        let unkept = Unkept {
            why,
            status: incoming.status,
            fields: &incoming.fields,
        };
        self.remember_whole(order, flight, &unkept);
        tokio::task::spawn_local(see_off(incoming, Arc::clone(&order.site), orders.to_vec()));
        Err(FillError::Unstorable(why))
    }

    /// Gives a response that may not be stored to the client whose request it answers.
    async fn hand_over(
        &self,
        order: &PageOrder,
        flight: &InProgressFetch,
        (writer, passage): (&mut FillWriter, &mut ResponseSpool),
        mut incoming: IncomingResponse,
        why: NotStored,
    ) -> Result<Option<ToStore>, FillError> {
        // An error is no property of the address, and what credentials brought says nothing about other requests.
        let is_of_address = !incoming.status.is_server_error() && !order.facts.has_authorization();
        if is_of_address {
            self.note_not_kept(order, why);
            let unkept = Unkept {
                why,
                status: incoming.status,
                fields: &incoming.fields,
            };
            self.remember_whole(order, flight, &unkept);
        }
        writer.head(FillHead {
            status: incoming.status,
            fields: self.private_head(&incoming.fields),
            share: FillSharing::Private,
            length: incoming.length(),
        });
        let beat = || flight.beat();
        let mut recorder = Recorder::off();
        relay(&mut incoming, writer, passage, &mut recorder, &beat).await?;
        Ok(None)
    }

    /// Notes for who asks why; the next request for the page is made like this one.
    pub(super) fn note_not_kept(&self, order: &PageOrder, why: NotStored) {
        tracing::debug!(
            site = order.site.name,
            why = why.word(),
            "a page was not stored"
        );
        let now = self.clock.tick();
        order.site.tally.not_kept(&order.key, why, now);
    }

    fn note_failure(&self, order: &PageOrder, failure: FillError) {
        if matches!(failure, FillError::Unstorable(_)) {
            return;
        }
        order.site.tally.failed();
        self.rest_refreshes(order);
    }

    /// Leaves the page alone for a moment: what stands for an error now will not be a page at the next visit either.
    pub(super) fn rest_refreshes(&self, order: &PageOrder) {
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

/// A response whose head has come.
struct Received<'r> {
    incoming: IncomingResponse,
    /// The purges that it carries.
    orders: &'r [Purge],
}

/// Streams an upstream's own error page to everyone who waits. It was composed from what is in the key alone, so it holds
/// nothing personal; cookies it might set are taken out all the same.
async fn pour(
    order: &PageOrder,
    flight: &InProgressFetch,
    (writer, passage): (&mut FillWriter, &mut ResponseSpool),
    mut incoming: IncomingResponse,
) -> Result<(), FillError> {
    let mut fields =
        storable::stored_fields(&incoming.fields, &order.site.rules, order.facts.rule());
    fields.remove(header::SET_COOKIE);
    let compressing = &order.site.compressing;
    compressing.announce(incoming.status, &mut fields, incoming.length());
    writer.head(FillHead {
        status: incoming.status,
        fields,
        share: FillSharing::Shared {
            life: Lifetime::default(),
            // What it was composed of is not known: any newer order may concern it.
            tags: Tags::everything().ids,
        },
        length: incoming.length(),
    });
    let beat = || flight.beat();
    let mut recorder = Recorder::off();
    relay(&mut incoming, writer, passage, &mut recorder, &beat).await
}

/// Lets PHP end an answer that nobody gets: who leaves in the middle has it stop at its next output, before plugins have
/// done what they do last. Not for long: what streams or is large is given up.
async fn see_off(mut incoming: IncomingResponse, site: Arc<FetchSite>, orders: Vec<Purge>) {
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

/// Bytes of an answer that nobody gets, read at most.
const LONGEST_REST: usize = 1024 * 1024;

/// How long an answer that nobody gets may go on.
const REST_TIME: Duration = Duration::from_secs(2);

/// How long a page whose refresh failed is left alone: long enough not to hammer a dead upstream with each visit.
const FAILED_PAUSE: Duration = Duration::from_secs(1);

/// Failed refreshes remembered at most.
const MOST_FAILED: usize = 10_000;
