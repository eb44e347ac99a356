//! Converts `ProxyPass`, handlers of PHP-FPM, and `Redirect`.

use super::context::HostContext;
use crate::draft::{ImportedSite, RuleDraft, RulePriority, Section};
use crate::known;
use crate::tree::ParsedDirective;
use crate::units;

/// Converts `ProxyPass`: `ProxyPass / http://127.0.0.1:8080/` sets the site's upstream; other paths become rules.
pub(super) fn proxy(
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut HostContext<'_>,
) {
    let (path, target) = (directive.argument(0), directive.argument(1));
    if target == "!" || target.is_empty() {
        return context.not_needed(directive, "Galley sends a file that exists itself");
    }
    if path.contains("php") && target.contains("fcgi://") {
        return fastcgi(directive, target, site, context);
    }
    let Some(server) = http_server(target) else {
        return context.not_carried(directive, ONLY_HTTP);
    };
    if path == "/" || path == "^/(.*)$" {
        return directive.adds("upstream", [server], &mut site.section, context.report);
    }
    let mut section = Section::default();
    section.set("path", format!("{path}*"), &directive.origin);
    section.add("upstream", [server], &directive.origin);
    site.add_rule(RuleDraft::of_prefix(section, path.len()));
    context.carried(directive, "a rule with upstream");
}

const ONLY_HTTP: &str = "set `upstream`: Galley connects to http:// and https:// servers";

fn http_server(target: &str) -> Option<String> {
    let (scheme, rest) = target.split_once("://")?;
    if !matches!(scheme, "http" | "https") {
        return None;
    }
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let port = if scheme == "https" { 443 } else { 80 };
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let server = if has_port {
        host.to_owned()
    } else {
        format!("{host}:{port}")
    };
    (!host.is_empty() && (path.is_empty() || path.starts_with('$')))
        .then(|| format!("{scheme}://{server}"))
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
    let mut words = directive.arguments();
    let status = match (directive.name(), words.first().map(String::as_str)) {
        ("redirectpermanent", _) | (_, Some("permanent" | "301" | "308")) => "301",
        (_, Some("gone" | "410" | "403" | "404")) => "",
        _ => "302",
    };
    if words.len() > 2 || status.is_empty() {
        words = words.get(1..).unwrap_or_default();
    }
    let word = |place: usize| words.get(place).map_or("", String::as_str);
    let (from, to) = (word(0), word(1));
    if from == "/" && to.contains("://") {
        context.redirects_all = Some(to.to_owned());
        return context.carried(directive, "https_redirect or canonical_host");
    }
    let Some(mut section) = redirected_paths(directive, from) else {
        let why = "Galley's patterns have no look-around and no back references";
        return context.not_carried(directive, why);
    };
    let origin = &directive.origin;
    if status.is_empty() {
        section.deny_all(origin);
    } else {
        section.set("redirect", to, origin);
        section.set_status(status, origin);
    }
    site.add_rule(RuleDraft::new(section, RulePriority::Exact));
    context.carried(directive, "a rule");
}

/// A section of a rule with the paths of a redirect. `None` if Galley does not support the pattern.
fn redirected_paths(directive: &ParsedDirective, from: &str) -> Option<Section> {
    let mut section = Section::default();
    if directive.name() == "redirectmatch" {
        section.set("pattern", known::pattern(from, false)?, &directive.origin);
    } else {
        section.set("path", from, &directive.origin);
    }
    Some(section)
}
