//! Caddyfile: sites with `php_fastcgi` or `reverse_proxy`.

mod site;

use std::collections::HashMap;
use std::path::Path;

use crate::draft::{Draft, ImportedSite, Section};
use crate::ledger::Ledger;
use crate::source::Source;
use crate::tree::{self, Grammar, ParsedDirective};
use site::Converter;

/// Converts a Caddyfile. A file without braces is one site, named by its first line.
pub(crate) fn convert(source: &dyn Source, main: &Path, ledger: &mut Ledger) -> Draft {
    let all = tree::read(source, main, Grammar::Caddy, ledger);
    let mut draft = Draft::default();
    let snippets = snippets(&all);
    for (index, directive) in all.iter().enumerate() {
        if directive.name().starts_with('(') {
            let why = "the snippet is converted where it is imported";
            ledger.not_needed(directive.id, why);
        } else if directive.name() == "{" {
            global(directive, &mut draft, ledger);
        } else if directive.block.is_some() {
            add(directive, directive.inner(), &snippets, &mut draft, ledger);
        } else if index == 0 {
            let rest = all.get(1..).unwrap_or_default();
            add(directive, rest, &snippets, &mut draft, ledger);
            break;
        }
    }
    if draft.sites.iter().any(|site| site.section.has("tls")) {
        listen_for_tls(&mut draft.server);
    }
    draft
}

/// Caddy redirects every site to TLS and obtains its certificate.
fn listen_for_tls(server: &mut Section) {
    for (name, address) in [("listen", "0.0.0.0:80"), ("listen_tls", "0.0.0.0:443")] {
        server.add(name, [address.to_owned()], None);
    }
}

/// By their names.
fn snippets(all: &[ParsedDirective]) -> HashMap<&str, &ParsedDirective> {
    all.iter()
        .filter(|one| one.name().starts_with('(') && one.block.is_some())
        .map(|one| (one.name().trim_matches(['(', ')']), one))
        .collect()
}

/// The options before the sites.
fn global(directive: &ParsedDirective, draft: &mut Draft, ledger: &mut Ledger) {
    let why = "the options of the block are converted one by one";
    ledger.not_needed(directive.id, why);
    for inner in directive.inner() {
        let (origin, value) = (&inner.origin, inner.argument(0));
        match inner.name() {
            "email" => {
                draft.acme.set("email", value, origin);
                ledger.carried(inner.id, "acme.email");
            }
            "acme_ca" => {
                draft.acme.set("directory", value, origin);
                ledger.carried(inner.id, "acme.directory");
            }
            "admin" | "debug" | "order" | "grace_period" | "storage" | "persist_config"
            | "servers" | "log" => {
                inner.not_needed("Galley does this by itself, or has a safe default", ledger);
            }
            _ => {}
        }
    }
}

fn add(
    head: &ParsedDirective,
    block: &[ParsedDirective],
    snippets: &HashMap<&str, &ParsedDirective>,
    draft: &mut Draft,
    ledger: &mut Ledger,
) {
    let mut site = ImportedSite::default();
    let mut plain = false;
    for word in &head.words {
        let name = word.trim_end_matches(',');
        let without_scheme = name.split_once("://").map_or(name, |(_, rest)| rest);
        let host = without_scheme.split(['/', ':']).next().unwrap_or_default();
        plain |= name.starts_with("http://")
            || name.ends_with(":80")
            || host.is_empty()
            || host == "localhost";
        let host = if host.is_empty() { "*" } else { host };
        site.section
            .add("hosts", [host.to_ascii_lowercase()], &head.origin);
        if let Some(port) = without_scheme
            .rsplit_once(':')
            .and_then(|(_, port)| port.parse::<u16>().ok())
        {
            draft
                .server
                .add("listen", [format!("0.0.0.0:{port}")], &head.origin);
        }
    }
    ledger.carried(head.id, "hosts");
    if !plain {
        site.section.set("tls", "auto", &head.origin);
    }
    let mut converter = Converter {
        snippets,
        ledger,
        matchers: HashMap::new(),
        level: 0,
        imports_left: site::MOST_IMPORTS,
    };
    converter.block(block, &mut site);
    site.sort_rules();
    draft.sites.push(site);
}
