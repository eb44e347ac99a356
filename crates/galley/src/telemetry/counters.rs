//! Counters of answers, one set per core.
//!
//! Each set has one writer, the core that owns it, which therefore needs no atomic addition: a plain load and store, on a
//! cache line that no other core writes. Readers sum all sets; a sum taken while cores count is a moment old, no more.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use galley_rules::outcome::{Kept, Outcome};

/// The writing side of one core; may be moved to its thread, but not shared between two.
#[derive(Debug)]
pub struct CoreCounters {
    set: Arc<Set>,
    /// Keeps the type from being `Sync`: two writers would lose counts.
    one_writer: PhantomData<Cell<()>>,
}

/// The reading side of one core.
#[derive(Clone, Debug)]
pub struct CounterReader {
    set: Arc<Set>,
}

/// Both sides of a new set, all zero.
pub fn counters() -> (CoreCounters, CounterReader) {
    let set = Arc::new(Set::default());
    (
        CoreCounters {
            set: Arc::clone(&set),
            one_writer: PhantomData,
        },
        CounterReader { set },
    )
}

impl CoreCounters {
    /// Counts one answer with its body bytes.
    pub fn count(&self, outcome: Outcome, body_bytes: u64) {
        self.add(REQUESTS, 1);
        self.add(BYTES, body_bytes);
        self.add(slot(outcome), 1);
        if let Outcome::Miss {
            kept, collapsed, ..
        } = outcome
        {
            if kept == Kept::Stored {
                self.add(STORED, 1);
            }
            if collapsed {
                self.add(COLLAPSED, 1);
            }
        }
    }

    fn add(&self, slot: usize, count: u64) {
        if let Some(counter) = self.set.counts.get(slot) {
            counter.store(
                counter.load(Ordering::Relaxed).wrapping_add(count),
                Ordering::Relaxed,
            );
        }
    }
}

impl CounterReader {
    /// The sums over all cores, by word, always the same words in the same order: `requests`, `bytes` (of bodies), the
    /// first word of each outcome, and of the misses `stored` and `collapsed`.
    pub fn sum(cores: &[CounterReader]) -> Vec<(&'static str, u64)> {
        let total = |slot: usize| {
            let counts = cores.iter().filter_map(|core| core.set.counts.get(slot));
            counts.fold(0_u64, |sum, count| {
                sum.wrapping_add(count.load(Ordering::Relaxed))
            })
        };
        WORDS
            .iter()
            .enumerate()
            .map(|(slot, word)| (*word, total(slot)))
            .collect()
    }
}

/// Two lines of 64 bytes: the hardware fetches them in pairs, so that sets of two cores would disturb one another.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Set {
    /// Written by the owning core only.
    counts: [AtomicU64; WORDS.len()],
}

fn slot(outcome: Outcome) -> usize {
    match outcome {
        Outcome::Hit => 2,
        Outcome::Stale(_) => 3,
        Outcome::Miss { .. } => 4,
        Outcome::Pass(_) => 5,
        Outcome::File => 6,
        Outcome::Redirect => 7,
        Outcome::Purge => 8,
        Outcome::Refused(_) => 9,
    }
}

const REQUESTS: usize = 0;
const BYTES: usize = 1;
const STORED: usize = 10;
const COLLAPSED: usize = 11;
const WORDS: [&str; 12] = [
    "requests",
    "bytes",
    "hit",
    "stale",
    "miss",
    "pass",
    "file",
    "redirect",
    "purge",
    "refused",
    "stored",
    "collapsed",
];

#[cfg(test)]
mod tests {
    use super::*;
    use galley_rules::outcome::{MissWhy, NotStored, PassWhy, RefusedWhy, StaleWhy};

    fn miss(kept: Kept, collapsed: bool) -> Outcome {
        Outcome::Miss {
            why: MissWhy::Uri,
            kept,
            collapsed,
        }
    }

    #[test]
    fn each_outcome_counts_under_its_word() {
        let all = [
            Outcome::Hit,
            Outcome::Stale(StaleWhy::Overload),
            miss(Kept::NotStored(NotStored::Vary), false),
            Outcome::Pass(PassWhy::Path),
            Outcome::File,
            Outcome::Redirect,
            Outcome::Purge,
            Outcome::Refused(RefusedWhy::Denied),
        ];
        for outcome in all {
            let (writer, reader) = counters();
            writer.count(outcome, 7);
            let counted: Vec<_> = CounterReader::sum(&[reader])
                .into_iter()
                .filter(|(_, count)| *count > 0)
                .collect();
            assert_eq!(
                counted,
                [("requests", 1), ("bytes", 7), (outcome.word(), 1)]
            );
        }
    }

    #[test]
    fn cores_are_summed() {
        let (one, one_reader) = counters();
        let (two, two_reader) = counters();
        let thread = std::thread::spawn(move || {
            for _ in 0..1_000 {
                two.count(miss(Kept::Stored, true), 10);
            }
        });
        for _ in 0..500 {
            one.count(Outcome::Hit, 1);
        }
        thread.join().unwrap();
        let sums = CounterReader::sum(&[one_reader, two_reader]);
        let of = |word: &str| {
            sums.iter()
                .find(|(name, _)| *name == word)
                .map(|(_, count)| *count)
        };
        assert_eq!(of("requests"), Some(1_500));
        assert_eq!(of("bytes"), Some(10_500));
        assert_eq!(
            (of("hit"), of("miss"), of("stored"), of("collapsed")),
            (Some(500), Some(1_000), Some(1_000), Some(1_000))
        );
        assert_eq!(of("pass"), Some(0));
    }
}
