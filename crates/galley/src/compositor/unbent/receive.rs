//! An answer that comes in for a fetch: to everyone and into the store, or to the one who asked.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use galley_rules::forward::BY_GALLEY;
use galley_rules::outcome::NotStored;
use galley_rules::purge::PURGE_FIELDS;
use galley_rules::storable::{self, Answered, Life, Verdict};
use galley_rules::tags::{self, Tags};
use galley_store::body::Body;
use galley_store::entry::{Entry, Kind, Parts};
use galley_store::epochs::Validity;
use galley_store::fill::{Failure, FillHead, FillWriter, Finished, Share};
use galley_store::key::Key;
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::freshen::News;
use super::{Flight, scopes, variants};
use crate::compositor::passage::Passage;
use crate::compositor::{Desk, PageOrder, relay, renewal, shelve};
use crate::durable::Recorder;
use crate::upstream::Incoming;

/// What is to be stored when the body is whole.
pub(super) struct Kept {
    status: StatusCode,
    fields: HeaderMap,
    life: Life,
    tags: Tags,
    names: Vec<HeaderName>,
    selections: Vec<Vec<u8>>,
    recorder: Recorder,
}

impl Desk {
    pub(super) async fn receive(
        &self,
        page: &PageOrder,
        flight: &Rc<Flight>,
        (writer, passage): (&mut FillWriter, &mut Passage),
        news: News,
    ) -> Result<Option<Kept>, Failure> {
        let News {
            incoming,
            delay: response_delay,
        } = news;
        let answered = Answered {
            status: incoming.status,
            fields: &incoming.fields,
            response_delay,
            now: self.clock.wall(),
        };
        let seed = renewal::seed(&page.key);
        let verdict = storable::judge_spread(&page.facts, &answered, &page.site.rules, seed);
        let life = match verdict {
            Verdict::Store(life) => life,
            Verdict::Skip(why) => {
                let to = (writer, passage);
                return self.hand_over(page, flight, to, incoming, why).await;
            }
        };
        let rules = &page.site.rules;
        let mut fields = storable::stored_fields(&incoming.fields, rules, page.facts.rule());
        let names = variants::names(&fields);
        let Some(selections) = variants::selections(&names, &flight.sent, &fields) else {
            return self
                .hand_over(page, flight, (writer, passage), incoming, NotStored::Vary)
                .await;
        };
        self.finish_head(&mut fields);
        let compressing = &page.site.compressing;
        compressing.announce(incoming.status, &mut fields, incoming.length());
        let tags = tags::collect(&incoming.fields);
        if !names.is_empty() {
            // Those who come now find their own place, and this flight under its variant's.
            self.note_variants(page, flight, &names, &selections);
        }
        let mut head = fields.clone();
        flight
            .is_confined
            .set(storable::add_confined(&incoming.fields, &mut head));
        writer.head(FillHead {
            status: incoming.status,
            fields: head,
            share: Share::Shared {
                life,
                tags: tags.ids.clone(),
            },
            length: incoming.length(),
        });
        let status = incoming.status;
        let mut incoming = incoming;
        let key = keys(page, &names, &selections).into_iter().next();
        let mut recorder = match (&page.site.shelved, key) {
            (Some(shelved), Some(key)) => {
                let entry = Entry::new(Parts {
                    key,
                    status,
                    fields: fields.clone(),
                    stored_at: self.clock.tick(),
                    life,
                    scopes: scopes(&page.facts, tags.ids.clone()),
                    tags: tags.names.clone(),
                    ..marker(page, Kind::Page, flight.born.get())
                });
                Recorder::ready(shelved.clone(), entry, incoming.length())
            }
            _ => Recorder::off(),
        };
        let beat = || flight.beat();
        relay(&mut incoming, (writer, passage), &mut recorder, &beat).await?;
        Ok(incoming.ended_well().then_some(Kept {
            status,
            fields,
            life,
            tags,
            names,
            selections,
            recorder,
        }))
    }

    /// Gives the answer to the one whose request it answers.
    pub(super) async fn hand_over(
        &self,
        page: &PageOrder,
        flight: &Flight,
        (writer, passage): (&mut FillWriter, &mut Passage),
        mut incoming: Incoming,
        why: NotStored,
    ) -> Result<Option<Kept>, Failure> {
        // An error is no property of the address, and what credentials brought says nothing about other requests.
        let is_of_address = !incoming.status.is_server_error() && !page.facts.has_authorization();
        if is_of_address {
            self.remember(page, flight, why);
        }
        writer.head(FillHead {
            status: incoming.status,
            fields: self.private_head(&incoming.fields),
            share: Share::Private,
            length: incoming.length(),
        });
        let beat = || flight.beat();
        let mut recorder = Recorder::off();
        relay(&mut incoming, (writer, passage), &mut recorder, &beat).await?;
        Ok(None)
    }

    /// Stores what came, under the address or under its variants.
    pub(super) async fn keep_variants(
        &self,
        page: &PageOrder,
        flight: &Flight,
        kept: Kept,
        finished: Finished,
    ) {
        let born = flight.born.get();
        if kept.names.is_empty() {
            self.forget_variants(page);
        }
        let Some(body) = finished.body else {
            if !flight.may_replace(self.memory.peek(page.key.bytes()).as_deref()) {
                return;
            }
            if kept.recorder.finish().await {
                return page.site.tally.stored();
            }
            return self.remember(page, flight, NotStored::TooLarge);
        };
        for key in keys(page, &kept.names, &kept.selections) {
            if !flight.may_replace(self.memory.peek(key.bytes()).as_deref()) {
                continue;
            }
            self.store_unbent(
                page,
                Parts {
                    key,
                    kind: Kind::Page,
                    status: kept.status,
                    fields: kept.fields.clone(),
                    body: body.clone(),
                    stored_at: self.clock.tick(),
                    life: kept.life,
                    scopes: scopes(&page.facts, kept.tags.ids.clone()),
                    tags: kept.tags.names.clone(),
                    born,
                },
            );
        }
        self.note_search(page, born, &kept.fields);
    }

    pub(super) fn store_unbent(&self, page: &PageOrder, parts: Parts) {
        let entry = Arc::new(self.inheriting(&page.site, Entry::new(parts)));
        if page.site.epochs.prove_waiting(&entry) == Validity::Purged {
            return;
        }
        let is_page = entry.kind == Kind::Page;
        let outcome = self.memory.put(Arc::clone(&entry));
        shelve(&page.site, &entry, outcome);
        match outcome {
            Ok(()) if is_page => page.site.tally.stored(),
            Ok(()) => {}
            Err(error) => {
                tracing::debug!(site = page.site.name, %error, "a response was not stored");
            }
        }
    }

    /// Writes the marker of an address whose responses vary, and removes what it no longer lists.
    fn note_variants(
        &self,
        page: &PageOrder,
        flight: &Rc<Flight>,
        names: &[HeaderName],
        selections: &[Vec<u8>],
    ) {
        let primary = &page.key;
        let resident = self
            .memory
            .get(primary.bytes())
            .filter(|entry| entry.kind == Kind::Varies);
        let (list, leaving) = variants::listed(resident.as_deref(), names, selections);
        for selection in leaving {
            let key = variants::key(primary.bytes(), &selection);
            self.memory.remove(&key);
            forget(page, &Key::new(&key), flight.born.get());
        }
        let marker = marker(page, Kind::Varies, flight.born.get());
        self.store_unbent(
            page,
            Parts {
                fields: variants::vary(names),
                body: list.into(),
                stored_at: self.clock.tick(),
                life: Life {
                    fresh: MARKED,
                    ..Life::default()
                },
                ..marker
            },
        );
        if let Some(own) = selections.first() {
            let place = Key::new(&variants::key(primary.bytes(), own));
            self.fetches.borrow_mut().insert(place, Rc::clone(flight));
        }
    }

    /// A response that does not vary takes the place of all variants.
    fn forget_variants(&self, page: &PageOrder) {
        let Some(marker) = self
            .memory
            .get(page.key.bytes())
            .filter(|entry| entry.kind == Kind::Varies)
        else {
            return;
        };
        for selection in variants::read(&marker.body) {
            self.memory
                .remove(&variants::key(page.key.bytes(), &selection));
        }
        self.memory.remove_if_same(&marker);
    }

    /// Notes for a moment that the address gives what may not be stored, so that nobody waits for another's answer.
    pub(super) fn remember(&self, page: &PageOrder, flight: &Flight, why: NotStored) {
        tracing::debug!(
            site = page.site.name,
            why = why.word(),
            "a response was not stored"
        );
        let now = self.clock.tick();
        page.site.tally.not_kept(&page.key, why, now);
        let key = variants::place(&self.memory, &page.key, &page.ask.request.fields);
        if !flight.may_replace(self.memory.peek(key.bytes()).as_deref()) {
            return;
        }
        let marker = marker(page, Kind::TravelsWhole, flight.born.get());
        self.store_unbent(
            page,
            Parts {
                key,
                stored_at: self.clock.tick(),
                life: Life {
                    fresh: REMEMBERED,
                    ..Life::default()
                },
                ..marker
            },
        );
    }

    /// A head for one client.
    pub(in crate::compositor) fn private_head(&self, fields: &HeaderMap) -> HeaderMap {
        let mut fields = storable::forwarded_fields(fields);
        for name in PURGE_FIELDS {
            fields.remove(*name);
        }
        self.finish_head(&mut fields);
        fields
    }

    /// What each head that travels on gets: a date (RFC 9110 §6.6.1), and who passed it on (§7.6.3).
    pub(super) fn finish_head(&self, fields: &mut HeaderMap) {
        if !fields.contains_key(header::DATE) {
            let mut text = Vec::with_capacity(29);
            galley_rules::time::write_date(self.clock.wall(), &mut text);
            if let Ok(value) = HeaderValue::from_bytes(&text) {
                fields.insert(header::DATE, value);
            }
        }
        if fields.get_all(header::VIA).iter().next_back() != Some(&BY_GALLEY) {
            fields.append(header::VIA, BY_GALLEY);
        }
    }
}

/// Where a response is stored: under its address, or under those of its variants.
fn keys(page: &PageOrder, names: &[HeaderName], selections: &[Vec<u8>]) -> Vec<Key> {
    if names.is_empty() {
        return vec![page.key.clone()];
    }
    let primary = page.key.bytes();
    let variant = |selection: &Vec<u8>| Key::new(&variants::key(primary, selection));
    selections.iter().map(variant).collect()
}

/// Takes the copy on the disk away, unless it was born after `born`.
pub(super) fn forget(page: &PageOrder, key: &Key, born: u64) {
    if let Some(shelved) = &page.site.shelved {
        shelved.forget(key, born);
    }
}

pub(super) fn marker(page: &PageOrder, kind: Kind, born: u64) -> Parts {
    Parts {
        key: page.key.clone(),
        kind,
        status: StatusCode::OK,
        fields: HeaderMap::new(),
        body: Body::default(),
        stored_at: galley_rules::time::Tick(0),
        life: Life::default(),
        scopes: scopes(&page.facts, Vec::new()),
        tags: Vec::new(),
        born,
    }
}

/// How long it is remembered that an address gives what may not be stored: long enough for a crowd, and no longer, since
/// while it lasts nothing of that address is stored.
const REMEMBERED: Duration = Duration::from_secs(2);

/// A marker of variants outlives them; what is no longer read leaves the memory by itself.
pub(super) const MARKED: Duration = Duration::from_secs(365 * 86_400);
