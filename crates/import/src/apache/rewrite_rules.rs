//! Converts `RewriteCond` and `RewriteRule`. A rule is carried only if its conditions are nothing but what the option of Galley tests.

use super::rewrite::{RewritePlace, RewriteStep, has_base, steps};
use super::rewrite_flags::RewriteFlags;
use crate::closed;
use crate::directive::Directive;
use crate::draft::{ImportedSite, RulePriority};
use crate::host_redirect::{BEHIND_PROXY, HostRedirect, OF_HOST};
use crate::known;
use crate::report::StatementOutcome;

/// Where rules are, and whether their host has TLS.
#[derive(Clone, Copy)]
pub(super) struct RewriteScope {
    pub place: RewritePlace,
    pub has_tls: bool,
}

/// Converts the rules of a block. Returns the redirect of all requests of a host.
pub(super) fn convert(
    block: &[&Directive],
    scope: RewriteScope,
    site: &mut ImportedSite,
) -> Option<HostRedirect> {
    let (steps, is_on) = steps(block);
    let mut redirects_all = None;
    let mut is_unsure = false;
    for step in &steps {
        let flags = RewriteFlags::of(step.rule);
        let ids = step
            .conditions
            .iter()
            .map(|one| one.entry.clone())
            .chain([step.rule.entry.clone()]);
        let whole = whole_host(step, &flags).filter(|_| scope.place == RewritePlace::Host);
        let outcome = match whole {
            _ if !is_on => Some(StatementOutcome::NotNeeded(
                "no RewriteEngine turns it on here".to_owned(),
            )),
            _ if is_unsure || has_base(block) && is_relative(step.rule) => None,
            Some(redirect) => {
                redirects_all.get_or_insert(redirect);
                Some(StatementOutcome::Carried(OF_HOST.to_owned()))
            }
            None => outcome(step, &flags, scope, site),
        };
        // Whether later rules run depends on this one.
        is_unsure |= flags.skips() && !flags.refuses();
        for id in ids {
            match &outcome {
                Some(outcome) => id.record(outcome.clone()),
                None if flags.refuses() => id.differs(REWRITES, true),
                None => id.not_carried(REWRITES),
            }
        }
    }
    redirects_all
}

/// Whether the first rule of a virtual host redirects every request to another scheme or host.
pub(super) fn redirects_host(block: &[&Directive]) -> bool {
    let (steps, is_on) = steps(block);
    let first = steps.first().filter(|_| is_on);
    first.is_some_and(|step| whole_host(step, &RewriteFlags::of(step.rule)).is_some())
}

/// Whether the target of a rule is a path without a leading slash.
fn is_relative(rule: &Directive) -> bool {
    let target = rule.argument(1);
    target != "-" && !target.starts_with('/') && !target.contains("://")
}

/// The redirect of all requests of a virtual host to another scheme or host.
fn whole_host(step: &RewriteStep<'_>, flags: &RewriteFlags) -> Option<HostRedirect> {
    let rule = step.rule;
    let target = rule.argument(1).strip_suffix("%{REQUEST_URI}")?;
    let is_whole = step.conditions.is_empty() && WHOLE_SITE.contains(&rule.argument(0));
    let host = target.split_once("://")?.1;
    let is_host =
        host == "%{HTTP_HOST}" || host == "%{SERVER_NAME}" || !host.contains(['%', '$', '/']);
    let status = flags.redirect().unwrap_or("302");
    let redirect = HostRedirect::of(rule, status, &format!("{target}/$1"));
    redirect.filter(|_| is_whole && is_host && flags.are_known())
}

/// The result of a rule. `None`: Galley has nothing with the same effect.
fn outcome(
    step: &RewriteStep<'_>,
    flags: &RewriteFlags,
    scope: RewriteScope,
    site: &mut ImportedSite,
) -> Option<StatementOutcome> {
    let place = scope.place;
    if is_of_wordpress(step, flags) && place == RewritePlace::Folder {
        let why = "Galley sends a file that exists, forwards everything else to index.php, and passes Authorization on";
        return Some(StatementOutcome::NotNeeded(why.to_owned()));
    }
    let rule = step.rule;
    let is_whole = WHOLE_SITE.contains(&rule.argument(0));
    match step.conditions.as_slice() {
        [one] if is_whole && variable_of(one).contains("X-FORWARDED-PROTO") => {
            Some(StatementOutcome::NotCarried(BEHIND_PROXY.to_owned()))
        }
        [one]
            if is_whole
                && !flags.refuses()
                && matches!(
                    variable_of(one).as_str(),
                    "HTTPS" | "HTTP_HOST" | "SERVER_PORT"
                ) =>
        {
            whole_site(rule, one, flags, scope, site)
        }
        [] => path_rule(rule, rule.argument(0), flags, place, site),
        [one]
            if is_whole
                && variable_of(one) == "REQUEST_URI"
                && !rule.argument(1).contains('$')
                && !one.argument(1).starts_with(['!', '-', '=', '<', '>']) =>
        {
            let ignores_case = one.argument(2).to_ascii_lowercase().contains("nc");
            let pattern = known::pattern(one.argument(1), ignores_case)?;
            path_rule(rule, &pattern, flags, RewritePlace::Host, site)
        }
        _ => None,
    }
}

/// The variable of a condition in upper case, without `%{` and `}`.
fn variable_of(condition: &Directive) -> String {
    let text = condition.argument(0).trim_start_matches("%{");
    text.trim_end_matches('}').to_ascii_uppercase()
}

/// Whether a rule is one of those that WordPress writes.
fn is_of_wordpress(step: &RewriteStep<'_>, flags: &RewriteFlags) -> bool {
    let (pattern, target) = (step.rule.argument(0), step.rule.argument(1));
    let tests: Vec<(String, &str)> = step
        .conditions
        .iter()
        .map(|one| (variable_of(one), one.argument(1)))
        .collect();
    let is_file = |(variable, test): &(String, &str)| {
        variable == "REQUEST_FILENAME" && matches!(*test, "!-f" | "!-d" | "!-l")
    };
    let has = |wanted: &str| tests.iter().any(|(_, test)| *test == wanted);
    let has_no_flags = step.conditions.iter().all(|one| one.argument(2).is_empty());
    match target {
        "-" if tests.is_empty() => {
            pattern == "^index\\.php$" && flags.only_end()
                || WHOLE_SITE.contains(&pattern) && flags.passes_authorization()
        }
        "/index.php" | "index.php" => {
            (WHOLE_SITE.contains(&pattern) || pattern == ".")
                && tests.iter().all(is_file)
                && has("!-f")
                && has("!-d")
                && has_no_flags
                && flags.only_end()
        }
        _ => false,
    }
}

/// Converts a redirect of every path: to TLS, or to one host.
fn whole_site(
    rule: &Directive,
    condition: &Directive,
    flags: &RewriteFlags,
    scope: RewriteScope,
    site: &mut ImportedSite,
) -> Option<StatementOutcome> {
    let (pattern, target, test) = (rule.argument(0), rule.argument(1), condition.argument(1));
    if !matches!(flags.redirect(), Some("301" | "308")) || !flags.are_known() {
        return None;
    }
    let (scheme, rest) = target.split_once("://")?;
    let is_below = pattern.starts_with("^/") || scope.place == RewritePlace::Folder;
    let group = if is_below { "/$1" } else { "$1" };
    let with_group = || rest.strip_suffix(group).filter(|_| pattern.contains('('));
    let host = rest.strip_suffix("%{REQUEST_URI}").or_else(with_group)?;
    let is_plain = matches!(
        (variable_of(condition).as_str(), test),
        ("HTTPS", "off" | "!on" | "!=on" | "=off" | "^off$" | "!^on$")
            | ("SERVER_PORT", "80" | "^80$" | "!^443$" | "!443")
    );
    if is_plain && scheme == "https" && matches!(host, "%{HTTP_HOST}" | "%{SERVER_NAME}") {
        site.section.set("https_redirect", true, &rule.origin);
        return Some(StatementOutcome::Carried("https_redirect".to_owned()));
    }
    let keeps_scheme = scheme == "%{REQUEST_SCHEME}" || scheme == "https" && scope.has_tls;
    let host_pattern = test.trim_start_matches(['!', '^']).trim_end_matches('$');
    let named_host = host_pattern.replace("\\.", ".");
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    let others: Vec<&String> = site.hosts().iter().filter(|one| **one != host).collect();
    let is_meant = if test.starts_with("!^") {
        named_host == host
    } else {
        test.starts_with('^') && others == [&named_host]
    };
    let is_name = named_host.bytes().all(is_name) && !host.contains('%') && test.ends_with('$');
    if variable_of(condition) != "HTTP_HOST" || !is_name || !is_meant || !keeps_scheme {
        return None;
    }
    site.section.set("canonical_host", host, &rule.origin);
    site.section.add("hosts", [host.to_owned()], None);
    Some(StatementOutcome::Carried("canonical_host".to_owned()))
}

/// Patterns that match every path.
const WHOLE_SITE: &[&str] = &[
    "^", "^(.*)$", "(.*)", "^(.*)", ".*", "^.*$", "^.*", "^/?(.*)", "^/?(.*)$", "^/(.*)$",
];

/// Converts a redirect or denial of paths. `None` for other rules, and if Galley does not support the pattern.
fn path_rule(
    rule: &Directive,
    pattern: &str,
    flags: &RewriteFlags,
    place: RewritePlace,
    site: &mut ImportedSite,
) -> Option<StatementOutcome> {
    let target = rule.argument(1);
    if pattern.starts_with('!') || !flags.are_known() {
        return None;
    }
    let inner = pattern.strip_prefix('^').unwrap_or(pattern);
    if place == RewritePlace::Folder && inner.replace("[^", "").contains('^') {
        // Each alternative would need the slash.
        return None;
    }
    // In a folder paths have no leading slash.
    let text = match pattern.strip_prefix('^') {
        Some(rest) if place == RewritePlace::Folder && !rest.starts_with('/') => {
            format!("^/{rest}")
        }
        _ => pattern.to_owned(),
    };
    let text = known::pattern(&text, flags.has("nc") || flags.has("nocase"))?;
    let mut draft = closed::rule_for("pattern", text, rule, RulePriority::Exact);
    if let Some(status) = flags.error() {
        return Some(closed::close(rule, draft, status, site));
    }
    let status = flags
        .redirect()
        .or(target.contains("://").then_some("302"))?;
    if target.contains('%') || target == "-" {
        return None;
    }
    let (bare, query) = target.split_once('?').unwrap_or((target, ""));
    let slash = if is_relative(rule) { "/" } else { "" };
    let target_query = if query.is_empty() {
        String::new()
    } else {
        format!("?{query}")
    };
    let keeps_query = (!target.contains('?') || flags.has("qsa")) && !flags.has("qsd");
    let whole = format!("{slash}{bare}{target_query}");
    draft
        .section
        .redirects(whole, status, keeps_query, &rule.origin);
    if place == RewritePlace::Folder {
        // After the access control of the folder.
        draft.priority = RulePriority::FirstPrefix;
        draft.length = usize::MAX;
    }
    site.add_rule(draft);
    Some(StatementOutcome::Carried("a rule".to_owned()))
}

const REWRITES: &str = "write a rule with `path` or `pattern`; Galley rewrites no paths for itself, and its rules have no conditions but paths, methods and countries";
