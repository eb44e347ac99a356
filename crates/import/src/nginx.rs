//! nginx: converts `http`, servers and locations with the usual statements of WordPress sites.
//!
//! A server becomes a site. Servers that only redirect become `https_redirect` or `canonical_host` of the site to which they
//! redirect. Locations become rules in the order in which nginx compares them: exact, `^~`, patterns, then prefixes with the
//! longest first.

mod answer;
mod check;
mod common;
mod condition;
mod context;
mod fields;
mod inner;
mod location;
mod location_paths;
mod parameters;
mod passing;
#[cfg(test)]
mod planted;
mod server;
mod table;
mod variables;
mod whole_site;

pub(crate) use common::hsts;

use std::path::Path;

use crate::directive::ParsedDirective;
use crate::draft::{Draft, ImportedSite, RuleDraft, RulePriority, Section, Value};
use crate::evidence;
use crate::report::{Report, StatementOutcome};
use crate::source::Source;
use crate::tree::{self, Grammar};
use answer::NginxServer;
use context::{Context, ExpiryOfType};
use server::{Server, ServerRedirect};

/// Converts the configuration with the main file `main`. A file with only the statements of a server counts as one server.
pub(crate) fn convert(source: &dyn Source, main: &Path, report: &mut Report) -> Draft {
    convert_with(source, main, report, |draft| draft)
}

/// As [`convert`], with a last step of the translation: tests make it wrong there.
fn convert_with(
    source: &dyn Source,
    main: &Path,
    report: &mut Report,
    finish: impl FnOnce(Draft) -> Draft,
) -> Draft {
    let all = tree::read(source, main, Grammar::Nginx, report);
    let mut context = Context::new(source, report);
    context.find_variables(&all, false);
    let (mut inherited, mut servers) = (Vec::new(), Vec::new());
    collect(&all, &mut context, &mut inherited, &mut servers);
    if servers.is_empty() && !inherited.is_empty() {
        servers.push(std::mem::take(&mut inherited));
    }
    let converted: Vec<Server> = servers
        .iter()
        .map(|block| {
            let own: Vec<ParsedDirective> = block.iter().map(|one| (*one).clone()).collect();
            server::convert(&own, &inherited, &mut context)
        })
        .collect();
    let draft = finish(draft(converted, &mut context));
    check_all(servers, &inherited, &draft, &mut context);
    draft
}

/// Compares the answers of nginx with those of the draft.
fn check_all(
    servers: Vec<Vec<&ParsedDirective>>,
    inherited: &[&ParsedDirective],
    draft: &Draft,
    context: &mut Context<'_>,
) {
    let mut pruned = draft.clone();
    evidence::prune(&mut pruned);
    for block in servers {
        if !server::refuses_hosts(block.iter().copied()) {
            check::check(&NginxServer::new(block, inherited), &pruned, context);
        }
    }
}

/// Separates definitions, statements that every server inherits, and servers.
fn collect<'a>(
    all: &'a [ParsedDirective],
    context: &mut Context<'_>,
    inherited: &mut Vec<&'a ParsedDirective>,
    servers: &mut Vec<Vec<&'a ParsedDirective>>,
) {
    for directive in all {
        match directive.name() {
            "http" => {
                context.not_needed(directive, BLOCK);
                collect(directive.inner(), context, inherited, servers);
            }
            "server" if directive.block.is_some() => {
                if server::refuses_hosts(directive.inner()) {
                    context.not_needed(directive, server::NO_SUCH_HOST);
                } else {
                    context.carried(directive, "a site");
                }
                servers.push(directive.inner().iter().collect());
            }
            name if is_outside(name) => record_outside(directive, context),
            _ if context.define(directive) => {}
            _ => inherited.push(directive),
        }
    }
}

const BLOCK: &str = "the statements in the block are converted one by one";

/// Whether a statement is about the process or other protocols, including its block.
fn is_outside(name: &str) -> bool {
    matches!(name, "events" | "stream" | "mail" | "types")
}

fn record_outside(directive: &ParsedDirective, context: &mut Context<'_>) {
    match table::outcome_of(directive.name()) {
        Some(StatementOutcome::NotCarried(remedy)) => context.not_carried(directive, remedy),
        Some(StatementOutcome::NotNeeded(why)) => context.not_needed(directive, why),
        Some(StatementOutcome::Carried(_)) | None => {}
    }
    for inner in directive.inner() {
        if directive.name() == "types" {
            context.not_needed(inner, "Galley knows media types");
        } else if is_outside(directive.name()) && directive.name() != "events" {
            context.not_carried(inner, "Galley serves HTTP only: keep nginx for this");
        } else {
            record_outside(inner, context);
        }
    }
}

/// Joins servers to sites, and collects global options.
fn draft(servers: Vec<Server>, context: &mut Context<'_>) -> Draft {
    let mut draft = Draft::default();
    let mut redirects = Vec::new();
    for server in servers {
        add_options(&server, &mut draft.server);
        match server.redirect {
            None if server.is_refusal => {}
            Some(_) => redirects.push(server),
            None => add_site(server.site, &mut draft),
        }
    }
    for server in redirects {
        add_redirect(server, &mut draft, context.report);
    }
    finish(&mut draft, context);
    draft
}

/// Adds the listeners of a server, and its global options.
fn add_options(server: &Server, global: &mut Section) {
    let (plain, tls) = (&server.listen, &server.listen_tls);
    for (name, all) in [("listen", plain), ("listen_tls", tls)] {
        if !all.is_empty() {
            global.add(name, all.clone(), None);
        }
    }
    for setting in &server.options.settings {
        let (name, origin) = (&setting.name, setting.origins.first());
        match &setting.value {
            Value::List(list) => global.add(name, list.clone(), origin),
            value => global.set(name, value.clone(), origin),
        }
    }
}

/// Adds a site, or joins it with one of the same hosts: nginx has a separate server for each port.
fn add_site(site: ImportedSite, draft: &mut Draft) {
    let is_same = |other: &&mut ImportedSite| other.hosts() == site.hosts();
    let mut known = draft.sites.iter_mut();
    let Some(other) = known.find(is_same).filter(|_| !site.hosts().is_empty()) else {
        return draft.sites.push(site);
    };
    for (known, new) in [
        (&mut other.section, site.section),
        (&mut other.ttl, site.ttl),
    ] {
        for one in new.settings {
            known.set(&one.name, one.value, one.origins.first());
        }
    }
    for rule in site.rules {
        let exists = other.rules.iter().any(|known| {
            known.section.get("path") == rule.section.get("path")
                && known.section.get("pattern") == rule.section.get("pattern")
        });
        if !exists {
            other.rules.push(rule);
        }
    }
}

fn add_redirect(server: Server, draft: &mut Draft, report: &mut Report) {
    let Some(redirect) = &server.redirect else {
        return;
    };
    let hosts = server.site.hosts().to_vec();
    let others = hosts.iter().filter(|host| **host != redirect.host);
    let others: Vec<String> = others.cloned().collect();
    // The target is the host of the request, or the server's only host.
    let is_same_host = redirect.host.contains('$') || others.is_empty();
    let wanted = if is_same_host {
        hosts.as_slice()
    } else {
        std::slice::from_ref(&redirect.host)
    };
    let is_target = |site: &&mut ImportedSite| {
        let mut known = site.hosts().iter();
        known.any(|host| wanted.contains(host) || host == "*") || hosts == ["*"]
    };
    let is_plain = !server.listen.is_empty() && server.listen_tls.is_empty();
    let Some(site) = draft.sites.iter_mut().find(is_target) else {
        if redirect.host.contains('$')
            || redirect.is_own_scheme
            || !redirect.keeps_path && redirect.path.contains('$')
        {
            return report.not_carried(redirect.id, condition::BEHIND_PROXY);
        }
        draft.sites.push(redirecting_site(redirect, server.site));
        return;
    };
    let origin = &redirect.origin;
    let keeps_scheme =
        redirect.is_own_scheme || redirect.is_https && (is_plain || server.listen.is_empty());
    if !redirect.is_permanent || !redirect.keeps_path || !keeps_scheme {
        return report.not_carried(redirect.id, "set `https_redirect` or `canonical_host`, if a permanent redirect with the whole path is meant");
    }
    if redirect.is_https && is_plain {
        site.section.set("https_redirect", true, origin);
    }
    if !is_same_host {
        let host = redirect.host.clone();
        site.section.set("canonical_host", host, origin);
        site.section.add("hosts", others, None);
    }
}

/// A site that redirects everything to another server.
fn redirecting_site(redirect: &ServerRedirect, mut site: ImportedSite) -> ImportedSite {
    let origin = &redirect.origin;
    let scheme = if redirect.is_https { "https" } else { "http" };
    let path = if redirect.keeps_path {
        "/$1"
    } else {
        redirect.path.as_str()
    };
    let target = format!("{scheme}://{}{path}", redirect.host);
    let mut section = Section::default();
    section.set("path", "/*", origin);
    section.redirects(target, &redirect.status, redirect.keeps_path, origin);
    site.add_rule(RuleDraft::of_prefix(section, 1));
    site.never_asks_upstream(origin);
    site
}

/// Adds options that depend on several servers, and those that Galley requires.
fn finish(draft: &mut Draft, context: &Context<'_>) {
    if !draft.server.has("listen") {
        // For challenges of certificate authorities and redirects to TLS.
        draft.server.add("listen", ["0.0.0.0:80".to_owned()], None);
    }
    if let Some(cache) = &context.cache {
        let origin = &cache.origin;
        draft.cache.set("disk", "/var/cache/galley", origin);
        if let Some(size) = &cache.size {
            draft.cache.set("disk_size", size.clone(), origin);
        }
        if let Some(inactive) = &cache.inactive {
            draft.cache.set("inactive", inactive.clone(), origin);
        }
    }
    for site in &mut draft.sites {
        finish_site(site, context);
    }
}

fn finish_site(site: &mut ImportedSite, context: &Context<'_>) {
    if site.hosts().is_empty() {
        site.section.add("hosts", ["*".to_owned()], None);
    }
    for part in ["cert", "key"] {
        site.section.remove(part);
    }
    for (cookie, origin) in &context.bypass_cookies {
        site.section.add("bypass_cookies", [cookie.clone()], origin);
    }
    if site.section.has("root") {
        for of_type in &context.expires {
            site.add_rule(expiry_rule(of_type));
        }
    }
    if site.section.has("php") && site.section.has("upstream") {
        // The site runs PHP; everything else that is passed on belongs to `/`.
        site.section.remove("upstream");
    }
    if !site.section.has("root") {
        // PHP needs the path of the script: Galley would refuse such a rule.
        site.rules
            .iter_mut()
            .for_each(|rule| rule.section.remove("php"));
    }
    site.sort_rules();
    // The whole server is compared with the draft.
    site.expected.clear();
}

fn expiry_rule(of_type: &ExpiryOfType) -> RuleDraft {
    let origin = &of_type.origin;
    let mut section = Section::default();
    section.set("pattern", of_type.pattern.to_owned(), origin);
    let field = format!("Cache-Control: max-age={}", of_type.seconds);
    section.add("set_headers", [field], origin);
    RuleDraft::new(section, RulePriority::Condition)
}
