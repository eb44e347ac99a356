//! Converts `if`: the usual conditions that exclude pages from the cache, redirect, or deny requests.

use crate::draft::{ImportedSite, RuleDraft, RulePriority, Section};
use crate::known;
use crate::nginx::common;
use crate::nginx::context::Context;
use crate::tree::ParsedDirective;

/// The comparison of an `if`: a variable, an operator and a pattern.
struct IfComparison {
    variable: String,
    operator: String,
    pattern: String,
}

/// Converts an `if` of a server, or of its location `/`.
pub(super) fn convert(
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    let comparison = comparison(directive);
    let variable = comparison.variable.as_str();
    let sets = directive.has("set");
    let mut inner = directive.inner().iter();
    let action = inner.find(|inner| matches!(inner.name(), "return" | "rewrite"));
    match (variable, action) {
        ("$scheme" | "$https" | "$http_x_forwarded_proto" | "$server_port", Some(_)) => {
            site.section.set("https_redirect", true, &directive.origin);
            directive.carried("https_redirect", context.report);
        }
        ("$host" | "$http_host" | "$server_name", Some(action)) => {
            canonical(directive, action, site, context);
        }
        ("$http_cookie", None) if sets => cookies(directive, &comparison, site, context),
        ("$request_uri" | "$uri" | "$document_uri" | "$request_filename", None) if sets => {
            paths(directive, &comparison, site, context);
        }
        ("$http_user_agent", None) if sets && is_for_phones(&comparison.pattern) => {
            site.section.set("device_variants", true, &directive.origin);
            directive.carried("device_variants", context.report);
        }
        ("$request_uri" | "$uri", Some(action)) => {
            deny_path(directive, &comparison, action, site, context);
        }
        _ => match reason_not_needed(directive, variable, action.is_some()) {
            Some(why) => directive.not_needed(why, context.report),
            None => directive.not_carried(DECIDE, context.report),
        },
    }
}

/// Why Galley needs nothing for a condition; `None` if it is needed.
fn reason_not_needed(
    directive: &ParsedDirective,
    variable: &str,
    has_action: bool,
) -> Option<&'static str> {
    let only_sets = !has_action && directive.has("set");
    Some(match variable {
        "$request_filename" if has_action => FILES,
        "-e" | "-f" | "-d" | "!-e" | "!-f" | "!-d" => FILES,
        "$request_method" if has_action => {
            "Galley refuses methods that it does not know (`methods` in a rule permits more)"
        }
        "$request_method" if only_sets => "Galley serves only GET and HEAD from the cache",
        "$query_string" | "$args" | "$is_args" if only_sets => {
            "Galley keeps the query in the key, without tracking parameters"
        }
        _ if only_sets && is_cache_variable(directive, variable) => {
            "the preset decides what the cache must not store"
        }
        _ => return None,
    })
}

const FILES: &str = "Galley sends a file that exists, and forwards everything else to index.php";

fn comparison(directive: &ParsedDirective) -> IfComparison {
    let mut words: Vec<String> = directive.arguments().to_vec();
    if let Some(first) = words.first_mut() {
        *first = first.trim_start_matches('(').to_owned();
    }
    if let Some(last) = words.last_mut()
        && let Some(rest) = last.strip_suffix(')')
    {
        *last = rest.to_owned();
    }
    words.retain(|word| !word.is_empty());
    let mut words = words.into_iter();
    IfComparison {
        variable: words.next().unwrap_or_default(),
        operator: words.next().unwrap_or_default(),
        // Typographic quotes come from commands that were copied from web pages.
        pattern: words
            .collect::<Vec<_>>()
            .join(" ")
            .trim_matches(['“', '”'])
            .to_owned(),
    }
}

/// Whether the block only sets variables with names about the cache, or tests such a variable.
fn is_cache_variable(directive: &ParsedDirective, variable: &str) -> bool {
    let is_about_cache = |name: &str| {
        ["cache", "skip", "bypass", "purge"]
            .iter()
            .any(|word| name.contains(word))
    };
    is_about_cache(variable)
        || directive
            .inner()
            .iter()
            .all(|inner| inner.name() == "set" && is_about_cache(inner.argument(0)))
}

fn cookies(
    directive: &ParsedDirective,
    comparison: &IfComparison,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    let found = known::cookies(&comparison.pattern);
    if found.unknown.is_empty() {
        return directive.not_needed("the preset knows these cookies", context.report);
    }
    site.section
        .add("bypass_cookies", found.unknown, &directive.origin);
    directive.carried("bypass_cookies", context.report);
}

fn paths(
    directive: &ParsedDirective,
    comparison: &IfComparison,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    let found = known::paths(&comparison.pattern);
    if found.unknown.is_empty() {
        return directive.not_needed("the preset knows these paths of WordPress", context.report);
    }
    let joined = found.unknown.join("|");
    let Some(pattern) = common::rule_pattern(&joined, comparison.operator.contains('*')) else {
        return directive.not_carried(DECIDE, context.report);
    };
    let mut section = Section::default();
    section.set("pattern", pattern, &directive.origin);
    section.set("cache", false, &directive.origin);
    site.add_rule(RuleDraft::new(section, RulePriority::Pattern));
    directive.carried("a rule with cache = false", context.report);
}

/// Converts `if ($host != example.com) { return 301 https://example.com$request_uri; }` and its variants.
fn canonical(
    directive: &ParsedDirective,
    action: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    let without_www = |host: &&String| !host.starts_with("www.") && !host.contains('*');
    let host = match host_of_target(action) {
        Some(host) if host.contains('$') => site.hosts().iter().find(without_www).cloned(),
        None if action.argument(0).starts_with('4') => {
            return directive.not_needed("Galley refuses hosts that no site has", context.report);
        }
        host => host,
    };
    let Some(host) = host else {
        return directive.not_carried(DECIDE, context.report);
    };
    site.section
        .set("canonical_host", host.clone(), &directive.origin);
    site.section.add("hosts", [host], None);
    directive.carried("canonical_host", context.report);
}

/// The host in the target of `return` or `rewrite`.
pub(super) fn host_of_target(action: &ParsedDirective) -> Option<String> {
    let mut words = action.arguments().iter();
    let url = words.find(|word| word.contains("://"))?;
    let rest = url.split_once("://")?.1;
    let end = rest.find(['/', '$']).unwrap_or(rest.len());
    match rest.get(..end)? {
        "" => Some(rest.split('/').next().unwrap_or_default().to_owned()),
        host => Some(host.to_owned()),
    }
}

/// Converts `if ($request_uri ~* "xmlrpc") { return 403; }`.
fn deny_path(
    directive: &ParsedDirective,
    comparison: &IfComparison,
    action: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    let refuses = action.name() == "return" && action.argument(0).starts_with('4');
    let pattern = common::rule_pattern(&comparison.pattern, comparison.operator.contains('*'));
    let (true, Some(pattern)) = (refuses && comparison.operator.starts_with('~'), pattern) else {
        return directive.not_carried(DECIDE, context.report);
    };
    let mut section = Section::default();
    section.set("pattern", pattern, &directive.origin);
    section.deny_all(&directive.origin);
    // nginx evaluates it before it chooses a location.
    site.add_rule(RuleDraft {
        section,
        priority: RulePriority::Exact,
        length: usize::MAX,
    });
    directive.carried("a rule with deny", context.report);
}

fn is_for_phones(pattern: &str) -> bool {
    ["iPhone", "Mobile", "Android", "BlackBerry", "Opera Mini"]
        .iter()
        .any(|word| pattern.contains(word))
}

const DECIDE: &str = "write a rule for the paths, or decide in PHP";
