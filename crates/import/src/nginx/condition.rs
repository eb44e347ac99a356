//! `if`: idioms with which sites keep pages out of the cache, redirect, or refuse requests.

use crate::draft::{ImportedSite, RuleDraft, RulePriority, Section, Value};
use crate::known;
use crate::nginx::common;
use crate::nginx::context::Context;
use crate::tree::ParsedDirective;

/// What an `if` compares: a variable, an operator and a pattern.
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
    let sets = directive.has("set");
    let returns = directive
        .inner()
        .iter()
        .find(|inner| matches!(inner.name(), "return" | "rewrite"));
    match (comparison.variable.as_str(), returns) {
        ("$scheme" | "$https" | "$http_x_forwarded_proto" | "$server_port", Some(_)) => {
            site.section
                .set("https_redirect", Value::Flag(true), Some(&directive.origin));
            directive.carried("https_redirect", context.ledger);
        }
        ("$host" | "$http_host" | "$server_name", Some(action)) => {
            canonical(directive, action, site, context);
        }
        ("$http_cookie", None) if sets => cookies(directive, &comparison, site, context),
        ("$request_uri" | "$uri" | "$document_uri" | "$request_filename", None) if sets => {
            paths(directive, &comparison, site, context);
        }
        ("$http_user_agent", None) if sets && is_for_phones(&comparison.pattern) => {
            site.section.set(
                "device_variants",
                Value::Flag(true),
                Some(&directive.origin),
            );
            directive.carried("device_variants", context.ledger);
        }
        ("$request_uri" | "$uri", Some(action)) => {
            refuse_path(directive, &comparison, action, site, context);
        }
        ("$request_filename", Some(_)) | ("-e" | "-f" | "-d" | "!-e" | "!-f" | "!-d", _) => {
            directive.not_needed(
                "Galley sends a file that exists, and forwards everything else to index.php",
                context.ledger,
            );
        }
        ("$request_method", None) if sets => {
            directive.not_needed(
                "Galley serves only GET and HEAD from the cache",
                context.ledger,
            );
        }
        ("$request_method", Some(_)) => {
            directive.not_needed(
                "Galley refuses methods that it does not know (`methods` in a rule permits more)",
                context.ledger,
            );
        }
        ("$query_string" | "$args" | "$is_args", None) if sets => {
            directive.not_needed(
                "Galley keeps the query in the key, without tracking parameters",
                context.ledger,
            );
        }
        (variable, None) if sets && is_cache_variable(directive, variable) => {
            directive.not_needed(
                "the preset decides what the cache must not store",
                context.ledger,
            );
        }
        _ => directive.not_carried(DECIDE, context.ledger),
    }
}

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
        // Typographic quotes come with commands that were copied from web pages.
        pattern: words
            .collect::<Vec<_>>()
            .join(" ")
            .trim_matches(['“', '”'])
            .to_owned(),
    }
}

/// Whether the block only sets variables whose names are about the cache, or tests one.
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
        directive.not_needed("the preset knows these cookies", context.ledger);
        return;
    }
    site.section
        .add("bypass_cookies", found.unknown, Some(&directive.origin));
    directive.carried("bypass_cookies", context.ledger);
}

fn paths(
    directive: &ParsedDirective,
    comparison: &IfComparison,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    let found = known::paths(&comparison.pattern);
    if found.unknown.is_empty() {
        directive.not_needed("the preset knows these paths of WordPress", context.ledger);
        return;
    }
    let joined = found.unknown.join("|");
    let Some(pattern) = common::rule_pattern(&joined, comparison.operator.contains('*')) else {
        directive.not_carried(DECIDE, context.ledger);
        return;
    };
    let mut section = Section::default();
    section.set("pattern", pattern, Some(&directive.origin));
    section.set("cache", Value::Flag(false), Some(&directive.origin));
    site.add_rule(RuleDraft {
        section,
        priority: RulePriority::Pattern,
        length: 0,
    });
    directive.carried("a rule with cache = false", context.ledger);
}

/// `if ($host != example.com) { return 301 https://example.com$request_uri; }`, in its many spellings.
fn canonical(
    directive: &ParsedDirective,
    action: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    match host_of_target(action) {
        Some(host) if !host.contains('$') => {
            let origin = Some(&directive.origin);
            site.section
                .set("canonical_host", Value::Text(host.clone()), origin);
            site.section.add("hosts", [host], None);
            directive.carried("canonical_host", context.ledger);
        }
        Some(_) => {
            let origin = Some(&directive.origin);
            let without_www = site
                .hosts()
                .iter()
                .find(|host| !host.starts_with("www.") && !host.contains('*'))
                .cloned();
            match without_www {
                Some(host) => {
                    site.section
                        .set("canonical_host", Value::Text(host), origin);
                    directive.carried("canonical_host", context.ledger);
                }
                None => directive.not_carried(DECIDE, context.ledger),
            }
        }
        None if action.argument(0) == "444" || action.argument(0).starts_with('4') => {
            directive.not_needed("Galley refuses hosts that no site has", context.ledger);
        }
        None => directive.not_carried(DECIDE, context.ledger),
    }
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

/// `if ($request_uri ~* "xmlrpc") { return 403; }`.
fn refuse_path(
    directive: &ParsedDirective,
    comparison: &IfComparison,
    action: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    let refuses = action.name() == "return" && action.argument(0).starts_with('4');
    let pattern = common::rule_pattern(&comparison.pattern, comparison.operator.contains('*'));
    let (true, Some(pattern)) = (refuses && comparison.operator.starts_with('~'), pattern) else {
        directive.not_carried(DECIDE, context.ledger);
        return;
    };
    let mut section = Section::default();
    section.set("pattern", pattern, Some(&directive.origin));
    section.add(
        "deny",
        ["0.0.0.0/0".to_owned(), "::/0".to_owned()],
        Some(&directive.origin),
    );
    // nginx tests it before it chooses a location.
    site.add_rule(RuleDraft {
        section,
        priority: RulePriority::Exact,
        length: usize::MAX,
    });
    directive.carried("a rule with deny", context.ledger);
}

fn is_for_phones(pattern: &str) -> bool {
    ["iPhone", "Mobile", "Android", "BlackBerry", "Opera Mini"]
        .iter()
        .any(|word| pattern.contains(word))
}

const DECIDE: &str = "write a rule for the paths, or decide in PHP";
