//! Access control of one section: `Require`, the older `Order`, `Allow` and `Deny`, and passwords. What Galley cannot express is denied
//! to all clients.

use crate::closed::undecided;
use crate::directive::ParsedDirective;
use crate::draft::Section;
use crate::report::Report;

/// Whether a directive is about access.
pub(super) fn is_access(directive: &ParsedDirective) -> bool {
    matches!(
        directive.name(),
        "require"
            | "<requireall"
            | "<requireany"
            | "<requirenone"
            | "order"
            | "allow"
            | "deny"
            | "satisfy"
            | "authtype"
            | "authuserfile"
    )
}

/// Whether a section denies access to all clients, and says nothing else about it.
pub(super) fn denies_all(block: &[ParsedDirective]) -> bool {
    let mut access = block.iter().filter(|one| is_access(one));
    let denies = |one: &ParsedDirective| match one.name() {
        "require" => one.arguments() == ["all", "denied"],
        "deny" => one.arguments() == ["from", "all"],
        "order" => true,
        _ => false,
    };
    access.clone().any(|one| one.name() != "order") && access.all(denies)
}

/// Converts the access control of a section.
pub(super) fn access(block: &[ParsedDirective], section: &mut Section, report: &mut Report) {
    password(block, section, report);
    let requires = named(block, &["require"]);
    let groups = named(block, &["<requireall", "<requireany", "<requirenone"]);
    match (requires.as_slice(), groups.as_slice()) {
        ([], []) => {}
        (all, []) => required(all, section, report),
        ([], [one]) if one.name() == "<requireall" => all_but(one, section, report),
        ([], [one]) if one.name() == "<requireany" => {
            report.not_needed(one.id, "its directives are those of the section");
            let inner: Vec<&ParsedDirective> = one.inner().iter().collect();
            required(&inner, section, report);
        }
        (alone, groups) => deny(alone.iter().chain(groups).copied(), section, report),
    }
    let older = named(block, &["order", "allow", "deny", "satisfy"]);
    if !older.is_empty() {
        ordered(&older, section, report);
    }
}

/// The directives of a block with one of these names.
fn named<'d>(block: &'d [ParsedDirective], names: &[&str]) -> Vec<&'d ParsedDirective> {
    block
        .iter()
        .filter(|one| names.contains(&one.name()))
        .collect()
}

fn password(block: &[ParsedDirective], section: &mut Section, report: &mut Report) {
    for directive in block {
        match (directive.name(), directive.argument(0)) {
            ("authtype", kind) if kind.eq_ignore_ascii_case("basic") => {
                report.carried(directive.id, "basic_auth");
            }
            ("authuserfile", file) if file.starts_with('/') => {
                directive.sets("basic_auth", file, section, report);
            }
            ("authtype" | "authuserfile", _) => deny(std::iter::once(directive), section, report),
            _ => {}
        }
    }
}

/// Converts `Require` directives of which one must hold.
fn required(all: &[&ParsedDirective], section: &mut Section, report: &mut Report) {
    let is_granted = all.iter().any(|one| one.arguments() == ["all", "granted"]);
    let has_password = section.has("basic_auth");
    let kinds = all
        .iter()
        .map(|one| matches!(one.argument(0), "valid-user" | "user" | "group"));
    let (users, others): (Vec<bool>, Vec<bool>) = kinds.partition(|is_user| *is_user);
    for one in all {
        match one.arguments() {
            [all, granted] if all == "all" && granted == "granted" => {
                report.not_needed(one.id, "every client may");
            }
            _ if is_granted => {
                report.not_needed(one.id, "another directive grants every client access");
            }
            [all, denied] if all == "all" && denied == "denied" => {
                section.deny_all(&one.origin);
                report.carried(one.id, "deny");
            }
            [local] if local == "local" => {
                one.adds(
                    "allow",
                    ["127.0.0.0/8".to_owned(), "::1".to_owned()],
                    section,
                    report,
                );
            }
            [kind, networks @ ..]
                if kind == "ip" && networks.iter().all(|text| is_network(text)) =>
            {
                one.adds("allow", networks.iter().cloned(), section, report);
            }
            [kind] if kind == "valid-user" && has_password => report.carried(one.id, "basic_auth"),
            [kind, ..] if matches!(kind.as_str(), "user" | "group") && has_password => {
                undecided(
                    one,
                    "every user of the password file gets in: give the paths a file of their own",
                    report,
                );
            }
            _ => deny(std::iter::once(*one), section, report),
        }
        if !is_granted && !users.is_empty() && !others.is_empty() {
            report.not_carried(one.id, "Galley asks for both: the network and the password");
        }
    }
}

/// Converts `<RequireAll>` with `Require all granted` and `Require not ip ...`.
fn all_but(group: &ParsedDirective, section: &mut Section, report: &mut Report) {
    let networks = |one: &ParsedDirective| match one.arguments() {
        [not, ip, networks @ ..]
            if not == "not" && ip == "ip" && networks.iter().all(|text| is_network(text)) =>
        {
            Some(networks.to_vec())
        }
        _ => None,
    };
    let is_granted = |one: &ParsedDirective| one.arguments() == ["all", "granted"];
    if !group
        .inner()
        .iter()
        .all(|one| is_granted(one) || networks(one).is_some())
    {
        return deny(std::iter::once(group), section, report);
    }
    report.carried(group.id, "deny");
    for one in group.inner() {
        match networks(one) {
            Some(networks) => one.adds("deny", networks, section, report),
            None => report.not_needed(one.id, "every other client may"),
        }
    }
}

/// Converts `Order`, `Allow` and `Deny`.
fn ordered(all: &[&ParsedDirective], section: &mut Section, report: &mut Report) {
    let order = all
        .iter()
        .find(|one| one.name() == "order")
        .map(|one| one.arguments().join(" ").to_ascii_lowercase());
    let denies_by_default = order.is_some_and(|order| order.replace(' ', "") == "allow,deny");
    let from = |name: &str| {
        let named = all.iter().filter(|one| one.name() == name);
        named
            .flat_map(|one| one.arguments().iter().skip(1).cloned())
            .collect::<Vec<String>>()
    };
    let (allow, denied) = (from("allow"), from("deny"));
    let is_all = |list: &[String]| list == ["all"];
    let are_networks = |list: &[String]| list.iter().all(|text| is_network(text));
    let first = all.first().map(|one| &one.origin);
    let option = match (denies_by_default, allow.as_slice(), denied.as_slice()) {
        (true, allow, []) if is_all(allow) => "",
        (true, allow, denied) if is_all(allow) && are_networks(denied) => {
            section.add("deny", denied.iter().cloned(), first);
            "deny"
        }
        (false, allow, denied) if is_all(denied) && !allow.is_empty() && are_networks(allow) => {
            section.add("allow", allow.iter().cloned(), first);
            "allow"
        }
        (true, allow, []) if !allow.is_empty() && are_networks(allow) => {
            section.add("allow", allow.iter().cloned(), first);
            "allow"
        }
        (false, [], []) => "",
        (false, allow, denied) if is_all(allow) && (denied.is_empty() || is_all(denied)) => "",
        (false, [], denied) if are_networks(denied) => {
            section.add("deny", denied.iter().cloned(), first);
            "deny"
        }
        (_, [], denied) if is_all(denied) => {
            if let Some(origin) = first {
                section.deny_all(origin);
            }
            "deny"
        }
        _ => return deny(all.iter().copied(), section, report),
    };
    let is_either = section.has("basic_auth")
        && all
            .iter()
            .any(|one| one.name() == "satisfy" && one.argument(0).eq_ignore_ascii_case("any"));
    for one in all {
        match option {
            _ if is_either => {
                report.not_carried(one.id, "Galley asks for both: the network and the password");
            }
            "" => report.not_needed(one.id, "every client may"),
            option => report.carried(one.id, option),
        }
    }
}

/// Denies access to all clients in place of a condition that Galley does not have.
fn deny<'d>(
    all: impl Iterator<Item = &'d ParsedDirective>,
    section: &mut Section,
    report: &mut Report,
) {
    for one in all {
        section.deny_all(&one.origin);
        one.not_carried("denied for all: Galley decides by networks and passwords. Set `allow` or `basic_auth` in place of `deny`", report);
    }
}

fn is_network(text: &str) -> bool {
    let (address, bits) = text.split_once('/').unwrap_or((text, "0"));
    address.parse::<std::net::IpAddr>().is_ok() && bits.parse::<u8>().is_ok()
}
