//! The report of a part, and the limits that it must meet.

use std::time::Duration;

use super::visitor::VisitorCounts;
use super::{ResourceUsage, RunLength};

/// The results of one part.
#[derive(Debug, Clone, Default)]
pub struct PartReport {
    /// Title, with the numbers of this run.
    pub title: String,
    /// Requests sent.
    pub requests: u64,
    /// Requests for stored pages without a complete response of status 200, and other requests without any response.
    pub failures: u64,
    /// Requests for other pages with a response of status 502, 503 or 504.
    pub rejected: u64,
    /// The longest wait for a stored page.
    pub longest_wait: Duration,
    /// The 99th percentile of stored pages, over one connection.
    pub page: Times,
    /// The median of an editor's saves.
    pub save: Times,
    /// Resource usage of the server at the start and at the end of the part.
    pub usage: [ResourceUsage; 2],
    /// A table of what was measured, with its goals.
    pub goals: Vec<Goal>,
    /// Violations of other limits.
    pub violations: Vec<String>,
    /// Further observations.
    pub notes: Vec<String>,
}

/// A row of a part's own table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Goal {
    /// The load.
    pub load: String,
    /// What was measured.
    pub what: String,
    /// What is expected; empty if the result is only reported.
    pub goal: String,
    /// The result.
    pub result: String,
    /// Whether the goal was kept; `None`: not judged in this run.
    pub is_kept: Option<bool>,
}

/// A time before the load and under it; `None` where it was not measured.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Times {
    /// Before the load.
    pub quiet: Option<Duration>,
    /// Under load.
    pub loaded: Option<Duration>,
    /// The highest acceptable ratio of the two; judged in a long run only.
    pub max_ratio: Option<f64>,
}

impl Times {
    /// The time under load as a multiple of the time before.
    pub fn ratio(&self) -> Option<f64> {
        let quiet = self.quiet?.as_secs_f64();
        Some(self.loaded?.as_secs_f64() / quiet.max(1e-9))
    }
}

impl PartReport {
    /// Every limit that was exceeded, as a sentence.
    pub fn missed_goals(&self, length: RunLength) -> Vec<String> {
        let mut all = self.violations.clone();
        for row in self.goals.iter().filter(|row| row.is_kept == Some(false)) {
            let Goal {
                load,
                what,
                goal,
                result,
                ..
            } = row;
            all.push(format!("{load}: {what}: {result}, expected: {goal}"));
        }
        if self.failures > 0 {
            all.push(format!("{} failures, none expected", self.failures));
        }
        let [first, last] = self.usage;
        // Pages stored during the part are within a limit of their own; entries take a little more memory than their bytes.
        let stored = last.stored.saturating_sub(first.stored);
        let max = first.memory + first.memory / 4 + stored + stored / 6 + MEMORY_SLACK;
        if last.memory > max {
            let mb = |bytes: u64| bytes / 1_000_000;
            let (first, last) = (mb(first.memory), mb(last.memory));
            all.push(format!("memory grew from {first} MB to {last} MB"));
        }
        if last.descriptors > first.descriptors + DESCRIPTOR_SLACK {
            let (first, last) = (first.descriptors, last.descriptors);
            all.push(format!("descriptors grew from {first} to {last}"));
        }
        if last.threads > first.threads + THREAD_SLACK {
            let (first, last) = (first.threads, last.threads);
            all.push(format!("threads grew from {first} to {last}"));
        }
        for (what, times) in [
            ("stored pages", self.page),
            ("the editor's save", self.save),
        ] {
            if let (Some(ratio), Some(max)) = (times.ratio(), times.max_ratio)
                && length == RunLength::Long
                && ratio > max
            {
                all.push(format!(
                    "{what} took {ratio:.1} times as long under load, at most {max} expected"
                ));
            }
        }
        all
    }

    pub(super) fn add(&mut self, counts: VisitorCounts) {
        self.requests += counts.requests;
        self.failures += counts.failures;
        self.rejected += counts.rejected;
        self.longest_wait = self.longest_wait.max(counts.longest_wait);
        self.notes.extend(counts.examples);
    }
}

/// Memory that the buffers of many connections may leave in the allocator.
const MEMORY_SLACK: u64 = 32_000_000;

/// For connections that are closing, and a log that is being rotated.
const DESCRIPTOR_SLACK: u64 = 16;

/// For the blocking threads of some runtimes, each of which may have 64: hundreds were once started for a few slow clients.
const THREAD_SLACK: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_always_judged_and_times_only_in_a_long_run() {
        let second = Duration::from_secs(1);
        let times = Times {
            quiet: Some(second),
            loaded: Some(second * 2),
            max_ratio: Some(1.5),
        };
        let usage = ResourceUsage {
            memory: 40_000_000,
            descriptors: 30,
            threads: 10,
            stored: 0,
        };
        let good = PartReport {
            usage: [usage; 2],
            ..PartReport::default()
        };
        assert!(good.missed_goals(RunLength::Long).is_empty());
        let slow = PartReport {
            page: times,
            ..good.clone()
        };
        assert!(slow.missed_goals(RunLength::Short).is_empty());
        assert_eq!(slow.missed_goals(RunLength::Long).len(), 1);
        let grown = ResourceUsage {
            memory: 100_000_000,
            descriptors: 300,
            threads: 300,
            stored: 10_000_000,
        };
        let failed = PartReport {
            failures: 1,
            usage: [usage, grown],
            violations: vec!["the server has ended".to_owned()],
            ..good
        };
        assert_eq!(failed.missed_goals(RunLength::Short).len(), 5);
    }
}
