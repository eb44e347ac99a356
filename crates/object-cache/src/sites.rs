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

use serde::{Deserialize, Serialize};

use crate::announcement;
use crate::database::{Database, SessionPlace};
use crate::figures::{Count, Figures};
use crate::filter::KeyFilter;
use crate::learner::{Learner, MAX_KEYS};
use crate::site::ObjectCacheSettings;
use crate::store::{ObjectStore, ValueChange};
use crate::wire::{self, PhpMessage, Start};

/// The stores of all sites.
#[derive(Debug, Default)]
pub struct ObjectSites {
    pub(crate) by_name: HashMap<String, SiteStores>,
    pub(crate) by_token: HashMap<String, String>,
    pub(crate) writers: u64,
    /// The memory of all values, in bytes.
    pub(crate) limit: usize,
    pub(crate) nodes: NodeState,
}

/// The other nodes of a cluster, as far as this one knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeState {
    /// There are none.
    #[default]
    None,
    /// All changes that they have acknowledged are applied here.
    Current,
    /// A change may be missing here: no value is read.
    Behind,
}

#[derive(Debug)]
pub(crate) struct SiteStores {
    pub(crate) limit: usize,
    pub(crate) figures: Arc<Figures>,
    /// By database, the last used one at the end.
    pub(crate) databases: Vec<Database>,
}

/// One PHP process.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct PhpSession {
    pub(crate) place: Option<SessionPlace>,
    pub(crate) writer: u64,
    pub(crate) writes: bool,
    #[serde(skip)]
    pub(crate) has_asked: bool,
}

/// What follows from a message.
#[derive(Debug, PartialEq, Eq)]
pub struct PhpAnswer {
    /// The answer, which may be empty.
    pub bytes: Vec<u8>,
    /// What other nodes must have applied before the answer is sent.
    pub announcement: Option<Vec<u8>>,
}

impl From<Vec<u8>> for PhpAnswer {
    fn from(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            announcement: None,
        }
    }
}

/// The connection of a process has to be closed: it is not permitted, or it has sent damaged bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionRefused;

impl ObjectSites {
    /// Sets the sites. Sites that stay keep their values; the others lose them.
    pub fn configure(&mut self, settings: &ObjectCacheSettings) {
        let mut before = std::mem::take(&mut self.by_name);
        self.by_token.clear();
        self.limit = settings.limit;
        for site in &settings.sites {
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
        self.bound();
    }

    /// Sets what is known of the other nodes. Must be called before each message.
    pub fn set_nodes(&mut self, nodes: NodeState) {
        self.nodes = nodes;
    }

    /// Removes what another node has changed in a site. `None`: changes may be missing, so everything is removed.
    pub fn apply(&mut self, change: Option<(&str, &[u8])>) {
        match change {
            None => self
                .by_name
                .values_mut()
                .for_each(|site| site.apply(b"", None)),
            Some((site, announcement)) => {
                if let Some(site) = self.by_name.get_mut(site) {
                    site.apply(announcement, None);
                }
            }
        }
    }

    /// Evicts values of the largest stores while all together exceed the limit.
    pub(crate) fn bound(&mut self) {
        loop {
            let databases = || self.by_name.values().flat_map(|site| &site.databases);
            let bytes: usize = databases().map(|one| one.store.bytes()).sum();
            let Some(excess) = bytes.checked_sub(self.limit).filter(|bytes| *bytes > 0) else {
                return;
            };
            let Some(site) = self.by_name.values_mut().max_by_key(|site| site.largest()) else {
                return;
            };
            if !site.shrink(excess) {
                return;
            }
        }
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
                filter: KeyFilter::empty(),
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

    fn database(&mut self, place: &SessionPlace) -> Result<&mut Database, SessionRefused> {
        let mut databases = self.databases.iter_mut();
        let same =
            |one: &&mut Database| one.namespace == place.namespace && one.id == place.database;
        databases.find(same).ok_or(SessionRefused)
    }

    /// Makes changes, also in the stores of the same database under another name of its host. Returns outcomes, and what other nodes have to know.
    fn change(
        &mut self,
        place: &SessionPlace,
        changes: &[ValueChange<'_>],
        writer: u64,
        now: u64,
    ) -> Result<(Vec<u8>, Option<Vec<u8>>), SessionRefused> {
        let figures = Arc::clone(&self.figures);
        let database = self.database(place)?;
        let outcomes = database.change(changes, writer, &figures, now);
        let answer = wire::outcomes(database.store.counter(), &outcomes);
        let announcement = announcement::of_changes(&place.namespace, changes, &outcomes);
        if let Some(announcement) = &announcement {
            self.apply(announcement, Some(place.database));
        }
        self.show();
        Ok((answer, announcement))
    }

    /// Removes what was changed elsewhere. `except`: [`Database::id`].
    fn apply(&mut self, announcement: &[u8], except: Option<u64>) {
        let (family, changes) = announcement::read(announcement);
        for database in &mut self.databases {
            if Some(database.id) == except || !database.namespace.starts_with(family) {
                continue;
            }
            for change in &changes {
                database.remove(change, ELSEWHERE);
            }
        }
        self.show();
    }

    fn largest(&self) -> usize {
        let bytes = self.databases.iter().map(|one| one.store.bytes());
        bytes.max().unwrap_or_default()
    }

    /// Evicts values of the largest store. Returns whether that was possible.
    fn shrink(&mut self, by: usize) -> bool {
        let largest = self
            .databases
            .iter_mut()
            .max_by_key(|one| one.store.bytes());
        let Some(Database { store, .. }) = largest else {
            return false;
        };
        let has_room = store.shrink(by);
        self.figures.add(Count::Evictions, store.take_evictions());
        self.show();
        has_room
    }

    /// Shows how much there is.
    pub(crate) fn show(&self) {
        let sum =
            |of: fn(&ObjectStore) -> usize| self.databases.iter().map(|one| of(&one.store)).sum();
        self.figures
            .set_size(sum(ObjectStore::len), sum(ObjectStore::bytes));
    }

    pub(crate) fn share_limit(&mut self) {
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

    /// The site whose token the process has shown.
    pub fn site(&self) -> Option<&str> {
        self.place.as_ref().map(|place| &*place.site)
    }

    /// Carries out a message and returns the answer. `now` is in milliseconds.
    pub fn receive(
        &mut self,
        sites: &mut ObjectSites,
        message: &[u8],
        now: u64,
    ) -> Result<PhpAnswer, SessionRefused> {
        let message = wire::parse(message).ok_or(SessionRefused)?;
        if let PhpMessage::Start(start) = message {
            let mut bytes = self.start(sites, &start, now)?;
            if sites.nodes != NodeState::None
                && let Some(status) = bytes.get_mut(4)
            {
                *status |= wire::AMONG_NODES;
            }
            return Ok(bytes.into());
        }
        let place = self.place.as_ref().ok_or(SessionRefused)?;
        let site = sites.by_name.get_mut(&place.site).ok_or(SessionRefused)?;
        let figures = Arc::clone(&site.figures);
        match message {
            PhpMessage::Start(_) => {}
            PhpMessage::Get(keys) => {
                let may_read = sites.nodes != NodeState::Behind;
                // With the first question the request has left what was foreseen.
                let first = (!self.has_asked).then_some(place);
                self.has_asked = true;
                let database = site.database(place)?;
                let answer = database.get(&keys, first, may_read, &figures, now);
                return Ok(answer.into());
            }
            PhpMessage::Change { changes, waits } => {
                figures.add(Count::RoundTrips, u64::from(waits));
                let (bytes, announcement) = site.change(place, &changes, self.writer, now)?;
                sites.bound();
                return Ok(PhpAnswer {
                    bytes: if waits { bytes } else { Vec::new() },
                    announcement: announcement.filter(|_| sites.nodes != NodeState::None),
                });
            }
            PhpMessage::Tell(changes) => {
                // Values from the database: nobody else's is older because of them.
                let database = site.database(place)?;
                database.change(&changes, self.writer, &figures, now);
                site.show();
                sites.bound();
            }
            PhpMessage::Writes => self.writes = true,
            PhpMessage::End {
                misses,
                queries,
                saved,
                report,
            } => {
                let database = site.database(place)?;
                self.writes = false;
                figures.add(Count::Misses, u64::from(misses));
                figures.add(Count::Queries, u64::from(queries));
                figures.add(Count::SavedQueries, u64::from(saved));
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
            }
        }
        Ok(Vec::new().into())
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
            database.flush();
            let is_first = database.known.replace(known).is_none();
            figures.add(Count::Adopted, u64::from(!is_first));
        }
        if self.writer == 0 {
            sites.writers += 1;
            self.writer = sites.writers;
        }
        figures.add(Count::Requests, 1);
        let may_read = sites.nodes != NodeState::Behind;
        let answer = database.started(&place, may_read, &figures, now);
        self.place = Some(place);
        Ok(answer)
    }

    /// Ends the process. Call this for every session. Returns what other nodes have to know, with the site.
    pub fn close(self, sites: &mut ObjectSites) -> Option<(String, Vec<u8>)> {
        let place = self.place.filter(|_| self.writes)?;
        // Also a newer store of the same database: the change may come after what was read for it.
        let site = sites.by_name.get_mut(&place.site)?;
        let announcement = announcement::everything(&place.namespace);
        site.apply(&announcement, None);
        site.figures.add(Count::Abandoned, 1);
        Some((place.site, announcement))
    }
}

/// What a site knows of its requests takes at most this part of its memory more.
pub(crate) const LEARNER_SHARE: usize = 8;

/// The process of all changes that were made elsewhere.
const ELSEWHERE: u64 = u64::MAX;

/// Databases of a site: itself and copies of it with the same token.
pub(crate) const MAX_DATABASES: usize = 4;

#[cfg(test)]
mod tests;
