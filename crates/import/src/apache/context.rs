//! Directives that later ones depend on.

use crate::directive::ParsedDirective;
use crate::report::{Report, StatementId, StatementOutcome};

use super::access::{access, is_access};
use super::table;
use crate::closed::undecided;
use crate::draft::Section;

const CONDITION: &str = "its condition is one that the import does not evaluate: write a rule for the paths, or decide in PHP";

/// The state that earlier directives define for later ones.
pub(super) struct HostContext<'l> {
    pub report: &'l mut Report,
    pub has_tls: bool,
    /// Whether the directives are those of a `.htaccess`.
    pub is_htaccess: bool,
    /// Whether it depends on an earlier rewrite rule if the next ones run.
    pub is_unsure: bool,
    /// The access control of the whole site, by section: the last one decides.
    pub access: Vec<Vec<ParsedDirective>>,
    /// The `RewriteCond`s before the next `RewriteRule`.
    pub conditions: Vec<RewriteCondition>,
    /// The target to which all requests are redirected.
    pub redirects_all: Option<RedirectsAll>,
    pub cert: Option<String>,
    pub key: Option<String>,
}

impl<'l> HostContext<'l> {
    pub fn new(report: &'l mut Report) -> Self {
        Self {
            report,
            has_tls: false,
            is_htaccess: false,
            is_unsure: false,
            access: Vec::new(),
            conditions: Vec::new(),
            redirects_all: None,
            cert: None,
            key: None,
        }
    }

    /// Reports a section whose condition the import does not evaluate.
    pub fn unknown_section(&mut self, directive: &ParsedDirective) {
        self.report.not_carried(directive.id, CONDITION);
        for inner in directive.inner() {
            if is_access(inner) || inner.name() == "sslverifyclient" {
                undecided(inner, CONDITION, self.report);
            } else {
                self.unknown_section(inner);
            }
        }
    }

    /// Reports a section whose paths no rule has.
    pub fn unsupported(&mut self, directive: &ParsedDirective, remedy: &str) {
        directive.not_carried(remedy, self.report);
        for one in directive.inner().iter().filter(|one| is_access(one)) {
            undecided(one, remedy, self.report);
        }
    }

    /// Converts the access control of the whole site.
    pub fn finish_access(&mut self, section: &mut Section) {
        let mut groups = std::mem::take(&mut self.access);
        if let Some(last) = groups.pop() {
            access(&last, section, self.report);
        }
        for directive in groups.iter().flatten() {
            directive.not_needed("a section after it decides about access", self.report);
        }
    }

    /// See [`Report::carried`].
    pub fn carried(&mut self, directive: &ParsedDirective, option: impl Into<String>) {
        self.report.carried(directive.id, option);
    }

    /// See [`Report::not_needed`].
    pub fn not_needed(&mut self, directive: &ParsedDirective, why: impl Into<String>) {
        self.report.not_needed(directive.id, why);
    }

    /// See [`Report::not_carried`].
    pub fn not_carried(&mut self, directive: &ParsedDirective, remedy: impl Into<String>) {
        self.report.not_carried(directive.id, remedy);
    }
}

/// A condition such as `RewriteCond %{HTTPS} off`.
pub(super) struct RewriteCondition {
    pub id: StatementId,
    /// The variable without `%{` and `}`.
    pub variable: String,
    pub pattern: String,
    /// In upper case, with brackets.
    pub flags: String,
}

/// A redirect of all requests of a host.
pub(super) struct RedirectsAll {
    pub id: StatementId,
    /// A URL that ends with a slash, to which the rest of the path is appended.
    pub target: String,
    pub status: String,
}

/// Records the result for a directive and those in it by their names alone.
pub(super) fn record_outcome(directive: &ParsedDirective, report: &mut Report) {
    match table::outcome_of(directive) {
        Some(StatementOutcome::NotNeeded(why)) => report.not_needed(directive.id, why),
        Some(StatementOutcome::NotCarried(remedy)) => report.not_carried(directive.id, remedy),
        Some(StatementOutcome::Carried(_)) | None => {}
    }
    for inner in directive.inner() {
        record_outcome(inner, report);
    }
}
