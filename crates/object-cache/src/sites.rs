//! The stores of all sites, and what one PHP process may do with them.
//!
//! A process proves with the token of a site that it belongs to it, and names its database: each has a store of its own, so that a copy of
//! the site shares nothing. It also names the *fence* of the database and the *stamp* of the drop-in's files. If the store knows others, a
//! change may have bypassed it: the process has to adopt them, which empties the store.
//!
//! A process announces that it will write to the database before it does. If its connection ends without an end message after that, a
//! change may be in the database that was not announced: the store is emptied.

use std::collections::HashMap;
use std::sync::Arc;

use crate::figures::{Count, Figures};
use crate::filter::KeyFilter;
use crate::learner::{Learner, MAX_KEYS, RequestClass};
use crate::site::ObjectCacheSite;
use crate::store::{ChangeKind, ChangeOutcome, ObjectStore, ValueChange};
use crate::wire::{self, Found, PhpMessage, Start};

/// The stores of all sites.
#[derive(Debug)]
pub struct ObjectSites {
    by_name: HashMap<String, SiteStores>,
    by_token: HashMap<String, String>,
    store_id: u64,
    writers: u64,
}

#[derive(Debug)]
struct SiteStores {
    limit: usize,
    figures: Arc<Figures>,
    /// By database, the last used one at the end.
    databases: Vec<Database>,
}

#[derive(Debug)]
struct Database {
    namespace: [u8; 16],
    /// Differs from that of each former store of the same database, whose leases say nothing about this one.
    id: u64,
    known: Option<(Vec<u8>, Vec<u8>)>,
    store: ObjectStore,
    filter: KeyFilter,
    learner: Learner,
}

/// One PHP process.
#[derive(Debug, Default)]
pub struct PhpSession {
    place: Option<SessionPlace>,
    writer: u64,
    writes: bool,
    has_asked: bool,
}

#[derive(Clone, Debug)]
struct SessionPlace {
    site: String,
    namespace: [u8; 16],
    /// [`Database::id`].
    database: u64,
    url: RequestClass,
    pattern: RequestClass,
}

/// The connection of a process has to be closed: it is not permitted, or it has sent damaged bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionRefused;

impl ObjectSites {
    /// No sites. `store_id` changes with each start of the server.
    pub fn new(store_id: u64) -> Self {
        Self {
            by_name: HashMap::new(),
            by_token: HashMap::new(),
            store_id,
            writers: 0,
        }
    }

    /// Sets the sites. Sites that stay keep their values; the others lose them.
    pub fn configure(&mut self, sites: &[ObjectCacheSite]) {
        let mut before = std::mem::take(&mut self.by_name);
        self.by_token.clear();
        for site in sites {
            let mut stores = before.remove(&site.name).unwrap_or_else(|| SiteStores {
                limit: site.limit,
                figures: Arc::clone(&site.figures),
                databases: Vec::new(),
            });
            stores.limit = site.limit;
            stores.figures = Arc::clone(&site.figures);
            stores.share_limit();
            self.by_name.insert(site.name.clone(), stores);
            self.by_token.insert(site.token.clone(), site.name.clone());
        }
    }

    fn database(&mut self, place: &SessionPlace) -> Option<(&mut Database, &Figures)> {
        let site = self.by_name.get_mut(&place.site)?;
        let mut databases = site.databases.iter_mut();
        let database =
            databases.find(|one| one.namespace == place.namespace && one.id == place.database)?;
        Some((database, &site.figures))
    }
}

impl SiteStores {
    /// The store of a database. Makes one if there is none.
    fn open(&mut self, namespace: [u8; 16], new_id: u64) -> &mut Database {
        let at = self
            .databases
            .iter()
            .position(|one| one.namespace == namespace);
        let database = match at {
            Some(at) => self.databases.remove(at),
            None => Database {
                namespace,
                id: new_id,
                known: None,
                store: ObjectStore::new(self.limit),
                filter: KeyFilter::of(0, std::iter::empty()),
                learner: Learner::new(self.limit / LEARNER_SHARE),
            },
        };
        if self.databases.len() >= MAX_DATABASES {
            self.databases.remove(0);
        }
        self.databases.push(database);
        if at.is_none() {
            self.share_limit();
        }
        let last = self.databases.len() - 1;
        &mut self.databases[last]
    }

    fn share_limit(&mut self) {
        let share = self.limit / self.databases.len().max(1);
        for database in &mut self.databases {
            database.store.set_limit(share);
        }
    }
}

impl PhpSession {
    /// Whether the process has shown a valid token.
    pub fn has_started(&self) -> bool {
        self.place.is_some()
    }

    /// Carries out a message and returns the answer, which may be empty. `now` is in milliseconds.
    pub fn receive(
        &mut self,
        sites: &mut ObjectSites,
        message: &[u8],
        now: u64,
    ) -> Result<Vec<u8>, SessionRefused> {
        let message = wire::parse(message).ok_or(SessionRefused)?;
        if let PhpMessage::Start(start) = message {
            return self.start(sites, &start, now);
        }
        let place = self.place.as_ref().ok_or(SessionRefused)?;
        let (database, figures) = sites.database(place).ok_or(SessionRefused)?;
        let answer = match message {
            PhpMessage::Start(_) => Vec::new(),
            PhpMessage::Get(keys) => {
                // With the first question the request has left what was foreseen.
                let pattern = (!self.has_asked).then_some(place.pattern);
                self.has_asked = true;
                database.get(&keys, pattern, figures, now)
            }
            PhpMessage::Change(changes) => {
                figures.add(Count::RoundTrips, 1);
                let outcomes = database.change(&changes, self.writer, figures, now);
                wire::outcomes(database.store.counter(), &outcomes)
            }
            PhpMessage::Tell(changes) | PhpMessage::Send(changes) => {
                database.change(&changes, self.writer, figures, now);
                Vec::new()
            }
            PhpMessage::Writes => {
                self.writes = true;
                Vec::new()
            }
            PhpMessage::End { misses, report } => {
                self.writes = false;
                figures.add(Count::Misses, u64::from(misses));
                if let Some(keys) = report {
                    let shared = |key: &[u8]| database.store.shared_key(key);
                    let keys = keys
                        .iter()
                        .filter(|(key, _)| key.len() <= crate::store::MAX_KEY);
                    let keys = keys.take(MAX_KEYS);
                    let keys =
                        keys.map(|(key, how)| (shared(key).unwrap_or_else(|| (*key).into()), *how));
                    let keys = keys.collect();
                    database.learner.learn(place.url, place.pattern, keys);
                }
                Vec::new()
            }
        };
        Ok(answer)
    }

    fn start(
        &mut self,
        sites: &mut ObjectSites,
        start: &Start<'_>,
        now: u64,
    ) -> Result<Vec<u8>, SessionRefused> {
        let token = std::str::from_utf8(start.token).map_err(|_| SessionRefused)?;
        // The map hashes with a secret, so the time says nothing of how much of a token is right.
        let name = sites.by_token.get(token).filter(|_| !token.is_empty());
        let Some(name) = name.cloned() else {
            return Ok(wire::status(wire::REFUSED));
        };
        let mut place = SessionPlace {
            site: name,
            namespace: start.namespace,
            database: 0,
            url: start.url,
            pattern: start.pattern,
        };
        if self.writes && self.place.as_ref().map(|it| it.namespace) != Some(place.namespace) {
            // What it has announced belongs to the other database.
            return Err(SessionRefused);
        }
        let site = sites.by_name.get_mut(&place.site).ok_or(SessionRefused)?;
        let figures = Arc::clone(&site.figures);
        figures.add(Count::RoundTrips, 1);
        sites.writers += 1;
        let database = site.open(place.namespace, sites.writers);
        place.database = database.id;
        let known = (start.fence.to_vec(), start.stamp.to_vec());
        if database.known.as_ref() != Some(&known) {
            if !start.adopt && self.place.is_some() {
                // It must not go on with what it has read here.
                return Err(SessionRefused);
            }
            if !start.adopt {
                return Ok(wire::status(wire::BEHIND));
            }
            database.flush(&figures);
            database.known = Some(known);
        }
        if self.writer == 0 {
            sites.writers += 1;
            self.writer = sites.writers;
        }
        figures.add(Count::Requests, 1);
        let answer = database.started(sites.store_id, &place, &figures, now);
        self.place = Some(place);
        Ok(answer)
    }

    /// Ends the process. Call this for every session.
    pub fn close(self, sites: &mut ObjectSites) {
        let Some(place) = self.place.filter(|_| self.writes) else {
            return;
        };
        // Also a newer store of the same database: the change may come after what was read for it.
        let Some(site) = sites.by_name.get_mut(&place.site) else {
            return;
        };
        let mut databases = site.databases.iter_mut();
        if let Some(database) = databases.find(|one| one.namespace == place.namespace) {
            database.flush(&site.figures);
        }
    }
}

impl Database {
    fn flush(&mut self, figures: &Figures) {
        self.store.flush();
        self.filter = KeyFilter::of(0, std::iter::empty());
        figures.add(Count::Flushes, 1);
        figures.set_size(0, 0);
    }

    /// The first answer, with the values that the request will read.
    fn started(
        &mut self,
        store_id: u64,
        place: &SessionPlace,
        figures: &Figures,
        now: u64,
    ) -> Vec<u8> {
        if self.filter.is_old(self.store.len()) {
            self.filter = KeyFilter::of(self.store.len(), self.store.keys());
        }
        let keys = self.learner.foresee(place.url, place.pattern);
        let values = self.find(keys.iter(), now);
        let left = MAX_AHEAD - self.filter.bits().len();
        let items = sent_ahead(&keys, &values, left, figures);
        let counter = self.store.counter();
        wire::started(store_id, counter, self.filter.bits(), &items)
    }

    /// Values that were asked for, those of keys that follow them, and some that requests of the pattern read now and then.
    fn get(
        &mut self,
        keys: &[&[u8]],
        pattern: Option<RequestClass>,
        figures: &Figures,
        now: u64,
    ) -> Vec<u8> {
        let values = self.find(keys.iter(), now);
        let hits = values.iter().flatten().count();
        figures.add(Count::RoundTrips, 1);
        figures.add(Count::Hits, hits as u64);
        figures.add(Count::Misses, (values.len() - hits) as u64);
        let mut next = self.learner.follow(keys);
        if let Some(pattern) = pattern {
            next.extend(self.learner.possible(pattern));
        }
        let next_values = self.find(next.iter(), now);
        let mut items = sent_ahead(&next, &next_values, MAX_NEXT, figures);
        items.retain(|(_, found)| matches!(found, Found::Value(_)));
        let found = within(&values, MAX_ANSWER);
        wire::values(self.store.counter(), &found, &items)
    }

    fn find<'a, K: AsRef<[u8]> + 'a>(
        &mut self,
        keys: impl Iterator<Item = &'a K>,
        now: u64,
    ) -> Vec<Option<Arc<[u8]>>> {
        keys.map(|key| self.store.find(key.as_ref(), now)).collect()
    }

    fn change(
        &mut self,
        changes: &[ValueChange<'_>],
        writer: u64,
        figures: &Figures,
        now: u64,
    ) -> Vec<ChangeOutcome> {
        let mut outcomes = Vec::with_capacity(changes.len());
        for change in changes {
            let outcome = self.store.change(change, writer, now);
            figures.add(Count::Changes, 1);
            figures.add(
                Count::Conflicts,
                u64::from(outcome == ChangeOutcome::Conflict),
            );
            if outcome == ChangeOutcome::Done {
                self.filter.add(change.key);
            }
            let is_flush = change.kind == ChangeKind::Flush;
            figures.add(Count::Flushes, u64::from(is_flush));
            outcomes.push(outcome);
        }
        figures.add(Count::Evictions, self.store.take_evictions());
        figures.set_size(self.store.len(), self.store.bytes());
        outcomes
    }
}

/// Values that nobody has asked for yet, with their keys.
fn sent_ahead<'a>(
    keys: &'a [Arc<[u8]>],
    values: &'a [Option<Arc<[u8]>>],
    most: usize,
    figures: &Figures,
) -> Vec<(&'a [u8], Found<'a>)> {
    let found = within(values, most);
    let sent = found.iter().filter(|one| matches!(one, Found::Value(_)));
    figures.add(Count::SentAhead, sent.count() as u64);
    keys.iter().map(|key| &**key).zip(found).collect()
}

/// The values that fit into so many bytes, in their order; at least one.
fn within(values: &[Option<Arc<[u8]>>], most: usize) -> Vec<Found<'_>> {
    let mut left = most;
    let mut has_any = false;
    let found = values.iter().map(|value| match value {
        None => Found::Absent,
        Some(value) if value.len() <= left || !has_any => {
            has_any = true;
            left = left.saturating_sub(value.len());
            Found::Value(value)
        }
        Some(_) => Found::Later,
    });
    found.collect()
}

/// The values that are sent before PHP asks for them, in bytes.
const MAX_AHEAD: usize = 256 << 10;

/// The values that are sent together with others, in bytes.
const MAX_NEXT: usize = 96 << 10;

/// The values of one answer, in bytes. PHP asks for the rest.
const MAX_ANSWER: usize = 8 << 20;

/// What a site knows of its requests takes at most this part of its memory more.
const LEARNER_SHARE: usize = 8;

/// Databases of a site: itself and copies of it with the same token.
const MAX_DATABASES: usize = 4;

#[cfg(test)]
mod tests;
