//! The counts and findings of a fault test.

use std::ops::AddAssign;

/// The counts of one fault test. Clean when nothing is stale, torn, failed or broken.
#[derive(Debug, Clone, Default)]
pub struct FaultReport {
    /// Injected faults.
    pub rounds: u64,
    /// Purges that were acknowledged.
    pub purges: u64,
    /// Responses that were compared with the upstream's content.
    pub pages: u64,
    /// Cache hits among them.
    pub hits: u64,
    /// Responses generated before an acknowledged purge, or served as fresh after their lifetime.
    pub stale: u64,
    /// Responses that the upstream never generated: truncated, mixed, or of another page.
    pub torn: u64,
    /// Missing responses and responses with an unexpected status.
    pub failed: u64,
    /// Long responses that were aborted because their file turned out to be damaged midway, and succeeded at the second attempt.
    pub retried: u64,
    /// Other broken promises.
    pub broken: u64,
    /// Descriptions of the first stale, torn, failed and broken cases.
    pub findings: Vec<String>,
    /// Measured values, as sentences.
    pub measurements: Vec<String>,
    /// Tests that this machine does not allow, and why.
    pub skipped: Vec<String>,
}

/// The result of comparing a response with the upstream's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Correct,
    Stale,
    Torn,
    Failed,
}

impl FaultReport {
    /// True if the test found nothing wrong and compared at least one response or was skipped.
    pub fn is_clean(&self) -> bool {
        self.stale + self.torn + self.failed + self.broken == 0
            && (self.pages > 0 || !self.skipped.is_empty())
    }

    /// Counts a response; `what` describes one that is not correct.
    pub(super) fn count(&mut self, verdict: Verdict, what: impl FnOnce() -> String) {
        self.pages += 1;
        match verdict {
            Verdict::Correct => {}
            Verdict::Stale => self.stale(&what()),
            Verdict::Torn => self.torn(&what()),
            Verdict::Failed => self.failed(&what()),
        }
    }

    /// Counts a response generated before an acknowledged purge.
    pub(crate) fn stale(&mut self, what: &str) {
        self.stale += 1;
        self.add_finding(&format!("Stale: {what}"));
    }

    /// Counts a truncated or mixed response.
    pub(crate) fn torn(&mut self, what: &str) {
        self.torn += 1;
        self.add_finding(&format!("Torn: {what}"));
    }

    /// Counts a missing response or an unexpected status.
    pub(crate) fn failed(&mut self, what: &str) {
        self.failed += 1;
        self.add_finding(&format!("Failed: {what}"));
    }

    /// Counts another broken promise.
    pub(crate) fn broken(&mut self, what: &str) {
        self.broken += 1;
        self.add_finding(what);
    }

    /// Counts a broken promise, described by `failure`, unless the condition holds.
    pub(super) fn require(&mut self, condition: bool, failure: &str) {
        if !condition {
            self.broken(failure);
        }
    }

    pub(super) fn measurement(&mut self, text: String) {
        self.measurements.push(text);
    }

    pub(super) fn skip(&mut self, what: &str) {
        self.skipped.push(what.to_owned());
    }

    fn add_finding(&mut self, text: &str) {
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(text.to_owned());
        }
    }
}

impl AddAssign for FaultReport {
    fn add_assign(&mut self, other: Self) {
        self.rounds += other.rounds;
        self.purges += other.purges;
        self.pages += other.pages;
        self.hits += other.hits;
        self.stale += other.stale;
        self.torn += other.torn;
        self.failed += other.failed;
        self.broken += other.broken;
        self.retried += other.retried;
        for finding in other.findings {
            self.add_finding(&finding);
        }
        self.measurements.extend(other.measurements);
        self.skipped.extend(other.skipped);
    }
}

/// Enough to recognize a common cause.
const MAX_FINDINGS: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_with_a_wrong_response_or_broken_promise_is_not_clean() {
        let mut fine = FaultReport::default();
        assert!(!fine.is_clean(), "no response was compared");
        fine.count(Verdict::Correct, String::new);
        assert!(fine.is_clean());
        for verdict in [Verdict::Stale, Verdict::Torn, Verdict::Failed] {
            let mut report = fine.clone();
            report.count(verdict, || "page 7".to_owned());
            assert!(!report.is_clean());
            assert!(report.findings[0].ends_with("page 7"));
        }
        let mut report = fine.clone();
        report.require(true, "promise kept");
        assert!(report.is_clean());
        report.require(false, "promise broken");
        fine += report;
        assert!(!fine.is_clean());
        assert_eq!(fine.pages, 2);
    }
}
