//! Decides which site is patched next in the background, and records up to which purge the pages of a site are patched.

use std::time::{Duration, Instant};

/// The progress of patching the pages of one site.
#[derive(Debug)]
pub(super) struct PatchProgress {
    /// The purge up to which the pages are patched.
    patched: u64,
    /// The time before which nothing is tried, because PHP had no slot.
    retry_at: Option<Instant>,
    /// The next pause, which doubles with each attempt without a slot.
    pause: Duration,
}

impl PatchProgress {
    /// The state of a site whose pages are up to date with this purge.
    pub(super) fn new(purges: u64) -> Self {
        Self {
            patched: purges,
            retry_at: None,
            pause: FIRST_PAUSE,
        }
    }

    /// Whether a site with this latest purge needs patching now.
    pub(super) fn is_due(&self, purges: u64, now: Instant) -> bool {
        purges > self.patched && self.retry_at.is_none_or(|at| at <= now)
    }

    /// Records that all pages are patched up to this purge.
    pub(super) fn done(&mut self, purges: u64) {
        *self = Self::new(purges);
    }

    /// Records that PHP had no slot.
    pub(super) fn put_off(&mut self, now: Instant) {
        self.retry_at = Some(now + self.pause);
        self.pause = (2 * self.pause).min(MAX_PAUSE);
    }
}

/// The first item that is due. It moves behind the others, so that an item that is always due does not delay them.
pub(super) fn next_turn<T>(all: &mut Vec<T>, is_due: impl FnMut(&T) -> bool) -> Option<&T> {
    let index = all.iter().position(is_due)?;
    let due = all.remove(index);
    all.push(due);
    all.last()
}

/// The pause after the first attempt without a slot at PHP.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause between attempts.
const MAX_PAUSE: Duration = Duration::from_secs(60);

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
    fn without_a_slot_attempts_become_less_frequent() {
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
    fn a_site_that_is_always_due_does_not_delay_the_others() {
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
