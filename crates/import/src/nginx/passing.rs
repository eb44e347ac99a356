//! Converts `proxy_pass`, `fastcgi_pass`, `return` and `rewrite`, and the lifetimes of responses.

use crate::draft::{ImportedSite, RuleDraft, RulePriority, Section, Value};
use crate::nginx::common;
use crate::nginx::context::Context;
use crate::tree::ParsedDirective;
use crate::units;

/// Converts `proxy_pass` and `fastcgi_pass`. False for other statements.
pub(super) fn pass(
    directive: &ParsedDirective,
    section: &mut Section,
    context: &mut Context<'_>,
) -> bool {
    let target = directive.argument(0);
    match directive.name() {
        "proxy_pass" => {
            let rest = target.split_once("://").map_or("", |(_, rest)| rest);
            let path = rest.split_once('/').map_or("", |(_, path)| path);
            let servers = context.http_servers(target);
            if servers.is_empty() || !(path.is_empty() || path.starts_with('$')) {
                context.not_carried(directive, NO_SERVER);
            } else {
                directive.sets("upstream", Value::List(servers), section, context.report);
            }
        }
        "fastcgi_pass" => match context.fastcgi_server(target) {
            Some(server) => directive.sets("php", server, section, context.report),
            None => context.not_carried(directive, "set `php`: the target depends on the request"),
        },
        _ => return false,
    }
    true
}

/// Converts `fastcgi_cache_valid 200 301 60m` to lifetimes by status. False for other statements.
pub(super) fn cache_time(
    directive: &ParsedDirective,
    ttl: &mut Section,
    context: &mut Context<'_>,
) -> bool {
    if !directive.name().ends_with("_cache_valid") {
        return false;
    }
    let Some((time, statuses)) = directive.arguments().split_last() else {
        return true;
    };
    let Some(time) = units::duration(time) else {
        context.not_carried(directive, "set lifetimes in `[site.ttl]`");
        return true;
    };
    let named: Vec<&str> = match statuses {
        [] => vec!["200", "301", "302"],
        statuses => statuses.iter().map(String::as_str).collect(),
    };
    for option in named.into_iter().filter_map(lifetime_option) {
        ttl.set(&option, time.clone(), &directive.origin);
    }
    context.carried(directive, "site.ttl");
    true
}

/// The option of `[site.ttl]` for a status, or for `any`.
fn lifetime_option(status: &str) -> Option<String> {
    let number = status.parse::<u16>();
    match status {
        "any" => Some("default".to_owned()),
        _ if number.is_ok_and(|number| (200..600).contains(&number)) => {
            Some(format!("\"{status}\""))
        }
        _ => None,
    }
}

/// Converts `return 301 URL` and `rewrite PATTERN URL FLAG`.
pub(super) fn redirect(
    directive: &ParsedDirective,
    rule: Option<&mut Section>,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    match directive.name() {
        "return" => returned(directive, rule, context),
        _ => rewritten(directive, site, context),
    }
}

fn returned(directive: &ParsedDirective, rule: Option<&mut Section>, context: &mut Context<'_>) {
    let (status, target) = (directive.argument(0), directive.argument(1));
    let (Some(section), Ok(number)) = (rule, status.parse::<u16>()) else {
        return context.not_carried(directive, "write a rule with `redirect` or `deny`");
    };
    let origin = &directive.origin;
    let bare = target.trim_end_matches("$is_args$args");
    let bare = bare.trim_end_matches("$request_uri");
    match number {
        301 | 302 | 303 | 307 | 308 if !bare.contains('$') && !bare.is_empty() => {
            section.set("redirect", bare, origin);
            keeps_query(bare != target, directive, section);
            section.set_status(status, origin);
            context.carried(directive, "redirect");
        }
        403 | 404 | 410 | 444 => {
            section.deny_all(origin);
            context.carried(directive, "deny");
        }
        _ => {
            let remedy = "write a rule with `redirect`, or send the response from PHP";
            context.not_carried(directive, remedy);
        }
    }
}

/// Disables the forwarding of the query, which nginx forwards only if the target contains it.
fn keeps_query(is_kept: bool, directive: &ParsedDirective, section: &mut Section) {
    if !is_kept {
        section.set("redirect_query", false, &directive.origin);
    }
}

fn rewritten(directive: &ParsedDirective, site: &mut ImportedSite, context: &mut Context<'_>) {
    let (pattern, target) = (directive.argument(0), directive.argument(1));
    let flag = directive.argument(2);
    let is_inside = !matches!(flag, "permanent" | "redirect") && !target.contains("://");
    let names = |parts: &[&str]| parts.iter().any(|part| pattern.contains(part));
    if is_inside && target.contains("index.php") {
        return context.not_needed(directive, "Galley forwards what is no file to index.php");
    }
    if names(OF_NETWORKS) {
        return directive.sets("multisite", true, &mut site.section, context.report);
    }
    if is_inside && names(&["sitemap", "robots.txt"]) {
        return context.not_needed(directive, "WordPress and its plugins answer this path");
    }
    let is_own = target.trim_end_matches("$request_uri").contains("$h");
    match common::rule_pattern(pattern, false) {
        Some(pattern) if !is_inside && !is_own => {
            site.add_rule(redirect_rule(directive, pattern));
            context.carried(directive, "redirect");
        }
        _ => context.not_carried(directive, NO_REWRITES),
    }
}

/// Converts `rewrite PATTERN URL redirect`.
fn redirect_rule(directive: &ParsedDirective, pattern: Value) -> RuleDraft {
    let (origin, target) = (&directive.origin, directive.argument(1));
    let mut section = Section::default();
    section.set("pattern", pattern, origin);
    section.set("redirect", target.trim_end_matches('?'), origin);
    let is_temporary = directive.argument(2) == "redirect";
    section.set_status(if is_temporary { "302" } else { "301" }, origin);
    if target.ends_with('?') {
        section.set("redirect_query", false, origin);
    }
    RuleDraft::new(section, RulePriority::Exact)
}

const NO_SERVER: &str =
    "set `upstream`: the target depends on the request, is a unix socket, or has a path of its own";

const NO_REWRITES: &str =
    "write a rule with `pattern` and `redirect`; Galley rewrites no paths for itself";

/// Parts of the patterns in WordPress's rules for multisite networks.
const OF_NETWORKS: &[&str] = &[
    "wp-admin$",
    "files/(.*)",
    "(/[^/]+)?(/wp-.*)",
    "[_0-9a-zA-Z-]+",
];
