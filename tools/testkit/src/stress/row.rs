//! The result of a part, and its judgement.

use std::time::Duration;

use super::visitors::Counted;
use super::{Form, Held};

/// What one part came to.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// Its title, with the numbers of this run.
    pub title: String,
    /// Requests that were answered or should have been.
    pub requests: u64,
    /// Of these, for stored pages without a whole answer of status 200, and others without any answer.
    pub failures: u64,
    /// Requests for what is not stored that were told 502, 503 or 504.
    pub refused: u64,
    /// The longest wait for an answer about a stored page.
    pub worst: Duration,
    /// The 99th percentile of stored pages, over one connection.
    pub page: Times,
    /// The median of an editor's saves.
    pub save: Times,
    /// What the server held when the part began and when it had ended.
    pub held: [Held; 2],
    /// Promises that were not kept, whatever the form.
    pub broken: Vec<String>,
    /// What there is to know besides.
    pub notes: Vec<String>,
}

/// A time before the load, and under it; `None` where it was not taken.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Times {
    /// Before.
    pub quiet: Option<Duration>,
    /// Meanwhile.
    pub loaded: Option<Duration>,
    /// How many times as long it may take meanwhile; judged in the long form only.
    pub at_most: Option<f64>,
}

impl Times {
    /// How many times as long it took.
    pub fn ratio(&self) -> Option<f64> {
        let quiet = self.quiet?.as_secs_f64();
        Some(self.loaded?.as_secs_f64() / quiet.max(1e-9))
    }
}

impl Row {
    /// Every promise that was not kept, as a sentence.
    pub fn complaints(&self, form: Form) -> Vec<String> {
        let mut all = self.broken.clone();
        if self.failures > 0 {
            all.push(format!("{} failures where none may be", self.failures));
        }
        let [first, last] = self.held;
        // What the store has taken in meanwhile is within its own limit; entries weigh a little more than their bytes.
        let stored = last.stored.saturating_sub(first.stored);
        let most = first.memory + first.memory / 4 + stored + stored / 6 + MEMORY_SLACK;
        if last.memory > most {
            let mb = |bytes: u64| bytes / 1_000_000;
            let (first, last) = (mb(first.memory), mb(last.memory));
            all.push(format!("memory is not flat: {first} MB became {last} MB"));
        }
        if last.descriptors > first.descriptors + DESCRIPTOR_SLACK {
            let (first, last) = (first.descriptors, last.descriptors);
            all.push(format!("descriptors are not flat: {first} became {last}"));
        }
        if last.threads > first.threads + THREAD_SLACK {
            let (first, last) = (first.threads, last.threads);
            all.push(format!("threads are not flat: {first} became {last}"));
        }
        for (what, times) in [
            ("stored pages", self.page),
            ("the editor's save", self.save),
        ] {
            if let (Some(ratio), Some(most)) = (times.ratio(), times.at_most)
                && form == Form::Long
                && ratio > most
            {
                all.push(format!(
                    "{what} took {ratio:.1} times as long, at most {most}"
                ));
            }
        }
        all
    }

    pub(super) fn count(&mut self, stored: Counted, others: Counted) {
        self.requests += stored.requests + others.requests;
        self.failures += stored.failures + others.failures;
        self.refused += stored.refused + others.refused;
        self.worst = self.worst.max(stored.worst);
        self.notes.extend(stored.complaints);
        self.notes.extend(others.complaints);
    }
}

/// What buffers of many connections may leave behind in the allocator.
const MEMORY_SLACK: u64 = 32_000_000;

/// Connections that are closing, a log that is being turned.
const DESCRIPTOR_SLACK: u64 = 16;

/// Helpers of some cores, each of which may have 64: hundreds were started once for a few slow clients.
const THREAD_SLACK: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_judged_always_and_times_in_the_long_form() {
        let second = Duration::from_secs(1);
        let times = Times {
            quiet: Some(second),
            loaded: Some(second * 2),
            at_most: Some(1.5),
        };
        let held = Held {
            memory: 40_000_000,
            descriptors: 30,
            threads: 10,
            stored: 0,
        };
        let fine = Row {
            held: [held; 2],
            ..Row::default()
        };
        assert!(fine.complaints(Form::Long).is_empty());
        let slow = Row {
            page: times,
            ..fine.clone()
        };
        assert!(slow.complaints(Form::Short).is_empty());
        assert_eq!(slow.complaints(Form::Long).len(), 1);
        let grown = Held {
            memory: 100_000_000,
            descriptors: 300,
            threads: 300,
            stored: 10_000_000,
        };
        let failed = Row {
            failures: 1,
            held: [held, grown],
            broken: vec!["ended".to_owned()],
            ..fine
        };
        assert_eq!(failed.complaints(Form::Short).len(), 5);
    }
}
