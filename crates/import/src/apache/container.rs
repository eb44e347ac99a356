//! `<Files>`, `<Directory>` and `<Location>`.

use super::access::{access, denies_all, is_access};
use super::context::{HostContext, record_outcome};
use super::headers::{HeaderScope, header};
use super::passing::handler;
use crate::closed;
use crate::directive::ParsedDirective;
use crate::draft::{ImportedSite, RuleDraft, RulePriority};
use crate::known::{self, NO_LOOK_AROUND};

/// Converts a section to a rule. Returns the directives that apply to the whole site.
pub(super) fn container<'d>(
    directive: &'d ParsedDirective,
    site: &mut ImportedSite,
    context: &mut HostContext<'_>,
) -> &'d [ParsedDirective] {
    let name = directive.name();
    let (is_pattern, path) = path_of(directive);
    if let Some(one) = php_handler(directive).filter(|_| OF_PHP.contains(&path)) {
        context.carried(directive, "php");
        handler(one, site, context);
        return &[];
    }
    match container_scope(name, is_pattern, path, directive, site) {
        ContainerScope::Site => {
            let why = "the section is the site's root: its directives are those of the site";
            context.not_needed(directive, why);
            return directive.inner();
        }
        ContainerScope::Rule(rule) => contents(directive, rule, site, context),
        ContainerScope::Unsupported(remedy) => context.unsupported(directive, remedy),
    }
    &[]
}

/// Whether the paths of a section are a pattern, and these.
fn path_of(directive: &ParsedDirective) -> (bool, &str) {
    match directive.arguments() {
        [tilde, path, ..] if tilde == "~" => (true, path.as_str()),
        [path, ..] => (directive.name().ends_with("match"), path.as_str()),
        [] => (false, ""),
    }
}

/// The handler of a section that contains nothing else.
fn php_handler(directive: &ParsedDirective) -> Option<&ParsedDirective> {
    let [one] = directive.inner() else {
        return None;
    };
    let is_php = one.name() == "sethandler" && one.argument(0).starts_with("proxy:");
    is_php.then_some(one)
}

/// The paths that a section covers.
enum ContainerScope {
    /// All paths of the site.
    Site,
    /// The paths of this rule, which has no other options yet.
    Rule(RuleDraft),
    /// Paths that no rule has, and why.
    Unsupported(&'static str),
}

fn contents(
    directive: &ParsedDirective,
    mut rule: RuleDraft,
    site: &mut ImportedSite,
    context: &mut HostContext<'_>,
) {
    let block = directive.inner();
    rule = of_whole_path(rule, directive);
    if denies_all(block) {
        let outcome = closed::close(directive, rule, "403", site);
        return closed::record_all(directive, &outcome, context.report);
    }
    let own: Vec<ParsedDirective> = block.iter().filter(|one| is_access(one)).cloned().collect();
    access(&own, &mut rule.section, context.report);
    for inner in block.iter().filter(|one| !is_access(one)) {
        match inner.name() {
            "header" => header(inner, &mut rule.section, HeaderScope::Paths, context.report),
            name if name.starts_with('<') => context.unknown_section(inner),
            _ => record_outcome(inner, context.report),
        }
    }
    directive.becomes(rule, site, context.report);
}

/// A rule for a path and those below it: `/*` alone does not cover the path itself.
fn of_whole_path(rule: RuleDraft, directive: &ParsedDirective) -> RuleDraft {
    let path = rule
        .section
        .text("path")
        .and_then(|path| path.strip_suffix("/*"));
    let Some(path) = path else {
        return rule;
    };
    let pattern = format!("^{}(/.*)?$", known::glob(path));
    RuleDraft {
        length: rule.length,
        ..closed::rule_for("pattern", pattern, directive, rule.priority)
    }
}

/// The paths of a section.
fn container_scope(
    name: &str,
    is_pattern: bool,
    path: &str,
    directive: &ParsedDirective,
    site: &ImportedSite,
) -> ContainerScope {
    let is_folder = name.starts_with("<directory");
    let root = site.section.text("root").unwrap_or_default();
    if is_pattern && is_folder {
        return ContainerScope::Unsupported("write a rule with `path` for the folder");
    }
    if is_pattern || name.starts_with("<files") {
        let Some(pattern) = pattern(name, is_pattern, path) else {
            return ContainerScope::Unsupported(NO_LOOK_AROUND);
        };
        return ContainerScope::Rule(closed::rule_for(
            "pattern",
            pattern,
            directive,
            RulePriority::Pattern,
        ));
    }
    let path = path.trim_end_matches('/');
    let below = match path.strip_prefix(root) {
        Some(below) if is_folder && !root.is_empty() => below,
        _ if is_folder && root.starts_with(&format!("{path}/")) => "",
        _ if is_folder => {
            return ContainerScope::Unsupported(
                "the folder is not below `root`: link it into the site, or make it a site of its own",
            );
        }
        _ => path,
    };
    if below.is_empty() {
        return ContainerScope::Site;
    }
    if !below.starts_with('/') || below.contains(['*', '?', '[']) {
        return ContainerScope::Unsupported("write a rule with `path` or `pattern`");
    }
    let priority = RulePriority::Prefix;
    let mut rule = closed::rule_for("path", format!("{below}/*"), directive, priority);
    rule.length = below.len();
    ContainerScope::Rule(rule)
}

/// A pattern for the paths of `<Files>`, which compares the last name only, or of `<LocationMatch>`.
fn pattern(name: &str, is_pattern: bool, text: &str) -> Option<String> {
    if !name.starts_with("<files") {
        return known::pattern(text, false);
    }
    if !is_pattern {
        return Some(format!("/{}$", known::glob(text).replace(".*", "[^/]*")));
    }
    let text = known::pattern(text, false)?;
    let flag = if text.starts_with("(?i)") { "(?i)" } else { "" };
    let text = text.trim_start_matches("(?i)");
    Some(match (text.strip_prefix('^'), text.ends_with('$')) {
        _ if text.contains('|') && !text.contains('(') => format!("{flag}(?:{text})[^/]*$"),
        (Some(rest), true) => format!("{flag}/{rest}"),
        (Some(rest), false) => format!("{flag}/{rest}[^/]*$"),
        (None, true) => format!("{flag}{text}"),
        (None, false) => format!("{flag}{text}[^/]*$"),
    })
}

/// Patterns of all scripts.
const OF_PHP: &[&str] = &["\\.php$", "\\.php", "\\.(php)$", ".+\\.php$", "*.php"];
