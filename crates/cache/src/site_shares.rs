//! The share of the memory that each site uses, and the choice of the entry to evict.
//!
//! Every site is guaranteed an equal share of the memory. It may use what the other sites leave free, and loses that when they
//! need it: entries are evicted from the site that exceeds its share the most, so a flood of addresses at one site evicts
//! nothing of another one. A site may also have a separate limit. The last four bytes of a key identify the site. Entries
//! of sites that are not in the configuration (pages stored under earlier rules) have no share and are evicted first.
//!
//! Within a site the order is that of S3-FIFO: a new entry without requests is evicted soon, and an entry that was requested
//! since the last scan stays. With one site that has no limit, only the table's order decides.
//!
//! Only stores and removals use this module, under one lock that is held for a few steps. Lookups never use it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use galley_sys::Lock;

use crate::entry::Entry;
use crate::key::Key;

/// The limit of a site that shares the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteQuota {
    /// The last four bytes of the site's keys.
    pub mark: u32,
    /// The limit in bytes; `None`: the limit of the memory.
    pub most_bytes: Option<u64>,
}

/// The step that is needed before an entry is stored.
pub(super) enum EvictionStep {
    /// Store it.
    Store,
    /// Evict this entry first.
    Evict(Arc<Entry>),
    /// The entry exceeds the limit of its site.
    Reject,
}

/// See the module. Tests of interleavings use the lock of the standard library, too: it protects nothing that concerns purges,
/// and storing remains one step in those tests.
pub(super) struct SiteShares(Lock<ShareTable>);

struct ShareTable {
    /// The sites by mark.
    sites: HashMap<u32, SiteShare>,
    /// The bytes that all sites together may use before entries are evicted.
    capacity: u64,
    /// The bytes that all sites use.
    bytes: u64,
    /// The number of sites in the configuration.
    configured: u64,
}

#[derive(Default)]
struct SiteShare {
    /// The site's limit; `None`: the site is not in the configuration.
    quota: Option<SiteQuota>,
    bytes: u64,
    /// The number of stored entries.
    entries: usize,
    /// Entries that were not checked for hits since they were stored.
    fresh: VecDeque<EvictionCandidate>,
    /// Entries that had hits when they were last checked.
    requested: VecDeque<EvictionCandidate>,
}

/// An entry in an eviction queue. It may have been removed from the store in the meantime.
struct EvictionCandidate {
    entry: Weak<Entry>,
    /// The entry's hits when it was last checked.
    hits: u64,
}

impl SiteShares {
    /// For a table with `shards` equal parts and `capacity` bytes. No sites are configured yet.
    pub(super) fn new(capacity: u64, shards: usize) -> Self {
        Self(Lock::new(ShareTable {
            sites: HashMap::new(),
            capacity: capacity - slack(capacity, shards),
            bytes: 0,
            configured: 0,
        }))
    }

    /// Sets the sites of a configuration. Other sites lose their shares, not their entries.
    pub(super) fn name(&self, quotas: &[SiteQuota]) {
        let mut shares = self.0.lock();
        for site in shares.sites.values_mut() {
            site.quota = None;
        }
        for quota in quotas {
            shares.sites.entry(quota.mark).or_default().quota = Some(*quota);
        }
        shares.configured = quotas.len() as u64;
        shares.sites.retain(|_, site| site.must_be_kept());
    }

    /// The bytes that a site uses.
    pub(super) fn bytes(&self, mark: u32) -> u64 {
        self.0.lock().sites.get(&mark).map_or(0, |site| site.bytes)
    }

    /// The step that is needed before `more` bytes are stored under a key.
    pub(super) fn next_step(&self, key: &Key, more: u64) -> EvictionStep {
        let mut shares = self.0.lock();
        match mark_of(key) {
            Some(mark) => shares.next_step(mark, more),
            None => EvictionStep::Store,
        }
    }

    /// Counts an entry that is about to be stored.
    pub(super) fn add(&self, entry: &Entry) {
        let Some(mark) = mark_of(&entry.key) else {
            return;
        };
        let mut shares = self.0.lock();
        shares.bytes += entry.weight();
        let site = shares.sites.entry(mark).or_default();
        site.bytes += entry.weight();
        site.entries += 1;
    }

    /// Adds a stored entry to the eviction queue of its site.
    pub(super) fn enroll(&self, entry: &Arc<Entry>) {
        let Some(mark) = mark_of(&entry.key) else {
            return;
        };
        if let Some(site) = self.0.lock().sites.get_mut(&mark) {
            site.enroll(entry);
        }
    }

    /// Subtracts an entry that is no longer stored.
    pub(super) fn subtract(&self, entry: &Entry) {
        let Some(mark) = mark_of(&entry.key) else {
            return;
        };
        let mut shares = self.0.lock();
        shares.bytes = shares.bytes.saturating_sub(entry.weight());
        let Some(site) = shares.sites.get_mut(&mark) else {
            return;
        };
        site.bytes = site.bytes.saturating_sub(entry.weight());
        site.entries = site.entries.saturating_sub(1);
        if !site.must_be_kept() {
            shares.sites.remove(&mark);
        }
    }
}

impl ShareTable {
    fn next_step(&mut self, mark: u32, more: u64) -> EvictionStep {
        let share_of_site = self.sites.get_mut(&mark);
        let most = share_of_site
            .as_ref()
            .and_then(|site| site.quota?.most_bytes);
        if let (Some(site), Some(most)) = (share_of_site, most)
            && site.bytes + more > most
        {
            let next = (more <= most).then(|| site.next()).flatten();
            return next.map_or(EvictionStep::Reject, EvictionStep::Evict);
        }
        if self.configured < 2 || self.bytes + more <= self.capacity {
            return EvictionStep::Store;
        }
        let next = self.furthest_above(mark, more).and_then(SiteShare::next);
        next.map_or(EvictionStep::Store, EvictionStep::Evict)
    }

    /// A site that is no longer configured, else the site that would exceed its share the most if `mark` had `more` bytes.
    fn furthest_above(&mut self, mark: u32, more: u64) -> Option<&mut SiteShare> {
        let share = self.capacity / self.configured.max(1);
        let excess = |(of, site): &(&u32, &mut SiteShare)| {
            let added = if **of == mark { more } else { 0 };
            match site.quota {
                Some(_) => (site.bytes + added).saturating_sub(share),
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
    /// Whether the site must be kept: it is configured or has entries.
    fn must_be_kept(&self) -> bool {
        self.quota.is_some() || self.entries > 0
    }

    fn enroll(&mut self, entry: &Arc<Entry>) {
        let candidate = EvictionCandidate {
            entry: Arc::downgrade(entry),
            hits: entry.hits(),
        };
        if candidate.hits > 0 {
            // Replaces an entry that had hits.
            self.requested.push_back(candidate);
        } else {
            self.fresh.push_back(candidate);
        }
        if self.fresh.len() + self.requested.len() > 2 * self.entries + MAX_STALE_CANDIDATES {
            for queue in [&mut self.fresh, &mut self.requested] {
                queue.retain(|candidate| candidate.entry.strong_count() > 0);
            }
        }
    }

    /// Removes the next entry to evict from the queue. The caller must remove it from the store.
    fn next(&mut self) -> Option<Arc<Entry>> {
        let mut skipped = 0;
        loop {
            let is_fresh = self.requested.is_empty()
                || self.fresh.len() > (self.fresh.len() + self.requested.len()) / FRESH_DIVISOR;
            let queue = if is_fresh {
                &mut self.fresh
            } else {
                &mut self.requested
            };
            let candidate = queue.pop_front()?;
            let Some(entry) = candidate.entry.upgrade() else {
                continue;
            };
            if skipped < MAX_SKIPPED && entry.was_hit_since(candidate.hits) {
                skipped += 1;
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

/// The bytes of a table that stay free, so that no part is full before the whole table is: in a full part the table's own order
/// would decide. Hashes distribute entries over the parts, so the load of a part is the mean plus or minus a few times its square
/// root.
fn slack(capacity: u64, shards: usize) -> u64 {
    let shards = shards as u64;
    let entries_per_shard = (capacity / shards.max(1) / TYPICAL_ENTRY).max(1);
    match shards {
        0 | 1 => capacity / MIN_SLACK_DIVISOR,
        _ => (capacity * DEVIATIONS / entries_per_shard.isqrt())
            .clamp(capacity / MIN_SLACK_DIVISOR, capacity / MAX_SLACK_DIVISOR),
    }
}

fn mark_of(key: &Key) -> Option<u32> {
    let bytes = key.bytes().last_chunk()?;
    Some(u32::from_be_bytes(*bytes))
}

/// The size of a WordPress page with its head, in bytes.
pub(super) const TYPICAL_ENTRY: u64 = 16 * 1024;

/// The divisors for the minimum and the maximum part of a table that stays free.
const MIN_SLACK_DIVISOR: u64 = 64;
const MAX_SLACK_DIVISOR: u64 = 6;

/// A load of more standard deviations above the mean is rare.
const DEVIATIONS: u64 = 3;

/// The divisor for the part of a site's entries that may be new and without hits.
const FRESH_DIVISOR: usize = 10;

/// The maximum number of entries with hits that one search skips. The search holds the lock.
const MAX_SKIPPED: usize = 1_000;

/// The number of removed entries in the queues up to which they are not cleaned.
const MAX_STALE_CANDIDATES: usize = 64;

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

    /// The number of these pages in memory. Does not count as hits.
    fn found(memory: &Memory, mark: u32, names: std::ops::Range<u32>) -> usize {
        let keys = names.map(|name| key(mark, name));
        keys.filter(|key| memory.peek(key).is_some()).count()
    }

    /// Every page of the flood is requested repeatedly, so that it looks popular.
    #[test]
    fn a_flood_of_one_site_evicts_nothing_of_the_share_of_another() {
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
    fn a_site_uses_free_memory_and_loses_it_to_other_sites() {
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
    fn a_page_above_the_counted_hits_still_counts_as_requested() {
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
    fn pages_of_earlier_rules_are_evicted_first() {
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
    fn queues_do_not_grow_with_removed_entries() {
        let shares = SiteShares::new(MIB, 1);
        for name in 0..10_000 {
            let entry = page(A, name, 10);
            shares.add(&entry);
            shares.enroll(&entry);
            shares.subtract(&entry);
        }
        assert!(shares.0.lock().sites.is_empty());
        let held = page(A, 0, 10);
        shares.add(&held);
        for name in 0..10_000 {
            let entry = page(A, name, 10);
            shares.add(&entry);
            shares.enroll(&entry);
            shares.subtract(&entry);
        }
        let site_entries = shares.0.lock().sites[&A].fresh.len();
        assert!(site_entries <= MAX_STALE_CANDIDATES + 4, "{site_entries}");
    }

    /// Asserts that the count of each site equals the weight of its entries in the table.
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
    fn counts_match_the_table_with_several_threads() {
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
        fn limits_hold_after_any_steps(
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
