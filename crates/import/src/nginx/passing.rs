//! Converts `proxy_pass`, `fastcgi_pass`, `return` and `rewrite`, and the lifetimes of responses.

use crate::closed;
use crate::draft::{ImportedSite, RulePriority, Section, Value};
use crate::evidence;
use crate::expectation::{Answer, Expectation};
use crate::known;
use crate::nginx::context::Context;
use crate::tree::ParsedDirective;
use crate::units;

/// Converts `proxy_pass` and `fastcgi_pass` of the paths that begin with `prefix`. False for other statements.
pub(super) fn pass(
    directive: &ParsedDirective,
    prefix: Option<&str>,
    section: &mut Section,
    context: &mut Context<'_>,
) -> bool {
    let target = directive.argument(0);
    match directive.name() {
        "proxy_pass" => {
            let rest = target.split_once("://").map_or("", |(_, rest)| rest);
            let path = rest
                .find('/')
                .and_then(|at| rest.get(at..))
                .unwrap_or_default();
            let servers = context.http_servers(target);
            // With a path, nginx replaces the prefix of the location by it.
            let is_same = path.is_empty() || prefix == Some(path) || path == "$request_uri";
            if !is_same {
                context.not_carried(directive, REPLACES_PATH);
            } else if servers.is_empty() {
                context.not_carried(directive, NO_SERVER);
            } else {
                directive.sets("upstream", Value::List(servers), section, context.report);
            }
        }
        "fastcgi_pass" => match context.fastcgi_servers(target) {
            Some(Value::List(all)) if all.is_empty() => context.not_carried(directive, NO_SERVER),
            Some(servers) => directive.sets("php", servers, section, context.report),
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

/// Converts `return 301 URL` in a location with the rule `section`. False if it is no redirect that Galley has.
pub(super) fn returned(
    directive: &ParsedDirective,
    section: &mut Section,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    let (status, target) = match directive.arguments() {
        [url] if url.contains("://") => ("302", url.as_str()),
        [status, target] => (status.as_str(), target.as_str()),
        [status] => (status.as_str(), ""),
        _ => ("", ""),
    };
    let target = match matches!(status, "301" | "302" | "303" | "307" | "308") {
        true => redirect_target(target, section),
        false => None,
    };
    let Some((target, keeps_query)) = target else {
        let remedy = "write a rule with `redirect`, or send the response from PHP";
        return context.not_carried(directive, remedy);
    };
    let origin = &directive.origin;
    section.set("redirect", target, origin);
    section.set(
        "redirect_status",
        Value::Verbatim(status.to_owned()),
        origin,
    );
    if !keeps_query {
        section.set("redirect_query", false, origin);
    }
    expect_redirect(directive, section, site);
    context.carried(directive, "redirect");
}

/// The target in Galley's form, and whether the query is appended. `None`: it depends on something else.
fn redirect_target(target: &str, section: &Section) -> Option<(String, bool)> {
    let (bare, keeps_query) = match target.strip_suffix("$is_args$args") {
        Some(bare) => (bare, true),
        None => (target, false),
    };
    let (bare, path) = match (bare.strip_suffix("$request_uri"), bare.strip_suffix("$uri")) {
        (Some(before), _) => (before, Some(true)),
        (None, Some(before)) => (before, Some(keeps_query)),
        (None, None) => (bare, None),
    };
    let known = |text: &str| match section.text("path") {
        // The groups are those of nginx's pattern.
        None => text
            .split('$')
            .skip(1)
            .all(|rest| rest.starts_with(|c: char| ('1'..='9').contains(&c))),
        Some(_) => !text.contains('$'),
    };
    if bare.is_empty() && path.is_none() || !known(bare) {
        return None;
    }
    let keeps_query = path.unwrap_or(keeps_query);
    match (path, section.text("path")) {
        (None, _) => Some((bare.to_owned(), keeps_query)),
        (Some(_), Some(own)) => Some((format!("{bare}{}", own.replace('*', "$1")), keeps_query)),
        (Some(_), None) => None,
    }
}

/// States where the samples of a redirecting rule lead: the group of a prefix, or those of a pattern, are inserted.
fn expect_redirect(directive: &ParsedDirective, section: &Section, site: &mut ImportedSite) {
    let target = section.text("redirect").unwrap_or_default();
    let status = match section.get("redirect_status") {
        Some(Value::Verbatim(status)) => status.parse().unwrap_or(301),
        _ => 301,
    };
    let pattern = section
        .text("pattern")
        .and_then(|text| regex::Regex::new(text).ok());
    let prefix = section
        .text("path")
        .map(|path| path.trim_end_matches('*').to_owned());
    for sample in evidence::targets(section) {
        let location = match (&pattern, &prefix) {
            (Some(pattern), _) => pattern.captures(&sample).map(|groups| {
                let mut location = target.to_owned();
                for number in 1..10 {
                    let group = groups.get(number).map_or("", |group| group.as_str());
                    location = location.replace(&format!("${number}"), group);
                }
                location
            }),
            (None, Some(prefix)) => sample
                .strip_prefix(prefix.as_str())
                .map(|rest| target.replace("$1", rest)),
            (None, None) => None,
        };
        // A redirect to the same address would be a loop at the other server.
        let Some(location) = location.filter(|location| *location != sample) else {
            continue;
        };
        site.expected.push(Expectation {
            id: directive.id,
            target: sample,
            answer: Answer::Redirected(status, location),
        });
    }
}

/// Converts `rewrite PATTERN URL FLAG` of a server: redirects only, because Galley rewrites no paths.
pub(super) fn rewritten(
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    let (pattern, target) = (directive.argument(0), directive.argument(1));
    let flag = directive.argument(2);
    let redirects = matches!(flag, "permanent" | "redirect") || target.contains("://");
    let (bare, keeps_query) = match target.strip_suffix('?') {
        Some(bare) => (bare, false),
        None => (target, true),
    };
    let groups = bare
        .split('$')
        .skip(1)
        .all(|rest| rest.starts_with(|c: char| ('1'..='9').contains(&c)));
    let pattern =
        known::pattern(pattern, false).filter(|_| redirects && groups && !bare.contains('?'));
    let Some(pattern) = pattern else {
        return context.not_carried(directive, NO_REWRITES);
    };
    let status = if flag == "permanent" { "301" } else { "302" };
    // nginx evaluates it before it chooses a location.
    let mut rule = closed::rule_for("pattern", pattern, directive, RulePriority::Exact);
    let section = &mut rule.section;
    section.set("redirect", bare, &directive.origin);
    section.set(
        "redirect_status",
        Value::Verbatim(status.to_owned()),
        &directive.origin,
    );
    if !keeps_query {
        section.set("redirect_query", false, &directive.origin);
    }
    expect_redirect(directive, section, site);
    site.add_rule(rule);
    context.carried(directive, "redirect");
}

const NO_SERVER: &str = "set `upstream`: the target depends on the request, or is a unix socket";

const REPLACES_PATH: &str = "Galley forwards paths as they are: have the server behind it take the whole path, and write a rule with `upstream`";

const NO_REWRITES: &str =
    "write a rule with `pattern` and `redirect`; Galley rewrites no paths for itself";
