//! The addresses of both servers for each host, and the hosts to send requests to.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use galley_import::{CopiedListener, ServedConfiguration, ServedHost, StatementSubject};

use super::servers::address;
use super::visit::TryVisit;
use crate::setup::TestInstance;

/// A host of the old server to send requests to.
#[derive(Clone, Debug)]
pub(super) struct VisitedHost {
    /// The first name.
    pub(super) name: String,
    /// All names.
    pub(super) names: Vec<String>,
    pub(super) root: Option<PathBuf>,
    pub(super) has_plain: bool,
    pub(super) has_tls: bool,
    /// Whether it has content; otherwise it only redirects.
    pub(super) has_content: bool,
}

impl VisitedHost {
    /// Whether most requests use TLS.
    pub(super) fn is_tls(&self) -> bool {
        self.has_tls
    }
}

/// The addresses of both servers.
pub(super) struct TryEndpoints {
    /// The addresses of the old server by scheme and host.
    old: HashMap<String, SocketAddr>,
    /// The addresses of the old server for hosts without a specific one.
    any: ServerEndpoints,
    galley: ServerEndpoints,
    pub(super) ports: Vec<u16>,
}

#[derive(Clone, Copy, Default)]
struct ServerEndpoints {
    plain: Option<SocketAddr>,
    tls: Option<SocketAddr>,
}

impl ServerEndpoints {
    fn of(self, is_tls: bool) -> Option<SocketAddr> {
        if is_tls { self.tls } else { self.plain }
    }
}

/// The addresses for one request.
#[derive(Clone, Copy)]
pub(super) struct VisitAddresses {
    pub(super) old: Option<SocketAddr>,
    pub(super) galley: Option<SocketAddr>,
}

impl TryEndpoints {
    pub(super) fn new(
        served: &ServedConfiguration,
        listeners: &[CopiedListener],
        galley: &TestInstance,
    ) -> Self {
        let mut old = HashMap::new();
        for host in &served.hosts {
            for listener in own(host, listeners) {
                for name in &host.names {
                    old.entry(key(name, listener.is_tls))
                        .or_insert_with(|| address(listener));
                }
            }
        }
        let first = |is_tls: bool| {
            listeners
                .iter()
                .find(|one| one.is_tls == is_tls)
                .map(address)
        };
        let galley = ServerEndpoints {
            plain: galley.plain(),
            tls: galley.tls(),
        };
        let of_galley = [galley.plain, galley.tls]
            .into_iter()
            .flatten()
            .map(|address| address.port());
        Self {
            old,
            any: ServerEndpoints {
                plain: first(false),
                tls: first(true),
            },
            galley,
            ports: listeners
                .iter()
                .map(|one| one.port)
                .chain(of_galley)
                .collect(),
        }
    }

    pub(super) fn of(&self, visit: &TryVisit) -> VisitAddresses {
        let named = self.old.get(&key(&visit.host, visit.is_tls)).copied();
        VisitAddresses {
            old: named.or_else(|| self.any.of(visit.is_tls)),
            galley: self.galley.of(visit.is_tls),
        }
    }

    /// Whether the old server serves this host with this scheme.
    pub(super) fn serves(&self, host: &str, is_tls: bool) -> bool {
        self.old.contains_key(&key(host, is_tls)) || host == NO_NAME
    }
}

fn key(host: &str, is_tls: bool) -> String {
    format!("{}{host}", if is_tls { "s:" } else { "p:" })
}

/// The running listeners of a host.
fn own<'l>(
    host: &'l ServedHost,
    listeners: &'l [CopiedListener],
) -> impl Iterator<Item = &'l CopiedListener> {
    host.listeners.iter().filter_map(|wanted| {
        let port = wanted
            .key
            .rsplit_once(':')
            .map_or(wanted.key.as_str(), |(_, port)| port);
        let exact = listeners.iter().find(|one| one.key == wanted.key);
        exact.or_else(|| listeners.iter().find(|one| one.key == port))
    })
}

/// The hosts to send requests to.
pub(super) fn hosts(
    served: &ServedConfiguration,
    listeners: &[CopiedListener],
) -> Vec<VisitedHost> {
    let mut found: Vec<VisitedHost> = Vec::new();
    for host in &served.hosts {
        let own: Vec<&CopiedListener> = own(host, listeners).collect();
        let has = |is_tls: bool| {
            own.iter().any(|one| one.is_tls == is_tls) || host.listeners.is_empty() && !is_tls
        };
        let mut names = host.names.clone();
        if names.is_empty() {
            names.push(NO_NAME.to_owned());
        }
        let visited = VisitedHost {
            name: names.first().cloned().unwrap_or_default(),
            names,
            root: host.root.clone(),
            has_plain: has(false),
            has_tls: has(true),
            has_content: host.root.is_some()
                || served.hosts.len() == 1
                || has_content(served, &host.names),
        };
        // Servers with the same name on different ports are one host.
        match found.iter_mut().find(|known| known.name == visited.name) {
            Some(known) => {
                known.root = known.root.take().or(visited.root);
                known.has_plain |= visited.has_plain;
                known.has_tls |= visited.has_tls;
                known.has_content |= visited.has_content;
                known.names.extend(visited.names);
                known.names.dedup();
            }
            None => found.push(visited),
        }
    }
    found
}

/// Whether a statement defines the content of a host.
fn has_content(served: &ServedConfiguration, names: &[String]) -> bool {
    served.statements.iter().any(|statement| {
        let is_own = statement.hosts.iter().any(|host| names.contains(host));
        is_own && statement.subject == StatementSubject::Content
    })
}

/// The host name for a server without a name.
const NO_NAME: &str = "localhost";
