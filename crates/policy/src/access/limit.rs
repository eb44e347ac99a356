//! Token buckets in the form of the generic cell rate algorithm (ITU-T I.371): the state of a bucket is the moment at which
//! it will be full again.
//!
//! State and time are arguments; the caller stores the state.

use std::time::Duration;

/// A rate of requests, and the maximum number at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    count: u64,
    per_s: u64,
    burst: u64,
    is_shared: bool,
}

/// The result of a request for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenResult {
    /// A token was taken; the new state of the bucket.
    Token(u64),
    /// The bucket is empty; the time until the next token.
    None(Duration),
}

/// States count sixteenths of a millisecond, so that up to a thousand tokens per second can be distinguished.
pub const TICKS_PER_S: u64 = 16_000;

impl RateLimit {
    /// A limit of `count` tokens every `per_s` seconds, at most `burst` at once. `None` if a number is 0 or too large.
    pub fn new(count: u64, per_s: u64, burst: u64) -> Option<Self> {
        let is_sane = (1..=MAX_PER_S.saturating_mul(per_s)).contains(&count)
            && (1..=DAY_S).contains(&per_s)
            && (1..=MAX_BURST).contains(&burst);
        let limit = Self {
            count,
            per_s,
            burst,
            is_shared: false,
        };
        (is_sane && limit.depth() <= MAX_DEPTH).then_some(limit)
    }

    /// A limit of one token in each `interval`: a millisecond at least, a day at most.
    pub fn every(interval: Duration) -> Option<Self> {
        let ms = u64::try_from(interval.as_millis()).ok()?;
        // A thousand tokens in as many seconds as the interval has milliseconds.
        Self::new(1_000, ms, 1).or_else(|| Self::new(1, interval.as_secs(), 1))
    }

    /// The same limit, counted by all nodes of a cluster together.
    #[must_use]
    pub fn shared(self) -> Self {
        Self {
            is_shared: true,
            ..self
        }
    }

    /// Whether all nodes of a cluster count together.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Parses a rate such as `10/m` into the number and the seconds of its unit: `s`, `m`, `h` or `d`.
    pub fn parse_rate(text: &str) -> Option<(u64, u64)> {
        let (count, unit) = text.split_once('/')?;
        let per_s = match unit.trim() {
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            "d" => DAY_S,
            _ => return None,
        };
        let count = count.trim();
        let is_number = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
        Some((count.parse().ok().filter(|_| is_number)?, per_s))
    }

    /// Takes a token at `now` from a bucket that will be full at `full_at`, both in ticks. A moment long ago, such as 0, means a
    /// full bucket.
    pub fn take(&self, full_at: u64, now: u64) -> TokenResult {
        let full_at = full_at.max(now).saturating_add(self.interval());
        let bound = now.saturating_add(self.depth());
        match full_at.checked_sub(bound) {
            Some(wait @ 1..) => {
                let ms = wait.div_ceil(TICKS_PER_S / 1_000);
                TokenResult::None(Duration::from_millis(ms))
            }
            _ => TokenResult::Token(full_at),
        }
    }

    /// The rate as in the configuration file: `10/m`.
    pub fn rate(&self) -> String {
        let unit = match self.per_s {
            1 => "s",
            60 => "m",
            3_600 => "h",
            _ => "d",
        };
        format!("{}/{unit}", self.count)
    }

    /// The maximum number of tokens at once.
    pub fn burst(&self) -> u64 {
        self.burst
    }

    /// The ticks for one token.
    pub fn interval(&self) -> u64 {
        (self.per_s * TICKS_PER_S / self.count).max(1)
    }

    /// The ticks until an empty bucket is full.
    fn depth(&self) -> u64 {
        self.interval().saturating_mul(self.burst)
    }
}

const DAY_S: u64 = 86_400;
const MAX_PER_S: u64 = 1_000;
const MAX_BURST: u64 = 100_000;

/// A year: a state must fit into the 44 bits that the caller has for it.
const MAX_DEPTH: u64 = 366 * DAY_S * TICKS_PER_S;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_are_parsed() {
        for (text, wanted) in [
            ("10/m", Some((10, 60))),
            ("1/s", Some((1, 1))),
            ("5 / h", Some((5, 3_600))),
            ("3/d", Some((3, 86_400))),
            ("10", None),
            ("10/w", None),
            ("/m", None),
            ("+1/m", None),
            ("1.5/s", None),
            ("99999999999999999999/s", None),
        ] {
            assert_eq!(RateLimit::parse_rate(text), wanted, "{text}");
        }
        assert!(RateLimit::new(0, 60, 1).is_none() && RateLimit::new(1, 60, 0).is_none());
        assert!(
            RateLimit::new(1_001, 1, 1).is_none() && RateLimit::new(1, 86_400, 100_000).is_none()
        );
        assert_eq!(RateLimit::new(10, 60, 5).unwrap().rate(), "10/m");
    }

    #[test]
    fn a_burst_is_granted_at_once_and_then_the_rate() {
        let limit = RateLimit::new(10, 60, 5).unwrap();
        let mut state = 0;
        let now = 1_000 * TICKS_PER_S;
        for _ in 0..5 {
            let TokenResult::Token(next) = limit.take(state, now) else {
                panic!("refused within the burst");
            };
            state = next;
        }
        assert_eq!(
            limit.take(state, now),
            TokenResult::None(Duration::from_secs(6))
        );
        let later = now + 4 * TICKS_PER_S;
        assert_eq!(
            limit.take(state, later),
            TokenResult::None(Duration::from_secs(2))
        );
        assert!(matches!(
            limit.take(state, now + 6 * TICKS_PER_S),
            TokenResult::Token(_)
        ));
    }

    proptest! {
        // However requests are distributed, no more are granted than the burst and the tokens that were added since.
        #[test]
        fn never_more_than_burst_and_rate(
            count in 1..2_000_u64, per in 0..4_usize, burst in 1..200_u64,
            gaps in proptest::collection::vec(0..200_000_u64, 1..300),
        ) {
            let per_s = [1, 60, 3_600, 86_400][per];
            let Some(limit) = RateLimit::new(count, per_s, burst) else { return Ok(()) };
            let (mut state, mut now, mut granted) = (0, 1_u64 << 30, 0_u64);
            let began = now;
            for gap in gaps {
                now += gap;
                if let TokenResult::Token(next) = limit.take(state, now) {
                    state = next;
                    granted += 1;
                }
            }
            // The interval is rounded down, by at most a tick.
            let added = (now - began) / (per_s * TICKS_PER_S / count).max(1);
            prop_assert!(granted <= burst + added + 1, "{granted} > {burst} + {added}");
        }

        #[test]
        fn any_state_is_accepted(state: u64, now: u64, text in "\\PC{0,12}") {
            let _ = RateLimit::new(1, 1, 1).unwrap().take(state, now);
            let _ = RateLimit::parse_rate(&text);
        }
    }
}
