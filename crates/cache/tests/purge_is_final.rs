//! The first promise, end to end in memory: content changes, is purged, and the purge is acknowledged; a request that begins
//! later never gets what was generated before, whatever races with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use galley_cache::entry::{Entry, EntryKind, EntryParts, Scopes};
use galley_cache::key::Key;
use galley_cache::memory::Memory;
use galley_cache::purge_table::{Unlogged, Validity};
use galley_policy::key::{host_id, tag_id, url_id};
use galley_policy::purge::{Purge, Scope, Strength};
use galley_policy::storable::Lifetime;
use galley_policy::time::Tick;

const CHANGES: u64 = 300;
/// How often changes give way in all, waiting for hits; bounded, so that a reader that fails is heard of.
const PATIENCE: usize = 1_000_000;

/// What the threads share: the content as the upstream has it, and which version of it purges have been acknowledged for.
struct World {
    memory: Memory,
    table: Unlogged,
    content: AtomicU64,
    acknowledged: AtomicU64,
    /// Hits so far, so that changes do not outrun readers.
    hits: AtomicU64,
}

fn compose(version: u64, born: u64) -> Arc<Entry> {
    let scopes = Scopes {
        host: host_id("a.test"),
        url: url_id("a.test", b"/", None),
        path_query: (*b"/").into(),
        tags: [tag_id("post-1")].into(),
    };
    let life = Lifetime {
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
        life,
        scopes,
        tags: vec!["post-1".into()],
        born,
    }))
}

impl World {
    /// As the fetch thread does it: the counter first, then the content, then storing, however late.
    fn fill(&self) {
        while self.acknowledged.load(Ordering::Acquire) < CHANGES {
            let born = self.table.current();
            let version = self.content.load(Ordering::SeqCst);
            std::thread::yield_now();
            let _ = self.memory.put(compose(version, born));
        }
    }

    fn change(&self) {
        let mut patience = PATIENCE;
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
            while patience > 0 && self.hits.load(Ordering::Relaxed) == hits {
                patience -= 1;
                std::thread::yield_now();
            }
        }
    }

    fn read(&self) {
        loop {
            let required = self.acknowledged.load(Ordering::Acquire);
            let found = self.memory.get(b"/");
            if let Some(entry) = found.filter(|entry| self.table.prove(entry) == Validity::Valid) {
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
fn what_begins_after_an_acknowledged_purge_gets_nothing_older() {
    let world = World {
        memory: Memory::new(1 << 20, 1 << 20),
        table: Unlogged::new(),
        content: AtomicU64::new(0),
        acknowledged: AtomicU64::new(0),
        hits: AtomicU64::new(0),
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| world.fill());
        }
        for _ in 0..2 {
            scope.spawn(|| world.read());
        }
        scope.spawn(|| world.change());
    });
    let hits = world.hits.load(Ordering::Relaxed);
    assert!(
        hits > CHANGES / 2,
        "readers did read between the changes: {hits}"
    );
    let last = compose(CHANGES, world.table.current());
    world.memory.put(last).unwrap();
    let found = world.memory.get(b"/").unwrap();
    assert_eq!(
        world.table.prove(&found),
        Validity::Valid,
        "and what is composed afterwards is served"
    );
}
