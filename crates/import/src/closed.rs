//! Denials: which paths Galley never sends without a rule, and rules that close other ones.
//!
//! A denial is never dropped because of its name. It is not needed only if every path that it matches is closed anyway, and the
//! tests of this crate show that. A rule that would also close addresses of other pages closes by a redirect instead.

use regex_syntax::hir::literal::{ExtractKind, Extractor};
use regex_syntax::hir::{Hir, HirKind, Look};

use crate::draft::{ImportedSite, RuleDraft, RulePriority, Section, Value};
use crate::evidence::{self, Answer, Expectation};
use crate::report::{Report, StatementOutcome};
use crate::served::StatementPaths;
use crate::tree::ParsedDirective;

/// Closes the paths of `rule`, which has no other options yet, as the other server does with `status`. Returns the result for the
/// statement.
pub(crate) fn close(
    directive: &ParsedDirective,
    rule: RuleDraft,
    status: &str,
    site: &mut ImportedSite,
) -> StatementOutcome {
    let origin = &directive.origin;
    for target in targets(&rule.section) {
        site.expected.push(Expectation {
            id: directive.id,
            target,
            answer: Answer::Closed,
        });
    }
    let pattern = rule.section.text("pattern").map(str::to_owned);
    let always = pattern
        .filter(|_| site.section.has("root"))
        .and_then(|pattern| never_sent(&pattern));
    if let Some(always) = always {
        site.expected.retain(|one| one.id != directive.id);
        if always == NeverSent::HiddenAndWellKnown {
            let mut section = Section::default();
            section.set("path", "/.well-known/*", origin);
            section.deny_all(origin);
            site.add_rule(RuleDraft { section, ..rule });
            return with_status(
                status,
                "a rule with deny for /.well-known/; Galley never sends other hidden files",
                true,
            );
        }
        return with_status(status, always.reason(), false);
    }
    let mut closing = rule.clone();
    closing.section.deny_all(origin);
    let is_by_path = rule.section.has("path");
    if is_by_path && !is_file(&rule.section) || evidence::is_exact(&closing) {
        site.add_rule(closing);
        return with_status(status, "a rule with deny", true);
    }
    let mut closing = rule;
    closing.section.set("redirect", evidence::AWAY, origin);
    closing
        .section
        .set("redirect_status", Value::Verbatim("302".to_owned()), origin);
    closing.section.set("redirect_query", false, origin);
    site.add_rule(closing);
    StatementOutcome::NotCarried(CLOSED_BY_REDIRECT.to_owned())
}

/// The result for a statement that answers `status`, if Galley answers 403.
pub(crate) fn with_status(status: &str, what: &str, is_rule: bool) -> StatementOutcome {
    match (status, is_rule) {
        ("403", true) => StatementOutcome::Carried(what.to_owned()),
        ("403", false) => StatementOutcome::NotNeeded(what.to_owned()),
        _ => StatementOutcome::NotCarried(format!(
            "closed, but visitors get 403 in place of {status}: {what}"
        )),
    }
}

/// Whether the path of a rule is a name with an extension, so that it is a file and no page.
fn is_file(section: &Section) -> bool {
    let path = section.text("path").unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    !path.ends_with('*') && name.contains('.')
}

/// Requests for the paths of a rule.
pub(crate) fn targets(section: &Section) -> Vec<String> {
    let Some(rule) = evidence::compiled(section) else {
        return Vec::new();
    };
    let mut samples = samples(section);
    samples.retain(|path| rule.matches("GET", path.as_bytes()) && !path.contains(['?', '%', '#']));
    samples
}

/// Paths that match a rule, or nearly match.
pub(crate) fn samples(section: &Section) -> Vec<String> {
    match (section.text("path"), section.text("pattern")) {
        (Some(path), _) => StatementPaths::of_rule_path(path).samples(),
        (None, Some(pattern)) => StatementPaths::of_rule_pattern(pattern).samples(),
        (None, None) => Vec::new(),
    }
}

/// Paths that Galley never sends below a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NeverSent {
    Hidden,
    HiddenAndWellKnown,
    Configuration,
    Scripts,
}

impl NeverSent {
    fn reason(self) -> &'static str {
        match self {
            Self::Hidden | Self::HiddenAndWellKnown => "Galley never sends hidden files",
            Self::Configuration => "Galley never sends wp-config.php",
            Self::Scripts => "Galley runs no scripts in folders for uploads",
        }
    }
}

/// Whether all paths that a pattern matches are closed without a rule.
fn never_sent(pattern: &str) -> Option<NeverSent> {
    // Galley ignores case here.
    let hir = regex_syntax::parse(pattern.trim_start_matches("(?i)")).ok()?;
    if needs(&hir, "/.") {
        let known = regex::Regex::new(pattern).ok()?;
        let matches_well_known = [
            "/.well-known",
            "/.well-known/",
            "/.well-known/a",
            "/.well-known/a.txt",
        ]
        .iter()
        .any(|path| known.is_match(path));
        return Some(if matches_well_known {
            NeverSent::HiddenAndWellKnown
        } else {
            NeverSent::Hidden
        });
    }
    let ends = ends(&hir)?;
    if needs(&hir, "/wp-config.php") && ends.iter().all(|end| end.ends_with("/wp-config.php")) {
        return Some(NeverSent::Configuration);
    }
    let are_scripts = ends
        .iter()
        .all(|end| SCRIPTS.iter().any(|one| end.ends_with(one)));
    let begins = pattern.trim_start_matches("(?i)").replace('\\', "");
    let is_below = CLOSED_FOLDERS
        .iter()
        .any(|folder| begins.starts_with(&format!("^{folder}")))
        || CLOSED_ANYWHERE.iter().any(|folder| needs(&hir, folder));
    (are_scripts && is_below && !has_top_alternatives(&hir)).then_some(NeverSent::Scripts)
}

fn has_top_alternatives(hir: &Hir) -> bool {
    matches!(hir.kind(), HirKind::Alternation(_))
}

/// Whether each match contains a text.
fn needs(hir: &Hir, text: &str) -> bool {
    match hir.kind() {
        HirKind::Literal(literal) => String::from_utf8_lossy(&literal.0).contains(text),
        HirKind::Capture(capture) => needs(&capture.sub, text),
        HirKind::Concat(all) => all.iter().any(|one| needs(one, text)),
        HirKind::Alternation(all) => all.iter().all(|one| needs(one, text)),
        HirKind::Empty | HirKind::Class(_) | HirKind::Look(_) | HirKind::Repetition(_) => false,
    }
}

/// The ends of all paths that a pattern matches, in lower case. `None`: they are not known.
fn ends(hir: &Hir) -> Option<Vec<String>> {
    let is_anchored = hir.properties().look_set_suffix().contains(Look::End);
    let found = Extractor::new().kind(ExtractKind::Suffix).extract(hir);
    let found = found.literals().filter(|_| is_anchored)?;
    let texts = found
        .iter()
        .map(|one| String::from_utf8_lossy(one.as_bytes()).to_ascii_lowercase());
    let texts: Vec<String> = texts.collect();
    (!texts.is_empty()).then_some(texts)
}

/// Endings of scripts that Galley runs in no folder of [`CLOSED_FOLDERS`].
const SCRIPTS: &[&str] = &[
    ".php", ".php3", ".php4", ".php5", ".php7", ".php8", ".phtml", ".phar", ".pht", ".phps",
];

/// Folders in which Galley runs no scripts, at any depth.
const CLOSED_ANYWHERE: &[&str] = &[
    "/wp-content/uploads/",
    "/wp-content/cache/",
    "/wp-content/upgrade/",
    "/wp-content/blogs.dir/",
    "/app/uploads/",
];

/// Beginnings of patterns for folders in which Galley runs no scripts.
const CLOSED_FOLDERS: &[&str] = &[
    "/wp-content/uploads/",
    "/wp-content/cache/",
    "/wp-content/upgrade/",
    "/wp-content/blogs.dir/",
    "/app/uploads/",
    "/uploads/",
    "/files/",
];

const CLOSED_BY_REDIRECT: &str = "closed by a redirect to the front page in place of a refusal: with `deny`, Galley would also refuse searches, \
     previews and short links (`/?s=`, `/?p=12`), which may show the same page. Write `deny` in place of `redirect` if that is what you want";

/// Whether a PCRE with look-ahead matches only hidden files other than those in `/.well-known`.
pub(crate) fn is_hidden_only(text: &str) -> bool {
    let rest = text
        .strip_prefix("(^|/)\\.")
        .or_else(|| text.strip_prefix("/\\."));
    rest.is_some_and(|rest| HIDDEN_ONLY.contains(&rest))
}

/// What may follow the dot of hidden files.
const HIDDEN_ONLY: &[&str] = &[
    "(?!well-known)",
    "(?!well-known/)",
    "(?!well-known\\/)",
    "(?!well-known).*",
    "(?!well-known\\/).*",
    "(?!well-known/).*",
    "(?!well\\-known)",
    "(?!well-known($|/))",
    "(?!well-known(?:$|/))",
];

/// The result for a denial whose paths or conditions no rule of Galley has.
pub(crate) fn undecided(directive: &ParsedDirective, remedy: &str, report: &mut Report) {
    report.undecided(directive.id, remedy);
    for inner in directive.inner() {
        undecided(inner, remedy, report);
    }
}

/// Records a result for a statement and those in its block.
pub(crate) fn record_all(
    directive: &ParsedDirective,
    outcome: &StatementOutcome,
    report: &mut Report,
) {
    report.record(directive.id, outcome.clone());
    for inner in directive.inner() {
        record_all(inner, outcome, report);
    }
}

/// A rule for a prefix, an exact path or a pattern with one option.
pub(crate) fn rule_for(
    option: &str,
    value: String,
    directive: &ParsedDirective,
    priority: RulePriority,
) -> RuleDraft {
    let mut section = Section::default();
    section.set(option, value, &directive.origin);
    RuleDraft::new(section, priority)
}
