//! Pseudorandom numbers that are the same in every run.

/// An xorshift64 generator.
pub(super) struct Random(pub(super) u64);

impl Random {
    /// Returns a uniformly distributed number below `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound.max(1)
    }
}
