//! Where requests go: `proxy_pass`, `fastcgi_pass`, `return` and `rewrite`; and how long responses live.

use crate::draft::{ImportedSite, RuleDraft, RulePriority, Section, Value};
use crate::nginx::common;
use crate::nginx::context::Context;
use crate::tree::ParsedDirective;

/// `proxy_pass` and `fastcgi_pass`. False: it is neither.
pub(super) fn pass(
    directive: &ParsedDirective,
    section: &mut Section,
    context: &mut Context<'_>,
) -> bool {
    let origin = Some(&directive.origin);
    match directive.name() {
        "proxy_pass" => {
            let target = directive.argument(0);
            let servers = context.http_servers(target);
            let path = target
                .split_once("://")
                .and_then(|(_, rest)| rest.split_once('/'))
                .map(|(_, path)| path);
            if servers.is_empty()
                || path.is_some_and(|path| !path.is_empty() && !path.starts_with('$'))
            {
                let remedy = "set `upstream`: the target depends on the request, is a unix socket, or has a path of its own";
                context.ledger.not_carried(directive.id, remedy);
            } else {
                section.set("upstream", Value::List(servers), origin);
                context.ledger.carried(directive.id, "upstream");
            }
            true
        }
        "fastcgi_pass" => {
            match context.fastcgi_server(directive.argument(0)) {
                Some(server) => {
                    section.set("php", Value::Text(server), origin);
                    context.ledger.carried(directive.id, "php");
                }
                None => context
                    .ledger
                    .not_carried(directive.id, "set `php`: the target depends on the request"),
            }
            true
        }
        _ => false,
    }
}

/// `fastcgi_cache_valid 200 301 60m` as lifetimes by status. False: it is none.
pub(super) fn cache_time(
    directive: &ParsedDirective,
    ttl: &mut Section,
    context: &mut Context<'_>,
) -> bool {
    if !matches!(
        directive.name(),
        "fastcgi_cache_valid" | "proxy_cache_valid"
    ) {
        return false;
    }
    let (origin, arguments) = (Some(&directive.origin), directive.arguments());
    let Some(time) = arguments
        .last()
        .and_then(|text| crate::units::duration(text))
    else {
        context
            .ledger
            .not_carried(directive.id, "set lifetimes in `[site.ttl]`");
        return true;
    };
    let statuses = arguments.get(..arguments.len() - 1).unwrap_or_default();
    let named: Vec<&str> = if statuses.is_empty() {
        vec!["200", "301", "302"]
    } else {
        statuses.iter().map(String::as_str).collect()
    };
    for status in named {
        match status {
            "any" => ttl.set("default", Value::Text(time.clone()), origin),
            status
                if status
                    .parse::<u16>()
                    .is_ok_and(|status| (200..600).contains(&status)) =>
            {
                ttl.set(&format!("\"{status}\""), Value::Text(time.clone()), origin);
            }
            _ => {}
        }
    }
    context.ledger.carried(directive.id, "site.ttl");
    true
}

/// `return 301 URL` and `rewrite PATTERN URL FLAG`.
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
        context
            .ledger
            .not_carried(directive.id, "write a rule with `redirect` or `deny`");
        return;
    };
    let origin = Some(&directive.origin);
    let target = target
        .trim_end_matches("$is_args$args")
        .trim_end_matches("$request_uri");
    match number {
        301 | 302 | 303 | 307 | 308 if !target.contains('$') && !target.is_empty() => {
            section.set("redirect", Value::Text(target.to_owned()), origin);
            if number != 301 {
                section.set(
                    "redirect_status",
                    Value::Verbatim(status.to_owned()),
                    origin,
                );
            }
            context.ledger.carried(directive.id, "redirect");
        }
        403 | 404 | 410 | 444 => {
            section.add("deny", ["0.0.0.0/0".to_owned(), "::/0".to_owned()], origin);
            context.ledger.carried(directive.id, "deny");
        }
        _ => context.ledger.not_carried(
            directive.id,
            "write a rule with `redirect`, or send the response from PHP",
        ),
    }
}

fn rewritten(directive: &ParsedDirective, site: &mut ImportedSite, context: &mut Context<'_>) {
    let (pattern, target, flag) = (
        directive.argument(0),
        directive.argument(1),
        directive.argument(2),
    );
    let is_inside = !matches!(flag, "permanent" | "redirect") && !target.contains("://");
    if is_inside && target.contains("index.php") {
        context
            .ledger
            .not_needed(directive.id, "Galley forwards what is no file to index.php");
        return;
    }
    if pattern.contains("wp-admin$")
        || pattern.contains("files/(.*)")
        || pattern.contains("(/[^/]+)?(/wp-.*)")
        || pattern.contains("[_0-9a-zA-Z-]+")
    {
        site.section
            .set("multisite", Value::Flag(true), Some(&directive.origin));
        context.ledger.carried(directive.id, "multisite");
        return;
    }
    if ["sitemap", "robots.txt"]
        .iter()
        .any(|word| pattern.contains(word))
        && is_inside
    {
        context
            .ledger
            .not_needed(directive.id, "WordPress and its plugins answer this path");
        return;
    }
    let (Some(pattern), false, false) = (
        common::rule_pattern(pattern, false),
        is_inside,
        target.trim_end_matches("$request_uri").contains("$h"),
    ) else {
        context.ledger.not_carried(
            directive.id,
            "write a rule with `pattern` and `redirect`; Galley rewrites no paths for itself",
        );
        return;
    };
    let origin = Some(&directive.origin);
    let mut section = Section::default();
    section.set("pattern", pattern, origin);
    section.set(
        "redirect",
        Value::Text(target.trim_end_matches('?').to_owned()),
        origin,
    );
    if flag == "redirect" {
        section.set("redirect_status", Value::Verbatim("302".to_owned()), origin);
    }
    if target.ends_with('?') {
        section.set("redirect_query", Value::Flag(false), origin);
    }
    site.add_rule(RuleDraft {
        section,
        priority: RulePriority::Exact,
        length: 0,
    });
    context.ledger.carried(directive.id, "redirect");
}
