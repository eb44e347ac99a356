//! When entries are refreshed: not all at once, and the most requested before they expire.
//!
//! A lifetime that the response does not name is shortened by up to a tenth, by an amount that depends on the key, so that
//! pages that were stored together do not expire together. An entry that is requested often is refreshed shortly before it
//! expires, by one background request that leaves at least half of the upstream's slots to visitors.

use std::time::Duration;

use galley_cache::entry::{Entry, EntryKind};
use galley_cache::key::Key;
use galley_policy::decide::{PrivateParts, StoredResponse, Validity};
use galley_policy::storable::Lifetime;
use galley_policy::time::Tick;

use super::FetchWorker;
pub use super::jobs::When;
use crate::upstream::UpstreamPool;

/// An entry as the decision reads it, at the age with which it was looked up; `None` for a list of variants.
pub fn stored(entry: &Entry, validity: Validity, age: Duration) -> Option<StoredResponse<'_>> {
    (entry.kind != EntryKind::Varies).then(|| StoredResponse {
        is_hit_for_pass: entry.kind == EntryKind::HitForPass,
        age,
        life: &entry.life,
        validity,
        fields: &entry.fields,
        ends_soon: may_be_due(entry, age),
        private: PrivateParts::None,
    })
}

/// Whether a fresh entry that was found is to be renewed now; true for one caller at a time.
///
/// Two comparisons for most entries: `age` is what the caller has looked it up with.
pub fn is_due(entry: &Entry, age: Duration, now: Tick) -> bool {
    may_be_due(entry, age) && entry.claim_renewal(now, PAUSE)
}

/// Whether it is worth asking [`is_due`].
pub fn may_be_due(entry: &Entry, age: Duration) -> bool {
    is_last_part(&entry.life, age) && entry.kind == EntryKind::Page && entry.hits() >= HOT
}

/// Whether an entry expires soon: at the last tenth of its lifetime on arrival, at most [`LONGEST_BEFORE`].
fn is_last_part(life: &Lifetime, age: Duration) -> bool {
    let left = life.fresh.saturating_sub(age);
    if left > LONGEST_BEFORE {
        return false;
    }
    let whole = life.fresh.saturating_sub(life.initial_age);
    whole >= SHORTEST_LIFE && left < whole / 10
}

/// The number by which a key's lifetimes are spread; the same in every process.
pub(super) fn seed(key: &Key) -> u64 {
    use std::hash::Hasher;
    let mut hasher = siphasher::sip::SipHasher13::new();
    hasher.write(key.bytes());
    hasher.finish()
}

impl FetchWorker {
    /// Whether the entry of this key will be fresh for only a short time.
    pub(super) fn is_ending(&self, key: &Key) -> bool {
        let now = self.clock.tick();
        self.memory
            .peek(key.bytes())
            .is_some_and(|entry| is_last_part(&entry.life, entry.age(now)))
    }

    pub(super) fn has_room(&self, pool: usize) -> bool {
        self.pool(pool).is_ok_and(UpstreamPool::has_room)
    }
}

/// Hits since it was stored that make an entry hot.
const HOT: u64 = 10;

/// A tenth of a week would be far too early.
const LONGEST_BEFORE: Duration = Duration::from_secs(60);

/// What lives shorter than this is about to expire all the time.
const SHORTEST_LIFE: Duration = Duration::from_secs(5);

/// Between two attempts for one entry, where the upstream had no room.
const PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_is_a_tenth_of_the_life_here_and_never_long() {
        let table = [
            // fresh, age on arrival, age now, whether it is the last part
            (60, 0, 53, false),
            (60, 0, 54, false),
            (60, 0, 55, true),
            (60, 0, 60, true),
            (60, 40, 55, false),
            (60, 40, 59, true),
            (4, 0, 4, false),
            (60, 56, 60, false),
            (86_400, 0, 86_330, false),
            (86_400, 0, 86_341, true),
        ];
        for (fresh, initial_age, age, expected) in table {
            let life = Lifetime {
                fresh: Duration::from_secs(fresh),
                initial_age: Duration::from_secs(initial_age),
                ..Lifetime::default()
            };
            assert_eq!(
                is_last_part(&life, Duration::from_secs(age)),
                expected,
                "{fresh} {initial_age} {age}"
            );
        }
    }

    #[test]
    fn seeds_do_not_change_with_the_process() {
        assert_eq!(seed(&Key::new(b"key")), 16_096_343_404_774_037_440);
        assert_ne!(seed(&Key::new(b"key")), seed(&Key::new(b"kez")));
    }
}
