//! Converts `RewriteCond` and `RewriteRule`: WordPress's block, redirects to TLS and to one host, redirects and denials by path.

use super::context::{HostContext, RewriteCondition};
use crate::draft::{ImportedSite, RuleDraft, RulePriority, Section, Value};
use crate::known;
use crate::report::StatementOutcome;
use crate::tree::ParsedDirective;

pub(super) fn condition(directive: &ParsedDirective, context: &mut HostContext<'_>) {
    let variable = directive
        .argument(0)
        .trim_start_matches("%{")
        .trim_end_matches('}');
    context.conditions.push(RewriteCondition {
        id: directive.id,
        variable: variable.to_ascii_uppercase(),
        pattern: directive.argument(1).to_owned(),
    });
}

/// Converts a rule and the conditions before it.
pub(super) fn rule(
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut HostContext<'_>,
) {
    let conditions = std::mem::take(&mut context.conditions);
    let outcome = outcome(directive, &conditions, site, context);
    let ids = conditions.iter().map(|one| one.id).chain([directive.id]);
    for id in ids {
        context.report.record(id, outcome.clone());
    }
}

fn outcome(
    directive: &ParsedDirective,
    conditions: &[RewriteCondition],
    site: &mut ImportedSite,
    context: &mut HostContext<'_>,
) -> StatementOutcome {
    let (pattern, target) = (directive.argument(0), directive.argument(1));
    let flags = RewriteFlags::of(directive);
    if target.contains("index.php")
        || (target == "-" && !flags.refuses())
        || flags.0.contains("e=http_authorization")
    {
        return StatementOutcome::NotNeeded("Galley sends a file that exists, forwards everything else to index.php, and passes Authorization on".to_owned());
    }
    if let Some(outcome) = pictures(directive, conditions, site) {
        return outcome;
    }
    let redirects = flags.has("r") || target.contains("://");
    if redirects && WHOLE_SITE.contains(&pattern) {
        let whole = whole_site(directive, conditions, site, context);
        if let Some(outcome) = whole {
            return outcome;
        }
    }
    let by_path = conditions
        .iter()
        .all(|one| matches!(one.variable.as_str(), "REQUEST_FILENAME" | "REQUEST_URI"));
    let paths = rule_pattern(directive, conditions);
    if flags.refuses() && paths.is_some_and(known::is_script_of_folder) {
        return StatementOutcome::NotNeeded(known::NO_SCRIPTS.to_owned());
    }
    let rule = paths.and_then(|paths| path_rule(directive, paths, &flags, redirects));
    match rule.filter(|_| by_path) {
        Some(rule) => {
            site.add_rule(rule);
            StatementOutcome::Carried("a rule".to_owned())
        }
        None => StatementOutcome::NotCarried(
            "write a rule with `path` or `pattern`; Galley rewrites no paths for itself".to_owned(),
        ),
    }
}

/// Converts a rule that sends a WebP or AVIF file to browsers that accept it. `None` for other rules.
fn pictures(
    directive: &ParsedDirective,
    conditions: &[RewriteCondition],
    site: &mut ImportedSite,
) -> Option<StatementOutcome> {
    let (pattern, target) = (directive.argument(0), directive.argument(1));
    let is_picture = [".webp", ".avif"].iter().any(|end| target.ends_with(end));
    if !is_picture || !conditions.iter().any(|one| one.variable == "HTTP_ACCEPT") {
        return None;
    }
    // `(.+)\.(jpe?g|png)$` becomes `$1.webp`: the name without the picture's extension.
    let is_short = pattern.contains(r")\.") && !target.contains("$2") && !target.contains("%{");
    if is_short {
        site.section.set("image_siblings", "all", &directive.origin);
        return Some(StatementOutcome::Carried("image_siblings".to_owned()));
    }
    Some(StatementOutcome::NotNeeded(known::PICTURES.to_owned()))
}

/// Converts a redirect of every path: to TLS, to one host, or to both. `None` if it depends on something else.
fn whole_site(
    directive: &ParsedDirective,
    conditions: &[RewriteCondition],
    site: &mut ImportedSite,
    context: &mut HostContext<'_>,
) -> Option<StatementOutcome> {
    let tests = |name: &&str| conditions.iter().any(|one| one.variable.contains(name));
    let carried = |option: &str| Some(StatementOutcome::Carried(option.to_owned()));
    if OF_TLS.iter().any(tests) {
        site.section.set("https_redirect", true, &directive.origin);
        return carried("https_redirect");
    }
    if tests(&"HTTP_HOST") {
        let not_carried = || Some(StatementOutcome::NotCarried("set `canonical_host`".into()));
        return canonical_host(directive, site).map_or_else(not_carried, carried);
    }
    let target = directive.argument(1);
    if conditions.is_empty() && target.contains("://") {
        context.redirects_all = Some(target.to_owned());
        return carried("https_redirect or canonical_host");
    }
    None
}

/// Variables that show whether a client uses TLS.
const OF_TLS: &[&str] = &["HTTPS", "SERVER_PORT", "X-FORWARDED-PROTO"];

/// Patterns that match every path.
const WHOLE_SITE: &[&str] = &[
    "^", "^(.*)$", "(.*)", "^(.*)", ".*", "^/?(.*)", "^/?(.*)$", "^/(.*)$",
];

/// Flags such as `[R=301,L]`, in lower case.
struct RewriteFlags(String);

impl RewriteFlags {
    fn of(directive: &ParsedDirective) -> Self {
        let flags = directive.argument(2).trim_matches(['[', ']']);
        Self(flags.to_ascii_lowercase())
    }

    fn has(&self, flag: &str) -> bool {
        let mut all = self.0.split(',').map(str::trim);
        all.any(|one| one.split('=').next() == Some(flag))
    }

    fn refuses(&self) -> bool {
        self.has("f") || self.has("g")
    }
}

/// Converts a redirect to the host of its target, or to the site's first host without `www.`. `None` if there is no such host.
fn canonical_host(directive: &ParsedDirective, site: &mut ImportedSite) -> Option<&'static str> {
    let without_www = |host: &&String| !host.starts_with("www.") && *host != "*";
    let host = host_of(directive.argument(1))
        .or_else(|| site.hosts().iter().find(without_www).cloned())?;
    let value = Value::Text(host.clone());
    site.section.set("canonical_host", value, &directive.origin);
    site.section.add("hosts", [host], None);
    Some("canonical_host")
}

/// The pattern for the paths of a rule. `None` if its conditions need more than one pattern.
fn rule_pattern<'d>(
    directive: &'d ParsedDirective,
    conditions: &'d [RewriteCondition],
) -> Option<&'d str> {
    let mut paths = conditions
        .iter()
        .filter(|one| one.variable == "REQUEST_URI");
    let is_whole = WHOLE_SITE.contains(&directive.argument(0));
    match (paths.next(), paths.next()) {
        (None, _) => Some(directive.argument(0)),
        (Some(one), None) if is_whole && !one.pattern.starts_with(['!', '-', '=', '<', '>']) => {
            Some(&one.pattern)
        }
        _ => None,
    }
}

/// Converts a redirect or denial of paths. `None` for other rules, and if Galley does not support the pattern.
fn path_rule(
    directive: &ParsedDirective,
    pattern: &str,
    flags: &RewriteFlags,
    redirects: bool,
) -> Option<RuleDraft> {
    let origin = &directive.origin;
    let target = directive.argument(1);
    // In a `.htaccess` paths have no leading slash.
    let text = match pattern.strip_prefix('^') {
        Some(rest) if !rest.starts_with('/') => format!("^/{rest}"),
        _ => pattern.to_owned(),
    };
    let ignores_case = flags.has("nc") || flags.has("nocase");
    let mut section = Section::default();
    section.set("pattern", known::pattern(&text, ignores_case)?, origin);
    if flags.refuses() {
        section.deny_all(origin);
    } else if redirects && !target.contains("%{") {
        let is_relative = !target.starts_with('/') && !target.contains("://");
        let slash = if is_relative { "/" } else { "" };
        let target = target.trim_end_matches('?');
        section.set("redirect", format!("{slash}{target}"), origin);
        let is_permanent = flags.0.contains("r=301") || flags.0.contains("r=permanent");
        section.set_status(if is_permanent { "301" } else { "302" }, origin);
    } else {
        return None;
    }
    Some(RuleDraft::new(section, RulePriority::Pattern))
}

fn host_of(target: &str) -> Option<String> {
    let rest = target.split_once("://")?.1;
    let host = rest.split(['/', '%', '$']).next()?;
    (!host.is_empty()).then(|| host.to_owned())
}
