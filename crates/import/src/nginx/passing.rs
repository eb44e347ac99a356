//! Converts `proxy_pass`, `fastcgi_pass`, `return` and `rewrite`, and the lifetimes of responses.

use crate::closed;
use crate::directive::Directive;
use crate::draft::{ImportedSite, RulePriority, Section, Value};
use crate::evidence;
use crate::known;
use crate::nginx::context::Context;
use crate::units;

/// Converts `proxy_pass` and `fastcgi_pass` of the paths that begin with `prefix`. False for other statements.
pub(super) fn pass(
    directive: &Directive,
    prefix: Option<&str>,
    section: &mut Section,
    context: &mut Context<'_>,
) -> bool {
    let target = directive.argument(0);
    match directive.name() {
        "proxy_pass" => proxy_pass(directive, prefix, section, context),
        "fastcgi_pass" => match context.fastcgi_servers(target) {
            Some(Value::List(all)) if all.is_empty() => directive.not_carried(NO_SERVER),
            Some(servers) => directive.sets("php", servers, section),
            None => directive.not_carried("set `php`: the target depends on the request"),
        },
        _ => return false,
    }
    true
}

fn proxy_pass(
    directive: &Directive,
    prefix: Option<&str>,
    section: &mut Section,
    context: &mut Context<'_>,
) {
    let target = directive.argument(0);
    let rest = target.split_once("://").map_or("", |(_, rest)| rest);
    let path = rest.find('/').and_then(|at| rest.get(at..));
    let servers = context.http_servers(target);
    // With a path, nginx replaces the prefix of the location by it.
    let is_same = path.is_none() || path == prefix || path == Some("$request_uri");
    match (is_same, servers.is_empty()) {
        (false, _) => directive.not_carried(REPLACES_PATH),
        (true, true) => directive.not_carried(NO_SERVER),
        (true, false) => directive.sets("upstream", Value::List(servers), section),
    }
    if !context.server.sends_host {
        directive.not_carried(OTHER_HOST);
    }
}

/// Whether statements of one level send a host to HTTP servers, by a statement that has a label of its own. `None`: those of the level
/// around it apply.
pub(super) fn sends_host<'d>(block: impl IntoIterator<Item = &'d Directive>) -> Option<bool> {
    let directives = block.into_iter();
    let mut fields = directives
        .filter(|one| one.name() == "proxy_set_header")
        .peekable();
    fields.peek()?;
    Some(fields.any(|one| one.argument(0).eq_ignore_ascii_case("host")))
}

/// Converts `fastcgi_cache_valid 200 301 60m` to lifetimes by status. False for other statements.
pub(super) fn cache_time(directive: &Directive, ttl: &mut Section) -> bool {
    if !directive.name().ends_with("_cache_valid") {
        return false;
    }
    let Some((time, statuses)) = directive.arguments().split_last() else {
        return true;
    };
    let Some(time) = units::duration(time) else {
        directive.not_carried("set lifetimes in `[site.ttl]`");
        return true;
    };
    let statuses: Vec<&str> = match statuses {
        [] => vec!["200", "301", "302"],
        statuses => statuses.iter().map(String::as_str).collect(),
    };
    for option in statuses.into_iter().filter_map(lifetime_option) {
        ttl.set(&option, time.clone(), &directive.origin);
    }
    directive.carried("site.ttl");
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

/// Converts `return 301 URL` in a location with the rule `section`.
pub(super) fn returned(directive: &Directive, section: &mut Section) {
    let (status, target) = match directive.arguments() {
        [url] if url.contains("://") => ("302", url.as_str()),
        [status, target] => (status.as_str(), target.as_str()),
        _ => ("", ""),
    };
    let redirects = matches!(status, "301" | "302" | "303" | "307" | "308");
    let target = redirect_target(target, section)
        .filter(|(target, _)| redirects && evidence::takes_target(section, target));
    match target {
        Some((target, keeps_query)) => {
            section.redirects(target, status, keeps_query, &directive.origin);
            directive.carried("redirect");
        }
        None => directive.not_carried(NO_REDIRECT),
    }
}

const NO_REDIRECT: &str = "write a rule with `redirect`, or send the response from PHP";

/// Whether the only variables of a target are groups of a pattern.
fn has_only_groups(target: &str) -> bool {
    let mut rests = target.split('$').skip(1);
    rests.all(|rest| rest.starts_with(|c: char| ('1'..='9').contains(&c)))
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
    let is_known = match section.text("path") {
        None => has_only_groups(bare),
        Some(_) => !bare.contains('$'),
    };
    if bare.is_empty() && path.is_none() || !is_known {
        return None;
    }
    let keeps_query = path.unwrap_or(keeps_query);
    match (path, section.text("path")) {
        (None, _) => Some((bare.to_owned(), keeps_query)),
        (Some(_), Some(own)) => Some((format!("{bare}{}", own.replace('*', "$1")), keeps_query)),
        (Some(_), None) => None,
    }
}

/// Converts `rewrite PATTERN URL FLAG` of a server: redirects only, because Galley rewrites no paths.
pub(super) fn rewritten(directive: &Directive, site: &mut ImportedSite) {
    let (pattern, target) = (directive.argument(0), directive.argument(1));
    let flag = directive.argument(2);
    let redirects = matches!(flag, "permanent" | "redirect") || target.contains("://");
    let (bare, keeps_query) = match target.strip_suffix('?') {
        Some(bare) => (bare, false),
        None => (target, true),
    };
    let is_target = redirects && has_only_groups(bare) && !bare.contains('?');
    let Some(pattern) = known::pattern(pattern, false).filter(|_| is_target) else {
        return directive.not_carried(NO_REWRITES);
    };
    let status = if flag == "permanent" { "301" } else { "302" };
    // nginx evaluates it before it chooses a location.
    let mut rule = closed::rule_for("pattern", pattern, directive, RulePriority::Exact);
    if !evidence::takes_target(&rule.section, bare) {
        return directive.not_carried(NO_REWRITES);
    }
    rule.section
        .redirects(bare.to_owned(), status, keeps_query, &directive.origin);
    site.add_rule(rule);
    directive.carried("redirect");
}

const OTHER_HOST: &str = "as `upstream`, but that server gets the host of the visitor, and from nginx the name in `proxy_pass`: have it answer to the hosts of \
     the site";

const NO_SERVER: &str = "set `upstream`: the target depends on the request, or is a unix socket";

const REPLACES_PATH: &str = "Galley forwards paths as they are: have the server behind it take the whole path, and write a rule with `upstream`";

const NO_REWRITES: &str =
    "write a rule with `pattern` and `redirect`; Galley rewrites no paths for itself";
