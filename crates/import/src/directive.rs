//! A statement of a configuration, and its results in the report.

use crate::draft::{ImportedSite, RuleDraft, Section, Value};
use crate::report::{Report, StatementId};
use crate::source::StatementOrigin;

/// A statement, including those in its block.
#[derive(Clone, Debug)]
pub struct ParsedDirective {
    pub(crate) id: StatementId,
    pub(crate) origin: StatementOrigin,
    /// The name and the arguments, without quotes.
    pub(crate) words: Vec<String>,
    pub(crate) block: Option<Vec<ParsedDirective>>,
}

impl ParsedDirective {
    /// The name, such as `server`.
    pub fn name(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// The words after the name.
    pub fn arguments(&self) -> &[String] {
        self.words.get(1..).unwrap_or_default()
    }

    /// The argument at `index`, from 0; empty if there is none.
    pub fn argument(&self, index: usize) -> &str {
        self.arguments().get(index).map_or("", String::as_str)
    }

    /// The statements of the block; none without a block.
    pub fn inner(&self) -> &[ParsedDirective] {
        self.block.as_deref().unwrap_or_default()
    }

    /// Records that Galley needs nothing for this statement and those in its block.
    pub(crate) fn not_needed(&self, why: &str, report: &mut Report) {
        report.not_needed(self.id, why);
        for inner in self.inner() {
            inner.not_needed(why, report);
        }
    }

    /// Sets an option to the value of this statement.
    pub(crate) fn sets(
        &self,
        option: &str,
        value: impl Into<Value>,
        section: &mut Section,
        report: &mut Report,
    ) {
        section.set(option, value, &self.origin);
        report.carried(self.id, option);
    }

    /// Adds the values of this statement to a list.
    pub(crate) fn adds(
        &self,
        option: &str,
        values: impl IntoIterator<Item = String>,
        section: &mut Section,
        report: &mut Report,
    ) {
        section.add(option, values, &self.origin);
        report.carried(self.id, option);
    }

    /// Adds the rule made of this statement and its block, unless it equals the site's settings.
    pub(crate) fn becomes(&self, rule: RuleDraft, site: &mut ImportedSite, report: &mut Report) {
        if rule.section.settings.len() > 1 {
            report.carried(self.id, "a rule");
        } else if self.inner().iter().any(|inner| report.is_lost(inner.id)) {
            report.not_carried(self.id, "none of its statements is carried");
        } else {
            report.not_needed(self.id, "nothing in it differs from the site");
        }
        site.add_rule(rule);
    }

    /// Records that `option` has the effect of this statement and those in its block.
    pub(crate) fn carried(&self, option: &str, report: &mut Report) {
        report.carried(self.id, option);
        for inner in self.inner() {
            inner.carried(option, report);
        }
    }

    /// Records that this statement and those in its block are lost, and the remedy.
    pub(crate) fn not_carried(&self, remedy: &str, report: &mut Report) {
        report.not_carried(self.id, remedy);
        for inner in self.inner() {
            inner.not_carried(remedy, report);
        }
    }

    /// Whether the block directly contains a statement with this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.inner().iter().any(|inner| inner.name() == name)
    }
}
