//! Denials: which paths Galley never sends without a rule, and rules that close other ones.
//!
//! A denial is never dropped because of its name. It is not needed only if every path that it matches is closed anyway, and the
//! tests of this crate show that. A rule that would also close addresses of other pages closes by a redirect instead.

use regex_syntax::hir::literal::{ExtractKind, Extractor};
use regex_syntax::hir::{Hir, HirKind, Look};

use crate::directive::ParsedDirective;
use crate::draft::{ImportedSite, RuleDraft, RulePriority, Section};
use crate::evidence::{self, targets};
use crate::expectation::{Answer, Expectation};
use crate::report::{Report, StatementOutcome};

/// Closes the paths of `rule`, which has no other options yet, as the other server does with `status`. Returns the result for the
/// statement.
pub(crate) fn close(
    directive: &ParsedDirective,
    mut rule: RuleDraft,
    status: &str,
    site: &mut ImportedSite,
) -> StatementOutcome {
    let pattern = rule.section.text("pattern").map(str::to_owned);
    let of_files = pattern.as_deref().filter(|_| site.section.has("root"));
    if let Some(always) = of_files.and_then(never_sent) {
        return always_closed(directive, &always, &rule, status, site);
    }
    if pattern.as_deref() == Some(XMLRPC) {
        site.section.set("xmlrpc", "off", &directive.origin);
        return with_status(status, "xmlrpc", true);
    }
    if let Some(prefix) = pattern.as_deref().and_then(plain_prefix) {
        rule.section = rule_for("path", format!("{prefix}*"), directive, rule.priority).section;
    }
    expect_closed(directive, &rule, site);
    let mut closing = rule.clone();
    closing.section.deny_all(&directive.origin);
    if rule.section.has("path") && !is_file(&rule.section) || evidence::is_exact(&closing) {
        site.add_rule(closing);
        return with_status(status, "a rule with deny", true);
    }
    deny_at_top(&rule, directive, site);
    redirect_away(rule, directive, site);
    StatementOutcome::NotCarried(CLOSED_BY_REDIRECT.to_owned())
}

/// `xmlrpc.php` in any folder, which an option closes.
const XMLRPC: &str = "/xmlrpc\\.php$";

fn expect_closed(directive: &ParsedDirective, rule: &RuleDraft, site: &mut ImportedSite) {
    let expected = |target| Expectation {
        id: directive.id,
        target,
        answer: Answer::Closed,
    };
    let targets = targets(&rule.section).into_iter();
    site.expected.extend(targets.map(expected));
}

/// Closes the rest of paths that Galley never sends, as far as there is one.
fn always_closed(
    directive: &ParsedDirective,
    always: &NeverSent,
    rule: &RuleDraft,
    status: &str,
    site: &mut ImportedSite,
) -> StatementOutcome {
    for path in &always.rest {
        let mut closing = rule_for("path", (*path).to_owned(), directive, rule.priority);
        closing.section.deny_all(&directive.origin);
        site.add_rule(closing);
    }
    if always.has_rest_in_folders {
        let pattern = "/wp-includes/(ms-files|js/tinymce/wp-tinymce)\\.php$".to_owned();
        let rule = rule_for("pattern", pattern, directive, rule.priority);
        redirect_away(rule, directive, site);
        return StatementOutcome::NotCarried(CORE_IN_FOLDERS.to_owned());
    }
    if always.rest.is_empty() {
        with_status(status, always.reason, false)
    } else {
        with_status(status, &format!("rules with deny; {}", always.reason), true)
    }
}

const CORE_IN_FOLDERS: &str = "closed: Galley runs no scripts there but two of WordPress, which rules close, with a redirect for those of another WordPress in a folder";

/// Denies a file at the top that a pattern names in any folder.
fn deny_at_top(rule: &RuleDraft, directive: &ParsedDirective, site: &mut ImportedSite) {
    let name = rule
        .section
        .text("pattern")
        .and_then(|text| text.strip_suffix('$'));
    let Some(path) = name.and_then(|name| plain_prefix(&format!("^{name}"))) else {
        return;
    };
    let mut closing = rule_for("path", path, directive, rule.priority);
    closing.section.deny_all(&directive.origin);
    if evidence::is_exact(&closing) {
        site.add_rule(closing);
    }
}

/// Closes paths by a redirect.
fn redirect_away(mut rule: RuleDraft, directive: &ParsedDirective, site: &mut ImportedSite) {
    let away = evidence::AWAY.to_owned();
    rule.section
        .redirects(away, "302", false, &directive.origin);
    site.add_rule(rule);
}

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

/// Paths that Galley never sends below a root.
struct NeverSent {
    reason: &'static str,
    /// The paths among them that Galley sends nevertheless.
    rest: Vec<&'static str>,
    /// Whether there are further ones below a folder.
    has_rest_in_folders: bool,
}

impl NeverSent {
    fn all(reason: &'static str) -> Self {
        Self {
            reason,
            rest: Vec::new(),
            has_rest_in_folders: false,
        }
    }
}

/// Whether all paths that a pattern matches are closed without a rule, or nearly all.
fn never_sent(pattern: &str) -> Option<NeverSent> {
    // Galley ignores case here.
    let text = pattern.trim_start_matches("(?i)");
    let hir = regex_syntax::parse(text).ok()?;
    let parts = required(&hir);
    let needs = |wanted: &[&str]| parts.iter().any(|part| all_contain(part, wanted));
    if needs(&["/."]) {
        return hidden(text);
    }
    if needs(&["/wp-config.php"]) {
        return Some(NeverSent::all("Galley never sends wp-config.php"));
    }
    are_scripts(&hir).then_some(())?;
    let plain = text.replace('\\', "");
    let is_at_top = AT_TOP
        .iter()
        .any(|one| plain.starts_with(&format!("^{one}")));
    if needs(CLOSED_ANYWHERE) || is_at_top {
        return Some(NeverSent::all(
            "Galley runs no scripts in folders for uploads",
        ));
    }
    let core = [CLOSED_ANYWHERE, &["/wp-includes/"]].concat();
    needs(&core).then(|| core_scripts(text)).flatten()
}

/// Scripts of WordPress that are not meant to be requested, except for two.
fn core_scripts(pattern: &str) -> Option<NeverSent> {
    let known = regex::Regex::new(&format!("(?i){pattern}")).ok()?;
    let rest = CORE_ENTRANCES.iter().copied();
    let in_folders = |path: &&str| known.is_match(&format!("/a{path}"));
    Some(NeverSent {
        reason: "Galley runs no scripts below wp-includes but two",
        rest: rest.filter(|path| known.is_match(path)).collect(),
        has_rest_in_folders: CORE_ENTRANCES.iter().any(in_folders),
    })
}

/// The scripts below `wp-includes` that Galley runs.
const CORE_ENTRANCES: &[&str] = &[
    "/wp-includes/ms-files.php",
    "/wp-includes/js/tinymce/wp-tinymce.php",
];

fn all_contain(texts: &[String], wanted: &[&str]) -> bool {
    let mut all = texts.iter();
    all.all(|text| wanted.iter().any(|one| text.contains(one)))
}

fn hidden(pattern: &str) -> Option<NeverSent> {
    let known = regex::Regex::new(pattern).ok()?;
    let mut never = NeverSent::all("Galley never sends hidden files");
    if OF_AUTHORITIES.iter().any(|path| known.is_match(path)) {
        never.reason = "Galley never sends other hidden files";
        never.rest.push("/.well-known/*");
    }
    Some(never)
}

/// Whether a pattern matches only names of scripts.
fn are_scripts(hir: &Hir) -> bool {
    let is_script = |end: &String| SCRIPTS.iter().any(|one| end.ends_with(one));
    let is_one = !matches!(hir.kind(), HirKind::Alternation(_));
    is_one && ends(hir).is_some_and(|ends| ends.iter().all(is_script))
}

/// Paths below `/.well-known`, which Galley sends.
const OF_AUTHORITIES: &[&str] = &[
    "/.well-known",
    "/.well-known/",
    "/.well-known/a",
    "/.well-known/a.txt",
];

/// Texts of which each match contains one, for each part of a pattern that is a sequence of texts and alternatives.
fn required(hir: &Hir) -> Vec<Vec<String>> {
    let mut parts = Vec::new();
    let mut current = vec![String::new()];
    let all = match hir.kind() {
        HirKind::Concat(all) => all.as_slice(),
        _ => std::slice::from_ref(hir),
    };
    for one in all {
        match texts(one) {
            Some(texts) if texts.len() * current.len() <= MAX_TEXTS => {
                let joined = |before: &String| {
                    texts
                        .iter()
                        .map(move |text| format!("{before}{text}"))
                        .collect::<Vec<_>>()
                };
                current = current.iter().flat_map(joined).collect();
            }
            _ => parts.push(std::mem::replace(&mut current, vec![String::new()])),
        }
    }
    parts.push(current);
    parts
}

/// The texts that a part of a pattern matches. `None`: it matches others, too.
fn texts(hir: &Hir) -> Option<Vec<String>> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Some(vec![String::new()]),
        HirKind::Literal(literal) => Some(vec![String::from_utf8_lossy(&literal.0).into_owned()]),
        HirKind::Capture(capture) => texts(&capture.sub),
        HirKind::Alternation(all) => {
            let all: Option<Vec<Vec<String>>> = all.iter().map(texts).collect();
            Some(all?.concat())
        }
        HirKind::Concat(_) => match required(hir).as_slice() {
            [one] => Some(one.clone()),
            _ => None,
        },
        HirKind::Class(_) | HirKind::Repetition(_) => None,
    }
}

/// The maximum number of texts of a part.
const MAX_TEXTS: usize = 64;

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

/// Endings of scripts that Galley runs in no folder of [`CLOSED_ANYWHERE`].
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

/// Folders at the top in which Galley runs no scripts.
const AT_TOP: &[&str] = &["/uploads/", "/files/"];

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
