//! Apache: converts `VirtualHost`s and `.htaccess` files with the usual directives of WordPress sites.
//!
//! A virtual host becomes a site. If PHP runs inside Apache (mod_php), the site gets a managed PHP-FPM; if the virtual host
//! is a proxy, the site gets the upstream server. The `.htaccess` of a document root belongs to its site.

mod container;
mod context;
mod headers;
mod passing;
mod reader;
mod rewrite;
mod site;
mod table;

use std::path::Path;

use crate::draft::{Draft, ImportedSite, Value};
use crate::known;
use crate::report::Report;
use crate::source::Source;
use crate::tree::ParsedDirective;
use context::{HostContext, record_outcome};
pub(crate) use reader::{read as read_directives, words as words_of_line};

/// Converts the configuration with the main file `main`. A `.htaccess` becomes one site for every host.
pub(crate) fn convert(source: &dyn Source, main: &Path, report: &mut Report) -> Draft {
    let all = reader::read(source, main, report);
    let mut draft = Draft::default();
    let mut global = Vec::new();
    let mut hosts = Vec::new();
    collect(&all, report, &mut global, &mut hosts);
    if hosts.is_empty() && !global.is_empty() {
        add(only_site(source, main, &global, report), &mut draft);
        return finish(draft);
    }
    for directive in &global {
        global_directive(directive, &mut draft, report);
    }
    for host in hosts {
        virtual_host(source, host, &mut draft, report);
    }
    finish(draft)
}

/// The site of a file without virtual hosts.
fn only_site(
    source: &dyn Source,
    main: &Path,
    directives: &[&ParsedDirective],
    report: &mut Report,
) -> ImportedSite {
    let mut context = HostContext::new(report);
    let mut site = ImportedSite::default();
    for directive in directives {
        site::convert(directive, &mut site, &mut context);
    }
    if main.file_name().is_some_and(|name| name == ".htaccess") {
        let root = main.parent().unwrap_or(Path::new("/"));
        site.section.set("root", root.display().to_string(), None);
    } else {
        htaccess(source, &mut site, report);
    }
    site
}

/// Separates global directives and virtual hosts. Directives in conditions on modules count as if they were outside.
fn collect<'a>(
    all: &'a [ParsedDirective],
    report: &mut Report,
    global: &mut Vec<&'a ParsedDirective>,
    hosts: &mut Vec<&'a ParsedDirective>,
) {
    for directive in all {
        match directive.name() {
            "<virtualhost" => hosts.push(directive),
            "<ifmodule" | "<ifdefine" | "<ifversion" if is_for_workers(directive) => {
                report.not_needed(directive.id, table::WORKERS);
                for inner in directive.inner() {
                    report.not_needed(inner.id, table::WORKERS);
                }
            }
            "<ifmodule" | "<ifdefine" | "<ifversion" => {
                let why = "the directives in the section are converted one by one";
                report.not_needed(directive.id, why);
                collect(directive.inner(), report, global, hosts);
            }
            _ => global.push(directive),
        }
    }
}

fn is_for_workers(directive: &ParsedDirective) -> bool {
    let module = directive.argument(0).trim_start_matches('!');
    module.starts_with("mpm_") || ["prefork.c", "worker.c", "event.c"].contains(&module)
}

/// Converts a directive outside of virtual hosts.
fn global_directive(directive: &ParsedDirective, draft: &mut Draft, report: &mut Report) {
    let last = directive.arguments().last().map_or("", String::as_str);
    match directive.name() {
        "<directory" => {
            directive.not_needed("Galley sends only files below the root of a site", report);
        }
        "errorlog" => {
            let path = last.replace("${APACHE_LOG_DIR}", "/var/log/apache2");
            draft.log.set("error", path, &directive.origin);
            report.carried(directive.id, "log.error");
        }
        "<files" | "<filesmatch" if known::is_private_name(last) => {
            directive.not_needed("Galley never sends such files", report);
        }
        "timeout" | "keepalivetimeout" if draft.server.is_empty() => {
            let why = "Galley's time-outs protect against slow clients (`server.head_timeout`, `idle_timeout`)";
            report.not_needed(directive.id, why);
        }
        _ => record_outcome(directive, report),
    }
}

fn virtual_host(
    source: &dyn Source,
    host: &ParsedDirective,
    draft: &mut Draft,
    report: &mut Report,
) {
    report.carried(host.id, "a site");
    let mut site = ImportedSite::default();
    let mut context = HostContext::new(report);
    for directive in host.inner() {
        site::convert(directive, &mut site, &mut context);
    }
    let is_tls = context.has_tls;
    let redirects_all = context.redirects_all.take();
    listeners(host, is_tls, draft);
    htaccess(source, &mut site, report);
    match redirects_all {
        Some(target) => redirect_host(&site, &target, &host.origin, draft),
        // Galley sends 421 for hosts of no site.
        None if denies_all(&site) => {}
        None => add(site, draft),
    }
}

/// Adds the addresses of a virtual host.
fn listeners(host: &ParsedDirective, is_tls: bool, draft: &mut Draft) {
    let port = if is_tls { 443 } else { 80 };
    let option = if is_tls { "listen_tls" } else { "listen" };
    for address in host.arguments() {
        if let Some(listener) = crate::units::listener(address, port) {
            draft.server.add(option, [listener], &host.origin);
        }
    }
}

/// Whether a virtual host only denies requests for hosts that no other one has.
fn denies_all(site: &ImportedSite) -> bool {
    let has_content = ["root", "php", "upstream"]
        .iter()
        .any(|name| site.section.has(name));
    !has_content && site.rules.is_empty() && site.section.has("deny")
}

/// Converts the `.htaccess` in the root of a site.
fn htaccess(source: &dyn Source, site: &mut ImportedSite, report: &mut Report) {
    let Some(Value::Text(root)) = site.section.get("root").cloned() else {
        return;
    };
    let path = Path::new(&root).join(".htaccess");
    if source.text(&path).is_none() {
        return;
    }
    let all = reader::read(source, &path, report);
    let mut flat = Vec::new();
    collect(&all, report, &mut flat, &mut Vec::new());
    let mut context = HostContext::new(report);
    for directive in flat {
        site::convert(directive, site, &mut context);
    }
}

/// Converts a virtual host that redirects everything to `target`, a URL.
fn redirect_host(
    site: &ImportedSite,
    target: &str,
    origin: &crate::source::StatementOrigin,
    draft: &mut Draft,
) {
    let rest = target.split_once("://").map_or(target, |(_, rest)| rest);
    let host = rest
        .split(['/', '%', '$'])
        .next()
        .unwrap_or_default()
        .to_owned();
    let hosts = site.hosts().to_vec();
    let others: Vec<String> = hosts.iter().filter(|one| **one != host).cloned().collect();
    let known = draft.sites.iter_mut().find(|known| {
        known
            .hosts()
            .iter()
            .any(|one| *one == host || hosts.contains(one))
    });
    let mut new = ImportedSite::default();
    let site = if let Some(known) = known {
        known
    } else {
        new.section.add("hosts", hosts.clone(), Some(origin));
        &mut new
    };
    if target.starts_with("https://") {
        site.section.set("https_redirect", true, Some(origin));
    }
    if !host.is_empty() && !others.is_empty() {
        site.section
            .set("canonical_host", host.clone(), Some(origin));
        site.section.add("hosts", [host], None);
        site.section.add("hosts", others, None);
    }
    if !new.section.is_empty() {
        draft.sites.push(new);
    }
}

/// Adds a site, or joins it with a site that has one of its hosts: Apache has a separate virtual host for each port.
fn add(site: ImportedSite, draft: &mut Draft) {
    let one = Draft {
        sites: vec![site],
        ..Draft::default()
    };
    draft.join(one);
}

fn finish(mut draft: Draft) -> Draft {
    for site in &mut draft.sites {
        if site.hosts().is_empty() {
            site.section.add("hosts", ["*".to_owned()], None);
        }
        if site.section.has("root") && !site.section.has("php") && !site.section.has("upstream") {
            let origins = site
                .section
                .settings
                .iter()
                .find(|setting| setting.name == "root");
            let origin = origins.and_then(|setting| setting.origins.first()).cloned();
            site.section.set("php", "managed", origin.as_ref());
        }
        site.sort_rules();
    }
    draft
}
