//! A token bucket: the allowance for frames that cause work without purpose.

/// A token bucket.
#[derive(Debug)]
pub struct TokenBucket {
    left: u32,
    rate: Rate,
    /// The time of the last refill.
    at_ms: u64,
}

/// The size of a bucket, and how fast it refills.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// The number of tokens in a full bucket.
    pub most: u32,
    /// The number of tokens that are added each second.
    pub per_s: u32,
}

impl TokenBucket {
    /// A full bucket.
    pub fn new(rate: Rate, now_ms: u64) -> Self {
        Self {
            left: rate.most,
            rate,
            at_ms: now_ms,
        }
    }

    /// Adds tokens.
    pub fn add(&mut self, more: u32) {
        self.left = self.left.saturating_add(more).min(self.rate.most);
    }

    /// Takes `cost` tokens. Returns whether there were enough.
    pub fn take(&mut self, cost: u32, now_ms: u64) -> bool {
        let more = now_ms.saturating_sub(self.at_ms) * u64::from(self.rate.per_s) / 1000;
        if more > 0 {
            self.at_ms = now_ms;
            self.add(u32::try_from(more).unwrap_or(u32::MAX));
        }
        let left = self.left.checked_sub(cost);
        self.left = left.unwrap_or(0);
        left.is_some()
    }
}
