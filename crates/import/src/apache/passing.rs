//! `ProxyPass`, handlers of PHP-FPM, and `Redirect`.

use super::context::HostContext;
use crate::draft::{ImportedSite, RuleDraft, RulePriority, Section, Value};
use crate::known;
use crate::tree::ParsedDirective;
use crate::units;

/// `ProxyPass / http://127.0.0.1:8080/` is the site's server; other paths are rules.
pub(super) fn proxy(
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut HostContext<'_>,
) {
    let (path, target) = (directive.argument(0), directive.argument(1));
    if target == "!" || target.is_empty() {
        context
            .ledger
            .not_needed(directive.id, "Galley sends a file that exists itself");
        return;
    }
    if path.contains("php") && target.contains("fcgi://") {
        fastcgi(directive, target, site, context);
        return;
    }
    let Some(server) = http_server(target) else {
        context.ledger.not_carried(
            directive.id,
            "set `upstream`: Galley connects to http:// and https:// servers",
        );
        return;
    };
    if path == "/" || path == "^/(.*)$" {
        site.section
            .add("upstream", [server], Some(&directive.origin));
        context.ledger.carried(directive.id, "upstream");
        return;
    }
    let mut section = Section::default();
    section.set(
        "path",
        Value::Text(format!("{path}*")),
        Some(&directive.origin),
    );
    section.add("upstream", [server], Some(&directive.origin));
    site.add_rule(RuleDraft {
        section,
        priority: RulePriority::Prefix,
        length: path.len(),
    });
    context.ledger.carried(directive.id, "a rule with upstream");
}

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

/// `proxy:unix:/run/php.sock|fcgi://localhost` and `fcgi://127.0.0.1:9000/...`.
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
            site.section
                .set("php", Value::Text(server), Some(&directive.origin));
            context.ledger.carried(directive.id, "php");
        }
        None => context
            .ledger
            .not_carried(directive.id, "set `php` to the socket of PHP-FPM"),
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

/// `Redirect permanent / https://example.com/`, `Redirect 301 /old /new`, `RedirectMatch 301 ^/a(.*)$ /b$1`.
pub(super) fn redirect(
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut HostContext<'_>,
) {
    let mut words = directive.arguments().to_vec();
    let status = match (directive.name(), words.first().map(String::as_str)) {
        ("redirectpermanent", _) | (_, Some("permanent" | "301" | "308")) => "301",
        (_, Some("gone" | "410" | "403" | "404")) => "",
        _ => "302",
    };
    if words.len() > 2 || status.is_empty() {
        words.remove(0);
    }
    let origin = Some(&directive.origin);
    let (from, to) = (
        words.first().cloned().unwrap_or_default(),
        words.get(1).cloned().unwrap_or_default(),
    );
    if from == "/" && to.contains("://") {
        context.redirects_all = Some(to);
        context
            .ledger
            .carried(directive.id, "https_redirect or canonical_host");
        return;
    }
    let mut section = Section::default();
    if directive.name() == "redirectmatch" {
        let Some(pattern) = known::pattern(&from, false) else {
            context.ledger.not_carried(
                directive.id,
                "Galley's patterns have no look-around and no back references",
            );
            return;
        };
        section.set("pattern", Value::Text(pattern), origin);
    } else {
        section.set("path", Value::Text(from), origin);
    }
    if status.is_empty() {
        section.add("deny", ["0.0.0.0/0".to_owned(), "::/0".to_owned()], origin);
    } else {
        section.set("redirect", Value::Text(to), origin);
        if status != "301" {
            section.set(
                "redirect_status",
                Value::Verbatim(status.to_owned()),
                origin,
            );
        }
    }
    site.add_rule(RuleDraft {
        section,
        priority: RulePriority::Exact,
        length: 0,
    });
    context.ledger.carried(directive.id, "a rule");
}
