//! nginx: converts `http`, servers and locations with the usual statements of WordPress sites.
//!
//! A server becomes a site. Servers that only redirect become `https_redirect` or `canonical_host` of the site to which they
//! redirect. Locations become rules in the order in which nginx compares them: exact, `^~`, patterns, then prefixes with the
//! longest first.

mod answer;
mod check;
mod closing;
mod common;
mod condition;
mod context;
mod fields;
mod inner;
mod location;
mod location_paths;
mod passing;
#[cfg(test)]
mod planted;
mod server;
mod variables;

pub(crate) use common::hsts;

use std::path::Path;

use crate::directive::Directive;
use crate::draft::{Draft, ImportedSite};
use crate::evidence;
use crate::names::NGINX;
use crate::places;
use crate::report::Report;
use crate::requests::flat;
use crate::source::Source;
use crate::tree::{self, Grammar};
use context::Context;
use server::Server;

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
    let mut context = Context::new(source);
    context.find_variables(&all);
    let left = places::left_out(closing::serving(&all).filter_map(closing::placed).collect());
    let served = closing::serving(&all).filter(|one| !is_one_of(one, &left));
    let hosts = served.flat_map(|one| closing::hosts(one.inner()));
    context.served_hosts.extend(hosts);
    let (mut inherited, mut servers) = (Vec::new(), Vec::new());
    collect(&all, &left, &mut context, &mut inherited, &mut servers);
    if servers.is_empty() && !inherited.is_empty() {
        servers.push(std::mem::take(&mut inherited));
    }
    let converted: Vec<Server> = servers
        .iter()
        .map(|block| {
            let own: Vec<Directive> = block.iter().map(|one| (*one).clone()).collect();
            server::convert(&own, &inherited, &mut context)
        })
        .collect();
    let draft = finish(draft(converted, &mut context));
    check_all(servers, &inherited, &draft, &context);
    draft
}

/// Compares the answers of nginx with those of the draft.
fn check_all(
    servers: Vec<Vec<&Directive>>,
    inherited: &[&Directive],
    draft: &Draft,
    context: &Context<'_>,
) {
    draft.report_lost(&flat(servers.iter().flatten().copied()));
    let mut pruned = draft.clone();
    evidence::prune(&mut pruned);
    for block in servers {
        if !closing::refuses_hosts(&block, context) {
            check::check(block, inherited, &pruned, context);
        }
    }
}

fn is_one_of(directive: &Directive, all: &[&Directive]) -> bool {
    all.iter().any(|one| std::ptr::eq(*one, directive))
}

/// Separates definitions, statements that every server inherits, and servers. `left`: servers that become no site.
fn collect<'a>(
    all: &'a [Directive],
    left: &[&Directive],
    context: &mut Context<'_>,
    inherited: &mut Vec<&'a Directive>,
    servers: &mut Vec<Vec<&'a Directive>>,
) {
    for directive in all {
        match directive.name() {
            "http" => {
                directive.entry.not_needed(BLOCK);
                collect(directive.inner(), left, context, inherited, servers);
            }
            "server" if is_one_of(directive, left) => {}
            "server" if directive.block.is_some() => {
                let block: Vec<_> = directive.inner().iter().collect();
                if closing::refuses_hosts(&block, context) {
                    directive.entry.not_needed(closing::NO_SUCH_HOST);
                } else {
                    directive.entry.carried("a site");
                }
                servers.push(block);
            }
            name if is_outside(name) => record_outside(directive),
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

fn record_outside(directive: &Directive) {
    NGINX.record(directive);
    for inner in directive.inner() {
        match directive.name() {
            "types" => inner.not_carried("Galley sends the usual media types: set `Content-Type` with `set_headers` in a rule for others"),
            "stream" | "mail" => inner.not_carried("Galley serves HTTP only: keep nginx for this"),
            _ => record_outside(inner),
        }
    }
}

/// Joins servers to sites, and collects global options.
fn draft(servers: Vec<Server>, context: &mut Context<'_>) -> Draft {
    let mut draft = Draft::default();
    let mut redirects = Vec::new();
    // Proxies that only some servers trust would be trusted for all sites.
    let serving = servers
        .iter()
        .filter(|server| server.redirect.is_none() && !server.is_refusal);
    let mut trusted = serving.map(|server| server.options.list("trusted_proxies"));
    let first = trusted.next().unwrap_or_default();
    let is_same = trusted.all(|other| other == first);
    for server in servers {
        let options = server.global();
        let proxies = options.settings.iter().filter(|_| !is_same);
        draft
            .lost
            .extend(proxies.filter(|one| one.name == "trusted_proxies").cloned());
        draft.add_global(options);
        match server.redirect {
            None if server.is_refusal => {}
            Some(_) => redirects.push(server),
            None => draft.add(server.site),
        }
    }
    for server in redirects {
        let listeners = &server.site.listeners;
        let (plain, tls) = (listeners.has("listen"), listeners.has("listen_tls"));
        let schemes: &[bool] = match (plain, tls) {
            (true, true) => &[false, true],
            (_, tls) => &[tls],
        };
        if let Some(redirect) = &server.redirect {
            draft.redirect_host(server.site, redirect, schemes);
        }
    }
    finish(&mut draft, context);
    draft
}

/// Adds options that depend on several servers, and those that Galley requires.
fn finish(draft: &mut Draft, context: &Context<'_>) {
    draft.set_listeners();
    if !draft.server.has("listen") {
        // For challenges of certificate authorities and redirects to TLS.
        draft.server.add("listen", ["0.0.0.0:80".to_owned()], None);
    }
    draft.cache = context.cache.clone();
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
