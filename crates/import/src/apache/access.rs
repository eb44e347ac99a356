//! Access control of one part: `Require`, the older `Order`, `Allow` and `Deny`, and passwords. What Galley cannot express is denied
//! to all clients.

use crate::directive::Directive;
use crate::draft::Section;
use crate::gate::{Gate, PartGate, apply, is_network};

/// Whether a directive is about access.
pub(super) fn is_access(directive: &Directive) -> bool {
    let older = matches!(directive.name(), "authtype" | "authuserfile");
    older || REQUIRES.contains(&directive.name()) || ORDERS.contains(&directive.name())
}

const REQUIRES: &[&str] = &["require", "<requireall", "<requireany", "<requirenone"];

const ORDERS: &[&str] = &["order", "allow", "deny", "satisfy"];

/// The gates of a part: that of `Require`, and the older one. Both decide.
pub(super) fn gates<'d>(block: &[&'d Directive]) -> [Option<PartGate<'d>>; 2] {
    [(REQUIRES, required as GateOf), (ORDERS, ordered as GateOf)].map(|(names, gate_of)| {
        let mut by: Vec<_> = named(block, names);
        if by.is_empty() {
            return None;
        }
        let merges = |one: &&Directive| {
            one.name() == "authmerging" && !one.argument(0).eq_ignore_ascii_case("off")
        };
        let gate = if block.iter().copied().any(|one| merges(&one)) {
            Gate::Unknown
        } else {
            gate_of(&by, password_file(block))
        };
        if matches!(gate, Gate::Password(_)) {
            by.extend(named(block, &["authtype", "authuserfile"]));
        }
        Some(PartGate { gate, by })
    })
}

type GateOf = fn(&[&Directive], Option<&str>) -> Gate;

fn named<'d>(block: &[&'d Directive], names: &[&str]) -> Vec<&'d Directive> {
    let directives = block.iter().copied();
    directives
        .filter(|one| names.contains(&one.name()))
        .collect()
}

fn password_file<'d>(block: &[&'d Directive]) -> Option<&'d str> {
    let is_basic = |one: &&&Directive| {
        one.name() == "authtype" && one.argument(0).eq_ignore_ascii_case("basic")
    };
    block.iter().find(is_basic)?;
    let is_elsewhere = |one: &&&Directive| {
        one.name() == "authbasicprovider" && !one.argument(0).eq_ignore_ascii_case("file")
    };
    if block.iter().any(|one| is_elsewhere(&one)) {
        return None;
    }
    let file = block
        .iter()
        .rev()
        .find(|one| one.name() == "authuserfile")?;
    Some(file.argument(0)).filter(|file| file.starts_with('/'))
}

/// Whether a part denies access to all clients, and says nothing else about it.
pub(super) fn denies_all(block: &[&Directive]) -> bool {
    let gates = gates(block);
    let mut gates = gates.iter().flatten().peekable();
    gates.peek().is_some() && gates.all(|one| one.gate == Gate::Nobody)
}

/// Sets the options for the access control of a part.
pub(super) fn convert(block: &[&Directive], section: &mut Section) {
    for one in gates(block).iter().flatten() {
        apply(one, section);
    }
    without_effect(block);
}

/// Reports directives about passwords that no gate asks for.
pub(super) fn without_effect(block: &[&Directive]) {
    for one in named(block, &["authtype", "authuserfile"]) {
        if !one.entry.has_outcome() {
            one.entry
                .not_carried("set `basic_auth` where a password is asked for");
        }
    }
}

/// The gate of `Require` directives of which one must hold.
fn required(all: &[&Directive], file: Option<&str>) -> Gate {
    if let [group] = all {
        let inner: Vec<_> = group.inner().iter().collect();
        match group.name() {
            "<requireany" => return required(&inner, file),
            "<requireall" => return all_but(&inner),
            _ => {}
        }
    }
    let (mut networks, mut asks) = (Vec::new(), false);
    for one in all {
        let words: Vec<&str> = one.arguments().iter().map(String::as_str).collect();
        match words.as_slice() {
            _ if one.name() != "require" => return Gate::Unknown,
            ["all", "granted"] => return Gate::Everybody,
            ["all", "denied"] => {}
            ["local"] => networks.extend(["127.0.0.0/8", "::1"].map(str::to_owned)),
            ["ip", all @ ..] if all.iter().all(|text| is_network(text)) => {
                networks.extend(all.iter().map(|text| (*text).to_owned()));
            }
            ["valid-user"] => asks = true,
            _ => return Gate::Unknown,
        }
    }
    match (asks, networks.is_empty(), file) {
        (false, true, _) => Gate::Nobody,
        (false, false, _) => Gate::Allow(networks),
        (true, true, Some(file)) => Gate::Password(file.to_owned()),
        (true, ..) => Gate::Unknown,
    }
}

/// The gate of `Require all granted` with `Require not ip ...`.
fn all_but(all: &[&Directive]) -> Gate {
    let (mut networks, mut is_granted) = (Vec::new(), false);
    for one in all {
        let words: Vec<&str> = one.arguments().iter().map(String::as_str).collect();
        match words.as_slice() {
            ["all", "granted"] => is_granted = true,
            ["not", "ip", all @ ..] if all.iter().all(|text| is_network(text)) => {
                networks.extend(all.iter().map(|text| (*text).to_owned()));
            }
            _ => return Gate::Unknown,
        }
    }
    match (is_granted, networks.is_empty()) {
        (true, true) => Gate::Everybody,
        (true, false) => Gate::Deny(networks),
        (false, _) => Gate::Unknown,
    }
}

/// The gate of `Order`, `Allow` and `Deny`.
fn ordered(all: &[&Directive], _: Option<&str>) -> Gate {
    let (mut denies, mut allow, mut deny) = (false, Vec::new(), Vec::new());
    for one in all {
        let from = one.arguments().get(1..).unwrap_or_default();
        let is_known = from.iter().all(|text| text == "all" || is_network(text));
        match one.name() {
            "order" => match one.arguments().concat().to_ascii_lowercase().as_str() {
                "allow,deny" => denies = true,
                "deny,allow" => denies = false,
                // `mutual-failure`.
                _ => return Gate::Unknown,
            },
            "allow" if is_known => allow.extend(from.iter().cloned()),
            "deny" if is_known => deny.extend(from.iter().cloned()),
            _ => return Gate::Unknown,
        }
    }
    let has_all = |list: &[String]| list.iter().any(|one| one == "all");
    match (denies, has_all(&allow), has_all(&deny)) {
        (true, _, true) => Gate::Nobody,
        (true, false, false) | (false, false, true) if allow.is_empty() => Gate::Nobody,
        (false, true, _) => Gate::Everybody,
        (true, true, false) | (false, false, false) if deny.is_empty() => Gate::Everybody,
        (true, true, false) => Gate::Deny(deny),
        (false, false, false) if allow.is_empty() => Gate::Deny(deny),
        (false, false, true) => Gate::Allow(allow),
        (true, false, false) if deny.is_empty() => Gate::Allow(allow),
        _ => Gate::Unknown,
    }
}
