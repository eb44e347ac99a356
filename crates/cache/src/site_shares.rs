//! How much of the memory each site holds, and which entry is evicted for another.
//!
//! Every site is guaranteed an equal share of the memory. It may use what the others leave free, and loses that when they
//! need it: entries are evicted from the site that is furthest above its share, so a flood of addresses at one site evicts
//! nothing of another. A site may also have a limit of its own. The last four bytes of a key name the site.
//! Entries of sites that the configuration does not name (pages of earlier rules) have no share and are evicted first.
//!
//! Within a site the order is that of S3-FIFO: a new entry that nobody requests is evicted soon, and one that was requested
//! since the last scan stays. With one site, and no limit for it, the table's own order decides alone.
//!
//! Only stores and removals use this module, under one lock that is held for a few steps. Lookups never do.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::entry::Entry;
use crate::key::Key;

/// A site among those that share the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteQuota {
    /// The last four bytes of its keys.
    pub mark: u32,
    /// Its limit in bytes; `None`: the memory's.
    pub most_bytes: Option<u64>,
}

/// What has to happen before an entry is stored.
pub(super) enum Room {
    /// Nothing.
    Enough,
    /// This one is to be removed first.
    Evict(Arc<Entry>),
    /// It is more than its site may have.
    None,
}

/// See the module. The lock is the standard library's also in tests of interleavings: it protects nothing that concerns
/// purges, and storing stays one step there.
pub(super) struct SiteShares(Mutex<ShareTable>);

struct ShareTable {
    /// By mark.
    sites: HashMap<u32, SiteShare>,
    /// What all sites together may hold before one of them gives back.
    capacity: u64,
    /// Their size.
    bytes: u64,
    /// Sites that the configuration names.
    named: u64,
}

#[derive(Default)]
struct SiteShare {
    /// With its limit; `None`: the configuration does not name it.
    quota: Option<SiteQuota>,
    bytes: u64,
    /// Resident entries.
    entries: usize,
    /// Nobody has checked since they were stored whether they are requested.
    fresh: VecDeque<EvictionCandidate>,
    /// Were requested when they were looked at.
    requested: VecDeque<EvictionCandidate>,
}

/// An entry whose turn comes. It may have left by then.
struct EvictionCandidate {
    entry: Weak<Entry>,
    /// When it was last looked at.
    hits: u64,
}

impl SiteShares {
    /// For a table of `shards` equal parts that takes `capacity` bytes; no site is named yet.
    pub(super) fn new(capacity: u64, shards: usize) -> Self {
        Self(Mutex::new(ShareTable {
            sites: HashMap::new(),
            capacity: capacity - slack(capacity, shards),
            bytes: 0,
            named: 0,
        }))
    }

    /// Names the sites of a configuration. Others lose their shares, not their entries.
    pub(super) fn name(&self, quotas: &[SiteQuota]) {
        let mut shares = self.lock();
        for site in shares.sites.values_mut() {
            site.quota = None;
        }
        for quota in quotas {
            shares.sites.entry(quota.mark).or_default().quota = Some(*quota);
        }
        shares.named = quotas.len() as u64;
        shares.sites.retain(|_, site| site.is_wanted());
    }

    /// What a site holds, in bytes.
    pub(super) fn bytes(&self, mark: u32) -> u64 {
        self.lock().sites.get(&mark).map_or(0, |site| site.bytes)
    }

    /// What to do before `more` bytes are stored under a key.
    pub(super) fn room(&self, key: &Key, more: u64) -> Room {
        let mut shares = self.lock();
        match mark_of(key) {
            Some(mark) => shares.room(mark, more),
            None => Room::Enough,
        }
    }

    /// An entry is about to be stored.
    pub(super) fn add(&self, entry: &Entry) {
        let Some(mark) = mark_of(&entry.key) else {
            return;
        };
        let mut shares = self.lock();
        shares.bytes += entry.weight();
        let site = shares.sites.entry(mark).or_default();
        site.bytes += entry.weight();
        site.entries += 1;
    }

    /// An entry has been stored: it may be chosen to leave.
    pub(super) fn enroll(&self, entry: &Arc<Entry>) {
        let Some(mark) = mark_of(&entry.key) else {
            return;
        };
        if let Some(site) = self.lock().sites.get_mut(&mark) {
            site.enroll(entry);
        }
    }

    /// An entry is no longer stored.
    pub(super) fn subtract(&self, entry: &Entry) {
        let Some(mark) = mark_of(&entry.key) else {
            return;
        };
        let mut shares = self.lock();
        shares.bytes = shares.bytes.saturating_sub(entry.weight());
        let Some(site) = shares.sites.get_mut(&mark) else {
            return;
        };
        site.bytes = site.bytes.saturating_sub(entry.weight());
        site.entries = site.entries.saturating_sub(1);
        if !site.is_wanted() {
            shares.sites.remove(&mark);
        }
    }

    fn lock(&self) -> MutexGuard<'_, ShareTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ShareTable {
    fn room(&mut self, mark: u32, more: u64) -> Room {
        let own = self.sites.get_mut(&mark);
        let most = own.as_ref().and_then(|site| site.quota?.most_bytes);
        if let (Some(site), Some(most)) = (own, most)
            && site.bytes + more > most
        {
            let next = (more <= most).then(|| site.next()).flatten();
            return next.map_or(Room::None, Room::Evict);
        }
        if self.named < 2 || self.bytes + more <= self.capacity {
            return Room::Enough;
        }
        let next = self.furthest_above(mark, more).and_then(SiteShare::next);
        next.map_or(Room::Enough, Room::Evict)
    }

    /// A site that is not named any more, else the site that is furthest above its share once `mark` has `more` bytes.
    fn furthest_above(&mut self, mark: u32, more: u64) -> Option<&mut SiteShare> {
        let share = self.capacity / self.named.max(1);
        let excess = |(of, site): &(&u32, &mut SiteShare)| {
            let coming = if **of == mark { more } else { 0 };
            match site.quota {
                Some(_) => (site.bytes + coming).saturating_sub(share),
                None => u64::MAX,
            }
        };
        let sites = self.sites.iter_mut();
        let with_entries = sites.filter(|(_, site)| site.entries > 0);
        let above = with_entries.filter(|site| excess(site) > 0);
        above.max_by_key(excess).map(|(_, site)| site)
    }
}

impl SiteShare {
    /// Whether it has to be remembered.
    fn is_wanted(&self) -> bool {
        self.quota.is_some() || self.entries > 0
    }

    fn enroll(&mut self, entry: &Arc<Entry>) {
        let candidate = EvictionCandidate {
            entry: Arc::downgrade(entry),
            hits: entry.hits(),
        };
        if candidate.hits > 0 {
            // It replaces one that was requested.
            self.requested.push_back(candidate);
        } else {
            self.fresh.push_back(candidate);
        }
        if self.fresh.len() + self.requested.len() > 2 * self.entries + LEAST_DEAD {
            for queue in [&mut self.fresh, &mut self.requested] {
                queue.retain(|candidate| candidate.entry.strong_count() > 0);
            }
        }
    }

    /// The entry that is to leave next. It is out of the queue, so it has to be removed.
    fn next(&mut self) -> Option<Arc<Entry>> {
        let mut spared = 0;
        loop {
            let is_fresh = self.requested.is_empty()
                || self.fresh.len() > (self.fresh.len() + self.requested.len()) / PART_OF_FRESH;
            let queue = if is_fresh {
                &mut self.fresh
            } else {
                &mut self.requested
            };
            let candidate = queue.pop_front()?;
            let Some(entry) = candidate.entry.upgrade() else {
                continue;
            };
            if spared < MOST_SPARED && entry.was_hit_since(candidate.hits) {
                spared += 1;
                self.requested.push_back(EvictionCandidate {
                    hits: entry.hits(),
                    ..candidate
                });
                continue;
            }
            return Some(entry);
        }
    }
}

/// What stays free of a table, so that no part of it is full before the whole is: within a full one the table's own order would
/// decide. Entries spread over the parts by their hashes, so a part has the mean, give or take a few times the root of it.
fn slack(capacity: u64, shards: usize) -> u64 {
    let shards = shards as u64;
    let entries_per_shard = (capacity / shards.max(1) / TYPICAL_ENTRY).max(1);
    match shards {
        0 | 1 => capacity / LEAST_SLACK,
        _ => (capacity * DEVIATIONS / entries_per_shard.isqrt())
            .clamp(capacity / LEAST_SLACK, capacity / MOST_SLACK),
    }
}

fn mark_of(key: &Key) -> Option<u32> {
    let bytes = key.bytes().last_chunk()?;
    Some(u32::from_be_bytes(*bytes))
}

/// A WordPress page with its head.
pub(super) const TYPICAL_ENTRY: u64 = 16 * 1024;

/// The part of a table that stays free, at least and at most.
const LEAST_SLACK: u64 = 64;
const MOST_SLACK: u64 = 6;

/// More than so many standard deviations above the mean is rare.
const DEVIATIONS: u64 = 3;

/// One of so many entries of a site may be new and not requested yet.
const PART_OF_FRESH: usize = 10;

/// Requested entries that are passed over in one search, which holds the lock.
const MOST_SPARED: usize = 1_000;

/// Candidates that have left, for which no queue is worth a pass.
const LEAST_DEAD: usize = 64;

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::entry::EntryParts;
    use crate::memory::{Memory, MemoryLookup, PutRefused};
    use crate::testing::parts;

    const MIB: u64 = 1 << 20;
    const KIB: usize = 1 << 10;
    const A: u32 = 1;
    const B: u32 = 2;
    const C: u32 = 3;

    fn key(mark: u32, name: u32) -> Vec<u8> {
        [format!("/{name} ").as_bytes(), &mark.to_be_bytes()].concat()
    }

    fn page(mark: u32, name: u32, body_bytes: usize) -> Arc<Entry> {
        Arc::new(Entry::new(EntryParts {
            key: Key::new(&key(mark, name)),
            body: Bytes::from(vec![b'x'; body_bytes]).into(),
            ..parts("/", 0)
        }))
    }

    fn share(memory: &Memory, sites: &[(u32, Option<u64>)]) {
        let quotas = sites.iter().map(|(mark, most_bytes)| SiteQuota {
            mark: *mark,
            most_bytes: *most_bytes,
        });
        memory.share_among(&quotas.collect::<Vec<_>>());
    }

    fn fill(memory: &Memory, mark: u32, names: std::ops::Range<u32>) {
        for name in names {
            memory.put(page(mark, name, 16 * KIB)).unwrap();
        }
    }

    /// How many of the pages are found, without counting as requests.
    fn found(memory: &Memory, mark: u32, names: std::ops::Range<u32>) -> usize {
        let keys = names.map(|name| key(mark, name));
        keys.filter(|key| memory.peek(key).is_some()).count()
    }

    /// Every page of the flood is requested again and again, so that it looks popular.
    #[test]
    fn a_flood_of_one_site_takes_nothing_of_the_share_of_another() {
        let memory = Memory::new(16 * MIB, MIB);
        share(&memory, &[(A, None), (B, None)]);
        // 5 of the 14 MiB: less than the size of two parts.
        fill(&memory, A, 0..300);
        for name in 0..5_000 {
            memory.put(page(B, name, 16 * KIB)).unwrap();
            for _ in 0..3 {
                assert!(memory.get(&key(B, name)).is_some());
            }
        }
        assert_eq!(found(&memory, A, 0..300), 300);
        assert!(memory.site_bytes(B) > 6 * MIB, "{}", memory.site_bytes(B));
    }

    #[test]
    fn what_others_leave_free_is_used_and_given_back() {
        let memory = Memory::new(16 * MIB, MIB);
        share(&memory, &[(A, None), (B, None)]);
        fill(&memory, B, 0..2_000);
        assert!(memory.site_bytes(B) > 11 * MIB, "{}", memory.site_bytes(B));
        fill(&memory, A, 0..300);
        assert_eq!(found(&memory, A, 0..300), 300);
        let all = memory.site_bytes(A) + memory.site_bytes(B);
        assert!(all <= 14 * MIB && all > 11 * MIB, "{all}");
    }

    #[test]
    fn a_site_never_holds_more_than_its_limit() {
        let memory = Memory::new(16 * MIB, MIB);
        share(&memory, &[(A, Some(MIB))]);
        for name in 0..500 {
            memory.put(page(A, name, 16 * KIB)).unwrap();
            assert!(memory.site_bytes(A) <= MIB);
        }
        assert_eq!(found(&memory, A, 499..500), 1, "the newest is stored");
        let large = memory.put(page(A, 500, 1 << 20));
        assert_eq!(large, Err(PutRefused::Full));
        assert_eq!(found(&memory, A, 499..500), 1, "nothing leaves for it");
    }

    #[test]
    fn requested_pages_of_a_site_outlast_its_own_flood() {
        let memory = Memory::new(16 * MIB, MIB);
        share(&memory, &[(A, Some(4 * MIB)), (B, None)]);
        fill(&memory, A, 0..100);
        for name in 100..5_000 {
            memory.put(page(A, name, 16 * KIB)).unwrap();
            let popular = memory.try_get(&key(A, name % 100));
            assert!(matches!(popular, MemoryLookup::Found(_)), "{name}");
        }
    }

    #[test]
    fn what_is_requested_more_often_than_is_counted_still_counts_as_requested() {
        let memory = Memory::new(16 * MIB, MIB);
        share(&memory, &[(A, Some(2 * MIB))]);
        let popular = page(A, 0, 16 * KIB);
        memory.put(Arc::clone(&popular)).unwrap();
        for _ in 0..=crate::entry::HITS_COUNTED {
            memory.get(&key(A, 0));
        }
        for name in 1..3_000 {
            memory.put(page(A, name, 16 * KIB)).unwrap();
            assert!(memory.get(&key(A, 0)).is_some(), "{name}");
        }
        assert!(popular.was_hit_since(popular.hits()));
        assert!(!popular.was_hit_since(popular.hits()), "not since then");
    }

    #[test]
    fn pages_of_earlier_rules_go_first() {
        let memory = Memory::new(16 * MIB, MIB);
        share(&memory, &[(A, None), (C, None)]);
        fill(&memory, A, 0..300);
        fill(&memory, C, 0..300);
        share(&memory, &[(B, None), (C, None)]);
        assert_eq!(
            found(&memory, A, 0..300),
            300,
            "a reload alone removes none"
        );
        fill(&memory, B, 0..300);
        assert_eq!(found(&memory, C, 0..300), 300);
        assert_eq!(found(&memory, B, 0..300), 300);
        fill(&memory, B, 300..1_000);
        assert_eq!(memory.site_bytes(A), 0);
    }

    #[test]
    fn queues_do_not_grow_with_what_has_left() {
        let shares = SiteShares::new(MIB, 1);
        for name in 0..10_000 {
            let entry = page(A, name, 10);
            shares.add(&entry);
            shares.enroll(&entry);
            shares.subtract(&entry);
        }
        assert!(shares.lock().sites.is_empty());
        let held = page(A, 0, 10);
        shares.add(&held);
        for name in 0..10_000 {
            let entry = page(A, name, 10);
            shares.add(&entry);
            shares.enroll(&entry);
            shares.subtract(&entry);
        }
        let site_entries = shares.lock().sites[&A].fresh.len();
        assert!(site_entries <= LEAST_DEAD + 4, "{site_entries}");
    }

    /// The count of each site equals the table's entries of it.
    fn assert_counted(memory: &Memory) {
        for mark in [A, B, C] {
            let own = memory
                .entries()
                .filter(|entry| entry.key.bytes().ends_with(&mark.to_be_bytes()));
            let weight: u64 = own.map(|entry| entry.weight()).sum();
            assert_eq!(memory.site_bytes(mark), weight);
        }
    }

    #[test]
    fn threads_together_count_what_the_table_holds() {
        let memory = Memory::new(2 * MIB, MIB);
        share(&memory, &[(A, None), (B, Some(MIB)), (C, None)]);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let memory = &memory;
                scope.spawn(move || {
                    for step in 0..2_000_u32 {
                        let (mark, name) = (1 + (step + thread) % 3, step * 7 % 301);
                        let _ = memory.put(page(mark, name, (step as usize * 97) % (40 * KIB)));
                        if step % 5 == 0 {
                            memory.remove(&key(mark, (name + 3) % 301));
                        }
                    }
                });
            }
        });
        assert_counted(&memory);
    }

    proptest! {
        #[test]
        fn any_steps_leave_the_limits_held(
            steps in prop::collection::vec((1_u32..4, 0_u32..60, 0_usize..120_000, 0_u8..8), 1..200),
        ) {
            let memory = Memory::new(2 * MIB, MIB);
            share(&memory, &[(A, None), (B, Some(300_000)), (C, None)]);
            for (mark, name, size, what) in steps {
                match what {
                    0 => memory.remove(&key(mark, name)),
                    1 => drop(memory.get(&key(mark, name))),
                    2 => share(&memory, &[(A, Some(200_000)), (mark, None)]),
                    _ => drop(memory.put(page(mark, name, size))),
                }
                prop_assert!(memory.usage().bytes <= 2 * MIB);
            }
            assert_counted(&memory);
        }
    }
}
