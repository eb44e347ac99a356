//! Chance that can be repeated: `SplitMix64` from a printed seed.
//!
//! What is drawn is repeated by the seed; how threads and the kernel interleave is not.

use std::time::Duration;

/// A source of numbers. Each thread has its own.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Another source, for another thread or purpose; equal numbers give equal sources.
    pub(crate) fn fork(&self, number: u64) -> Self {
        Self(mixed(self.0 ^ mixed(number)))
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mixed(self.0)
    }

    /// From 0 to `bound` - 1; 0 where `bound` is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.number() % bound).unwrap_or(0)
    }

    /// True once in so many times.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// From nothing to `longest`.
    pub(crate) fn time(&mut self, longest: Duration) -> Duration {
        let most = usize::try_from(longest.as_micros()).unwrap_or(usize::MAX);
        Duration::from_micros(u64::try_from(self.below(most)).unwrap_or(0))
    }
}

/// Every bit of the result depends on every bit of the number.
pub(super) fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_says_everything() {
        let (mut one, mut other) = (Dice::new(7), Dice::new(7));
        let drawn: Vec<u64> = (0..50).map(|_| one.number()).collect();
        assert!(drawn.iter().all(|number| *number == other.number()));
        assert_ne!(Dice::new(7).fork(1).number(), Dice::new(7).fork(2).number());
        assert!((0..500).all(|_| one.below(3) < 3));
        assert_eq!(one.below(0), 0);
    }
}
