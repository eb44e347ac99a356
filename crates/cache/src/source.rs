//! The file that an entry was made from, which can be checked again.
//!
//! A file may change at any time, so its entry is only as current as the last check of the file. A check is recorded with the
//! time at which it *began*; the caller decides how old it may be. The state of the file is an opaque stamp.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use galley_policy::time::Tick;

/// The file from which an entry was made. Shared between the copies of the entry.
#[derive(Debug)]
pub struct EntrySource {
    stamp: Box<[u8]>,
    /// The time at which the latest check with the same stamp began. Written after each check. Never decreases.
    checked_at: AtomicU64,
    /// The tick from which the next check may be claimed.
    next_check: AtomicU64,
}

impl EntrySource {
    /// A file with the state `stamp` in a check that began at `checked_at`.
    pub fn new(stamp: Box<[u8]>, checked_at: Tick) -> Self {
        Self {
            stamp,
            checked_at: AtomicU64::new(checked_at.0),
            next_check: AtomicU64::new(0),
        }
    }

    /// The state of the file.
    pub fn stamp(&self) -> &[u8] {
        &self.stamp
    }

    /// The time since the last check began.
    pub fn age(&self, now: Tick) -> Duration {
        now.since(Tick(self.checked_at.load(Ordering::Relaxed)))
    }

    /// Records that a check that began at `checked_at` found the same stamp.
    pub fn confirm(&self, checked_at: Tick) {
        self.checked_at.fetch_max(checked_at.0, Ordering::Relaxed);
    }

    /// Whether the caller must check the file: true for one caller until `pause` has passed.
    pub fn claim(&self, now: Tick, pause: Duration) -> bool {
        claim(&self.next_check, now, pause)
    }

    /// The memory used, in bytes.
    pub(crate) fn weight(&self) -> u64 {
        (size_of::<Self>() + self.stamp.len()) as u64
    }
}

/// Whether the caller is the one that may act now: true for one caller until `pause` has passed. `next`: the time of the next
/// claim.
pub(crate) fn claim(next: &AtomicU64, now: Tick, pause: Duration) -> bool {
    let from = next.load(Ordering::Relaxed);
    let pause = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
    let until = now.0.saturating_add(pause);
    now.0 >= from
        && next
            .compare_exchange(from, until, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_counts_from_its_beginning_and_an_older_one_changes_nothing() {
        let source = EntrySource::new(Box::from(*b"stamp"), Tick(100));
        assert_eq!(source.age(Tick(150)), Duration::from_millis(50));
        source.confirm(Tick(140));
        source.confirm(Tick(120));
        assert_eq!(source.age(Tick(150)), Duration::from_millis(10));
        assert_eq!(source.age(Tick(130)), Duration::ZERO);
    }

    #[test]
    fn only_one_caller_checks_at_a_time() {
        let source = EntrySource::new(Box::default(), Tick(0));
        let pause = Duration::from_millis(10);
        assert!(source.claim(Tick(5), pause) && !source.claim(Tick(5), pause));
        assert!(!source.claim(Tick(14), pause) && source.claim(Tick(15), pause));
    }
}
