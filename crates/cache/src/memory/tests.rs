//! Compares the store with a simple model, and tests each limit.

use std::time::Duration;

use bytes::Bytes;
use galley_policy::encoding::Coding;
use galley_policy::key::tag_id;
use galley_policy::purge::{Purge, Scope, Strength};
use galley_policy::time::Tick;
use http::HeaderMap;
use proptest::prelude::*;

use super::*;
use crate::body::StoredBody;
use crate::entry::{CompressionStep, EncodedEntry, EntryParts};
use crate::purge_table::{PurgeTable, Validity};
use crate::source::EntrySource;
use crate::testing::{entry, parts};

const MIB: u64 = 1 << 20;

fn page(path: &str, born: u64, body_bytes: usize) -> Arc<Entry> {
    Arc::new(Entry::new(EntryParts {
        body: Bytes::from(vec![b'x'; body_bytes]).into(),
        ..parts(path, born)
    }))
}

#[test]
fn an_entry_is_found_under_equal_bytes() {
    let memory = Memory::new(MIB, MIB);
    let stored = page("/a", 0, 10);
    memory.put(Arc::clone(&stored)).unwrap();
    assert!(
        memory
            .get(b"/a")
            .is_some_and(|found| Arc::ptr_eq(&found, &stored))
    );
    assert!(
        matches!(memory.try_get(b"/a"), MemoryLookup::Found(found) if Arc::ptr_eq(&found, &stored))
    );
    assert!(memory.get(b"/b").is_none());
    assert!(matches!(memory.try_get(b"/b"), MemoryLookup::Absent));
    assert_eq!(stored.hits(), 2);
    memory.remove(b"/a");
    assert!(memory.get(b"/a").is_none());
}

#[test]
fn an_older_entry_never_takes_the_place_of_a_newer_one() {
    let memory = Memory::new(MIB, MIB);
    let table = [(5, true), (4, false), (5, true), (6, true), (5, false)];
    for (born, is_taken) in table {
        let taken = memory.put(page("/a", born, 10));
        assert_eq!(
            taken,
            if is_taken {
                Ok(())
            } else {
                Err(PutRefused::Superseded)
            },
            "born {born}"
        );
    }
    assert_eq!(memory.get(b"/a").unwrap().born, 6);
}

#[test]
fn concurrent_stores_keep_the_newest_entry() {
    let memory = Memory::new(16 * MIB, MIB);
    for round in 0..200 {
        let path = format!("/{round}");
        std::thread::scope(|scope| {
            for start in [0, 1, 2] {
                let (memory, path) = (&memory, &path);
                scope.spawn(move || {
                    for born in (start..30).step_by(3) {
                        let _ = memory.put(page(path, born, 10));
                    }
                });
            }
        });
        assert_eq!(memory.get(path.as_bytes()).unwrap().born, 29);
    }
}

/// Between the comparison with the stored entry and its replacement, no other thread stores under that key.
#[test]
fn comparing_and_storing_is_one_step() {
    let memory = Memory::new(MIB, MIB);
    let (newer, started) = (page("/a", 2, 10), std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        let stored = memory.put_where(page("/a", 1, 10), |_| {
            let other = scope.spawn(|| {
                started.wait();
                memory.put(Arc::clone(&newer))
            });
            started.wait();
            for _ in 0..2_000 {
                if other.is_finished() {
                    break;
                }
                std::thread::yield_now();
            }
            true
        });
        assert_eq!(stored, Ok(()));
    });
    assert_eq!(memory.get(b"/a").unwrap().born, 2);
}

#[test]
fn conditional_put_and_remove_compare_identity() {
    let memory = Memory::new(MIB, MIB);
    let (first, second, third) = (page("/a", 1, 10), page("/a", 2, 10), page("/a", 1, 11));
    assert_eq!(
        memory.put_if_same(&first, Arc::clone(&third)),
        Err(PutRefused::Superseded),
        "the place is empty"
    );
    memory.put(Arc::clone(&first)).unwrap();
    memory.put(Arc::clone(&second)).unwrap();
    assert_eq!(
        memory.put_if_same(&first, Arc::clone(&third)),
        Err(PutRefused::Superseded)
    );
    memory.remove_if_same(&first);
    assert!(Arc::ptr_eq(&memory.get(b"/a").unwrap(), &second));
    memory.put_if_same(&second, Arc::clone(&third)).unwrap();
    memory.remove_if_same(&third);
    assert!(memory.get(b"/a").is_none());
}

#[test]
fn the_largest_object_fits_and_a_larger_one_is_refused() {
    for (limit, max_object) in [
        (256 * MIB, 64 * MIB),
        (64 * MIB, MIB),
        (8 * MIB, 64 * MIB),
        (MIB, MIB),
    ] {
        let memory = Memory::new(limit, max_object);
        let largest = usize::try_from(memory.keep().max_bytes).unwrap();
        assert!(
            largest as u64 >= max_object.min(limit / 4),
            "{limit} {max_object}"
        );
        memory.put(page("/small", 0, 10)).unwrap();
        memory.put(page("/large", 0, largest)).unwrap();
        assert!(
            memory.get(b"/large").is_some() && memory.get(b"/small").is_some(),
            "{limit} {max_object}"
        );
        assert_eq!(
            memory.put(page("/larger", 0, largest + 1)),
            Err(PutRefused::TooLarge)
        );
    }
}

#[test]
fn a_full_store_evicts_and_stays_below_its_limit() {
    let memory = Memory::new(4 * MIB, MIB / 4);
    for n in 0..2_000 {
        memory.put(page(&format!("/{n}"), 0, 10_000)).unwrap();
        let usage = memory.usage();
        assert!(
            usage.reserved <= usage.limit && usage.bytes <= usage.limit,
            "{usage:?}"
        );
    }
    let usage = memory.usage();
    assert!(usage.entries > 200 && usage.bytes > 2 * MIB, "{usage:?}");
    assert_eq!(usage.entries + usage.evictions, 2_000);
    assert_eq!(
        usage.reserved, usage.bytes,
        "what left has given its bytes back"
    );
}

#[test]
fn a_body_used_by_a_slow_reader_stays_reserved() {
    let memory = Memory::new(MIB, MIB);
    let slow_reader = page("/a", 0, 100_000);
    memory.put(Arc::clone(&slow_reader)).unwrap();
    memory.remove(b"/a");
    assert_eq!(memory.usage().reserved, slow_reader.weight());
    drop(slow_reader);
    assert_eq!(memory.usage().reserved, 0);
}

#[test]
fn a_body_from_a_fill_is_reserved_once() {
    let memory = Memory::new(MIB, MIB);
    let body = StoredBody::reserved(
        vec![0; 50_000],
        memory.budget().try_reserve(50_000).unwrap(),
    );
    let stored = Arc::new(Entry::new(EntryParts {
        body,
        ..parts("/a", 0)
    }));
    memory.put(Arc::clone(&stored)).unwrap();
    memory.put(Arc::clone(&stored)).unwrap();
    assert_eq!(memory.usage().reserved, stored.weight());
    drop(stored);
    memory.remove(b"/a");
    assert_eq!(memory.usage().reserved, 0);
}

#[test]
fn without_budget_nothing_is_stored_and_the_resident_stays() {
    let memory = Memory::new(MIB, MIB);
    memory.put(page("/a", 0, 10)).unwrap();
    let fills = memory
        .budget()
        .try_reserve(MIB - memory.usage().reserved)
        .unwrap();
    assert_eq!(memory.put(page("/a", 1, 10)), Err(PutRefused::Full));
    assert_eq!(memory.get(b"/a").unwrap().born, 0);
    drop(fills);
    memory.put(page("/a", 1, 10)).unwrap();
}

#[test]
fn sweeping_removes_selected_entries() {
    let memory = Memory::new(MIB, MIB);
    for n in 0..50 {
        memory.put(page(&format!("/{n}"), n, 10)).unwrap();
    }
    memory.sweep(|entry| entry.born % 2 == 0);
    assert_eq!(memory.usage().entries, 25);
    assert!(memory.get(b"/3").is_some() && memory.get(b"/4").is_none());
}

#[test]
fn age_and_validator_are_those_of_the_entry() {
    let mut fields = http::HeaderMap::new();
    fields.insert("etag", http::HeaderValue::from_static("\"v1\""));
    let stored = Entry::new(EntryParts {
        fields,
        stored_at: Tick(1_000),
        ..parts("/a", 0)
    });
    assert_eq!(stored.age(Tick(4_500)), Duration::from_millis(5_500));
    assert_eq!(
        stored.age(Tick(0)),
        Duration::from_secs(2),
        "a tick before storing counts as none"
    );
    assert_eq!(stored.etag(), Some(&b"\"v1\""[..]));
    assert!(format!("{stored:?}").contains("/a"));
}

#[derive(Clone, Debug)]
enum Step {
    /// Stores a page of this size generated now, or this number of purges ago.
    Put {
        key: u8,
        size: usize,
        ago: u64,
    },
    Get(u8),
    Remove(u8),
    Purge(Scope, Strength),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..6_u8;
    let scope = prop_oneof![
        Just(Scope::Site),
        key().prop_map(|key| Scope::Tag(format!("t{key}"))),
        key().prop_map(|key| Scope::Prefix(format!("/{key}").into_bytes())),
    ];
    prop_oneof![
        4 => (key(), 0..40_000_usize, 0..3_u64).prop_map(|(key, size, ago)| Step::Put { key, size, ago }),
        4 => key().prop_map(Step::Get),
        1 => key().prop_map(Step::Remove),
        1 => (scope, prop::bool::ANY).prop_map(|(scope, is_hard)| {
            Step::Purge(scope, if is_hard { Strength::Hard } else { Strength::Soft })
        }),
        1 => (0..40_000_u64).prop_map(Step::Pass),
    ]
}

/// A stored page in the model.
#[derive(Clone, Copy)]
struct Known {
    number: usize,
    born: u64,
    stored_at: u64,
    is_dead: bool,
}

/// Runs `steps`; `is_exact`: the store is large enough that no entry may be missing.
fn play(memory: &Memory, steps: &[Step], is_exact: bool) {
    let (purge_table, mut now) = (PurgeTable::new(), 0);
    let mut known: [Option<Known>; 6] = [None; 6];
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Put { key, size, ago } => {
                let born = purge_table.current().saturating_sub(*ago);
                let put = Put {
                    number,
                    born,
                    size: *size,
                    now,
                };
                let place = &mut known[usize::from(*key)];
                put.apply(memory, &purge_table, *key, place, is_exact);
            }
            Step::Get(key) => {
                let found = memory.get(format!("/{key}").as_bytes());
                let expected = known[usize::from(*key)];
                assert!(!is_exact || found.is_some() == expected.is_some());
                let Some(found) = found else { continue };
                let expected =
                    expected.expect("nothing is found that was not stored, or that was removed");
                expected.check(&found, &purge_table, now);
            }
            Step::Remove(key) => {
                memory.remove(format!("/{key}").as_bytes());
                known[usize::from(*key)] = None;
            }
            Step::Purge(scope, strength) => {
                purge_table.publish(&Purge {
                    scope: scope.clone(),
                    strength: *strength,
                });
                if matches!(strength, Strength::Hard) {
                    purge_known(&mut known, scope);
                }
            }
            Step::Pass(ms) => now += ms,
        }
        let usage = memory.usage();
        assert!(
            usage.reserved <= usage.limit && usage.bytes <= usage.reserved,
            "{usage:?}"
        );
    }
}

/// An entry to be stored.
struct Put {
    number: usize,
    born: u64,
    size: usize,
    now: u64,
}

impl Put {
    fn apply(
        &self,
        memory: &Memory,
        purge_table: &PurgeTable,
        key: u8,
        known: &mut Option<Known>,
        is_exact: bool,
    ) {
        let path = format!("/{key}");
        let mut body = vec![0; self.size + 8];
        body[..8].copy_from_slice(&(self.number as u64).to_le_bytes());
        let tag = format!("t{key}");
        let mut new = EntryParts {
            body: Bytes::from(body).into(),
            stored_at: Tick(self.now),
            ..parts(&path, self.born)
        };
        new.scopes.tags = [tag_id(&tag)].into();
        let entry = entry("a.test", &path, &[&tag], self.born);
        let is_dead = purge_table.validity(&entry) == Validity::Purged;
        match memory.put(Arc::new(Entry::new(new))) {
            Ok(()) => {
                *known = Some(Known {
                    number: self.number,
                    born: self.born,
                    stored_at: self.now,
                    is_dead,
                });
            }
            Err(PutRefused::Superseded) => {
                assert!(known.is_some_and(|held| held.born > self.born));
            }
            Err(why) => assert!(!is_exact, "{why}"),
        }
    }
}

impl Known {
    fn check(&self, found: &Entry, purge_table: &PurgeTable, now: u64) {
        assert_eq!(
            found.body().unwrap()[..8],
            (self.number as u64).to_le_bytes()
        );
        let is_dead = purge_table.validity(found) == Validity::Purged;
        assert_eq!(is_dead, self.is_dead);
        let age = Duration::from_millis(now - self.stored_at) + Duration::from_secs(2);
        assert_eq!(found.age(Tick(now)), age);
    }
}

fn purge_known(known: &mut [Option<Known>], scope: &Scope) {
    for (key, place) in known.iter_mut().enumerate() {
        let is_named = match scope {
            Scope::Site => true,
            Scope::Tag(tag) => *tag == format!("t{key}"),
            Scope::Prefix(path) => *path == format!("/{key}").as_bytes(),
            Scope::Host(_) | Scope::Url { .. } | Scope::Pattern(_) => false,
        };
        if let Some(known) = place.as_mut().filter(|_| is_named) {
            known.is_dead = true;
        }
    }
}

proptest! {
    #[test]
    fn a_large_store_is_the_model(steps in prop::collection::vec(step(), 1..150)) {
        let memory = Memory::new(64 * MIB, MIB);
        play(&memory, &steps, true);
    }

    #[test]
    fn a_small_store_may_lack_entries_but_is_never_wrong(steps in prop::collection::vec(step(), 1..150)) {
        let memory = Memory::new(100_000, 50_000);
        play(&memory, &steps, false);
        memory.sweep(|_| true);
        assert_eq!(memory.usage().reserved, 0);
    }
}

#[test]
fn peek_counts_no_hit_and_entries_lists_all() {
    let memory = Memory::new(8 << 20, 1 << 20);
    for page in 0..200 {
        let entry = Entry::new(parts(&format!("/{page}"), 0));
        memory.put(Arc::new(entry)).unwrap();
    }
    let mut entries = memory.entries();
    let mut seen: Vec<_> = entries.by_ref().take(120).collect();
    // A step holds no lock, so writers can continue.
    memory.put(Arc::new(Entry::new(parts("/0", 1)))).unwrap();
    seen.extend(entries);
    let keys: std::collections::BTreeSet<_> = seen
        .iter()
        .map(|entry| entry.key.bytes().to_vec())
        .collect();
    assert_eq!(keys.len(), 200);
    assert!(memory.peek(b"/7").is_some() && memory.peek(b"/none").is_none());
    assert!(memory.entries().all(|entry| entry.hits() == 0));
}

#[test]
fn two_stores_with_one_limit_do_not_evict_from_each_other() {
    let (pages, files) = Memory::divided(
        MemoryLimits {
            bytes: 8 * MIB,
            object_bytes: MIB,
        },
        MemoryLimits {
            bytes: MIB,
            object_bytes: MIB / 8,
        },
    );
    pages.put(page("/page", 0, 10_000)).unwrap();
    files.put(page("/file", 0, 10_000)).unwrap();
    for n in 0..500 {
        let _ = files.put(page(&format!("/{n}"), 0, 10_000));
    }
    assert!(files.usage().bytes <= MIB && files.usage().evictions > 300);
    assert!(pages.get(b"/page").is_some());
    let of_files = files.usage().entries;
    for n in 0..2_000 {
        pages.put(page(&format!("/{n}"), 0, 10_000)).unwrap();
        assert!(pages.usage().reserved <= 8 * MIB);
    }
    assert_eq!(files.usage().entries, of_files);
    assert!(pages.budget().used() >= pages.usage().bytes + files.usage().bytes);
}

#[test]
fn a_file_reserves_all_its_codings_and_keeps_its_siblings() {
    let memory = Memory::new(MIB, MIB);
    let coded = |of: fn(Coding, &HeaderMap, StoredBody) -> EncodedEntry, coding| {
        let paid = memory.budget().try_reserve(3000).unwrap();
        of(
            coding,
            &HeaderMap::new(),
            StoredBody::reserved(vec![0; 3000], paid),
        )
    };
    let plain = StoredBody::reserved(vec![0; 7000], memory.budget().try_reserve(7000).unwrap());
    let entry = Entry::new(EntryParts {
        body: plain,
        ..parts("/file", 0)
    });
    let source = EntrySource::new(Box::from(*b"stamp"), Tick(5));
    let entry = Arc::new(entry.of_file(source, vec![coded(EncodedEntry::given, Coding::Gzip)]));
    assert!(!entry.is_compression_tried());
    memory.put(Arc::clone(&entry)).unwrap();
    assert_eq!(memory.budget().used(), entry.weight());
    let given = entry.coded().to_vec();
    let all = [given, vec![coded(EncodedEntry::new, Coding::Brotli)]].concat();
    let denser = Arc::new(entry.with_coded(&entry.fields, all, CompressionStep::Quick));
    assert!(denser.is_compression_tried() && denser.weight() > entry.weight() + 3000);
    memory.put_if_same(&entry, Arc::clone(&denser)).unwrap();
    // A check that is recorded for one copy is recorded for the other.
    entry.source().unwrap().confirm(Tick(9));
    let age = denser.source().map(|source| source.age(Tick(10)));
    assert_eq!(age, Some(Duration::from_millis(1)));
    drop(entry);
    assert_eq!(memory.budget().used(), denser.weight());
    memory.remove(b"/file");
    drop(denser);
    assert_eq!(memory.budget().used(), 0);
}
