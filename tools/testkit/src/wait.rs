//! Waiting for a stated condition with a deadline: the only place of the kit that sleeps.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Waits until `condition` is true, asking it every few milliseconds.
///
/// # Panics
/// When `timeout` has passed first; the message names `what`.
#[track_caller]
pub fn wait_for(what: &str, timeout: Duration, condition: impl FnMut() -> bool) {
    assert!(
        poll_until(timeout, condition),
        "waited {timeout:?} for {what}"
    );
}

/// True as soon as `condition` is; false when `timeout` has passed. The condition is asked at least once, and once more
/// at the very end.
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
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Lets time pass where time itself is the script: an upstream that is slow, a moment that is to be a random one.
pub(crate) fn pause(time: Duration) {
    thread::sleep(time);
}

/// Short enough not to be felt, long enough to leave the processor to what is waited for.
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_asked_until_it_is_true() {
        let mut asked = 0;
        wait_for("the third question", Duration::from_secs(5), || {
            asked += 1;
            asked == 3
        });
        assert_eq!(asked, 3);
    }

    #[test]
    fn patience_ends() {
        assert!(!poll_until(Duration::from_millis(5), || false));
        assert!(poll_until(Duration::ZERO, || true), "asked at least once");
    }
}
