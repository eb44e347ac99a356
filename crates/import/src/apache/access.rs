//! Access control of one part: `Require`, the older `Order`, `Allow` and `Deny`, and passwords. What Galley cannot express is denied
//! to all clients.

use std::net::IpAddr;

use crate::directive::ParsedDirective;
use crate::draft::Section;
use crate::evidence::is_in_network;
use crate::expectation::Answer;
use crate::report::Report;

/// Whether a directive is about access.
pub(super) fn is_access(directive: &ParsedDirective) -> bool {
    let older = matches!(directive.name(), "authtype" | "authuserfile");
    older || REQUIRES.contains(&directive.name()) || ORDERS.contains(&directive.name())
}

const REQUIRES: &[&str] = &["require", "<requireall", "<requireany", "<requirenone"];

const ORDERS: &[&str] = &["order", "allow", "deny", "satisfy"];

/// Who gets in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    Everybody,
    Nobody,
    /// Only clients in these networks.
    Allow(Vec<String>),
    /// All but clients in these networks.
    Deny(Vec<String>),
    /// Whoever has a password of this file.
    Password(String),
    /// Something that no option of Galley decides by.
    Unknown,
}

/// A gate and its directives.
pub(super) struct PartGate<'d> {
    pub gate: Gate,
    pub by: Vec<&'d ParsedDirective>,
}

impl Gate {
    /// What a client without a password gets. `None`: it is not known.
    pub fn answer(&self, client: IpAddr) -> Option<Answer> {
        let is_in = |all: &[String]| all.iter().any(|network| is_in_network(network, client));
        let is_open = match self {
            Self::Everybody => true,
            Self::Nobody | Self::Password(_) => false,
            Self::Allow(networks) => is_in(networks),
            Self::Deny(networks) => !is_in(networks),
            Self::Unknown => return None,
        };
        Some(if is_open {
            Answer::Open
        } else {
            Answer::Closed
        })
    }

    /// The option of a rule or a site. `None`: none is needed.
    fn option(&self) -> Option<&'static str> {
        match self {
            Self::Everybody => None,
            Self::Nobody | Self::Deny(_) | Self::Unknown => Some("deny"),
            Self::Allow(_) => Some("allow"),
            Self::Password(_) => Some("basic_auth"),
        }
    }
}

/// The gates of a part: that of `Require`, and the older one. Both decide.
pub(super) fn gates<'d>(block: &[&'d ParsedDirective]) -> [Option<PartGate<'d>>; 2] {
    [(REQUIRES, required as GateOf), (ORDERS, ordered as GateOf)].map(|(names, gate_of)| {
        let mut by: Vec<_> = named(block, names);
        if by.is_empty() {
            return None;
        }
        let gate = gate_of(&by, password_file(block));
        if matches!(gate, Gate::Password(_)) {
            by.extend(named(block, &["authtype", "authuserfile"]));
        }
        Some(PartGate { gate, by })
    })
}

type GateOf = fn(&[&ParsedDirective], Option<&str>) -> Gate;

fn named<'d>(block: &[&'d ParsedDirective], names: &[&str]) -> Vec<&'d ParsedDirective> {
    let all = block.iter().copied();
    all.filter(|one| names.contains(&one.name())).collect()
}

fn password_file<'d>(block: &[&'d ParsedDirective]) -> Option<&'d str> {
    let is_basic = |one: &&&ParsedDirective| {
        one.name() == "authtype" && one.argument(0).eq_ignore_ascii_case("basic")
    };
    block.iter().find(is_basic)?;
    let is_elsewhere = |one: &&&ParsedDirective| {
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
pub(super) fn denies_all(block: &[&ParsedDirective]) -> bool {
    let all = gates(block);
    let mut all = all.iter().flatten().peekable();
    all.peek().is_some() && all.all(|one| one.gate == Gate::Nobody)
}

/// Sets the options for the access control of a part.
pub(super) fn convert(block: &[&ParsedDirective], section: &mut Section, report: &mut Report) {
    for one in gates(block).iter().flatten() {
        apply(one, section, report);
    }
    without_effect(block, report);
}

/// Reports directives about passwords that no gate asks for.
pub(super) fn without_effect(block: &[&ParsedDirective], report: &mut Report) {
    for one in named(block, &["authtype", "authuserfile"]) {
        if !report.has_outcome(one.id) {
            report.not_carried(one.id, "set `basic_auth` where a password is asked for");
        }
    }
}

/// Sets the options for a gate.
pub(super) fn apply(one: &PartGate<'_>, section: &mut Section, report: &mut Report) {
    let Some(origin) = one.by.first().map(|first| &first.origin) else {
        return;
    };
    match &one.gate {
        Gate::Everybody => {}
        Gate::Nobody | Gate::Unknown => section.deny_all(origin),
        Gate::Allow(networks) => section.add("allow", networks.iter().cloned(), origin),
        Gate::Deny(networks) => section.add("deny", networks.iter().cloned(), origin),
        Gate::Password(file) => section.set("basic_auth", file.as_str(), origin),
    }
    let is_read_by_galley = origin.file.ends_with(".htaccess");
    for directive in &one.by {
        match (&one.gate, one.gate.option()) {
            (Gate::Allow(_) | Gate::Password(_), _) if is_read_by_galley => {
                directive.not_carried(IN_HTACCESS, report);
            }
            (Gate::Unknown, _) => directive.not_carried(DENIED, report),
            (_, Some(option)) => directive.carried(option, report),
            (_, None) => directive.not_needed("every client may", report),
        }
    }
}

/// The gate of `Require` directives of which one must hold.
fn required(all: &[&ParsedDirective], file: Option<&str>) -> Gate {
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
fn all_but(all: &[&ParsedDirective]) -> Gate {
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
fn ordered(all: &[&ParsedDirective], _: Option<&str>) -> Gate {
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

fn is_network(text: &str) -> bool {
    let (address, bits) = text.split_once('/').unwrap_or((text, "0"));
    address.parse::<IpAddr>().is_ok() && bits.parse::<u8>().is_ok()
}

const IN_HTACCESS: &str = "Galley refuses the files that a `.htaccess` opens to some clients only, whatever its own rules say: remove this from the `.htaccess` once \
     Galley serves the site";

const DENIED: &str = "denied for all: Galley decides by networks and passwords. Set `allow` or `basic_auth` in place of `deny`";
