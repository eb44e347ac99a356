//! The object cache as bytes, for the process that takes over in an upgrade: values, and what is known of each process of PHP.
//!
//! Who changed a key last is not in it: only leases of the last counter stay valid. What requests will read is learned again.
//!
//! ```text
//! u8 version of the messages, u64 store, u64 writers, u32 n processes, n times: u64 writer, u8 writes, u8 has started; if it has:
//!     u8 n, site, 16 namespace, u64 database, 16 URL, 16 pattern
//! databases  u8 1, u8 n, site, 16 namespace, u64 id, u64 counter, u8 is known; if it is: u8 n, fence, u8 n, stamp
//! values     u8 2, u64 milliseconds left, u64 milliseconds since its use, u32 key length, u32 value length, key, value: of the database before
//! end        u8 0
//! ```

use crate::database::{Database, SessionPlace};
use crate::filter::KeyFilter;
use crate::learner::Learner;
use crate::sites::{LEARNER_SHARE, MAX_DATABASES, ObjectSites, PhpSession};
use crate::store::ObjectStore;
use crate::wire::{MessageReader, VERSION};

impl ObjectSites {
    /// The state with these processes. `now` is in milliseconds.
    pub(crate) fn hand_over(&self, processes: &[PhpSession], now: u64) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend(self.store_id.to_le_bytes());
        bytes.extend(self.writers.to_le_bytes());
        put_length(&mut bytes, processes.len());
        for process in processes {
            bytes.extend(process.writer.to_le_bytes());
            bytes.extend([u8::from(process.writes), u8::from(process.place.is_some())]);
            if let Some(place) = &process.place {
                put_short(&mut bytes, place.site.as_bytes());
                bytes.extend(place.namespace);
                bytes.extend(place.database.to_le_bytes());
                bytes.extend(place.url);
                bytes.extend(place.pattern);
            }
        }
        for (name, site) in &self.by_name {
            for database in &site.databases {
                database.write(name, &mut bytes);
                for (key, value, left, idle) in database.store.values(now) {
                    if bytes.len() + key.len() + value.len() > MAX_BYTES {
                        break;
                    }
                    bytes.push(VALUE);
                    bytes.extend(left.to_le_bytes());
                    bytes.extend(idle.to_le_bytes());
                    put_length(&mut bytes, key.len());
                    put_length(&mut bytes, value.len());
                    bytes.extend(key);
                    bytes.extend(value);
                }
            }
        }
        bytes.push(END);
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
        if reader.byte()? != VERSION {
            return None;
        }
        self.store_id = number(reader)?;
        self.writers = counter(reader)?;
        let count = reader.count()?;
        let processes: Option<Vec<_>> = (0..count).map(|_| process(reader)).collect();
        // The last database; `None`: this process does not have its site.
        let mut last: Option<&mut ObjectStore> = None;
        loop {
            match reader.byte()? {
                END => return processes,
                DATABASE => {
                    let name = text(reader)?;
                    let site = self.by_name.get_mut(&name);
                    let database =
                        Database::read(reader, site.as_ref().map_or(0, |one| one.limit))?;
                    last = site
                        .filter(|site| site.databases.len() < MAX_DATABASES)
                        .and_then(|site| {
                            site.databases.push(database);
                            site.databases.last_mut().map(|one| &mut one.store)
                        });
                }
                VALUE => {
                    let (left, idle) = (number(reader)?, number(reader)?);
                    let (key, value) = (reader.count()?, reader.count()?);
                    let (key, value) = (reader.take(key)?, reader.take(value)?);
                    if let Some(store) = &mut last {
                        store.restore(
                            key,
                            value,
                            now.saturating_add(left),
                            now.saturating_sub(idle),
                        );
                    }
                }
                _ => return None,
            }
        }
    }
}

impl Database {
    fn write(&self, site: &str, bytes: &mut Vec<u8>) {
        bytes.push(DATABASE);
        put_short(bytes, site.as_bytes());
        bytes.extend(self.namespace);
        bytes.extend(self.id.to_le_bytes());
        bytes.extend(self.store.counter().to_le_bytes());
        bytes.push(u8::from(self.known.is_some()));
        if let Some((fence, stamp)) = &self.known {
            put_short(bytes, fence);
            put_short(bytes, stamp);
        }
    }

    fn read(reader: &mut MessageReader<'_>, limit: usize) -> Option<Self> {
        let namespace = reader.array()?;
        let id = number(reader)?;
        let store = ObjectStore::resume(limit, counter(reader)?);
        let known = match reader.byte()? {
            0 => None,
            _ => Some((reader.short()?.to_vec(), reader.short()?.to_vec())),
        };
        Some(Self {
            namespace,
            id,
            known,
            store,
            filter: KeyFilter::unknown(),
            learner: Learner::new(limit / LEARNER_SHARE),
        })
    }
}

fn process(reader: &mut MessageReader<'_>) -> Option<PhpSession> {
    let writer = number(reader)?;
    let writes = reader.byte()? == 1;
    let place = match reader.byte()? {
        0 => None,
        _ => Some(SessionPlace {
            site: text(reader)?,
            namespace: reader.array()?,
            database: number(reader)?,
            url: reader.array()?,
            pattern: reader.array()?,
        }),
    };
    Some(PhpSession {
        place,
        writer,
        writes,
        has_asked: false,
    })
}

fn text(reader: &mut MessageReader<'_>) -> Option<String> {
    String::from_utf8(reader.short()?.to_vec()).ok()
}

fn number(reader: &mut MessageReader<'_>) -> Option<u64> {
    reader.array().map(u64::from_le_bytes)
}

/// A number that rises by one at a time, and that PHP can read.
fn counter(reader: &mut MessageReader<'_>) -> Option<u64> {
    number(reader).filter(|number| *number < 1 << 62)
}

/// Names of sites, fences and stamps have at most 255 bytes.
fn put_short(bytes: &mut Vec<u8>, part: &[u8]) {
    bytes.push(u8::try_from(part.len()).unwrap_or(u8::MAX));
    bytes.extend(part.get(..usize::from(u8::MAX)).unwrap_or(part));
}

fn put_length(bytes: &mut Vec<u8>, length: usize) {
    bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
}

const END: u8 = 0;
const DATABASE: u8 = 1;
const VALUE: u8 = 2;

/// PHP waits meanwhile: this takes less than a tenth of a second. Other values are read from the database again.
const MAX_BYTES: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::site::{ObjectCacheSettings, ObjectCacheSite};

    fn sites() -> ObjectSites {
        let mut sites = ObjectSites::new(7);
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
            let whole = sites().hand_over(&[PhpSession::default()], 0);
            bytes = whole.clone();
            let at = at % bytes.len();
            bytes[at] = byte;
            let mut damaged = sites();
            let _ = damaged.take_over(&bytes, 0);
            prop_assert!(sites().take_over(&whole[..at], 0).is_none());
        }
    }
}
