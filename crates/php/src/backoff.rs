//! The pause before PHP-FPM is restarted: 100 ms, doubled each time up to 10 s. After a master has run for a
//! minute the pauses start again at 100 ms, so that a rare crash costs 0.1 s and a broken installation little CPU time.

use std::time::Duration;

#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(super) fn new() -> Backoff {
        Backoff { next: FIRST }
    }

    /// The pause after a master that ran for `lived`; zero for one that could not be started.
    pub(super) fn pause(&mut self, lived: Duration) -> Duration {
        if lived >= STABLE {
            self.next = FIRST;
        }
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(LAST);
        pause
    }
}

const FIRST: Duration = Duration::from_millis(100);
const LAST: Duration = Duration::from_secs(10);
const STABLE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_restart_after_a_stable_minute() {
        let mut backoff = Backoff::new();
        let pauses: Vec<u128> = [0, 1, 59, 0, 0, 0, 0, 0, 0, 60, 0]
            .map(|lived| backoff.pause(Duration::from_secs(lived)).as_millis())
            .into();
        assert_eq!(
            pauses,
            [
                100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 100, 200
            ]
        );
    }
}
