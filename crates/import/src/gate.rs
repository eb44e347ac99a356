//! Who gets in: the access control of one place, as a server states it and as options of Galley. What Galley cannot express is denied to
//! all clients.

use std::net::IpAddr;

use crate::directive::Directive;
use crate::draft::Section;
use crate::evidence::is_in_network;
use crate::expectation::Answer;

/// Who gets in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
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
pub(crate) struct PartGate<'d> {
    pub gate: Gate,
    pub by: Vec<&'d Directive>,
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

/// Sets the options for a gate.
pub(crate) fn apply(one: &PartGate<'_>, section: &mut Section) {
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
    if let Gate::Allow(networks) | Gate::Deny(networks) = &one.gate {
        let names = |by: &&&Directive| by.arguments().iter().any(|one| networks.contains(one));
        for by in one.by.iter().filter(names) {
            section.add(one.gate.option().unwrap_or_default(), [], &by.origin);
        }
    }
    let is_read_by_galley = origin.file.ends_with(".htaccess");
    for directive in &one.by {
        match (&one.gate, one.gate.option()) {
            (Gate::Allow(_) | Gate::Password(_), _) if is_read_by_galley => {
                directive.not_carried(IN_HTACCESS);
            }
            (Gate::Unknown, _) => directive.not_carried(DENIED),
            (_, Some(option)) => directive.carried(option),
            (_, None) => directive.not_needed("every client may"),
        }
    }
}

/// Whether a text is an address or a network.
pub(crate) fn is_network(text: &str) -> bool {
    let (address, bits) = text.split_once('/').unwrap_or((text, "0"));
    address.parse::<IpAddr>().is_ok() && bits.parse::<u8>().is_ok()
}

const IN_HTACCESS: &str = "Galley refuses the files that a `.htaccess` opens to some clients only, whatever its own rules say: remove this from the `.htaccess` once \
     Galley serves the site";

const DENIED: &str = "denied for all: Galley decides by networks and passwords. Set `allow` or `basic_auth` in place of `deny`";
