//! Up to which purge an entry has been compared, and the result.
//!
//! It is one number, so that a hit needs one load and one comparison: the purge's number shifted left by one, with the
//! lowest bit set if a soft purge touched the entry; all bits are set if a hard one did. It only ever rises: soft stays
//! soft, purged stays purged, and of two threads that prove at the same time, the one that saw more wins.

use std::sync::atomic::Ordering;

use crate::sync::AtomicU64;

/// What the purges that were looked at do to an entry; the greater wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PurgeEffect {
    /// None touches it.
    #[default]
    Untouched,
    /// A soft purge touches it.
    Soft,
    /// A hard purge touches it.
    Hard,
}

/// The number as it was read: purge number and verdict so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proved {
    /// All purges up to this one have been looked at.
    pub(crate) number: u64,
    /// The effect of them.
    pub(crate) verdict: PurgeEffect,
}

/// The shared number of an entry. Readers on all cores write it, without a lock: it guards nothing but itself, so
/// relaxed order is enough; what purges a proof after a purge is the counter's acquire load.
#[derive(Debug)]
pub(crate) struct ValidityCheck(AtomicU64);

const DEAD: u64 = u64::MAX;

impl ValidityCheck {
    /// An entry generated when the counter was `born` has been compared with the purges up to `born`, and no other.
    pub(crate) fn born(born: u64) -> Self {
        Self(AtomicU64::new(born << 1))
    }

    pub(crate) fn load(&self) -> Proved {
        let packed = self.0.load(Ordering::Relaxed);
        let verdict = match packed {
            DEAD => PurgeEffect::Hard,
            _ if packed & 1 == 1 => PurgeEffect::Soft,
            _ => PurgeEffect::Untouched,
        };
        Proved {
            number: packed >> 1,
            verdict,
        }
    }

    /// Notes that purges up to `number` have been looked at, with `verdict` for all of them together.
    pub(crate) fn note(&self, number: u64, verdict: PurgeEffect) {
        let packed = match verdict {
            PurgeEffect::Untouched => number << 1,
            PurgeEffect::Soft => number << 1 | 1,
            PurgeEffect::Hard => DEAD,
        };
        self.0.fetch_max(packed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_only_rises() {
        let proof = ValidityCheck::born(5);
        assert_eq!(
            proof.load(),
            Proved {
                number: 5,
                verdict: PurgeEffect::Untouched
            }
        );
        proof.note(7, PurgeEffect::Soft);
        proof.note(7, PurgeEffect::Untouched);
        assert_eq!(
            proof.load(),
            Proved {
                number: 7,
                verdict: PurgeEffect::Soft
            }
        );
        proof.note(6, PurgeEffect::Untouched);
        assert_eq!(proof.load().number, 7, "who saw less does not undo");
        proof.note(8, PurgeEffect::Hard);
        proof.note(9, PurgeEffect::Soft);
        assert_eq!(proof.load().verdict, PurgeEffect::Hard);
    }
}
