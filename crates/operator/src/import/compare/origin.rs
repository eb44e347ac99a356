//! Finds the statement of the old configuration that causes a difference, and the remedy.

use galley_import::{
    Imported, ServedConfiguration, ServedStatement, StatementOutcome, StatementPaths,
    StatementSubject,
};

use super::difference::{DifferenceKind, VisibleDifference};
use super::visit::TryVisit;

/// A statement that causes a difference.
#[derive(Clone, Copy)]
pub(super) struct FoundStatement<'i> {
    pub(super) statement: &'i ServedStatement,
    /// Whether the statement determines the property that differs; otherwise it is the section of the path.
    pub(super) is_own: bool,
}

/// Finds the statements that cause differences.
pub(super) struct StatementFinder<'i> {
    pub(super) served: &'i ServedConfiguration,
    pub(super) imported: &'i Imported,
}

impl<'i> StatementFinder<'i> {
    /// The statement that causes a difference, as far as the import knows it. Prefers the most specific one for the path.
    pub(super) fn of(&self, visit: &TryVisit, kind: &DifferenceKind) -> Option<FoundStatement<'i>> {
        let path = visit.path();
        let mut best: Option<(&ServedStatement, usize)> = None;
        for statement in &self.served.statements {
            let is_host = statement.hosts.is_empty() || statement.hosts.contains(&visit.host);
            let is_scheme = statement.is_tls.is_none_or(|is_tls| is_tls == visit.is_tls);
            if !is_host || !is_scheme || !statement.paths.matches(path) {
                continue;
            }
            let fit = fit(statement, kind);
            let weight = fit * FITS_FIRST + statement.paths.weight();
            // Among equally specific statements the later one, which is in an inner block.
            if fit > 0 && best.is_none_or(|(_, known)| weight >= known) {
                best = Some((statement, weight));
            }
        }
        best.map(|(statement, weight)| FoundStatement {
            statement,
            is_own: weight >= 2 * FITS_FIRST,
        })
    }

    /// The result of importing a statement.
    pub(super) fn outcome(&self, statement: &ServedStatement) -> Option<&'i StatementOutcome> {
        let mut statements = self.imported.statements.iter();
        statements
            .find(|one| one.origin == statement.origin && one.text.starts_with(&statement.text))
            .map(|one| &one.outcome)
    }
}

/// How well a statement explains a difference; 0: not at all.
fn fit(statement: &ServedStatement, kind: &DifferenceKind) -> usize {
    use StatementSubject as S;
    let subject = &statement.subject;
    let is_for_all = matches!(statement.paths, StatementPaths::All);
    let is_own = match (kind, subject) {
        (DifferenceKind::Entry, S::Access(_) | S::Password(_))
        | (DifferenceKind::Redirect, S::Redirect)
        | (DifferenceKind::Body, S::ErrorPage | S::Content)
        | (DifferenceKind::Lifetime, S::Lifetime) => true,
        // A statement for all paths does not explain the status of one path.
        (DifferenceKind::Status, S::Access(_) | S::Redirect) => !is_for_all,
        (DifferenceKind::Lifetime, S::Field(name)) => {
            matches!(name.as_str(), "cache-control" | "expires")
        }
        (DifferenceKind::Coding, S::Field(name)) => name == "content-encoding",
        (DifferenceKind::Field(name), S::Field(other)) => name == other,
        (DifferenceKind::Field(name), S::Lifetime) => name == "cache-control",
        _ => false,
    };
    match (is_own, subject) {
        (true, _) => 2,
        (false, S::Section) => 1,
        (false, _) => 0,
    }
}

/// The remedy for a difference.
pub(super) fn remedy(difference: &VisibleDifference, outcome: Option<&StatementOutcome>) -> String {
    let by_kind = by_kind(difference);
    match outcome {
        Some(StatementOutcome::NotCarried(remedy)) => {
            format!("not carried by the import: {remedy}")
        }
        Some(StatementOutcome::NotNeeded(why)) => {
            format!("the import took it for not needed ({why}). {by_kind}")
        }
        Some(StatementOutcome::Carried(option)) => {
            format!("carried as {option}: compare it in the draft. {by_kind}")
        }
        None => by_kind.to_owned(),
    }
}

fn by_kind(difference: &VisibleDifference) -> &'static str {
    let is_refused = difference.galley == "403" || difference.galley == "404";
    match &difference.kind {
        DifferenceKind::Entry if is_refused => {
            "Galley refuses what the old server sends: for a file that visitors need, set `allow_files`; else leave it"
        }
        DifferenceKind::Entry => {
            "Set `allow`, `deny`, `admin_allow` or `basic_auth` in the site or in a rule for the path"
        }
        DifferenceKind::Status if is_refused => {
            "Write a rule for the path, or set `allow_files` for a file that visitors need"
        }
        DifferenceKind::Status => {
            "Write a rule for the path, with `redirect`, `deny` or another server"
        }
        DifferenceKind::Redirect => {
            "Set `redirect` and `redirect_status` in a rule, or `canonical_host` and `https_redirect` in the site"
        }
        DifferenceKind::Body => {
            "Compare both responses; an error page is set in `[site.error_pages]`, another server in a rule"
        }
        DifferenceKind::StoredPage => {
            "The page depends on more than its address: set `cache = false` in a rule, or `vary_cookies` or `bypass_cookies` in the site"
        }
        DifferenceKind::Lifetime => "Set `Cache-Control` with `set_headers` in a rule for the path",
        DifferenceKind::Coding => "Add the media type to `compress_types`",
        DifferenceKind::Field(_) => {
            "Set the field with `set_headers`, or remove it with `remove_headers`, in the site or in a rule"
        }
    }
}

/// Larger than the weight of any path.
const FITS_FIRST: usize = 100_000;
