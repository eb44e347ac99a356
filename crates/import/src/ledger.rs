//! The statements of an import with their results. Nothing is dropped silently: a statement that no part of the import handles
//! is reported as not carried.

use std::rc::Rc;

use crate::source::{MAX_STATEMENTS, StatementOrigin};

/// The result for a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatementFate {
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
    pub fate: StatementFate,
}

/// Identifies a statement in a [`Ledger`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatementId(usize);

/// All statements that were read, with their results so far.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: Vec<LedgerEntry>,
    /// Whether there were more statements than the maximum.
    is_cut: bool,
}

#[derive(Debug)]
struct LedgerEntry {
    text: String,
    origin: StatementOrigin,
    fate: Option<StatementFate>,
}

impl Ledger {
    /// Adds a statement. `None`: there are too many, which [`Ledger::into_statements`] reports.
    pub fn enter(&mut self, text: &str, origin: StatementOrigin) -> Option<StatementId> {
        if self.entries.len() >= MAX_STATEMENTS {
            self.is_cut = true;
            return None;
        }
        self.entries.push(LedgerEntry {
            text: one_line(text),
            origin,
            fate: None,
        });
        Some(StatementId(self.entries.len() - 1))
    }

    /// Adds a file that cannot be read.
    pub fn unreadable(&mut self, file: Rc<str>) {
        if let Some(id) = self.enter("(the file)", StatementOrigin { file, line: 1 }) {
            let remedy = "the file cannot be read: run the import where it exists";
            self.not_carried(id, remedy);
        }
    }

    /// Records that `option` of Galley has the effect of a statement.
    pub fn carried(&mut self, id: StatementId, option: impl Into<String>) {
        self.record(id, StatementFate::Carried(option.into()));
    }

    /// Records that Galley needs nothing for a statement.
    pub fn not_needed(&mut self, id: StatementId, why: impl Into<String>) {
        self.record(id, StatementFate::NotNeeded(why.into()));
    }

    /// Records that a statement is lost, and the remedy.
    pub fn not_carried(&mut self, id: StatementId, remedy: impl Into<String>) {
        self.record(id, StatementFate::NotCarried(remedy.into()));
    }

    /// Records a result. A statement may be evaluated for each site that inherits it. If it is carried for one site, it counts
    /// as carried; otherwise the worse result counts.
    pub fn record(&mut self, id: StatementId, fate: StatementFate) {
        let Some(entry) = self.entries.get_mut(id.0) else {
            return;
        };
        let is_better = match (&entry.fate, &fate) {
            (Some(StatementFate::Carried(_)), _) => false,
            (None, _) | (Some(StatementFate::NotNeeded(_)), StatementFate::NotCarried(_)) => true,
            (Some(_), fate) => matches!(fate, StatementFate::Carried(_)),
        };
        if is_better {
            entry.fate = Some(fate);
        }
    }

    /// All statements in the order of reading.
    pub fn into_statements(self) -> Vec<ImportedStatement> {
        let cut = self.is_cut.then(|| ImportedStatement {
            text: "...".to_owned(),
            origin: StatementOrigin {
                file: "".into(),
                line: 0,
            },
            fate: StatementFate::NotCarried(format!(
                "only the first {MAX_STATEMENTS} statements were read"
            )),
        });
        let all = self.entries.into_iter().map(|entry| ImportedStatement {
            text: entry.text,
            origin: entry.origin,
            fate: entry
                .fate
                .unwrap_or_else(|| StatementFate::NotCarried(UNKNOWN.to_owned())),
        });
        all.chain(cut).collect()
    }
}

/// The number of statements by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatementCounts {
    /// See [`StatementFate::Carried`].
    pub carried: usize,
    /// See [`StatementFate::NotNeeded`].
    pub not_needed: usize,
    /// See [`StatementFate::NotCarried`].
    pub not_carried: usize,
}

impl StatementCounts {
    /// Counts the results of `statements`.
    pub fn of(statements: &[ImportedStatement]) -> Self {
        let mut shares = Self::default();
        for statement in statements {
            match statement.fate {
                StatementFate::Carried(_) => shares.carried += 1,
                StatementFate::NotNeeded(_) => shares.not_needed += 1,
                StatementFate::NotCarried(_) => shares.not_carried += 1,
            }
        }
        shares
    }

    /// The number of all statements.
    pub fn all(&self) -> usize {
        self.carried + self.not_needed + self.not_carried
    }

    /// The percentage of statements that are carried or not needed, rounded down; 100 without statements.
    pub fn settled_percent(&self) -> usize {
        ((self.carried + self.not_needed) * 100)
            .checked_div(self.all())
            .unwrap_or(100)
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
        let mut ledger = Ledger::default();
        ledger.enter("lua_code x;", at(1)).unwrap();
        let all = ledger.into_statements();
        assert_eq!(all[0].fate, StatementFate::NotCarried(UNKNOWN.to_owned()));
        assert_eq!(StatementCounts::of(&all).not_carried, 1);
    }

    #[test]
    fn a_statement_carried_for_one_site_is_carried() {
        let mut ledger = Ledger::default();
        let id = ledger.enter("root /a;", at(1)).unwrap();
        ledger.not_needed(id, "no");
        ledger.not_carried(id, "lost");
        ledger.carried(id, "root");
        ledger.not_carried(id, "lost again");
        assert_eq!(
            ledger.into_statements()[0].fate,
            StatementFate::Carried("root".to_owned())
        );
    }

    #[test]
    fn words_stay_on_one_line() {
        let line = one_line(&format!("a\n{}", "b".repeat(500)));
        assert!(line.starts_with("a b") && line.ends_with("b..."));
        assert_eq!(line.chars().count(), MAX_CHARACTERS + 3);
    }
}
