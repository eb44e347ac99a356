//! The token buckets of all clients in a table of fixed size.
//!
//! ```text
//! a slot, 64 bits:  | tag, 20 bits | when the bucket will be full again, 44 bits, in ticks |
//! a set, one cache line: eight slots; a keyed hash of the client selects the set and the tag
//! ```
//!
//! A full bucket holds no information, so a new client gets the slot of the bucket that will be full first. To get rid of an
//! empty bucket, a client would have to fill its set with eight emptier ones, without knowing which set that is. Two clients
//! share a bucket if set and tag are equal, which one in a million pairs of a set does.
//!
//! All threads update it with compare-and-exchange operations; none waits.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use galley_policy::access::{RateLimit, TICKS_PER_S, TokenResult};
use galley_policy::time::Tick;
use siphasher::sip::SipHasher13;

/// Token buckets by owner.
pub struct Buckets {
    sets: Box<[BucketSet]>,
    key: (u64, u64),
}

#[derive(Default)]
#[repr(align(64))]
struct BucketSet([AtomicU64; WAYS]);

impl Buckets {
    /// Creates the table; all buckets are full.
    #[expect(clippy::new_without_default, reason = "it draws a random key")]
    pub fn new() -> Self {
        let random = || u64::from_ne_bytes(galley_sys::random_bytes());
        Self {
            sets: (0..SETS).map(|_| BucketSet::default()).collect(),
            key: (random(), random()),
        }
    }

    /// Takes a token from the bucket of `owner`; the error is the time until the next one.
    pub fn take(&self, owner: &impl Hash, limit: &RateLimit, now: Tick) -> Result<(), Duration> {
        let now = bucket_time(now);
        self.change(owner, now, |full_at| match limit.take(full_at, now) {
            TokenResult::None(wait) => Err(wait),
            TokenResult::Token(full_at) => Ok(full_at),
        })
    }

    /// Removes as many tokens as are refilled in `ticks` from the bucket of `owner`, also more than it has.
    pub fn charge(&self, owner: &impl Hash, ticks: u64, now: Tick) {
        let now = bucket_time(now);
        // If other threads win every attempt, the charge is lost, which makes the limit a little wider.
        let _ = self.change(owner, now, |full_at| {
            Ok(full_at.max(now).saturating_add(ticks).min(TIMES))
        });
    }

    fn change(
        &self,
        owner: &impl Hash,
        now: u64,
        next: impl Fn(u64) -> Result<u64, Duration>,
    ) -> Result<(), Duration> {
        let mut hasher = SipHasher13::new_with_keys(self.key.0, self.key.1);
        owner.hash(&mut hasher);
        let hash = hasher.finish();
        // Never 0, so that no slot in use looks empty.
        let tag = (hash & TAGS).max(1);
        let index = usize::try_from(hash >> 32).unwrap_or_default() % SETS;
        let Some(set) = self.sets.get(index) else {
            return Ok(());
        };
        for _ in 0..TRIES {
            let (slot, seen) = set.find(tag, now);
            let full_at = if seen >> TIME_BITS == tag {
                seen & TIMES
            } else {
                0
            };
            let state = tag << TIME_BITS | next(full_at)? & TIMES;
            let swapped = slot.compare_exchange(seen, state, Ordering::Relaxed, Ordering::Relaxed);
            if swapped.is_ok() {
                return Ok(());
            }
        }
        // Other threads won every attempt: so many concurrent requests exceed any limit.
        Err(Duration::from_secs(1))
    }
}

impl BucketSet {
    /// The slot of this tag, or otherwise the one to be reused, with its value.
    fn find(&self, tag: u64, now: u64) -> (&AtomicU64, u64) {
        let [first, ..] = &self.0;
        let mut least = (first, first.load(Ordering::Relaxed));
        for slot in &self.0 {
            let seen = slot.load(Ordering::Relaxed);
            if seen >> TIME_BITS == tag {
                return (slot, seen);
            }
            // All full buckets are equal; the first one is used.
            if (seen & TIMES).max(now) < (least.1 & TIMES).max(now) {
                least = (slot, seen);
            }
        }
        least
    }
}

/// The time in buckets. It starts after 0, which a free slot contains, so that free slots are full buckets.
fn bucket_time(now: Tick) -> u64 {
    now.0.saturating_mul(TICKS_PER_S / 1_000) + TICKS_PER_S
}

const WAYS: usize = 8;

/// 65,536 buckets in half a megabyte: for that many clients that are limited at the same time.
const SETS: usize = 8_192;

const TIME_BITS: u32 = 44;
const TIMES: u64 = (1 << TIME_BITS) - 1;
const TAGS: u64 = (1 << (64 - TIME_BITS)) - 1;

/// The maximum number of attempts. After each failed one, another client got a token.
const TRIES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn limit(burst: u64) -> RateLimit {
        RateLimit::new(10, 60, burst).unwrap()
    }

    fn granted(buckets: &Buckets, owner: u64, now: u64, times: usize) -> usize {
        let taken = (0..times).map(|_| buckets.take(&owner, &limit(5), Tick(now)));
        taken.flatten().count()
    }

    #[test]
    fn each_client_has_a_bucket_that_fills_again() {
        let buckets = Buckets::new();
        assert_eq!(granted(&buckets, 1, 0, 20), 5);
        assert_eq!(granted(&buckets, 2, 0, 20), 5);
        assert_eq!(granted(&buckets, 1, 12_000, 20), 2);
        assert_eq!(granted(&buckets, 1, 3_600_000, 20), 5);
    }

    #[test]
    fn charged_tokens_are_missing_and_refilled() {
        let buckets = Buckets::new();
        let ticks = limit(5).interval();
        buckets.charge(&1_u64, 3 * ticks, Tick(0));
        assert_eq!(granted(&buckets, 1, 0, 20), 2);
        // A charge beyond the contents extends the time until the bucket is full.
        buckets.charge(&1_u64, 5 * ticks, Tick(0));
        assert_eq!(granted(&buckets, 1, 30_000, 20), 0);
        assert_eq!(granted(&buckets, 1, 36_000, 20), 1);
        buckets.charge(&2_u64, u64::MAX, Tick(0));
        assert_eq!(granted(&buckets, 2, 0, 20), 0);
    }

    #[test]
    fn other_clients_do_not_refill_a_bucket() {
        let buckets = Buckets::new();
        assert_eq!(granted(&buckets, 1, 0, 5), 5);
        // A quarter of the table: sets of eight with two in use on average.
        for other in 10..16_000 {
            granted(&buckets, other, 0, 1);
        }
        assert_eq!(granted(&buckets, 1, 0, 5), 0);
    }

    #[test]
    fn a_new_client_replaces_the_fullest_bucket() {
        let buckets = Buckets::new();
        for other in 0..SETS as u64 * WAYS as u64 * 4 {
            assert!(
                granted(&buckets, other, 0, 1) <= 1,
                "the table holds what it holds"
            );
        }
        // A new client gets a full bucket; those above have had time to refill.
        assert_eq!(granted(&buckets, u64::MAX, 3_600_000, 20), 5);
    }

    #[test]
    fn threads_never_get_more_than_the_burst_in_total() {
        let buckets = Buckets::new();
        let all = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let taken = buckets.take(&7_u64, &limit(1_000), Tick(0));
                        all.fetch_add(usize::from(taken.is_ok()), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(all.into_inner(), 1_000);
    }
}
