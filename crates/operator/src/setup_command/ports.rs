//! Chooses the ports for Galley: those of visitors, or others while another server uses them.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use super::error::SetupError;
use super::units;
use crate::setup::{Detection, PortOwner, ServerEndpoint};

/// The listeners of the new configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListenPlan {
    /// Ports 80 and 443, which systemd opens after these units have been stopped.
    Sockets {
        /// Units of other servers.
        stop: Vec<String>,
    },
    /// Addresses that Galley opens.
    Own {
        /// The address without TLS.
        plain: SocketAddr,
        /// The address with TLS.
        tls: SocketAddr,
    },
}

impl ListenPlan {
    /// The values of `server.listen` and `server.listen_tls`.
    pub(super) fn listen(&self) -> (Vec<String>, Vec<String>) {
        match self {
            Self::Sockets { .. } => (
                vec!["systemd:web".to_owned()],
                vec!["systemd:tls".to_owned()],
            ),
            Self::Own { plain, tls } => (vec![plain.to_string()], vec![tls.to_string()]),
        }
    }

    /// A comment for the configuration.
    pub(super) fn note(&self, is_named: bool, foreign: &[&PortOwner]) -> &'static str {
        match self {
            Self::Sockets { .. } => {
                "Ports 80 and 443, which systemd opens (galley.socket, galley-tls.socket)."
            }
            Self::Own { .. } if is_named => "As `galley setup --listen` says.",
            Self::Own { .. } if foreign.is_empty() => {
                "Free ports. With Galley's package, systemd opens ports 80 and 443; `galley setup --listen` names another address."
            }
            Self::Own { .. } => {
                "Beside the server that has port 80. `galley setup --take-over UNIT` stops that server."
            }
        }
    }

    /// The address for requests from this machine.
    pub(super) fn endpoint(&self, is_tls: bool) -> ServerEndpoint {
        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let address = match (self, is_tls) {
            (Self::Sockets { .. }, false) => local(80),
            (Self::Sockets { .. }, true) => local(443),
            (Self::Own { plain, .. }, false) => *plain,
            (Self::Own { tls, .. }, true) => *tls,
        };
        ServerEndpoint {
            address,
            is_tls,
            is_forwarded_https: false,
        }
    }
}

/// The other servers on the ports that visitors use.
pub(super) fn foreign(detection: &Detection) -> Vec<&PortOwner> {
    let sockets_are_ours = ["galley.socket", "galley-tls.socket"].map(units::is_active);
    let is_ours = |owner: &PortOwner| {
        let is_systemd = owner.program.as_deref() == Some("systemd");
        let by_socket = sockets_are_ours[usize::from(owner.address.port() == 443)];
        owner.is_galley() || (is_systemd && by_socket)
    };
    let owners = detection.ports.iter();
    owners.filter(|owner| !is_ours(owner)).collect()
}

/// A description for people: `nginx.service on port 80`.
pub(super) fn name(owner: &PortOwner) -> String {
    let program = owner.program.as_deref().unwrap_or("another program");
    let unit = owner.unit.as_deref().unwrap_or(program);
    format!("{unit} on port {}", owner.address.port())
}

fn names(owners: &[&PortOwner]) -> String {
    let names: Vec<String> = owners.iter().map(|owner| name(owner)).collect();
    match names.as_slice() {
        [] => "no other server".to_owned(),
        names => names.join(", "),
    }
}

/// The full name of a unit: a name without a type is a service.
fn unit_name(name: &str) -> String {
    if name.contains('.') {
        name.to_owned()
    } else {
        format!("{name}.service")
    }
}

/// The units to stop, among those that the user names. Error: one uses neither port, or a port would still be in use.
pub(super) fn taken_over(
    named: &[String],
    foreign: &[&PortOwner],
) -> Result<Vec<String>, SetupError> {
    let units: Vec<String> = named.iter().map(|name| unit_name(name)).collect();
    let known_units: Vec<&String> = foreign.iter().filter_map(|one| one.unit.as_ref()).collect();
    if let Some(wrong) = units.iter().find(|unit| !known_units.contains(unit)) {
        return Err(SetupError::Usage(format!(
            "--take-over: `{wrong}` has neither port 80 nor port 443; there is {}",
            names(foreign)
        )));
    }
    let stays = |owner: &&&PortOwner| owner.unit.as_ref().is_none_or(|unit| !units.contains(unit));
    match foreign.iter().find(stays) {
        Some(owner) if !units.is_empty() => Err(SetupError::Usage(format!(
            "--take-over: {} would still have its port; name it as well, or stop it",
            name(owner)
        ))),
        _ => Ok(units),
    }
}

/// The first free port of the loopback address, starting at `from`.
pub(super) fn free(from: u16) -> Result<SocketAddr, SetupError> {
    let mut candidates =
        (from..=from.saturating_add(100)).map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let free = candidates.find(|address| TcpListener::bind(address).is_ok());
    free.ok_or_else(|| SetupError::Failed(format!("no port from {from} on is free: use --listen")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(port: u16, unit: Option<&str>) -> PortOwner {
        PortOwner {
            address: SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
            program: Some("x".to_owned()),
            unit: unit.map(str::to_owned),
        }
    }

    #[test]
    fn another_server_is_named_only_if_there_is_one() {
        let plan = ListenPlan::Own {
            plain: SocketAddr::from(([127, 0, 0, 1], 8080)),
            tls: SocketAddr::from(([127, 0, 0, 1], 8443)),
        };
        let web = owner(80, Some("nginx.service"));
        assert!(plan.note(false, &[&web]).contains("that server"));
        assert!(!plan.note(false, &[]).contains("server"));
        assert!(plan.note(true, &[]).contains("--listen"));
    }

    #[test]
    fn a_service_is_stopped_only_by_its_name_and_only_for_all_ports() {
        let (web, tls, bare) = (
            owner(80, Some("nginx.service")),
            owner(443, Some("hitch.service")),
            owner(443, None),
        );
        let named = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect::<Vec<_>>();
        assert!(taken_over(&[], &[&web, &tls]).unwrap().is_empty());
        assert!(taken_over(&named(&["nginx"]), &[&web, &tls]).is_err());
        let both = taken_over(&named(&["nginx", "hitch.service"]), &[&web, &tls]).unwrap();
        assert_eq!(both, ["nginx.service", "hitch.service"]);
        assert!(taken_over(&named(&["apache2"]), &[&web]).is_err());
        assert!(taken_over(&named(&["nginx"]), &[]).is_err());
        assert!(taken_over(&named(&["nginx"]), &[&web, &bare]).is_err());
    }
}
