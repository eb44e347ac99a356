//! The last purge with which an entry was compared, and the result.
//!
//! Both are one number, so that a hit needs one load and one comparison: the purge's number shifted left by one, with the
//! lowest bit set if a soft purge touched the entry. All bits are set if a hard purge did. The number only rises: a soft or hard
//! result remains, and of two threads that compare at the same time, the one that considered more purges wins.

use std::sync::atomic::Ordering;

use crate::sync::AtomicU64;

/// The effect of purges on an entry. The greater effect wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PurgeEffect {
    /// No purge touches the entry.
    #[default]
    Untouched,
    /// A soft purge touches the entry.
    Soft,
    /// A hard purge touches the entry.
    Hard,
}

/// The unpacked number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnpackedValidity {
    /// The entry was compared with all purges up to this one.
    pub(crate) number: u64,
    /// The effect of those purges.
    pub(crate) verdict: PurgeEffect,
}

/// The shared number of an entry. Readers on all cores write it without a lock. It protects no other data, so relaxed ordering
/// is enough; the acquire load of the purge counter orders a comparison after a purge.
#[derive(Debug)]
pub(crate) struct ValidityCheck(AtomicU64);

const PURGED: u64 = u64::MAX;

impl ValidityCheck {
    /// An entry that was generated when the counter was `born` needs no comparison with purges up to `born`.
    pub(crate) fn born(born: u64) -> Self {
        Self(AtomicU64::new(born << 1))
    }

    pub(crate) fn load(&self) -> UnpackedValidity {
        let packed = self.0.load(Ordering::Relaxed);
        let verdict = match packed {
            PURGED => PurgeEffect::Hard,
            _ if packed & 1 == 1 => PurgeEffect::Soft,
            _ => PurgeEffect::Untouched,
        };
        UnpackedValidity {
            number: packed >> 1,
            verdict,
        }
    }

    /// Records that the entry was compared with the purges up to `number`, and their total effect `verdict`.
    pub(crate) fn note(&self, number: u64, verdict: PurgeEffect) {
        let packed = match verdict {
            PurgeEffect::Untouched => number << 1,
            PurgeEffect::Soft => number << 1 | 1,
            PurgeEffect::Hard => PURGED,
        };
        self.0.fetch_max(packed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_only_rises() {
        let check = ValidityCheck::born(5);
        assert_eq!(
            check.load(),
            UnpackedValidity {
                number: 5,
                verdict: PurgeEffect::Untouched
            }
        );
        check.note(7, PurgeEffect::Soft);
        check.note(7, PurgeEffect::Untouched);
        assert_eq!(
            check.load(),
            UnpackedValidity {
                number: 7,
                verdict: PurgeEffect::Soft
            }
        );
        check.note(6, PurgeEffect::Untouched);
        assert_eq!(check.load().number, 7, "an older check undoes nothing");
        check.note(8, PurgeEffect::Hard);
        check.note(9, PurgeEffect::Soft);
        assert_eq!(check.load().verdict, PurgeEffect::Hard);
    }
}
