//! A statement of a configuration, and its results in the report.

use crate::draft::{ImportedSite, RuleDraft, Section, Value};
use crate::report::{ReportEntry, StatementOutcome};
use crate::source::StatementOrigin;
use crate::units;

/// A statement, including those in its block.
#[derive(Clone, Debug)]
pub struct Directive {
    /// The statement in the report. Its methods are about the statement alone, those of the directive also about its block.
    pub(crate) entry: ReportEntry,
    pub(crate) origin: StatementOrigin,
    /// The name and the arguments, without quotes.
    pub(crate) words: Vec<String>,
    pub(crate) block: Option<Vec<Directive>>,
}

impl Directive {
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
    pub fn inner(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }

    /// The value of an argument `NAME=VALUE`; `name`: with the `=`.
    pub(crate) fn option(&self, name: &str) -> Option<&str> {
        self.arguments()
            .iter()
            .find_map(|one| one.strip_prefix(name))
    }

    /// Whether the block directly contains a statement with this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.inner().iter().any(|inner| inner.name() == name)
    }

    /// Sets an option to the value of this statement.
    pub(crate) fn sets(&self, option: &str, value: impl Into<Value>, section: &mut Section) {
        section.set(option, value, &self.origin);
        self.entry.carried(option);
    }

    /// Adds the values of this statement to a list.
    pub(crate) fn adds(
        &self,
        option: &str,
        values: impl IntoIterator<Item = String>,
        section: &mut Section,
    ) {
        section.add(option, values, &self.origin);
        self.entry.carried(option);
    }

    /// Sets options to the duration in the first argument. The report has them as `TABLE.NAME` if one is outside of sites.
    pub(crate) fn sets_times(&self, options: &[&str], section: &mut Section) {
        let time = units::duration(self.argument(0)).filter(|time| time != "0s");
        let Some(time) = time else {
            return self.not_carried(&format!("set `{}`", options.join("`, `")));
        };
        for option in options {
            let name = option.rsplit('.').next().unwrap_or_default();
            section.set(name, time.clone(), &self.origin);
        }
        self.entry.carried(options.join(", "));
    }

    /// Sets the file of a log, `access` or `error`.
    pub(crate) fn logs_to(&self, log: &str, path: &str, section: &mut Section) {
        let is_of_errors = log == "error" && matches!(path, "stderr" | "/dev/stderr");
        if path == "/dev/null" || is_of_errors {
            self.not_needed("Galley writes no such log unless `[site.log]` names it");
        } else if path.starts_with('/') && !path.contains('$') || path == "off" && log == "access" {
            section.set(log, path.replace("/dev/stdout", "stdout"), &self.origin);
            self.entry.carried(format!("site.log.{log}"));
        } else {
            self.entry
                .not_carried(format!("set `{log}` in `[site.log]`"));
        }
    }

    /// Adds the rule made of this statement and its block, unless it equals the site's settings.
    pub(crate) fn becomes(&self, rule: RuleDraft, site: &mut ImportedSite) {
        if rule.section.settings.len() > 1 {
            self.entry.carried("a rule");
        } else if self.inner().iter().any(|inner| inner.entry.is_lost()) {
            self.entry.not_carried("none of its statements is carried");
        } else {
            self.entry.not_needed("nothing in it differs from the site");
        }
        site.add_rule(rule);
    }

    /// Records a result for this statement and those in its block.
    pub(crate) fn record(&self, outcome: &StatementOutcome) {
        self.each(&|entry| entry.record(outcome.clone()));
    }

    /// Records that Galley needs nothing for this statement and those in its block.
    pub(crate) fn not_needed(&self, why: &str) {
        self.each(&|entry| entry.not_needed(why));
    }

    /// Records that `option` has the effect of this statement and those in its block.
    pub(crate) fn carried(&self, option: &str) {
        self.each(&|entry| entry.carried(option));
    }

    /// Records that this statement and those in its block are lost, and the remedy.
    pub(crate) fn not_carried(&self, remedy: &str) {
        self.each(&|entry| entry.not_carried(remedy));
    }

    /// As [`Directive::not_carried`], of statements about access whose paths or conditions no rule of Galley has: what they refuse is
    /// served now.
    pub(crate) fn undecided(&self, remedy: &str) {
        self.each(&|entry| entry.differs(remedy, true));
    }

    /// As [`Directive::not_carried`], of the statements in the block alone.
    pub(crate) fn not_carried_inside(&self, remedy: &str) {
        self.inner()
            .iter()
            .for_each(|inner| inner.not_carried(remedy));
    }

    fn each(&self, tell: &dyn Fn(&ReportEntry)) {
        tell(&self.entry);
        self.inner().iter().for_each(|inner| inner.each(tell));
    }
}
