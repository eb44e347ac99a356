//! Caddy: converts Caddyfiles with `php_fastcgi` or `reverse_proxy`.

mod address;
mod field;
mod matcher;
mod site;

use std::collections::HashMap;
use std::path::Path;

use crate::directive::ParsedDirective;
use crate::draft::{Draft, ImportedSite, Section};
use crate::report::Report;
use crate::source::Source;
use crate::tree::{self, Grammar};
pub(crate) use address::SiteAddress;
use site::Converter;

/// Converts a Caddyfile. A file without braces is one site, whose addresses are its first line.
pub(crate) fn convert(source: &dyn Source, main: &Path, report: &mut Report) -> Draft {
    let all = tree::read(source, main, Grammar::Caddy, report);
    let mut draft = Draft::default();
    let snippets = snippets(&all);
    for (index, directive) in all.iter().enumerate() {
        if directive.name().starts_with('(') {
            let why = "the snippet is converted where it is imported";
            report.not_needed(directive.id, why);
        } else if directive.name() == "{" {
            global(directive, &mut draft, report);
        } else if directive.block.is_some() {
            add(directive, directive.inner(), &snippets, &mut draft, report);
        } else if index == 0 {
            let rest = all.get(1..).unwrap_or_default();
            add(directive, rest, &snippets, &mut draft, report);
            break;
        }
    }
    draft
}

/// The snippets by name.
fn snippets(all: &[ParsedDirective]) -> HashMap<&str, &ParsedDirective> {
    all.iter()
        .filter(|one| one.name().starts_with('(') && one.block.is_some())
        .map(|one| (one.name().trim_matches(['(', ')']), one))
        .collect()
}

/// Converts the global options.
fn global(directive: &ParsedDirective, draft: &mut Draft, report: &mut Report) {
    let why = "the options of the block are converted one by one";
    report.not_needed(directive.id, why);
    for inner in directive.inner() {
        let (origin, value) = (&inner.origin, inner.argument(0));
        match inner.name() {
            "email" => {
                draft.acme.set("email", value, origin);
                report.carried(inner.id, "acme.email");
            }
            "acme_ca" => {
                draft.acme.set("directory", value, origin);
                report.carried(inner.id, "acme.directory");
            }
            "admin" | "debug" | "order" | "grace_period" | "persist_config" | "frankenphp" => {
                inner.not_needed("it is about the process of Caddy", report);
            }
            _ => inner.not_carried("look for an option in docs/reference/options.md", report),
        }
    }
}

fn add(
    head: &ParsedDirective,
    block: &[ParsedDirective],
    snippets: &HashMap<&str, &ParsedDirective>,
    draft: &mut Draft,
    report: &mut Report,
) {
    let mut site = ImportedSite::default();
    let mut is_plain = false;
    let mut lost = false;
    for word in &head.words {
        let word = word.trim_end_matches(',');
        let address = SiteAddress::of(word);
        if word.contains(['{', '$']) || !matches!(address.path, "" | "/") {
            // The name is not known, so the site has one that no request has.
            lost = true;
            site.section
                .add("hosts", ["host.invalid".to_owned()], &head.origin);
            continue;
        }
        let host = if address.host.is_empty() {
            "*"
        } else {
            address.host
        };
        let hosts = [host.to_ascii_lowercase()];
        site.section.add("hosts", hosts, &head.origin);
        is_plain |= address.is_plain();
        listen(&address, head, &mut draft.server);
    }
    if lost {
        report.not_carried(
            head.id,
            "set `hosts`: the address depends on the environment, or has a path",
        );
    } else {
        report.carried(head.id, "hosts");
    }
    if !is_plain && !lost {
        site.section.set("tls", "auto", &head.origin);
    }
    let mut converter = Converter {
        snippets,
        report,
        matchers: HashMap::new(),
        has_blocks: false,
        level: 0,
        imports_left: site::MAX_IMPORTS,
    };
    converter.block(block, &mut site);
    if let Some(origin) = site.redirects_all.take() {
        site.never_asks_upstream(&origin);
    }
    site.sort_rules();
    draft.sites.push(site);
}

/// Adds the listeners of an address. Caddy obtains the certificate of a site with TLS, and redirects visitors from port 80.
fn listen(address: &SiteAddress<'_>, head: &ParsedDirective, server: &mut Section) {
    let port = address.port.map(|port| format!("0.0.0.0:{port}"));
    let origin = port.is_some().then_some(&head.origin);
    let standard = |port: u16| format!("0.0.0.0:{port}");
    if address.is_plain() {
        let place = port.unwrap_or_else(|| standard(80));
        return server.add("listen", [place], origin);
    }
    server.add("listen", [standard(80)], None);
    server.add(
        "listen_tls",
        [port.unwrap_or_else(|| standard(443))],
        origin,
    );
}
