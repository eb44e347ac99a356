//! Directives that later ones depend on.

use crate::report::{Report, StatementId, StatementOutcome};
use crate::tree::ParsedDirective;

use super::table;

/// The state that earlier directives define for later ones.
pub(super) struct HostContext<'l> {
    pub report: &'l mut Report,
    pub has_tls: bool,
    /// The `RewriteCond`s before the next `RewriteRule`.
    pub conditions: Vec<RewriteCondition>,
    /// The target to which all requests are redirected.
    pub redirects_all: Option<String>,
    pub cert: Option<String>,
    pub key: Option<String>,
}

impl<'l> HostContext<'l> {
    pub fn new(report: &'l mut Report) -> Self {
        Self {
            report,
            has_tls: false,
            conditions: Vec::new(),
            redirects_all: None,
            cert: None,
            key: None,
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
}

/// Records the result for a directive and those in it by their names alone.
pub(super) fn record_outcome(directive: &ParsedDirective, report: &mut Report) {
    match table::outcome_of(directive.name()) {
        Some(StatementOutcome::NotNeeded(why)) => report.not_needed(directive.id, why),
        Some(StatementOutcome::NotCarried(remedy)) => report.not_carried(directive.id, remedy),
        Some(StatementOutcome::Carried(_)) | None => {}
    }
    for inner in directive.inner() {
        record_outcome(inner, report);
    }
}
