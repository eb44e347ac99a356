//! A circuit breaker: after failures the engine is not asked for pages for a while, so that an absent or slow engine costs
//! nothing.

use std::time::{Duration, Instant};

/// Counts failures in a row.
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
    /// Whether the engine may be asked. After a pause one request at a time tries.
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

    /// Whether all requests go to the engine.
    pub(crate) fn is_closed(&self) -> bool {
        self.open_until.is_none()
    }

    pub(crate) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// Each pause is longer than the one before; after a pause one failure is enough.
    pub(crate) fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= MOST_FAILURES {
            self.open_until = Some(now + self.pause);
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// A single late reply is not an outage.
const MOST_FAILURES: u32 = 3;

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_pauses_longer_each_time_until_it_succeeds() {
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
        for _ in 0..MOST_FAILURES {
            breaker.failed(start);
        }
        let later = start + FIRST_PAUSE;
        assert!(breaker.admits(later));
        assert!(!breaker.admits(later));
        // Its reply is lost: the next one tries after a pause.
        assert!(breaker.admits(later + LONGEST_PAUSE));
    }
}
