//! Reproducible random numbers: `SplitMix64` with a printed seed.
//!
//! The seed reproduces the numbers, but not the scheduling of threads.

use std::time::Duration;

/// A random number generator. Each thread has its own.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Derives a generator for another thread or purpose; equal numbers give equal generators.
    pub(crate) fn fork(&self, number: u64) -> Self {
        Self(mix(self.0 ^ mix(number)))
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number from 0 to `bound` - 1; 0 if `bound` is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.number() % bound).unwrap_or(0)
    }

    /// True with a probability of 1 / `times`.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// A duration below `limit`.
    pub(crate) fn time(&mut self, limit: Duration) -> Duration {
        let micros = usize::try_from(limit.as_micros()).unwrap_or(usize::MAX);
        Duration::from_micros(u64::try_from(self.below(micros)).unwrap_or(0))
    }
}

/// Hashes a number: every bit of the result depends on every bit of the number.
pub(super) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_numbers() {
        let (mut one, mut other) = (Random::new(7), Random::new(7));
        let numbers: Vec<u64> = (0..50).map(|_| one.number()).collect();
        assert!(numbers.iter().all(|number| *number == other.number()));
        assert_ne!(
            Random::new(7).fork(1).number(),
            Random::new(7).fork(2).number()
        );
        assert!((0..500).all(|_| one.below(3) < 3));
        assert_eq!(one.below(0), 0);
    }
}
