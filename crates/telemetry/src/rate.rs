//! Limits messages that clients can cause, so that a hostile client can neither fill the disk nor hide important messages.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Admits some messages of one kind in each second and counts the others, for messages that clients can cause.
#[derive(Debug)]
pub struct RateLimited {
    /// The kind of message, for the report about suppressed ones.
    what: &'static str,
    per_second: u32,
    began: Instant,
    /// The second in the upper half, and the number of messages in that second in the lower half.
    state: AtomicU64,
}

impl RateLimited {
    /// Admits `per_second` messages about `what`.
    pub fn new(what: &'static str, per_second: u32) -> Self {
        Self {
            what,
            per_second,
            began: Instant::now(),
            state: AtomicU64::new(0),
        }
    }

    /// Whether this message may be written. The first message of a later second reports how many were suppressed before.
    pub fn admit(&self) -> bool {
        let (is_admitted, held_back) = self.admit_counting();
        self.report(held_back);
        is_admitted
    }

    /// Like [`Self::admit`]; the caller reports the number of suppressed messages.
    pub fn admit_counting(&self) -> (bool, u32) {
        self.admit_at(self.second())
    }

    /// Reports the messages that were suppressed in a previous second. Called at each timer tick, so that the end of a flood is
    /// reported, too.
    pub fn settle(&self) {
        self.report(self.settle_counting());
    }

    /// Like [`Self::settle`]; the caller reports the number.
    pub fn settle_counting(&self) -> u32 {
        self.settle_at(self.second())
    }

    /// Whether one more message in `second` is admitted, and how many an earlier second has suppressed.
    pub(super) fn admit_at(&self, second: u32) -> (bool, u32) {
        let (then, wanted) = self.step(|then, wanted| {
            if then == second {
                (then, wanted.saturating_add(1))
            } else {
                (second, 1)
            }
        });
        if then == second {
            (wanted < self.per_second, 0)
        } else {
            (self.per_second > 0, wanted.saturating_sub(self.per_second))
        }
    }

    pub(super) fn settle_at(&self, second: u32) -> u32 {
        let (then, wanted) = self.step(|then, wanted| {
            if then == second {
                (then, wanted)
            } else {
                (second, 0)
            }
        });
        if then == second {
            0
        } else {
            wanted.saturating_sub(self.per_second)
        }
    }

    /// Replaces second and count, and returns the old ones. Exactly one thread sees the end of a second.
    fn step(&self, next: impl Fn(u32, u32) -> (u32, u32)) -> (u32, u32) {
        let replaced = self
            .state
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| {
                let (second, wanted) = split(state);
                let (second, wanted) = next(second, wanted);
                Some((u64::from(second) << 32) | u64::from(wanted))
            });
        split(replaced.unwrap_or_else(|same| same))
    }

    /// Saturates after a century.
    fn second(&self) -> u32 {
        u32::try_from(self.began.elapsed().as_secs()).unwrap_or(u32::MAX)
    }

    pub(super) fn report(&self, held_back: u32) {
        if held_back > 0 {
            tracing::warn!(
                about = self.what,
                count = held_back,
                "suppressed more messages of this kind"
            );
        }
    }
}

/// Admits one message in each interval, for conditions that last. The admitted message reports the count so far.
#[derive(Debug)]
pub struct LogInterval {
    every_s: u32,
    began: Instant,
    /// The second of the last message, counted from 1; 0: none so far.
    last: AtomicU64,
}

impl LogInterval {
    /// Admits one message in `every_s` seconds.
    pub fn new(every_s: u32) -> Self {
        Self {
            every_s,
            began: Instant::now(),
            last: AtomicU64::new(0),
        }
    }

    /// Whether this message may be written.
    pub fn admit(&self) -> bool {
        self.admit_at(self.began.elapsed().as_secs() + 1)
    }

    fn admit_at(&self, second: u64) -> bool {
        let last = self.last.load(Ordering::Relaxed);
        if last != 0 && second.saturating_sub(last) < u64::from(self.every_s) {
            return false;
        }
        self.last
            .compare_exchange(last, second, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }
}

fn split(state: u64) -> (u32, u32) {
    let [a, b, c, d, rest @ ..] = state.to_be_bytes();
    (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_above_the_limit_are_counted() {
        let limit = RateLimited::new("tests", 2);
        let seen: Vec<_> = [0, 0, 0, 0, 1, 1, 5, 5, 5]
            .map(|second| limit.admit_at(second))
            .into();
        assert_eq!(
            seen,
            [
                (true, 0),
                (true, 0),
                (false, 0),
                (false, 0),
                (true, 2),
                (true, 0),
                (true, 0),
                (true, 0),
                (false, 0),
            ]
        );
        assert_eq!(limit.settle_at(5), 0, "the second is not over");
        assert_eq!(limit.settle_at(6), 1);
        assert_eq!(limit.settle_at(7), 0, "told once");
        assert_eq!(RateLimited::new("none", 0).admit_at(9), (false, 0));
    }

    #[test]
    fn one_message_is_admitted_per_interval() {
        let seldom = LogInterval::new(60);
        let seen: Vec<_> = [1, 2, 60, 61, 62, 121, 500]
            .map(|second| seldom.admit_at(second))
            .into();
        assert_eq!(seen, [true, false, false, true, false, true, true]);
    }
}
