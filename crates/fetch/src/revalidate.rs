//! Decides when entries are refreshed: not all at once, and the most requested before they expire.
//!
//! A lifetime that the response does not specify is shortened by up to a tenth, by an amount that depends on the key, so that
//! pages that were stored together do not expire together. An entry that is requested often is refreshed shortly before it
//! expires, by one background request that leaves at least half of the upstream's slots to visitors.

use std::time::Duration;

use galley_cache::entry::{Entry, EntryKind};
use galley_cache::key::Key;
use galley_policy::decide::{PrivateParts, StoredResponse, Validity};
use galley_policy::storable::Lifetime;
use galley_policy::time::Tick;

pub use super::jobs::RefreshReason;

/// An entry in the form that the decision needs, with the age at its lookup; `None` for a list of variants.
pub fn stored(entry: &Entry, validity: Validity, age: Duration) -> Option<StoredResponse<'_>> {
    (entry.kind != EntryKind::Varies).then(|| StoredResponse {
        is_hit_for_pass: entry.kind == EntryKind::HitForPass,
        age,
        lifetime: &entry.lifetime,
        validity,
        fields: &entry.fields,
        ends_soon: may_be_due(entry, age),
        private: PrivateParts::None,
    })
}

/// Whether the caller has to refresh a fresh entry now; true for one caller at a time.
///
/// Costs two comparisons for most entries. `age`: the age at the lookup.
pub fn is_due(entry: &Entry, age: Duration, now: Tick) -> bool {
    may_be_due(entry, age) && entry.claim_renewal(now, PAUSE)
}

/// Whether [`is_due`] may return true.
pub fn may_be_due(entry: &Entry, age: Duration) -> bool {
    is_last_part(&entry.lifetime, age) && entry.kind == EntryKind::Page && entry.hits() >= HOT
}

/// Whether an entry expires soon: in the last tenth of the lifetime that remained when it was received, at most [`MAX_LEAD_TIME`].
fn is_last_part(lifetime: &Lifetime, age: Duration) -> bool {
    let left = lifetime.fresh.saturating_sub(age);
    if left > MAX_LEAD_TIME {
        return false;
    }
    let whole = lifetime.fresh.saturating_sub(lifetime.initial_age);
    whole >= MIN_LIFETIME && left < whole / 10
}

/// The number that determines how much the lifetimes of a key are shortened; the same in every process.
pub(super) fn seed(key: &Key) -> u64 {
    use std::hash::Hasher;
    let mut hasher = siphasher::sip::SipHasher13::new();
    hasher.write(key.bytes());
    hasher.finish()
}

/// Whether an entry will be fresh for only a short time.
pub(super) fn is_ending(entry: &Entry, now: Tick) -> bool {
    is_last_part(&entry.lifetime, entry.age(now))
}

/// The number of hits since an entry was stored from which on it is refreshed early.
const HOT: u64 = 10;

/// The longest time before expiry at which an entry is refreshed: a tenth of a week would be far too early.
const MAX_LEAD_TIME: Duration = Duration::from_secs(60);

/// The shortest lifetime of entries that are refreshed early; shorter ones always expire soon.
const MIN_LIFETIME: Duration = Duration::from_secs(5);

/// The time between two attempts for one entry if the upstream had no free slot.
const PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_is_a_tenth_of_the_remaining_lifetime_and_never_long() {
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
            let lifetime = Lifetime {
                fresh: Duration::from_secs(fresh),
                initial_age: Duration::from_secs(initial_age),
                ..Lifetime::default()
            };
            assert_eq!(
                is_last_part(&lifetime, Duration::from_secs(age)),
                expected,
                "{fresh} {initial_age} {age}"
            );
        }
    }

    #[test]
    fn seeds_are_the_same_in_every_process() {
        assert_eq!(seed(&Key::new(b"key")), 16_096_343_404_774_037_440);
        assert_ne!(seed(&Key::new(b"key")), seed(&Key::new(b"kez")));
    }
}
