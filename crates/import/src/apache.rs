//! Apache: converts `VirtualHost`s and `.htaccess` files with the usual directives of WordPress sites.
//!
//! A virtual host becomes a site. If PHP runs inside Apache (mod_php), the site gets a managed PHP-FPM; if the virtual host
//! is a proxy, the site gets the upstream server. The `.htaccess` of a document root belongs to its site. At the end each host is
//! compared with the draft ([`check`]).

mod access;
mod check;
mod headers;
mod parts;
mod passing;
#[cfg(test)]
mod planted;
mod reader;
mod rewrite;
mod rewrite_flags;
mod rewrite_rules;
mod site;

use std::path::Path;

use crate::directive::Directive;
use crate::draft::{Draft, ImportedSite};
use crate::evidence;
use crate::host_redirect::HostRedirect;
use crate::places::{self, PlacedServer};
use crate::report::Report;
use crate::requests::flat;
use crate::source::Source;
use access::is_access;
use check::{ComparedFiles, HostRole};
use parts::{ApacheHost, PartKind, flatten, record_outcome};
pub use reader::apache_directives;
pub(crate) use reader::read as read_directives;

/// Converts the configuration with the main file `main`. A `.htaccess` becomes one site for every host.
pub(crate) fn convert(source: &dyn Source, main: &Path, report: &mut Report) -> Draft {
    convert_with(source, main, report, |draft| draft)
}

/// As [`convert`], with a last step of the translation: tests make it wrong there.
fn convert_with(
    source: &dyn Source,
    main: &Path,
    report: &mut Report,
    change: impl FnOnce(Draft) -> Draft,
) -> Draft {
    let all = reader::read(source, main, report);
    let mut draft = Draft::default();
    let (mut global, mut virtual_hosts) = (Vec::new(), Vec::new());
    for one in flatten(all.iter()) {
        match one.name() {
            "<virtualhost" => virtual_hosts.push(one),
            "<ifmodule" | "<ifdefine" | "<ifversion" if is_for_workers(one) => {
                one.not_needed(WORKERS);
            }
            _ => global.push(one),
        }
    }
    let preserves_host = passing::preserves_host(&global).unwrap_or(false);
    let mut blocks = kept(virtual_hosts);
    if blocks.is_empty() && !global.is_empty() {
        blocks.push((None, global));
    } else {
        let inner = blocks.iter().flat_map(|(_, block)| block);
        let roots = inner.filter(|one| one.name() == "documentroot");
        let roots: Vec<&str> = roots.map(|one| one.argument(0)).collect();
        let sections = flat(all.iter());
        for directive in &global {
            global_directive(directive, &roots, &sections, &mut draft);
        }
    }
    let files = ApacheFiles { source, all: &all };
    let is_htaccess = main.file_name().is_some_and(|name| name == ".htaccess");
    let folder = main.parent().filter(|_| is_htaccess);
    let folder = folder.map(|folder| folder.display().to_string());
    let root_of = |block: &[&Directive]| ApacheHost::new(block, folder.clone()).root;
    let htaccess: Vec<Vec<Directive>> = blocks
        .iter()
        .map(|(_, block)| match root_of(block) {
            Some(root) if !is_htaccess => files.htaccess(&root, report),
            _ => Vec::new(),
        })
        .collect();
    let (mut hosts, mut redirects) = (Vec::new(), Vec::new());
    for ((section, block), htaccess) in blocks.iter().zip(&htaccess) {
        let mut host = ApacheHost::new(block, folder.clone());
        let kind = if is_htaccess {
            PartKind::Htaccess
        } else {
            PartKind::Host
        };
        host.add(kind, block);
        let htaccess: Vec<&Directive> = htaccess.iter().collect();
        host.add(PartKind::Htaccess, &htaccess);
        host.preserves_host = passing::preserves_host(host.own()).unwrap_or(preserves_host);
        let (role, redirect) = add_host(&host, *section, &mut draft);
        redirects.extend(redirect.map(|(site, to)| (site, to, role.schemes.clone())));
        hosts.push((host, role));
    }
    // Hosts that redirect change the site to which they lead.
    for (site, redirect, schemes) in redirects {
        draft.redirect_host(site, &redirect, &schemes);
    }
    finish(&mut draft);
    let draft = change(draft);
    let mut pruned = draft.clone();
    evidence::prune(&mut pruned);
    let compared = ComparedFiles {
        source,
        directives: flat(all.iter().chain(htaccess.iter().flatten())),
    };
    draft.report_lost(&compared.directives);
    for (host, role) in &hosts {
        check::check(host, role, &compared, &pruned);
    }
    draft
}

/// The virtual hosts that become sites, and their directives.
fn kept(hosts: Vec<&Directive>) -> Vec<(Option<&Directive>, Vec<&Directive>)> {
    let left = places::left_out(hosts.iter().copied().filter_map(placed).collect());
    let is_left = |host: &&Directive| left.iter().any(|one| std::ptr::eq(*one, *host));
    let kept = hosts.into_iter().filter(|host| !is_left(host));
    kept.map(|host| (Some(host), host.inner().iter().collect()))
        .collect()
}

/// A virtual host that serves something. `None`: it redirects every request.
fn placed(host: &Directive) -> Option<PlacedServer<'_>> {
    let named = host.inner().iter();
    let named = named.filter(|one| matches!(one.name(), "servername" | "serveralias"));
    let mut hosts: Vec<String> = named.flat_map(site::host_names).collect();
    if hosts.is_empty() {
        hosts.push("*".to_owned());
    }
    let block: Vec<&Directive> = host.inner().iter().collect();
    let redirects = block.iter().any(|one| {
        let has_all = one.arguments().iter().any(|path| path == "/");
        one.name().starts_with("redirect") && has_all
    });
    let redirects = redirects || rewrite_rules::redirects_host(&block);
    let ports = host.arguments().iter();
    let listeners: Vec<_> = ports
        .filter_map(|one| crate::units::listener(one, 80))
        .collect();
    (!redirects).then(|| PlacedServer {
        head: host,
        hosts,
        places: places::places(listeners.iter()),
    })
}

/// The files of a configuration, and its directives.
struct ApacheFiles<'a> {
    source: &'a dyn Source,
    all: &'a [Directive],
}

impl ApacheFiles<'_> {
    /// The directives of the `.htaccess` of a folder, if Apache reads it.
    fn htaccess(&self, folder: &str, report: &mut Report) -> Vec<Directive> {
        let path = Path::new(folder).join(".htaccess");
        if self.source.text(&path).is_none() || !self.reads_htaccess(folder) {
            return Vec::new();
        }
        reader::read(self.source, &path, report)
    }

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
fn overrides<'d>(block: &'d [Directive], folder: &str, found: &mut Vec<(usize, &'d str)>) {
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

const WORKERS: &str = "Galley has one thread per core, and sizes PHP by the memory of the machine";

fn is_for_workers(directive: &Directive) -> bool {
    let module = directive.argument(0).trim_start_matches('!');
    module.starts_with("mpm_") || ["prefork.c", "worker.c", "event.c"].contains(&module)
}

/// Converts a directive outside of virtual hosts.
fn global_directive(
    directive: &Directive,
    draft_roots: &[&str],
    sections: &[&Directive],
    draft: &mut Draft,
) {
    let last = directive.arguments().last().map_or("", String::as_str);
    match directive.name() {
        "<files" | "<filesmatch" if last == "^\\.ht" || last == ".ht*" => {
            directive.not_needed("Galley never sends hidden files");
        }
        "<directory" => global_directory(directive, draft_roots, sections),
        name if is_access(directive)
            || matches!(
                name,
                "<location" | "<locationmatch" | "<if" | "<files" | "<filesmatch"
            ) =>
        {
            directive.undecided(OF_ALL_SITES);
        }
        name if name.starts_with('<') => parts::unknown(directive, OF_ALL_SITES),
        "errorlog" => {
            let path = last.replace("${APACHE_LOG_DIR}", "/var/log/apache2");
            draft.log.set("error", path, &directive.origin);
            directive.entry.carried("log.error");
        }
        _ => record_outcome(directive),
    }
}

const OF_ALL_SITES: &str = "it is about all sites: write it into each of them";

/// Reports a folder outside of virtual hosts. Galley sends no file outside the roots of its sites.
fn global_directory(directive: &Directive, roots: &[&str], sections: &[&Directive]) {
    let path = directive.argument(0).trim_end_matches('/');
    let is_near = |root: &&str| {
        let root = root.trim_end_matches('/');
        root == path
            || root.starts_with(&format!("{path}/"))
            || path.starts_with(&format!("{root}/"))
    };
    if !roots.iter().any(is_near) {
        return directive.not_needed("no site has its files there");
    }
    directive.entry.not_carried(
        "its directives are for all sites below: write those that restrict access into the sites",
    );
    // A folder above the roots is never sent, and every site is open here: its own folder must say so in Apache, too.
    let opens = |root: &&str| {
        sections.iter().any(|one| {
            let own = one.argument(0).trim_end_matches('/');
            let is_around =
                root.trim_end_matches('/') == own || root.starts_with(&format!("{own}/"));
            let is_nearer = own.len() > path.len() && is_around;
            one.name() == "<directory" && is_nearer && one.inner().iter().any(is_access)
        })
    };
    let is_above = roots.iter().filter(|root| is_near(root)).all(opens);
    for inner in flatten(directive.inner().iter()) {
        let grants = inner.arguments() == ["all", "granted"]
            || inner.arguments() == ["from", "all"] && inner.name() == "allow"
            || inner.name() == "order";
        let denies = access::denies_all(&[inner]) && is_above;
        if is_access(inner) && (grants || denies) {
            inner.entry.not_needed("Galley sends only files below the root of a site, to every client unless the site says otherwise");
        } else if is_access(inner) {
            inner.undecided("it is about all sites below the folder: write it into each of them");
        } else if inner.name().starts_with('<') {
            parts::unknown(inner, OF_ALL_SITES);
        } else {
            record_outcome(inner);
        }
    }
}

/// Adds the site of a host. Returns the requests that the host answers, and its site if it redirects all of them.
fn add_host(
    host: &ApacheHost<'_>,
    section: Option<&Directive>,
    draft: &mut Draft,
) -> (HostRole, Option<(ImportedSite, HostRedirect)>) {
    let mut site = ImportedSite::default();
    if let Some(root) = &host.root {
        site.section.set("root", root.as_str(), None);
    }
    let redirects_all = site::convert(host, &mut site);
    let is_tls = host.own().iter().any(|one| site::turns_tls_on(one));
    let role = HostRole {
        schemes: if section.is_some() {
            vec![is_tls]
        } else {
            vec![false, true]
        },
        names: site.hosts().to_vec(),
    };
    if let Some(section) = section {
        section.entry.carried("a site");
        listeners(section, is_tls, draft, &mut site);
    }
    match redirects_all {
        Some(redirect) => return (role, Some((site, redirect))),
        // Galley sends 421 for hosts of no site.
        None if denies_all(&site) => {}
        None => draft.add(site),
    }
    (role, None)
}

/// Adds the addresses of a virtual host.
fn listeners(host: &Directive, is_tls: bool, draft: &mut Draft, site: &mut ImportedSite) {
    let port = if is_tls { 443 } else { 80 };
    let option = if is_tls { "listen_tls" } else { "listen" };
    for address in host.arguments() {
        if let Some(listener) = crate::units::listener(address, port) {
            let all = [&mut draft.server, &mut site.listeners];
            for section in all {
                section.add(option, [listener.clone()], &host.origin);
            }
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

/// Adds options that every site must have.
fn finish(draft: &mut Draft) {
    draft.set_listeners();
    for site in &mut draft.sites {
        if site.hosts().is_empty() {
            site.section.add("hosts", ["*".to_owned()], None);
        }
        if site.section.has("root") && !site.section.has("php") && !site.section.has("upstream") {
            let origin = site.section.origins("root").first().cloned();
            site.section.set("php", "managed", origin.as_ref());
        }
        site.sort_rules();
        // The whole host is compared with the draft.
        site.expected.clear();
    }
}
