//! Queue deadlines: a request may wait long during a burst, and only briefly in a standing queue.
//!
//! A queue absorbs bursts. If even the shortest wait remains long, the queue absorbs nothing: the upstream cannot process the
//! excess, so the same number of requests is rejected in the end, and all others have waited for it. `CoDel` (RFC 8289) therefore
//! uses the shortest wait over an interval, not the length of the queue. The reaction is that of Facebook ("Fail at Scale",
//! 2015): the deadline shrinks to the target, so that requests that will not be served are rejected early. The *oldest* requests
//! time out; the others are served first come, first served. (Serving the newest first, as that paper does, would reward clients
//! that retry.) This ends when a request is admitted that has waited for less than half of the target: while requests time out at
//! the target, every admitted request has waited almost that long. As many requests as there are slots may always wait, so that
//! no worker becomes idle.
//!
//! Each class has its own state, and in it each trust, so that a congested crawl does not shorten the deadline of others, and proven
//! clients, whose turns come soon, do not hide that the unproven ones have a standing queue. Pure: `now` is an argument.

use std::time::Duration;

use galley_policy::class::{Class, Standing, Trust};
use tokio::time::Instant;

/// The queue deadlines of one pool.
#[derive(Debug)]
pub(super) struct QueueDeadlines {
    longest: Duration,
    /// Since when every wait of a standing has been longer than the target, in the order of [`Class::ALL`] and [`Trust::ALL`].
    congested_since: Vec<Option<Instant>>,
}

impl QueueDeadlines {
    /// `longest`: the maximum wait.
    pub(super) fn new(longest: Duration) -> Self {
        Self {
            longest,
            congested_since: vec![None; Class::ALL.len() * Trust::ALL.len()],
        }
    }

    /// The maximum wait.
    pub(super) fn longest(&self) -> Duration {
        self.longest
    }

    /// Records that the queue of a standing begins: it was empty, so it has not stood.
    pub(super) fn begin(&mut self, standing: Standing) {
        if let Some(congested_since) = self.of(standing) {
            *congested_since = None;
        }
    }

    /// Records that a request is admitted.
    pub(super) fn record_admission(&mut self, standing: Standing, waited: Duration, now: Instant) {
        let target = self.target();
        let Some(congested_since) = self.of(standing) else {
            return;
        };
        if waited < target / 2 {
            *congested_since = None;
        } else if waited >= target {
            congested_since.get_or_insert(now);
        }
    }

    /// Whether a queued request continues to wait. `is_needed`: the queue is so short that a slot might become free with no request
    /// queued.
    pub(super) fn check(
        &mut self,
        standing: Standing,
        joined: Instant,
        is_needed: bool,
        now: Instant,
    ) -> WaitDecision {
        let (longest, target) = (self.longest, self.target());
        let interval = longest * INTERVAL_PARTS / PARTS;
        let end = joined + longest;
        if now >= end {
            return WaitDecision::TimeOut;
        }
        if now < joined + target {
            return WaitDecision::CheckAt((joined + target).min(end));
        }
        let Some(congested_since) = self.of(standing) else {
            return WaitDecision::CheckAt(end);
        };
        let due = *congested_since.get_or_insert(now) + interval;
        if now >= due && !is_needed {
            return WaitDecision::TimeOut;
        }
        WaitDecision::CheckAt(due.max(now + target.max(MIN_RECHECK)).min(end))
    }

    fn target(&self) -> Duration {
        self.longest / PARTS
    }

    fn of(&mut self, standing: Standing) -> Option<&mut Option<Instant>> {
        let at = Class::ALL.iter().position(|one| *one == standing.class)?;
        let at = at * Trust::ALL.len() + standing.trust as usize;
        self.congested_since.get_mut(at)
    }
}

/// The decision on a queued request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitDecision {
    /// The request continues to wait until the next check.
    CheckAt(Instant),
    /// The request has waited too long.
    TimeOut,
}

/// The target is this part of the maximum wait: one second of the default ten, which a visitor hardly notices and a few pages
/// take.
const PARTS: u32 = 10;

/// The interval, in the same parts: longer than most pages take, so that one slow page does not count.
const INTERVAL_PARTS: u32 = 3;

/// Minimum time between two checks of one request.
const MIN_RECHECK: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: Duration = Duration::from_secs(10);
    const VISITOR: Standing = Standing {
        class: Class::Visitor,
        trust: Trust::Plain,
    };
    const PROVEN: Standing = Standing {
        trust: Trust::Proven,
        ..VISITOR
    };
    const EDITOR: Standing = Standing {
        class: Class::Editor,
        ..PROVEN
    };

    fn s(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_burst_may_wait_for_the_whole_timeout() {
        let mut deadlines = QueueDeadlines::new(TEN);
        let t0 = Instant::now();
        let check = |deadlines: &mut QueueDeadlines, at: f64| {
            deadlines.check(VISITOR, t0, false, t0 + s(at))
        };
        assert_eq!(
            check(&mut deadlines, 0.0),
            WaitDecision::CheckAt(t0 + s(1.0))
        );
        assert_eq!(
            check(&mut deadlines, 1.0),
            WaitDecision::CheckAt(t0 + s(4.0))
        );
        // An immediate admission: this is not a standing queue.
        deadlines.record_admission(VISITOR, s(0.4), t0 + s(3.9));
        assert_eq!(
            check(&mut deadlines, 4.0),
            WaitDecision::CheckAt(t0 + s(7.0))
        );
        deadlines.begin(VISITOR);
        assert_eq!(check(&mut deadlines, 7.0), WaitDecision::CheckAt(t0 + TEN));
        assert_eq!(check(&mut deadlines, 10.0), WaitDecision::TimeOut);
    }

    #[test]
    fn a_standing_queue_shortens_the_deadline_to_the_target() {
        let mut deadlines = QueueDeadlines::new(TEN);
        let t0 = Instant::now();
        for second in 1..=4 {
            deadlines.record_admission(VISITOR, s(1.5), t0 + s(f64::from(second)));
        }
        let now = t0 + s(4.0);
        let check = |deadlines: &mut QueueDeadlines, class, is_needed, waits: f64| {
            deadlines.check(class, now - s(waits), is_needed, now)
        };
        assert_eq!(
            check(&mut deadlines, VISITOR, false, 1.1),
            WaitDecision::TimeOut
        );
        assert_eq!(
            check(&mut deadlines, VISITOR, false, 0.9),
            WaitDecision::CheckAt(now + s(0.1))
        );
        assert_eq!(
            check(&mut deadlines, VISITOR, true, 1.1),
            WaitDecision::CheckAt(now + s(1.0))
        );
        assert_ne!(
            check(&mut deadlines, EDITOR, false, 1.1),
            WaitDecision::TimeOut
        );
        // Requests are admitted just before they time out; then the queue gets shorter.
        deadlines.record_admission(VISITOR, s(0.9), now);
        assert_eq!(
            check(&mut deadlines, VISITOR, false, 1.1),
            WaitDecision::TimeOut
        );
        deadlines.record_admission(VISITOR, s(0.4), now);
        assert_ne!(
            check(&mut deadlines, VISITOR, false, 1.1),
            WaitDecision::TimeOut
        );
    }

    #[test]
    fn proven_clients_do_not_hide_a_standing_queue_of_the_others() {
        let mut deadlines = QueueDeadlines::new(TEN);
        let t0 = Instant::now();
        for second in 1..=4 {
            let now = t0 + s(f64::from(second));
            deadlines.record_admission(VISITOR, s(1.5), now);
            deadlines.record_admission(PROVEN, s(0.1), now);
        }
        let now = t0 + s(4.0);
        let mut check = |standing| deadlines.check(standing, now - s(1.1), false, now);
        assert_eq!(check(VISITOR), WaitDecision::TimeOut);
        assert_ne!(check(PROVEN), WaitDecision::TimeOut);
    }

    #[test]
    fn without_admissions_requests_time_out_early() {
        let mut deadlines = QueueDeadlines::new(TEN);
        let t0 = Instant::now();
        assert_eq!(
            deadlines.check(VISITOR, t0, false, t0 + s(1.0)),
            WaitDecision::CheckAt(t0 + s(4.0))
        );
        assert_eq!(
            deadlines.check(VISITOR, t0, false, t0 + s(4.0)),
            WaitDecision::TimeOut
        );
    }

    #[test]
    fn without_a_timeout_nothing_waits() {
        let mut deadlines = QueueDeadlines::new(Duration::ZERO);
        let now = Instant::now();
        assert_eq!(
            deadlines.check(VISITOR, now, true, now),
            WaitDecision::TimeOut
        );
    }
}
