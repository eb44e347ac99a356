//! The object cache as bytes, for the process that takes over in an upgrade: values, and what is known of each process of PHP.
//!
//! Who changed a key last is not in it: only leases of the last counter stay valid. What requests will read is learned again.
//!
//! ```text
//! u32 length, `State` as JSON
//! values     of each database in turn: u64 milliseconds left, u64 milliseconds since its use, u32 key length, u32 value length, key, value
//! ```

use serde::{Deserialize, Serialize};

use crate::database::Database;
use crate::filter::KeyFilter;
use crate::learner::Learner;
use crate::sites::{LEARNER_SHARE, MAX_DATABASES, ObjectSites, PhpSession};
use crate::store::ObjectStore;
use crate::wire::{MessageReader, VERSION, put_length};

/// What is known of processes and databases.
#[derive(Serialize, Deserialize)]
struct State {
    /// That of the messages.
    version: u8,
    writers: u64,
    processes: Vec<PhpSession>,
    databases: Vec<DatabaseState>,
}

#[derive(Serialize, Deserialize)]
struct DatabaseState {
    site: String,
    namespace: [u8; 16],
    id: u64,
    counter: u64,
    known: Option<(Vec<u8>, Vec<u8>)>,
    /// The number of values.
    values: usize,
}

impl ObjectSites {
    /// The state with these processes. `now` is in milliseconds.
    pub(crate) fn hand_over(&self, processes: Vec<PhpSession>, now: u64) -> Vec<u8> {
        let mut values = Vec::new();
        let mut databases = Vec::new();
        for (name, site) in &self.by_name {
            databases.extend(site.databases.iter().map(|database| DatabaseState {
                site: name.clone(),
                namespace: database.namespace,
                id: database.id,
                counter: database.store.counter(),
                known: database.known.clone(),
                values: put_values(&mut values, &database.store, now),
            }));
        }
        let state = State {
            version: VERSION,
            writers: self.writers,
            processes,
            databases,
        };
        // An empty one is damaged. It has no maps, so that never happens.
        let state = serde_json::to_vec(&state).unwrap_or_default();
        let mut bytes = Vec::with_capacity(4 + state.len() + values.len());
        put_length(&mut bytes, state.len());
        bytes.extend(state);
        bytes.extend(values);
        bytes
    }

    /// Takes over the state of another process, and returns the processes of PHP. `None`: it is damaged, and nothing was taken over.
    pub(crate) fn take_over(&mut self, bytes: &[u8], now: u64) -> Option<Vec<PhpSession>> {
        let processes = self.read(&mut MessageReader(bytes), now);
        if processes.is_none() {
            self.forget();
        }
        for site in self.by_name.values_mut() {
            site.share_limit();
            site.show();
        }
        self.bound();
        processes
    }

    /// Drops all stores, because the processes that use them are not known.
    pub(crate) fn forget(&mut self) {
        for site in self.by_name.values_mut() {
            site.databases.clear();
            site.show();
        }
    }

    fn read(&mut self, reader: &mut MessageReader<'_>, now: u64) -> Option<Vec<PhpSession>> {
        let length = reader.count()?;
        let state: State = serde_json::from_slice(reader.take(length)?).ok()?;
        let mut counters = state.databases.iter().map(|database| database.counter);
        if state.version != VERSION
            || state.writers > MAX_COUNTER
            || counters.any(|one| one > MAX_COUNTER)
        {
            return None;
        }
        self.writers = state.writers;
        for database in state.databases {
            let values = database.values;
            let site = self.by_name.get_mut(&database.site);
            // This process may not have the site.
            let database = site
                .filter(|site| site.databases.len() < MAX_DATABASES)
                .and_then(|site| {
                    site.databases.push(database.resume(site.limit));
                    site.databases.last_mut()
                });
            take_values(reader, values, database, now)?;
        }
        reader.0.is_empty().then_some(state.processes)
    }
}

impl DatabaseState {
    fn resume(self, limit: usize) -> Database {
        Database {
            namespace: self.namespace,
            id: self.id,
            known: self.known,
            store: ObjectStore::resume(limit, self.counter),
            filter: KeyFilter::unknown(),
            learner: Learner::new(limit / LEARNER_SHARE),
        }
    }
}

/// Appends the values of a store, as far as there is room, and returns their number.
fn put_values(bytes: &mut Vec<u8>, store: &ObjectStore, now: u64) -> usize {
    let mut count = 0;
    for (key, value, left, idle) in store.values(now) {
        if bytes.len() + key.len() + value.len() > MAX_BYTES {
            break;
        }
        bytes.extend(left.to_le_bytes());
        bytes.extend(idle.to_le_bytes());
        put_length(bytes, key.len());
        put_length(bytes, value.len());
        bytes.extend(key);
        bytes.extend(value);
        count += 1;
    }
    count
}

fn take_values(
    reader: &mut MessageReader<'_>,
    count: usize,
    mut database: Option<&mut Database>,
    now: u64,
) -> Option<()> {
    for _ in 0..count {
        let left = u64::from_le_bytes(reader.array()?);
        let idle = u64::from_le_bytes(reader.array()?);
        let (key, value) = (reader.count()?, reader.count()?);
        let (key, value) = (reader.take(key)?, reader.take(value)?);
        if let Some(database) = &mut database {
            let (ends, used) = (now.saturating_add(left), now.saturating_sub(idle));
            database.store.restore(key, value, ends, used);
        }
    }
    Some(())
}

/// Counters rise by one at a time, and PHP can read them.
const MAX_COUNTER: u64 = 1 << 62;

/// PHP waits meanwhile: this takes less than a tenth of a second. Other values are read from the database again.
const MAX_BYTES: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::site::{ObjectCacheSettings, ObjectCacheSite};

    fn sites() -> ObjectSites {
        let mut sites = ObjectSites::default();
        sites.configure(&ObjectCacheSettings {
            sites: vec![ObjectCacheSite {
                name: "site".to_owned(),
                token: "token".to_owned(),
                limit: 1 << 20,
                figures: Arc::default(),
            }],
            limit: 1 << 20,
        });
        sites
    }

    proptest! {
        #[test]
        fn damaged_bytes_take_over_nothing(mut bytes: Vec<u8>, at: usize, byte: u8) {
            prop_assert!(sites().take_over(&bytes, 0).is_none() || bytes.len() > 20);
            let whole = sites().hand_over(vec![PhpSession::default()], 0);
            bytes = whole.clone();
            let at = at % bytes.len();
            bytes[at] = byte;
            let mut damaged = sites();
            let _ = damaged.take_over(&bytes, 0);
            prop_assert!(sites().take_over(&whole[..at], 0).is_none());
        }
    }
}
