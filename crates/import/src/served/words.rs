//! The parts of Varnish and Caddy configurations that visitors may notice: paths among the words of their statements.

use std::path::PathBuf;

use crate::caddy::SiteAddress;
use crate::directive::ParsedDirective;
use crate::served::paths::StatementPaths;
use crate::served::statement::{
    ServedConfiguration, ServedHost, ServedListener, StatementScope, StatementSubject,
};

/// Adds the conditions on paths of a VCL file. Varnish has one address for all hosts.
pub(super) fn read_vcl(all: &[ParsedDirective], found: &mut ServedConfiguration) {
    conditions(all, &mut found.statements);
    found.hosts.push(ServedHost {
        listeners: vec![ServedListener {
            key: "80".to_owned(),
            is_tls: false,
        }],
        ..ServedHost::default()
    });
}

fn conditions(block: &[ParsedDirective], found: &mut Vec<super::statement::ServedStatement>) {
    for directive in block {
        let words = directive.arguments();
        for at in words.windows(3) {
            let [variable, operator, pattern] = at else {
                continue;
            };
            if variable.ends_with("req.url") && operator == "~" {
                let scope = StatementScope::default().of(StatementPaths::pattern(pattern, false));
                found.push(scope.statement(directive, StatementSubject::Section));
            }
        }
        conditions(directive.inner(), found);
    }
}

/// Adds the sites of a Caddyfile, and statements whose first argument is a path.
pub(super) fn read_caddy(all: &[ParsedDirective], found: &mut ServedConfiguration) {
    let sites = all.iter().filter(|one| one.block.is_some());
    for site in sites.filter(|one| !one.name().starts_with(['{', '('])) {
        let mut host = ServedHost::default();
        for address in &site.words {
            caddy_address(address.trim_end_matches(','), &mut host);
        }
        let root = site.inner().iter().find(|one| one.name() == "root");
        host.root = root
            .and_then(|one| one.arguments().last())
            .map(PathBuf::from);
        let scope = StatementScope::of_host(&host);
        found.hosts.push(host);
        caddy_statements(site.inner(), &scope, found);
    }
}

fn caddy_address(word: &str, host: &mut ServedHost) {
    let address = SiteAddress::of(word);
    let name = address.host;
    if !name.is_empty() && !name.contains('*') && !host.names.iter().any(|known| known == name) {
        host.names.push(name.to_owned());
    }
    let is_tls =
        address.scheme != Some("http") && address.port != Some(80) && !address.is_without_name();
    let mut add = |port: u16, is_tls: bool| {
        let key = port.to_string();
        if !host.listeners.iter().any(|known| known.key == key) {
            host.listeners.push(ServedListener { key, is_tls });
        }
    };
    if is_tls {
        add(address.port.unwrap_or(443), true);
    }
    // Caddy redirects to TLS on this port.
    add(address.port.filter(|_| !is_tls).unwrap_or(80), false);
}

fn caddy_statements(
    block: &[ParsedDirective],
    scope: &StatementScope,
    found: &mut ServedConfiguration,
) {
    for directive in block {
        let path = directive
            .arguments()
            .iter()
            .find(|word| word.starts_with('/'));
        let own = path.filter(|_| directive.name() != "root").map(|path| {
            scope.of(match path.strip_suffix('*') {
                Some(start) => StatementPaths::Prefix(start.to_owned()),
                None => StatementPaths::Exact(path.clone()),
            })
        });
        let scope = own.as_ref().unwrap_or(scope);
        let subject = match directive.name() {
            "redir" | "rewrite" => StatementSubject::Redirect,
            "header" => {
                let mut words = directive.arguments().iter();
                let name = words
                    .find(|word| !word.starts_with(['/', '@', '*']))
                    .map_or("", String::as_str);
                StatementSubject::Field(
                    name.trim_start_matches(['+', '-', '>', '?'])
                        .to_ascii_lowercase(),
                )
            }
            "respond" | "error" | "basicauth" | "basic_auth" | "remote_ip" => {
                StatementSubject::Access(Vec::new())
            }
            _ => StatementSubject::Section,
        };
        if own.is_some() || !matches!(subject, StatementSubject::Section) {
            found.statements.push(scope.statement(directive, subject));
        }
        caddy_statements(directive.inner(), scope, found);
    }
}
