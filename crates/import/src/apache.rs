//! Apache: converts `VirtualHost`s and `.htaccess` files with the usual directives of WordPress sites.
//!
//! A virtual host becomes a site. If PHP runs inside Apache (mod_php), the site gets a managed PHP-FPM; if the virtual host
//! is a proxy, the site gets the upstream server. The `.htaccess` of a document root belongs to its site.

mod access;
mod container;
mod context;
mod headers;
mod passing;
mod reader;
mod rewrite;
mod site;
mod table;

use std::path::Path;

use crate::closed::{self, undecided};
use crate::directive::ParsedDirective;
use crate::draft::{Draft, ImportedSite, RulePriority, Value};
use crate::report::Report;
use crate::source::Source;
use access::is_access;
use context::{HostContext, RedirectsAll, record_outcome};
pub(crate) use reader::{read as read_directives, words as words_of_line};

/// Converts the configuration with the main file `main`. A `.htaccess` becomes one site for every host.
pub(crate) fn convert(source: &dyn Source, main: &Path, report: &mut Report) -> Draft {
    let all = reader::read(source, main, report);
    let mut draft = Draft::default();
    let mut global = Vec::new();
    let mut hosts = Vec::new();
    collect(&all, report, &mut global, &mut hosts);
    let files = ApacheFiles { source, all: &all };
    if hosts.is_empty() && !global.is_empty() {
        add(only_site(&files, main, &global, report), &mut draft);
        return finish(draft);
    }
    let inner = hosts.iter().flat_map(|host| host.inner());
    let roots = inner.filter(|one| one.name() == "documentroot");
    let roots: Vec<&str> = roots.map(|one| one.argument(0)).collect();
    for directive in &global {
        global_directive(directive, &roots, &mut draft, report);
    }
    // Hosts that redirect change the site to which they lead.
    let (redirecting, others): (Vec<_>, Vec<_>) =
        hosts.into_iter().partition(|host| redirects_root(host));
    for host in others.into_iter().chain(redirecting) {
        virtual_host(&files, host, &mut draft, report);
    }
    finish(draft)
}

/// The files of a configuration, and its directives.
struct ApacheFiles<'a> {
    source: &'a dyn Source,
    all: &'a [ParsedDirective],
}

impl ApacheFiles<'_> {
    /// Whether Apache reads the `.htaccess` of a folder: the `AllowOverride` of the longest path decides. Without any it is in a file that
    /// was not read.
    fn reads_htaccess(&self, folder: &str) -> bool {
        let mut found = Vec::new();
        overrides(self.all, folder, &mut found);
        let last = found.into_iter().max_by_key(|(length, _)| *length);
        last.is_none_or(|(_, value)| !value.eq_ignore_ascii_case("none"))
    }
}

/// The values of `AllowOverride` for a folder, with the lengths of their paths.
fn overrides<'d>(block: &'d [ParsedDirective], folder: &str, found: &mut Vec<(usize, &'d str)>) {
    for directive in block {
        let path = directive.argument(0).trim_end_matches('/');
        let is_around =
            folder.trim_end_matches('/') == path || folder.starts_with(&format!("{path}/"));
        match directive.name() {
            "<directory" if is_around => {
                let own = directive
                    .inner()
                    .iter()
                    .filter(|one| one.name() == "allowoverride");
                found.extend(own.map(|one| (path.len(), one.argument(0))));
            }
            "<virtualhost" | "<ifmodule" | "<ifdefine" | "<ifversion" => {
                overrides(directive.inner(), folder, found);
            }
            _ => {}
        }
    }
}

/// Whether a virtual host has nothing but redirects.
fn redirects_root(host: &ParsedDirective) -> bool {
    !host.has("documentroot") && !host.has("proxypass")
}

/// The site of a file without virtual hosts.
fn only_site(
    files: &ApacheFiles<'_>,
    main: &Path,
    directives: &[&ParsedDirective],
    report: &mut Report,
) -> ImportedSite {
    let mut context = HostContext::new(report);
    let mut site = ImportedSite::default();
    context.is_htaccess = main.file_name().is_some_and(|name| name == ".htaccess");
    for directive in directives {
        site::convert(directive, &mut site, &mut context);
    }
    context.finish_access(&mut site.section);
    if main.file_name().is_some_and(|name| name == ".htaccess") {
        let root = main.parent().unwrap_or(Path::new("/"));
        site.section.set("root", root.display().to_string(), None);
    } else {
        htaccess(files, &mut site, report);
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
            "<ifmodule" | "<ifversion" if site::module_is_there(directive) == Some(true) => {
                let why = "the module is there: its directives are converted one by one";
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
fn global_directive(
    directive: &ParsedDirective,
    draft_roots: &[&str],
    draft: &mut Draft,
    report: &mut Report,
) {
    let last = directive.arguments().last().map_or("", String::as_str);
    match directive.name() {
        "<directory" => global_directory(directive, draft_roots, report),
        name if is_access(directive)
            || matches!(
                name,
                "sslverifyclient" | "<location" | "<locationmatch" | "<if"
            ) =>
        {
            undecided(
                directive,
                "it is about all sites: write it into each of them",
                report,
            );
        }
        "errorlog" => {
            let path = last.replace("${APACHE_LOG_DIR}", "/var/log/apache2");
            draft.log.set("error", path, &directive.origin);
            report.carried(directive.id, "log.error");
        }
        "<files" | "<filesmatch" if last == "^\\.ht" || last == ".ht*" => {
            directive.not_needed("Galley never sends hidden files", report);
        }
        "<files" | "<filesmatch" if access::denies_all(directive.inner()) => {
            undecided(
                directive,
                "it is about all sites: write it into each of them",
                report,
            );
        }
        _ => record_outcome(directive, report),
    }
}

/// Reports a folder outside of virtual hosts. Galley sends no file outside the roots of its sites.
fn global_directory(directive: &ParsedDirective, roots: &[&str], report: &mut Report) {
    let path = directive.argument(0).trim_end_matches('/');
    let is_near = |root: &&str| {
        let root = root.trim_end_matches('/');
        root == path
            || root.starts_with(&format!("{path}/"))
            || path.starts_with(&format!("{root}/"))
    };
    if !roots.iter().any(is_near) {
        return directive.not_needed("no site has its files there", report);
    }
    report.not_carried(
        directive.id,
        "its directives are for all sites below: write those that restrict access into the sites",
    );
    // Every site is open unless it says otherwise, and a folder above the roots is never sent.
    let is_above = !roots
        .iter()
        .any(|root| path.starts_with(&format!("{}/", root.trim_end_matches('/'))));
    for inner in directive.inner() {
        let grants = inner.arguments() == ["all", "granted"]
            || inner.arguments() == ["from", "all"] && inner.name() == "allow"
            || inner.name() == "order";
        let denies = access::denies_all(std::slice::from_ref(inner)) && is_above;
        if is_access(inner) && (grants || denies) {
            report.not_needed(inner.id, "Galley sends only files below the root of a site, to every client unless the site says otherwise");
        } else if is_access(inner) {
            undecided(
                inner,
                "it is about all sites below the folder: write it into each of them",
                report,
            );
        } else {
            record_outcome(inner, report);
        }
    }
}

fn virtual_host(
    files: &ApacheFiles<'_>,
    host: &ParsedDirective,
    draft: &mut Draft,
    report: &mut Report,
) {
    report.carried(host.id, "a site");
    let mut site = ImportedSite::default();
    let mut context = HostContext::new(report);
    // The meaning of a section depends on the root, wherever that is named.
    let (sections, others): (Vec<_>, Vec<_>) = host
        .inner()
        .iter()
        .partition(|one| one.name().starts_with('<'));
    context.has_tls = host.inner().iter().any(turns_tls_on);
    for directive in others.into_iter().chain(sections) {
        site::convert(directive, &mut site, &mut context);
    }
    context.finish_access(&mut site.section);
    let is_tls = context.has_tls;
    let redirects_all = context.redirects_all.take();
    listeners(host, is_tls, draft);
    htaccess(files, &mut site, report);
    match redirects_all {
        Some(target) => redirect_host(site, &target, host, draft, report),
        // Galley sends 421 for hosts of no site.
        None if denies_all(&site) => {}
        None => add(site, draft),
    }
}

fn turns_tls_on(directive: &ParsedDirective) -> bool {
    directive.name() == "sslengine" && directive.argument(0).eq_ignore_ascii_case("on")
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
fn htaccess(files: &ApacheFiles<'_>, site: &mut ImportedSite, report: &mut Report) {
    let Some(Value::Text(root)) = site.section.get("root").cloned() else {
        return;
    };
    let path = Path::new(&root).join(".htaccess");
    if files.source.text(&path).is_none() || !files.reads_htaccess(&root) {
        return;
    }
    let all = reader::read(files.source, &path, report);
    let mut flat = Vec::new();
    collect(&all, report, &mut flat, &mut Vec::new());
    let mut context = HostContext::new(report);
    context.is_htaccess = true;
    for directive in flat {
        site::convert(directive, site, &mut context);
    }
    context.finish_access(&mut site.section);
}

/// Converts a virtual host that redirects everything: to another scheme or host of a site, or by a rule.
fn redirect_host(
    site: ImportedSite,
    redirect: &RedirectsAll,
    host: &ParsedDirective,
    draft: &mut Draft,
    report: &mut Report,
) {
    let origin = &host.origin;
    let target = redirect.target.as_str();
    let rest = target.split_once("://").map_or(target, |(_, rest)| rest);
    let name = rest.trim_end_matches('/').to_owned();
    let hosts = site.hosts().to_vec();
    let is_own_host = name.contains('%');
    let others = hosts.iter().filter(|one| **one != name && !is_own_host);
    let others: Vec<String> = others.cloned().collect();
    let is_root = !name.contains('/');
    let known = draft.sites.iter_mut().find(|known| {
        let mut all = known.hosts().iter();
        all.any(|one| *one == name || hosts.contains(one))
    });
    let Some(known) = known else {
        if is_own_host {
            return report.not_carried(redirect.id, passing::BEHIND_PROXY);
        }
        let mut site = site;
        let mut rule = closed::rule_for("path", "/*".to_owned(), host, RulePriority::Prefix);
        rule.section
            .redirects(format!("{target}$1"), &redirect.status, true, origin);
        site.add_rule(rule);
        site.never_asks_upstream(origin);
        return draft.sites.push(site);
    };
    if !matches!(redirect.status.as_str(), "301" | "308")
        || !is_root
        || !target.starts_with("https://")
    {
        let remedy = "set `https_redirect` or `canonical_host`, if a permanent redirect with the whole path is meant";
        return report.not_carried(redirect.id, remedy);
    }
    known.section.set("https_redirect", true, Some(origin));
    if !others.is_empty() {
        known
            .section
            .set("canonical_host", name.clone(), Some(origin));
        known.section.add("hosts", [name], None);
        known.section.add("hosts", others, None);
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
