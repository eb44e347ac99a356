//! Waits for a condition with a deadline. Only this module of the test kit sleeps.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Waits until `condition` is true, evaluating it every few milliseconds.
///
/// # Panics
/// If `timeout` expires first; the message contains `what`.
#[track_caller]
pub fn wait_for(what: &str, timeout: Duration, condition: impl FnMut() -> bool) {
    assert!(
        poll_until(timeout, condition),
        "waited {timeout:?} for {what}"
    );
}

/// Waits until `condition` is true; returns false if `timeout` expires first. Evaluates the condition at least once, and once
/// more after the deadline.
pub(crate) fn poll_until(timeout: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + timeout;
    let mut pause = Duration::from_millis(1);
    loop {
        let last = Instant::now() >= deadline;
        if condition() {
            return true;
        }
        if last {
            return false;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

/// Sleeps, where the delay itself is part of a test: a slow upstream, or a random point in time.
pub(crate) fn pause(time: Duration) {
    thread::sleep(time);
}

/// Long enough to leave the processor to the service, and too short to delay a test noticeably.
const MAX_PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_evaluated_until_it_is_true() {
        let mut calls = 0;
        wait_for("the third call", Duration::from_secs(5), || {
            calls += 1;
            calls == 3
        });
        assert_eq!(calls, 3);
    }

    #[test]
    fn polling_ends_at_the_deadline() {
        assert!(!poll_until(Duration::from_millis(5), || false));
        assert!(
            poll_until(Duration::ZERO, || true),
            "the condition must be evaluated at least once"
        );
    }
}
