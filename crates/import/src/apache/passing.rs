//! Converts `ProxyPass`, handlers of PHP-FPM, and `Redirect`.

use super::context::{HostContext, RedirectsAll};
use crate::closed;
use crate::directive::ParsedDirective;
use crate::draft::{ImportedSite, RuleDraft, RulePriority, Section};
use crate::known::{self, NO_LOOK_AROUND};
use crate::report::StatementOutcome;
use crate::units;

/// Converts `ProxyPass`: `ProxyPass / http://127.0.0.1:8080/` sets the site's upstream; other paths become rules.
pub(super) fn proxy(
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut HostContext<'_>,
) {
    let (path, target) = (directive.argument(0), directive.argument(1));
    if directive.name() == "proxypassmatch" {
        return proxy_match(directive, site, context);
    }
    let Some((server, below)) = http_server(target).filter(|_| path.starts_with('/')) else {
        return context.not_carried(directive, ONLY_HTTP);
    };
    // The target replaces the path: only the same one changes nothing.
    if below != path && !(path == "/" && below.is_empty()) {
        return context.not_carried(directive, "Galley forwards paths as they are: have the server behind it take the whole path, and write a rule with `upstream`");
    }
    if path == "/" {
        return directive.adds("upstream", [server], &mut site.section, context.report);
    }
    let mut section = Section::default();
    section.set("path", format!("{path}*"), &directive.origin);
    section.add("upstream", [server], &directive.origin);
    site.add_rule(RuleDraft::of_prefix(section, path.len()));
    context.carried(directive, "a rule with upstream");
}

fn proxy_match(
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut HostContext<'_>,
) {
    let (path, target) = (directive.argument(0), directive.argument(1));
    if OF_PHP.contains(&path) && target.contains("fcgi://") {
        return fastcgi(directive, target, site, context);
    }
    context.not_carried(directive, "write a rule with `pattern` and `upstream`");
}

/// Patterns of all scripts.
const OF_PHP: &[&str] = &[
    "^/(.*\\.php)$",
    "^/(.*\\.php(/.*)?)$",
    "^(.*\\.php)$",
    "^/(.+\\.php(/.*)?)$",
];

/// Why a redirect by the scheme that a proxy names is not carried.
pub(super) const BEHIND_PROXY: &str = "name the proxies in `server.trusted_proxies`, then set `https_redirect = true`: without them Galley would \
     redirect every visitor in a loop";

const ONLY_HTTP: &str = "set `upstream`: Galley connects to http:// and https:// servers";

/// The server of a target, and the path on it.
fn http_server(target: &str) -> Option<(String, String)> {
    let (scheme, rest) = target.split_once("://")?;
    if !matches!(scheme, "http" | "https") {
        return None;
    }
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let port = if scheme == "https" { 443 } else { 80 };
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let server = if has_port {
        host.to_owned()
    } else {
        format!("{host}:{port}")
    };
    let is_plain = !host.is_empty() && !rest.contains(['$', '%', '|']);
    is_plain.then(|| (format!("{scheme}://{server}"), path.to_owned()))
}

/// Converts `proxy:unix:/run/php.sock|fcgi://localhost` and `fcgi://127.0.0.1:9000/...`.
fn fastcgi(
    directive: &ParsedDirective,
    target: &str,
    site: &mut ImportedSite,
    context: &mut HostContext<'_>,
) {
    let target = target.trim_start_matches("proxy:");
    let server = match target.split_once('|') {
        Some((socket, _)) => units::fastcgi(socket),
        None => target
            .split_once("fcgi://")
            .and_then(|(_, rest)| units::fastcgi(rest.split('/').next().unwrap_or_default())),
    };
    match server {
        Some(server) => {
            directive.sets("php", server, &mut site.section, context.report);
        }
        None => context.not_carried(directive, "set `php` to the socket of PHP-FPM"),
    }
}

pub(super) fn handler(
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut HostContext<'_>,
) {
    let target = directive.argument(0).to_owned();
    fastcgi(directive, &target, site, context);
}

/// Converts `Redirect permanent / https://example.com/`, `Redirect 301 /old /new`, `RedirectMatch 301 ^/a(.*)$ /b$1`.
pub(super) fn redirect(
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut HostContext<'_>,
) {
    let (status, words) = status_and_words(directive);
    let is_match = directive.name() == "redirectmatch";
    let is_redirect = matches!(status, "301" | "302" | "303" | "307" | "308");
    let outcome = match words.as_slice() {
        [from] if known::is_error_status(status) => {
            let rule = paths(directive, from, is_match);
            match rule {
                Some(rule) => closed::close(directive, rule, status, site),
                None => return closed::undecided(directive, NO_LOOK_AROUND, context.report),
            }
        }
        ["/", to]
            if is_redirect
                && to.contains("://")
                && to.ends_with('/')
                && !is_match
                && !to.contains(['%', '$']) =>
        {
            context.redirects_all = Some(RedirectsAll {
                id: directive.id,
                target: (*to).to_owned(),
                status: status.to_owned(),
            });
            StatementOutcome::Carried(
                "https_redirect, canonical_host or a rule with redirect".to_owned(),
            )
        }
        [from, to] if is_redirect && !to.contains('%') && *from != "/" => {
            let Some(mut rule) = paths(directive, from, is_match) else {
                return context.not_carried(directive, NO_LOOK_AROUND);
            };
            let rest = if is_match { "" } else { "$1" };
            rule.section
                .redirects(format!("{to}{rest}"), status, true, &directive.origin);
            site.add_rule(rule);
            StatementOutcome::Carried("a rule".to_owned())
        }
        _ => StatementOutcome::NotCarried("write a rule with `redirect`".to_owned()),
    };
    context.report.record(directive.id, outcome);
}

/// The status of a redirect, and the words after it.
fn status_and_words(directive: &ParsedDirective) -> (&str, Vec<&str>) {
    let words: Vec<&str> = directive.arguments().iter().map(String::as_str).collect();
    let (status, rest) = match (directive.name(), words.as_slice()) {
        ("redirectpermanent", words) => ("301", words),
        ("redirecttemp", words) => ("302", words),
        (_, ["permanent", rest @ ..]) => ("301", rest),
        (_, ["temp", rest @ ..]) => ("302", rest),
        (_, ["seeother", rest @ ..]) => ("303", rest),
        (_, ["gone", rest @ ..]) => ("410", rest),
        (_, [status, rest @ ..]) if status.parse::<u16>().is_ok() => (*status, rest),
        (_, words) => ("302", words),
    };
    (status, rest.to_vec())
}

/// A rule for a path and those below it, whose rest is its first group, or for a pattern. `None` if Galley does not support the
/// pattern.
fn paths(directive: &ParsedDirective, from: &str, is_match: bool) -> Option<RuleDraft> {
    let pattern = match (is_match, from.ends_with('/')) {
        (true, _) => known::pattern(from, false)?,
        (false, true) => format!("^{}(.*)$", known::glob(from)),
        (false, false) => format!("^{}(/.*)?$", known::glob(from)),
    };
    Some(closed::rule_for(
        "pattern",
        pattern,
        directive,
        RulePriority::Exact,
    ))
}
