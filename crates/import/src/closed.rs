//! Denials: which paths Galley never sends without a rule, and rules that close other ones.
//!
//! A denial is never dropped because of its name. It is not needed only if every path that it matches is closed anyway, and the
//! tests of this crate show that. Every other one becomes a rule for exactly its paths.

use crate::directive::Directive;
use crate::draft::{ImportedSite, RuleDraft, RulePriority, Section, Value};
use crate::evidence::targets;
use crate::expectation::{Answer, Expectation};
use crate::report::StatementOutcome;
use crate::words::WordList;

/// Closes the paths of `rule`, which has no other options yet, as the other server does with `status`. Returns the result for the
/// statement.
pub(crate) fn close(
    directive: &Directive,
    mut rule: RuleDraft,
    status: &str,
    site: &mut ImportedSite,
) -> StatementOutcome {
    let pattern = rule.section.text("pattern").map(str::to_owned);
    // Galley answers 403 for files that it never sends.
    let has_rule = OWN_STATUSES.contains(status);
    let of_files = pattern
        .as_deref()
        .filter(|_| site.section.has("root") && !has_rule);
    if let Some(reason) = of_files.and_then(never_sent) {
        return with_status(status, reason, false);
    }
    if let Some(prefix) = pattern.as_deref().and_then(plain_prefix) {
        rule.section = rule_for("path", format!("{prefix}*"), directive, rule.priority).section;
    }
    let expected = |target| Expectation {
        entry: directive.entry.clone(),
        target,
        answer: Answer::Closed,
    };
    let targets = targets(&rule.section).into_iter();
    site.expected.extend(targets.map(expected));
    rule.section.deny_all(&directive.origin);
    set_status(&mut rule.section, status, directive);
    site.add_rule(rule);
    with_status(status, "a rule with deny", true)
}

/// Sets the status of a rule that denies clients, if it may have this one.
pub(crate) fn set_status(section: &mut Section, status: &str, directive: &Directive) {
    if OWN_STATUSES.contains(status) {
        let status = Value::Verbatim(status.to_owned());
        section.set("deny_status", status, &directive.origin);
    }
}

/// The statuses of denials that a rule may have in place of 403.
const OWN_STATUSES: WordList = WordList("404 405 410");

/// The prefix that a pattern such as `^/wp-admin/` or `^/xmlrpc\.php` is.
pub(crate) fn plain_prefix(pattern: &str) -> Option<String> {
    let prefix = pattern
        .strip_prefix('^')
        .filter(|text| text.starts_with('/'))?;
    let has_dots = prefix.matches('.').count() > prefix.matches("\\.").count();
    let prefix = prefix.replace("\\.", ".");
    let is_plain = prefix
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte));
    (is_plain && !has_dots).then_some(prefix)
}

/// The result for a statement that answers `status`. `is_rule`: a rule with [`set_status`] does, and Galley answers 403 otherwise.
pub(crate) fn with_status(status: &str, what: &str, is_rule: bool) -> StatementOutcome {
    match (status, is_rule) {
        (status, true) if status == "403" || OWN_STATUSES.contains(status) => {
            StatementOutcome::Carried(what.to_owned())
        }
        ("403", false) => StatementOutcome::NotNeeded(what.to_owned()),
        _ => StatementOutcome::NotCarried(format!(
            "closed, but visitors get 403 in place of {status}: {what}"
        )),
    }
}

/// Why all paths that a pattern matches are closed without a rule. Every other pattern gets a rule.
fn never_sent(pattern: &str) -> Option<&'static str> {
    let text = pattern
        .trim_start_matches("(?i)")
        .trim_start_matches('^')
        .replace("\\/", "/");
    let mut closed = NEVER_SENT.iter();
    closed
        .find(|(patterns, _)| patterns.contains(&text))
        .map(|(_, reason)| *reason)
}

/// Patterns, without `^` and flags. The tests of this crate compare each with the code that sends files.
const NEVER_SENT: &[(WordList, &str)] = &[
    (
        WordList(
            r"/\.ht /\.ht.* /\.git /\.svn /\.user\.ini /\.env /\.(git|svn|hg) /\.(git|ht|svn) /\.(ht|git)",
        ),
        "Galley never sends hidden files",
    ),
    (
        WordList(r"/wp-config\.php$"),
        "Galley never sends wp-config.php",
    ),
    (
        WordList(
            r"/wp-content/uploads/.*\.php$ /wp-content/uploads/.+\.php$ /wp-content/uploads/.*\.(php|phtml)$
              /wp-content/cache/.*\.php$ /wp-content/(uploads|cache)/.*\.php$ /wp-content/(?:uploads|cache)/.*\.php$
              /app/uploads/.*\.php$",
        ),
        "Galley runs no scripts in folders for uploads",
    ),
];

/// Whether Galley never sends a path below a root, whatever its rules are.
pub(crate) fn is_never_sent(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    let is_script = SCRIPTS.iter().any(|end| lower.ends_with(end));
    let is_of_core =
        lower.contains("/wp-includes/") && !CORE_ENTRANCES.iter().any(|own| lower.ends_with(own));
    let is_closed = CLOSED_ANYWHERE.iter().any(|one| lower.contains(one))
        || AT_TOP.iter().any(|folder| lower.starts_with(folder))
        || is_of_core;
    let is_hidden = lower.match_indices("/.").any(|(at, _)| {
        !lower
            .get(at..)
            .is_some_and(|rest| rest.starts_with("/.well-known"))
    });
    is_hidden || lower.ends_with("/wp-config.php") || is_script && is_closed
}

/// The scripts below `wp-includes` that Galley runs.
const CORE_ENTRANCES: WordList =
    WordList("/wp-includes/ms-files.php /wp-includes/js/tinymce/wp-tinymce.php");

/// Endings of scripts that Galley runs in no folder of [`CLOSED_ANYWHERE`].
const SCRIPTS: &[&str] = &[
    ".php", ".php3", ".php4", ".php5", ".php7", ".php8", ".phtml", ".phar", ".pht", ".phps",
];

/// Folders in which Galley runs no scripts, at any depth.
const CLOSED_ANYWHERE: WordList = WordList(
    "/wp-content/uploads/ /wp-content/cache/ /wp-content/upgrade/ /wp-content/blogs.dir/ /app/uploads/",
);

/// Folders at the top in which Galley runs no scripts.
const AT_TOP: &[&str] = &["/uploads/", "/files/"];

/// Whether a PCRE with look-ahead matches only hidden files other than those in `/.well-known`.
pub(crate) fn is_hidden_only(text: &str) -> bool {
    let rest = text
        .strip_prefix("(^|/)\\.")
        .or_else(|| text.strip_prefix("/\\."));
    rest.is_some_and(|rest| HIDDEN_ONLY.contains(rest))
}

/// What may follow the dot of hidden files.
const HIDDEN_ONLY: WordList = WordList(
    r"(?!well-known) (?!well-known/) (?!well-known\/) (?!well-known).* (?!well-known\/).* (?!well-known/).* (?!well\-known)
    (?!well-known($|/)) (?!well-known(?:$|/))",
);

/// A rule for a prefix, an exact path or a pattern with one option.
pub(crate) fn rule_for(
    option: &str,
    value: String,
    directive: &Directive,
    priority: RulePriority,
) -> RuleDraft {
    let mut section = Section::default();
    section.set(option, value, &directive.origin);
    RuleDraft::new(section, priority)
}
