//! The statements of an import with their results. Nothing is dropped silently: a statement that no part of the import handles
//! is reported as not carried.

use std::cell::RefCell;
use std::rc::Rc;

use crate::source::{MAX_STATEMENTS, StatementOrigin};

/// The result for a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatementOutcome {
    /// An option of Galley has the same effect: the option.
    Carried(String),
    /// Galley behaves in this way without an option, or has no use for the statement: the reason.
    NotNeeded(String),
    /// The new configuration has no equivalent: the remedy.
    NotCarried(String),
}

/// A statement of the other configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedStatement {
    /// The words of the statement, shortened to one line.
    pub text: String,
    /// The position of the statement.
    pub origin: StatementOrigin,
    /// The result.
    pub outcome: StatementOutcome,
    /// Whether the statement closes something that the new configuration leaves open.
    pub is_open: bool,
}

/// A statement in a [`Report`], with its result so far.
#[derive(Clone, Debug)]
pub(crate) struct ReportEntry(Rc<RefCell<ImportedStatement>>);

/// All statements that were read.
#[derive(Debug, Default)]
pub(crate) struct Report {
    entries: Vec<ReportEntry>,
    /// Whether there were more statements than the maximum.
    is_cut: bool,
}

impl ReportEntry {
    /// Records that `option` of Galley has the effect of the statement.
    pub fn carried(&self, option: impl Into<String>) {
        self.record(StatementOutcome::Carried(option.into()));
    }

    /// Records that Galley needs nothing for the statement.
    pub fn not_needed(&self, why: impl Into<String>) {
        self.record(StatementOutcome::NotNeeded(why.into()));
    }

    /// Records that the statement is lost, and the remedy.
    pub fn not_carried(&self, remedy: impl Into<String>) {
        self.record(StatementOutcome::NotCarried(remedy.into()));
    }

    /// Records that a statement is lost, and whether paths or clients that it refuses are served now. The first remedy counts.
    pub fn differs(&self, remedy: &str, is_open: bool) {
        self.not_carried(remedy);
        self.0.borrow_mut().is_open |= is_open;
    }

    /// Records a result. A statement may be evaluated for each site that inherits it: the worst result counts, and the first one of
    /// its kind.
    pub fn record(&self, outcome: StatementOutcome) {
        let weight = |outcome: &StatementOutcome| match outcome {
            StatementOutcome::NotCarried(remedy) if remedy == UNKNOWN => 0,
            StatementOutcome::NotNeeded(_) => 1,
            StatementOutcome::Carried(_) => 2,
            StatementOutcome::NotCarried(_) => 3,
        };
        let mut statement = self.0.borrow_mut();
        if weight(&statement.outcome) < weight(&outcome) {
            statement.outcome = outcome;
        }
    }

    /// Whether the statement is not carried.
    pub fn is_lost(&self) -> bool {
        matches!(self.0.borrow().outcome, StatementOutcome::NotCarried(_))
    }

    /// Whether the statement is carried.
    pub fn is_carried(&self) -> bool {
        matches!(self.0.borrow().outcome, StatementOutcome::Carried(_))
    }

    /// Whether the statement has a result.
    pub fn has_outcome(&self) -> bool {
        !matches!(&self.0.borrow().outcome, StatementOutcome::NotCarried(remedy) if remedy == UNKNOWN)
    }
}

impl Report {
    /// Adds a statement. `None`: there are too many, which [`Report::into_statements`] reports.
    pub fn add(&mut self, text: &str, origin: StatementOrigin) -> Option<ReportEntry> {
        if self.entries.len() >= MAX_STATEMENTS {
            self.is_cut = true;
            return None;
        }
        let entry = ReportEntry(Rc::new(RefCell::new(ImportedStatement {
            text: one_line(text),
            origin,
            outcome: StatementOutcome::NotCarried(UNKNOWN.to_owned()),
            is_open: false,
        })));
        self.entries.push(entry.clone());
        Some(entry)
    }

    /// Records that the value of an option is not that of the statement at `origin`.
    pub fn changed(&self, origin: &StatementOrigin, option: &str, remedy: &str) {
        for entry in &self.entries {
            let statement = entry.0.borrow();
            let is_meant = match &statement.outcome {
                StatementOutcome::Carried(what) => {
                    let of_cache = what.starts_with("cache.disk");
                    what.contains(option) || what.contains("ttl") || of_cache
                }
                StatementOutcome::NotNeeded(_) | StatementOutcome::NotCarried(_) => false,
            };
            let is_meant = is_meant && statement.origin == *origin;
            drop(statement);
            if is_meant {
                entry.not_carried(remedy);
            }
        }
    }

    /// Adds a file that cannot be read.
    pub fn unreadable(&mut self, file: Rc<str>) {
        if let Some(entry) = self.add("(the file)", StatementOrigin { file, line: 1 }) {
            // It may refuse something.
            entry.differs(
                "the file cannot be read: run the import where it exists",
                true,
            );
        }
    }

    /// All statements in the order of reading.
    pub fn into_statements(self) -> Vec<ImportedStatement> {
        let (file, line) = ("".into(), 0);
        let cut = self.is_cut.then(|| ImportedStatement {
            text: "...".to_owned(),
            origin: StatementOrigin { file, line },
            outcome: StatementOutcome::NotCarried(format!(
                "only the first {MAX_STATEMENTS} statements were read"
            )),
            is_open: true,
        });
        let entries = self.entries.into_iter();
        entries
            .map(|entry| entry.0.borrow().clone())
            .chain(cut)
            .collect()
    }
}

/// The number of statements by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatementCounts {
    /// See [`StatementOutcome::Carried`].
    pub carried: usize,
    /// See [`StatementOutcome::NotNeeded`].
    pub not_needed: usize,
    /// See [`StatementOutcome::NotCarried`].
    pub not_carried: usize,
}

impl StatementCounts {
    /// Counts the results of `statements`.
    pub fn of(statements: &[ImportedStatement]) -> Self {
        let mut shares = Self::default();
        for statement in statements {
            match statement.outcome {
                StatementOutcome::Carried(_) => shares.carried += 1,
                StatementOutcome::NotNeeded(_) => shares.not_needed += 1,
                StatementOutcome::NotCarried(_) => shares.not_carried += 1,
            }
        }
        shares
    }

    /// The number of all statements.
    pub fn all(&self) -> usize {
        self.carried + self.not_needed + self.not_carried
    }
}

/// The words of a statement, shortened to one line of a report, without control characters.
fn one_line(text: &str) -> String {
    let mut line: String = text
        .chars()
        .take(MAX_CHARACTERS)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().nth(MAX_CHARACTERS).is_some() {
        line.push_str("...");
    }
    line
}

const MAX_CHARACTERS: usize = 160;

const UNKNOWN: &str =
    "the import does not know this statement; look for an option in docs/reference/options.md";

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: usize) -> StatementOrigin {
        StatementOrigin {
            file: "nginx.conf".into(),
            line,
        }
    }

    #[test]
    fn a_statement_without_a_result_is_not_carried() {
        let mut report = Report::default();
        report.add("lua_code x;", at(1)).unwrap();
        let all = report.into_statements();
        assert_eq!(
            all[0].outcome,
            StatementOutcome::NotCarried(UNKNOWN.to_owned())
        );
        assert_eq!(StatementCounts::of(&all).not_carried, 1);
    }

    #[test]
    fn the_worst_result_of_several_sites_counts() {
        let mut report = Report::default();
        let entry = report.add("root /a;", at(1)).unwrap();
        entry.not_needed("no");
        entry.carried("root");
        entry.not_carried("lost");
        entry.carried("root");
        assert_eq!(
            report.into_statements()[0].outcome,
            StatementOutcome::NotCarried("lost".to_owned())
        );
    }

    #[test]
    fn words_stay_on_one_line() {
        let line = one_line(&format!("a\n{}", "b".repeat(500)));
        assert!(line.starts_with("a b") && line.ends_with("b..."));
        assert_eq!(line.chars().count(), MAX_CHARACTERS + 3);
    }
}
