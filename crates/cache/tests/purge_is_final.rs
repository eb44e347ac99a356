//! Purges are final, tested end to end in memory: content changes, is purged, and the purge is acknowledged. A request that begins
//! later never gets older content, whatever happens concurrently.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use galley_cache::entry::{Entry, EntryKind, EntryParts, Scopes};
use galley_cache::key::Key;
use galley_cache::memory::Memory;
use galley_cache::purge_table::{UnloggedPurgeTable, Validity};
use galley_policy::key::{host_id, tag_id, url_id};
use galley_policy::purge::{Purge, Scope, Strength};
use galley_policy::storable::Lifetime;
use galley_policy::time::Tick;

const CHANGES: u64 = 300;
/// Limit for the number of yields while waiting for hits, so that a failed reader ends the test.
const MAX_YIELDS: usize = 1_000_000;

/// State shared by the threads: the cache, the current content, and the version whose purge was acknowledged.
struct SharedState {
    memory: Memory,
    table: UnloggedPurgeTable,
    content: AtomicU64,
    acknowledged: AtomicU64,
    /// Number of hits, so that the writer waits for readers.
    hits: AtomicU64,
}

fn entry_of(version: u64, born: u64) -> Arc<Entry> {
    let scopes = Scopes {
        host: host_id("a.test"),
        url: url_id("a.test", b"/", None),
        path_query: (*b"/").into(),
        tags: [tag_id("post-1")].into(),
    };
    let lifetime = Lifetime {
        fresh: Duration::from_secs(60),
        stale_while_revalidate: Duration::ZERO,
        stale_if_error: Duration::ZERO,
        initial_age: Duration::ZERO,
    };
    Arc::new(Entry::new(EntryParts {
        key: Key::new(b"/"),
        kind: EntryKind::Page,
        status: http::StatusCode::OK,
        fields: http::HeaderMap::new(),
        body: Bytes::from(version.to_le_bytes().to_vec()).into(),
        stored_at: Tick(0),
        lifetime,
        scopes,
        tags: vec!["post-1".into()],
        born,
    }))
}

impl SharedState {
    /// Stores like a fetch thread: reads the purge sequence first, then the content, and stores at any later time.
    fn fill(&self) {
        while self.acknowledged.load(Ordering::Acquire) < CHANGES {
            let born = self.table.current();
            let version = self.content.load(Ordering::SeqCst);
            std::thread::yield_now();
            let _ = self.memory.put(entry_of(version, born));
        }
    }

    fn change(&self) {
        let mut yields_left = MAX_YIELDS;
        for change in 1..=CHANGES {
            let version = self.content.fetch_add(1, Ordering::SeqCst) + 1;
            let scope = match change % 3 {
                0 => Scope::Site,
                1 => Scope::Tag("post-1".into()),
                _ => Scope::Url {
                    host: Some("a.test".into()),
                    path: b"/".to_vec(),
                    query: None,
                },
            };
            let purge = Purge {
                scope,
                strength: Strength::Hard,
            };
            self.table.publish(&purge);
            self.acknowledged.store(version, Ordering::Release);
            let hits = self.hits.load(Ordering::Relaxed);
            while yields_left > 0 && self.hits.load(Ordering::Relaxed) == hits {
                yields_left -= 1;
                std::thread::yield_now();
            }
        }
    }

    fn read(&self) {
        loop {
            let required = self.acknowledged.load(Ordering::Acquire);
            let found = self.memory.get(b"/");
            if let Some(entry) = found.filter(|entry| self.table.validity(entry) == Validity::Valid)
            {
                let bytes = entry.body().expect("in memory")[..]
                    .try_into()
                    .expect("eight bytes");
                let version = u64::from_le_bytes(bytes);
                assert!(
                    version >= required,
                    "{version} was served after the purge for {required}"
                );
                self.hits.fetch_add(1, Ordering::Relaxed);
            }
            if required >= CHANGES {
                return;
            }
        }
    }
}

#[test]
fn requests_after_an_acknowledged_purge_get_no_older_content() {
    let state = SharedState {
        memory: Memory::new(1 << 20, 1 << 20),
        table: UnloggedPurgeTable::new(),
        content: AtomicU64::new(0),
        acknowledged: AtomicU64::new(0),
        hits: AtomicU64::new(0),
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| state.fill());
        }
        for _ in 0..2 {
            scope.spawn(|| state.read());
        }
        scope.spawn(|| state.change());
    });
    let hits = state.hits.load(Ordering::Relaxed);
    assert!(
        hits > CHANGES / 2,
        "too few hits between the changes: {hits}"
    );
    let last = entry_of(CHANGES, state.table.current());
    state.memory.put(last).unwrap();
    let found = state.memory.get(b"/").unwrap();
    assert_eq!(
        state.table.validity(&found),
        Validity::Valid,
        "content generated after the purge is served"
    );
}
