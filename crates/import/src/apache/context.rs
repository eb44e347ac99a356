//! Directives that later ones depend on.

use crate::ledger::{Ledger, StatementFate, StatementId};
use crate::tree::ParsedDirective;

use super::table;

/// The state that earlier directives define for later ones.
pub(super) struct HostContext<'l> {
    pub ledger: &'l mut Ledger,
    pub has_tls: bool,
    /// The `RewriteCond`s before the next `RewriteRule`.
    pub conditions: Vec<RewriteCondition>,
    /// The target to which all requests are redirected.
    pub redirects_all: Option<String>,
    pub cert: Option<String>,
    pub key: Option<String>,
}

impl<'l> HostContext<'l> {
    pub fn new(ledger: &'l mut Ledger) -> Self {
        Self {
            ledger,
            has_tls: false,
            conditions: Vec::new(),
            redirects_all: None,
            cert: None,
            key: None,
        }
    }

    /// See [`Ledger::carried`].
    pub fn carried(&mut self, directive: &ParsedDirective, option: impl Into<String>) {
        self.ledger.carried(directive.id, option);
    }

    /// See [`Ledger::not_needed`].
    pub fn not_needed(&mut self, directive: &ParsedDirective, why: impl Into<String>) {
        self.ledger.not_needed(directive.id, why);
    }

    /// See [`Ledger::not_carried`].
    pub fn not_carried(&mut self, directive: &ParsedDirective, remedy: impl Into<String>) {
        self.ledger.not_carried(directive.id, remedy);
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
pub(super) fn record_fate(directive: &ParsedDirective, ledger: &mut Ledger) {
    match table::fate_of(directive.name()) {
        Some(StatementFate::NotNeeded(why)) => ledger.not_needed(directive.id, why),
        Some(StatementFate::NotCarried(remedy)) => ledger.not_carried(directive.id, remedy),
        Some(StatementFate::Carried(_)) | None => {}
    }
    for inner in directive.inner() {
        record_fate(inner, ledger);
    }
}
