//! A limit on messages that clients can cause, so that a hostile one cannot fill the disk (and hide what matters).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Lets some messages of one kind through each second and counts the rest, for messages that clients can cause.
#[derive(Debug)]
pub struct RateLimited {
    /// Named in the message about the rest.
    what: &'static str,
    per_second: u32,
    began: Instant,
    /// The second in the upper half, how many wanted through in it in the lower half.
    state: AtomicU64,
}

impl RateLimited {
    /// Lets `per_second` messages about `what` through.
    pub fn new(what: &'static str, per_second: u32) -> Self {
        Self {
            what,
            per_second,
            began: Instant::now(),
            state: AtomicU64::new(0),
        }
    }

    /// Whether this message may be written. The first of a later second reports how many were held back before.
    pub fn admit(&self) -> bool {
        let (is_admitted, held_back) = self.admit_at(self.second());
        self.report(held_back);
        is_admitted
    }

    /// Reports the messages that were held back in a second that is over; for a tick, so that the end of a flood is reported
    /// as well.
    pub fn settle(&self) {
        self.report(self.settle_at(self.second()));
    }

    /// The decision for one more message in `second`, and how many an earlier second held back.
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

    /// Replaces second and count; gives the old ones. Exactly one thread sees the end of a second.
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

    /// Wraps after a century.
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

/// Lets one message through in each interval, for conditions that last: the message that is let through reports the count so
/// far.
#[derive(Debug)]
pub struct Seldom {
    every_s: u32,
    began: Instant,
    /// The second of the last message, counted from 1; 0: there was none.
    last: AtomicU64,
}

impl Seldom {
    /// One message in so many seconds.
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
    fn some_a_second_and_the_rest_counted() {
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
    fn one_in_an_interval() {
        let seldom = Seldom::new(60);
        let seen: Vec<_> = [1, 2, 60, 61, 62, 121, 500]
            .map(|second| seldom.admit_at(second))
            .into();
        assert_eq!(seen, [true, false, false, true, false, true, true]);
    }
}
