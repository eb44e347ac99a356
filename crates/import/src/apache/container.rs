//! `<Files>`, `<Directory>` and `<Location>`, and their access control.

use super::context::{HostContext, record_outcome};
use super::headers::{HeaderScope, header};
use super::passing::handler;
use crate::draft::{ImportedSite, RuleDraft, RulePriority, Section};
use crate::known::{self, NO_LOOK_AROUND};
use crate::report::Report;
use crate::tree::ParsedDirective;

/// Converts `<Files>`, `<Directory>` and `<Location>` to rules. Returns the directives that apply to the whole site.
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
    if convert_special(directive, path, site, context) {
        return &[];
    }
    match container_scope(name, is_pattern, path, directive, site) {
        ContainerScope::Site => {
            let why = "the section is the site's root: its directives are those of the site";
            context.not_needed(directive, why);
            return directive.inner();
        }
        ContainerScope::Rule(mut rule) => {
            contents(directive.inner(), &mut rule.section, context.report);
            directive.becomes(rule, site, context.report);
        }
        ContainerScope::Unsupported => directive.not_carried(NO_LOOK_AROUND, context.report),
    }
    &[]
}

/// The paths that a section covers.
enum ContainerScope {
    /// All paths of the site.
    Site,
    /// The paths of this rule, which has no other options yet.
    Rule(RuleDraft),
    /// A pattern that Galley does not support.
    Unsupported,
}

fn contents(block: &[ParsedDirective], section: &mut Section, report: &mut Report) {
    access(block, section, report);
    for inner in block {
        match inner.name() {
            "require" | "allow" | "deny" | "authtype" | "authuserfile" => {}
            "header" => header(inner, section, HeaderScope::Paths, report),
            _ => record_outcome(inner, report),
        }
    }
}

/// Converts a section that does not become a rule: names that Galley never sends, XML-RPC, handlers. False for other
/// sections.
fn convert_special(
    directive: &ParsedDirective,
    path: &str,
    site: &mut ImportedSite,
    context: &mut HostContext<'_>,
) -> bool {
    let refuses = directive.inner().iter().any(is_refusal);
    let mut inner = directive.inner().iter();
    let handler = inner.find(|inner| inner.name() == "sethandler");
    if refuses && known::is_private_name(path) {
        directive.not_needed("Galley never sends such files", context.report);
        return true;
    }
    if refuses && known::is_script_of_folder(path) {
        directive.not_needed(known::NO_SCRIPTS, context.report);
        return true;
    }
    if refuses && path.contains("xmlrpc") {
        site.section.set("xmlrpc", "off", &directive.origin);
        directive.carried("xmlrpc", context.report);
        return true;
    }
    handler.is_some_and(|handler| convert_handler(directive, handler, site, context))
}

/// Converts a section for the requests of a handler. False for other handlers.
fn convert_handler(
    directive: &ParsedDirective,
    by: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut HostContext<'_>,
) -> bool {
    let target = by.argument(0);
    if target.starts_with("server-") {
        let why = "`galley status` and `GET /metrics` of the admin interface replace it";
        directive.not_needed(why, context.report);
        return true;
    }
    if !target.starts_with("proxy:") {
        return false;
    }
    context.carried(directive, "php");
    for inner in directive.inner().iter().filter(|inner| inner.id != by.id) {
        record_outcome(inner, context.report);
    }
    handler(by, site, context);
    true
}

/// The paths of a section.
fn container_scope(
    name: &str,
    is_pattern: bool,
    path: &str,
    directive: &ParsedDirective,
    site: &ImportedSite,
) -> ContainerScope {
    let origin = &directive.origin;
    let root = site.section.text("root").unwrap_or_default();
    let below = path.trim_end_matches('/').strip_prefix(root);
    let path = match below {
        Some(below) if name.starts_with("<directory") => below,
        _ => path,
    };
    if path.is_empty() || path == "/" {
        return ContainerScope::Site;
    }
    let mut section = Section::default();
    if is_pattern {
        let Some(pattern) = known::pattern(path, false) else {
            return ContainerScope::Unsupported;
        };
        section.set("pattern", pattern, origin);
    } else if name.starts_with("<files") {
        section.set("pattern", format!("/{}$", known::glob(path)), origin);
    } else {
        section.set("path", format!("{path}*"), origin);
        return ContainerScope::Rule(RuleDraft::of_prefix(section, path.len()));
    }
    ContainerScope::Rule(RuleDraft::new(section, RulePriority::Pattern))
}

fn is_refusal(directive: &ParsedDirective) -> bool {
    match directive.name() {
        "require" => directive.arguments() == ["all", "denied"],
        "deny" => directive.arguments() == ["from", "all"],
        _ => false,
    }
}

/// Converts access control: `Require`, the older `Allow` and `Deny`, and passwords.
pub(super) fn access(block: &[ParsedDirective], section: &mut Section, report: &mut Report) {
    let allows_some = block.iter().any(|inner| {
        matches!(inner.name(), "allow" | "require") && networks(inner).next().is_some()
    });
    for inner in block {
        let mut networks = networks(inner).cloned().peekable();
        match (inner.name(), inner.argument(0)) {
            ("require", "ip") => inner.adds("allow", networks, section, report),
            ("require", "valid-user" | "user") => report.carried(inner.id, "basic_auth"),
            ("require", _) if inner.arguments() == ["all", "granted"] => {
                report.not_needed(inner.id, "every client may");
            }
            ("allow", _) if inner.arguments() == ["from", "all"] => {
                report.not_needed(inner.id, "every client may");
            }
            ("deny", _) if inner.arguments() == ["from", "all"] && allows_some => {
                report.carried(inner.id, "allow");
            }
            _ if is_refusal(inner) => {
                section.deny_all(&inner.origin);
                report.carried(inner.id, "deny");
            }
            (option @ ("allow" | "deny"), _) if networks.peek().is_some() => {
                inner.adds(option, networks, section, report);
            }
            ("authtype", kind) if kind.eq_ignore_ascii_case("basic") => {
                report.carried(inner.id, "basic_auth");
            }
            ("authuserfile", file) => inner.sets("basic_auth", file, section, report),
            ("require" | "allow" | "deny" | "authtype", _) => {
                report.not_carried(inner.id, "set `allow`, `deny` or `basic_auth`");
            }
            _ => {}
        }
    }
}

fn networks(directive: &ParsedDirective) -> impl Iterator<Item = &String> {
    directive.arguments().iter().filter(|word| is_network(word))
}

fn is_network(text: &str) -> bool {
    let (address, bits) = text.split_once('/').unwrap_or((text, "0"));
    address.parse::<std::net::IpAddr>().is_ok() && bits.parse::<u8>().is_ok()
}
