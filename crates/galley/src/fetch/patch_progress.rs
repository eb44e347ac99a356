//! Which site is patched next in the background, and how far its pages are patched.

use std::time::{Duration, Instant};

/// How far the pages of one site are patched.
#[derive(Debug)]
pub(super) struct PatchProgress {
    /// The purge up to which they are.
    patched: u64,
    /// Set where PHP had no slot: before this, nothing is tried.
    retry_at: Option<Instant>,
    /// Doubled with each such attempt.
    pause: Duration,
}

impl PatchProgress {
    /// Of a site whose pages are right up to this purge.
    pub(super) fn new(purges: u64) -> Self {
        Self {
            patched: purges,
            retry_at: None,
            pause: FIRST_PAUSE,
        }
    }

    /// Whether there is work for a site with so many purges.
    pub(super) fn is_due(&self, purges: u64, now: Instant) -> bool {
        purges > self.patched && self.retry_at.is_none_or(|at| at <= now)
    }

    /// All is done up to this purge.
    pub(super) fn done(&mut self, purges: u64) {
        *self = Self::new(purges);
    }

    /// PHP had no slot.
    pub(super) fn put_off(&mut self, now: Instant) {
        self.retry_at = Some(now + self.pause);
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
    }
}

/// The first that is due. It goes behind the others, so that one that is always due does not delay them.
pub(super) fn next_turn<T>(all: &mut Vec<T>, is_due: impl FnMut(&T) -> bool) -> Option<&T> {
    let place = all.iter().position(is_due)?;
    let due = all.remove(place);
    all.push(due);
    all.last()
}

/// After an attempt without a slot at PHP; doubled after each of the next.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// At most.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_due_until_its_last_purge_is_done() {
        let now = Instant::now();
        let mut progress = PatchProgress::new(5);
        assert!(!progress.is_due(5, now));
        assert!(progress.is_due(6, now));
        progress.done(6);
        assert!(!progress.is_due(6, now) && progress.is_due(7, now));
    }

    #[test]
    fn without_a_slot_it_is_tried_again_less_and_less_often() {
        let start = Instant::now();
        let mut progress = PatchProgress::new(0);
        let mut attempts = Vec::new();
        for second in 0..300 {
            let now = start + Duration::from_secs(second);
            if progress.is_due(1, now) {
                attempts.push(second);
                progress.put_off(now);
            }
        }
        assert_eq!(attempts, [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]);
        progress.done(1);
        progress.put_off(start);
        assert!(
            progress.is_due(2, start + FIRST_PAUSE),
            "the pause is short again"
        );
    }

    #[test]
    fn one_that_is_always_due_does_not_hold_up_the_others() {
        let mut sites = vec!["busy", "quiet", "purged once"];
        let mut turns = Vec::new();
        let mut is_left = true;
        for _ in 0..3 {
            let turn = next_turn(&mut sites, |site| {
                *site == "busy" || (is_left && *site == "purged once")
            });
            let turn = turn.copied().unwrap();
            is_left &= turn != "purged once";
            turns.push(turn);
        }
        assert_eq!(turns, ["busy", "purged once", "busy"]);
        assert_eq!(next_turn(&mut sites, |_| false), None);
    }
}
