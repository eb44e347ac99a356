//! What a part of the fault tests has counted, and what it complains about.

use std::ops::AddAssign;

/// The sums of one part. Clean when nothing is stale, torn, failed or broken.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Times that the fault was done.
    pub rounds: u64,
    /// Purges that were acknowledged.
    pub purges: u64,
    /// Responses that were compared with what the upstream generates.
    pub pages: u64,
    /// Those of them that came from the cache.
    pub hits: u64,
    /// Answers from before an acknowledged purge, or fresh beyond their lifetime.
    pub stale: u64,
    /// Responses that the upstream never generated: cut, mixed, or of another page.
    pub torn: u64,
    /// Answers that failed although they had to come.
    pub failed: u64,
    /// Long answers that broke off visibly because their file was found to be damaged on the way, and came at the second try.
    pub broken_off: u64,
    /// Other promises that were not kept.
    pub broken: u64,
    /// The first of what is counted in the last four, for people.
    pub complaints: Vec<String>,
    /// Figures, for people.
    pub figures: Vec<String>,
    /// What could not be tried on this machine, and why.
    pub left_out: Vec<String>,
}

/// What an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Right,
    Stale,
    Torn,
    Failed,
}

impl Tally {
    /// True if nothing went wrong and something was tried.
    pub fn is_clean(&self) -> bool {
        self.stale + self.torn + self.failed + self.broken == 0
            && (self.pages > 0 || !self.left_out.is_empty())
    }

    /// Counts an answer; `what` says which, where it is not right.
    pub(super) fn judge(&mut self, verdict: Verdict, what: impl FnOnce() -> String) {
        self.pages += 1;
        match verdict {
            Verdict::Right => {}
            Verdict::Stale => self.stale(&what()),
            Verdict::Torn => self.torn(&what()),
            Verdict::Failed => self.failed(&what()),
        }
    }

    /// An answer from before an acknowledged purge.
    pub(crate) fn stale(&mut self, what: &str) {
        self.stale += 1;
        self.complain(&format!("Stale: {what}"));
    }

    /// An answer that is cut or mixed.
    pub(crate) fn torn(&mut self, what: &str) {
        self.torn += 1;
        self.complain(&format!("Torn: {what}"));
    }

    /// No answer where one had to come.
    pub(crate) fn failed(&mut self, what: &str) {
        self.failed += 1;
        self.complain(&format!("Failed: {what}"));
    }

    /// A promise that was not kept, other than by an answer.
    pub(crate) fn broken(&mut self, what: &str) {
        self.broken += 1;
        self.complain(what);
    }

    /// A claim about the run.
    pub(super) fn require(&mut self, holds: bool, what: &str) {
        if !holds {
            self.broken(what);
        }
    }

    pub(super) fn figure(&mut self, text: String) {
        self.figures.push(text);
    }

    pub(super) fn leave_out(&mut self, what: &str) {
        self.left_out.push(what.to_owned());
    }

    fn complain(&mut self, text: &str) {
        if self.complaints.len() < MOST_COMPLAINTS {
            self.complaints.push(text.to_owned());
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.rounds += other.rounds;
        self.purges += other.purges;
        self.pages += other.pages;
        self.hits += other.hits;
        self.stale += other.stale;
        self.torn += other.torn;
        self.failed += other.failed;
        self.broken += other.broken;
        self.broken_off += other.broken_off;
        for complaint in other.complaints {
            self.complain(&complaint);
        }
        self.figures.extend(other.figures);
        self.left_out.extend(other.left_out);
    }
}

/// Enough to see what they have in common.
const MOST_COMPLAINTS: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_wrong_makes_it_unclean() {
        let mut fine = Tally::default();
        assert!(!fine.is_clean(), "nothing was tried");
        fine.judge(Verdict::Right, String::new);
        assert!(fine.is_clean());
        for verdict in [Verdict::Stale, Verdict::Torn, Verdict::Failed] {
            let mut tally = fine.clone();
            tally.judge(verdict, || "page 7".to_owned());
            assert!(!tally.is_clean());
            assert!(tally.complaints[0].ends_with("page 7"));
        }
        let mut tally = fine.clone();
        tally.require(true, "kept");
        assert!(tally.is_clean());
        tally.require(false, "not kept");
        fine += tally;
        assert!(!fine.is_clean());
        assert_eq!(fine.pages, 2);
    }
}
