//! Which keys were asked for before, in constant memory and without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

use galley_policy::time::Tick;

/// Remembers keys by their hashes for an hour. A key whose slot another key has taken in between counts as new.
pub(crate) struct AskedTwice {
    /// Each has the upper 40 bits of a hash, and the minute of its last request.
    slots: Box<[AtomicU64]>,
}

impl Default for AskedTwice {
    fn default() -> Self {
        Self {
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl AskedTwice {
    /// Whether the key of `hash` was asked for within the hour before `now`. Remembers this request.
    pub(crate) fn again(&self, hash: u64, now: Tick) -> bool {
        // 0 is an empty slot.
        let minute = (now.0 / MILLIS_PER_MINUTE + 1) & MINUTES;
        let slot = usize::try_from(hash % SLOTS).unwrap_or(0);
        let Some(slot) = self.slots.get(slot) else {
            return false;
        };
        let before = slot.swap(hash & !MINUTES | minute, Ordering::Relaxed);
        let age = minute.wrapping_sub(before & MINUTES) & MINUTES;
        before != 0 && before & !MINUTES == hash & !MINUTES && age <= 60
    }
}

/// 32 KiB; more files than this fit into no memory of files.
const SLOTS: u64 = 4096;

/// The bits of a slot that contain the minute.
const MINUTES: u64 = (1 << 24) - 1;

const MILLIS_PER_MINUTE: u64 = 60_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_key_is_known_for_an_hour_after_its_last_request() {
        let asked = AskedTwice::default();
        let at = |minutes: u64| Tick(minutes * MILLIS_PER_MINUTE);
        let hash = 7 << 30;
        let table = [
            (0, false),
            (60, true),
            (120, true),
            (181, false),
            (181, true),
        ];
        for (minutes, expected) in table {
            assert_eq!(asked.again(hash, at(minutes)), expected, "{minutes}");
        }
        assert!(
            !asked.again(hash + SLOTS * (1 << 24), at(181)),
            "the same slot"
        );
        assert!(!asked.again(hash, at(181)), "its slot was taken");
    }

    proptest! {
        #[test]
        fn keys_that_are_asked_for_once_are_new(hashes in proptest::collection::hash_set(any::<u64>().prop_map(|hash| hash | 1 << 63), 0..10_000)) {
            let asked = AskedTwice::default();
            for hash in hashes {
                // Equal in the upper 40 bits and the slot: one in 2^52 pairs.
                prop_assert!(!asked.again(hash, Tick(0)));
            }
        }
    }
}
