//! The numbers of purges by scope, and a ring of the newest purges.
//!
//! There are two ways to the same result: the ring, if an entry was compared a few purges ago (compare it with those few), and
//! the tables after a longer gap (look up every scope of the entry). A property test compares both.
//!
//! Both are bounded: above the limits, old scopes are replaced by a floor. An entry that was not compared since the floor
//! counts as touched by a hard purge, so no purge is lost, but more entries are purged than necessary. For the same reason
//! paths are stored as hashes: a collision purges too much, never too little.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::quality::RandomState;
use galley_policy::purge::Strength;

use super::purge_scope::{
    PurgeScope, PurgeSubject, TablePattern, is_below, is_touched_by_all, prefixes,
};
use crate::validity::PurgeEffect;

/// The number of purges that are stored exactly.
#[derive(Clone, Copy, Debug)]
pub(super) struct PurgeTableLimits {
    /// Hosts, URLs, paths and tags together. Each uses about 48 bytes.
    pub(super) scopes: usize,
    /// Patterns. Each may be tested against every entry.
    pub(super) patterns: usize,
    /// The memory of all patterns.
    pub(super) pattern_bytes: usize,
    /// The newest purges, each with its scope.
    pub(super) ring: usize,
}

impl Default for PurgeTableLimits {
    fn default() -> Self {
        Self {
            scopes: 100_000,
            patterns: MAX_SITE_PATTERNS,
            pattern_bytes: 512 * 1024,
            ring: 64,
        }
    }
}

/// The maximum number of patterns of a site. The log keeps no more than the tables.
pub(crate) const MAX_SITE_PATTERNS: usize = 100;

/// See the module.
#[derive(Debug)]
pub(super) struct Tables {
    limits: PurgeTableLimits,
    /// The number of the newest purge.
    last: u64,
    /// An entry that was last compared before this purge counts as purged hard.
    pub(super) floor: u64,
    /// The numbers of all purges, which touch the tag `*`.
    pub(super) any: PurgeSequences,
    pub(super) site: PurgeSequences,
    pub(super) named: HashMap<NamedScope, PurgeSequences, RandomState>,
    pub(super) patterns: Vec<(Arc<TablePattern>, PurgeSequences)>,
    /// The newest purges without a gap, the newest last.
    ring: VecDeque<PurgeRecord>,
}

impl Tables {
    pub(super) fn new(limits: PurgeTableLimits) -> Self {
        Self {
            limits,
            last: 0,
            floor: 0,
            any: PurgeSequences::default(),
            site: PurgeSequences::default(),
            named: HashMap::default(),
            patterns: Vec::new(),
            ring: VecDeque::with_capacity(limits.ring),
        }
    }

    /// Records a purge with the next number.
    pub(super) fn record(&mut self, mark: PurgeScope, strength: Strength) -> u64 {
        self.record_at(self.last + 1, mark, strength)
    }

    /// Records a purge with the number of an earlier run, or the next number if that one does not rise. A gap between numbers
    /// does no harm: the number of purges newer than a base is at most the difference of the numbers.
    pub(super) fn record_at(&mut self, number: u64, mark: PurgeScope, strength: Strength) -> u64 {
        let number = number.max(self.last + 1);
        self.last = number;
        let verdict = match strength {
            Strength::Hard => PurgeEffect::Hard,
            Strength::Soft => PurgeEffect::Soft,
        };
        self.any.raise(verdict, number);
        match &mark {
            PurgeScope::Site => self.site.raise(verdict, number),
            PurgeScope::Pattern(pattern) => self.pattern(pattern).raise(verdict, number),
            PurgeScope::Host(id) => self.named(NamedScope::Host(*id)).raise(verdict, number),
            PurgeScope::Url(id) => self.named(NamedScope::Url(*id)).raise(verdict, number),
            PurgeScope::Tag(id) => self.named(NamedScope::Tag(*id)).raise(verdict, number),
            PurgeScope::PathQuery(bytes) => self
                .named(NamedScope::PathQuery(self.hash(bytes)))
                .raise(verdict, number),
            PurgeScope::Prefix(bytes) => self
                .named(NamedScope::Prefix(self.hash(bytes)))
                .raise(verdict, number),
        }
        if self.ring.len() >= self.limits.ring {
            self.ring.pop_front();
        }
        if self.limits.ring > 0 {
            self.ring.push_back(PurgeRecord {
                number,
                verdict,
                mark,
            });
        }
        self.fold();
        number
    }

    /// Skips all numbers up to `number`. Returns the newest number, which is `number` or higher. Compiles the patterns that
    /// were recorded for an earlier run and that the tables still contain.
    pub(super) fn lift(&mut self, number: u64) -> u64 {
        for (pattern, _) in &self.patterns {
            pattern.compiled();
        }
        self.fold();
        self.last = self.last.max(number);
        self.last
    }

    /// The effect of purges newer than `base` on `touch`. Patterns are collected, to be tested after the lock is released.
    pub(super) fn lookup(&self, base: u64, touch: &PurgeSubject<'_>) -> TableLookup {
        if base < self.floor {
            return TableLookup::decided(PurgeEffect::Hard);
        }
        if touch.is_touched_by_all() {
            return TableLookup::decided(self.any.since(base));
        }
        if self.last.saturating_sub(base) <= self.ring.len() as u64 {
            self.lookup_in_ring(base, touch)
        } else {
            self.lookup_in_tables(base, touch)
        }
    }

    /// The effect on tags of purges newer than `base`. Every purge touches `*`, the tag of a fragment that depends on everything.
    pub(super) fn effect_on_tags(&self, base: u64, tags: impl Iterator<Item = u64>) -> PurgeEffect {
        if base < self.floor {
            return PurgeEffect::Hard;
        }
        if self.last <= base {
            return PurgeEffect::Untouched;
        }
        let numbers = tags.filter_map(|tag| {
            if is_touched_by_all(tag) {
                return Some(&self.any);
            }
            self.named.get(&NamedScope::Tag(tag))
        });
        numbers
            .map(|numbers| numbers.since(base))
            .max()
            .unwrap_or_default()
    }

    fn lookup_in_ring(&self, base: u64, touch: &PurgeSubject<'_>) -> TableLookup {
        let mut looked = TableLookup::default();
        let path = touch.path();
        for record in self
            .ring
            .iter()
            .rev()
            .take_while(|record| record.number > base)
        {
            let is_touched = match &record.mark {
                PurgeScope::Site => true,
                PurgeScope::Host(id) => *id == touch.host,
                PurgeScope::Url(id) => *id == touch.url,
                PurgeScope::PathQuery(bytes) => **bytes == *touch.path_query,
                PurgeScope::Prefix(prefix) => is_below(path, prefix),
                PurgeScope::Tag(id) => touch.tags().contains(id),
                PurgeScope::Pattern(pattern) => {
                    looked.patterns.push((Arc::clone(pattern), record.verdict));
                    false
                }
            };
            if is_touched {
                looked.verdict = looked.verdict.max(record.verdict);
            }
        }
        looked
    }

    fn lookup_in_tables(&self, base: u64, touch: &PurgeSubject<'_>) -> TableLookup {
        let since = |named: NamedScope| {
            self.named
                .get(&named)
                .map_or(PurgeEffect::Untouched, |numbers| numbers.since(base))
        };
        let mut verdict = self
            .site
            .since(base)
            .max(since(NamedScope::Host(touch.host)))
            .max(since(NamedScope::Url(touch.url)))
            .max(since(NamedScope::PathQuery(self.hash(touch.path_query))));
        for &tag in touch.tags() {
            verdict = verdict.max(since(NamedScope::Tag(tag)));
        }
        for prefix in prefixes(touch.path()) {
            verdict = verdict.max(since(NamedScope::Prefix(self.hash(prefix))));
        }
        let newer = self
            .patterns
            .iter()
            .map(|(pattern, numbers)| (pattern, numbers.since(base)));
        let patterns = newer.filter(|&(_, verdict)| verdict != PurgeEffect::Untouched);
        TableLookup {
            verdict,
            patterns: patterns
                .map(|(pattern, verdict)| (Arc::clone(pattern), verdict))
                .collect(),
        }
    }

    /// As long as the scopes or patterns exceed their limits, removes the older half of them, and raises the floor to the newest
    /// purge among the removed ones.
    fn fold(&mut self) {
        if self.named.len() > self.limits.scopes {
            let newest = self.named.values().map(PurgeSequences::newest);
            self.raise_floor(newest.collect());
        }
        let bytes = |(pattern, _): &(Arc<TablePattern>, _)| pattern.bytes();
        while self.patterns.len() > self.limits.patterns
            || self.patterns.iter().map(bytes).sum::<usize>() > self.limits.pattern_bytes
        {
            let newest = self.patterns.iter().map(|(_, numbers)| numbers.newest());
            self.raise_floor(newest.collect());
        }
    }

    /// Raises the floor to the middle one of these numbers.
    fn raise_floor(&mut self, mut newest: Vec<u64>) {
        let half = newest.len() / 2;
        self.floor = self.floor.max(*newest.select_nth_unstable(half).1);
        let floor = self.floor;
        self.named.retain(|_, numbers| numbers.newest() > floor);
        self.patterns
            .retain(|(_, numbers)| numbers.newest() > floor);
        // Nothing compares an entry with these any more, and they keep their patterns in memory.
        let folded = self.ring.partition_point(|record| record.number <= floor);
        self.ring.drain(..folded);
    }

    fn named(&mut self, named: NamedScope) -> &mut PurgeSequences {
        self.named.entry(named).or_default()
    }

    fn pattern(&mut self, pattern: &Arc<TablePattern>) -> &mut PurgeSequences {
        let position = self
            .patterns
            .iter()
            .position(|(known, _)| known.text() == pattern.text());
        let at = position.unwrap_or(self.patterns.len());
        if position.is_none() {
            let fresh = (Arc::clone(pattern), PurgeSequences::default());
            self.patterns.push(fresh);
        }
        &mut self.patterns[at].1
    }

    pub(super) fn hash(&self, bytes: &[u8]) -> u64 {
        self.named.hasher().hash_one(bytes)
    }

    #[cfg(test)]
    pub(super) fn sizes(&self) -> (usize, usize, u64) {
        (self.named.len(), self.patterns.len(), self.floor)
    }

    #[cfg(test)]
    pub(super) fn tested(&self) -> u64 {
        let counts = self.patterns.iter().map(|(pattern, _)| &pattern.tested);
        counts
            .map(|count| count.load(std::sync::atomic::Ordering::Relaxed))
            .sum()
    }
}

/// The result of a lookup: a verdict, and patterns that have not been tested yet.
#[derive(Debug, Default)]
pub(super) struct TableLookup {
    verdict: PurgeEffect,
    patterns: Vec<(Arc<TablePattern>, PurgeEffect)>,
}

impl TableLookup {
    pub(super) fn decided(verdict: PurgeEffect) -> Self {
        Self {
            verdict,
            patterns: Vec::new(),
        }
    }

    /// Tests the patterns that can still change the verdict, and returns the verdict. All parts of a page share the `steps`.
    pub(super) fn settle(self, touch: &PurgeSubject<'_>, steps: &mut usize) -> PurgeEffect {
        let mut verdict = self.verdict;
        for (pattern, says) in self.patterns {
            if says > verdict && pattern.may_match(touch.path_query, steps) {
                verdict = says;
            }
        }
        verdict
    }
}

/// A scope whose purge numbers are in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum NamedScope {
    Host(u64),
    Url(u64),
    PathQuery(u64),
    Prefix(u64),
    Tag(u64),
}

/// The numbers of a scope's last purges. Both are stored: a soft purge after a hard one does not replace it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PurgeSequences {
    pub(super) hard: u64,
    pub(super) soft: u64,
}

impl PurgeSequences {
    fn raise(&mut self, verdict: PurgeEffect, number: u64) {
        match verdict {
            PurgeEffect::Hard => self.hard = number,
            PurgeEffect::Soft => self.soft = number,
            PurgeEffect::Untouched => {}
        }
    }

    fn since(&self, base: u64) -> PurgeEffect {
        match (self.hard > base, self.soft > base) {
            (true, _) => PurgeEffect::Hard,
            (false, true) => PurgeEffect::Soft,
            (false, false) => PurgeEffect::Untouched,
        }
    }

    pub(super) fn newest(&self) -> u64 {
        self.hard.max(self.soft)
    }
}

/// A purge in the ring.
#[derive(Debug)]
struct PurgeRecord {
    number: u64,
    verdict: PurgeEffect,
    mark: PurgeScope,
}
