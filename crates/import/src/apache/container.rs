//! `<Files>`, `<Directory>` and `<Location>`, and who may enter.

use super::context::{HostContext, settle};
use super::headers::{Reach, header};
use super::passing::handler;
use crate::draft::{ImportedSite, RuleDraft, RulePriority, Section, Value};
use crate::known;
use crate::ledger::Ledger;
use crate::tree::ParsedDirective;

/// `<Files>`, `<Directory>` and `<Location>`: rules for paths, or the site as a whole. The directives that are those of the site.
pub(super) fn container<'d>(
    directive: &'d ParsedDirective,
    site: &mut ImportedSite,
    context: &mut HostContext<'_>,
) -> &'d [ParsedDirective] {
    let name = directive.name();
    let (is_pattern, path) = match directive.arguments() {
        [tilde, path, ..] if tilde == "~" => (true, path.as_str()),
        [path, ..] => (name.ends_with("match"), path.as_str()),
        [] => (false, ""),
    };
    if settled(directive, path, site, context) {
        return &[];
    }
    let Some(mut rule) = container_rule(name, is_pattern, path, directive, site) else {
        let why = "the section is the site's root: its directives are those of the site";
        context.ledger.not_needed(directive.id, why);
        return directive.inner();
    };
    access(directive.inner(), &mut rule.section, context.ledger);
    for inner in directive.inner() {
        match inner.name() {
            "require" | "allow" | "deny" | "authtype" | "authuserfile" => {}
            "header" => header(inner, &mut rule.section, Reach::Paths, context.ledger),
            _ => settle(inner, context.ledger),
        }
    }
    if rule.section.settings.len() > 1 {
        context.ledger.carried(directive.id, "a rule");
    } else {
        context
            .ledger
            .not_needed(directive.id, "nothing in it differs from the site");
    }
    site.add_rule(rule);
    &[]
}

/// Converts a section that is no rule: names that Galley never sends, XML-RPC, handlers. False: it is none of these.
fn settled(
    directive: &ParsedDirective,
    path: &str,
    site: &mut ImportedSite,
    context: &mut HostContext<'_>,
) -> bool {
    let refuses = directive.inner().iter().any(is_refusal);
    if refuses && known::is_private_name(path) {
        for inner in std::iter::once(directive).chain(directive.inner()) {
            context
                .ledger
                .not_needed(inner.id, "Galley never sends such files");
        }
        return true;
    }
    if path.contains("xmlrpc") && refuses {
        site.section.set(
            "xmlrpc",
            Value::Text("off".to_owned()),
            Some(&directive.origin),
        );
        for inner in std::iter::once(directive).chain(directive.inner()) {
            context.ledger.carried(inner.id, "xmlrpc");
        }
        return true;
    }
    let mut handlers = directive
        .inner()
        .iter()
        .filter(|inner| inner.name() == "sethandler");
    match handlers.next() {
        Some(of_php) if of_php.argument(0).starts_with("proxy:") => {
            context.ledger.carried(directive.id, "php");
            for inner in directive
                .inner()
                .iter()
                .filter(|inner| inner.id != of_php.id)
            {
                settle(inner, context.ledger);
            }
            handler(of_php, site, context);
            return true;
        }
        Some(other) if other.argument(0).starts_with("server-") => {
            for inner in std::iter::once(directive).chain(directive.inner()) {
                let why = "`galley status` and `GET /metrics` of the admin interface replace it";
                context.ledger.not_needed(inner.id, why);
            }
            return true;
        }
        _ => {}
    }
    false
}

/// An empty rule for the paths of a section. `None`: they are all of the site's.
fn container_rule(
    name: &str,
    is_pattern: bool,
    path: &str,
    directive: &ParsedDirective,
    site: &ImportedSite,
) -> Option<RuleDraft> {
    let origin = Some(&directive.origin);
    let root = match site.section.get("root") {
        Some(Value::Text(root)) => root.as_str(),
        _ => "",
    };
    let path = match name {
        "<directory" | "<directorymatch" => path
            .trim_end_matches('/')
            .strip_prefix(root)
            .unwrap_or(path),
        _ => path,
    };
    if path.is_empty() || path == "/" {
        return None;
    }
    let mut section = Section::default();
    let is_file = name.starts_with("<files");
    let (priority, length) = if is_pattern {
        section.set("pattern", Value::Text(known::pattern(path, false)?), origin);
        (RulePriority::Pattern, 0)
    } else if is_file {
        let escaped: String = path
            .chars()
            .flat_map(|c| match c {
                '*' => ['.', '*'].to_vec(),
                c if c.is_ascii_alphanumeric() || c == '-' || c == '_' => vec![c],
                c => vec!['\\', c],
            })
            .collect();
        section.set("pattern", Value::Text(format!("/{escaped}$")), origin);
        (RulePriority::Pattern, 0)
    } else {
        section.set("path", Value::Text(format!("{path}*")), origin);
        (RulePriority::Prefix, path.len())
    };
    Some(RuleDraft {
        section,
        priority,
        length,
    })
}

fn is_refusal(directive: &ParsedDirective) -> bool {
    match directive.name() {
        "require" => directive.arguments() == ["all", "denied"],
        "deny" => directive.arguments() == ["from", "all"],
        _ => false,
    }
}

/// Who may enter: `Require`, the older `Allow` and `Deny`, and passwords.
pub(super) fn access(block: &[ParsedDirective], section: &mut Section, ledger: &mut Ledger) {
    let everyone = || ["0.0.0.0/0".to_owned(), "::/0".to_owned()];
    let allows_some = block.iter().any(|inner| {
        matches!(inner.name(), "allow" | "require")
            && inner.arguments().iter().any(|word| is_network(word))
    });
    for inner in block {
        let origin = Some(&inner.origin);
        let networks = inner
            .arguments()
            .iter()
            .filter(|word| is_network(word))
            .cloned();
        match inner.name() {
            "require"
                if inner.arguments().first().is_some_and(|word| word == "ip")
                    || inner.name() == "allow" =>
            {
                section.add("allow", networks, origin);
                ledger.carried(inner.id, "allow");
            }
            "require"
                if inner
                    .arguments()
                    .first()
                    .is_some_and(|word| matches!(word.as_str(), "valid-user" | "user")) =>
            {
                ledger.carried(inner.id, "basic_auth");
            }
            "require" if inner.arguments() == ["all", "granted"] => {
                ledger.not_needed(inner.id, "every client may");
            }
            "allow" if inner.arguments() == ["from", "all"] => {
                ledger.not_needed(inner.id, "every client may");
            }
            "allow" if networks.clone().next().is_some() => {
                section.add("allow", networks, origin);
                ledger.carried(inner.id, "allow");
            }
            "deny" if inner.arguments() == ["from", "all"] && allows_some => {
                ledger.carried(inner.id, "allow");
            }
            _ if is_refusal(inner) => {
                section.add("deny", everyone(), origin);
                ledger.carried(inner.id, "deny");
            }
            "deny" if networks.clone().next().is_some() => {
                section.add("deny", networks, origin);
                ledger.carried(inner.id, "deny");
            }
            "authtype" if inner.argument(0).eq_ignore_ascii_case("basic") => {
                ledger.carried(inner.id, "basic_auth");
            }
            "authuserfile" => {
                section.set(
                    "basic_auth",
                    Value::Text(inner.argument(0).to_owned()),
                    origin,
                );
                ledger.carried(inner.id, "basic_auth");
            }
            "require" | "allow" | "deny" | "authtype" => {
                ledger.not_carried(inner.id, "set `allow`, `deny` or `basic_auth`");
            }
            _ => {}
        }
    }
}

fn is_network(text: &str) -> bool {
    let (address, bits) = text.split_once('/').unwrap_or((text, "0"));
    address.parse::<std::net::IpAddr>().is_ok() && bits.parse::<u8>().is_ok()
}
