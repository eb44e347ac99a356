//! A circuit breaker: after failures no pages are requested from the engine for a while, so that an unreachable or slow engine
//! costs nothing.

use std::time::{Duration, Instant};

/// Counts consecutive failures.
#[derive(Debug)]
pub(crate) struct EngineBreaker {
    failures: u32,
    open_until: Option<Instant>,
    pause: Duration,
}

impl Default for EngineBreaker {
    fn default() -> Self {
        Self {
            failures: 0,
            open_until: None,
            pause: FIRST_PAUSE,
        }
    }
}

impl EngineBreaker {
    /// Whether a command may be sent. After a pause one request at a time tries.
    pub(crate) fn admits(&mut self, now: Instant) -> bool {
        match self.open_until {
            None => true,
            Some(until) if now < until => false,
            Some(_) => {
                self.open_until = Some(now + self.pause);
                true
            }
        }
    }

    /// Whether all commands are sent to the engine.
    pub(crate) fn is_closed(&self) -> bool {
        self.open_until.is_none()
    }

    pub(crate) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// Records a failure. Each pause is longer than the previous one. After a pause one failure is enough for the next.
    pub(crate) fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= MAX_FAILURES {
            self.open_until = Some(now + self.pause);
            self.pause = (self.pause * 2).min(MAX_PAUSE);
        }
    }
}

/// A single late reply is no outage.
const MAX_FAILURES: u32 = 3;

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_a_success() {
        let mut breaker = EngineBreaker::default();
        let start = Instant::now();
        breaker.failed(start);
        breaker.failed(start);
        assert!(breaker.admits(start) && breaker.is_closed());
        breaker.failed(start);
        assert!(!breaker.admits(start) && !breaker.is_closed());
        let later = start + FIRST_PAUSE;
        assert!(breaker.admits(later));
        breaker.failed(later);
        assert!(!breaker.admits(later + FIRST_PAUSE));
        assert!(breaker.admits(later + FIRST_PAUSE * 2));
        breaker.succeeded();
        breaker.failed(later);
        assert!(breaker.admits(later));
    }

    #[test]
    fn one_request_at_a_time_tries() {
        let mut breaker = EngineBreaker::default();
        let start = Instant::now();
        for _ in 0..MAX_FAILURES {
            breaker.failed(start);
        }
        let later = start + FIRST_PAUSE;
        assert!(breaker.admits(later));
        assert!(!breaker.admits(later));
        // The reply is lost: the next request tries after a pause.
        assert!(breaker.admits(later + MAX_PAUSE));
    }
}
