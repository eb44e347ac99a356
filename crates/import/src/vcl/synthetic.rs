//! Converts conditions of `vcl_recv` that respond without a backend: denials and redirects by `return (synth(...))`.

use super::idioms::{COMPUTES, network, patterns};
use crate::draft::{ImportedSite, RuleDraft, RulePriority, Section};
use crate::known;
use crate::report::Report;
use crate::tree::ParsedDirective;

/// Converts a condition. `all`: the statements of the file, with its access lists. False if the condition does not respond,
/// or is about methods or TLS and so does not depend on paths.
pub(super) fn convert(
    directive: &ParsedDirective,
    all: &[ParsedDirective],
    site: &mut ImportedSite,
    report: &mut Report,
) -> bool {
    let text = directive.words.join(" ").to_ascii_lowercase();
    let is_other = ["req.method", "req.request", "https", "x-forwarded-proto"];
    let Some(status) = status(directive.inner()) else {
        return false;
    };
    if is_other.iter().any(|word| text.contains(word)) {
        return false;
    }
    let list = access_list(directive, all);
    let is_refusal = (400..500).contains(&status);
    match paths(directive, list).filter(|_| is_refusal) {
        Some(paths) => deny(directive, paths, list, site, report),
        None => directive.not_carried(remedy(status, &text), report),
    }
    true
}

/// Adds rules that deny the paths to all clients, or to all except the networks of a list.
fn deny(
    directive: &ParsedDirective,
    paths: Vec<String>,
    list: Option<&ParsedDirective>,
    site: &mut ImportedSite,
    report: &mut Report,
) {
    for mut section in sections(directive, paths) {
        match list {
            Some(list) => {
                let networks = list.inner().iter().filter_map(network);
                section.add("allow", networks, &directive.origin);
                list.carried("a rule with allow", report);
            }
            None => section.deny_all(&directive.origin),
        }
        site.add_rule(RuleDraft::new(section, RulePriority::Pattern));
    }
    let option = list.map_or("a rule with deny", |_| "a rule with allow");
    directive.carried(option, report);
}

/// The status of `return (synth(403, "..."))`, or of `error 403 "..."` in older files.
fn status(block: &[ParsedDirective]) -> Option<u16> {
    block.iter().find_map(|one| {
        let words = one.words.join("");
        let rest = words
            .strip_prefix("return(synth(")
            .or_else(|| words.strip_prefix("error"));
        let digits: String = rest?.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    })
}

/// The access list in a condition `client.ip !~ NAME`, if all of its entries are networks.
fn access_list<'a>(
    directive: &ParsedDirective,
    all: &'a [ParsedDirective],
) -> Option<&'a ParsedDirective> {
    let words = directive.arguments();
    let at = words.windows(2).position(|pair| {
        pair.first().is_some_and(|word| word.ends_with("client.ip"))
            && pair.get(1).is_some_and(|word| word == "!~")
    });
    let name = words.get(at? + 2)?.trim_end_matches(')');
    let mut lists = all.iter().filter(|one| one.name() == "acl");
    let list = lists.find(|list| list.argument(0) == name)?;
    let is_whole = list.inner().iter().all(|entry| network(entry).is_some());
    is_whole.then_some(list)
}

/// The patterns of a condition that depends only on paths and on the clients of a list. `None` for other conditions.
fn paths(directive: &ParsedDirective, list: Option<&ParsedDirective>) -> Option<Vec<String>> {
    let text = directive.words.join(" ");
    let says_more = ["req.http", "==", "!=", "!req", "obj.", "std.", "req.url !~"];
    let lists = text.matches("client.ip").count();
    // Alternatives are paths; the only additional condition is the list.
    let is_by_path = text.contains("req.url ~")
        && !says_more.iter().any(|one| text.contains(one))
        && lists == usize::from(list.is_some())
        && text.matches("&&").count() == lists
        && !(lists == 1 && text.contains("||"));
    let paths = patterns(&text.replace("client.ip !~", "client.ip"));
    // Galley must support all of them as patterns.
    known::pattern(&paths.join("|"), false).filter(|_| is_by_path)?;
    Some(paths)
}

/// The paths of rules: one for each that is a plain prefix, and one for all other patterns.
fn sections(directive: &ParsedDirective, paths: Vec<String>) -> Vec<Section> {
    let (plain, others): (Vec<_>, Vec<_>) =
        paths.into_iter().partition(|one| prefix(one).is_some());
    let plain = plain.iter().filter_map(|one| prefix(one));
    let mut options: Vec<(&str, String)> = plain.map(|path| ("path", path + "*")).collect();
    let joined = known::pattern(&others.join("|"), false).filter(|_| !others.is_empty());
    options.extend(joined.map(|pattern| ("pattern", pattern)));
    let section = |(option, value): (&str, String)| {
        let mut section = Section::default();
        section.set(option, value, &directive.origin);
        section
    };
    options.into_iter().map(section).collect()
}

/// The prefix of a pattern such as `^/internal/`, if the pattern is only a prefix. A pattern may match any page, so Galley also
/// denies all other addresses of pages, such as searches; a path denies only its own.
fn prefix(pattern: &str) -> Option<String> {
    let path = pattern.strip_prefix('^')?.replace("\\.", ".");
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
    let has_dots = pattern.matches('.').count() > pattern.matches("\\.").count();
    let is_path = path.starts_with('/') && path.bytes().all(is_plain) && !has_dots;
    is_path.then_some(path)
}

fn remedy(status: u16, text: &str) -> &'static str {
    if text.contains("client.ip") {
        "set `allow` or `deny` in a rule for the paths, or `admin_allow`"
    } else if (300..400).contains(&status) || status >= 600 {
        "write a rule with `redirect`, or set `canonical_host` in the site"
    } else {
        COMPUTES
    }
}
