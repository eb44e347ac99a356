//! How long a request may wait for a place: long in a burst, short while the queue does not get shorter.
//!
//! A queue absorbs bursts. One in which even the shortest wait stays long absorbs nothing: as many are refused in the end as
//! PHP cannot do, and everybody else has waited for it. This is the insight of `CoDel` (RFC 8289): look at the shortest wait over
//! an interval, not at the length. What is done then is what Facebook does with it for requests ("Fail at Scale", 2015): the
//! time to wait shrinks to the target, so that who is not served soon is told soon. The *oldest* leave, those about to give up;
//! first come, first served holds for the rest. (Serving the newest first, as the same paper does, would reward whoever
//! asks again and again.) It ends when one is let in that has waited for less than half the target: as long as those leave who
//! reach the target, whoever is let in has almost reached it. As many as there are places always may wait: no worker becomes
//! idle for this.
//!
//! Kept for each class, so that a crawl which is behind shortens nobody else's time. Pure: `now` is an argument.

use std::time::Duration;

use galley_policy::class::Class;
use tokio::time::Instant;

/// The waits of one queue.
#[derive(Debug)]
pub(super) struct QueueDeadlines {
    longest: Duration,
    /// Since when every wait of a class has been longer than the target, in the order of [`Class::ALL`].
    behind: Vec<Option<Instant>>,
}

impl QueueDeadlines {
    /// `longest`: what nobody waits longer than.
    pub(super) fn new(longest: Duration) -> Self {
        Self {
            longest,
            behind: vec![None; Class::ALL.len()],
        }
    }

    /// The longest wait.
    pub(super) fn longest(&self) -> Duration {
        self.longest
    }

    /// Notes that one of a class is let in, and whether more of it wait.
    pub(super) fn let_in(&mut self, class: Class, waited: Duration, more_wait: bool, now: Instant) {
        let target = self.target();
        let Some(behind) = self.of(class) else { return };
        if waited < target / 2 || !more_wait {
            *behind = None;
        } else if waited >= target {
            behind.get_or_insert(now);
        }
    }

    /// What is to become of one that still waits. `is_needed`: so few wait that a free place might find nobody.
    pub(super) fn look(
        &mut self,
        class: Class,
        joined: Instant,
        is_needed: bool,
        now: Instant,
    ) -> WaitDecision {
        let (longest, target) = (self.longest, self.target());
        let interval = longest * INTERVAL_PARTS / PARTS;
        let end = joined + longest;
        if now >= end {
            return WaitDecision::Leave;
        }
        if now < joined + target {
            return WaitDecision::Again((joined + target).min(end));
        }
        let Some(behind) = self.of(class) else {
            return WaitDecision::Again(end);
        };
        let due = *behind.get_or_insert(now) + interval;
        if now >= due && !is_needed {
            return WaitDecision::Leave;
        }
        let soon = now + target.max(SHORTEST_LOOK);
        WaitDecision::Again(due.max(soon).min(end))
    }

    fn target(&self) -> Duration {
        self.longest / PARTS
    }

    fn of(&mut self, class: Class) -> Option<&mut Option<Instant>> {
        let at = Class::ALL.iter().position(|one| *one == class)?;
        self.behind.get_mut(at)
    }
}

/// What is to become of a request that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitDecision {
    /// It goes on waiting; look again then.
    Again(Instant),
    /// It has waited for too long.
    Leave,
}

/// The target is this part of the longest wait: a second of the usual ten, which a visitor hardly feels and a few pages take.
const PARTS: u32 = 10;

/// The interval, in the same parts: longer than most pages take, so that one slow page is no sign.
const INTERVAL_PARTS: u32 = 3;

/// Between two looks at one request.
const SHORTEST_LOOK: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: Duration = Duration::from_secs(10);

    fn s(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_burst_may_wait_to_the_end() {
        let mut patience = QueueDeadlines::new(TEN);
        let t0 = Instant::now();
        let look = |patience: &mut QueueDeadlines, at: f64| {
            patience.look(Class::Visitor, t0, false, t0 + s(at))
        };
        assert_eq!(look(&mut patience, 0.0), WaitDecision::Again(t0 + s(1.0)));
        assert_eq!(look(&mut patience, 1.0), WaitDecision::Again(t0 + s(4.0)));
        // Somebody was let in at once: this is no standing queue.
        patience.let_in(Class::Visitor, s(0.4), true, t0 + s(3.9));
        assert_eq!(look(&mut patience, 4.0), WaitDecision::Again(t0 + s(7.0)));
        patience.let_in(Class::Visitor, s(2.0), false, t0 + s(5.0));
        assert_eq!(look(&mut patience, 7.0), WaitDecision::Again(t0 + TEN));
        assert_eq!(look(&mut patience, 10.0), WaitDecision::Leave);
    }

    #[test]
    fn in_a_standing_queue_nobody_waits_longer_than_the_target() {
        let mut patience = QueueDeadlines::new(TEN);
        let t0 = Instant::now();
        for second in 1..=4 {
            patience.let_in(Class::Visitor, s(1.5), true, t0 + s(f64::from(second)));
        }
        let now = t0 + s(4.0);
        let look = |patience: &mut QueueDeadlines, class, is_needed, waits: f64| {
            patience.look(class, now - s(waits), is_needed, now)
        };
        assert_eq!(
            look(&mut patience, Class::Visitor, false, 1.1),
            WaitDecision::Leave
        );
        assert_eq!(
            look(&mut patience, Class::Visitor, false, 0.9),
            WaitDecision::Again(now + s(0.1))
        );
        assert_eq!(
            look(&mut patience, Class::Visitor, true, 1.1),
            WaitDecision::Again(now + s(1.0))
        );
        assert_ne!(
            look(&mut patience, Class::Editor, false, 1.1),
            WaitDecision::Leave
        );
        // Those are let in that have just not left; then it has got shorter.
        patience.let_in(Class::Visitor, s(0.9), true, now);
        assert_eq!(
            look(&mut patience, Class::Visitor, false, 1.1),
            WaitDecision::Leave
        );
        patience.let_in(Class::Visitor, s(0.4), true, now);
        assert_ne!(
            look(&mut patience, Class::Visitor, false, 1.1),
            WaitDecision::Leave
        );
    }

    #[test]
    fn where_nothing_moves_those_behind_leave_early() {
        let mut patience = QueueDeadlines::new(TEN);
        let t0 = Instant::now();
        assert_eq!(
            patience.look(Class::Visitor, t0, false, t0 + s(1.0)),
            WaitDecision::Again(t0 + s(4.0))
        );
        assert_eq!(
            patience.look(Class::Visitor, t0, false, t0 + s(4.0)),
            WaitDecision::Leave
        );
    }

    #[test]
    fn without_patience_nobody_waits() {
        let mut patience = QueueDeadlines::new(Duration::ZERO);
        let now = Instant::now();
        assert_eq!(
            patience.look(Class::Visitor, now, true, now),
            WaitDecision::Leave
        );
    }
}
